"""Run one experiment or all of them, and write their results.

The folder is written after each experiment, so that an interrupted run can be resumed.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Generic, TypeVar

from .._numerics.progress import with_progress
from ..errors import InvalidSetting
from ..io.atomic import require_writable
from . import ct, face, liver, published, scales
from .output.page import require_replaceable, write
from .output.stored import StoredRun, finished
from .tables import Outcome, paper_numbers, with_paper_numbers

Plan = TypeVar("Plan")
Report = Callable[[str], None]


@dataclass(frozen=True)
class Experiment(Generic[Plan]):
    """An experiment with its full plan and the smaller one of ``--quick``, and the minutes that they take one core."""

    run: Callable[[Plan, int], Outcome]  # plan, seed
    full: Plan
    quick: Plan
    full_minutes: float = 1.0
    quick_minutes: float = 1.0


EXPERIMENTS: dict[str, Experiment[Any]] = {
    "liver": Experiment(liver.run, liver.FULL, liver.QUICK, full_minutes=5, quick_minutes=1),
    "face": Experiment(face.run, face.FULL, face.QUICK, full_minutes=1, quick_minutes=0.5),
    "ct": Experiment(ct.run, ct.FULL, ct.QUICK, full_minutes=4, quick_minutes=1),
    "scales": Experiment(scales.run, scales.FULL, scales.QUICK, full_minutes=7, quick_minutes=0.5),
}


def reproduce(
    names: Sequence[str],
    output: Path,
    quick: bool = False,
    seed: int = 0,
    data: Path | None = None,
    resume: bool = False,
    experiments: Mapping[str, Experiment[Any]] = EXPERIMENTS,
    report: Report = lambda line: None,
) -> tuple[Path, list[Outcome]]:
    """Run experiments by name and write their tables, figures and page; the same seed gives the same tables.

    Returned are the path of the page and the results.  ``quick`` runs the smaller plans.  The paper's numbers are
    printed below ours.  On the data sets of the folder ``data`` the same methods are run too.  ``resume`` keeps the
    experiments that earlier runs into the same folder have finished, whether they are named again or not.  ``report``
    is called with one line at the start, which forecasts the time, and with one line per experiment.
    """
    selected = list(experiments) if "all" in names else list(dict.fromkeys(names))
    for name in selected:
        if name not in experiments:
            raise InvalidSetting(f"experiment {name!r} is unknown; use all, or some of {', '.join(experiments)}")
    # everything that can be refused is refused before the experiments run for minutes
    require_replaceable(output)
    require_writable(output)
    found = None if data is None else published.require_data(data)
    run = StoredRun(_command(names, output, quick, seed, data), version("kernelgpa"), quick, seed)
    kept = {one.name: one for one in finished(output, run) if one.name in experiments} if resume else {}
    if not set(kept) <= set(selected):
        selected += [name for name in kept if name not in selected]
        run = replace(run, command=_command(selected, output, quick, seed, data))
    outcomes = [kept[name] for name in selected if name in kept]
    missing = [name for name in selected if name not in kept]
    report(_forecast(missing, list(kept), experiments, quick))
    for name in with_progress(missing, "experiments", len(missing)):
        outcome = _outcome(experiments[name], quick, seed)
        outcomes = sorted([*outcomes, outcome], key=lambda one: selected.index(one.name))
        write(outcomes, output, run)
        report(f"{name}: {outcome.minutes:.1f} minutes")
    if found is not None:
        outcomes += published.run(found)
    return write(outcomes, output, run), outcomes


def _outcome(experiment: Experiment[Any], quick: bool, seed: int) -> Outcome:
    start = time.perf_counter()
    outcome = experiment.run(experiment.quick if quick else experiment.full, seed)
    minutes = (time.perf_counter() - start) / 60
    return replace(with_paper_numbers(outcome, paper_numbers()), minutes=round(minutes, 2))


def _forecast(
    names: Sequence[str], kept: Sequence[str], experiments: Mapping[str, Experiment[Any]], quick: bool
) -> str:
    """Return which experiments will run, and the time that they take one core."""
    minutes = {name: experiments[name].quick_minutes if quick else experiments[name].full_minutes for name in names}
    listed = ", ".join(f"{name} {of_one:g}" for name, of_one in minutes.items())
    text = f"about {sum(minutes.values()):g} minutes on one core that is free ({listed})" if names else "nothing to run"
    return f"{text}; already finished: {', '.join(kept)}" if kept else text


def _command(names: Sequence[str], output: Path, quick: bool, seed: int, data: Path | None) -> str:
    """Return the command that repeats a run, without the parts of paths that differ between machines."""
    options = ["--quick"] * quick + (["--data", data.name] if data else [])
    return shlex.join(["kernelgpa", "reproduce", *names, *options, "--seed", str(seed), "-o", output.resolve().name])

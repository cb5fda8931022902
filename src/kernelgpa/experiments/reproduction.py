"""Run one experiment or all of them, and write their results."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from .._numerics.progress import with_progress
from ..errors import InvalidSetting
from ..io.atomic import require_writable
from . import ct, face, liver, published, scales
from .page import require_replaceable, write
from .tables import Outcome, paper_numbers, with_paper_numbers

Plan = TypeVar("Plan")


@dataclass(frozen=True)
class Experiment(Generic[Plan]):
    """An experiment with its full plan and the smaller one of ``--quick``."""

    run: Callable[[Plan, int], Outcome]  # plan, seed
    full: Plan
    quick: Plan


EXPERIMENTS: dict[str, Experiment[Any]] = {
    "liver": Experiment(liver.run, liver.FULL, liver.QUICK),
    "face": Experiment(face.run, face.FULL, face.QUICK),
    "ct": Experiment(ct.run, ct.FULL, ct.QUICK),
    "scales": Experiment(scales.run, scales.FULL, scales.QUICK),
}


def reproduce(
    names: Sequence[str],
    output: Path,
    quick: bool = False,
    seed: int = 0,
    data: Path | None = None,
    experiments: Mapping[str, Experiment[Any]] = EXPERIMENTS,
) -> tuple[Path, list[Outcome]]:
    """Run experiments by name and write their tables, figures and page; the same seed gives the same tables.

    Returned are the path of the page and the results.  ``quick`` runs the smaller plans.  The paper's numbers are
    printed below ours.  On the data sets of the folder ``data`` the same methods are run too.
    """
    selected = list(experiments) if "all" in names else list(dict.fromkeys(names))
    for name in selected:
        if name not in experiments:
            raise InvalidSetting(f"experiment {name!r} is unknown; use all, or some of {', '.join(experiments)}")
    # everything that can be refused is refused before the experiments run for minutes
    require_replaceable(output)
    require_writable(output)
    found = None if data is None else published.require_data(data)
    numbers = paper_numbers()
    outcomes = []
    for name in with_progress(selected, "experiments", len(selected)):
        experiment = experiments[name]
        outcome = experiment.run(experiment.quick if quick else experiment.full, seed)
        outcomes.append(with_paper_numbers(outcome, numbers))
    if found is not None:
        outcomes += published.run(found)
    return write(outcomes, output, _command(names, output, quick, seed, data)), outcomes


def _command(names: Sequence[str], output: Path, quick: bool, seed: int, data: Path | None) -> str:
    """Return the command that repeats a run, without the parts of paths that differ between machines."""
    options = ["--quick"] * quick + (["--data", data.name] if data else [])
    return shlex.join(["kernelgpa", "reproduce", *names, *options, "--seed", str(seed), "-o", output.resolve().name])

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
from .tables import Outcome, read_paper_numbers, with_paper_numbers

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
    paper: Path | None = None,
    experiments: Mapping[str, Experiment[Any]] = EXPERIMENTS,
) -> tuple[Path, list[Outcome]]:
    """Run experiments by name and write their tables, figures and page; the same seed gives the same tables.

    Returned are the path of the page and the results.  ``quick`` runs the smaller plans.  On the data sets of the
    folder ``data`` the same methods are run too, and the paper's numbers in the folder ``paper`` are printed below
    ours.
    """
    selected = list(experiments) if "all" in names else list(dict.fromkeys(names))
    for name in selected:
        if name not in experiments:
            raise InvalidSetting(f"experiment {name!r} is unknown; use all, or some of {', '.join(experiments)}")
    # everything that can be refused is refused before the experiments run for minutes
    require_replaceable(output)
    require_writable(output)
    found = None if data is None else published.require_data(data)
    numbers = None if paper is None else read_paper_numbers(paper)
    if paper is not None and paper.resolve() == output.resolve():
        raise InvalidSetting(f"{output} holds the paper's numbers and would be replaced; give another output folder")
    outcomes = []
    for name in with_progress(selected, "experiments", len(selected)):
        experiment = experiments[name]
        outcomes.append(experiment.run(experiment.quick if quick else experiment.full, seed))
    if found is not None:
        outcomes += published.run(found)
    if numbers is not None:
        outcomes = with_paper_numbers(outcomes, numbers)
    return write(outcomes, output, _command(names, output, quick, seed, data, paper)), outcomes


def _command(names: Sequence[str], output: Path, quick: bool, seed: int, data: Path | None, paper: Path | None) -> str:
    """Return the command that repeats a run, without the parts of paths that differ between machines."""
    folders = {"--data": data, "--paper": paper}
    options = ["--quick"] * quick + [word for name, one in folders.items() if one for word in (name, one.name)]
    return shlex.join(["kernelgpa", "reproduce", *names, *options, "--seed", str(seed), "-o", output.resolve().name])

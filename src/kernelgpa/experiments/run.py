"""One experiment or all of them, and what they leave on the disk."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

from .._numerics.progress import with_progress
from ..errors import InvalidSetting
from ..io.atomic import require_writable
from . import ct, face, liver, published, scales
from .page import require_replaceable, write
from .paper import numbers_in, set_beside
from .tables import Outcome

EXPERIMENTS: dict[str, Callable[[bool, int], Outcome]] = {
    "liver": liver.run,
    "face": face.run,
    "ct": ct.run,
    "scales": scales.run,
}


def reproduce(
    names: Sequence[str],
    output: Path,
    quick: bool = False,
    seed: int = 0,
    data: Path | None = None,
    paper: Path | None = None,
) -> tuple[Path, list[Outcome]]:
    """Run experiments by name and write their tables, figures and page; the same seed gives the same tables.

    ``data`` is a folder of published or other data on which the same methods are run too; ``paper`` one of
    tables with the paper's numbers, to stand beside ours.
    """
    wanted = list(EXPERIMENTS) if "all" in names else list(dict.fromkeys(names))
    for name in wanted:
        if name not in EXPERIMENTS:
            raise InvalidSetting(f"experiment {name!r} is unknown; use all, or some of {', '.join(EXPERIMENTS)}")
    require_replaceable(output)  # this, the next and the data before what takes minutes
    require_writable(output)
    found = None if data is None else published.found_in(data)
    numbers = None if paper is None else numbers_in(paper)
    if paper is not None and paper.resolve() == output.resolve():
        raise InvalidSetting(
            f"{output} holds the paper's numbers, and would be replaced; give another folder as output"
        )
    outcomes = [EXPERIMENTS[name](quick, seed) for name in with_progress(wanted, "experiments", len(wanted))]
    if found is not None:
        outcomes += published.run(found)
    if numbers is not None:
        outcomes = set_beside(outcomes, numbers)
    folders = {"--data": data, "--paper": paper}
    options = ["--quick"] * quick + [word for name, one in folders.items() if one for word in (name, one.name)]
    command = shlex.join(["kernelgpa", "reproduce", *names, *options, "--seed", str(seed), "-o", output.resolve().name])
    return write(outcomes, output, command), outcomes

"""One experiment or all of them, and what they leave on the disk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from ..errors import InvalidSetting
from ..progress import tracked
from . import ct, face, liver, published, scales
from .common import Outcome
from .page import write

EXPERIMENTS: dict[str, Callable[[bool, int], Outcome]] = {
    "liver": liver.run,
    "face": face.run,
    "ct": ct.run,
    "scales": scales.run,
}


def reproduce(
    names: Sequence[str], output: Path, quick: bool = False, seed: int = 0, data: Path | None = None
) -> tuple[Path, list[Outcome]]:
    """Run experiments by name and write their tables, figures and page; the same seed gives the same tables.

    ``data`` is a folder of published or other data on which the same methods are run too.
    """
    wanted = list(EXPERIMENTS) if "all" in names else list(dict.fromkeys(names))
    for name in wanted:
        if name not in EXPERIMENTS:
            raise InvalidSetting(f"experiment {name!r} is unknown; use all, or some of {', '.join(EXPERIMENTS)}")
    outcomes = [EXPERIMENTS[name](quick, seed) for name in tracked(wanted, "experiments", len(wanted))]
    if data is not None:
        outcomes += published.run(data)
    command = f"kernelgpa reproduce {' '.join(names)}{' --quick' if quick else ''} --seed {seed}"
    return write(outcomes, output, command), outcomes

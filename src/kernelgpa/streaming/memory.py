"""Whether the next update of a running sum has enough memory, found out before anything is changed.

Counted are numbers of eight bytes, with n clouds that each see s of m landmarks, d dimensions and q features per cloud:

    n s^2 or n s q     reduced clouds
    14 m^2             the sums in two parts, their next state, and the solve
    8 n m d            stacked clouds
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .._numerics.system_memory import available_memory
from ..errors import TooLarge
from ..spectrum.forecast import WORD
from ..typing import Name
from .running_sum import CloudKey, RunningSum


@dataclass(frozen=True)
class MemoryLimits:
    """How much memory an update may take."""

    unchecked: int = 1 << 25  # bytes: less is taken without asking the system, which takes longer than most frames
    available: Callable[[], int] = available_memory  # bytes that the system can still give


def require_memory(
    running: RunningSum,
    limits: MemoryLimits,
    names: Sequence[Name] = (),
    leaving: Sequence[CloudKey] = (),
) -> None:
    """Raise TooLarge unless an update has enough memory after a cloud with these landmarks came and others left."""
    d, features = running.dimension, running.family.features(running.dimension)
    held = running.nbytes + WORD * _reduced_clouds(running.sizes, d, features)

    def missing(sizes: Sequence[int], m: int) -> tuple[int, int] | None:
        """The bytes that are needed and that are available, unless they suffice."""
        numbers = 14 * m**2 + 8 * len(sizes) * m * d + _reduced_clouds(sizes, d, features)
        needed = max(0, WORD * numbers - held)
        if needed <= limits.unchecked:
            return None
        available = limits.available()
        return None if needed <= available else (needed, available)

    if missing(*running.size_bounds_with(names)) is None:
        return
    sizes, m = running.sizes_with(names, leaving)
    found = missing(sizes, m)
    if found is None:
        return
    what = f"a frame of {len(names)} landmarks" if names else "this update"
    raise TooLarge(
        f"{what} would take {found[0] / 1e9:.2f} GB of {found[1] / 1e9:.2f} GB free, because {m} landmarks are shared "
        f"by {len(sizes)} frames; use fewer landmarks per frame or a smaller window"
    )


def _reduced_clouds(sizes: npt.ArrayLike, d: int, features: int | None) -> int:
    """Numbers that the reduced clouds of a stream hold; ``features`` per cloud, or None for as many as points."""
    s = np.asarray(sizes, dtype=np.int64)
    return int(np.sum(s * (s if features is None else np.minimum(features, s) + d + 1)))

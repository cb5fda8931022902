"""Clouds grouped by which landmarks they did not see, so that each pattern is solved once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..typing import BoolArray, IndexArray

MOST_ENTRIES = 4_000_000  # of the inverses of one group, which are formed at once


@dataclass(frozen=True)
class PatternGroup:
    """The patterns with the same number k of unseen coordinates."""

    hidden: IndexArray  # (p, k) the unseen coordinates of each pattern
    clouds: IndexArray  # (c,) the clouds that have one of these patterns
    pattern: IndexArray  # (c,) which one


@dataclass(frozen=True)
class Patterns:
    """The visibility patterns of some clouds; clouds that saw everything belong to no group."""

    groups: tuple[PatternGroup, ...]

    @classmethod
    def of(cls, seen: BoolArray) -> Patterns:  # (n, D)
        patterns, which = np.unique(seen, axis=0, return_inverse=True)
        which = which.ravel()
        counts = np.sum(~patterns, axis=1)
        groups = []
        for count in np.unique(counts[counts > 0]):
            alike = np.flatnonzero(counts == count)
            size = max(1, MOST_ENTRIES // int(count) ** 2)
            for chosen in np.split(alike, range(size, len(alike), size)):
                position = np.full(len(patterns), -1)
                position[chosen] = np.arange(len(chosen))
                clouds = np.flatnonzero(position[which] >= 0)
                hidden = np.stack([np.flatnonzero(~patterns[p]) for p in chosen])
                groups.append(PatternGroup(hidden, clouds, position[which[clouds]]))
        return cls(tuple(groups))

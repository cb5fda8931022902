"""Clouds grouped by the weights of their observations, so that each visibility pattern is solved once.

The weight of an observation is 0 if the landmark was not seen, 1 if it counts fully, and in between if it is less
accurate.  Coordinates of full weight are taken as they are; the other ones, which a pattern lists, are predicted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..typing import Array, BoolArray, IndexArray

MOST_ENTRIES = 4_000_000  # of the matrices of one group, which are formed at once


@dataclass(frozen=True)
class PatternGroup:
    """The patterns with the same number k of coordinates that are predicted; k = 0 for complete clouds."""

    hidden: IndexArray  # (p, k) these coordinates of each pattern
    weights: Array  # (p, k) their weights, below 1
    clouds: IndexArray  # (c,) the clouds that have one of these patterns
    pattern: IndexArray  # (c,) which one


@dataclass(frozen=True)
class Patterns:
    """The visibility patterns of n clouds with D coordinates."""

    shape: tuple[int, int]  # n, D
    groups: tuple[PatternGroup, ...]

    @classmethod
    def of(cls, weights: Array | BoolArray) -> Patterns:  # (n, D); True and False are 1 and 0
        n, D = weights.shape
        first, which = _unique_rows(weights)
        patterns = weights[first].astype(np.float64)
        counts = np.sum(patterns < 1, axis=1)
        groups = []
        for count in np.unique(counts):
            alike = np.flatnonzero(counts == count)
            size = max(1, MOST_ENTRIES // max(1, int(count) * D))
            for chosen in np.split(alike, range(size, len(alike), size)):
                position = np.full(len(patterns), -1)
                position[chosen] = np.arange(len(chosen))
                clouds = np.flatnonzero(position[which] >= 0)
                hidden = np.nonzero(patterns[chosen] < 1)[1].reshape(len(chosen), count)
                own = np.take_along_axis(patterns[chosen], hidden, axis=1)
                groups.append(PatternGroup(hidden, own, clouds, position[which[clouds]]))
        return cls((n, D), tuple(groups))

    @property
    def are_complete(self) -> bool:
        """Whether every cloud saw every landmark with full weight."""
        return all(group.hidden.shape[1] == 0 for group in self.groups)

    def __iter__(self) -> Iterator[tuple[IndexArray, Array, IndexArray]]:
        """One pattern after the other: coordinates that are predicted (k,), their weights (k,), its clouds (c,)."""
        for group in self.groups:
            for p, (hidden, weights) in enumerate(zip(group.hidden, group.weights, strict=True)):
                yield hidden, weights, group.clouds[group.pattern == p]


def _unique_rows(rows: Array | BoolArray) -> tuple[IndexArray, IndexArray]:
    """The first row of each kind, and the kind of each row; rows are compared as bytes, which is fast."""
    packed: npt.NDArray[Any] = np.ascontiguousarray(rows) if rows.dtype != bool else np.packbits(rows > 0, axis=1)
    keys = packed.view(np.dtype((np.void, packed.dtype.itemsize * packed.shape[1]))).ravel()
    _, first, which = np.unique(keys, return_index=True, return_inverse=True)
    return first, which.ravel()

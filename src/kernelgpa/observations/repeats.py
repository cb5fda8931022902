"""Positions that occur more than once: placeholders for "not seen", and clouds that are given twice.

Measured coordinates are never exactly equal.  Equal ones are therefore a code for a landmark that could not be seen,
if they lie far from the other landmarks, or a copy of another cloud, if many landmarks of two clouds have them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import NamedTuple

import numpy as np

from ..typing import Array, BoolArray, IndexArray
from .cloud import Cloud
from .geometry import RESOLUTION_MARGIN

FAR_AWAY = 5.0  # median distances of the landmarks of a cloud from its centre
LEAST_EQUAL = 0.5  # share of the landmarks that two clouds both see
MOST_PER_POSITION = 50  # clouds with one position of a landmark: more are a fixed point, and no duplicates
COINCIDENT = 4  # landmarks of one cloud at the same position that are too many for chance


class Repeated(NamedTuple):
    """Observations with exactly the same coordinates."""

    position: Array  # (d,)
    clouds: IndexArray  # (k,)
    landmarks: IndexArray  # (k,)


def repeated_positions(points: Array) -> list[Repeated]:  # (n, m, d)
    """All coordinates that two or more observations have, in the order in which they first occur."""
    clouds, landmarks = np.nonzero(~np.isnan(points[:, :, 0]))
    positions, groups, counts = np.unique(points[clouds, landmarks], axis=0, return_inverse=True, return_counts=True)
    order = np.argsort(groups.reshape(-1), kind="stable")
    members = np.split(order, np.cumsum(counts)[:-1])
    found = [(positions[g], members[g]) for g in np.flatnonzero(counts >= 2)]
    return [Repeated(value, clouds[rows], landmarks[rows]) for value, rows in sorted(found, key=lambda one: one[1][0])]


def far_away(points: Array) -> BoolArray:  # (n, m, d) -> (n, m)
    """Whether an observation is much farther from the median of its cloud than half of the others are."""
    some = ~np.isnan(points[:, :, 0]).all(axis=1)
    far = np.zeros(points.shape[:2], dtype=bool)
    distances = np.linalg.norm(points[some] - np.nanmedian(points[some], axis=1, keepdims=True), axis=2)
    far[some] = np.nan_to_num(distances) > FAR_AWAY * np.nanmedian(distances, axis=1, keepdims=True)
    return far


def equal_clouds(points: Array) -> list[tuple[int, int]]:  # (n, m, d)
    """Pairs of clouds with exactly the same coordinates on most landmarks that both see, and on more than d of them."""
    seen = ~np.isnan(points[:, :, 0])
    least = points.shape[2] + 1
    return [
        (a, b)
        for (a, b), count in sorted(_equal_landmarks(points).items())
        if count >= max(least, LEAST_EQUAL * int((seen[a] & seen[b]).sum()))
    ]


def _equal_landmarks(points: Array) -> Counter[tuple[int, int]]:
    """For pairs of clouds, how many landmarks have exactly the same position."""
    pairs: Counter[tuple[int, int]] = Counter()
    for j in range(points.shape[1]):
        for clouds in _clouds_by_position(points[:, j]).values():
            if 1 < len(clouds) <= MOST_PER_POSITION:
                pairs.update((a, b) for i, a in enumerate(clouds) for b in clouds[i + 1 :])
    return pairs


def _clouds_by_position(positions: Array) -> dict[bytes, list[int]]:  # (n, d)
    found: dict[bytes, list[int]] = defaultdict(list)
    for t in np.flatnonzero(~np.isnan(positions[:, 0])).tolist():
        found[positions[t].tobytes()].append(t)
    return found


def coincident_points(cloud: Cloud) -> IndexArray:
    """The largest set of COINCIDENT or more points that coincide, up to the rounding of a rotation of the data."""
    tolerance = RESOLUTION_MARGIN * cloud.points.shape[1] * cloud.resolution
    first = np.sort(cloud.points[:, 0])
    if not np.any(first[COINCIDENT - 1 :] - first[: len(first) - COINCIDENT + 1] <= tolerance):  # the usual case
        return np.zeros(0, dtype=np.intp)
    sets = [np.arange(len(cloud.points))]
    for coordinate in cloud.points.T:
        orders = [some[np.argsort(coordinate[some], kind="stable")] for some in sets]
        runs = [run for order in orders for run in _runs(order, coordinate[order], tolerance)]
        sets = [run for run in runs if len(run) >= COINCIDENT]
    return np.sort(max(sets, key=len)) if sets else np.zeros(0, dtype=np.intp)


def _runs(order: IndexArray, ascending: Array, tolerance: float) -> list[IndexArray]:
    """Consecutive items in runs, none of which extends further than the tolerance."""
    starts = [0]
    for i, value in enumerate(ascending.tolist()):
        if value - ascending[starts[-1]] > tolerance:
            starts.append(i)
    return np.split(order, starts[1:])

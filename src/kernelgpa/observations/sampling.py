"""Samples of a cloud: the mean distance between points, farthest points, compact regions."""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import cdist, pdist

from ..typing import Array, IndexArray
from .geometry import frame_of

SAMPLE = 2000  # points from which the mean distance of more than twice as many is taken
SAME_DISTANCE = 1e-9  # distances that differ by less, as a share, are the same: on a grid many are


def mean_pairwise_distance(points: Array) -> float:  # (s, d) -> mean over all pairs
    """Of many points the mean over a sample, the same in whatever order they come: every k-th along the widest axis.

    The sample is the same from either end, because the sign of an axis is an accident.
    """
    if len(points) > 2 * SAMPLE:
        along = np.argsort((points - points.mean(axis=0)) @ frame_of(points).axes[0], kind="stable")
        half = np.linspace(0, (len(points) - 1) // 2, SAMPLE // 2).astype(np.intp)
        points = points[along[np.concatenate([half, len(points) - 1 - half])]]
    return float(pdist(points).mean())


def farthest_points(points: Array, count: int, first: int = 0) -> IndexArray:  # (s, d) -> (count,)
    """Indices of points spread over the cloud: each next one farthest from those before, from ``first`` on.

    Of points that are equally far the first is taken.
    """
    count = min(count, len(points))
    chosen = np.full(count, first, dtype=np.intp)
    columns = np.ascontiguousarray(points.T)
    distance, square = np.full(len(points), np.inf), np.empty(len(points))
    for i in range(1, count):
        square.fill(0.0)
        for column in columns:
            square += (column - column[chosen[i - 1]]) ** 2
        np.minimum(distance, square, out=distance)
        chosen[i] = np.argmax(distance >= (1 - SAME_DISTANCE) * distance.max())
    return chosen


def outermost_point(centred: Array) -> int:  # (s, d)
    """The point farthest from the centre; of points equally far the first."""
    squares = np.sum(centred**2, axis=1)
    return int(np.argmax(squares >= (1 - SAME_DISTANCE) * squares.max()))


def regions(points: Array, count: int) -> IndexArray:  # (s, d) -> (s,), which region each point belongs to
    """The points in compact regions, each around one of ``count`` farthest points."""
    centres = points[farthest_points(points, count)]
    return np.argmin(cdist(points, centres), axis=1)

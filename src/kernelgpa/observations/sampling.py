"""Mean distance between the points of a cloud, farthest-point sampling, and compact regions."""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import cdist, pdist

from ..typing import Array, IndexArray
from .geometry import frame_of

DISTANCE_SAMPLE = 2000  # points that represent a cloud of more than twice as many in the mean distance
SAME_DISTANCE = 1e-9  # distances that differ by less than this share are equal, as many are on a grid


def mean_pairwise_distance(points: Array) -> float:  # (s, d) -> mean over all pairs
    """The mean distance between two points.

    For many points it is the mean over a sample, every k-th point along the widest axis, which does not depend on the
    order of the points.  The sample is symmetric about its middle, because the sign of an axis is arbitrary.
    """
    if len(points) > 2 * DISTANCE_SAMPLE:
        along = np.argsort((points - points.mean(axis=0)) @ frame_of(points).axes[0], kind="stable")
        half = np.linspace(0, (len(points) - 1) // 2, DISTANCE_SAMPLE // 2).astype(np.intp)
        points = points[along[np.concatenate([half, len(points) - 1 - half])]]
    return float(pdist(points).mean())


def farthest_points(points: Array, count: int, first: int = 0) -> IndexArray:  # (s, d) -> (count,)
    """Indices of farthest points: starting with ``first``, each next point is the farthest from those before.

    Of several points at the same distance it is the first one.
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
    """The point farthest from the centre; of several points at the same distance the first one."""
    squares = np.sum(centred**2, axis=1)
    return int(np.argmax(squares >= (1 - SAME_DISTANCE) * squares.max()))


def regions(points: Array, count: int) -> IndexArray:  # (s, d) -> (s,), the region of each point
    """Divide the points into compact regions, one around each of ``count`` farthest points."""
    centres = points[farthest_points(points, count)]
    return np.argmin(cdist(points, centres), axis=1)

"""Clouds of another size than the others, which probably have another unit.

The size of a cloud is the median distance of its landmarks from its centre, relative to the same distance in the map:

    s_t = median_j |p_tj - c_t| / median_j |M_j - c'_t|,        c_t and c'_t the medians of each coordinate

Medians are weighted, so that an observation of vanishing weight counts like a missing one.  They ignore wrong matches
and placeholders, unless these have half of the weight.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...observations import Cloud, Observations
from ...typing import Array, BoolArray

LARGEST_BLOCK = 1_000_000  # observations of which the medians are found at a time
SIZE_RATIO = 3.0  # a cloud this many times larger or smaller than the others probably has another unit


def of_another_size(ratios: Array) -> BoolArray:  # (n,) -> (n,)
    return np.asarray((ratios > SIZE_RATIO) | (ratios < 1 / SIZE_RATIO))


def relative_sizes(observations: Observations, positions: Array) -> Array:  # (m, d) -> (n,)
    """The sizes of the clouds relative to the map, in units of their median; 1 for a cloud without a size."""
    n, step = len(observations.clouds), max(1, LARGEST_BLOCK // max(1, len(positions)))
    blocks = [observations.clouds[first : first + step] for first in range(0, n, step)]
    ratios = np.concatenate([_size_ratios(block, positions) for block in blocks])
    has_size = np.isfinite(ratios)
    return np.where(has_size, ratios / np.median(ratios[has_size]), 1.0) if has_size.any() else np.ones(n)


def _size_ratios(clouds: Sequence[Cloud], positions: Array) -> Array:  # (m, d) -> (n,), NaN for a cloud without a size
    seen, (m, d) = [cloud.seen for cloud in clouds], positions.shape
    rows, columns = np.repeat(np.arange(len(clouds)), [len(one) for one in seen]), np.concatenate(seen)
    points, weights = np.zeros((d, len(clouds), m)), np.zeros((len(clouds), m))
    points[:, rows, columns] = np.concatenate([cloud.points for cloud in clouds]).T
    known = np.isfinite(positions[:, 0])
    weights[rows, columns] = np.concatenate([cloud.weights for cloud in clouds]) * known[columns]
    mapped = np.where(known, positions.T, 0.0)[:, None]
    own = _median_distances(points, weights)
    of_map = _median_distances(np.broadcast_to(mapped, points.shape), weights)
    has_size = (weights.sum(axis=1) > 0) & (own > 0) & (of_map > 0)
    return np.divide(own, of_map, out=np.full(len(clouds), np.nan), where=has_size)


def _median_distances(points: Array, weights: Array) -> Array:  # (d, n, m), (n, m) -> (n,)
    """The median distance from the medians of the coordinates, for each cloud."""
    centres = [weighted_medians(one, weights)[:, None] for one in points]
    squares = sum((one - centre) ** 2 for one, centre in zip(points, centres, strict=True))
    return weighted_medians(np.sqrt(squares), weights)


def weighted_medians(values: Array, weights: Array) -> Array:  # (n, s), (n, s) -> (n,)
    """The smallest value in each row such that those up to it have half of the weight of the row."""
    order = np.argsort(values, axis=1, kind="stable")
    cumulative = np.cumsum(np.take_along_axis(weights, order, axis=1), axis=1)
    middle = np.sum(cumulative < 0.5 * cumulative[:, -1:], axis=1)
    return np.take_along_axis(values, np.take_along_axis(order, middle[:, None], axis=1), axis=1)[:, 0]

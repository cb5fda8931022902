"""Clouds of another size than the others, which probably have another unit.

The size of a cloud is the median distance of its landmarks from its centre, relative to the same distance in the map:

    s_t = median_j |p_tj - c_t| / median_j |M_j - c'_t|,        c_t and c'_t the medians of each coordinate

Medians are weighted, so that an observation of vanishing weight counts like a missing one.  They ignore wrong matches
and placeholders, unless these have half of the weight.
"""

from __future__ import annotations

import numpy as np

from ...observations import Observations
from ...typing import Array, BoolArray

SIZE_RATIO = 3.0  # a cloud this many times larger or smaller than the others probably has another unit


def of_another_size(ratios: Array) -> BoolArray:  # (n,) -> (n,)
    return np.asarray((ratios > SIZE_RATIO) | (ratios < 1 / SIZE_RATIO))


def relative_sizes(observations: Observations, positions: Array) -> Array:  # (m, d) -> (n,)
    """The sizes of the clouds relative to the map, in units of their median; 1 for a cloud without a size."""
    ratios = np.full(len(observations.clouds), np.nan)
    for t, cloud in enumerate(observations.clouds):
        mapped = positions[cloud.seen]
        known = np.isfinite(mapped[:, 0]) & (cloud.weights > 0)
        if not known.any():
            continue
        weights = cloud.weights[known]
        own, of_map = _median_distance(cloud.points[known], weights), _median_distance(mapped[known], weights)
        if own > 0 and of_map > 0:
            ratios[t] = own / of_map
    has_size = np.isfinite(ratios)
    return np.where(has_size, ratios / np.median(ratios[has_size]), 1.0) if has_size.any() else np.ones(len(ratios))


def _median_distance(points: Array, weights: Array) -> float:  # (s, d), (s,)
    """The median distance from the medians of the coordinates."""
    centre = np.array([weighted_median(column, weights) for column in points.T])
    return weighted_median(np.linalg.norm(points - centre, axis=1), weights)


def weighted_median(values: Array, weights: Array) -> float:  # (s,), (s,)
    """The smallest value such that those up to it have half of the weight."""
    order = np.argsort(values, kind="stable")
    cumulative = np.cumsum(weights[order])
    return float(values[order[np.searchsorted(cumulative, 0.5 * cumulative[-1])]])

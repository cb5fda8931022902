"""Leave-one-out residuals of rigid motions and similarities.

After its motion, the observation p_tj of cloud t lies at y_tj.  One of the k clouds that saw a landmark has a share of
1/k in its position M_j in the map.  The distance from the mean of the other clouds is therefore

    r_tj = k / (k - 1) |y_tj - M_j|

A single far-away observation determines the motion of its own cloud, so that it seems to fit.  Observations of large
leverage are therefore compared with the motion of their cloud that is fitted without them:

    h_tj = w_tj / sum_j w_tj + w_tj |p_tj - mean|^2 / sum_j w_tj |p_tj - mean|^2 > LARGE_LEVERAGE
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...gauge.poses import pose_onto
from ...observations.cloud import Cloud
from ...observations.stacked import StackedClouds
from ...typing import Array, BoolArray
from ...warps import Warp
from ..problem import Problem

LARGE_LEVERAGE = 0.3  # the sum over the observations of a cloud is 2


def motion_residual_lengths(
    problem: Problem,
    motions: Sequence[Warp],  # (n,)
    scaling: bool,  # whether each cloud has a size factor
    positions: Array,  # (k, d) of the shared landmarks in the map
) -> Array:  # (n, k)
    """Distances of all observations, after the motions of their clouds, from the mean of the other clouds."""
    stacked = problem.restricted.stacked
    moved = _moved(motions, stacked)
    for t, j in np.argwhere(leverages(stacked) > LARGE_LEVERAGE):
        cloud = problem.restricted.clouds[t]
        moved[t, j] = moved_without(cloud, positions[cloud.seen], cloud.seen == j, scaling)[0]
    views = np.full((len(motions), 1), np.inf)
    views[problem.participating] = 1.0
    shares = 1 / (views * problem.counts[problem.landmarks])  # of each observation in the position of its landmark
    lengths = np.linalg.norm(moved - positions, axis=2) / (1 - shares)
    return np.where(stacked.weights.T > 0, lengths, np.nan)


def _moved(motions: Sequence[Warp], stacked: StackedClouds) -> Array:  # (n, k, d)
    """All observations after the motions of their clouds; the means of the clouds keep the digits of far ones."""
    centres, sizes = np.array([one.frame.centre for one in motions]), np.array([one.frame.size for one in motions])
    coefficients = np.array([one.coefficients for one in motions])
    linear = coefficients[:, :-1] / sizes[:, None, None]
    means = (stacked.means - centres)[:, None] @ linear + coefficients[:, -1:]
    return np.asarray(stacked.centred @ linear + means)


def leverages(stacked: StackedClouds) -> Array:  # (n, k)
    """The share of each observation in the position, plus its share in the orientation of its cloud."""
    weights = stacked.weights.T
    squares = weights * np.sum(stacked.centred**2, axis=2)
    return np.asarray(weights / weights.sum(axis=1)[:, None] + squares / squares.sum(axis=1)[:, None])


def moved_without(
    cloud: Cloud,
    targets: Array,  # (s, d)
    left_out: BoolArray,  # (s,)
    scaling: bool,
) -> Array:  # (b, d)
    """Where the motion that is fitted to the other observations takes those that are left out.

    They stay at their targets if the others are too few to determine a motion.
    """
    kept = ~left_out
    if kept.sum() < cloud.points.shape[1]:
        return targets[left_out]
    rest = Cloud(cloud.name, np.arange(kept.sum()), cloud.points[kept], cloud.weights[kept])
    rotation, _ = pose_onto(rest, targets[kept])
    mean = rest.weights @ targets[kept] / rest.weights.sum()
    factor = 1.0
    if scaling:
        products = np.sum((targets[kept] - mean) * (rest.centred @ rotation.T), axis=1)
        squares = rest.weights @ np.sum(rest.centred**2, axis=1)
        factor = float(rest.weights @ products / squares) if squares > 0 else 1.0
    return np.asarray(factor * (cloud.points[left_out] - rest.mean) @ rotation.T + mean)

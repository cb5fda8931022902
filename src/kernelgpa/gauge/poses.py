"""The pose of one cloud relative to given landmark positions, and its jackknife covariance.

The pose minimises  sum_j w_j |R p_j + t - q_j|^2  over rigid motions (R, t).  This rigid Procrustes analysis of one
cloud determines its pose once the positions are known (Remark 2 of the paper).
"""

from __future__ import annotations

import numpy as np

from ..observations.cloud import Cloud
from ..observations.sampling import regions
from ..typing import Array
from .rotations import nearest_rotation


def pose_onto(cloud: Cloud, targets: Array) -> tuple[Array, Array]:  # targets (s, d)
    """R and t of the motion that brings a cloud nearest to given positions of its landmarks."""
    normalised = cloud.weights / cloud.weights.sum()
    mean = normalised @ targets
    rotation = nearest_rotation((targets - mean).T @ (cloud.weights[:, None] * cloud.centred))
    return rotation, mean - rotation @ cloud.mean


def jackknifed_poses(cloud: Cloud, targets: Array, count: int) -> list[tuple[Array, Array]]:  # targets (s, d)
    """The poses onto given positions without each of ``count`` regions of the cloud in turn.

    Deformation moves whole regions; therefore the errors of single landmarks are not independent, but those of regions
    nearly are.
    """
    order = np.lexsort(cloud.points.T)  # so that the regions do not depend on the order of the landmarks
    labels = np.empty(len(order), dtype=np.intp)
    labels[order] = regions(cloud.points[order], count)
    poses = []
    for keep in (labels != label for label in np.unique(labels)):
        if np.sum(keep) > cloud.points.shape[1]:
            part = Cloud(cloud.name, np.flatnonzero(keep), cloud.points[keep], cloud.weights[keep])
            poses.append(pose_onto(part, targets[keep]))
    return poses


def jackknife_covariance(estimates: Array) -> Array:  # (k, q) -> (q, q)
    """The covariance of an estimate, from the estimates without each of k parts."""
    centred = estimates - estimates.mean(axis=0)
    return np.asarray((len(estimates) - 1) / len(estimates) * centred.T @ centred)

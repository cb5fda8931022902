"""The pose of one cloud relative to given landmark positions, and its jackknife covariance."""

from __future__ import annotations

import numpy as np

from ..observations.cloud import Cloud
from ..observations.sampling import regions
from ..typing import Array
from .rotations import nearest_rotation


def pose_onto(cloud: Cloud, target: Array) -> tuple[Array, Array]:  # target (s, d)
    """R and t that bring a cloud nearest to given places."""
    share = cloud.weights / cloud.weights.sum()
    there = share @ target
    rotation = nearest_rotation((target - there).T @ (cloud.weights[:, None] * cloud.centred))
    return rotation, there - rotation @ cloud.mean


def jackknifed_poses(cloud: Cloud, places: Array, count: int) -> list[tuple[Array, Array]]:  # (s, d)
    """The poses onto given places without each of ``count`` regions of the cloud.

    Deformation moves whole regions, so landmarks do not err one by one, and regions are what is left out.
    """
    order = np.lexsort(cloud.points.T)  # the same regions in whatever order the landmarks come
    labels = np.empty(len(order), dtype=np.intp)
    labels[order] = regions(cloud.points[order], count)
    poses = []
    for keep in (labels != label for label in np.unique(labels)):
        if np.sum(keep) > cloud.points.shape[1]:
            part = Cloud(cloud.name, np.flatnonzero(keep), cloud.points[keep], cloud.weights[keep])
            poses.append(pose_onto(part, places[keep]))
    return poses


def jackknife_covariance(moves: Array) -> Array:  # (k, q) -> (q, q)
    """Covariance of an estimate, from what it is without each of k parts."""
    centred = moves - moves.mean(axis=0)
    return np.asarray((len(moves) - 1) / len(moves) * centred.T @ centred)

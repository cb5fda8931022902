"""How far the pose of a cloud can be trusted, given that the cloud deforms."""

from __future__ import annotations

import numpy as np

from ..frames import Array, regions
from ..observations import Cloud
from ..rigid import pose_onto
from ..rotations import rotation_vector

REGIONS = 8
LEAST = 1e-6  # of the cloud's size, and radians: no pose is known better


def pose_trust(cloud: Cloud, places: Array) -> Array:  # (s, d) -> (q, q)
    """Covariance of (shift, turn) of a pose, in the sensor's own frame: a jackknife over regions of the cloud.

    Deformation moves whole regions, so landmarks do not err one by one, and regions are what is left out.
    """
    rotation, translation = pose_onto(cloud, places)
    order = np.lexsort(cloud.points.T)  # regions begin at the first row, and rows stand otherwise after a checkpoint
    labels = np.empty(len(order), dtype=np.intp)
    labels[order] = regions(cloud.points[order], REGIONS)
    moves = []
    for label in np.unique(labels):
        keep = labels != label
        if np.sum(keep) <= cloud.points.shape[1]:
            continue
        part = Cloud(cloud.name, np.arange(int(keep.sum())), cloud.points[keep], cloud.weights[keep])
        turned, moved = pose_onto(part, places[keep])
        moves.append(np.concatenate([rotation.T @ (moved - translation), rotation_vector(rotation.T @ turned)]))
    d = cloud.points.shape[1]
    floor = np.concatenate([np.full(d, LEAST * cloud.frame.size), np.full(d * (d - 1) // 2, LEAST)]) ** 2
    if len(moves) < 2:
        return np.diag(floor * 1e12)
    centred = np.array(moves) - np.mean(moves, axis=0)
    return (len(moves) - 1) / len(moves) * centred.T @ centred + np.diag(floor)

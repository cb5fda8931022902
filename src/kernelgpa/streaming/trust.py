"""How far the pose of a cloud can be trusted, given that the cloud deforms."""

from __future__ import annotations

import numpy as np

from ..gauge.poses import jackknife_covariance, jackknifed_poses, pose_onto
from ..gauge.rotations import rotation_vector
from ..observations.cloud import Cloud
from ..typing import Array

REGIONS = 8
LEAST = 1e-6  # of the cloud's size, and radians: no pose is known better


def pose_trust(cloud: Cloud, places: Array) -> Array:  # (s, d) -> (q, q)
    """Covariance of (shift, turn) of a pose, in the sensor's own frame: a jackknife over regions of the cloud."""
    rotation, translation = pose_onto(cloud, places)
    moves = [
        np.concatenate([rotation.T @ (moved - translation), rotation_vector(rotation.T @ turned)])
        for turned, moved in jackknifed_poses(cloud, places, REGIONS)
    ]
    d = cloud.points.shape[1]
    floor = np.concatenate([np.full(d, LEAST * cloud.frame.size), np.full(d * (d - 1) // 2, LEAST)]) ** 2
    if len(moves) < 2:
        return np.diag(floor * 1e12)
    return jackknife_covariance(np.array(moves)) + np.diag(floor)

"""Poses of sensors: R p + t takes a point p of the sensor's frame into the world."""

from __future__ import annotations

import numpy as np
from scipy.spatial.transform import Rotation

from ..typing import Array


def circular_poses(count: int, radius: float) -> tuple[Array, Array]:  # (n, 3, 3), (n, 3)
    """Return poses on a circle that look at its centre: z forwards, x along the circle."""
    angle = 2 * np.pi * np.arange(count) / count
    outwards = np.column_stack([np.cos(angle), np.sin(angle), np.zeros(count)])
    along = np.column_stack([-np.sin(angle), np.cos(angle), np.zeros(count)])
    forwards = -outwards
    return np.stack([along, np.cross(forwards, along), forwards], axis=2), radius * outwards


def random_poses(
    count: int,
    max_rotation: float,  # degrees about each axis
    max_shift: float,  # mm along each axis
    rng: np.random.Generator,
) -> tuple[Array, Array]:  # (n, 3, 3), (n, 3)
    """Return poses that are rotated and shifted at random."""
    angles = rng.uniform(-max_rotation, max_rotation, (count, 3))
    rotations = Rotation.from_euler("xyz", angles, degrees=True).as_matrix()
    return rotations, rng.uniform(-max_shift, max_shift, (count, 3))

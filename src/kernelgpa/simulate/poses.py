"""Where sensors stand: R p + t takes what the sensor has into the world."""

from __future__ import annotations

import numpy as np
from scipy.spatial.transform import Rotation

from ..typing import Array


def circle(count: int, radius: float) -> tuple[Array, Array]:  # (n, 3, 3), (n, 3)
    """Poses on a circle that look at its centre: z forwards, x along the circle."""
    angle = 2 * np.pi * np.arange(count) / count
    out = np.column_stack([np.cos(angle), np.sin(angle), np.zeros(count)])
    along = np.column_stack([-np.sin(angle), np.cos(angle), np.zeros(count)])
    forwards = -out
    return np.stack([along, np.cross(forwards, along), forwards], axis=2), radius * out


def scattered(
    count: int,
    turn: float,  # degrees, the largest about each axis
    shift: float,  # mm, the largest along each axis
    rng: np.random.Generator,
) -> tuple[Array, Array]:  # (n, 3, 3), (n, 3)
    """Poses turned and shifted at random."""
    angles = rng.uniform(-turn, turn, (count, 3))
    return Rotation.from_euler("xyz", angles, degrees=True).as_matrix(), rng.uniform(-shift, shift, (count, 3))

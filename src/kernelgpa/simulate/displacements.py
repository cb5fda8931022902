"""Smooth displacements of bodies."""

from __future__ import annotations

import numpy as np

from ..typing import Array

BUMPS = 4
BUMP_WIDTH = 0.35


def body_length(points: Array) -> float:  # (v, d)
    """Return the largest extent along a coordinate axis."""
    return float(np.ptp(points, axis=0).max())


def smooth_field(
    points: Array,  # (v, 3)
    size: float,
    rng: np.random.Generator,
    bumps: int = BUMPS,
    width: float = BUMP_WIDTH,  # standard deviation, as a share of the body's length
) -> Array:  # (v, 3)
    """Return a displacement of the given root mean square size: the sum of Gaussian bumps in random directions."""
    centres = points[rng.integers(len(points), size=bumps)]
    directions = rng.standard_normal((bumps, 3))
    width *= body_length(points)
    heights = np.exp(-np.sum((points[:, None] - centres) ** 2, axis=2) / (2 * width**2))
    field = heights @ directions
    return field * size / np.sqrt(np.mean(np.sum(field**2, axis=1)))


def random_stretch(size: float, rng: np.random.Generator) -> Array:  # (3, 3)
    """Return a symmetric matrix near the identity, whose deviations have the standard deviation ``size``.

    It stretches the body along three random directions.  The draws do not depend on the size; a size of 0 draws none.
    """
    if size == 0:
        return np.eye(3)
    deviation = rng.standard_normal((3, 3))
    return np.eye(3) + size * (deviation + deviation.T) / np.sqrt(2) / np.sqrt(1 + np.eye(3))


def smoothstep(x: Array, low: float, high: float | Array) -> Array:
    """Return 0 below ``low``, 1 above ``high``, and 3 t^2 - 2 t^3 between them."""
    t = np.clip((x - low) / (high - low), 0, 1)
    return t**2 * (3 - 2 * t)

"""Smooth displacements of bodies."""

from __future__ import annotations

import numpy as np

from ..typing import Array

BUMPS = 4
BUMP_WIDTH = 0.35  # standard deviation, as a share of the body's length


def body_length(points: Array) -> float:  # (v, d)
    """Return the largest extent along a coordinate axis."""
    return float(np.ptp(points, axis=0).max())


def smooth_field(points: Array, size: float, rng: np.random.Generator) -> Array:  # (v, 3) -> (v, 3)
    """Return a displacement of the given root mean square size: the sum of a few wide bumps."""
    centres = points[rng.integers(len(points), size=BUMPS)]
    directions = rng.standard_normal((BUMPS, 3))
    width = BUMP_WIDTH * body_length(points)
    bumps = np.exp(-np.sum((points[:, None] - centres) ** 2, axis=2) / (2 * width**2))
    field = bumps @ directions
    return field * size / np.sqrt(np.mean(np.sum(field**2, axis=1)))


def smoothstep(x: Array, low: float, high: float | Array) -> Array:
    """Return 0 below ``low``, 1 above ``high``, and 3 t^2 - 2 t^3 between them."""
    t = np.clip((x - low) / (high - low), 0, 1)
    return t**2 * (3 - 2 * t)

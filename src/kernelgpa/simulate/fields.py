"""Smooth displacements."""

from __future__ import annotations

import numpy as np

from ..typing import Array

BUMPS = 4
WIDTH = 0.35  # of a bump, as a share of the body's length


def length_of(points: Array) -> float:  # (v, d)
    """The widest extent along an axis."""
    return float(np.ptp(points, axis=0).max())


def smooth_field(points: Array, size: float, rng: np.random.Generator) -> Array:  # (v, 3) -> (v, 3)
    """A displacement of the given root mean square size: a few wide bumps."""
    centres = points[rng.integers(len(points), size=BUMPS)]
    pushes = rng.standard_normal((BUMPS, 3))
    width = WIDTH * length_of(points)
    bumps = np.exp(-np.sum((points[:, None] - centres) ** 2, axis=2) / (2 * width**2))
    field = bumps @ pushes
    return field * size / np.sqrt(np.mean(np.sum(field**2, axis=1)))


def rising(x: Array, low: float, high: float | Array) -> Array:
    """0 up to ``low``, 1 from ``high`` on, and between them 3 t^2 - 2 t^3."""
    t = np.clip((x - low) / (high - low), 0, 1)
    return t**2 * (3 - 2 * t)

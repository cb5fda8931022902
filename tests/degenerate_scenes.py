"""Degenerate scenes: flat, thin, symmetric, exactly equal, weakly connected or mirrored clouds."""

from __future__ import annotations

import numpy as np

from conftest import random_rotation, scene

THICKNESSES = (0.0, 1e-14, 1e-12, 1e-10, 1e-9, 2.5e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-2)


def embedded(flat, rng):
    """Clouds in a plane (or on a line), embedded in one more dimension and moved rigidly."""
    n, m, d = flat.shape
    raised = np.concatenate([flat, np.zeros((n, m, 1))], axis=2)
    return np.stack([p @ random_rotation(d + 1, rng).T + rng.standard_normal(d + 1) for p in raised])


def thin(thickness, bend=0.0):
    """Clouds close to a plane, with the same small heights in each cloud."""
    flat, _ = scene(d=2, seed=5, bend=bend)
    heights = thickness * np.random.default_rng(9).standard_normal((1, flat.shape[1], 1))
    return np.concatenate([flat, heights + 0 * flat[:, :, :1]], axis=2)  # NaN where unseen


def line(dimension):
    rng = np.random.default_rng(1)
    along = rng.standard_normal(30)
    lines = np.stack([(along + 0.03 * np.sin(3 * along + t))[:, None] for t in range(5)])
    return embedded(lines, rng) if dimension == 2 else embedded(embedded(lines, rng), rng)


def one_flat_cloud(thickness=0.0):
    """Copies of a body; the last cloud saw only fifteen landmarks that lie in one plane, or nearly."""
    rng = np.random.default_rng(0)
    body = scene(d=3, seed=8, hidden=0.0, n=6, m=60, bend=0.0)[0][0]
    body[:15, 2] = 0.3 + thickness * rng.standard_normal(15)
    points = np.stack([body @ random_rotation(3, rng).T + rng.standard_normal(3) for _ in range(6)])
    points[5, 15:] = np.nan
    return points


def one_mirrored(dimension):
    points, _ = scene(n=7, d=dimension, hidden=0.2, seed=2)
    points[3, :, 0] *= -1
    return points


def sheet_bent_both_ways():
    rng = np.random.default_rng(0)
    plane = rng.uniform(-1, 1, (50, 2))
    deforms = [0.1, -0.1, 0.08, -0.08, 0.05]
    return np.stack([np.column_stack([plane, b * plane[:, 0] ** 2]) @ random_rotation(3, rng).T for b in deforms])


def two_groups(shared, bend=0.05, coplanar=False):
    """Two groups of three clouds, with some landmarks in common."""
    points, _ = scene(n=6, m=40, d=3, hidden=0.0, seed=1, bend=bend)
    points[:3, 20 + shared :] = np.nan
    points[3:, :20] = np.nan
    if coplanar:
        points[:, 23] = points[:, 20] + points[:, 21] - points[:, 22]
    return points


def seldom_seen(times, dimension=3):
    """Landmark 7 is seen by no cloud, or by cloud 2 only."""
    points, _ = scene(d=dimension, seed=4)
    seen = points[~np.isnan(points[:, 7, 0]), 7][0]
    points[:, 7] = np.nan
    points[2:3, 7] = seen if times else np.nan
    return points


def grid(dimension, raised=False):
    """Copies of a regular grid: its spreads, and many of its distances, coincide."""
    ticks = np.arange(6.0 if dimension == 2 else 4.0)
    points = np.stack(np.meshgrid(*[ticks] * dimension, indexing="ij"), axis=-1).reshape(-1, dimension)
    points = np.column_stack([points, np.zeros(len(points))]) if raised else points
    return np.stack([points] * 5)


def cloud_with_two_shared_landmarks():
    points, _ = scene(n=5, m=30, d=3, hidden=0.0)
    points[:4, 10:20] = np.nan
    points[4] = np.where(np.arange(30)[:, None] < 8, np.nan, points[4])
    points[4, 20:] = np.nan
    return points


SCENES = {
    "copies of a body": lambda: scene(d=3, bend=0.0, seed=3)[0],
    "copies in the plane": lambda: scene(d=2, bend=0.0, seed=3)[0],
    "a line in the plane": lambda: line(2),
    "a line in space": lambda: line(3),
    "a mirror image": lambda: one_mirrored(3),
    "a mirror image in the plane": lambda: one_mirrored(2),
    "a sheet bent both ways": sheet_bent_both_ways,
    "zeros for unseen": lambda: np.nan_to_num(scene(n=6, hidden=0.2, seed=2)[0]),
    "another unit": lambda: scene(n=6, seed=2)[0] * np.array([1, 1, 1, 1e-3, 1, 1])[:, None, None],
    "a landmark seen by none": lambda: seldom_seen(0),
    "a landmark seen once": lambda: seldom_seen(1),
    "a grid in the plane": lambda: grid(2),
    "a flat grid in space": lambda: grid(2, raised=True),
    "a cubic grid": lambda: grid(3),
    "four landmarks": lambda: scene(n=4, m=4, d=3, hidden=0.0, bend=0.0)[0],
    "five landmarks": lambda: scene(n=4, m=5, d=3, hidden=0.0, bend=0.02)[0],
    "two clouds": lambda: scene(n=2, m=30, d=3, hidden=0.0)[0],
    "two clouds in the plane": lambda: scene(n=2, m=30, d=2, hidden=0.0)[0],
    "two landmarks shared": cloud_with_two_shared_landmarks,
    "four shared landmarks": lambda: two_groups(4, bend=0.0),
    "four shared landmarks, bent": lambda: two_groups(4),
    "four shared landmarks in a plane": lambda: two_groups(4, bend=0.0, coplanar=True),
    **{f"groups that share {k}": lambda k=k: two_groups(k) for k in range(4)},
    **{f"copies {t:g} thick": lambda t=t: thin(t) for t in THICKNESSES},
    **{f"bent plates {t:g} thick": lambda t=t: thin(t, bend=0.05) for t in THICKNESSES},
    **{f"one cloud {t:g} thick": lambda t=t: one_flat_cloud(t) for t in THICKNESSES},
}

"""Clouds that are hard to judge: noisy ones, and those of an articulated body; any of them may be mirrored."""

from __future__ import annotations

import numpy as np

from conftest import random_rotation, scene

KINDS = ("exact", "noisy", "articulated")
MIRROR = np.array([1, 1, -1])


def articulated(n, rng, m=40):
    """Two solid parts that turn against each other about a hinge."""
    body = rng.standard_normal((m, 3)) * [1.0, 0.8, 0.7]
    body[m // 2 :] += [2.5, 0.0, 0.0]
    frames = np.empty((n, m, 3))
    for t in range(n):
        angle = rng.uniform(-1.2, 1.2)
        hinge = np.array([[np.cos(angle), -np.sin(angle), 0], [np.sin(angle), np.cos(angle), 0], [0, 0, 1]])
        frame = body.copy()
        frame[m // 2 :] = (frame[m // 2 :] - [1.2, 0, 0]) @ hinge.T + [1.2, 0, 0]
        frames[t] = (frame + 0.01 * rng.standard_normal((m, 3))) @ random_rotation(3, rng).T
    return frames


def clouds_of(kind, n, seed):
    """n clouds of a kind, none of them mirrored."""
    rng = np.random.default_rng(seed)
    if kind == "articulated":
        return articulated(n, rng)
    noise = 0.15 if kind == "noisy" else 0.01
    return scene(n=n, m=30, hidden=0.1, noise=noise, bend=0.1, seed=seed)[0]

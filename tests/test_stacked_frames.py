"""Frames of many clouds in one call: those of the same clouds one by one."""

from __future__ import annotations

import numpy as np
from numpy.testing import assert_allclose

from conftest import random_rotation
from kernelgpa.observations.cloud import STACKED_POINTS, cloud_of, compute_frames
from kernelgpa.observations.geometry import frame_of

EPS = np.finfo(np.float64).eps
WIDTHS = [[4, 2, 1], [4, 2, 1e-2], [4, 2, 1e-6], [4, 2, 0], [4, 0, 0], [0, 0, 0], [2, 2, 1], [1, 1, 1]]


def clouds_of_all_shapes():
    """Thick, thin, flat, straight and round clouds, and points, of different sizes and far from the origin."""
    rng = np.random.default_rng(0)
    cube = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], dtype=np.float64)
    for widths in WIDTHS:
        for s, size, offset in [(4, 1, 0), (20, 1e-9, 3), (30, 1e150, 0), (31, 1, 1e3), (STACKED_POINTS // 40, 1, 1)]:
            points = np.array([cube] * 2) if s == 31 else rng.standard_normal((1, s, 3))
            yield size * (points.reshape(-1, 3) * widths @ random_rotation(3, rng).T + offset)


def test_frames_do_not_depend_on_whether_clouds_are_stacked():
    clouds = [cloud_of(points, range(len(points)), t) for t, points in enumerate(clouds_of_all_shapes())]
    compute_frames(clouds)
    for cloud in clouds:
        stacked, alone = cloud.frame, frame_of(cloud.points, cloud.resolution)
        lost = len(cloud.seen) * EPS * np.abs(cloud.points).max()
        assert stacked.rank == alone.rank
        assert_allclose(stacked.centre, alone.centre, rtol=0, atol=lost)
        assert_allclose([stacked.size, *stacked.spread], [alone.size, *alone.spread], rtol=0, atol=4 * lost)
        thinness = alone.spread[-1] / alone.spread[0] if alone.spread[0] > 0 else 0.0
        if thinness > 0.1:  # the axes of others are determined to a part of their digits
            overlap = np.abs(stacked.axes @ alone.axes.T)
            assert_allclose(overlap, np.eye(3), rtol=0, atol=100 * lost / alone.size)

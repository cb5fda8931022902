"""The simulated sheet: bent without changing lengths, and seen in projection."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from kernelgpa import simulate
from kernelgpa.simulate.sheet import roll
from small_scenes import EPS


@pytest.fixture(scope="module")
def views():
    return simulate.sheet()


def test_a_sheet_has_the_requested_counts_and_dimensions(views):
    assert views.points.shape == (8, 155, 2)
    assert views.template.shape == (155, 2)
    assert views.bent.shape == (8, len(views.vertices), 3)
    assert_array_equal(np.ptp(views.vertices, axis=0), [300, 200])
    a, b, c = (views.vertices[views.faces[:, i]] for i in range(3))
    areas = ((b - a)[:, 0] * (c - a)[:, 1] - (b - a)[:, 1] * (c - a)[:, 0]) / 2
    assert areas.min() > 0
    assert areas.sum() == pytest.approx(300 * 200)


def test_views_are_projections_of_the_bent_sheet(views):
    for own, bent, rotation, translation in zip(
        views.surfaces, views.bent, views.rotations, views.translations, strict=True
    ):
        assert_allclose(own, ((bent - translation) @ rotation)[:, :2], atol=1e4 * EPS)
        assert np.degrees(np.arccos(rotation[2, 2])) <= 12


def test_bending_changes_no_length_on_the_sheet(views):
    """The chord of an arc of length h and curvature k is shorter by (k h)^2 / 24, here at most (7.1 / 200)^2 / 24."""
    a, b = views.faces[:, :2].T
    flat = np.linalg.norm(views.vertices[a] - views.vertices[b], axis=1)
    bent = np.linalg.norm(views.bent[:, a] - views.bent[:, b], axis=2)
    assert ((bent - flat) / flat).max() < 1e-12
    assert ((flat - bent) / flat).max() <= (7.1 / 200) ** 2 / 24


def test_the_sheet_lies_on_a_cylinder():
    flat = simulate.sheet_mesh(20.0)[0]
    x, y, z = roll(flat, 0.0, 1 / 200).T
    assert_allclose(np.hypot(x, z - 200), 200)
    assert_array_equal(y, flat[:, 1])


def test_axis_and_curvature_change_over_the_views(views):
    depth = np.ptp(views.bent[:, :, 2], axis=1)
    assert depth.min() > 3
    assert depth.max() > 25
    x, y = views.vertices.T
    quadric = np.column_stack([x * x, 2 * x * y, y * y, x, y, np.ones_like(x)])
    angles = []
    for bent in views.bent:
        xx, xy, yy = np.linalg.lstsq(quadric, bent[:, 2], rcond=None)[0][:3]
        angles.append(
            np.arctan2(2 * xy, xx - yy) / 2 + (np.pi / 2 if xx + yy < 0 else 0)
        )  # the direction of the curvature
    turns = np.diff(np.unwrap(angles, period=np.pi))
    assert_allclose(turns, np.pi / 8, atol=0.05)


def test_a_flat_sheet_seen_from_the_front_is_only_rotated_and_shifted():
    scene = simulate.sheet(radius=np.inf, tilt=0.0, spacing=20.0, landmarks=40)
    for own, rotation, translation in zip(scene.surfaces, scene.rotations, scene.translations, strict=True):
        assert_allclose(own @ rotation[:2, :2].T + translation[:2], scene.vertices, atol=1e4 * EPS)


def test_no_part_of_the_sheet_is_seen_from_behind():
    for seed in range(5):
        scene = simulate.sheet(radius=170.0, seed=seed)
        a, b, c = (scene.surfaces[:, scene.faces[:, i]] for i in range(3))
        areas = (b - a)[..., 0] * (c - a)[..., 1] - (b - a)[..., 1] * (c - a)[..., 0]
        assert areas.min() > 0

"""The simulated lungs: dimensions, views of each landmark, and differences between people."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from kernelgpa import simulate
from kernelgpa.simulate.ct import SEEN_IN
from kernelgpa.simulate.displacements import smooth_field
from small_scenes import EPS, SMALL, in_world_frame


@pytest.fixture(scope="module")
def scans():
    return simulate.ct()


def windings(points, vertices, corners):
    """How often a surface winds around each point: 1 inside, 0 outside (solid angles over 4 pi)."""
    total = np.zeros(len(points))
    for triangle in vertices[corners]:
        a, b, c = (corner - points for corner in triangle)
        la, lb, lc = (np.linalg.norm(v, axis=1) for v in (a, b, c))
        below = la * lb * lc + np.sum(a * b, 1) * lc + np.sum(b * c, 1) * la + np.sum(c * a, 1) * lb
        total += 2 * np.arctan2(np.sum(a * np.cross(b, c), 1), below)
    return total / (4 * np.pi)


def test_lungs_have_the_counts_and_dimensions_of_lungs(scans):
    assert scans.points.shape == (6, 1320, 3)
    width, height, depth = np.ptp(scans.vertices, axis=0)
    assert 290 < width < 310
    assert 240 < height < 300
    assert 150 < depth < 190
    assert np.abs(scans.vertices[:, 0]).min() > 15  # the heart and the spine lie between the lungs


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("wrong", [0.0, 0.1])
def test_landmarks_have_the_requested_numbers_of_views(seed, wrong):
    scene = simulate.ct(seed=seed, wrong=wrong)
    seen = np.isfinite(scene.points).all(axis=2)
    assert_array_equal(seen.sum(axis=0), scene.seen_in)
    assert dict(zip(*np.unique(scene.seen_in, return_counts=True), strict=True)) == dict(SEEN_IN)
    assert seen.sum(axis=1).min() > 800


def test_points_of_the_lungs_lie_inside(scans):
    surface = scans.faces.max() + 1
    inside = scans.vertices[surface:][::10]
    assert_allclose(windings(inside, scans.vertices, scans.faces), 1, atol=1e-6)
    assert scans.landmarks.min() >= surface


def test_people_without_differences_have_the_lungs_of_the_template():
    scene = SMALL["ct"](differ=0.0, bend=0.0)
    assert_allclose(in_world_frame(scene) - scene.vertices, 0, atol=1e4 * EPS)


def test_people_differ_by_sizes_shear_and_breath():
    """Without bumps, bodies are affine in (x, y, z, e^2), where e is the share of the height below the apex."""
    scene = SMALL["ct"](bend=0.0)
    height = scene.vertices[:, 1]
    below = (height.max() - height) / np.ptp(height)
    basis = np.column_stack([scene.vertices, below**2, np.ones(len(height))])
    for body in in_world_frame(scene):
        slopes, *_ = np.linalg.lstsq(basis, body, rcond=None)
        assert_allclose(basis @ slopes, body, atol=1e-9)
        assert_allclose(slopes[[0, 0, 2, 2], [1, 2, 0, 1]], 0, atol=1e-9)  # no other shear
        assert 0.8 < slopes[0, 0] < 1.2
    breaths = [np.linalg.lstsq(basis, body, rcond=None)[0][3, 1] for body in in_world_frame(scene)]
    assert np.ptp(breaths) > 3


def test_the_smooth_field_has_the_requested_size():
    vertices = simulate.lungs_mesh(400)[0]
    moved = smooth_field(vertices, 5.0, np.random.default_rng(0))
    assert np.sqrt(np.mean(np.sum(moved**2, axis=1))) == pytest.approx(5.0)


def test_mismatches_are_marked(scans):
    scene = simulate.ct(wrong=0.2)
    seen = np.isfinite(scene.points).all(axis=2)
    differs = seen & (scene.points != scans.points).any(axis=2)
    assert_array_equal(differs, scene.wrong)
    assert scene.wrong.sum() / seen.sum() == pytest.approx(0.2, abs=0.001)
    assert not scans.wrong.any()


def test_near_mismatches_lie_within_the_distance(scans):
    points, wrong = simulate.exchanged(scans.points, 0.2, seed=1, within=40.0)
    moved = np.linalg.norm(points - scans.points, axis=2)
    assert 0 < moved[wrong].max() <= 40.0
    assert np.nanmax(np.where(wrong, np.nan, moved)) == 0
    seen = np.isfinite(scans.points).all(axis=2)
    assert wrong.sum() / seen.sum() == pytest.approx(0.2, abs=0.005)
    assert_array_equal(np.sort(points[:, :, 0], axis=1), np.sort(scans.points[:, :, 0], axis=1))  # exchanged, not lost


def test_observations_without_a_neighbour_are_not_exchanged(scans):
    points, wrong = simulate.exchanged(scans.points, 0.2, seed=1, within=1e-3)
    assert not wrong.any()
    assert_array_equal(points, scans.points)

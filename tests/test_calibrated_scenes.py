"""What calibrates scenes to published data: stretches, pulled regions, one strength per cloud, and near mismatches."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from kernelgpa import InvalidSetting, metrics, simulate
from kernelgpa.simulate.displacements import random_stretch
from kernelgpa.simulate.liver import _bend_as_rigidly_as_possible, _handles
from small_scenes import EPS, SMALL, in_world_frame


def test_a_stretch_alone_is_undone_by_affine_maps():
    scene = SMALL["liver"](bend=0.0, stretch=0.05, noise=0.0)
    homogeneous = np.column_stack([scene.vertices, np.ones(len(scene.vertices))])
    for body in scene.surfaces:
        left = body - homogeneous @ np.linalg.lstsq(homogeneous, body, rcond=None)[0]
        assert np.abs(left).max() < 1e4 * EPS * np.abs(body).max()
    assert metrics.consistency(in_world_frame(scene)).max() > 1  # mm: the bodies do differ


def test_the_stretch_is_symmetric_and_has_the_requested_size():
    matrices = np.stack([random_stretch(0.1, np.random.default_rng(seed)) for seed in range(500)])
    assert_array_equal(matrices, matrices.transpose(0, 2, 1))
    deviations = matrices - np.eye(3)
    # the standard error of a standard deviation from 500 draws is 1 / sqrt(1000) of it; four of these
    assert_allclose(deviations.std(axis=0), 0.1, rtol=4 / np.sqrt(1000))


@pytest.mark.parametrize("radius", [0.0, 15.0])
def test_handles_are_separate_and_move_as_one(radius):
    igl = pytest.importorskip("igl")
    assert igl
    vertices, corners = simulate.liver_mesh(1002)
    regions = _handles(vertices, radius, np.random.default_rng(3))
    assert len(regions) == 6
    assert len(np.unique(np.concatenate(regions))) == sum(map(len, regions))
    bent = _bend_as_rigidly_as_possible(vertices, corners, 8.0, np.random.default_rng(3), radius) - vertices
    for region in regions:
        assert_allclose(np.linalg.norm(bent[region], axis=1), 8.0, rtol=1e-9)
        assert_allclose(bent[region], np.broadcast_to(bent[region[0]], (len(region), 3)), atol=1e-9)


def test_pulled_regions_make_no_spikes():
    """Around a single pulled vertex the surface stretches by more than around a pulled region."""
    pytest.importorskip("igl")
    vertices, corners = simulate.liver_mesh(1002)
    edges = np.concatenate([corners[:, [0, 1]], corners[:, [1, 2]], corners[:, [2, 0]]])

    def largest_stretch(radius):
        bent = _bend_as_rigidly_as_possible(vertices, corners, 8.0, np.random.default_rng(0), radius)
        lengths = [np.linalg.norm(body[edges[:, 0]] - body[edges[:, 1]], axis=1) for body in (vertices, bent)]
        return np.max(lengths[1] / lengths[0])

    assert largest_stretch(15.0) < largest_stretch(0.0)


def test_regions_without_room_are_refused():
    pytest.importorskip("igl")
    with pytest.raises(InvalidSetting, match="handle_radius is 60 mm, which leaves no room for 6 separate regions"):
        simulate.liver(clouds=2, deformation="arap", handle_radius=60.0)


def test_strength_bend_and_stretch_belong_to_one_cloud_each():
    plain = SMALL["face"](noise=0.0)
    rest = SMALL["face"](noise=0.0, strength=0.0)
    changed = SMALL["face"](noise=0.0, strength=[2, 1, 1, 1, 1], bend=[0, 3, 0, 0, 0], stretch=[0, 0, 0.05, 0, 0])
    before, after, template = in_world_frame(plain), in_world_frame(changed), in_world_frame(rest)
    moved = np.abs(after - before).max(axis=(1, 2))
    rounding = 1e3 * EPS * np.abs(before).max()
    assert (moved[:3] > 0.1).all()
    assert (moved[3:] <= rounding).all()
    assert_allclose(after[0] - template[0], 2 * (before[0] - template[0]), atol=1e-9)
    assert np.sqrt(np.mean(np.sum((after[1] - before[1]) ** 2, axis=1))) == pytest.approx(3.0)
    assert_allclose(template, np.broadcast_to(plain.vertices, template.shape), atol=rounding)


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

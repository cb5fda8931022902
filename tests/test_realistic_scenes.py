"""What real data do, in small simulated scenes: sheets bent both ways, limbs, sizes and placeholder coordinates."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import binom, chi2

from kernelgpa import AffineGPA, InvalidSetting, KernelGPA, KernelGPAWarning, RigidGPA, simulate
from kernelgpa.gauge.rotations import nearest_rotation
from kernelgpa.simulate.walker import MARKERS, SEGMENTS
from small_scenes import EPS

SEEDS = range(3)
NOISE = 0.3  # mm, of the sheet


def fit_quietly(model, points):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KernelGPAWarning)
        return model.fit(points)


def errors_of_unseen(gpa, scene):
    """Errors of the unseen landmarks in the frames of their clouds."""
    unseen = np.isnan(scene.points[:, :, 0])
    return np.linalg.norm((gpa.impute() - scene.surfaces[:, scene.landmarks])[unseen], axis=1)


def distance_after_motion(points, targets, mirrored):
    """Root mean square distance after the best rotation, of the points or of their mirror image."""
    x, y = points - points.mean(axis=0), targets - targets.mean(axis=0)
    if mirrored:
        x = x * [1, 1, -1]
    rotation = nearest_rotation((y.T @ x)[None])[0]
    return np.sqrt(np.mean(np.sum((x @ rotation.T - y) ** 2, axis=1)))


# -- the sheet --


@pytest.fixture(scope="module", params=SEEDS)
def bending(request):
    scene = simulate.bending_sheet(hidden=0.2, noise=NOISE, seed=request.param)
    return scene, fit_quietly(KernelGPA(), scene.points)


def test_some_pairs_of_sheets_fit_better_as_mirror_images():
    """Otherwise the scene would not test whether clouds are taken for mirror images."""
    scene = simulate.bending_sheet()
    pairs = [(a, b) for i, a in enumerate(scene.surfaces) for b in scene.surfaces[:i]]
    better = [distance_after_motion(a, b, True) < distance_after_motion(a, b, False) for a, b in pairs]
    assert 0.2 < np.mean(better) < 0.8


def test_half_of_the_sheets_bend_to_each_side():
    scene = simulate.bending_sheet(clouds=8)
    world = np.einsum("nvi,nji->nvj", scene.surfaces, scene.rotations) + scene.translations[:, None]
    depth = world[:, :, 2]
    border = np.abs(scene.vertices[:, 0]) + np.abs(scene.vertices[:, 1]) > 200
    middle = np.linalg.norm(scene.vertices, axis=1) < 30
    sides = np.sign(depth[:, border].mean(axis=1) - depth[:, middle].mean(axis=1))
    assert sides.sum() == 0


def test_no_bent_sheet_is_called_mirrored(bending):
    _, gpa = bending
    assert gpa.mirrored_ == []


def test_bent_sheets_are_neither_called_collapsed_nor_wrong_matches(bending):
    kinds = {finding.kind for finding in bending[1].diagnose()}
    assert not {"collapsed map", "possible wrong matches", "exchanged landmarks"} & kinds


@pytest.mark.parametrize("model", [RigidGPA(), RigidGPA(scaling=True), AffineGPA()], ids=repr)
@pytest.mark.parametrize("hidden", [0.0, 0.2, 0.4])
@pytest.mark.parametrize("seed", range(10))
def test_the_corners_of_bent_sheets_are_not_wrong_matches_of_rigid_and_affine_maps(model, hidden, seed):
    """They are far from such a map, but smooth warps from the map predict them."""
    gpa = fit_quietly(model, simulate.bending_sheet(noise=NOISE, hidden=hidden, seed=seed).points)
    assert not {"possible wrong matches", "exchanged landmarks"} & {finding.kind for finding in gpa.diagnose()}


def test_unseen_points_of_bent_sheets_are_recovered(bending):
    """The mean length of the noise itself is 1.6 of its standard deviations; predictions are not worse than that."""
    scene, gpa = bending
    errors = errors_of_unseen(gpa, scene)
    noise = NOISE * np.sqrt(8 / np.pi)
    assert errors.mean() < noise
    assert errors.mean() < errors_of_unseen(fit_quietly(RigidGPA(), scene.points), scene).mean() / 10


def test_regions_of_bent_sheets_hold_what_they_promise(bending):
    scene, gpa = bending
    unseen = np.isnan(scene.points[:, :, 0])
    imputed, covariances = gpa.impute(return_cov=True)
    measured = scene.surfaces[:, scene.landmarks] + NOISE * np.random.default_rng(9).standard_normal(imputed.shape)
    residuals = (imputed - measured)[unseen]
    squares = np.einsum("ki,kij,kj->k", residuals, np.linalg.inv(covariances[unseen]), residuals)
    inside = np.sum(squares <= chi2(3).ppf(0.9))
    assert binom(len(squares), 0.85).ppf(0.001) <= inside <= binom(len(squares), 0.94).ppf(0.999)


def test_wrong_matches_on_a_bent_sheet_are_replaced_by_good_predictions():
    scene = simulate.bending_sheet(hidden=0.1, noise=NOISE)
    truth = scene.surfaces[:, scene.landmarks]
    clean = errors_of_unseen(fit_quietly(KernelGPA(), scene.points), scene)
    points, wrong = simulate.exchanged(scene.points, 0.1)
    gpa = fit_quietly(KernelGPA(), points)
    predicted = np.stack([gpa.predict(gpa.map_, cloud=t) for t in range(len(points))])
    errors = np.linalg.norm((predicted - truth)[wrong], axis=1)
    assert gpa.robust_ is not None
    assert np.median(errors) < 2 * np.median(clean)
    listed = gpa.suspicious_observations(int(wrong.sum()))
    assert np.mean([wrong[one.cloud, one.landmark] for one in listed]) > 0.9


def test_a_sheet_is_not_rolled_into_itself():
    with pytest.raises(InvalidSetting, match="radius"):
        simulate.bending_sheet(radius=50.0)


# -- the walker --


def test_segments_of_a_walker_are_rigid_and_joints_hold():
    scene = simulate.walker(clouds=6, seed=1)
    for first in range(0, len(SEGMENTS) * MARKERS, MARKERS):
        rows = slice(first, first + MARKERS)
        still = np.linalg.norm(scene.vertices[rows, None] - scene.vertices[None, rows], axis=2)
        moving = np.linalg.norm(scene.surfaces[:, rows, None] - scene.surfaces[:, None, rows], axis=3)
        assert_allclose(moving, np.broadcast_to(still, moving.shape), rtol=0, atol=1e5 * EPS)


def test_a_walker_without_swing_stands_still():
    scene = simulate.walker(clouds=3, swing=0.0)
    world = np.einsum("nvi,nji->nvj", scene.surfaces, scene.rotations) + scene.translations[:, None]
    assert_allclose(world, np.broadcast_to(scene.vertices, world.shape), rtol=0, atol=1e5 * EPS)


def test_markers_of_a_walker_are_hidden_in_gaps():
    hidden = np.isnan(simulate.walker(clouds=60, gap=6, hidden=0.1).points[:, :, 0])
    assert 0.1 <= hidden.mean() < 0.1 + 6 / hidden.size  # the last gap exceeds the share by less than its length
    starts = hidden & ~np.vstack([np.zeros(hidden.shape[1], dtype=bool), hidden[:-1]])
    for frame, marker in np.argwhere(starts):
        if 0 < frame <= len(hidden) - 6:
            assert hidden[frame : frame + 6, marker].all()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_walker_is_recovered_better_than_by_rigid_motions(seed):
    scene = simulate.walker(noise=1.0, seed=seed)
    kernel, rigid = (errors_of_unseen(fit_quietly(one, scene.points), scene) for one in (KernelGPA(), RigidGPA()))
    assert kernel.mean() < rigid.mean()
    assert np.median(kernel) < np.median(rigid)


# -- specimens --


def test_specimens_have_the_stated_sizes():
    scene = simulate.specimens(bend=0.0, noise=0.0)
    spread = np.linalg.norm(scene.surfaces - scene.surfaces.mean(axis=1, keepdims=True), axis=(1, 2))
    assert_allclose(spread, scene.sizes * np.linalg.norm(scene.vertices - scene.vertices.mean(axis=0)), rtol=1e-9)


def test_placeholders_are_the_same_far_away_coordinates_in_one_landmark():
    scene = simulate.specimens(placeholders=3, placeholder=-999.0)
    assert_array_equal(scene.points[scene.placeholders], np.tile([-999.0, -999.0, 999.0], (3, 1)))
    assert len(np.unique(np.argwhere(scene.placeholders)[:, 1])) == 1
    assert len(np.unique(np.argwhere(scene.placeholders)[:, 0])) == 3


@pytest.mark.parametrize("seed", SEEDS)
def test_placeholders_lead_the_list_of_suspicious_observations(seed):
    scene = simulate.specimens(seed=seed)
    gpa = fit_quietly(KernelGPA(), scene.points)
    listed = gpa.suspicious_observations(int(scene.placeholders.sum()))
    assert {(one.cloud, one.landmark) for one in listed} == set(map(tuple, np.argwhere(scene.placeholders).tolist()))


def test_more_placeholders_than_specimens_are_refused():
    with pytest.raises(InvalidSetting, match="placeholders"):
        simulate.specimens(clouds=4, placeholders=5)

"""The inverse of a warp takes its images back, or returns NaN."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import random_rotation, scene
from fixed_settings import fixed_kernel, fixed_tps
from kernelgpa import AffineGPA, InvalidObservations, KernelGPAWarning, RigidGPA
from kernelgpa.warps import inverse as solver
from kernelgpa.warps.inverse import inverse, returning
from kernelgpa.warps.warp import KernelPart, Warp

MODELS = [
    RigidGPA(),
    RigidGPA(scaling=True),
    AffineGPA(),
    fixed_tps(control_points=4),
    fixed_kernel(),
    fixed_kernel(bandwidth=1.0, smoothing=1e-3),
    fixed_kernel(kernel="matern32"),
    fixed_kernel(inducing=15),
]


@pytest.mark.parametrize("model", MODELS, ids=repr)
@given(seed=st.integers(0, 1000), d=st.sampled_from([2, 3]))
def test_the_inverse_takes_transformed_points_back(model, seed, d):
    points, _ = scene(d=d, seed=seed, bend=0.08, hidden=0.1)
    gpa = model.fit(points)
    own = points[1][~np.isnan(points[1, :, 0])]
    rng = np.random.default_rng(seed)
    corners = own[rng.integers(len(own), size=(50, d + 1))]
    inside = np.einsum("kc,kcd->kd", rng.dirichlet(np.ones(d + 1), 50), corners)
    inside = inside[gaps(inside, own) < NEAR]
    back = gpa.inverse_transform(gpa.transform(inside, 1), 1)
    assert np.abs(back - inside).max() < 1e-8 * np.abs(own - own.mean(axis=0)).max()


NEAR = 3  # median distances between neighbours, within which an inverse is answered


def gaps(points, landmarks):
    """Distances from the nearest landmark, in median distances between neighbours."""
    between = np.linalg.norm(landmarks[:, None] - landmarks, axis=2)
    spacing = np.median(np.sort(between, axis=1)[:, 1])
    return np.linalg.norm(points[:, None] - landmarks, axis=2).min(axis=1) / spacing


@pytest.mark.parametrize("model", [fixed_tps(control_points=4), fixed_kernel(), fixed_kernel(inducing=15)], ids=repr)
@pytest.mark.parametrize("d", [2, 3])
def test_far_from_the_landmarks_the_inverse_is_nan_and_the_warning_names_predict(model, d):
    points, _ = scene(d=d, bend=0.08, hidden=0.0)
    gpa = model.fit(points)
    own = points[1]
    rays = np.linspace(0.5, 12, 24)[:, None] * (own[:1] - own.mean(axis=0)) + own.mean(axis=0)
    distant = gaps(rays, own) > NEAR
    with pytest.warns(KernelGPAWarning, match=f"{distant.sum()} of {len(rays)} points.*use predict"):
        back = gpa.inverse_transform(gpa.transform(rays, 1), 1)
    assert np.array_equal(np.isnan(back[:, 0]), distant)
    assert 0 < distant.sum() < len(rays)


def test_affine_warps_are_inverted_everywhere():
    points, _ = scene(d=3)
    gpa = AffineGPA().fit(points)
    far = 100 * np.random.default_rng(0).standard_normal((10, 3))
    assert np.abs(gpa.inverse_transform(gpa.transform(far, 1), 1) - far).max() < 1e-9 * np.abs(far).max()


def bent_sheets(bends, rng, side=9):
    plane = np.mgrid[-1 : 1 : side * 1j, -1 : 1 : side * 1j].reshape(2, -1).T
    sheets = [np.column_stack([plane, bend * plane[:, 0] ** 2]) @ random_rotation(3, rng).T for bend in bends]
    return np.stack(sheets) + 0.003 * rng.standard_normal((len(bends), side**2, 3))


def test_an_inverse_across_a_sheet_lies_near_the_sheet():
    rng = np.random.default_rng(1)
    points = bent_sheets(rng.uniform(-0.3, 0.3, 6), rng)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KernelGPAWarning)
        gpa = fixed_kernel(smoothing=1e-3).fit(points)
        for t, own in enumerate(points):
            across = gpa.map_ + rng.uniform(-3, 3, (len(own), 1)) * np.eye(3)[2]  # the thinnest axis of the map
            back = gpa.inverse_transform(across, t)
            known = ~np.isnan(back[:, 0])
            assert (gaps(back[known], own) <= NEAR).all()
            assert np.abs(gpa.transform(back[known], t) - across[known]).max(initial=0) < 1e-8


def test_the_landmarks_that_return_are_those_of_the_round_trip():
    rng = np.random.default_rng(0)
    for points in (bent_sheets(rng.uniform(-0.6, 0.6, 5), rng), scene(d=3, bend=0.5, hidden=0.0)[0]):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", KernelGPAWarning)
            gpa = fixed_kernel(smoothing=1e-6).fit(points)
            for t, own in enumerate(points):
                back = gpa.inverse_transform(gpa.transform(own, t), t)
                returned = np.linalg.norm(back - own, axis=1) < 1e-6 * gpa.warps_[t].frame.size
                np.testing.assert_array_equal(returning(gpa.warps_[t], own), returned)
                some = np.arange(0, len(own), 3)
                np.testing.assert_array_equal(returning(gpa.warps_[t], own, some), returned[some])
    straight = fixed_kernel().fit(scene(bend=0.0, hidden=0.0)[0])
    for warp, cloud in zip(straight.warps_, straight.observations_.clouds, strict=True):
        assert returning(warp, cloud.points).all()


def test_landmarks_on_a_fold_do_not_return():
    warp = folded_warp(2.0)
    across = np.column_stack([np.linspace(-2, 2, 401), np.zeros(401)]) * warp.frame.size + warp.frame.centre
    assert 0.1 < returning(warp, across).mean() < 0.9


def folded_warp(height):
    """A warp that folds over itself by one strong kernel at the origin."""
    warp = fixed_kernel().fit(scene(d=2, bend=0.0)[0]).warps_[0]
    kernel = warp.kernel_part.kernel
    part = KernelPart(kernel, np.zeros((1, 2)), 0.3, np.array([[height, 0.0]]))
    return Warp(warp.frame, np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]), part)


def test_a_constructed_fold_is_found_and_no_point_in_it_is_inverted():
    warp = folded_warp(2.0)
    across = np.column_stack([np.linspace(-2, 2, 401), np.zeros(401)]) * warp.frame.size + warp.frame.centre
    folded = np.linalg.det(warp.jacobian(across)) <= 0  # its affine part is the identity, up to a positive scale
    rising = np.gradient(warp(across)[:, 0]) > 0
    assert 0.02 < folded.mean() < 0.5
    assert np.sum(folded == rising) <= 4  # they may differ where the derivative changes its sign between two samples
    targets = warp(across)
    reached = np.sum(np.diff(np.sign(targets[:, :1] - targets[:, 0]), axis=0) != 0, axis=0)  # by this many points
    back = inverse(warp, targets)
    known = ~np.isnan(back[:, 0])
    assert known.any()
    assert not known[reached > 2].any()
    assert np.abs(back[known] - across[known]).max() < 1e-6 * warp.frame.size


def test_points_of_a_bent_sheet_are_taken_back_to_it_or_are_nan():
    """Across a sheet a warp follows the bending and may reverse orientation; along the sheet it is invertible."""
    rng = np.random.default_rng(0)
    points = bent_sheets(rng.uniform(-0.3, 0.3, 6), rng)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KernelGPAWarning)
        gpa = fixed_kernel().fit(points)
        back = np.stack([gpa.inverse_transform(gpa.transform(one, t), t) for t, one in enumerate(points)])
    errors = np.linalg.norm(back - points, axis=2)
    assert np.nanmax(errors) < 1e-6
    assert np.isnan(errors).mean() < 0.5
    assert gpa.mirrored_ == []
    assert "collapsed map" not in [finding.kind for finding in gpa.diagnose()]


def test_the_warning_counts_the_points_without_an_inverse():
    gpa = fixed_kernel().fit(scene(d=2, bend=0.0)[0])
    squeezed = folded_warp(0.0)
    gpa.warps_[0] = Warp(squeezed.frame, np.zeros((3, 2)), squeezed.kernel_part)
    with pytest.warns(KernelGPAWarning, match="5 of 5 points cannot be taken back"):
        assert np.isnan(gpa.inverse_transform(np.ones((5, 2)), 0)).all()


@pytest.mark.parametrize("model", [AffineGPA(), fixed_tps(control_points=4), fixed_kernel()], ids=repr)
def test_warps_of_flat_clouds_continue_like_rotations_outside_of_their_plane(model):
    flat, _ = scene(d=2, hidden=0.0, bend=0.05)
    rng = np.random.default_rng(0)
    raised = np.concatenate([flat, np.zeros((*flat.shape[:2], 1))], axis=2)
    turns = [random_rotation(3, rng) for _ in raised]
    gpa = model.fit(np.stack([one @ turn.T for one, turn in zip(raised, turns, strict=True)]))
    own = raised[0] @ turns[0].T
    assert np.abs(gpa.inverse_transform(gpa.transform(own, 0), 0) - own).max() < 1e-8
    outside = own + 0.1 * turns[0][:, 2]
    lifted = gpa.transform(outside, 0) - gpa.transform(own, 0)
    assert np.allclose(np.linalg.norm(lifted, axis=1), 0.1, rtol=0.3)
    assert np.all(np.linalg.det(gpa.warps_[0].jacobian(own)) > 0)


def test_nan_stays_nan_without_a_warning():
    gpa = fixed_kernel().fit(scene()[0])
    query = gpa.map_[:3].copy()
    query[1] = np.nan
    back = gpa.inverse_transform(query, 2)
    assert np.array_equal(np.isnan(back).any(axis=1), [False, True, False])


def test_wrong_shapes_are_refused():
    with pytest.raises(InvalidObservations, match="points to warp"):
        fixed_kernel().fit(scene()[0]).inverse_transform(np.zeros((2, 4)), 0)


def every_start(warp, targets, landmarks):
    """What the inverse is by definition: Newton from every start for every target, solutions compared at the end."""
    samples = solver._Samples.of(warp, landmarks)
    around, tolerance = samples.neighbourhood, solver.SAME_SOLUTION * warp.frame.size
    near, on_surface = [[] for _ in targets], [[] for _ in targets]
    for start in solver._initial_estimates(warp, samples, targets):
        points, converged = solver._newton(warp, targets, start, around)
        distance, across = around.distances(points)
        for j in np.flatnonzero(converged & (distance <= solver.NEAR * around.spacing)):
            for found, valid in ((near, True), (on_surface, across[j] <= solver.ON_SURFACE * around.spacing)):
                if valid and all(np.linalg.norm(points[j] - other) > tolerance for other in found[j]):
                    found[j].append(points[j])
    answers = np.full_like(targets, np.nan)
    for j in range(len(targets)):
        if around.normals is None and len(near[j]) == 1:
            upright = samples.orientation * np.linalg.det(warp.jacobian(near[j][0][None])[0]) > 0
            answers[j] = near[j][0] if upright else np.nan
        elif around.normals is not None and 1 in (len(near[j]), len(on_surface[j])):
            answers[j] = near[j][0] if len(near[j]) == 1 else on_surface[j][0]
    return answers


@pytest.mark.parametrize("axes", [(3.0, 2.0, 1.0), (3.0, 2.0, 0.1)], ids=["solid", "sheet"])
def test_starts_that_are_left_out_do_not_change_the_answers(axes):
    rng = np.random.default_rng(0)
    points = rng.standard_normal((60, 3)) * axes + 0.3 * rng.standard_normal((4, 60, 3))
    gpa = fixed_kernel(bandwidth=0.3, smoothing=1e-3).fit(points)
    targets = np.vstack([gpa.map_, gpa.map_ + 0.1 * rng.standard_normal(gpa.map_.shape)])
    answers = inverse(gpa.warps_[0], targets, points[0])
    np.testing.assert_allclose(answers, every_start(gpa.warps_[0], targets, points[0]), rtol=0, atol=1e-10)
    assert np.isnan(answers[:, 0]).sum() > 0

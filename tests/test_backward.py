"""Warps from the map into the clouds: laws, leave-one-out residuals by refitting, calibration, real sets."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import chi2
from sklearn.base import clone

from conftest import random_rotation, scene
from kernelgpa import TPSGPA, AffineGPA, KernelGPA, KernelGPAWarning, RigidGPA, load, save, simulate
from kernelgpa.observations.cloud import Cloud
from kernelgpa.warps import KernelFamily
from kernelgpa.warps.automatic import LeaveOneOutError, Search, Target, choose, pooled
from kernelgpa.warps.kernels import KERNELS
from shared_data import load as load_shared

MODELS = [
    RigidGPA(),
    RigidGPA(scaling=True),
    AffineGPA(),
    TPSGPA(control_points=3),
    KernelGPA(),
    KernelGPA(inducing=20),
    KernelGPA(robust="tukey"),
]
every_model = pytest.mark.parametrize("model", MODELS, ids=repr)


def hidden(points, share, seed):
    rng = np.random.default_rng(seed)
    return (rng.random(points.shape[:2]) < share) & ~np.isnan(points[:, :, 0])


def without(points, share, seed):
    """The points with some of them hidden, and which."""
    hide = hidden(points, share, seed)
    return np.where(hide[:, :, None], np.nan, points), hide


def fit_quietly(points):
    """Sheets are reported to fit better mirrored, and landmarks that few clouds see are named."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KernelGPAWarning)
        return KernelGPA().fit(points)


@every_model
def test_unseen_landmarks_of_rigid_copies_are_recovered_exactly(model, dimension):
    complete = scene(d=dimension, bend=0.0, hidden=0.0, seed=1)[0]
    points, hide = without(complete, 0.2, 0)
    imputed = clone(model).fit(points).impute()
    assert_allclose(imputed[hide], complete[hide], rtol=0, atol=1e-6)


@every_model
def test_seen_landmarks_stay_as_they_are_bit_for_bit(model):
    points = scene(bend=0.1, noise=0.01, hidden=0.3, seed=2)[0]
    imputed, covariances = clone(model).fit(points).impute(return_cov=True)
    seen = ~np.isnan(points[:, :, 0])
    assert_array_equal(imputed[seen], points[seen])
    assert not covariances[seen].any()
    assert np.isfinite(imputed).all()
    assert (np.linalg.eigvalsh(covariances[~seen])[:, 0] > 0).all()


@every_model
def test_predictions_follow_the_frame_and_the_unit_of_their_cloud(model):
    points = scene(bend=0.1, noise=0.01, hidden=0.2, seed=3)[0]
    rotation, shift = random_rotation(3, np.random.default_rng(0)), np.array([5.0, -2.0, 1.0])
    moved = points.copy()
    moved[1] = points[1] @ rotation.T + shift
    (here, cov), (there, moved_cov) = (clone(model).fit(one).impute(return_cov=True) for one in (points, moved))
    assert_allclose(there[1], here[1] @ rotation.T + shift, rtol=0, atol=1e-5)
    assert_allclose(moved_cov, cov, rtol=1e-3, atol=1e-12)
    if not isinstance(model, TPSGPA):  # the smoothing of the warps into the map has a unit
        assert_allclose(clone(model).fit(1000 * points).impute(), 1000 * here, rtol=0, atol=1e-2)


@pytest.mark.parametrize("model", [RigidGPA(), RigidGPA(scaling=True)], ids=repr)
def test_rigid_predictions_are_inverse_motions(model):
    points = scene(bend=0.1, noise=0.01, hidden=0.2, seed=4)[0]
    gpa = model.fit(points)
    queries = np.random.default_rng(0).standard_normal((20, 3))
    assert_allclose(gpa.predict(queries, cloud=2), gpa.inverse_transform(queries, cloud=2), rtol=0, atol=1e-9)


def test_predictions_are_known_across_sheets_and_far_away():
    rng = np.random.default_rng(0)
    plane = rng.uniform(-1, 1, (60, 2))
    bent = [np.column_stack([plane, bend * plane[:, 0] ** 2]) for bend in (0.5, -0.5, 0.3, -0.2, 0.1)]
    complete = np.stack([one @ random_rotation(3, rng).T for one in bent])
    points, hide = without(complete, 0.2, 1)
    gpa = fit_quietly(points)
    assert gpa.mirrored_ == []
    errors = np.linalg.norm((gpa.impute() - complete)[hide], axis=1)
    assert np.median(errors) < 0.02
    assert np.isfinite(gpa.predict(100 * rng.standard_normal((50, 3)), cloud=0)).all()


def test_leave_one_out_residuals_are_those_of_refitted_warps():
    points = scene(m=25, bend=0.1, noise=0.01, hidden=0.2, seed=5)[0]
    gpa = KernelGPA().fit(points)
    backward = gpa._backward()
    family = KernelFamily(KERNELS["gaussian"], *backward.settings)
    counts = np.sum(~np.isnan(points[:, :, 0]), axis=0)
    t, seen = 1, np.flatnonzero(~np.isnan(points[1, :, 0]))
    whole = family.prepare(Cloud("whole", seen, gpa.map_[seen], np.ones(len(seen))))
    for j in seen[:5]:
        rest = seen[seen != j]
        # the width of the kernel stays that of all points
        factor = whole.kernel_part.sigma * whole.cloud.frame.size
        part = family.prepare(Cloud("rest", rest, gpa.map_[rest], np.ones(len(rest))))
        bandwidth = backward.settings[0] * factor / (part.kernel_part.sigma * part.cloud.frame.size)
        own = KernelFamily(KERNELS["gaussian"], bandwidth, backward.settings[1])
        reduced = own.prepare(part.cloud).reduce(own.smoothing, np.ones(len(rest)))
        error = reduced.fit_all([points[t, rest]])[0](gpa.map_[[j]])[0] - points[t, j]
        expected = np.linalg.norm(error) * counts[j] / (counts[j] - 1)
        assert_allclose(backward.residuals[t, j], expected, rtol=1e-6)


def test_the_chosen_settings_are_not_worse_than_any_of_a_fine_grid():
    rng = np.random.default_rng(0)
    points = rng.standard_normal((60, 3))
    targets = [
        Target(
            Cloud(t, np.arange(60), points, np.ones(60)),
            points + 0.3 * np.sin(2 * points + t) + 0.02 * rng.standard_normal((60, 3)),
        )
        for t in range(4)
    ]
    grid = ((0.15, 0.4, 1.0, 2.5), (1e-6, 1e-4, 1e-2, 1.0))
    error = LeaveOneOutError(Search(lambda s: KernelFamily(KERNELS["gaussian"], s[0], s[1]), grid), targets)
    chosen = choose(error)
    fine = [error((b, s)) for b in np.geomspace(0.1, 3, 12) for s in np.geomspace(1e-6, 10, 12)]
    assert error(chosen) < 1.01 * min(fine)


def test_single_wrong_matches_do_not_decide():
    lengths = np.ones(100)
    lengths[0] = 1e6
    assert pooled(lengths, np.ones(100)) == pytest.approx(1.19)


@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_regions_hold_what_they_promise_on_a_liver(noise):
    liver = simulate.liver(clouds=20, landmarks=100, vertices=402, noise=noise, seed=3)
    points, hide = without(liver.points, 0.2, 0)
    imputed, covariances = KernelGPA().fit(points).impute(return_cov=True)
    residuals = (imputed - liver.points)[hide]
    squares = np.einsum("ki,kij,kj->k", residuals, np.linalg.inv(covariances[hide]), residuals)
    sampling = 3 * np.sqrt(0.9 * 0.1 / len(squares))
    assert 0.85 - sampling <= np.mean(squares <= chi2(3).ppf(0.9)) <= 0.94 + sampling


def test_a_saved_model_predicts_the_same(tmp_path):
    gpa = KernelGPA().fit(scene(bend=0.1, noise=0.01, seed=6)[0])
    save(gpa, tmp_path / "out")
    assert_allclose(load(tmp_path / "out").impute(), gpa.impute(), rtol=0, atol=1e-6)


def test_a_new_fit_predicts_anew():
    first, second = (scene(bend=0.1, noise=0.01, seed=seed)[0] for seed in (6, 7))
    gpa = KernelGPA().fit(first)
    gpa.impute()
    assert_allclose(gpa.fit(second).impute(), KernelGPA().fit(second).impute(), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("file", "mean", "median"),
    [("data/surfaces/kinect_paper.npz", 0.6, 0.4), ("data/surfaces/cushion.npz", 15.0, 6.0)],
)
def test_unseen_points_of_real_sheets_are_recovered(file, mean, median):
    complete = load_shared(file)["points"]
    errors = []
    for seed in range(5):
        points, hide = without(complete, 0.2, seed)
        gpa = fit_quietly(points)
        assert gpa.mirrored_ == []
        hide &= ~hide.all(axis=0)  # what no cloud saw is unknown
        errors.append(np.linalg.norm((gpa.impute() - complete)[hide], axis=1))
    every = np.concatenate(errors)
    assert np.isfinite(every).all()
    assert every.mean() < mean
    assert np.median(every) < median


@pytest.mark.parametrize("model", [KernelGPA(inducing=20), TPSGPA(control_points=3), KernelGPA(), RigidGPA()], ids=repr)
def test_points_that_are_not_known_stay_unknown(model):
    points = scene(bend=0.1, noise=0.01, hidden=0.2, seed=8)[0]
    points[:, 3] = np.nan  # seen by no cloud
    with pytest.warns(KernelGPAWarning, match="seen by no participating cloud"):
        gpa = clone(model).fit(points)
    imputed, covariances = gpa.impute(return_cov=True)
    assert np.isnan(imputed[:, 3]).all()
    assert np.isnan(covariances[:, 3]).any(axis=(1, 2)).all()
    predicted, cov = gpa.predict(np.full((2, 3), np.nan), cloud=0, return_cov=True)
    assert np.isnan(predicted).all()
    assert np.isnan(cov).any()

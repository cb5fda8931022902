"""Residuals and robust losses of rigid motions and similarities."""

from __future__ import annotations

import numpy as np
import pytest

from conftest import random_rotation, scene
from kernelgpa import RigidGPA
from kernelgpa.errors import InvalidSetting
from kernelgpa.estimators.prediction.motion_residuals import LARGE_LEVERAGE, leverages
from kernelgpa.simulate import exchanged
from kernelgpa.trust.metrics import mean_of_others

LOSSES = ["huber", "tukey", "geman-mcclure", "auto"]


def clouds(seed=3, sizes=None):
    points = scene(n=10, m=40, hidden=0.1, seed=seed, bend=0.02, noise=0.01)[0]
    return points if sizes is None else points * np.asarray(sizes)[:, None, None]


@pytest.mark.parametrize("scaling", [False, True])
def test_residuals_are_distances_from_the_mean_of_the_other_clouds(scaling):
    points = clouds()
    gpa = RigidGPA(scaling=scaling).fit(points)
    moved = gpa.transform_clouds(points)
    expected = np.linalg.norm(moved - mean_of_others(moved), axis=2)
    usual = gpa.observations_.visible & (leverages(gpa.observations_.stacked) <= LARGE_LEVERAGE)
    usual &= gpa.observations_.counts >= 2
    assert usual.sum() > 0.8 * usual.size
    np.testing.assert_allclose(gpa.residuals_[usual], expected[usual], rtol=1e-8)
    np.testing.assert_array_equal(np.isnan(gpa.residuals_), np.isnan(points[:, :, 0]))
    assert np.nanmax(gpa.scaled_residuals_ / gpa.residuals_) <= 1


def test_backward_residuals_are_lengths_in_the_frames_of_the_clouds():
    gpa = RigidGPA(scaling=True).fit(clouds(sizes=np.linspace(0.5, 2, 10)))
    backward = gpa._backward()
    np.testing.assert_allclose(backward.residuals * gpa.size_factors_[:, None], gpa.residuals_, rtol=1e-12)
    assert gpa.size_factors_.max() > 3 * gpa.size_factors_.min()


@pytest.mark.parametrize("robust", LOSSES)
@pytest.mark.parametrize("scaling", [False, True])
def test_a_robust_loss_rejects_exchanged_matches(robust, scaling):
    clean = clouds()
    wrong, is_wrong = exchanged(clean, 0.1)
    reference = RigidGPA(scaling=scaling).fit(clean)
    plain, robust_fit = (RigidGPA(scaling=scaling, robust=one).fit(wrong) for one in (None, robust))
    far = is_wrong & (np.linalg.norm(wrong - clean, axis=2) > 1.0)

    def error(gpa):
        turns = np.einsum("tij,tkj->tik", gpa.rotations_, reference.rotations_)
        return np.linalg.norm(turns - turns[:1], axis=(1, 2)).max()

    assert error(robust_fit) < 0.5 * error(plain)
    shares = robust_fit.weights_ / np.where(robust_fit.observations_.weights > 0, robust_fit.observations_.weights, 1)
    assert np.median(shares[far]) < 0.2
    assert np.median(shares[~is_wrong & ~np.isnan(clean[:, :, 0])]) > 0.5


@pytest.mark.parametrize("robust", ["tukey", "geman-mcclure"])
def test_a_far_away_observation_does_not_displace_its_cloud(robust):
    sizes = np.linspace(0.8, 1.25, 10)
    points = clouds(sizes=sizes)
    seen = np.flatnonzero(~np.isnan(points[4, :, 0]))[0]
    points[4, seen] = 100.0
    plain = RigidGPA(scaling=True).fit(points)
    first = plain.suspicious_observations(1)[0]
    assert (first.cloud, first.landmark) == (4, seen)  # although it determines the motion of its cloud
    fitted = RigidGPA(scaling=True, robust=robust).fit(points)
    np.testing.assert_allclose(fitted.size_factors_ * sizes, np.mean(fitted.size_factors_ * sizes), rtol=0.02)


def test_no_loss_is_chosen_for_noise_alone():
    rng = np.random.default_rng(0)
    body = rng.standard_normal((40, 3))
    points = np.stack([body @ random_rotation(3, rng).T for _ in range(10)]) + 0.01 * rng.standard_normal((10, 40, 3))
    assert RigidGPA(robust="auto").fit(points).robust_ is None
    chosen = RigidGPA(robust="auto").fit(exchanged(points, 0.1)[0])
    assert chosen.robust_ == "tukey"
    assert "'tukey' was used" in str(chosen.automatic_)


def test_an_unknown_loss_is_refused():
    with pytest.raises(InvalidSetting, match="robust is 'cauchy'"):
        RigidGPA(robust="cauchy").fit(clouds())

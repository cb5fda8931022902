"""Every finding is made where it should be, and not where all is well."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.base import clone

from conftest import random_rotation, scene
from kernelgpa import TPSGPA, AffineGPA, KernelGPA, KernelGPAWarning, NotFitted, RigidGPA, uncertainty
from kernelgpa.errors import InvalidSetting
from kernelgpa.gauge.rotations import nearest_rotation, rotation_vector
from kernelgpa.simulate import exchanged
from kernelgpa.trust.metrics import mean_of_others
from kernelgpa.trust.selection import cross_validate


def kinds(gpa, **query):
    return [finding.kind for finding in gpa.diagnose(**query)]


def healthy():
    return scene(n=8, m=60, hidden=0.1, seed=1, bend=0.03, noise=0.005)[0]


@pytest.mark.parametrize(
    "model", [KernelGPA(), KernelGPA(robust="geman-mcclure"), RigidGPA(), RigidGPA(scaling=True)], ids=repr
)
def test_nothing_is_said_where_all_is_well(model):
    assert kinds(model.fit(healthy())) == []


def test_findings_come_worst_first_with_what_to_do():
    points = healthy()
    points[3, :, 0] *= -1
    points[1:, 5] = np.nan
    with pytest.warns(KernelGPAWarning):
        findings = KernelGPA().fit(points).diagnose()
    severities = [finding.severity for finding in findings]
    assert severities == sorted(severities, reverse=True)
    assert "mirrored clouds" in [finding.kind for finding in findings]
    assert "landmarks seen once or never" in [finding.kind for finding in findings]
    assert all(finding.found and finding.action and finding.action in str(finding) for finding in findings)


def test_a_collapse_and_its_folds_are_seen():
    points, _ = scene(n=8, m=60, hidden=0.1, seed=1, bend=0.3, noise=0.02)
    gpa = KernelGPA(bandwidth=1.5, smoothing=1e-6, modes="paper").fit(points)
    assert {"collapsed map", "folds"} <= set(kinds(gpa))
    assert "collapsed map" not in kinds(KernelGPA(bandwidth=1.5, smoothing=1e-6).fit(points))


def test_a_spectrum_without_a_gap_is_seen():
    gpa = KernelGPA().fit(scene(n=8, m=60, hidden=0.1, seed=2, noise=0.7)[0])
    assert gpa.spectrum_.gap < 0.1
    assert "no spectral gap" in kinds(gpa)


def two_groups(thickness, seed=0):
    """Two groups of three clouds that share eight landmarks as thick as ``thickness``."""
    rng = np.random.default_rng(seed)
    body = rng.standard_normal((60, 3))
    body[:8, 2] *= thickness
    points = np.stack([body @ random_rotation(3, rng).T for _ in range(6)]) + 0.01 * rng.standard_normal((6, 60, 3))
    points[:3, 34:] = np.nan
    points[3:, 8:34] = np.nan
    return points


def test_groups_that_noise_can_tear_apart_are_named():
    points = two_groups(0.005)
    found = [finding for finding in KernelGPA().fit(points).diagnose() if finding.kind == "weakly tied groups"]
    assert "clouds 0, 1, 2 and clouds 3, 4, 5" in found[0].found
    with pytest.warns(KernelGPAWarning, match="modes='paper' may be wrong"):
        KernelGPA(modes="paper").fit(points)
    assert "weakly tied groups" not in kinds(KernelGPA().fit(two_groups(1.0)))


@pytest.mark.parametrize("seed", range(8))
def test_groups_that_are_hardly_tied_are_never_called_mirrored(seed):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KernelGPAWarning)
        assert RigidGPA().fit(two_groups(0.0, seed)).mirrored_ == []


def test_a_landmark_left_to_one_cloud_by_a_robust_fit_is_named():
    points = healthy()
    points[:, 9] += np.random.default_rng(0).standard_normal((8, 3))
    found = [f for f in KernelGPA(robust="tukey").fit(points).diagnose() if f.kind == "landmarks left to one cloud"]
    assert " 9 " in found[0].found


def test_points_are_diagnosed_with_their_cloud_or_not_at_all():
    with pytest.raises(InvalidSetting, match="one of them is missing"):
        KernelGPA().fit(healthy()).diagnose(np.zeros((3, 3)))


def test_a_cloud_without_a_residual_is_neither_suspected_nor_set_aside():
    points = scene(n=5, m=40, hidden=0.0, bend=0.02, noise=0.01)[0]
    points[0, 4:] = np.nan
    for robust in (None, "tukey", "huber"):
        gpa = KernelGPA(robust=robust).fit(points)
        assert np.isnan(gpa.residuals_[0]).all()
        assert np.all(gpa.weights_[0, :4] == 1)
        assert all(one.cloud != 0 for one in gpa.suspicious_observations())


def test_a_wrong_match_is_the_first_suspicion():
    points = healthy()
    seen = np.flatnonzero(~np.isnan(points[2, :, 0]))
    points[2, seen[:2]] = points[2, seen[1::-1]]
    gpa = KernelGPA(bandwidth=0.5).fit(points)
    assert "suspicious observations" in kinds(gpa)
    assert {(one.cloud, one.landmark) for one in gpa.suspicious_observations(2)} == {(2, seen[0]), (2, seen[1])}
    assert gpa.suspicious_observations(1)[0].residual == np.nanmax(gpa.residuals_)


def test_a_bad_landmark_is_the_first_of_the_landmarks():
    points = healthy()
    points[:, 9] += 0.5 * np.random.default_rng(0).standard_normal((8, 3))
    assert KernelGPA(bandwidth=0.5).fit(points).suspicious_landmarks()[0][0] == 9


def test_a_cloud_on_few_shared_landmarks_is_weakly_tied():
    points = scene(n=6, m=60, hidden=0.0, seed=1, bend=0.02)[0]
    points[5, 5:] = np.nan
    found = [finding for finding in KernelGPA().fit(points).diagnose() if finding.kind == "weakly tied"]
    assert "cloud 5" in found[0].found


@pytest.mark.parametrize("bandwidth", [30.0, 1e-3])
def test_a_bandwidth_given_as_a_length_is_noticed(bandwidth):
    assert "unusual bandwidth" in kinds(KernelGPA(bandwidth=bandwidth).fit(healthy()))


def test_query_points_far_outside_are_counted():
    points = healthy()
    gpa = KernelGPA().fit(points)
    own = points[0][~np.isnan(points[0, :, 0])]
    assert "points far outside" not in kinds(gpa, points=own, cloud=0)
    far = [finding for finding in gpa.diagnose(own + 100.0, 0) if finding.kind == "points far outside"]
    assert f"{len(own)} of {len(own)} points" in far[0].found


def test_an_unfitted_model_cannot_be_diagnosed():
    with pytest.raises(NotFitted):
        KernelGPA().diagnose()


def test_uncertainty_grows_with_the_level_and_away_from_the_landmarks():
    points = healthy()
    known = uncertainty(cross_validate(KernelGPA(), points, folds=10))
    own = points[0][~np.isnan(points[0, :, 0])]
    assert np.all(known.radius(own, 0, 0.5) < known.radius(own, 0, 0.95))
    outside = own.mean(axis=0) + 5 * (own - own.mean(axis=0))
    assert known.standard_deviation(outside, 0).min() > known.standard_deviation(own, 0).max()
    deviation = known.standard_deviation(own, 0)
    assert np.allclose(known.covariance(own, 0), deviation[:, None, None] ** 2 * np.eye(3))


@pytest.mark.parametrize(
    "model", [AffineGPA(), TPSGPA(control_points=3), KernelGPA(bandwidth=0.5), KernelGPA(inducing=15)], ids=repr
)
@pytest.mark.parametrize("weight", [1.0, 100.0, 0.01])
def test_regions_cover_what_they_say_whatever_the_unit_of_the_weights(model, weight):
    points, _ = scene(n=8, m=160, hidden=0.0, seed=3, bend=0.05, noise=0.02)
    fitted, held = points[:, :80], points[:, 80:]
    if hasattr(model, "smoothing"):
        model = clone(model).set_params(smoothing=weight * model.smoothing)
    known = uncertainty(cross_validate(model, fitted, 10, weights=np.full(80, weight)))
    off = known.validation.fitted.transform_clouds(held)
    distance = np.linalg.norm(off - mean_of_others(off), axis=2)
    for level in (0.5, 0.9):
        radius = np.stack([known.radius(one, t, level) for t, one in enumerate(held)])
        assert np.mean(distance < radius) == pytest.approx(level, abs=0.1)


def test_an_accurate_point_has_a_smaller_region():
    points, _ = scene(n=8, m=80, hidden=0.0, seed=3, bend=0.02, noise=0.02)
    known = uncertainty(cross_validate(KernelGPA(), points, 10))
    rough, usual, sharp = (known.radius(points[0], 0, weight=weight) for weight in (0.1, None, 10.0))
    assert np.all(sharp < usual)
    assert np.all(usual < rough)
    with pytest.raises(InvalidSetting, match="weight is -1"):
        known.radius(points[0], 0, weight=-1.0)


def test_wrong_matches_that_a_robust_fit_sets_aside_do_not_widen_regions():
    clean = scene(n=10, m=80, hidden=0.0, seed=3, bend=0.02, noise=0.01)[0]
    wrong, _ = exchanged(clean, 0.1)
    model = KernelGPA(robust="geman-mcclure")
    sound, spoilt = (uncertainty(cross_validate(model, points, 10)) for points in (clean, wrong))
    assert spoilt.validation.sensor_rms < 1.3 * sound.validation.sensor_rms
    assert np.median(spoilt.radius(clean[0], 0)) < 1.3 * np.median(sound.radius(clean[0], 0))
    spread = [np.nanmedian(np.trace(one.map_covariance(), axis1=1, axis2=2)) for one in (sound, spoilt)]
    assert spread[1] < 1.3 * spread[0]


def test_exact_copies_are_certain():
    points, _ = scene(n=4, m=40, hidden=0.0, bend=0.0, noise=0.0)
    known = uncertainty(cross_validate(KernelGPA(), points, 5))
    assert np.all(known.radius(points[0], 0) < 1e-6)


@pytest.mark.slow
def test_covariances_of_map_and_poses_are_those_of_many_runs(dimension):
    """Rigid copies with noise: the covariances against the scatter of maps and poses over 60 draws of the noise."""
    rng = np.random.default_rng(0)
    body = rng.standard_normal((40, dimension)) * np.arange(1, dimension + 1)
    truth = np.stack([body @ random_rotation(dimension, rng).T for _ in range(6)])
    hidden = rng.random((6, 40)) < 0.2
    model, maps, turns, moves, said_map, said_pose = AffineGPA(), [], [], [], [], []
    reference = model.fit(np.where(hidden[:, :, None], np.nan, truth))
    for _ in range(60):
        points = np.where(hidden[:, :, None], np.nan, truth + 0.01 * rng.standard_normal(truth.shape))
        known = uncertainty(cross_validate(model, points, folds=5))
        gpa = known.validation.fitted
        centre = gpa.map_.mean(axis=0) - reference.map_.mean(axis=0)
        turn = nearest_rotation((reference.map_ - reference.map_.mean(axis=0)).T @ (gpa.map_ - gpa.map_.mean(axis=0)))
        maps.append((gpa.map_ - centre) @ turn.T - reference.map_)
        turns.append(rotation_vector(turn @ gpa.rotations_[2] @ reference.rotations_[2].T))
        moves.append(turn @ gpa.translations_[2] - reference.translations_[2])
        said_map.append(np.trace(known.map_covariance(), axis1=1, axis2=2).mean())
        said_pose.append(np.diag(known.pose_covariance(2)))
    seen_map = np.mean(np.sum(np.square(maps), axis=2))
    seen_pose = np.mean(np.square(np.column_stack([turns, moves])), axis=0)
    assert 0.6 < np.mean(said_map) / seen_map < 1.7
    assert np.all(np.abs(np.log(np.mean(said_pose, axis=0) / seen_pose)) < np.log(2.5))


def test_covariances_can_be_inverted(dimension):
    points, _ = scene(n=8, m=60, d=dimension, hidden=0.6, seed=1, bend=0.03)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KernelGPAWarning)
        known = uncertainty(cross_validate(KernelGPA(), points, folds=10))
    covariance = known.map_covariance()
    covariance = covariance[~np.isnan(covariance[:, 0, 0])]
    assert np.linalg.cond(covariance).max() < 100
    pose = known.pose_covariance(3)
    size = dimension + dimension * (dimension - 1) // 2
    assert pose.shape == (size, size)
    assert np.linalg.eigvalsh(pose).min() > -1e-12 * np.abs(pose).max()


def test_map_deviations_shrink_with_more_clouds():
    few, many = (
        uncertainty(cross_validate(KernelGPA(), scene(n=n, m=60, hidden=0.0, seed=1, bend=0.05)[0], folds=10))
        for n in (6, 24)
    )
    assert np.trace(many.map_covariance().mean(axis=0)) < 0.5 * np.trace(few.map_covariance().mean(axis=0))


def test_bad_levels_and_rigid_registrations_are_refused():
    points = healthy()
    known = uncertainty(cross_validate(KernelGPA(), points, folds=10))
    with pytest.raises(InvalidSetting, match="level is 95"):
        known.radius(points[0], 0, 95)
    with pytest.raises(InvalidSetting, match="RigidGPA has no warps that bend"):
        uncertainty(cross_validate(RigidGPA(), points, folds=10))


@pytest.mark.parametrize("weight", [1e-12, 1e12])
def test_the_unit_of_the_weights_does_not_hide_wrong_matches(weight):
    clean = scene(n=10, m=60, hidden=0.0, seed=3, bend=0.02, noise=0.01)[0]
    wrong, exchanged_ones = exchanged(clean, 0.1)
    gpa = KernelGPA(smoothing=0.1 * weight, robust="tukey").fit(wrong, weights=np.full(60, weight))
    assert np.isfinite(gpa.residuals_).all()
    assert np.all(gpa.weights_[exchanged_ones] < 0.1 * weight)

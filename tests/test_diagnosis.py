"""Every check finds what it is made for, and nothing if all is well; uncertainties agree with repeated experiments."""

from __future__ import annotations

import subprocess
import sys
import warnings

import numpy as np
import pytest
from sklearn.base import clone

from conftest import random_rotation, scene
from fixed_settings import fixed_kernel, fixed_tps
from kernelgpa import AffineGPA, KernelGPAWarning, NotFitted, RigidGPA, uncertainty
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
    "model", [fixed_kernel(), fixed_kernel(robust="geman-mcclure"), RigidGPA(), RigidGPA(scaling=True)], ids=repr
)
def test_a_good_registration_has_no_findings(model):
    assert kinds(model.fit(healthy())) == []


def test_findings_are_sorted_by_severity_and_name_an_action():
    points = healthy()
    points[3, :, 0] *= -1
    points[1:, 5] = np.nan
    with pytest.warns(KernelGPAWarning):
        findings = fixed_kernel().fit(points).diagnose()
    severities = [finding.severity for finding in findings]
    assert severities == sorted(severities, reverse=True)
    assert "mirror images" in [finding.kind for finding in findings]
    assert "landmarks seen once or never" in [finding.kind for finding in findings]
    assert all(finding.found and finding.action and finding.action in str(finding) for finding in findings)


def test_a_collapsed_map_and_folded_warps_are_found():
    points, _ = scene(n=8, m=60, hidden=0.1, seed=1, bend=0.3, noise=0.02)
    gpa = fixed_kernel(bandwidth=1.5, smoothing=1e-6, modes="program").fit(points)
    (collapsed,) = [finding for finding in gpa.diagnose() if finding.kind == "collapsed map"]
    assert "It explains:" in collapsed.found
    assert "folded warps" in collapsed.found
    assert "folded warps" not in kinds(gpa)  # the cause is reported once, and not its symptoms
    assert "collapsed map" not in kinds(fixed_kernel(bandwidth=1.5, smoothing=1e-6).fit(points))


@pytest.mark.parametrize("modes", ["paper", "program"])
def test_a_missing_spectral_gap_is_found_if_the_map_depends_on_it(modes):
    points = scene(n=8, m=60, hidden=0.1, seed=2, noise=0.7)[0]
    gpa = fixed_kernel(modes=modes).fit(points)
    assert gpa.spectrum_.gap < 0.1
    (finding,) = [finding for finding in gpa.diagnose() if finding.kind == "no spectral gap"]
    assert "modes='auto'" in finding.action
    faithful = fixed_kernel().fit(points)
    assert faithful.spectrum_.gap < 0.1
    assert "no spectral gap" not in kinds(faithful)


def two_groups(thickness, seed=0):
    """Two groups of three clouds that share eight landmarks as thick as ``thickness``."""
    rng = np.random.default_rng(seed)
    body = rng.standard_normal((60, 3))
    body[:8, 2] *= thickness
    points = np.stack([body @ random_rotation(3, rng).T for _ in range(6)]) + 0.01 * rng.standard_normal((6, 60, 3))
    points[:3, 34:] = np.nan
    points[3:, 8:34] = np.nan
    return points


def test_weakly_connected_groups_are_named():
    points = two_groups(0.005)
    found = [finding for finding in fixed_kernel().fit(points).diagnose() if finding.kind == "weakly connected groups"]
    assert "clouds 0, 1, 2 and clouds 3, 4, 5" in found[0].found
    with pytest.warns(KernelGPAWarning, match="this setting of modes may be wrong"):
        fixed_kernel(modes="program").fit(points)
    assert "weakly connected groups" not in kinds(fixed_kernel().fit(two_groups(1.0)))


@pytest.mark.parametrize("seed", range(8))
def test_weakly_connected_groups_are_never_called_mirror_images(seed):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KernelGPAWarning)
        assert RigidGPA().fit(two_groups(0.0, seed)).mirrored_ == []


def test_a_landmark_whose_observations_a_robust_fit_rejects_is_named():
    points = healthy()
    points[:, 9] += np.random.default_rng(0).standard_normal((8, 3))
    found = [
        f
        for f in fixed_kernel(robust="tukey").fit(points).diagnose()
        if f.kind == "landmarks with fewer than two inliers"
    ]
    assert found[0].found.endswith(" 9")


def test_points_are_diagnosed_only_with_their_cloud():
    with pytest.raises(InvalidSetting, match="one of them is missing"):
        fixed_kernel().fit(healthy()).diagnose(np.zeros((3, 3)))


def test_a_cloud_without_residuals_is_neither_suspicious_nor_down_weighted():
    points = scene(n=5, m=40, hidden=0.0, bend=0.02, noise=0.01)[0]
    points[0, 4:] = np.nan
    for robust in (None, "tukey", "huber"):
        gpa = fixed_kernel(robust=robust).fit(points)
        assert np.isnan(gpa.residuals_[0]).all()
        assert np.all(gpa.weights_[0, :4] == 1)
        assert all(one.cloud != 0 for one in gpa.suspicious_observations())


def test_a_wrong_match_is_the_first_suspicious_observation():
    points = healthy()
    seen = np.flatnonzero(~np.isnan(points[2, :, 0]))
    points[2, seen[:2]] = points[2, seen[1::-1]]
    gpa = fixed_kernel(bandwidth=0.5).fit(points)
    assert kinds(gpa) == ["exchanged landmarks"]
    assert {(one.cloud, one.landmark) for one in gpa.suspicious_observations(2)} == {(2, seen[0]), (2, seen[1])}
    assert gpa.suspicious_observations(1)[0].residual == np.nanmax(gpa.residuals_)


def test_an_inaccurate_landmark_is_the_first_suspicious_landmark():
    points = healthy()
    points[:, 9] += 0.5 * np.random.default_rng(0).standard_normal((8, 3))
    assert fixed_kernel(bandwidth=0.5).fit(points).suspicious_landmarks()[0][0] == 9


def test_a_cloud_with_few_shared_landmarks_is_weakly_connected():
    points = scene(n=6, m=60, hidden=0.0, seed=1, bend=0.02)[0]
    points[5, 5:] = np.nan
    found = [finding for finding in fixed_kernel().fit(points).diagnose() if finding.kind == "weakly connected cloud"]
    assert "cloud 5" in found[0].found


def test_clouds_with_few_shared_landmarks_are_one_finding():
    points = scene(n=8, m=60, hidden=0.0, seed=1, bend=0.02)[0]
    points[5, 6:] = points[6, 4:] = points[7, 5:] = np.nan
    found = [one.found for one in RigidGPA().fit(points).diagnose() if one.kind == "weakly connected cloud"]
    assert len(found) == 1
    assert "clouds 5, 6, 7 share few landmarks" in found[0]
    assert "cloud 6 shares 4 landmarks" in found[0]


@pytest.mark.parametrize("m", [5, 7])
def test_clouds_that_share_all_of_few_landmarks_are_not_weakly_connected(m):
    points = scene(n=8, m=60, hidden=0.0, seed=1, bend=0.02)[0][:, ::8][:, :m]
    assert "weakly connected cloud" not in kinds(RigidGPA().fit(points))


@pytest.mark.parametrize("bandwidth", [30.0, 1e-3])
def test_a_bandwidth_given_as_a_length_is_found(bandwidth):
    assert "unusual bandwidth" in kinds(fixed_kernel(bandwidth=bandwidth).fit(healthy()))


def test_query_points_far_from_the_landmarks_are_counted():
    points = healthy()
    gpa = fixed_kernel().fit(points)
    own = points[0][~np.isnan(points[0, :, 0])]
    assert "points far from the landmarks" not in kinds(gpa, points=own, cloud=0)
    far = [finding for finding in gpa.diagnose(own + 100.0, 0) if finding.kind == "points far from the landmarks"]
    assert f"{len(own)} of {len(own)} points" in far[0].found
    assert "in the unit of the data" in far[0].found


def test_findings_can_be_imported_before_any_estimator():
    subprocess.run([sys.executable, "-c", "from kernelgpa import Finding, SuspiciousObservation"], check=True)


def test_an_unfitted_model_cannot_be_diagnosed():
    with pytest.raises(NotFitted):
        fixed_kernel().diagnose()


def test_uncertainty_grows_with_the_level_and_away_from_the_landmarks():
    points = healthy()
    estimate = uncertainty(cross_validate(fixed_kernel(), points, folds=10))
    own = points[0][~np.isnan(points[0, :, 0])]
    assert np.all(estimate.radius(own, 0, 0.5) < estimate.radius(own, 0, 0.95))
    outside = own.mean(axis=0) + 5 * (own - own.mean(axis=0))
    assert estimate.standard_deviation(outside, 0).min() > estimate.standard_deviation(own, 0).max()
    deviation = estimate.standard_deviation(own, 0)
    assert np.allclose(estimate.covariance(own, 0), deviation[:, None, None] ** 2 * np.eye(3))


@pytest.mark.parametrize(
    "model",
    [AffineGPA(), fixed_tps(control_points=3), fixed_kernel(bandwidth=0.5), fixed_kernel(inducing=15)],
    ids=repr,
)
@pytest.mark.parametrize("weight", [1.0, 100.0, 0.01])
def test_regions_have_the_stated_coverage_whatever_the_unit_of_the_weights(model, weight):
    points, _ = scene(n=8, m=160, hidden=0.0, seed=3, bend=0.05, noise=0.02)
    fitted, held = points[:, :80], points[:, 80:]
    if hasattr(model, "smoothing"):
        model = clone(model).set_params(smoothing=weight * model.smoothing)
    estimate = uncertainty(cross_validate(model, fitted, 10, weights=np.full(80, weight)))
    images = estimate.validation.fitted.transform_clouds(held)
    distance = np.linalg.norm(images - mean_of_others(images), axis=2)
    for level in (0.5, 0.9):
        radius = np.stack([estimate.radius(one, t, level) for t, one in enumerate(held)])
        assert np.mean(distance < radius) == pytest.approx(level, abs=0.1)


def test_a_more_accurate_point_has_a_smaller_region():
    points, _ = scene(n=8, m=80, hidden=0.0, seed=3, bend=0.02, noise=0.02)
    estimate = uncertainty(cross_validate(fixed_kernel(), points, 10))
    inaccurate, default, accurate = (estimate.radius(points[0], 0, weight=weight) for weight in (0.1, None, 10.0))
    assert np.all(accurate < default)
    assert np.all(default < inaccurate)
    with pytest.raises(InvalidSetting, match="weight is -1"):
        estimate.radius(points[0], 0, weight=-1.0)


def test_wrong_matches_that_a_robust_fit_rejects_do_not_enlarge_regions():
    clean = scene(n=10, m=80, hidden=0.0, seed=3, bend=0.02, noise=0.01)[0]
    wrong, _ = exchanged(clean, 0.1)
    model = fixed_kernel(robust="geman-mcclure")
    clean_result, wrong_result = (uncertainty(cross_validate(model, points, 10)) for points in (clean, wrong))
    assert wrong_result.validation.sensor_rms < 1.3 * clean_result.validation.sensor_rms
    assert np.median(wrong_result.radius(clean[0], 0)) < 1.3 * np.median(clean_result.radius(clean[0], 0))
    spread = [np.nanmedian(np.trace(one.map_covariance(), axis1=1, axis2=2)) for one in (clean_result, wrong_result)]
    assert spread[1] < 1.3 * spread[0]


def test_exact_copies_have_no_uncertainty():
    points, _ = scene(n=4, m=40, hidden=0.0, bend=0.0, noise=0.0)
    estimate = uncertainty(cross_validate(fixed_kernel(), points, 5))
    assert np.all(estimate.radius(points[0], 0) < 1e-6)


@pytest.mark.slow
def test_covariances_of_map_and_poses_are_those_of_repeated_experiments(dimension):
    """Rigid copies with noise: the covariances against the scatter of maps and poses over 60 draws of the noise."""
    rng = np.random.default_rng(0)
    body = rng.standard_normal((40, dimension)) * np.arange(1, dimension + 1)
    truth = np.stack([body @ random_rotation(dimension, rng).T for _ in range(6)])
    hidden = rng.random((6, 40)) < 0.2
    model, maps, turns, moves, stated_map, stated_pose = AffineGPA(), [], [], [], [], []
    reference = model.fit(np.where(hidden[:, :, None], np.nan, truth))
    for _ in range(60):
        points = np.where(hidden[:, :, None], np.nan, truth + 0.01 * rng.standard_normal(truth.shape))
        estimate = uncertainty(cross_validate(model, points, folds=5))
        gpa = estimate.validation.fitted
        centre = gpa.map_.mean(axis=0) - reference.map_.mean(axis=0)
        turn = nearest_rotation((reference.map_ - reference.map_.mean(axis=0)).T @ (gpa.map_ - gpa.map_.mean(axis=0)))
        maps.append((gpa.map_ - centre) @ turn.T - reference.map_)
        turns.append(rotation_vector(turn @ gpa.rotations_[2] @ reference.rotations_[2].T))
        moves.append(turn @ gpa.translations_[2] - reference.translations_[2])
        stated_map.append(np.trace(estimate.map_covariance(), axis1=1, axis2=2).mean())
        stated_pose.append(np.diag(estimate.pose_covariance(2)))
    observed_map = np.mean(np.sum(np.square(maps), axis=2))
    observed_pose = np.mean(np.square(np.column_stack([turns, moves])), axis=0)
    assert 0.6 < np.mean(stated_map) / observed_map < 1.7
    assert np.all(np.abs(np.log(np.mean(stated_pose, axis=0) / observed_pose)) < np.log(2.5))


def test_covariances_can_be_inverted(dimension):
    points, _ = scene(n=8, m=60, d=dimension, hidden=0.6, seed=1, bend=0.03)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KernelGPAWarning)
        estimate = uncertainty(cross_validate(fixed_kernel(), points, folds=10))
    covariance = estimate.map_covariance()
    covariance = covariance[~np.isnan(covariance[:, 0, 0])]
    assert np.linalg.cond(covariance).max() < 100
    pose = estimate.pose_covariance(3)
    size = dimension + dimension * (dimension - 1) // 2
    assert pose.shape == (size, size)
    assert np.linalg.eigvalsh(pose).min() > -1e-12 * np.abs(pose).max()


def test_map_covariances_decrease_with_more_clouds():
    few, many = (
        uncertainty(cross_validate(fixed_kernel(), scene(n=n, m=60, hidden=0.0, seed=1, bend=0.05)[0], folds=10))
        for n in (6, 24)
    )
    assert np.trace(many.map_covariance().mean(axis=0)) < 0.5 * np.trace(few.map_covariance().mean(axis=0))


def test_invalid_levels_and_rigid_registrations_raise():
    points = healthy()
    estimate = uncertainty(cross_validate(fixed_kernel(), points, folds=10))
    with pytest.raises(InvalidSetting, match="level is 95"):
        estimate.radius(points[0], 0, 95)
    with pytest.raises(InvalidSetting, match="RigidGPA has rigid warps"):
        uncertainty(cross_validate(RigidGPA(), points, folds=10))


@pytest.mark.parametrize("weight", [1e-12, 1e12])
def test_the_unit_of_the_weights_does_not_hide_wrong_matches(weight):
    clean = scene(n=10, m=60, hidden=0.0, seed=3, bend=0.02, noise=0.01)[0]
    wrong, is_wrong = exchanged(clean, 0.1)
    gpa = fixed_kernel(smoothing=0.1 * weight, robust="tukey").fit(wrong, weights=np.full(60, weight))
    assert np.isfinite(gpa.residuals_).all()
    assert np.all(gpa.weights_[is_wrong] < 0.1 * weight)

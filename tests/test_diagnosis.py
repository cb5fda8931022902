"""Every finding is made where it should be, and not where all is well."""

from __future__ import annotations

import numpy as np
import pytest

from conftest import scene
from kernelgpa import KernelGPA, KernelGPAWarning, NotFitted, RigidGPA, uncertainty
from kernelgpa.errors import InvalidSetting
from kernelgpa.selection import cross_validate


def kinds(gpa, **query):
    return [finding.kind for finding in gpa.diagnose(**query)]


def healthy():
    return scene(n=8, m=60, hidden=0.1, seed=1, bend=0.03)[0]


@pytest.mark.parametrize(
    "model", [KernelGPA(), KernelGPA(robust="tukey"), RigidGPA(), RigidGPA(scaling=True)], ids=repr
)
def test_nothing_is_said_where_all_is_well(model):
    gpa = model.fit(healthy())
    assert [kind for kind in kinds(gpa) if kind != "suspicious observations"] == []


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
    assert "collapsed map" in kinds(gpa)
    assert "collapsed map" not in kinds(KernelGPA(bandwidth=1.5, smoothing=1e-6).fit(points))


def test_a_wrong_match_is_the_first_suspicion():
    points = healthy()
    seen = np.flatnonzero(~np.isnan(points[2, :, 0]))
    points[2, seen[:2]] = points[2, seen[1::-1]]
    gpa = KernelGPA(bandwidth=0.5).fit(points)
    assert "suspicious observations" in kinds(gpa)
    assert {(one.cloud, one.landmark) for one in gpa.suspicions(2)} == {(2, seen[0]), (2, seen[1])}
    assert gpa.suspicions(1)[0].residual == np.nanmax(gpa.residuals_)


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


def test_covariances_of_map_and_poses_are_covariances(dimension):
    points, _ = scene(n=8, m=60, d=dimension, hidden=0.1, seed=1, bend=0.03)
    known = uncertainty(cross_validate(KernelGPA(), points, folds=10))
    assert np.linalg.eigvalsh(known.map_covariance()).min() >= -1e-15
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

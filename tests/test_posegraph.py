"""Poses from two sources: the optimum is that of a general optimiser."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import least_squares
from scipy.spatial.transform import Rotation

from conftest import random_rotation
from kernelgpa.gauge.pose_graph import Motion, motion_errors, refine_poses


def rotation_by(angles):
    if len(angles) == 1:
        c, s = np.cos(angles[0]), np.sin(angles[0])
        return np.array([[c, -s], [s, c]])
    return Rotation.from_rotvec(angles).as_matrix()


def angles_of(rotation):
    if len(rotation) == 2:
        return np.array([np.arctan2(rotation[1, 0], rotation[0, 0])])
    return Rotation.from_matrix(rotation).as_rotvec()


def problem(d, seed):
    rng = np.random.default_rng(seed)
    n, q = 6, d + d * (d - 1) // 2
    rotations = np.stack([random_rotation(d, rng) for _ in range(n)])
    translations = rng.standard_normal((n, d))
    roots = rng.standard_normal((n, q, q)) * 0.2 + np.eye(q)
    covariances = 0.01 * roots @ np.swapaxes(roots, 1, 2)
    motions = []
    for t in range(1, n):
        between = rotations[t - 1].T @ rotations[t] @ rotation_by(0.05 * rng.standard_normal(q - d))
        apart = rotations[t - 1].T @ (translations[t] - translations[t - 1]) + 0.05 * rng.standard_normal(d)
        motions.append(Motion(t - 1, t, between, apart, 0.03, 0.02))
    return rotations, translations, covariances, motions


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_the_optimum_is_that_of_a_general_optimiser(d, seed):
    rotations, translations, covariances, motions = problem(d, seed)
    whitened = [np.linalg.cholesky(np.linalg.inv(one)).T for one in covariances]

    def poses(x):
        x = x.reshape(len(rotations), -1)
        turned = np.stack([R @ rotation_by(one[d:]) for R, one in zip(rotations, x, strict=True)])
        return turned, translations + x[:, :d]

    def residuals(x):
        turned, moved = poses(x)
        terms = [
            whitened[t] @ np.concatenate([R.T @ (moved[t] - translations[t]), angles_of(R.T @ turned[t])])
            for t, R in enumerate(rotations)
        ]
        for one in motions:
            back = turned[one.source].T
            apart = back @ (moved[one.target] - moved[one.source]) - one.translation
            turn = angles_of(one.rotation.T @ back @ turned[one.target])
            terms.append(np.concatenate([apart / one.translation_deviation, turn / one.rotation_deviation]))
        return np.concatenate(terms)

    found = refine_poses(rotations, translations, covariances, motions)
    plain = least_squares(
        residuals, np.zeros(len(rotations) * covariances.shape[1]), xtol=1e-12, ftol=1e-12, gtol=1e-12
    )
    turned, moved = poses(plain.x)
    # Gauss-Newton neglects the curvature of log, which has the order of the squared residuals of some hundredths
    assert_allclose(found[1], moved, atol=2e-3)
    assert_allclose(found[0], turned, atol=2e-3)


def test_without_motions_the_poses_do_not_change():
    rotations, translations, covariances, _ = problem(3, 0)
    found = refine_poses(rotations, translations, covariances, [])
    assert_allclose(found[0], rotations, atol=1e-14)
    assert_allclose(found[1], translations, atol=1e-14)


def test_a_pose_of_infinite_covariance_follows_the_motions():
    rotations, translations, covariances, motions = problem(3, 1)
    covariances[3] = np.inf
    moved = translations.copy()
    moved[3] += 0.3
    accurate = [Motion(2, 3, motions[2].rotation, motions[2].translation, 1e-6, 1e-6)]
    found = refine_poses(rotations, moved, covariances, accurate)
    between = found[0][2].T @ (found[1][3] - found[1][2])
    assert_allclose(between, motions[2].translation, atol=1e-6)


def test_motion_errors_are_in_units_of_the_deviation_of_motion_and_poses():
    rotations, translations, covariances, motions = problem(3, 2)
    exact = [
        Motion(one.source, one.target, rotations[one.source].T @ rotations[one.target], apart, 0.03, 0.02)
        for one in motions
        for apart in [rotations[one.source].T @ (translations[one.target] - translations[one.source])]
    ]
    assert motion_errors(rotations, translations, covariances, exact).max() < 1e-7
    wrong = [Motion(0, 1, exact[0].rotation, exact[0].translation + np.eye(3)[0], 0.03, 0.02)]
    certain = np.full_like(covariances, 0.0) + 1e-12 * np.eye(6)
    assert motion_errors(rotations, translations, certain, wrong)[0] == pytest.approx(1 / 0.03 / np.sqrt(6), rel=1e-6)
    assert motion_errors(rotations, translations, covariances, wrong)[0] < 8  # the poses are less certain

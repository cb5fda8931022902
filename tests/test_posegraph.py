"""Poses from two sources: the optimum is that of a plain optimiser."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import least_squares
from scipy.spatial.transform import Rotation

from conftest import random_rotation
from kernelgpa.gauge.pose_graph import Motion, motion_errors, refine_poses


def turned_by(angles):
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
    trust = 0.01 * roots @ np.swapaxes(roots, 1, 2)
    motions = []
    for t in range(1, n):
        between = rotations[t - 1].T @ rotations[t] @ turned_by(0.05 * rng.standard_normal(q - d))
        apart = rotations[t - 1].T @ (translations[t] - translations[t - 1]) + 0.05 * rng.standard_normal(d)
        motions.append(Motion(t - 1, t, between, apart, 0.03, 0.02))
    return rotations, translations, trust, motions


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_the_optimum_is_that_of_a_plain_optimiser(d, seed):
    rotations, translations, trust, motions = problem(d, seed)
    whitened = [np.linalg.cholesky(np.linalg.inv(one)).T for one in trust]

    def poses(x):
        x = x.reshape(len(rotations), -1)
        turned = np.stack([R @ turned_by(one[d:]) for R, one in zip(rotations, x, strict=True)])
        return turned, translations + x[:, :d]

    def residuals(x):
        turned, moved = poses(x)
        off = [
            whitened[t] @ np.concatenate([R.T @ (moved[t] - translations[t]), angles_of(R.T @ turned[t])])
            for t, R in enumerate(rotations)
        ]
        for one in motions:
            back = turned[one.source].T
            apart = back @ (moved[one.target] - moved[one.source]) - one.translation
            turn = angles_of(one.rotation.T @ back @ turned[one.target])
            off.append(np.concatenate([apart / one.shift, turn / one.turn]))
        return np.concatenate(off)

    found = refine_poses(rotations, translations, trust, motions)
    plain = least_squares(residuals, np.zeros(len(rotations) * trust.shape[1]), xtol=1e-12, ftol=1e-12, gtol=1e-12)
    turned, moved = poses(plain.x)
    # Gauss-Newton leaves out the curvature of log, which is of the square of a residual of some hundredths
    assert_allclose(found[1], moved, atol=2e-3)
    assert_allclose(found[0], turned, atol=2e-3)


def test_without_motions_nothing_changes():
    rotations, translations, trust, _ = problem(3, 0)
    found = refine_poses(rotations, translations, trust, [])
    assert_allclose(found[0], rotations, atol=1e-14)
    assert_allclose(found[1], translations, atol=1e-14)


def test_a_pose_of_which_nothing_is_known_is_where_the_motions_put_it():
    rotations, translations, trust, motions = problem(3, 1)
    trust[3] = np.inf
    moved = translations.copy()
    moved[3] += 0.3
    sure = [Motion(2, 3, motions[2].rotation, motions[2].translation, 1e-6, 1e-6)]
    found = refine_poses(rotations, moved, trust, sure)
    between = found[0][2].T @ (found[1][3] - found[1][2])
    assert_allclose(between, motions[2].translation, atol=1e-6)


def test_a_motion_is_off_in_units_of_what_it_and_the_poses_leave_open():
    rotations, translations, trust, motions = problem(3, 2)
    exact = [
        Motion(one.source, one.target, rotations[one.source].T @ rotations[one.target], apart, 0.03, 0.02)
        for one in motions
        for apart in [rotations[one.source].T @ (translations[one.target] - translations[one.source])]
    ]
    assert motion_errors(rotations, translations, trust, exact).max() < 1e-7
    wrong = [Motion(0, 1, exact[0].rotation, exact[0].translation + np.eye(3)[0], 0.03, 0.02)]
    sure = np.full_like(trust, 0.0) + 1e-12 * np.eye(6)
    assert motion_errors(rotations, translations, sure, wrong)[0] == pytest.approx(1 / 0.03 / np.sqrt(6), rel=1e-6)
    assert motion_errors(rotations, translations, trust, wrong)[0] < 8  # the poses leave more open

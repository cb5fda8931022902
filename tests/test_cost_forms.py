"""The forms in which the paper writes the cost of one cloud are one matrix: that of the library."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.linalg import cond, eigvalsh, matrix_rank
from numpy.testing import assert_allclose

from kernelgpa.warps import KernelFamily, reduce
from kernelgpa.warps.kernels import Gaussian
from plain_formulas import PUBLISHED_COSTS, affine_projector, gaussian, published_H
from warp_formulas import EPS, affine_functions, every_dimension, every_shape, make_cloud

every_smoothing = pytest.mark.parametrize("mu", [0.05, 1.0])


def bandwidth(d, flat):
    """One for which the published forms, which square the condition number of K, are accurate."""
    return 0.02 if flat and d == 2 else 0.2  # the points of a line are close together


def parts(d, flat):
    """A cloud, its kernel matrix, and its affine functions, centred as the pseudo-inverses need it."""
    cloud = make_cloud(d, flat)
    K = gaussian(cloud.points, bandwidth(d, flat))
    return cloud, K, affine_functions(cloud.points - cloud.points.mean(axis=0))


def tolerance(K, T, mu):
    """Rounding times the condition number of S, which every published form inverts."""
    rest = np.eye(len(K)) - affine_projector(T)
    return 100 * cond(K @ rest @ K + mu * K) * EPS


@pytest.mark.parametrize("form", PUBLISHED_COSTS)
@every_dimension
@every_shape
@every_smoothing
def test_every_published_form_of_the_cost_is_the_same_matrix(form, d, flat, mu):
    cloud, K, T = parts(d, flat)
    found = reduce(KernelFamily(Gaussian(), bandwidth(d, flat), mu), cloud).cost_matrix()
    assert tolerance(K, T, mu) < 1e-8
    assert_allclose(PUBLISHED_COSTS[form](K, T, mu), found, rtol=0, atol=tolerance(K, T, mu))


@every_dimension
@every_shape
@every_smoothing
def test_the_fitted_warp_is_that_of_the_published_formulas(d, flat, mu):
    """Omega = H Y and the affine part T^+ (I - K H) Y, whatever the targets Y (Proposition 2, section 6.4)."""
    cloud, K, T = parts(d, flat)
    Y = np.random.default_rng(5).standard_normal((len(K), d))
    warp = reduce(KernelFamily(Gaussian(), bandwidth(d, flat), mu), cloud).fit_all([Y])[0]
    weights = published_H(K, T, mu) @ Y
    affine = np.linalg.pinv(T, rcond=1e-10) @ (Y - K @ weights)
    allowed = 10 * tolerance(K, T, mu) / mu * np.abs(Y).max() * len(K)
    assert_allclose(warp(cloud.points), T @ affine + K @ weights, rtol=0, atol=allowed)
    between = 0.5 * (cloud.points[1:] + cloud.points[:-1])  # of a flat cloud: in its plane
    to_points = np.linalg.norm(between[:, None] - cloud.points[None], axis=2)
    distances = np.linalg.norm(cloud.points[:, None] - cloud.points[None], axis=2)
    width = np.sqrt(-(distances[0, 1] ** 2) / (2 * np.log(K[0, 1])))  # of the Gaussian behind K
    kernels = np.exp(-(to_points**2) / (2 * width**2))
    there = affine_functions(between - cloud.points.mean(axis=0))
    assert_allclose(warp(between), there @ affine + kernels @ weights, rtol=0, atol=allowed)


@every_dimension
@every_shape
@every_smoothing
def test_H_is_symmetric_and_semidefinite_and_its_null_space_are_the_affine_functions(d, flat, mu):
    """Proposition 2 of the paper calls H positive definite, which it is not."""
    _, K, T = parts(d, flat)
    H = published_H(K, T, mu)
    assert_allclose(H, H.T, atol=tolerance(K, T, mu) / mu)
    assert_allclose(H @ T, 0, atol=10 * tolerance(K, T, mu) / mu)
    values = eigvalsh(0.5 * (H + H.T))
    dimensions = d + 1 - flat
    assert matrix_rank(T, tol=1e-10) == dimensions
    assert_allclose(values[:dimensions], 0, atol=tolerance(K, T, mu) / mu)
    assert values[dimensions] > 1e-2

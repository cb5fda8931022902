"""Each kind of cost operator is the same matrix, and sizes decide which kind and which solver are used."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.linalg import norm
from numpy.testing import assert_allclose

from conftest import scene
from kernelgpa import InvalidObservations, Observations
from kernelgpa.gauge.baselines import factorisation
from kernelgpa.gauge.initial import affine_cost
from kernelgpa.spectrum.dense import DenseCost
from kernelgpa.spectrum.eigenpairs import bottom_eigenpairs
from kernelgpa.spectrum.low_rank import Block, LowRankCost, TotalFeatures
from kernelgpa.spectrum.operator import DiagonalPlusLowRank, OperatorLimits
from kernelgpa.spectrum.total import total_cost
from kernelgpa.warps import AffineFamily, KernelFamily
from kernelgpa.warps.kernels import Gaussian
from spectral_solvers import (
    CHOLESKY,
    EPS,
    EXACT,
    FAMILIES,
    LAPACK,
    THIN,
    WOODBURY,
    assert_bottom,
    reduced,
    total_matrix,
)

# -- the choice of the solver --


def test_the_solver_depends_on_size_and_operator():
    small, large = (scene(n=3, m=m, hidden=0.0)[0] for m in (60, 420))
    chosen = {
        (name, size): bottom_eigenpairs(total_cost(reduced(FAMILIES[name], points), points.shape[1]), 3, 3).solver
        for name in ("affine", "gaussian")
        for size, points in (("small", small), ("large", large))
    }
    assert chosen == {
        ("affine", "small"): LAPACK,
        ("affine", "large"): WOODBURY,
        ("gaussian", "small"): LAPACK,
        ("gaussian", "large"): CHOLESKY,
    }


def test_many_features_give_a_dense_operator():
    points = scene(n=3, m=420, hidden=0.0)[0]
    clouds = reduced(KernelFamily(Gaussian(), 0.5, 0.1, inducing=70), points)
    assert bottom_eigenpairs(total_cost(clouds, 420), 3, 3).solver == CHOLESKY


def test_one_dense_cloud_gives_a_dense_operator():
    points = scene(n=3, m=420, hidden=0.0)[0]
    clouds = [*reduced(AffineFamily(), points[:2]), *reduced(EXACT["gaussian"], points[1:])]
    spectrum = bottom_eigenpairs(total_cost(clouds, 420), 3, 3)
    assert spectrum.solver == CHOLESKY
    assert_bottom(spectrum, total_matrix(clouds, 420), 3)


def test_the_low_rank_part_of_the_summed_cost_has_the_rank_of_all_clouds(dimension):
    """D - Q is of rank d + 1 for each cloud, not for all of them."""
    points, _ = scene(n=4, m=40, d=dimension, hidden=0.2, seed=1)
    cost = affine_cost(Observations.from_array(points).stacked)
    views = np.sum(~np.isnan(points[:, :, 0]), axis=0)
    rank = np.linalg.matrix_rank(np.diag(views) - cost.apply(np.eye(40)), tol=1e-9)
    assert rank == 4 * (dimension + 1)


def test_the_total_cost_is_the_trace():
    clouds = reduced(AffineFamily(), scene(n=4, m=120)[0])
    Q = total_matrix(clouds, 120)
    assert total_cost(clouds, 120).trace == pytest.approx(np.trace(Q), rel=100 * EPS)
    assert bottom_eigenpairs(total_cost(clouds, 120), 3, 3).top == pytest.approx(np.trace(Q), rel=100 * EPS)


# -- the operators --


@pytest.mark.parametrize("kind", [DenseCost, LowRankCost])
@given(seed=st.integers(0, 1000), scale=st.floats(0.1, 10), lift=st.floats(0.01, 10), extra=st.integers(0, 3))
@settings(max_examples=15)
def test_an_operator_and_its_inverse_equal_the_dense_matrix(kind, seed, scale, lift, extra):
    m, rng = 40, np.random.default_rng(seed)
    basis = np.linalg.qr(rng.standard_normal((m, 6)))[0] * rng.uniform(0.1, 0.9, 6)
    weights = rng.uniform(1, 2, m)
    Q = np.diag(weights) - basis @ basis.T
    cost = (
        DenseCost(Q)
        if kind is DenseCost
        else LowRankCost(TotalFeatures(weights, (Block(np.arange(len(basis)), weights, basis),)))
    )
    x = rng.standard_normal((m, 4))
    assert cost.landmarks == m
    assert cost.trace == pytest.approx(np.trace(Q), rel=100 * EPS)
    assert_allclose(cost.apply(x), Q @ x, rtol=0, atol=100 * EPS * norm(x))
    assert_allclose(cost.apply(x[:, 0]), Q @ x[:, 0], rtol=0, atol=100 * EPS * norm(x))
    diagonal, columns = rng.uniform(0.1, 1, m), 0.1 * rng.standard_normal((m, extra)) / np.sqrt(m)
    S = scale * Q + np.diag(diagonal) - columns @ columns.T + lift
    solve = cost.solver(scale, DiagonalPlusLowRank(diagonal, columns, np.full(cost.landmarks, np.sqrt(lift))))
    tolerance = 100 * EPS * np.linalg.cond(S) * norm(np.linalg.inv(S), 2) * norm(x)
    assert_allclose(solve(x), np.linalg.inv(S) @ x, rtol=0, atol=tolerance)
    factors = rng.uniform(0.5, 2, m)
    expected = factors[:, None] * Q * factors @ x
    assert_allclose(cost.rescaled(factors).apply(x), expected, rtol=0, atol=1000 * EPS * norm(x))
    assert_allclose(solve(x[:, 0]), np.linalg.inv(S) @ x[:, 0], rtol=0, atol=tolerance)


@pytest.mark.parametrize("name", THIN)
def test_low_rank_and_dense_operators_are_equal(name):
    clouds = reduced(THIN[name], scene(n=4, m=120)[0])
    dense = total_cost(clouds, 120)
    thin = total_cost(clouds, 120, OperatorLimits(dense=0))
    assert isinstance(dense, DenseCost)
    assert isinstance(thin, LowRankCost)
    assert_allclose(thin.apply(np.eye(120)), dense.matrix, rtol=0, atol=100 * EPS * norm(dense.matrix, 2))
    assert_allclose(dense.matrix, total_matrix(clouds, 120), rtol=0, atol=100 * EPS * norm(dense.matrix, 2))


# -- the classical factorisation --


@pytest.mark.parametrize("name", ["hidden", "weighted"])
def test_the_factorisation_needs_complete_clouds_with_equal_weights(name):
    points = scene(n=3, m=20, hidden=0.3 if name == "hidden" else 0.0)[0]
    observations = Observations.from_array(points, weights=np.arange(1.0, 21) if name == "weighted" else None)
    cost = total_cost(reduced(AffineFamily(), points), 20)
    with pytest.raises(InvalidObservations, match="every landmark seen by every cloud, with equal weights"):
        factorisation(observations.stacked, cost)


def test_the_factorisation_of_affine_copies_is_the_affine_spectrum(dimension):
    rng = np.random.default_rng(0)
    template = rng.standard_normal((30, dimension))
    points = np.stack([template @ (np.eye(dimension) + 0.2 * rng.standard_normal((dimension,) * 2)) for _ in range(4)])
    observations = Observations.from_array(points)
    cost = total_cost(reduced(AffineFamily(), points), 30)
    a, b = factorisation(observations.stacked, cost), bottom_eigenpairs(cost, dimension, dimension)
    assert a.solver == "classical factorisation"
    assert_allclose(a.values[:dimension], 0, rtol=0, atol=b.rounding)
    assert_allclose(a.vectors @ a.vectors.T, b.vectors @ b.vectors.T, rtol=0, atol=b.rounding / b.values[dimension])

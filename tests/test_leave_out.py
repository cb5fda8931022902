"""Leaving observations out by a Schur complement equals a fit without them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from conftest import scene
from kernelgpa import Observations
from kernelgpa.errors import NumericalFailure
from kernelgpa.warps import AffineFamily, KernelPart, reduce
from kernelgpa.warps.exact import PreparedDense
from kernelgpa.warps.kernels import Gaussian
from kernelgpa.warps.leave_out import leave_one_out, leave_out
from kernelgpa.warps.low_rank import PreparedLowRank, energy_features


def dual(cloud, sigma):
    unit = cloud.frame.to_unit(cloud.points)
    part = KernelPart(Gaussian(), unit, sigma, np.zeros((0, unit.shape[1])))
    return PreparedDense(cloud, part).reduce(0.1, cloud.weights)


def reducers(cloud):
    """Reductions whose settings do not depend on the number of points."""
    unit = cloud.frame.to_unit(cloud.points)
    features = energy_features(Gaussian(), unit[:12], 0.8)

    def low_rank(one):
        moved = replace(
            features, centres=one.frame.to_unit(cloud.points[:12]), sigma=0.8 * cloud.frame.size / one.frame.size
        )
        return PreparedLowRank(one, moved).reduce(0.1, one.weights)

    return {
        "affine": lambda one: reduce(AffineFamily(), one),
        "dual": lambda one: dual(one, 0.8 * cloud.frame.size / one.frame.size),
        "low-rank": low_rank,
    }


@pytest.fixture(params=["unit", "unequal"])
def cloud(request, dimension):
    points, _ = scene(n=2, m=25, d=dimension, hidden=0.0)
    weights = None if request.param == "unit" else np.random.default_rng(0).uniform(0.2, 3.0, (2, 25))
    return Observations.from_array(points, weights).clouds[0]


@pytest.mark.parametrize("name", ["affine", "dual", "low-rank"])
def test_the_cost_without_some_observations_is_that_of_the_cloud_without_them(name, cloud):
    reduce = reducers(cloud)[name]
    whole, rows = reduce(cloud), np.array([3, 8, 20, 21])
    part = leave_out(whole, rows)
    kept = np.isin(np.arange(25), part.kept)
    assert np.array_equal(np.flatnonzero(~kept), rows)
    alone = reduce(cloud.only(kept, np.cumsum(kept) - 1))
    Q = whole.cost_matrix()[np.ix_(kept, kept)] - part.root.T @ part.root
    assert_allclose(Q, alone.cost_matrix(), rtol=0, atol=1e-9 * np.abs(Q).max())
    targets = np.random.default_rng(1).standard_normal((21, cloud.points.shape[1]))
    expected = alone.fit_all([targets])[0](cloud.points[rows])
    assert_allclose(part.predict(targets), expected, rtol=0, atol=1e-8)
    complete = np.empty_like(cloud.points)
    complete[part.kept], complete[rows] = targets, expected
    assert_allclose(
        whole.fit_all([complete])[0](cloud.points), alone.fit_all([targets])[0](cloud.points), rtol=0, atol=1e-8
    )


@pytest.mark.parametrize("name", ["affine", "dual", "low-rank"])
def test_products_diagonal_and_rows_are_those_of_the_cost_matrix(name, cloud):
    whole = reducers(cloud)[name](cloud)
    Q, Y = whole.cost_matrix(), np.random.default_rng(4).standard_normal((25, 5))
    some = np.array([7, 2, 11])
    assert_allclose(whole.apply(Y), Q @ Y, rtol=0, atol=1e-12 * np.abs(Q).max() * 25)
    assert_allclose(whole.diagonal(), np.diag(Q), rtol=0, atol=1e-13 * np.abs(Q).max())
    assert_allclose(whole.rows(some), Q[some], rtol=0, atol=1e-13 * np.abs(Q).max())


def test_an_observation_without_which_the_warp_is_undetermined_has_no_residual(dimension):
    points, _ = scene(n=2, m=dimension + 1, d=dimension, hidden=0.0)
    alone = reduce(AffineFamily(), Observations.from_array(points).clouds[0])
    assert np.isnan(leave_one_out(alone, points[1])).all()
    with pytest.raises(NumericalFailure, match="use more folds"):
        leave_out(alone, np.array([1]))


@pytest.mark.parametrize("name", ["affine", "dual", "low-rank"])
def test_leave_one_out_residuals_are_those_of_refitting(name, cloud):
    reduce = reducers(cloud)[name]
    targets = np.random.default_rng(2).standard_normal((25, cloud.points.shape[1]))
    closed = leave_one_out(reduce(cloud), targets)
    for j in range(25):
        kept = np.arange(25) != j
        refitted = reduce(cloud.only(kept, np.cumsum(kept) - 1)).fit_all([targets[kept]])[0]
        assert_allclose(closed[j], targets[j] - refitted(cloud.points[[j]])[0], rtol=0, atol=1e-8)


@pytest.mark.parametrize("name", ["affine", "dual", "low-rank"])
def test_the_variance_of_a_point_left_out_is_that_of_the_fit_plus_noise(name, cloud):
    reduce = reducers(cloud)[name]
    part = leave_out(reduce(cloud), np.array([7]))
    kept = np.arange(25) != 7
    alone = reduce(cloud.only(kept, np.cumsum(kept) - 1))
    expected = alone.variance(cloud.points[[7]]) + 1 / cloud.weights[7]
    assert_allclose(part.variance, expected, rtol=1e-7)


def test_the_kriging_variance_is_that_of_a_gaussian_process_with_a_vague_affine_mean(dimension):
    points, _ = scene(n=2, m=20, d=dimension, hidden=0.0)
    cloud = Observations.from_array(points).clouds[0]
    reduced = dual(cloud, 0.8)
    unit, query = cloud.frame.to_unit(cloud.points), np.random.default_rng(0).standard_normal((6, dimension))

    def covariance(a, b):
        affine = np.column_stack([a, np.ones(len(a))]) @ np.column_stack([b, np.ones(len(b))]).T
        return np.exp(-0.5 * np.sum((a[:, None] - b) ** 2, axis=2) / 0.8**2) + 1e7 * affine

    known = covariance(unit, unit) + 0.1 * np.eye(20)
    across = covariance(query, unit)
    oracle = np.diag(covariance(query, query) - across @ np.linalg.solve(known, across.T)) / 0.1
    there = query * cloud.frame.size + cloud.frame.centre
    assert_allclose(reduced.variance(there), oracle, rtol=1e-3)

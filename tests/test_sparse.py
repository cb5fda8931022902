"""Kernels of compact support: sparse matrices give what dense ones give."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import LinAlgError
from scipy.sparse import csc_array
from scipy.spatial.distance import cdist

from conftest import scene
from fixed_settings import fixed_kernel
from kernelgpa import InvalidSetting, KernelGPA, NumericalFailure, forecast, selection
from kernelgpa._numerics.sparse import count_within, distances_within, factorised
from kernelgpa.observations.collection import as_observations
from kernelgpa.spectrum.forecast import SPARSE
from kernelgpa.spectrum.matrix_free import MatrixFreeCost
from kernelgpa.spectrum.operator import DiagonalPlusLowRank
from kernelgpa.spectrum.total import total_cost
from kernelgpa.warps import KernelFamily, reduce
from kernelgpa.warps.exact import DenseCloud, SparseCloud
from kernelgpa.warps.gram import SparseLimits, gram, gram_gradient, gram_sum
from kernelgpa.warps.kernels import Kernel, Wendland

ALWAYS_SPARSE = SparseLimits(fewest_points=0, largest_share=1.0)
FAMILY = KernelFamily(Wendland(), 0.5, 0.1)
SPARSE_FAMILY = replace(FAMILY, sparse_limits=ALWAYS_SPARSE)


class SparseKernelGPA(KernelGPA):
    """Kernel matrices are sparse whatever the number of landmarks."""

    sparse_limits = ALWAYS_SPARSE

    def _family(self):
        return replace(super()._family(), sparse_limits=self.sparse_limits)


class SparseFrom80(SparseKernelGPA):
    """Kernel matrices are sparse for clouds of at least 80 landmarks."""

    sparse_limits = SparseLimits(fewest_points=80, largest_share=1.0)


@pytest.fixture
def rng():
    return np.random.default_rng(4)


@given(
    size=st.integers(1, 60),
    density=st.floats(0, 1),
    weight=st.floats(0.01, 100),
    seed=st.integers(0, 2**32 - 1),
)
def test_the_diagonal_of_the_inverse_is_that_of_the_whole_inverse(size, density, weight, seed):
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((size, size)) * (rng.uniform(size=(size, size)) < density)
    matrix = root @ root.T + weight * np.eye(size)
    factor = factorised(csc_array(matrix))
    inverse = np.linalg.inv(matrix)
    # the rounding error of an inverse, relative to its largest entry, is the condition number times the precision
    allowed = 100 * size * np.finfo(float).eps * np.linalg.cond(matrix) * np.abs(inverse).max()
    assert_allclose(factor.inverse_diagonal(), np.diag(inverse), rtol=0, atol=allowed)
    assert_allclose(factor.solve(np.eye(size)), inverse, rtol=0, atol=allowed)


def test_entries_that_cancel_in_the_elimination_stay_in_the_pattern():
    # eliminating the first column makes the entry (2, 3) exactly 0, and later columns rely on it being in the pattern
    matrix = np.array([[1.0, 1, 1, 0], [1, 4, 1, 1], [1, 1, 5, 1], [0, 1, 1, 6]])
    assert_allclose(factorised(csc_array(matrix)).inverse_diagonal(), np.diag(np.linalg.inv(matrix)), rtol=1e-14)


@pytest.mark.parametrize("diagonal", [-1.0, 0.0])
def test_a_matrix_that_is_not_positive_definite_is_refused(diagonal):
    matrix = np.diag([2.0, diagonal, 3.0]) + 0.5 * np.ones((3, 3)) - 0.5 * np.eye(3)
    with pytest.raises(LinAlgError):
        factorised(csc_array(matrix))


def test_distances_within_a_radius_keep_points_that_coincide(rng):
    x = rng.uniform(size=(30, 3))
    near = distances_within(x, np.vstack([x, x[:5]]), 0.4)
    whole = cdist(x, np.vstack([x, x[:5]]))
    assert_array_equal(np.sort(near.tocoo().coords, axis=1), np.sort(np.nonzero(whole <= 0.4), axis=1))
    assert_allclose(near.toarray(), np.where(whole <= 0.4, whole, 0), rtol=0, atol=1e-15)
    assert count_within(x, 0.4) == np.mean(np.sum(cdist(x, x) <= 0.4, axis=1))


def test_sums_and_gradients_are_those_of_the_dense_matrix(rng):
    x, centres = rng.standard_normal((50, 3)), rng.standard_normal((40, 3))
    x[:5] = centres[:5]
    weights = rng.standard_normal((40, 2))
    whole = gram(Wendland(), x, centres, 1.3) @ weights
    gradient = gram_gradient(Wendland(), x, centres, 1.3, weights)
    assert_allclose(gram_sum(Wendland(), x, centres, 1.3, weights, sparse=True), whole, rtol=0, atol=1e-13)
    assert_allclose(gram_gradient(Wendland(), x, centres, 1.3, weights, sparse=True), gradient, rtol=0, atol=1e-13)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("d", [2, 3])
def test_a_sparse_cloud_gives_the_results_of_the_dense_one(rng, weighted, d):
    data = scene(4, 60, d, bend=0.1, noise=0.01)[0]
    weights = rng.uniform(0.2, 5, (len(data), len(data[0]))) if weighted else None
    cloud = as_observations(data, weights=weights).clouds[0]
    dense, sparse = reduce(FAMILY, cloud), reduce(SPARSE_FAMILY, cloud)
    assert isinstance(dense, DenseCloud)
    assert isinstance(sparse, SparseCloud)
    targets, points = rng.standard_normal((len(cloud.seen), d)), rng.standard_normal((20, d))
    some = np.array([3, 0, 17])
    assert_allclose(sparse.cost_matrix(), dense.cost_matrix(), rtol=0, atol=1e-12)
    assert_allclose(sparse.apply(targets), dense.apply(targets), rtol=0, atol=1e-12)
    assert_allclose(sparse.apply(targets[:, 0]), dense.apply(targets[:, 0]), rtol=0, atol=1e-12)
    assert_allclose(sparse.diagonal(), dense.diagonal(), rtol=0, atol=1e-12)
    assert_allclose(sparse.rows(some), dense.rows(some), rtol=0, atol=1e-12)
    assert_allclose(sparse.variance(points), dense.variance(points), rtol=1e-9)
    assert_allclose(sparse.rounding, dense.rounding, rtol=1e-12)
    for one, other in zip(sparse.fit_all([targets, 2 * targets]), dense.fit_all([targets, 2 * targets]), strict=True):
        assert_allclose(one(points), other(points), rtol=0, atol=1e-11)
        assert_allclose(one.jacobian(points), other.jacobian(points), rtol=0, atol=1e-10)


@pytest.mark.parametrize("robust", [None, "geman-mcclure"])
@pytest.mark.parametrize("modes", ["auto", "paper", "program", 6])
@pytest.mark.parametrize("hidden", [0.0, 0.3])
def test_a_sparse_fit_is_the_dense_fit(modes, hidden, robust):
    data = scene(5, 120, bend=0.1, hidden=hidden, noise=0.01)[0]
    settings = {"kernel": "wendland", "bandwidth": 0.5, "modes": modes, "robust": robust}
    dense, sparse = fixed_kernel(**settings).fit(data), fixed_kernel(kind=SparseKernelGPA, **settings).fit(data)
    expected = dense.map_, dense.residuals_, dense.spectrum_.values, dense.rotations_
    assert sparse.spectrum_.solver == "matrix-free: LOBPCG"
    # eigenvectors by LOBPCG are good to the root of its residual at best; the faithful map does not go through them
    allowed = 1e-8 if modes == "auto" else 1e-5
    for one, other in zip(
        (sparse.map_, sparse.residuals_, sparse.spectrum_.values, sparse.rotations_), expected, strict=True
    ):
        assert_allclose(one, other, rtol=0, atol=allowed)


def test_sparse_folds_are_the_dense_folds():
    data = scene(5, 120, bend=0.1, noise=0.01)[0]
    dense = selection.cross_validate(fixed_kernel(kernel="wendland", bandwidth=0.5), data, folds=6)
    sparse = selection.cross_validate(
        fixed_kernel(kind=SparseKernelGPA, kernel="wendland", bandwidth=0.5), data, folds=6
    )
    assert_allclose(sparse.sensor_rms, dense.sensor_rms, rtol=1e-7)


def test_small_clouds_may_be_dense_and_large_ones_sparse():
    data = scene(5, 120, bend=0.1, hidden=0.0, noise=0.01)[0]
    data[4][60:] = np.nan
    dense = fixed_kernel(kernel="wendland", bandwidth=0.5).fit(data)
    mixed = fixed_kernel(kind=SparseFrom80, kernel="wendland", bandwidth=0.5).fit(data)
    assert [type(mixed._reduced_cloud(t)) for t in (4, 0)] == [DenseCloud, SparseCloud]
    assert_allclose(mixed.map_, dense.map_, rtol=0, atol=1e-8)


def test_clouds_of_many_landmarks_and_small_support_are_sparse(rng):
    # on a surface, on which there are few neighbours
    shape = rng.standard_normal((2500, 3))
    shape *= [1.0, 0.8, 0.6] / np.linalg.norm(shape, axis=1)[:, None]
    data = [shape + 0.02 * np.sin(3 * shape + t) + 1e-3 * rng.standard_normal(shape.shape) for t in range(3)]
    model = fixed_kernel(kernel="wendland", bandwidth=0.08)
    family = model._family()
    near = family.neighbours(as_observations(data).clouds[0])
    assert near is not None
    assert near < 0.015 * len(shape)
    assert forecast(3, 2500, neighbours=near).path == SPARSE
    assert forecast(3, 2500, neighbours=near).memory < forecast(3, 2500).memory
    assert isinstance(model.fit(data)._reduced_cloud(0), SparseCloud)
    assert model.spectrum_.solver == "matrix-free: LOBPCG"
    assert KernelFamily(Wendland(), 0.5, 0.1).neighbours(as_observations(data).clouds[0]) is None


def test_the_cost_of_sparse_clouds_is_their_sum(rng):
    observations = as_observations(scene(3, 50)[0])
    reduced = [reduce(SPARSE_FAMILY, cloud) for cloud in observations.clouds]
    cost = total_cost(reduced, 50)
    assert isinstance(cost, MatrixFreeCost)
    whole = np.zeros((50, 50))
    for cloud in reduced:
        whole[np.ix_(cloud.seen, cloud.seen)] += cloud.cost_matrix()
    assert_allclose(cost.apply(np.eye(50)), whole, rtol=0, atol=1e-12)
    assert cost.trace == pytest.approx(np.trace(whole), rel=1e-12)
    factors = rng.uniform(0.5, 2, 50)
    scaled = cost.rescaled(factors)
    assert_allclose(scaled.apply(np.eye(50)), factors[:, None] * whole * factors, rtol=0, atol=1e-12)
    assert scaled.trace == pytest.approx(factors**2 @ np.diag(whole), rel=1e-12)
    columns, lifted = 0.1 * rng.standard_normal((50, 2)), np.full(50, 0.2)
    system = 3 * whole + 2 * np.eye(50) - columns @ columns.T + np.outer(lifted, lifted)
    right = rng.standard_normal((50, 4))
    solve = cost.solver(3.0, DiagonalPlusLowRank(np.full(50, 2.0), columns, lifted))
    assert_allclose(system @ solve(right), right, rtol=0, atol=1e-9)


def test_points_that_are_unseen_or_far_are_warped_as_by_dense_matrices():
    data = scene(5, 120, bend=0.1, noise=0.01)[0]
    queries = np.vstack([data[2], [[1e200, 0, 0], [np.nan, 1, 1]]])
    model = fixed_kernel(kernel="wendland", bandwidth=0.5).fit(data)
    dense = model.transform(queries, 2), model.warps_[2].jacobian(queries)
    sparse = fixed_kernel(kind=SparseKernelGPA, kernel="wendland", bandwidth=0.5).fit(data)
    assert sparse.warps_[2].sparse
    assert_allclose(sparse.transform(queries, 2), dense[0], rtol=1e-8, atol=1e-8)
    assert_allclose(sparse.warps_[2].jacobian(queries), dense[1], rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("smoothing", [1e-7, 1e-4, 1e6])
@pytest.mark.parametrize("weight", [1e-6, 1.0, 1e6])
def test_sparse_maps_are_the_dense_ones_for_any_smoothing_and_any_unit_of_the_weights(smoothing, weight):
    data = scene(4, 150, bend=0.1, noise=0.01)[0]
    weights = np.full(150, weight)
    dense = fixed_kernel(kernel="wendland", bandwidth=0.5, smoothing=smoothing).fit(data, weights)
    sparse = fixed_kernel(kind=SparseKernelGPA, kernel="wendland", bandwidth=0.5, smoothing=smoothing).fit(
        data, weights
    )
    assert_allclose(sparse.map_, dense.map_, rtol=0, atol=1e-7)


def test_a_matrix_that_is_singular_by_rounding_is_a_numerical_failure():
    data = scene(3, 100, hidden=0.0)[0]
    data[:, 50:60] = data[:, :10]
    with pytest.raises(NumericalFailure, match="raise smoothing"):
        fixed_kernel(kind=SparseKernelGPA, kernel="wendland", smoothing=1e-17).fit(data)


def test_a_sparse_fit_of_very_few_landmarks_is_the_dense_fit():
    data = scene(3, 7, hidden=0.0)[0]
    dense = fixed_kernel(kernel="wendland").fit(data)
    assert_allclose(fixed_kernel(kind=SparseKernelGPA, kernel="wendland").fit(data).map_, dense.map_, rtol=0, atol=1e-9)


class Ball(Kernel):
    """1 up to a radius of 1: not positive definite."""

    def __init__(self, support):
        self.support = support

    def value(self, r):
        return (r < 1).astype(float)

    def derivative_over_r(self, r):
        return np.zeros_like(r)


def test_a_user_s_kernel_must_be_positive_definite_and_vanish_outside_of_its_support():
    data = scene(3, 200, hidden=0.0)[0]
    with pytest.raises(InvalidSetting, match="positive definite"):
        fixed_kernel(kind=SparseKernelGPA, kernel=Ball(1.0)).fit(data)
    for support in (0.5, 0.0, -1.0, "a", np.nan):
        with pytest.raises(InvalidSetting, match="support"):
            fixed_kernel(kind=SparseKernelGPA, kernel=Ball(support)).fit(data)

"""Laws that the cost of a reduced cloud obeys for every family of warps, and its plain dense formulas."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.linalg import eigvalsh, norm
from numpy.testing import assert_allclose, assert_array_equal

from conftest import random_rotation, scene
from kernelgpa import NumericalFailure, Observations
from kernelgpa.warps import KernelFamily, ThinPlateFamily, reduce
from kernelgpa.warps.kernels import Gaussian
from warp_formulas import (
    BENDING,
    EPS,
    EXACT,
    FAMILIES,
    INDUCED,
    SPLINES,
    affine_cost,
    affine_functions,
    bent,
    every_dimension,
    every_family,
    every_shape,
    every_weighting,
    everywhere,
    kernel_matrix,
    make_cloud,
    plain_cost,
    rounding,
)


@everywhere
def test_the_cost_is_symmetric_positive_semidefinite_and_annihilates_affine_functions(name, d, flat, weighted):
    family, cloud = FAMILIES[name], make_cloud(d, flat, weighted)
    Q = reduce(family, cloud).cost_matrix()
    tolerance = rounding(family, cloud)
    assert_allclose(Q, Q.T, rtol=0, atol=tolerance)
    assert_allclose(Q.sum(axis=1), 0, rtol=0, atol=tolerance)
    assert_allclose(Q @ cloud.points, 0, rtol=0, atol=tolerance * norm(cloud.points))
    assert eigvalsh(Q)[0] >= -tolerance


@everywhere
def test_the_cost_is_at_most_that_of_affine_warps(name, d, flat, weighted):
    family, cloud = FAMILIES[name], make_cloud(d, flat, weighted)
    Q, tolerance = reduce(family, cloud).cost_matrix(), rounding(family, cloud)
    assert eigvalsh(affine_cost(cloud) - Q)[0] >= -tolerance
    if not weighted:
        X = affine_functions(cloud.points)
        assert eigvalsh(np.eye(len(X)) - X @ np.linalg.pinv(X, rcond=1e-10) - Q)[0] >= -tolerance


@pytest.mark.parametrize("name", BENDING)
@every_dimension
def test_warps_that_bend_cost_less_than_affine_ones(name, d):
    family, cloud = FAMILIES[name], make_cloud(d)
    Y = bent(cloud)
    bent_cost, straight_cost = (np.sum(Y * (Q @ Y)) for Q in (reduce(family, cloud).cost_matrix(), affine_cost(cloud)))
    assert bent_cost < 0.999 * straight_cost


@everywhere
def test_the_cost_is_that_of_the_plain_dense_formula(name, d, flat, weighted):
    family, cloud = FAMILIES[name], make_cloud(d, flat, weighted)
    assert_allclose(
        reduce(family, cloud).cost_matrix(), plain_cost(family, cloud), rtol=0, atol=rounding(family, cloud)
    )


@pytest.mark.parametrize("name", EXACT)
@every_shape
@every_weighting
def test_the_cost_is_that_of_the_explicit_inverse_and_projector(name, flat, weighted):
    family, cloud = FAMILIES[name], make_cloud(3, flat, weighted)
    X = affine_functions(cloud.points - cloud.points.mean(axis=0))
    inverse = np.linalg.inv(kernel_matrix(family, cloud, cloud.points) + np.diag(family.smoothing / cloud.weights))
    H = inverse - inverse @ X @ np.linalg.pinv(X.T @ inverse @ X, rcond=1e-12) @ X.T @ inverse
    Q = reduce(family, cloud).cost_matrix()
    assert_allclose(Q, family.smoothing * H, rtol=0, atol=rounding(family, cloud))


@pytest.mark.parametrize("name", EXACT)
def test_exact_kernels_have_no_low_rank_factor(name):
    assert reduce(EXACT[name], make_cloud(3)).low_rank_factor() is None


@pytest.mark.parametrize("name", ["affine", *SPLINES, *INDUCED])
@every_dimension
@every_shape
@every_weighting
def test_the_low_rank_factor_gives_the_cost(name, d, flat, weighted):
    family, cloud = FAMILIES[name], make_cloud(d, flat, weighted)
    reduced = reduce(family, cloud)
    factor = reduced.low_rank_factor()
    assert_array_equal(factor.weights, cloud.weights)
    Q = np.diag(factor.weights) - factor.basis @ factor.basis.T
    assert_allclose(Q, reduced.cost_matrix(), rtol=0, atol=100 * EPS * cloud.weights.max())


@pytest.mark.parametrize("name", EXACT)
@every_dimension
@every_shape
@every_weighting
def test_kernels_at_all_points_are_the_exact_ones(name, d, flat, weighted):
    family, cloud = EXACT[name], make_cloud(d, flat, weighted)
    exact, low_rank = reduce(family, cloud), reduce(replace(family, inducing=len(cloud.seen)), cloud)
    assert_allclose(low_rank.cost_matrix(), exact.cost_matrix(), rtol=0, atol=1e-8)
    Y, q = bent(cloud), make_cloud(d, flat, seed=5).points
    if flat:
        q = cloud.points + 0.3 * (cloud.points[::-1] - cloud.points)
    assert_allclose(low_rank.fit_all([Y])[0](q), exact.fit_all([Y])[0](q), rtol=0, atol=1e-8 * norm(Y))


@pytest.mark.parametrize("name", BENDING)
@every_dimension
@every_weighting
def test_large_smoothing_gives_the_affine_cost(name, d, weighted):
    cloud = make_cloud(d, weighted=weighted)
    family = FAMILIES[name]

    def above(smoothing):
        return affine_cost(cloud) - reduce(replace(family, smoothing=smoothing), cloud).cost_matrix()

    # the difference is  F (F'F + mu)^-1 F':  F F' / mu  to first order, the next order is smaller by |F|^2 / mu
    first, second = 1e6 * above(1e6), 1e8 * above(1e8)
    assert norm(above(1e6)) < 1e-2 * norm(above(1e3)) + 100 * EPS * cloud.weights.max()
    assert_allclose(first, second, rtol=0, atol=1e8 * 100 * EPS * cloud.weights.max() + 1e-4 * norm(second))


@pytest.mark.parametrize("name", EXACT)
def test_the_difference_from_the_affine_cost_is_bounded_by_the_kernel(name):
    cloud, family = make_cloud(3, weighted=True), EXACT[name]
    for smoothing in (1e2, 1e4, 1e6):
        difference = affine_cost(cloud) - reduce(replace(family, smoothing=smoothing), cloud).cost_matrix()
        bound = cloud.weights.max() ** 2 * norm(kernel_matrix(family, cloud, cloud.points), 2) / smoothing
        assert norm(difference, 2) <= bound + 100 * EPS * cloud.weights.max()


@every_family
def test_an_observation_of_weight_zero_counts_as_unseen(name):
    points = scene(n=2, m=30, hidden=0.0)[0]
    hidden = np.random.default_rng(0).random((2, 30)) < 0.3
    blanked = points.copy()
    blanked[hidden] = np.nan
    weighted = Observations.from_array(points, weights=np.where(hidden, 0.0, 1.0))
    for a, b in zip(weighted.clouds, Observations.from_array(blanked).clouds, strict=True):
        first, second = reduce(FAMILIES[name], a), reduce(FAMILIES[name], b)
        assert_array_equal(first.seen, second.seen)
        assert_array_equal(first.cost_matrix(), second.cost_matrix())


@every_family
@given(seed=st.integers(0, 1000), factor=st.floats(0.01, 100), weighted=st.booleans())
@settings(max_examples=10)
def test_a_factor_common_to_weights_and_smoothing_scales_the_cost(name, seed, factor, weighted):
    family, cloud = FAMILIES[name], make_cloud(3, weighted=weighted, seed=seed)
    scaled = replace(cloud, weights=factor * cloud.weights)
    stiffer = family if name == "affine" else replace(family, smoothing=factor * family.smoothing)
    Q, scaled_Q = reduce(family, cloud).cost_matrix(), reduce(stiffer, scaled).cost_matrix()
    assert_allclose(scaled_Q, factor * Q, rtol=0, atol=factor * rounding(family, cloud))


@every_family
@every_dimension
@given(seed=st.integers(0, 1000), far=st.sampled_from([0.0, 1.0, 1e5]), size=st.sampled_from([1e-6, 1.0, 40.0]))
@settings(max_examples=10)
def test_the_cost_does_not_depend_on_position_orientation_and_unit(name, d, seed, far, size):
    family, cloud = FAMILIES[name], make_cloud(d, seed=seed)
    rng = np.random.default_rng(seed)
    moved = size * (cloud.points @ random_rotation(d, rng).T + far * rng.standard_normal(d))
    there = replace(cloud, points=moved, resolution=EPS * np.abs(moved).max())
    if isinstance(family, ThinPlateFamily):  # bending energy has the unit length^(d - 4)
        again = replace(family, smoothing=family.smoothing * size ** (4 - d))
    else:
        again = family
    # an offset costs its digits, times the derivative of the kernel over its width
    tolerance = rounding(family, cloud) * (1 + 10 * far)
    assert_allclose(reduce(again, there).cost_matrix(), reduce(family, cloud).cost_matrix(), rtol=0, atol=tolerance)


@every_family
@given(seed=st.integers(0, 1000), weighted=st.booleans())
@settings(max_examples=10)
def test_the_cost_follows_the_order_of_the_landmarks(name, seed, weighted):
    family, cloud = FAMILIES[name], make_cloud(3, weighted=weighted, seed=seed)
    order = np.random.default_rng(seed).permutation(len(cloud.seen))
    shuffled = replace(cloud, points=cloud.points[order], weights=cloud.weights[order])
    Q = reduce(family, cloud).cost_matrix()
    assert_allclose(
        reduce(family, shuffled).cost_matrix(), Q[np.ix_(order, order)], rtol=0, atol=rounding(family, cloud)
    )


@pytest.mark.parametrize(
    "family",
    [KernelFamily(Gaussian(), 50.0, 1e-30), ThinPlateFamily(5, 1e-30)],
    ids=["wide kernel", "more control points than landmarks"],
)
def test_the_error_of_a_system_beyond_double_precision_names_the_cloud(family):
    cloud = replace(make_cloud(3), name="blurred")
    with pytest.raises(NumericalFailure, match=r"cloud 'blurred'.*raise smoothing"):
        reduce(family, cloud)

"""Laws that the fitted warps of every family obey."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.linalg import norm
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import null_space
from scipy.spatial.distance import cdist

from kernelgpa import InvalidObservations
from kernelgpa.warps import AffineFamily, KernelFamily, ThinPlateFamily, reduce
from kernelgpa.warps.affine import affine_warp
from kernelgpa.warps.kernels import Gaussian, ThinPlate
from warp_formulas import (
    EPS,
    EXACT,
    FAMILIES,
    INDUCED,
    SPLINES,
    affine_functions,
    bent,
    conditioning,
    control_points,
    every_dimension,
    every_family,
    every_shape,
    every_weighting,
    everywhere,
    farthest,
    kernel_width,
    make_cloud,
    rounding,
)


@everywhere
@given(seed=st.integers(0, 1000))
@settings(max_examples=5)
def test_affine_targets_are_reproduced(name, d, flat, weighted, seed):
    family, cloud = FAMILIES[name], make_cloud(d, flat, weighted)
    rng = np.random.default_rng(seed)
    matrix, offset = rng.standard_normal((d, d)), rng.standard_normal(d)
    target = cloud.points @ matrix.T + offset
    warp = reduce(family, cloud).fit_all([target])[0]
    tolerance = rounding(family, cloud) * norm(target) * np.sqrt(len(cloud.seen))
    assert_allclose(warp(cloud.points), target, rtol=0, atol=tolerance)
    mixed = rng.dirichlet(np.ones(len(target)), 20) @ cloud.points  # in the plane of a flat cloud
    assert_allclose(warp(mixed), mixed @ matrix.T + offset, rtol=0, atol=tolerance)
    if not flat:
        assert_allclose(warp.affine[0], matrix, rtol=0, atol=tolerance)
        assert_allclose(warp.affine[1], offset, rtol=0, atol=tolerance * norm(cloud.points))


def primal_cost(family, cloud, warp, target):
    """|W^(1/2) (Y - y(P))|^2 + mu energy, from the warp's own numbers."""
    cost = np.sum(cloud.weights[:, None] * (target - warp(cloud.points)) ** 2)
    if isinstance(family, AffineFamily):
        return cost
    d = cloud.points.shape[1]
    kernel, penalty = (
        (ThinPlate(d), 8 * np.pi * family.smoothing * len(cloud.seen) * warp.sigma ** (d - 4))
        if isinstance(family, ThinPlateFamily)
        else (family.kernel, family.smoothing)
    )
    K = kernel.value(cdist(warp.centres, warp.centres) / warp.sigma)
    return cost + penalty * np.sum(warp.weights * (K @ warp.weights))


@everywhere
def test_the_cost_is_attained_by_the_fitted_warp(name, d, flat, weighted):
    family, cloud = FAMILIES[name], make_cloud(d, flat, weighted)
    target = bent(cloud)
    reduced = reduce(family, cloud)
    cost = np.sum(target * (reduced.cost_matrix() @ target))
    tolerance = rounding(family, cloud) * np.sum(target**2)
    assert tolerance < 1e-3 * cost
    assert_allclose(primal_cost(family, cloud, reduced.fit_all([target])[0], target), cost, rtol=0, atol=tolerance)


@everywhere
def test_no_change_of_the_warp_lowers_its_cost(name, d, flat, weighted):
    family, cloud = FAMILIES[name], make_cloud(d, flat, weighted)
    target = bent(cloud)
    warp = reduce(family, cloud).fit_all([target])[0]
    minimum = primal_cost(family, cloud, warp, target)
    rng = np.random.default_rng(3)
    for _ in range(5):
        affine = rng.standard_normal(warp.coefficients.shape)
        weights = rng.standard_normal(warp.weights.shape)
        if isinstance(family, ThinPlateFamily):  # only such weights have an energy
            free = null_space(affine_functions(warp.centres).T, rcond=1e-10)
            weights = free @ (free.T @ weights)
        for affine_share, kernel_share in ((1, 0), (0, 1), (1, 1)):
            costs = [
                primal_cost(family, cloud, changed(warp, h * affine_share * affine, h * kernel_share * weights), target)
                for h in (1.0, -1.0)
            ]
            tolerance = rounding(family, cloud) * (minimum + max(costs))
            assert min(costs) >= minimum - tolerance
            # the cost is quadratic, therefore opposite steps from its minimum cost the same
            assert abs(costs[0] - costs[1]) <= np.sqrt(conditioning(family, cloud)) * tolerance


def changed(warp, coefficients, weights):
    part = warp.kernel_part
    return replace(
        warp,
        coefficients=warp.coefficients + coefficients,
        kernel_part=None if part is None else replace(part, weights=part.weights + weights),
    )


@pytest.mark.parametrize("name", [*SPLINES, *EXACT])
@every_dimension
@every_shape
@every_weighting
def test_kernel_weights_annihilate_affine_functions(name, d, flat, weighted):
    family, cloud = FAMILIES[name], make_cloud(d, flat, weighted)
    target = bent(cloud)
    warp = reduce(family, cloud).fit_all([target])[0]
    moments = affine_functions(warp.centres - cloud.points.mean(axis=0)).T @ warp.weights
    assert_allclose(moments, 0, rtol=0, atol=rounding(family, cloud) * norm(target) * (1 + norm(warp.weights)))


@pytest.mark.parametrize("name", EXACT)
@every_weighting
def test_the_weights_of_an_exact_kernel_are_its_residuals(name, weighted):
    family, cloud = EXACT[name], make_cloud(3, weighted=weighted)
    target = bent(cloud)
    warp = reduce(family, cloud).fit_all([target])[0]
    residual = cloud.weights[:, None] * (target - warp(cloud.points))
    tolerance = rounding(family, cloud) * norm(target)
    assert_allclose(family.smoothing * warp.weights, residual, rtol=0, atol=tolerance)


@pytest.mark.parametrize("name", [*EXACT, *INDUCED])
@every_dimension
@every_shape
def test_the_width_of_the_kernel_is_the_bandwidth_times_the_mean_distance(name, d, flat):
    family, cloud = FAMILIES[name], make_cloud(d, flat)
    warp = reduce(family, cloud).fit_all([bent(cloud)])[0]
    assert warp.sigma == pytest.approx(kernel_width(family, cloud), rel=100 * EPS)


@every_family
@every_dimension
@every_shape
def test_the_centres_of_a_warp_are_those_of_its_family(name, d, flat):
    family, cloud = FAMILIES[name], make_cloud(d, flat)
    warp = reduce(family, cloud).fit_all([bent(cloud)])[0]
    expected = {
        AffineFamily: lambda: np.empty((0, d)),
        ThinPlateFamily: lambda: control_points(family, cloud),
        KernelFamily: lambda: farthest(cloud.points, family.inducing) if family.inducing else cloud.points,
    }[type(family)]()
    assert warp.centres.shape == warp.weights.shape == expected.shape
    # sorted, because a grid may start at either end of an axis
    found = warp.centres[np.lexsort(np.round(warp.centres, 9).T)]
    assert_allclose(found, expected[np.lexsort(np.round(expected, 9).T)], rtol=0, atol=1000 * EPS * norm(cloud.points))


@every_family
@every_dimension
def test_a_warp_is_its_affine_part_and_its_kernels(name, d):
    family, cloud = FAMILIES[name], make_cloud(d)
    target = bent(cloud)
    warp = reduce(family, cloud).fit_all([target])[0]
    q = make_cloud(d, seed=4).points
    matrix, offset = warp.affine
    value = q @ matrix.T + offset
    if len(warp.weights):
        kernel = ThinPlate(d) if isinstance(family, ThinPlateFamily) else family.kernel
        value = value + kernel.value(cdist(q, warp.centres) / warp.sigma) @ warp.weights
    size = norm(matrix) * norm(q) + norm(offset) + np.abs(warp.weights).sum() * 10
    assert_allclose(warp(q), value, rtol=0, atol=100 * EPS * size)


def test_an_affine_warp_has_no_kernels(dimension):
    cloud = make_cloud(dimension)
    warp = reduce(AffineFamily(), cloud).fit_all([bent(cloud)])[0]
    assert warp.kernel_part is None
    assert warp.weights.shape == warp.centres.shape == (0, dimension)
    assert warp.sigma == 0


def test_an_affine_map_is_written_as_a_warp(dimension):
    cloud, rng = make_cloud(dimension), np.random.default_rng(0)
    matrix, offset = rng.standard_normal((dimension, dimension)), rng.standard_normal(dimension)
    warp = affine_warp(cloud, matrix, offset)
    q = rng.standard_normal((10, dimension))
    size = 100 * EPS * norm(matrix) * (norm(q) + norm(cloud.points))
    assert_allclose(warp(q), q @ matrix.T + offset, rtol=0, atol=size)
    assert_allclose(warp.affine[0], matrix, rtol=0, atol=size)
    assert_allclose(warp.affine[1], offset, rtol=0, atol=size)


@every_family
@every_dimension
def test_the_jacobian_is_the_derivative(name, d):
    family, cloud = FAMILIES[name], make_cloud(d)
    warp = reduce(family, cloud).fit_all([bent(cloud)])[0]
    q = make_cloud(d, seed=11).points
    if len(warp.centres):
        q = q[cdist(q, warp.centres).min(axis=1) > 0.1]  # next to a kink no finite step is small
    assert len(q) > 10
    step, jacobian = 1e-4, warp.jacobian(q)
    length = min(0.1, (warp.sigma or 1.0) / 5)
    size = norm(warp.affine[0]) + np.abs(warp.weights).sum() * max(1.0, warp.sigma)
    tolerance = size * (10 * EPS * norm(q) / step + step**2 / length**3)
    for j in range(d):
        shift = step * np.eye(d)[j]
        # four points, so that the error is of order step^4
        slope = (8 * (warp(q + shift) - warp(q - shift)) - (warp(q + 2 * shift) - warp(q - 2 * shift))) / (12 * step)
        assert_allclose(jacobian[:, :, j], slope, rtol=0, atol=tolerance)


@every_family
@pytest.mark.parametrize("entries", [1, 30, 200])
def test_the_size_of_the_batches_changes_nothing(name, entries):
    cloud = make_cloud(3)
    warp = reduce(FAMILIES[name], cloud).fit_all([bent(cloud)])[0]
    q = make_cloud(3, seed=9, s=67).points
    q[5] = np.nan
    whole, jacobians = warp(q), warp.jacobian(q)
    size = norm(warp.coefficients) + 10 * np.abs(warp.weights).sum()
    assert_allclose(warp(q, batch_entries=entries), whole, rtol=0, atol=100 * EPS * size)
    nearest = 1.0 if not len(warp.centres) else np.nanmin(cdist(q, warp.centres)[np.isfinite(q).all(axis=1)])
    assert_allclose(
        warp.jacobian(q, batch_entries=entries), jacobians, rtol=0, atol=100 * EPS * size / min(1.0, nearest)
    )
    assert_array_equal(np.isnan(whole).any(axis=1), np.arange(67) == 5)


@every_family
def test_no_points_are_warped_to_no_points(name):
    cloud = make_cloud(2)
    warp = reduce(FAMILIES[name], cloud).fit_all([bent(cloud)])[0]
    assert warp(np.empty((0, 2))).shape == (0, 2)
    assert warp.jacobian(np.empty((0, 2))).shape == (0, 2, 2)


@every_family
def test_a_warp_survives_pickling(name):
    cloud = make_cloud(3)
    warp = reduce(FAMILIES[name], cloud).fit_all([bent(cloud)])[0]
    again = pickle.loads(pickle.dumps(warp))
    q = make_cloud(3, seed=8).points
    assert_array_equal(again(q), warp(q))
    assert_array_equal(again.jacobian(q), warp.jacobian(q))


@pytest.mark.parametrize(
    "points",
    [np.ones(3), np.ones((4, 2)), np.ones((2, 4, 3)), np.ones((4, 3)) + 1j, [["a", "b", "c"]]],
    ids=["one point", "2D", "two clouds", "complex", "text"],
)
def test_points_of_another_shape_or_type_are_refused(points):
    cloud = make_cloud(3)
    warp = reduce(KernelFamily(Gaussian(), 0.5, 0.1), cloud).fit_all([bent(cloud)])[0]
    for function in (warp, warp.jacobian):
        with pytest.raises(InvalidObservations, match=r"points to warp have shape \(.*expected \(points, 3\) real"):
            function(points)


def test_the_points_to_warp_are_not_changed():
    cloud = make_cloud(3)
    warp = reduce(KernelFamily(Gaussian(), 0.5, 0.1), cloud).fit_all([bent(cloud)])[0]
    q = make_cloud(3, seed=2).points
    before = q.copy()
    warp(q)
    warp.jacobian(q)
    assert_array_equal(q, before)

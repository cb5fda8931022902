"""Laws that every family of warps obeys, and plain dense formulas with which it must agree."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.linalg import eigvalsh, norm
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import null_space
from scipy.spatial.distance import cdist, pdist

from conftest import random_rotation, scene
from kernelgpa import InvalidObservations, NumericalFailure, Observations
from kernelgpa.observations.cloud import Cloud
from kernelgpa.warps import AffineFamily, KernelFamily, ThinPlateFamily, reduce
from kernelgpa.warps.affine import affine_warp
from kernelgpa.warps.kernels import KERNELS, FunctionKernel, Gaussian, ThinPlate

EPS = np.finfo(float).eps


def rational(r):
    return 1 / (1 + r**2)


EXACT = {
    **{name: KernelFamily(kernel, 0.5, 0.1) for name, kernel in KERNELS.items()},
    "function": KernelFamily(FunctionKernel(rational), 0.5, 0.1),
}
SPLINES = {
    "thin-plate": ThinPlateFamily(3, 0.002),
    "thin-plate, stiff": ThinPlateFamily(4, 1.0),
    "thin-plate, two per axis": ThinPlateFamily(2, 0.002),
}
INDUCED = {
    f"{name} at {share} points": replace(EXACT[name], inducing=count)
    for name in ("gaussian", "laplacian", "wendland", "function")
    for share, count in (("8", 8), ("all", 1000))
}
FAMILIES = {
    "affine": AffineFamily(),
    **SPLINES,
    **EXACT,
    **INDUCED,
}
BENDING = [name for name in FAMILIES if name != "affine"]

every_family = pytest.mark.parametrize("name", FAMILIES)
every_dimension = pytest.mark.parametrize("d", [2, 3], ids=["2D", "3D"])
every_shape = pytest.mark.parametrize("flat", [False, True], ids=["body", "flat"])
every_weighting = pytest.mark.parametrize("weighted", [False, True], ids=["unit", "weighted"])


def everywhere(test):
    return every_family(every_dimension(every_shape(every_weighting(test))))


def make_cloud(d, flat=False, weighted=False, seed=0, s=25):
    rng = np.random.default_rng(seed)
    points = rng.standard_normal((s, d)) * np.array([2.0, 1.4, 1.0])[:d]
    if flat:
        points[:, -1] = 0
    points = points @ random_rotation(d, rng).T + rng.standard_normal(d)
    weights = rng.uniform(0.2, 3, s) if weighted else np.ones(s)
    return Cloud("t", np.arange(s), points, weights, EPS * np.abs(points).max())


def bent(cloud, seed=1):
    """Targets that no affine function reaches."""
    rng = np.random.default_rng(seed)
    d = cloud.points.shape[1]
    return cloud.points @ rng.standard_normal((d, d)) + np.sin(cloud.points @ rng.standard_normal((d, d)))


# -- plain dense formulas, in the data's own coordinates --


def affine_functions(points):
    return np.column_stack([points, np.ones(len(points))])


def affine_cost(cloud):
    """W minus its projection on the affine functions."""
    root = np.sqrt(cloud.weights)
    left, spread, _ = np.linalg.svd(root[:, None] * affine_functions(cloud.points), full_matrices=False)
    left = left[:, spread > 1e-10 * spread[0]]
    return root[:, None] * (np.eye(len(root)) - left @ left.T) * root


def kernel_width(family, cloud):
    return family.bandwidth * pdist(cloud.points).mean()


def kernel_matrix(family, cloud, centres):
    sigma = kernel_width(family, cloud)
    return family.kernel.value(cdist(cloud.points, centres) / sigma)


def farthest(points, count):
    """The outermost point, then each next one the farthest from those before, by the definition."""
    chosen = [int(np.argmax(norm(points - points.mean(axis=0), axis=1)))]
    while len(chosen) < min(count, len(points)):
        chosen.append(int(np.argmax(cdist(points, points[chosen]).min(axis=1))))
    return points[chosen]


def dual_cost(family, cloud):
    """mu V (V' (K + mu / W) V)^-1 V'  with V a basis of the weights that annihilate affine functions."""
    A = kernel_matrix(family, cloud, cloud.points) + family.smoothing * np.diag(1 / cloud.weights)
    V = null_space(affine_functions(cloud.points).T, rcond=1e-10)
    return family.smoothing * V @ np.linalg.inv(V.T @ A @ V) @ V.T


def eliminated_cost(features, penalty, weights):
    """The Schur complement  W - W F (F'WF + R)^+ F'W,  by an orthonormal basis of [W^(1/2) F; R^(1/2)]."""
    values, vectors = np.linalg.eigh(penalty)
    root = np.sqrt(weights)
    stacked = np.vstack([root[:, None] * features, np.sqrt(np.maximum(values, 0))[:, None] * vectors.T])
    left, spread, _ = np.linalg.svd(stacked, full_matrices=False)
    top = left[: len(weights), spread > 1e-11 * spread[0]]
    return root[:, None] * (np.eye(len(weights)) - top @ top.T) * root


def inducing_cost(family, cloud):
    centres = farthest(cloud.points, family.inducing)
    affine = affine_functions(cloud.points)
    penalty = np.zeros((affine.shape[1] + len(centres),) * 2)
    k = family.kernel.value(cdist(centres, centres) / kernel_width(family, cloud))
    penalty[affine.shape[1] :, affine.shape[1] :] = family.smoothing * k
    features = np.hstack([affine, kernel_matrix(family, cloud, centres)])
    return eliminated_cost(features, penalty, cloud.weights)


def control_points(family, cloud):
    centre = cloud.points.mean(axis=0)
    _, spread, axes = np.linalg.svd(cloud.points - centre)
    along = (cloud.points - centre) @ axes.T
    shares = np.arange(1, family.control_points + 1) / (family.control_points + 1)
    ticks = [
        low + span * (shares if s > 1e-8 * spread[0] else np.array([0.5]))
        for low, span, s in zip(along.min(axis=0), np.ptp(along, axis=0), spread, strict=True)
    ]
    grid = np.stack(np.meshgrid(*ticks, indexing="ij"), axis=-1).reshape(-1, len(centre))
    return grid @ axes + centre


def spline_parts(family, cloud):
    """Features (weights are the images of the control points) and penalty, as published."""
    c, d = control_points(family, cloud), cloud.points.shape[1]
    rho = ThinPlate(d).value
    K_inverse = np.linalg.pinv(rho(cdist(c, c)))
    C = affine_functions(c).T
    N = np.linalg.pinv(C @ K_inverse @ C.T, rcond=1e-10) @ C @ K_inverse
    E = K_inverse - K_inverse @ C.T @ N
    beta = np.hstack([rho(cdist(cloud.points, c)), affine_functions(cloud.points)]) @ np.vstack([E, N])
    return beta, 8 * np.pi * family.smoothing * len(cloud.seen) * E


def spline_cost(family, cloud):
    beta, penalty = spline_parts(family, cloud)
    W = np.diag(cloud.weights)
    return W - W @ beta @ np.linalg.pinv(beta.T @ W @ beta + penalty, rcond=1e-13) @ beta.T @ W


def oracle(family, cloud):
    if isinstance(family, AffineFamily):
        return affine_cost(cloud)
    if isinstance(family, ThinPlateFamily):
        return spline_cost(family, cloud)
    return dual_cost(family, cloud) if family.inducing is None else inducing_cost(family, cloud)


def conditioning(family, cloud):
    """The condition of the system relative to its penalty, by which rounding is multiplied."""
    if isinstance(family, AffineFamily):
        return 1.0
    if isinstance(family, ThinPlateFamily):
        beta, penalty = spline_parts(family, cloud)
        return np.linalg.cond(beta.T @ (cloud.weights[:, None] * beta) + penalty)
    K = kernel_matrix(family, cloud, cloud.points)
    return 1 + norm(K, 2) * cloud.weights.max() / family.smoothing


def rounding(family, cloud):
    return 100 * EPS * cloud.weights.max() * conditioning(family, cloud)


# -- the cost --


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
    assert_allclose(reduce(family, cloud).cost_matrix(), oracle(family, cloud), rtol=0, atol=rounding(family, cloud))


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


# -- the warp --


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

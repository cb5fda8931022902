"""Statements of the paper that no other test shows, and some of its errata (docs/paper.md)."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from numpy.linalg import cond, eigvalsh, matrix_rank, norm
from numpy.testing import assert_allclose
from scipy.linalg import expm

from conftest import random_rotation, scene
from fixed_settings import fixed_kernel
from kernelgpa.gauge.poses import pose_onto
from kernelgpa.gauge.scales import fix_gauge
from kernelgpa.observations.collection import Observations
from kernelgpa.spectrum.total import total_cost
from kernelgpa.warps import AffineFamily, KernelFamily, ThinPlateFamily, reduce
from kernelgpa.warps.kernels import Gaussian
from plain_formulas import affine_projector, gaussian
from warp_formulas import EPS, FAMILIES, affine_functions, bent, every_dimension, every_family, every_shape, make_cloud


def reduced_clouds(family, hidden=0.3, n=4, m=40, d=3):
    points = scene(n=n, m=m, d=d, hidden=hidden, seed=2)[0]
    return [reduce(family, cloud) for cloud in Observations.from_array(points).clouds], m


@every_family
def test_the_constants_cost_nothing_whatever_the_clouds_see(name):
    """Theorem 2."""
    clouds, m = reduced_clouds(FAMILIES[name])
    Q = total_cost(clouds, m)
    size = norm(Q.apply(np.eye(m)), 2)
    # rounding of the inverse of A, whose condition number is at most (m + mu) / mu, below 1e4 for these families
    assert_allclose(Q.apply(np.ones((m, 1))), 0, rtol=0, atol=1e4 * EPS * m * size)


@every_family
@every_dimension
@every_shape
def test_a_warp_is_linear_in_the_map(name, d, flat):
    """Section 6.2: the affine part and the weights depend linearly on M."""
    cloud = make_cloud(d, flat)
    reduced, first, second = reduce(FAMILIES[name], cloud), bent(cloud, 1), bent(cloud, 2)
    query = cloud.points + 0.1 * (cloud.points[::-1] - cloud.points)
    # the affine part and the weights are at most 1e6 times the targets: rounding below 1e-9
    of_sum, of_first, of_second = (one(query) for one in reduced.fit_all([2 * first - 3 * second, first, second]))
    assert_allclose(of_sum, 2 * of_first - 3 * of_second, rtol=0, atol=1e-9 * (norm(of_first) + norm(of_second)))


def delta_matrix(K, T, mu):
    both = np.hstack([T, K])
    Delta = both.T @ both
    Delta[T.shape[1] :, T.shape[1] :] += mu * K
    return Delta


@every_dimension
@every_shape
@pytest.mark.parametrize("mu", [0.05, 1.0])
def test_delta_is_definite_unless_the_cloud_is_flat(d, flat, mu):
    """Lemma 3: the null space of Delta has as many dimensions as that of the affine functions."""
    cloud = make_cloud(d, flat)
    T = affine_functions(cloud.points - cloud.points.mean(axis=0))
    K = gaussian(cloud.points, 0.02 if flat and d == 2 else 0.2)  # well-conditioned, also along a line
    values = eigvalsh(delta_matrix(K, T, mu))
    assert np.sum(values < 1e-10 * values[-1]) == d + 1 - matrix_rank(T, tol=1e-10) == int(flat)
    assert values[int(flat)] > 1e-6 * values[-1]


@every_dimension
def test_the_pseudo_inverse_of_a_moved_flat_cloud_is_not_the_moved_pseudo_inverse(d):
    """An erratum of appendix J, whose conclusion holds: the projector is the same."""
    turn = random_rotation(d, np.random.default_rng(0))
    motion = np.eye(d + 1)
    motion[:d, :d], motion[:d, d] = turn, 1.0
    for flat in (False, True):
        columns = affine_functions(make_cloud(d, flat).points).T  # [P; 1'], as in the paper
        moved = motion @ columns
        back = np.linalg.inv(motion)
        left, right = (np.linalg.pinv(one @ one.T, rcond=1e-10, hermitian=True) for one in (moved, columns))
        difference = norm(left - back.T @ right @ back) / norm(left)
        if flat:
            assert difference > 0.01
        else:
            assert difference < 100 * EPS * cond(columns @ columns.T) * cond(motion)
        assert_allclose(affine_projector(moved.T), affine_projector(columns.T), rtol=0, atol=1e-12)


@every_dimension
@pytest.mark.parametrize("flat", [False, True])
def test_a_pose_is_the_nearest_motion_to_given_positions(d, flat):
    """Remark 2: with the deformed positions known, the pose follows by rigid Procrustes analysis."""
    rng = np.random.default_rng(3)
    cloud = make_cloud(d, flat, weighted=True)
    turn, move = random_rotation(d, rng), rng.standard_normal(d)
    R, t = pose_onto(cloud, cloud.points @ turn.T + move)
    assert_allclose(cloud.points @ R.T + t, cloud.points @ turn.T + move, atol=1e-12 * norm(cloud.points))
    targets = bent(cloud)
    R, t = pose_onto(cloud, targets)

    def cost(R, t):
        return np.sum(cloud.weights[:, None] * (cloud.points @ R.T + t - targets) ** 2)

    assert_allclose(np.linalg.det(R), 1, rtol=1e-12)
    for size in (1e-4, 1e-2, 1.0):
        for _ in range(10):
            tangent = size * rng.standard_normal((d, d))
            assert cost(R @ expm(tangent - tangent.T), t + size * rng.standard_normal(d)) >= cost(R, t) * (1 - 1e-12)


@every_dimension
@pytest.mark.parametrize(
    ("family", "features"),
    [
        (AffineFamily(), 0),
        (ThinPlateFamily(2, 0.01), None),
        (KernelFamily(Gaussian(), 0.3, 0.1, inducing=4), 4),
        (KernelFamily(Gaussian(), 0.3, 0.1, inducing=9), 9),
    ],
    ids=["affine", "thin-plate", "4 inducing points", "9 inducing points"],
)
def test_few_features_lower_the_cost_of_each_cloud_by_few_ranks(d, family, features):
    """Section 5 of the theory: the number of views minus Q has a rank of at most n (d + 1 + q)."""
    n, m = 3, 60
    clouds, _ = reduced_clouds(family, hidden=0.2, n=n, m=m, d=d)
    features = 2**d - d - 1 if features is None else features  # splines: weights that annihilate affine functions
    views = np.zeros(m)
    for cloud in clouds:
        views[cloud.seen] += 1
        own = np.eye(len(cloud.seen)) - cloud.cost_matrix()
        assert matrix_rank(own, tol=1e-9) == d + 1 + features
    lowered = np.diag(views) - total_cost(clouds, m).apply(np.eye(m))
    assert d + 1 < matrix_rank(lowered, tol=1e-9) <= n * (d + 1 + features)


@every_dimension
def test_the_constraints_leave_a_rotation_of_the_axes_open(d):
    """Section 11: all maps sqrt(Lambda) R_g X' fulfil the constraints; in the sensor frames all fit equally well."""
    points = scene(n=4, m=30, d=d, hidden=0.0, seed=1)[0]
    centred = points - points.mean(axis=1, keepdims=True)
    X = np.linalg.svd(np.hstack(list(centred)), full_matrices=False)[0][:, :d]
    scales = np.sort(np.random.default_rng(0).uniform(1, 2, d))[::-1]

    def affine_residual(M):
        return sum(norm(one - M @ np.linalg.lstsq(M, one)[0]) ** 2 for one in centred)

    def map_residual(M):
        return sum(norm(M - affine_projector(affine_functions(one)) @ M) ** 2 for one in points)

    maps = [X @ random_rotation(d, np.random.default_rng(seed)) * scales for seed in range(5)]
    for M in maps:
        assert_allclose(M.sum(axis=0), 0, atol=1e-12)
        assert_allclose(M.T @ M, np.diag(scales**2), atol=1e-12)
    assert np.ptp([affine_residual(M) for M in maps]) < 1e-10 * affine_residual(maps[0])
    assert np.ptp([map_residual(M) for M in maps]) > 1e-3 * map_residual(maps[0])  # the cost in the map decides


@every_dimension
@pytest.mark.parametrize("scale_method", ["refined", "closed-form"])
@pytest.mark.parametrize("modes", ["paper", "program"])
def test_reversed_eigenvectors_give_the_same_map_and_rotations(modes, scale_method, d):
    """Section 7.4, reflection: the signs of the columns of X are arbitrary, and the poses are rotations."""
    gpa = fixed_kernel(modes=modes).fit(scene(d=d, seed=3)[0])
    spectrum, stacked = gpa.spectrum_, gpa.observations_.stacked
    expected = fix_gauge(spectrum, stacked, modes, scale_method).gauge
    for signs in product((1.0, -1.0), repeat=d):
        found = fix_gauge(replace(spectrum, vectors=spectrum.vectors * signs), stacked, modes, scale_method).gauge
        # the rotations are converged to the root of rounding, where f is at its maximum to rounding
        assert_allclose(found.map, expected.map, rtol=0, atol=1e-7 * norm(expected.map))
        assert_allclose(found.rotations, expected.rotations, rtol=0, atol=1e-7)
        assert_allclose(np.linalg.det(found.rotations), 1, rtol=1e-12)

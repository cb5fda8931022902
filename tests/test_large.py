"""The methods for large data give the results of the plain ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.spatial.distance import pdist

from conftest import random_rotation, scene
from fixed_settings import fixed_kernel
from kernelgpa import KernelGPA, Observations, RigidGPA, metrics
from kernelgpa._numerics.lapack import fill_upper_triangle
from kernelgpa.errors import NumericalFailure
from kernelgpa.gauge.faithful import SUFFICIENT, allowed_increase
from kernelgpa.observations.connectivity import connected_groups, surely_connected
from kernelgpa.observations.sampling import DISTANCE_SAMPLE, mean_pairwise_distance
from kernelgpa.spectrum.krylov import conjugate_gradients
from kernelgpa.spectrum.low_rank import LowRankCost
from kernelgpa.spectrum.operator import DiagonalPlusLowRank, OperatorLimits
from kernelgpa.spectrum.total import total_cost
from kernelgpa.warps import KernelFamily, reduce
from kernelgpa.warps.gram import gram, gram_sum
from kernelgpa.warps.kernels import KERNELS

EPS = np.finfo(np.float64).eps


# -- triangles, kernels, samples --


@pytest.mark.parametrize("size", [1, 5, 256, 300, 600])
def test_the_upper_triangle_mirrors_the_lower_one(size):
    A = np.random.default_rng(0).standard_normal((size, size))
    lower = np.tril(A)
    assert np.array_equal(fill_upper_triangle(A.copy()), lower + np.tril(lower, -1).T)


@pytest.mark.parametrize("name", KERNELS)
def test_kernel_sums_are_products_with_the_kernel_matrix(name):
    rng = np.random.default_rng(0)
    x, z, weights = rng.standard_normal((2500, 3)), rng.standard_normal((40, 3)), rng.standard_normal((40, 2))
    K = gram(KERNELS[name], x, z, 0.7)
    assert_allclose(gram_sum(KERNELS[name], x, z, 0.7, weights), K @ weights, rtol=0, atol=1e-12)


def test_the_mean_distance_of_a_sample_approximates_that_of_all_points_in_any_order():
    rng = np.random.default_rng(0)
    points = rng.standard_normal((2 * DISTANCE_SAMPLE + 1500, 3)) * [3, 2, 1]
    sampled = mean_pairwise_distance(points)
    assert sampled == pytest.approx(pdist(points).mean(), rel=5e-3)
    assert mean_pairwise_distance(rng.permutation(points)) == pytest.approx(sampled, rel=1e-9)


# -- more features than the Woodbury identity can take --


def low_rank_clouds(weighted, hidden=0.2):
    points, _ = scene(n=12, m=500, hidden=hidden, seed=3, bend=0.1, noise=0.01)
    weights = np.random.default_rng(1).uniform(0.2, 3.0, (12, 500)) if weighted else None
    observations = Observations.from_array(points, weights)
    return observations, [reduce(KernelFamily(KERNELS["gaussian"], 0.4, 0.1, 40), one) for one in observations.clouds]


LOW_RANK = OperatorLimits(dense=10, dense_features=10)  # nothing becomes dense
ITERATIVE = OperatorLimits(dense=10, dense_features=10, woodbury=100)  # and the Woodbury identity takes few features


class IterativeKernelGPA(KernelGPA):
    _limits = ITERATIVE


@pytest.mark.parametrize("weighted", [False, True])
def test_conjugate_gradients_solve_what_woodbury_solves(weighted):
    observations, clouds = low_rank_clouds(weighted)
    total = observations.weights.sum(axis=0)
    columns = observations.weights.T / np.sqrt(observations.weights.sum(axis=1))
    added = DiagonalPlusLowRank(total, columns, np.full(500, np.sqrt(total.mean() / 500)))
    x = np.random.default_rng(2).standard_normal((500, 4))
    direct = total_cost(clouds, 500, LOW_RANK)
    assert isinstance(direct, LowRankCost)
    assert direct.approximation is None
    expected = direct.solver(5.0, added)(x)
    iterative = total_cost(clouds, 500, ITERATIVE)
    assert iterative.approximation is not None
    assert iterative.approximation.features.count < iterative.features.count / 3
    assert_allclose(iterative.solver(5.0, added)(x), expected, rtol=0, atol=1e-8 * np.abs(expected).max())


@pytest.mark.parametrize("modes", ["auto", "paper", "program"])
def test_the_map_of_many_features_is_the_same_by_either_solver(modes):
    points, _ = scene(n=12, m=500, hidden=0.2, seed=3, bend=0.1, noise=0.01)
    model = fixed_kernel(bandwidth=0.4, inducing=40, modes=modes)
    direct = model.fit(points)
    size = np.sqrt(np.mean(np.sum(direct.map_**2, axis=1)))
    values = direct.eigenvalues_
    iterative = fixed_kernel(kind=IterativeKernelGPA, bandwidth=0.4, inducing=40, modes=modes).fit(points)
    assert iterative.spectrum_.solver == "low-rank: LOBPCG"
    assert_allclose(iterative.eigenvalues_, values, rtol=1e-4)
    # the weight of the cost in the faithful map comes from the approximation, therefore it differs a little
    assert metrics.map_error(iterative.map_, direct.map_) < (1e-4 if modes == "auto" else 1e-5) * size


def test_conjugate_gradients_that_do_not_converge_are_an_error():
    rng = np.random.default_rng(0)
    A = np.diag(np.geomspace(1e-14, 1, 2000))
    with pytest.raises(NumericalFailure, match="conjugate gradients"):
        conjugate_gradients(lambda x: A @ x, lambda x: x, rng.standard_normal((2000, 1)))


# -- the fast test of connectivity --


@given(seed=st.integers(0, 10_000), hidden=st.floats(0.0, 0.8), flat=st.booleans())
def test_clouds_that_are_surely_connected_are_connected(seed, hidden, flat):
    rng = np.random.default_rng(seed)
    body = rng.standard_normal((30, 3))
    if flat:
        body[:20, 2] = 0.0
    points = np.stack([body @ random_rotation(3, rng).T for _ in range(4)])
    points[rng.random((4, 30)) < hidden] = np.nan
    if np.any(np.sum(~np.isnan(points[:, :, 0]), axis=1) < 4):
        return
    observations = Observations.from_array(points)
    if surely_connected(observations, [np.arange(30)])[0]:
        assert len(connected_groups(observations)) == 1


# -- the error of inducing points --


@pytest.mark.parametrize("bandwidth", [0.1, 0.25, 0.6])
@pytest.mark.parametrize("smoothing", [1e-3, 0.1])
def test_the_stated_error_of_inducing_points_bounds_the_true_one(bandwidth, smoothing):
    points = scene(n=4, m=150, hidden=0.0, bend=0.1, noise=0.01, seed=3)[0]
    exact = fixed_kernel(bandwidth=bandwidth, smoothing=smoothing).fit(points)
    assert_allclose(exact.inducing_errors_, 0)
    stated = []
    for inducing in (10, 40, 120):
        thin = fixed_kernel(bandwidth=bandwidth, smoothing=smoothing, inducing=inducing).fit(points)
        for t, (one, other) in enumerate(zip(thin.warps_, exact.warps_, strict=True)):
            error = np.sqrt(np.mean(np.sum((one(points[t]) - other(points[t])) ** 2, axis=1)))
            assert error <= thin.inducing_errors_[t]
        stated.append(thin.inducing_errors_.max())
    assert stated[2] < stated[1]
    whole = fixed_kernel(bandwidth=bandwidth, smoothing=smoothing, inducing=150).fit(points)
    assert whole.inducing_errors_.max() < 1e-5 * stated[0]


def test_the_energy_of_a_warp_is_that_of_the_plain_formula():
    points = scene(n=4, m=40, hidden=0.0)[0]
    for model in (fixed_kernel(), fixed_kernel(inducing=12), fixed_kernel(kernel="wendland", bandwidth=0.8)):
        part = model.fit(points).warps_[0].kernel_part
        energy = np.trace(part.weights.T @ part.gram(part.centres) @ part.weights)
        assert_allclose(model.warps_[0].energy, energy, rtol=1e-9)


def test_too_few_inducing_points_are_diagnosed():
    points = scene(n=4, m=150, hidden=0.0, bend=0.1, noise=0.01, seed=3)[0]
    kinds = {
        count: [finding.kind for finding in fixed_kernel(bandwidth=0.15, inducing=count).fit(points).diagnose()]
        for count in (20, 150)
    }
    assert "too few inducing points" in kinds[20]
    assert "too few inducing points" not in kinds[150]


@pytest.mark.parametrize("hidden", [0.0, 0.6])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_excess_of_the_faithful_map_is_within_its_limits_with_the_iterative_solver(hidden, weighted):
    points = scene(n=12, m=600, hidden=hidden, noise=0.02, bend=0.1, seed=1)[0]
    weights = np.random.default_rng(0).uniform(0.2, 5, 600) if weighted else None
    fitted = fixed_kernel(kind=IterativeKernelGPA, inducing=40).fit(points, weights)
    assert fitted.spectrum_.solver == "low-rank: LOBPCG"
    faithful, rigid = fitted.map_, RigidGPA().fit(points, weights).map_
    clouds = [fitted._reduced_cloud(t) for t in range(12)]
    cost, rigid_cost = (sum(np.vdot(M[c.seen], c.apply(M[c.seen])) for c in clouds) for M in (faithful, rigid))
    own, by_chance = allowed_increase(fitted.observations_.stacked)
    allowed = own + (1 - cost / rigid_cost) ** 2 * by_chance
    # within the tolerance of the iteration
    assert SUFFICIENT * allowed <= fitted.registration_.faithful.excess * (1 + 1e-6) <= allowed * (1 + 2e-6)

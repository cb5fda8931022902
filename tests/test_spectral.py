"""Each solver finds the bottom eigenpairs that a full eigen-decomposition finds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.linalg import norm
from numpy.testing import assert_allclose, assert_array_equal

from conftest import random_rotation, scene
from kernelgpa import NumericalFailure, Observations
from kernelgpa.spectrum.eigenpairs import Metric, Spectrum, Uniqueness, bottom_eigenpairs
from kernelgpa.spectrum.krylov import RESIDUAL
from kernelgpa.spectrum.operator import OperatorLimits
from kernelgpa.spectrum.total import total_cost
from kernelgpa.warps import AffineFamily, reduce
from spectral_solvers import (
    CHOLESKY,
    EPS,
    EXACT,
    FAMILIES,
    PAIRS,
    SOLVERS,
    THIN,
    WOODBURY,
    PrescribedSpectrum,
    assert_bottom,
    reduced,
    solve_with,
    total_matrix,
)

# -- against a full eigen-decomposition --


@pytest.mark.parametrize(("name", "solver"), PAIRS)
@pytest.mark.parametrize("hidden", [0.0, 0.4])
def test_each_solver_finds_the_bottom_eigenpairs(name, solver, hidden, dimension):
    m, modes = 120, 12
    clouds = reduced(FAMILIES[name], scene(n=4, m=m, d=dimension, hidden=hidden, bend=0.1)[0])
    spectrum = solve_with(clouds, m, dimension, modes, solver)
    assert spectrum.dimension == dimension
    assert_bottom(spectrum, total_matrix(clouds, m), modes)


@pytest.mark.parametrize(("name", "solver"), PAIRS)
def test_the_same_input_gives_identical_results(name, solver):
    points = scene(n=4, m=120)[0]
    first, second = (solve_with(reduced(FAMILIES[name], points), 120, 3, 8, solver) for _ in range(2))
    assert_array_equal(first.values, second.values)
    assert_array_equal(first.vectors, second.vectors)


@given(seed=st.integers(0, 1000), n=st.integers(2, 5), d=st.sampled_from([2, 3]), modes=st.integers(3, 20))
def test_small_problems_are_solved_for_any_number_of_modes(seed, n, d, modes):
    m = 30
    clouds = reduced(EXACT["gaussian"], scene(n=n, m=m, d=d, seed=seed)[0])
    assert_bottom(bottom_eigenpairs(total_cost(clouds, m), d, modes), total_matrix(clouds, m), modes)


@given(seed=st.integers(0, 1000))
@settings(max_examples=10)
def test_permuting_the_landmarks_permutes_the_vectors(seed):
    m, points = 60, scene(m=60)[0]
    order = np.random.default_rng(seed).permutation(m)
    a = bottom_eigenpairs(total_cost(reduced(AffineFamily(), points), m), 3, 3)
    b = bottom_eigenpairs(total_cost(reduced(AffineFamily(), points[:, order]), m), 3, 3)
    rounding = 10 * EPS * a.top
    assert_allclose(b.values, a.values, rtol=0, atol=rounding)
    overlap = np.abs(b.vectors.T @ a.vectors[order])
    assert_allclose(overlap, np.eye(3), rtol=0, atol=10 * rounding / np.diff(a.values).min())


def test_all_eigenvalues_can_be_computed():
    m = 20
    clouds = reduced(AffineFamily(), scene(n=3, m=m, hidden=0.0)[0])
    spectrum = bottom_eigenpairs(total_cost(clouds, m), 3, m - 2)
    assert_bottom(spectrum, total_matrix(clouds, m), m - 2)


def test_an_indefinite_matrix_is_refused():
    cloud = PrescribedSpectrum([-0.1, 0.2, 0.3, 0.4])
    with pytest.raises(NumericalFailure, match="raise smoothing"):
        solve_with([cloud], 160, 3, 3, CHOLESKY)


def test_many_modes_of_many_features_are_found_without_a_block_method():
    """LOBPCG needs several landmarks per wanted eigenpair; with fewer the dense solver takes over."""
    clouds = reduced(THIN["inducing"], scene(n=4, m=120)[0])
    cost = total_cost(clouds, 120, OperatorLimits(dense=0, dense_features=0, woodbury=20))
    assert_bottom(bottom_eigenpairs(cost, 3, 30), total_matrix(clouds, 120), 30)


# -- in the metric of the weights --


def weighted_scene(n, m, d, hidden):
    points = scene(n=n, m=m, d=d, hidden=hidden, bend=0.1)[0]
    return Observations.from_array(points, weights=np.random.default_rng(1).uniform(0.1, 5, (n, m)))


@pytest.mark.parametrize(("name", "solver"), PAIRS)
@pytest.mark.parametrize("hidden", [0.0, 0.4])
def test_weights_are_the_metric_of_the_spectrum(name, solver, hidden, dimension):
    """Q x = lambda D x  with D the mean weight of each landmark."""
    m, modes = 120, 12
    observations = weighted_scene(4, m, dimension, hidden)
    clouds = [reduce(FAMILIES[name], cloud) for cloud in observations.clouds]
    metric = Metric.of_clouds(observations.stacked)
    density, top = metric.density, metric.bound
    assert_allclose(density, observations.weights.sum(axis=0) / observations.counts, rtol=10 * EPS)
    spectrum = solve_with(clouds, m, dimension, modes, solver, metric)
    Q, X, root = total_matrix(clouds, m), spectrum.vectors, np.sqrt(density)
    S = Q / root[:, None] / root
    assert np.linalg.eigvalsh(S)[-1] <= top * (1 + 100 * EPS)
    rounding = 100 * EPS * top
    assert_allclose(X.T @ (density[:, None] * X), np.eye(modes), rtol=0, atol=1000 * EPS)
    assert_allclose(density @ X, 0, rtol=0, atol=1000 * EPS * norm(root))
    values = np.linalg.eigvalsh(S + top * m * np.outer(root, root) / norm(root) ** 2)
    assert_allclose(spectrum.values, values[: modes + 1], rtol=0, atol=rounding * m)
    off = (Q @ X - density[:, None] * X * spectrum.values[:modes]) / root[:, None]
    assert norm(off, axis=0).max() <= 2 * (RESIDUAL * values[modes] + rounding)


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_constants_are_excluded_if_all_eigenvalues_reach_their_bound(solver, dimension):
    """For two complete clouds each eigenvalue beyond the affine functions is 2, the upper bound."""
    m, modes = 120, 20
    observations = Observations.from_array(scene(n=2, m=m, d=dimension, hidden=0.0, bend=0.1)[0])
    clouds = [reduce(AffineFamily(), cloud) for cloud in observations.clouds]
    spectrum = solve_with(clouds, m, dimension, modes, solver, Metric.of_clouds(observations.stacked))
    assert spectrum.values[-1] == pytest.approx(2, abs=100 * EPS)
    assert_bottom(spectrum, total_matrix(clouds, m), modes)


def test_a_vanishing_weight_gives_the_spectrum_without_the_landmark():
    points = scene(n=4, m=40, bend=0.1)[0]
    faint = np.where(np.arange(40) < 5, 1e-9, 1.0)
    observations = Observations.from_array(points, weights=faint)
    without = observations.subset(range(5, 40))
    spectra = []
    for some in (observations, without):
        cost = total_cost([reduce(AffineFamily(), cloud) for cloud in some.clouds], len(some.landmarks))
        spectra.append(bottom_eigenpairs(cost, 3, 3, Metric.of_clouds(some.stacked)))
    # the faint landmarks move the rest by their share of the weight
    assert_allclose(spectra[0].values, spectra[1].values, rtol=0, atol=1e-9 * 40)
    overlap = np.abs(spectra[0].vectors[5:].T @ spectra[1].vectors)
    gap = np.diff(np.concatenate([[0], spectra[1].values])).min()
    assert_allclose(overlap, np.eye(3), rtol=0, atol=1e-9 * 40 / gap)


# -- repeated eigenvalues --


@pytest.mark.parametrize(("name", "solver"), PAIRS)
def test_exact_copies_have_d_zero_eigenvalues(name, solver, dimension):
    m, modes = 120, 9
    points = scene(n=4, m=m, d=dimension, hidden=0.0, bend=0.0)[0]
    clouds = reduced(FAMILIES[name], points)
    spectrum = solve_with(clouds, m, dimension, modes, solver)
    assert_allclose(spectrum.values[:dimension], 0, rtol=0, atol=spectrum.rounding)
    assert spectrum.values[dimension] > 1e3 * spectrum.rounding
    assert spectrum.uniqueness is Uniqueness.UNIQUE
    assert_bottom(spectrum, total_matrix(clouds, m), modes)
    # the zeros are the affine functions of any one cloud
    centred = points[0] - points[0].mean(axis=0)
    inside = spectrum.vectors[:, :dimension]
    residual = (RESIDUAL * spectrum.values[modes] + spectrum.rounding) / spectrum.values[dimension]
    assert norm(centred - inside @ (inside.T @ centred)) <= 10 * residual * norm(centred)


REPEATED = {
    "thrice": [0.1, 0.2, 0.2, 0.2, 0.3],
    "zeros": [0.0, 0.0, 0.0, 0.0, 0.3],
    "crowded": [0.4, 0.4004, 0.4004, 0.4004, 0.4008],
    "beyond the requested modes": [0.1, 0.2, 0.3, 0.3, 0.3, 0.3],
    "steep": [1e-5, 1e-5, 1e-5, 0.4, 0.4, 0.5],
    "ten": [0.5] * 10,
}


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("name", REPEATED)
@pytest.mark.parametrize("modes", [3, 4, 7])
def test_all_vectors_of_a_repeated_eigenvalue_are_found(name, modes, solver):
    cloud = PrescribedSpectrum(REPEATED[name], thin=solver == WOODBURY)
    spectrum = solve_with([cloud], 160, 3, modes, solver)
    assert_allclose(spectrum.values, np.sort(cloud.values)[1 : modes + 2], rtol=0, atol=10 * EPS * spectrum.top)
    assert_bottom(spectrum, cloud.cost_matrix(), modes)


@pytest.mark.parametrize(("name", "solver"), PAIRS)
@pytest.mark.parametrize("modes", [3, 8, 20])
def test_the_repeated_eigenvalues_of_a_lattice_are_found(name, solver, modes):
    """Copies of a cubic lattice have double and triple eigenvalues, most of them closely spaced."""
    ticks = np.arange(5.0)
    lattice = np.stack(np.meshgrid(ticks, ticks, ticks, indexing="ij"), axis=-1).reshape(-1, 3)
    rng = np.random.default_rng(0)
    clouds = reduced(FAMILIES[name], np.stack([lattice @ random_rotation(3, rng).T for _ in range(3)]))
    spectrum = solve_with(clouds, 125, 3, modes, solver)
    assert_bottom(spectrum, total_matrix(clouds, 125), modes)


# -- the gap --


def spectrum_of(values, dimension=3, total=10.0):
    return Spectrum(np.array(values), np.eye(10)[:, : len(values) - 1], total, dimension, "by hand")


@pytest.mark.parametrize(
    ("values", "dimension", "gap"),
    [
        ([0.1, 0.2, 0.3, 0.6], 3, 0.5),
        ([0.1, 0.2, 0.3, 0.6], 2, 1 / 3),
        ([0.0, 0.0, 0.0, 0.6], 3, 1.0),
        ([0.1, 0.2, 0.6, 0.6], 3, 0.0),
        ([0.0, 0.0, 0.0, 0.0], 3, 0.0),
        ([0.0, 0.0, 0.0, 1e-13], 3, 0.0),
    ],
)
def test_the_gap_is_relative_to_the_next_eigenvalue(values, dimension, gap):
    spectrum = spectrum_of(values, dimension)
    assert spectrum.gap == pytest.approx(gap, abs=4 * EPS)
    assert (spectrum.uniqueness is Uniqueness.UNIQUE) == (gap > 1e-6)


def test_the_text_for_a_missing_gap_names_the_cause():
    assert "groups of clouds share too few landmarks" in Uniqueness.NO_GAP.value


@pytest.mark.parametrize("solver", SOLVERS)
def test_equal_eigenvalues_d_and_d_plus_1_have_no_gap(solver):
    thin = solver == WOODBURY
    assert (
        solve_with([PrescribedSpectrum([0.1, 0.2, 0.3, 0.3], thin=thin)], 160, 3, 3, solver).uniqueness
        is Uniqueness.NO_GAP
    )
    assert (
        solve_with([PrescribedSpectrum([0.1, 0.2, 0.3, 0.31], thin=thin)], 160, 3, 3, solver).uniqueness
        is Uniqueness.UNIQUE
    )

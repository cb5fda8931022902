"""Every kernel is positive definite of the order that it states, and its gradient is that of its value."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import null_space
from scipy.spatial.distance import cdist

from conftest import scene
from fixed_settings import fixed_kernel
from kernelgpa import InvalidSetting
from kernelgpa.warps.gram import gram, gram_gradient
from kernelgpa.warps.kernels import (
    KERNELS,
    FunctionKernel,
    Gaussian,
    Laplacian,
    ThinPlate,
    Wendland,
    as_kernel,
)

EPS = np.finfo(float).eps


def rational(r):
    return 1 / (1 + r**2)


def rational_derivative(r):
    return -2 * r / (1 + r**2) ** 2


POSITIVE = {
    **KERNELS,
    "function": as_kernel(rational),
    "function and derivative": FunctionKernel(rational, rational_derivative),
}
EVERY = {**POSITIVE, "thin plate 2D": ThinPlate(2), "thin plate 3D": ThinPlate(3)}
SIGMAS = st.floats(0.05, 20)


def clouds(d):
    """On a lattice of quarters, so that points may coincide."""
    quarters = st.integers(-20, 20).map(lambda i: i / 4)
    return st.integers(2, 25).flatmap(lambda s: arrays(np.float64, (s, d), elements=quarters))


CLOUDS = st.sampled_from([2, 3]).flatmap(clouds)


def annihilating_affine(points):
    """Orthonormal weights w with  sum_i w_i = 0  and  sum_i w_i p_i = 0."""
    return null_space(np.column_stack([points, np.ones(len(points))]).T)


@pytest.mark.parametrize("name", POSITIVE)
@given(points=CLOUDS, sigma=SIGMAS)
def test_the_gram_matrix_is_positive_semidefinite(name, points, sigma):
    K = gram(POSITIVE[name], points, points, sigma)
    assert_array_equal(K, K.T)
    # the rounding error of an entry is a few EPS of its value, which is at most 1
    assert np.linalg.eigvalsh(K)[0] >= -10 * EPS * len(points)


@pytest.mark.parametrize("name", POSITIVE)
@given(points=CLOUDS)
def test_the_gram_matrix_of_distinct_points_is_positive_definite(name, points):
    points = np.unique(points, axis=0)
    K = gram(POSITIVE[name], points, points, 0.25)
    assert np.linalg.eigvalsh(K)[0] > 1000 * EPS * len(points)


@pytest.mark.parametrize("name", POSITIVE)
def test_the_value_at_distance_0_is_1(name):
    assert_array_equal(POSITIVE[name].value(np.zeros((2, 3))), np.ones((2, 3)))


@pytest.mark.parametrize("name", POSITIVE)
@given(r=arrays(np.float64, 20, elements=st.floats(0, 50)))
def test_values_fall_with_distance_and_stay_between_0_and_1(name, r):
    values = POSITIVE[name].value(np.sort(r))
    assert values.min() >= 0
    assert values.max() <= 1 + 2 * EPS
    assert np.diff(values).max() <= 2 * EPS


@pytest.mark.parametrize("name", EVERY)
@given(points=CLOUDS, sigma=SIGMAS, scale=st.sampled_from([2.0**-40, 0.5, 2.0**40]))
def test_only_distance_over_sigma_matters(name, points, sigma, scale):
    kernel = EVERY[name]
    assert_array_equal(gram(kernel, points, points, sigma), gram(kernel, scale * points, scale * points, scale * sigma))


@pytest.mark.parametrize("dimension", [2, 3])
@given(data=st.data(), sigma=SIGMAS)
def test_thin_plates_are_conditionally_positive_semidefinite(dimension, data, sigma):
    points = data.draw(clouds(dimension))
    K = gram(ThinPlate(dimension), points, points, sigma)
    free = annihilating_affine(points)
    values = np.linalg.eigvalsh(free.T @ K @ free)
    assert values.min(initial=0.0) >= -100 * EPS * np.linalg.norm(K)


@pytest.mark.parametrize("dimension", [2, 3])
def test_thin_plates_are_conditionally_positive_definite_and_not_positive_definite(dimension):
    points = np.random.default_rng(1).standard_normal((30, dimension))
    K = gram(ThinPlate(dimension), points, points, 1.0)
    free = annihilating_affine(points)
    rounding = 1000 * EPS * np.linalg.norm(K)
    assert np.linalg.eigvalsh(free.T @ K @ free)[0] > rounding
    assert np.linalg.eigvalsh(K)[0] < -rounding
    assert ThinPlate(dimension).order == 2


@pytest.mark.parametrize(("dimension", "r", "value"), [(3, 2.0, -2.0), (2, 2.0, 4 * np.log(4)), (2, 0.0, 0.0)])
def test_thin_plates_follow_the_convention(dimension, r, value):
    assert ThinPlate(dimension).value(np.array([r]))[0] == value


@pytest.mark.parametrize("name", EVERY)
@given(seed=st.integers(0, 10_000), sigma=st.floats(0.3, 3), d=st.sampled_from([2, 3]))
def test_the_gradient_is_that_of_the_value(name, seed, sigma, d):
    kernel, rng = EVERY[name], np.random.default_rng(seed)
    x, centres, weights = rng.standard_normal((6, d)), rng.standard_normal((8, d)), rng.standard_normal((8, 2))
    nearest = cdist(x, centres).min()
    assume(nearest > 0.05)  # next to a kink no finite step is small
    step = EPS ** (1 / 3)
    gradient = gram_gradient(kernel, x, centres, sigma, weights)
    for j in range(d):
        ahead, behind = x.copy(), x.copy()
        ahead[:, j] += step
        behind[:, j] -= step
        change = gram(kernel, ahead, centres, sigma) @ weights - gram(kernel, behind, centres, sigma) @ weights
        size = max(np.abs(gram(kernel, x, centres, sigma)).max(), 1.0) * np.abs(weights).sum()
        # rounding EPS / step, and step^2 times a third derivative of at most about (1 / shortest length)^3
        shortest = min(sigma / 5, nearest)
        tolerance = size * (10 * EPS / step + 10 * step**2 / shortest**3)
        assert_allclose(gradient[:, :, j], change / (2 * step), rtol=0, atol=tolerance)


@pytest.mark.parametrize("name", EVERY)
def test_the_gradient_at_a_centre_is_that_of_the_others(name):
    rng = np.random.default_rng(0)
    centres, weights = rng.standard_normal((7, 3)), rng.standard_normal((7, 2))
    at = gram_gradient(EVERY[name], centres[:1], centres, 0.8, weights)
    others = gram_gradient(EVERY[name], centres[:1], centres[1:], 0.8, weights[1:])
    assert_allclose(at, others, rtol=0, atol=100 * EPS * np.abs(weights).sum() / 0.8**2)


def test_a_function_has_the_same_gradient_with_and_without_its_derivative():
    r = np.linspace(0, 5, 101)
    numeric, exact = (
        FunctionKernel(rational).derivative_over_r(r),
        FunctionKernel(rational, rational_derivative).derivative_over_r(r),
    )
    step = EPS ** (1 / 3)
    assert_allclose(numeric[1:], exact[1:], rtol=0, atol=10 * (EPS / step + step**2) / r[1])
    assert numeric[0] == exact[0] == 0


def test_wendland_vanishes_outside_of_its_support():
    sigma = 0.7
    x, centres = np.zeros((1, 3)), np.array([[sigma, 0, 0], [0, 1.5 * sigma, 0], [0, 0, (1 - 1e-3) * sigma]])
    K = gram(Wendland(), x, centres, sigma)[0]
    assert_array_equal(K[:2], 0)
    assert K[2] > 0
    assert_array_equal(gram_gradient(Wendland(), x, centres[:2], sigma, np.ones((2, 1))), 0)


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_is_found_by_its_name(name):
    assert as_kernel(name) is KERNELS[name]
    assert as_kernel(KERNELS[name]) is KERNELS[name]


def test_kernels_compare_by_their_parameters():
    assert Gaussian() == Gaussian()
    assert Gaussian() != Laplacian()
    assert ThinPlate(2) != ThinPlate(3)
    assert len({Gaussian(), Gaussian(), ThinPlate(2)}) == 2


def test_the_error_for_an_unknown_kernel_lists_the_known_ones():
    with pytest.raises(InvalidSetting, match="'gausian' is unknown") as caught:
        as_kernel("gausian")
    assert all(name in str(caught.value) for name in KERNELS)
    with pytest.raises(InvalidSetting, match="'gausian' is unknown"):
        fixed_kernel(kernel="gausian").fit(scene()[0])


@pytest.mark.parametrize("kernel", [3, None, [1.0]], ids=repr)
def test_a_kernel_is_a_name_a_kernel_or_a_function(kernel):
    with pytest.raises(InvalidSetting, match=r"expected a name, a kernel derived from .*, or a function"):
        as_kernel(kernel)


NOT_KERNELS = {
    "cosine": (lambda r: np.cos(3 * r), "eigenvalue -"),
    "negative": (lambda r: -np.exp(-r), "eigenvalue -"),
    "box": (lambda r: (r < 1).astype(float), "eigenvalue -"),
    "NaN": (lambda r: np.full_like(r, np.nan), "not finite"),
    "pole": (lambda r: np.divide(1, r, out=np.full_like(r, np.inf), where=r > 0), "not finite"),
    "one number": (lambda r: 1.0, r"shape \(\)"),
    "another shape": (lambda r: r[0], "shape"),
}


@pytest.mark.parametrize("name", NOT_KERNELS)
@pytest.mark.parametrize("inducing", [None, 15], ids=["exact", "inducing"])
def test_a_function_that_is_not_positive_definite_is_refused(name, inducing):
    function, found = NOT_KERNELS[name]
    with pytest.raises(InvalidSetting, match=f"kernel: .*{found}"):
        fixed_kernel(kernel=function, bandwidth=0.8, inducing=inducing).fit(scene(hidden=0.0)[0])


@pytest.mark.parametrize("inducing", [None, 15], ids=["exact", "inducing"])
def test_a_function_gives_the_same_map_as_the_kernel_it_equals(inducing):
    points = scene()[0]
    by_name = fixed_kernel(kernel="gaussian", inducing=inducing).fit(points)
    by_function = fixed_kernel(kernel=lambda r: np.exp(-0.5 * r**2), inducing=inducing).fit(points)
    assert_allclose(by_function.map_, by_name.map_, rtol=0, atol=1e-10 * by_name.scales_[0])

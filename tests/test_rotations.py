"""Nearest rotations, the exponential map, and the maximisation over rotations, which never lowers f."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.linalg import det, norm
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import expm

from conftest import random_rotation, scene
from kernelgpa import Observations
from kernelgpa.gauge.rigid import MAX_SEPARATE_SOLVES, RigidSystem
from kernelgpa.gauge.rotations import Termination, exponential, maximise_over_rotations, nearest_rotation, skew

EPS = np.finfo(float).eps
every_dimension = pytest.mark.parametrize("d", [2, 3], ids=["2D", "3D"])
SEEDS = st.integers(0, 100_000)


def rotations(d, n, rng):
    return np.array([random_rotation(d, rng) for _ in range(n)])


def assert_rotations(matrices):
    d = matrices.shape[-1]
    identity = np.broadcast_to(np.eye(d), matrices.shape)
    assert_allclose(np.swapaxes(matrices, -1, -2) @ matrices, identity, rtol=0, atol=100 * EPS)
    assert_allclose(det(matrices), 1, rtol=0, atol=100 * EPS)


# -- nearest rotations --


@every_dimension
@given(data=st.data())
def test_the_nearest_rotation_is_a_rotation_and_no_other_is_nearer(d, data):
    whole = st.integers(-3, 3).map(float)  # yields many singular matrices and many of negative determinant
    C = data.draw(arrays(np.float64, (d, d), elements=whole))
    R = nearest_rotation(C)
    assert_rotations(R)
    others = rotations(d, 200, np.random.default_rng(0))
    reached = np.vdot(R, C)
    assert np.einsum("tij,ij->t", others, C).max() <= reached + 100 * EPS * norm(C)
    # the most that a proper rotation can reach
    spread = np.linalg.svd(C, compute_uv=False)
    best = spread[:-1].sum() + np.sign(round(det(C))) * spread[-1]
    assert reached == pytest.approx(best, abs=100 * EPS * (1 + norm(C)))


@every_dimension
@given(seed=SEEDS)
def test_a_multiple_of_a_rotation_has_that_rotation_as_its_nearest(d, seed):
    rng = np.random.default_rng(seed)
    R = rotations(d, 5, rng)
    assert_allclose(nearest_rotation(R), R, rtol=0, atol=100 * EPS)
    sizes = 10.0 ** rng.integers(-100, 100, 5)
    assert_allclose(nearest_rotation(sizes[:, None, None] * R), R, rtol=0, atol=100 * EPS)


@every_dimension
@given(seed=SEEDS)
def test_the_nearest_rotation_is_equivariant(d, seed):
    rng = np.random.default_rng(seed)
    C, (A, B) = rng.standard_normal((d, d)), rotations(d, 2, rng)
    spread = np.linalg.svd(C, compute_uv=False)
    # the nearest rotation is unique if this sum is positive, and conditioned by it
    condition = spread[-2] + np.sign(det(C)) * spread[-1]
    assert_allclose(
        nearest_rotation(A @ C @ B), A @ nearest_rotation(C) @ B, rtol=0, atol=100 * EPS * spread[0] / condition
    )


@every_dimension
def test_nearest_rotations_are_found_in_batches_of_any_shape(d):
    C = np.random.default_rng(0).standard_normal((4, 5, d, d))
    batch = nearest_rotation(C)
    assert_rotations(batch)
    for i in range(4):
        for j in range(5):
            assert_array_equal(batch[i, j], nearest_rotation(C[i, j]))


# -- the exponential --


@every_dimension
@given(seed=SEEDS, angle=st.sampled_from([0.0, 1e-300, 1e-12, 1e-5, 0.1, 1.0, np.pi, 5.0, 2 * np.pi, 20.0]))
def test_the_exponential_is_the_matrix_exponential(d, seed, angle):
    X = skew(np.random.default_rng(seed).standard_normal((d, d)))
    X *= angle * np.sqrt(2) / norm(X)
    assert_rotations(exponential(X))
    assert_allclose(exponential(X), expm(X), rtol=0, atol=100 * EPS * (1 + angle))
    assert_allclose(exponential(X) @ exponential(-X), np.eye(d), rtol=0, atol=100 * EPS)


@every_dimension
def test_the_exponential_works_in_batches(d):
    X = skew(np.random.default_rng(0).standard_normal((3, 4, d, d)))
    assert_allclose(exponential(X), [[expm(x) for x in row] for row in X], rtol=0, atol=100 * EPS)


def test_skew_is_the_antisymmetric_part():
    C = np.random.default_rng(0).standard_normal((5, 3, 3))
    S = skew(C)
    assert_array_equal(S, -np.swapaxes(S, 1, 2))
    symmetric = C - S
    assert_allclose(symmetric, np.swapaxes(symmetric, 1, 2), rtol=0, atol=4 * EPS * np.abs(C).max())


# -- maximisation over rotations --


def random_form(n, d, rank, rng):
    """A positive semidefinite form of the given rank on (n, d, d) arrays."""
    B = rng.standard_normal((n * d * d, rank))
    return lambda x: (B @ (B.T @ x.ravel())).reshape(x.shape)


def rigid_form(points):
    return RigidSystem(Observations.from_array(points).stacked).operator


def chain(n, d, overlap, seed=0):
    """Noisy clouds in a row, each of which shares a few landmarks with the next one only."""
    rng = np.random.default_rng(seed)
    step = 8
    m = step * n + overlap
    template = rng.standard_normal((m, d)) + np.arange(m)[:, None] / step * np.eye(d)[0]
    points = np.full((n, m, d), np.nan)
    for t in range(n):
        seen = slice(t * step, (t + 1) * step + overlap)
        noisy = template[seen] + 0.05 * rng.standard_normal(template[seen].shape)
        points[t, seen] = noisy @ random_rotation(d, rng).T
    return points


def assert_stationary(operator, optimum):
    """Central differences of f vanish along random tangents, and so does its gradient."""
    R, rng = optimum.rotations, np.random.default_rng(0)
    largest = np.abs(operator(R)).max()
    h = EPS ** (1 / 3)
    for _ in range(10):
        X = skew(rng.standard_normal(R.shape))
        X /= norm(X)
        values = [np.vdot(moved, operator(moved)) for moved in (R @ exponential(h * X), R @ exponential(-h * X))]
        # rounding of f, and h^3 times a third derivative of at most a few times the norm of G(R)
        tolerance = 100 * EPS * abs(optimum.value) + 10 * h**3 * largest * len(R)
        assert abs(values[0] - values[1]) <= tolerance
    gradient = skew(np.swapaxes(R, 1, 2) @ operator(R))
    assert np.abs(gradient).max() <= 1e-9 * largest


def maximise_recorded(operator, start, **limits):
    """The optimum, and f at the start and after each iteration."""
    values = [np.vdot(start, operator(start))]
    optimum = maximise_over_rotations(operator, start, callback=lambda _, value: values.append(value), **limits)
    assert len(values) == optimum.iterations + 1
    return optimum, np.array(values)


def assert_never_decreases(values):
    assert np.diff(values).min(initial=0.0) >= -10 * EPS * values[-1]


@every_dimension
@given(seed=SEEDS, n=st.integers(1, 8), share=st.floats(0.0, 1.0))
def test_the_maximisation_never_lowers_f_and_ends_at_a_stationary_point(d, seed, n, share):
    rng = np.random.default_rng(seed)
    operator = random_form(n, d, 1 + int(share * (n * d * d - 1)), rng)
    start = rotations(d, n, rng)
    optimum, values = maximise_recorded(operator, start)
    assert optimum.termination is Termination.CONVERGED
    assert_rotations(optimum.rotations)
    assert optimum.value == pytest.approx(np.vdot(optimum.rotations, operator(optimum.rotations)), rel=100 * EPS)
    assert_never_decreases(values)
    assert_stationary(operator, optimum)


@every_dimension
@given(seed=SEEDS)
def test_rigid_registration_ends_at_a_stationary_point(d, seed):
    operator = rigid_form(scene(n=6, m=25, d=d, hidden=0.2, seed=seed)[0])
    start = rotations(d, 6, np.random.default_rng(seed))
    optimum, values = maximise_recorded(operator, start)
    assert optimum.termination is Termination.CONVERGED
    assert_rotations(optimum.rotations)
    assert_never_decreases(values)
    assert_stationary(operator, optimum)


@every_dimension
@pytest.mark.parametrize("overlap", [4, 6])
def test_newton_steps_make_chains_of_clouds_converge(d, overlap):
    n = 15
    operator = rigid_form(chain(n, d, overlap))
    start = rotations(d, n, np.random.default_rng(1))
    optimum, values = maximise_recorded(operator, start, max_iterations=200)
    assert optimum.termination is Termination.CONVERGED
    assert_never_decreases(values)
    assert_stationary(operator, optimum)
    plain = maximise_over_rotations(operator, start, max_iterations=200, newton=False)
    assert plain.termination is Termination.LIMIT
    assert plain.value < optimum.value


def alternation(operator, start):
    """R <- nearest rotation of G(R), each by its own singular value decomposition, until only rounding is left."""
    R = start
    for _ in range(20_000):
        left, _, right = np.linalg.svd(operator(R))
        left[:, :, -1] *= det(left @ right)[:, None]
        previous, R = R, left @ right
        if np.abs(R - previous).max() < 20 * EPS:
            break
    return R


@every_dimension
@settings(max_examples=20, deadline=None)
@given(seed=SEEDS, n=st.integers(2, 30), hidden=st.sampled_from([0.0, 0.3]))
def test_from_a_warm_start_the_optimum_is_that_of_the_alternation(d, seed, n, hidden):
    operator = rigid_form(scene(n=n, m=25, d=d, hidden=hidden, seed=seed)[0])
    rng = np.random.default_rng(seed)
    expected = alternation(operator, nearest_rotation(operator(rotations(d, n, rng))))
    start = expected @ exponential(0.03 * skew(rng.standard_normal((n, d, d))))
    optimum = maximise_over_rotations(operator, start)
    # the rotation of the whole map is free: compare with respect to the first cloud
    relative = optimum.rotations[0].T @ optimum.rotations
    assert_allclose(relative, expected[0].T @ expected, rtol=0, atol=1e-10)


@every_dimension
@given(seed=SEEDS)
def test_the_optimum_moves_with_the_clouds_and_their_order(d, seed):
    points = scene(n=6, m=25, d=d, hidden=0.2, seed=seed)[0]
    rng = np.random.default_rng(seed)
    turned, order = rotations(d, 6, rng), rng.permutation(6)
    form = rigid_form(points)
    start = nearest_rotation(form(rotations(d, 6, rng)))
    found = maximise_over_rotations(form, start).rotations
    moved = (points @ np.swapaxes(turned, 1, 2))[order]
    again = maximise_over_rotations(rigid_form(moved), (start @ np.swapaxes(turned, 1, 2))[order]).rotations
    back = np.empty_like(again)
    back[order] = again @ turned[order]
    assert_allclose(back[0].T @ back, found[0].T @ found, rtol=0, atol=1e-8)


@every_dimension
def test_a_warm_start_converges_in_few_newton_steps(d):
    operator = rigid_form(scene(n=40, m=30, d=d, hidden=0.3)[0])
    optimum = maximise_over_rotations(operator, nearest_rotation(operator(rotations(d, 40, np.random.default_rng(0)))))
    tangents = 1e-3 * skew(np.random.default_rng(1).standard_normal((40, d, d)))
    again = maximise_over_rotations(operator, optimum.rotations @ exponential(tangents))
    assert again.iterations <= 4
    assert again.value == pytest.approx(optimum.value, rel=10 * EPS * 40)


@every_dimension
def test_rigid_copies_reach_the_upper_bound_of_f(d):
    points = scene(n=5, m=20, d=d, hidden=0.0, bend=0.0)[0]
    operator = rigid_form(points)
    start = rotations(d, 5, np.random.default_rng(3))
    centred = points - points.mean(axis=1, keepdims=True)
    truth = nearest_rotation(np.einsum("ma,tmb->tab", centred[0], centred))  # each cloud onto the first
    # from an arbitrary start the maximisation may end at a lower local maximum
    optimum = maximise_over_rotations(operator, nearest_rotation(truth + 0.2 * start))
    assert optimum.value == pytest.approx(norm(centred) ** 2, rel=100 * EPS)
    # f is quadratic at its maximum: a relative gradient of 1e-13 is a rotation by about that angle
    assert_allclose(optimum.rotations[0].T @ optimum.rotations, truth, rtol=0, atol=1e-11)


@every_dimension
def test_reaching_the_limit_of_iterations_is_reported(d):
    rng = np.random.default_rng(0)
    operator, start = random_form(6, d, 12, rng), rotations(d, 6, rng)
    optimum = maximise_over_rotations(operator, start, max_iterations=2)
    assert optimum.termination is Termination.LIMIT
    assert optimum.iterations == 2
    assert optimum.value == pytest.approx(np.vdot(optimum.rotations, operator(optimum.rotations)), rel=100 * EPS)


@every_dimension
def test_a_maximum_is_recognised_within_the_patience(d):
    rng = np.random.default_rng(0)
    operator = random_form(5, d, 15, rng)
    optimum = maximise_over_rotations(operator, rotations(d, 5, rng))
    patience = 3
    again = maximise_over_rotations(operator, optimum.rotations, patience=patience)
    assert again.termination is Termination.CONVERGED
    assert again.iterations <= patience + 1
    assert again.value == pytest.approx(optimum.value, rel=10 * EPS)


def test_a_form_that_is_zero_leaves_the_rotations_unchanged():
    start = rotations(3, 4, np.random.default_rng(0))
    optimum = maximise_over_rotations(np.zeros_like, start)
    assert optimum.termination is Termination.CONVERGED
    assert optimum.iterations == 0
    assert_array_equal(optimum.rotations, start)


@every_dimension
@given(seed=SEEDS)
def test_the_start_is_not_modified(d, seed):
    rng = np.random.default_rng(seed)
    start = rotations(d, 4, rng)
    before = start.copy()
    maximise_over_rotations(random_form(4, d, 8, rng), start)
    assert_array_equal(start, before)


# -- what the maximisation requires of a form --


@every_dimension
@given(seed=SEEDS)
def test_rigid_forms_are_symmetric_and_positive_semidefinite(d, seed):
    operator = rigid_form(scene(n=5, m=25, d=d, hidden=0.3, seed=seed)[0])
    rng = np.random.default_rng(seed)
    x, y = rng.standard_normal((2, 5, d, d))
    size = norm(operator(x)) * norm(y) + norm(operator(y)) * norm(x)
    assert abs(np.vdot(x, operator(y)) - np.vdot(operator(x), y)) <= 100 * EPS * size
    assert np.vdot(x, operator(x)) >= -100 * EPS * size


@every_dimension
def test_the_form_of_many_clouds_does_not_change_once_its_matrix_is_computed(d):
    operator = rigid_form(scene(n=320 // d, m=320, d=d, hidden=0.3)[0])
    motions = np.random.default_rng(0).standard_normal((320 // d, d, d))
    values = [operator(motions) for _ in range(MAX_SEPARATE_SOLVES + 2)]
    assert_allclose(values[-1], values[0], rtol=0, atol=1e4 * EPS * np.abs(values[0]).max())


@pytest.mark.parametrize("n", [6, 40, 120], ids=["few clouds", "many clouds", "large system"])
@pytest.mark.parametrize("accuracy", [1e-9, 1e-12])
def test_solutions_of_limited_accuracy_let_the_rotations_converge(n, accuracy):
    """A solution by iteration has an error that is neither symmetric nor linear in the right-hand side."""
    points, _ = scene(n=n, m=90 if n < 100 else 340, hidden=0.3, bend=0.1, noise=0.02)
    stacked = Observations.from_array(points).stacked
    exact = RigidSystem(stacked)
    rng = np.random.default_rng(0)

    def inexact(sums):
        solution = inverse(sums)
        return solution + accuracy * np.abs(solution).max(axis=0) * rng.standard_normal(solution.shape)

    inverse = exact._inverse_of_free_map()
    start = rotations(3, n, np.random.default_rng(1))
    start = maximise_over_rotations(exact.operator, start, converged=1e-6).rotations
    best = maximise_over_rotations(exact.operator, start)
    found = maximise_over_rotations(RigidSystem(stacked, inexact).operator, start)
    assert found.termination is Termination.CONVERGED
    assert found.value == pytest.approx(best.value, rel=10 * accuracy)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), thin=st.sampled_from([1.0, 1e-2, 1e-5, 0.0]))
def test_the_nearest_rotations_of_a_batch_are_those_of_each_matrix(seed, thin):
    """The iterated polar factor against the singular value decomposition; thick, thin and mirrored matrices."""
    rng = np.random.default_rng(seed)
    matrices = 10 ** rng.uniform(-3, 3, (40, 1, 1)) * rng.standard_normal((40, 3, 3))
    left, values, right = np.linalg.svd(matrices)
    values[:, 2] *= thin
    matrices = left * values[:, None] @ right
    batch, single = nearest_rotation(matrices), np.stack([nearest_rotation(one) for one in matrices])
    assert_allclose(batch @ np.swapaxes(batch, 1, 2), np.broadcast_to(np.eye(3), batch.shape), atol=1e-12)
    assert_allclose(np.linalg.det(batch), 1.0, rtol=1e-12)
    # the nearest rotation is not unique if two singular values cancel, as for the mirror image of a sphere
    gap = (values[:, 1] + np.sign(np.linalg.det(left @ right)) * values[:, 2]) / values[:, 0]
    unique = gap > 1e-3
    assert_allclose(batch[unique], single[unique], atol=1e-10)

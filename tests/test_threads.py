"""Threads that never wait for one another: one for each BLAS, several clouds at a time."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numpy.testing import assert_allclose
from threadpoolctl import threadpool_info, threadpool_limits

from conftest import scene
from kernelgpa import TPSGPA, AffineGPA, KernelGPA, RigidGPA, lapack, threads
from kernelgpa.threads import at_most, free_cores, free_cores_for, one_blas_thread, side_by_side

EPS = np.finfo(np.float64).eps


def blas_threads():
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


# -- LAPACK without the interpreter lock --


def positive(size):
    A = np.random.default_rng(0).standard_normal((size, size + 5))
    return A @ A.T


ORDERS = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "columns of C": lambda a: np.hstack([a, a])[:, : a.shape[1]],
    "columns of F": lambda a: np.asfortranarray(np.hstack([a, a]))[:, a.shape[1] :],
    "rows of C": lambda a: np.vstack([a, a])[: len(a)],
    "rows of F": lambda a: np.asfortranarray(np.vstack([a, a]))[: len(a)],
    "every second row": lambda a: np.repeat(a, 2, axis=0)[::2],
}


@pytest.mark.parametrize("size", [1, 2, 7, 150])
def test_a_factor_solves_and_inverts(size):
    A = positive(size)
    lower = np.asfortranarray(A.copy())
    assert lapack.factorise(lower)
    L = np.tril(lower)
    rounding = 10 * size * EPS * np.linalg.cond(A)
    assert_allclose(L @ L.T, A, rtol=0, atol=10 * size * EPS * np.abs(A).max())
    right = np.random.default_rng(1).standard_normal((size, 3))
    assert_allclose(lapack.solve(lower, right), np.linalg.solve(A, right), rtol=0, atol=rounding * np.abs(right).max())
    assert lapack.invert(lower)
    expected = np.linalg.inv(A)
    assert_allclose(np.tril(lower), np.tril(expected), rtol=0, atol=rounding * np.abs(expected).max())


def test_a_matrix_that_is_not_positive_definite_has_no_factor():
    assert not lapack.factorise(np.asfortranarray(np.diag([1.0, -1.0])))
    assert not lapack.invert(np.asfortranarray(np.diag([1.0, 0.0])))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("shape", [(1, 1), (5, 3), (40, 70)])
def test_squares_are_added_in_any_order_of_memory(shape, transposed, order):
    a = np.random.default_rng(0).standard_normal(shape)
    product = a.T @ a if transposed else a @ a.T
    c = np.asfortranarray(np.ones_like(product))
    lapack.add_square(c, -2.0, ORDERS[order](a), beta=0.5, transposed=transposed)
    assert_allclose(np.tril(c), np.tril(0.5 - 2 * product), rtol=0, atol=100 * EPS * np.abs(product).max())


@pytest.mark.parametrize("left", ORDERS)
@pytest.mark.parametrize("right", ORDERS)
def test_products_are_subtracted_in_any_order_of_memory(left, right):
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((30, 8)), rng.standard_normal((8, 11))
    c = np.asfortranarray(rng.standard_normal((30, 11)))
    expected = c - a @ b
    lapack.subtract_product(c, ORDERS[left](a), ORDERS[right](b))
    assert_allclose(c, expected, rtol=0, atol=100 * EPS)


def test_columns_are_divided_by_a_factor():
    rng = np.random.default_rng(0)
    lower, b = np.asfortranarray(np.tril(rng.uniform(1, 2, (6, 6)))), np.asfortranarray(rng.standard_normal((9, 6)))
    expected = np.linalg.solve(lower, b.T).T
    lapack.divide_by_transposed(b, lower)
    assert_allclose(b, expected, rtol=0, atol=100 * EPS * np.linalg.cond(lower))


def test_what_is_written_to_must_be_in_fortran_order():
    with pytest.raises(ValueError, match="not in Fortran order"):
        lapack.factorise(np.eye(3)[:, ::-1])
    with pytest.raises(ValueError, match="not in Fortran order"):
        lapack.add_square(np.ones((3, 3)), 1.0, np.ones((3, 2)))


def test_python_runs_while_lapack_computes():
    """With the lock held, no other thread could count while a matrix is factorised."""
    matrix = np.asfortranarray(positive(1500))
    counted, ended = [0], threading.Event()

    def count():
        while not ended.is_set():
            counted[0] += 1

    counter = threading.Thread(target=count)
    counter.start()
    with one_blas_thread():
        before = counted[0]
        lapack.factorise(matrix)
        during = counted[0] - before
    ended.set()
    counter.join()
    assert during > 1000


# -- clouds side by side --


@pytest.mark.parametrize("inducing", [None, 20])
def test_two_clouds_are_worked_on_at_the_same_time(inducing, monkeypatch):
    """Each cloud that a thread works on waits until a second one has come as far; alone it would wait in vain."""
    monkeypatch.setattr(threads, "cpu_count", lambda: 2)
    meeting = threading.Barrier(2)
    met = []

    def kernel(r):
        if threading.current_thread() is not threading.main_thread():
            met.append(meeting.wait(timeout=60))
        return np.exp(-0.5 * r**2)

    KernelGPA(kernel=kernel, inducing=inducing).fit(scene(n=4, m=40, hidden=0.0)[0])
    assert len(met) >= 4


def test_results_come_in_the_order_of_the_items():
    assert list(side_by_side(lambda x: x * x, list(range(20)), 3)) == [x * x for x in range(20)]


@pytest.mark.parametrize(("n_jobs", "most"), [(1, 1), (2, 2), (3, 3)])
def test_no_more_threads_work_than_are_asked_for(n_jobs, most):
    def worker(_):
        return threading.get_ident()

    assert len(set(side_by_side(worker, range(200), n_jobs))) <= most
    with at_most(1):
        assert set(side_by_side(worker, range(20), n_jobs)) == {threading.get_ident()}


def test_work_inside_does_not_split_up_again():
    def outer(_):
        inner = set(side_by_side(lambda _: threading.get_ident(), range(10)))
        return inner == {threading.get_ident()}

    assert all(side_by_side(outer, range(4), 2))


def test_an_error_ends_the_work():
    begun = []

    def work(i):
        begun.append(i)
        if i == 0:
            raise ArithmeticError("zero")
        return i

    with pytest.raises(ArithmeticError, match="zero"):
        list(side_by_side(work, range(5000), 2))
    assert len(begun) < 5000


# -- BLAS threads --


@pytest.mark.parametrize("model", [RigidGPA(), AffineGPA(), TPSGPA(control_points=3), KernelGPA()], ids=repr)
def test_every_blas_has_one_thread_during_a_fit(model, monkeypatch):
    seen = []
    inner = type(model).fit_scene

    def watched(self, *arguments):
        seen.append(blas_threads())
        return inner(self, *arguments)

    monkeypatch.setattr(type(model), "fit_scene", watched)
    with threadpool_limits(2):
        model.fit(scene()[0])
        assert blas_threads() == {2}
    assert seen == [{1}]


def test_fits_side_by_side_leave_the_threads_of_blas_as_they_were():
    points = scene(n=4, m=40)[0]
    with threadpool_limits(2):
        with ThreadPoolExecutor(4) as pool:
            maps = list(pool.map(lambda _: KernelGPA().fit(points).map_, range(24)))
        assert blas_threads() == {2}
    assert all(np.array_equal(one, maps[0]) for one in maps)


@pytest.mark.parametrize(("rows", "free", "expected"), [(10_000, 2, 2), (10_000, 1, 1), (500, 2, 1), (10_000, 64, 2)])
def test_one_large_matrix_gets_the_free_cores_and_no_more(rows, free, expected, monkeypatch):
    monkeypatch.setattr(threads, "cpu_count", lambda: 64)
    monkeypatch.setattr(threads, "free_cores", lambda: free)
    with threadpool_limits(2), one_blas_thread():
        with free_cores_for(rows):
            assert blas_threads() == {expected}
        assert blas_threads() == {1}
        with one_blas_thread(), free_cores_for(rows):  # another fit runs
            assert blas_threads() == {1}


def test_a_busy_machine_has_fewer_free_cores():
    ended = threading.Event()
    busy = threading.Thread(target=lambda: [np.sort(np.ones(100_000)) for _ in iter(ended.is_set, True)])
    busy.start()
    try:
        assert 1 <= free_cores() <= max(1, threads.cpu_count())
    finally:
        ended.set()
        busy.join()

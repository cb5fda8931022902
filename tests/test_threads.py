"""One thread for each BLAS, and several clouds at a time."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numpy.testing import assert_allclose
from threadpoolctl import threadpool_info, threadpool_limits

from conftest import scene
from fixed_settings import fixed_kernel, fixed_tps
from kernelgpa import AffineGPA, RigidGPA
from kernelgpa._numerics import lapack, threads
from kernelgpa._numerics.threads import free_cores, free_cores_for, limit_threads, one_blas_thread, parallel_map

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
def test_squares_are_added_in_any_memory_order(shape, transposed, order):
    a = np.random.default_rng(0).standard_normal(shape)
    product = a.T @ a if transposed else a @ a.T
    c = np.asfortranarray(np.ones_like(product))
    lapack.add_square(c, -2.0, ORDERS[order](a), beta=0.5, transposed=transposed)
    assert_allclose(np.tril(c), np.tril(0.5 - 2 * product), rtol=0, atol=100 * EPS * np.abs(product).max())


@pytest.mark.parametrize("left", ORDERS)
@pytest.mark.parametrize("right", ORDERS)
def test_products_are_subtracted_in_any_memory_order(left, right):
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


def test_a_vector_or_a_matrix_of_another_size_is_refused():
    lower, small = np.asfortranarray(np.eye(3)), np.asfortranarray(np.eye(2))
    for call in (
        lambda: lapack.solve(lower, np.ones(3)),
        lambda: lapack.solve(lower, np.ones((2, 3))),
        lambda: lapack.add_square(small, 1.0, np.ones((3, 2))),
        lambda: lapack.subtract_product(small, np.ones((3, 2)), np.ones((2, 3))),
        lambda: lapack.divide_by_transposed(small, lower),
        lambda: lapack.factorise(np.asfortranarray(np.ones((3, 2)))),
    ):
        with pytest.raises(ValueError, match="do not belong together"):
            call()
    lower.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        lapack.factorise(lower)


def test_reversed_and_repeated_columns_are_read_correctly():
    a = np.random.default_rng(0).standard_normal((4, 6))
    for columns in (a[:, ::-1], np.broadcast_to(a[:, :1], (4, 3))):
        c = np.zeros((4, 4), order="F")
        lapack.add_square(c, 1.0, columns)
        assert_allclose(np.tril(c), np.tril(columns @ columns.T), rtol=0, atol=100 * EPS)
    empty = np.zeros((3, 3), order="F")
    lapack.add_square(empty, 1.0, np.zeros((3, 0)))
    assert not empty.any()


def test_a_matrix_that_is_overwritten_must_be_in_fortran_order():
    with pytest.raises(ValueError, match="not in Fortran order"):
        lapack.factorise(np.eye(3)[:, ::-1])
    with pytest.raises(ValueError, match="not in Fortran order"):
        lapack.add_square(np.ones((3, 3)), 1.0, np.ones((3, 2)))


def test_python_runs_while_lapack_computes():
    """Another thread counts while a matrix is factorised, which it could not do if the lock were held.

    The switch interval is long, because otherwise it might count between two switches of Python after the call.
    """
    matrix = np.asfortranarray(positive(1500))
    counted, ended = [0], threading.Event()

    def count():
        while not ended.is_set():
            counted[0] += 1
            time.sleep(0)  # releases the lock for a moment

    interval = sys.getswitchinterval()
    counter = threading.Thread(target=count)
    counter.start()
    try:
        sys.setswitchinterval(100)
        before = counted[0]
        lapack.factorise(matrix)
        during = counted[0] - before
    finally:
        sys.setswitchinterval(interval)
        ended.set()
        counter.join()
    assert during > 10


# -- several clouds at a time --


@pytest.mark.parametrize("inducing", [None, 20])
def test_two_clouds_are_worked_on_at_the_same_time(inducing, monkeypatch):
    """Each thread waits until a second one has come as far; a single thread would wait until the timeout."""
    monkeypatch.setattr(threads, "cpu_count", lambda: 2)
    meeting = threading.Barrier(2)
    met = []

    def kernel(r):
        if threading.current_thread() is not threading.main_thread():
            met.append(meeting.wait(timeout=60))
        return np.exp(-0.5 * r**2)

    fixed_kernel(kernel=kernel, inducing=inducing).fit(scene(n=4, m=420, hidden=0.0)[0])
    assert len(met) >= 4


def test_results_come_in_the_order_of_the_items():
    assert parallel_map(lambda x: x * x, list(range(20)), 3) == [x * x for x in range(20)]


@pytest.mark.parametrize(("n_jobs", "most"), [(1, 1), (2, 2), (3, 3)])
def test_no_more_threads_work_than_requested(n_jobs, most):
    def worker(_):
        return threading.get_ident()

    assert len(set(parallel_map(worker, range(200), n_jobs))) <= most
    with limit_threads(1):
        assert set(parallel_map(worker, range(20), n_jobs)) == {threading.get_ident()}


def test_one_job_is_one_thread_throughout(monkeypatch):
    monkeypatch.setattr(threads, "cpu_count", lambda: 4)
    used = set()

    def kernel(r):
        used.add(threading.get_ident())
        return np.exp(-0.5 * r**2)

    fixed_kernel(kernel=kernel, n_jobs=1).fit(scene(n=2, m=1100, hidden=0.0)[0])
    assert used == {threading.get_ident()}


def test_nested_work_uses_one_thread():
    def outer(_):
        inner = set(parallel_map(lambda _: threading.get_ident(), range(10)))
        return inner == {threading.get_ident()}

    assert all(parallel_map(outer, range(4), 2))


def test_an_error_ends_the_work():
    started = []

    def work(i):
        started.append(i)
        if i == 0:
            raise ArithmeticError("zero")
        time.sleep(0.01)

    with pytest.raises(ArithmeticError, match="zero"):
        parallel_map(work, range(5000), 2)
    assert len(started) < 5000


# -- BLAS threads --


@pytest.mark.parametrize("model", [RigidGPA(), AffineGPA(), fixed_tps(control_points=3), fixed_kernel()], ids=repr)
def test_every_blas_has_one_thread_during_a_fit(model, monkeypatch):
    seen = []
    inner = type(model)._fit_problem

    def watched(self, *arguments):
        seen.append(blas_threads())
        return inner(self, *arguments)

    monkeypatch.setattr(type(model), "_fit_problem", watched)
    with threadpool_limits(2):
        model.fit(scene()[0])
        assert blas_threads() == {2}
    assert seen == [{1}]


def test_simultaneous_fits_restore_the_number_of_blas_threads():
    points = scene(n=4, m=40)[0]
    with threadpool_limits(2):
        with ThreadPoolExecutor(4) as pool:
            maps = list(pool.map(lambda _: fixed_kernel().fit(points).map_, range(24)))
        assert blas_threads() == {2}
    assert all(np.array_equal(one, maps[0]) for one in maps)


def large_in_a_fit(rows, free):
    with one_blas_thread(), free_cores_for(rows, lambda: free):
        return blas_threads()


@pytest.mark.parametrize(("rows", "free", "expected"), [(10_000, 2, 2), (10_000, 1, 1), (500, 2, 1), (10_000, 64, 2)])
def test_one_large_matrix_gets_the_free_cores_and_no_others(rows, free, expected, monkeypatch):
    monkeypatch.setattr(threads, "cpu_count", lambda: 64)
    with threadpool_limits(2), one_blas_thread():
        with free_cores_for(rows, lambda: free):
            assert blas_threads() == {expected}
        assert blas_threads() == {1}
        with one_blas_thread(), free_cores_for(rows, lambda: free):  # the same fit
            assert blas_threads() == {expected}
        with ThreadPoolExecutor(1) as pool:  # another fit runs
            assert pool.submit(large_in_a_fit, rows, free).result() == {1}


@pytest.mark.parametrize(("running", "free"), [(1, 4), (2, 3), (3, 2), (9, 1)])
def test_a_busy_machine_has_fewer_free_cores(running, free, monkeypatch, tmp_path):
    load = tmp_path / "loadavg"
    load.write_text(f"0.50 0.40 0.30 {running}/123 4567\n")
    monkeypatch.setattr(threads, "cpu_count", lambda: 4)
    assert free_cores(load) == free
    load.write_text("")
    assert free_cores(load) == 1


IN_WORKERS = """
from concurrent.futures import ThreadPoolExecutor
from threadpoolctl import threadpool_info
import numpy as np, scipy.linalg
from kernelgpa._numerics.threads import one_blas_thread
def threads():
    return {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}
before = threads()
def work(_):
    with one_blas_thread():
        np.eye(50) @ np.eye(50)
        return threads()
for main_first in (False, True):
    if main_first:
        assert work(0) == {1}
    with ThreadPoolExecutor(4) as pool:
        assert all(found == {1} for found in pool.map(work, range(40)))
    assert threads() == before, (before, threads())
"""


def test_fits_in_worker_threads_limit_blas_and_restore_it():
    """In a process of its own, because threadpoolctl remembers the first thread that sets a limit."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "2"}
    subprocess.run([sys.executable, "-c", IN_WORKERS], check=True, env=environment)

"""BLAS threads that help one another instead of waiting.

On matrices of a few hundred rows the threads of BLAS spend their time waiting for one another, so there they are
set to one.  On large ones all cores pay; but NumPy and SciPy usually bring a BLAS each, and the threads of one, which
spin for a while after their work, then take the cores from the other.  So NumPy's is set to one thread there too, and
what is large goes through SciPy's (``product``, and its LAPACK).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from numbers import Integral
from threading import Lock
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from joblib import cpu_count
from scipy.linalg.blas import dgemm
from threadpoolctl import ThreadpoolController

from .errors import InvalidSetting

LARGE = 800  # rows from which BLAS threads pay
SPREAD = 1_000_000  # multiplications from which a product is worth SciPy's threads

Matrix = npt.NDArray[np.float64]
Item = TypeVar("Item")
Result = TypeVar("Result")


class _Limits:
    """Who asks for single threads at the moment, of all BLAS or of NumPy's own.

    Fits may run side by side in several threads of one process, and the last to leave restores what the first found.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._asking = {"all": 0, "numpy": 0}
        self._found: list[tuple[Any, int]] = []  # libraries, and the threads they had

    @contextmanager
    def single(self, which: str) -> Iterator[None]:
        with self._lock:
            if not any(self._asking.values()):
                self._found = [(library, library.get_num_threads()) for library in _libraries()]
            self._asking[which] += 1
            self._set()
        try:
            yield
        finally:
            with self._lock:
                self._asking[which] -= 1
                self._set()

    def _set(self) -> None:
        numpys = [library for library, _ in self._found if "numpy" in library.filepath]
        own = numpys if len(numpys) < len(self._found) else []  # NumPy's own, where SciPy has another
        for library, threads in self._found:
            single = self._asking["all"] or (self._asking["numpy"] and library in own)
            library.set_num_threads(1 if single else threads)


@cache
def _libraries() -> list[Any]:
    return list(ThreadpoolController().select(user_api="blas").lib_controllers)  # looks at every loaded library, once


_limits = _Limits()


@contextmanager
def blas_threads_for(rows: int) -> Iterator[None]:
    """Threads that suit matrices of so many rows."""
    with _limits.single("numpy" if rows >= LARGE else "all"):
        yield


def require_jobs(n_jobs: Any) -> None:
    if n_jobs is not None and (not isinstance(n_jobs, Integral) or isinstance(n_jobs, bool) or n_jobs == 0):
        raise InvalidSetting(f"n_jobs is {n_jobs!r}; expected None, a positive number, or -1 for all cores")


def jobs(n_jobs: int | None, tasks: int) -> int | None:
    """No more workers than there is work."""
    return None if n_jobs is None else min(int(n_jobs), max(tasks, 1))


def product(a: Matrix, b: Matrix) -> Matrix:
    """a @ b; by SciPy's BLAS where it is large."""
    if b.ndim < 2 or a.shape[0] * a.shape[1] * b.shape[1] < SPREAD:
        return np.asarray(a @ b)
    left, turned_left = _in_order(a)
    right, turned_right = _in_order(b)
    return np.asarray(dgemm(1.0, left, right, trans_a=turned_left, trans_b=turned_right))


def subtract_product(c: Matrix, a: Matrix, b: Matrix) -> None:
    """c -= a @ b, in place, for c in Fortran order."""
    left, turned_left = _in_order(a)
    right, turned_right = _in_order(b)
    result = dgemm(-1.0, left, right, 1.0, c, turned_left, turned_right, overwrite_c=True)
    if not np.may_share_memory(result, c):
        c[:] = result


def _in_order(matrix: Matrix) -> tuple[Matrix, bool]:
    """The matrix, or its transpose, in the order of BLAS, so that nothing is copied."""
    return (matrix, False) if matrix.flags.f_contiguous else (matrix.T, True)


def in_threads(work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """The same work on every item, on all cores, with one BLAS thread each; NumPy lets go of the interpreter."""
    if len(items) < 2:
        return [work(item) for item in items]
    with _limits.single("all"), ThreadPoolExecutor(cpu_count()) as pool:
        return list(pool.map(work, items))

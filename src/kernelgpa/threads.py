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
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from joblib import cpu_count
from scipy.linalg.blas import dgemm
from threadpoolctl import ThreadpoolController

LARGE = 800  # rows from which BLAS threads pay
SPREAD = 1_000_000  # multiplications from which a product is worth SciPy's threads

Matrix = npt.NDArray[np.float64]
Item = TypeVar("Item")
Result = TypeVar("Result")


@cache
def _all_blas() -> ThreadpoolController:
    return ThreadpoolController().select(user_api="blas")  # looks at every loaded library, once


@cache
def _numpys_blas() -> Any:
    """NumPy's own, where SciPy has another."""
    libraries = [library.filepath for library in _all_blas().lib_controllers]
    own = [path for path in libraries if "numpy" in path]
    return _all_blas().select(filepath=own if len(own) < len(libraries) else [])


@contextmanager
def blas_threads_for(rows: int) -> Iterator[None]:
    """Threads that suit matrices of so many rows."""
    with (_numpys_blas() if rows >= LARGE else _all_blas()).limit(limits=1):
        yield


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
    with _all_blas().limit(limits=1), ThreadPoolExecutor(cpu_count()) as pool:
        return list(pool.map(work, items))

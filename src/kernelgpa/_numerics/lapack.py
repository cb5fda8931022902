"""LAPACK and BLAS without the interpreter lock, so that several clouds are computed at a time.

The wrappers in ``scipy.linalg.lapack`` hold the lock while LAPACK computes.  SciPy exports pointers to the same
routines for Cython, and ctypes releases the lock during a call through them.  Matrices are in Fortran order
(contiguous columns); of symmetric and triangular matrices only the lower triangle is read and written.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import cython_blas, cython_lapack

from ..typing import BoolArray

Matrix = npt.NDArray[np.float64]

MIRRORED_BLOCK = 256  # rows and columns of a triangle that are mirrored at a time


def _routine(module: Any, name: str, arguments: int) -> Callable[..., None]:
    """The Fortran routine of the given name.  All its arguments are pointers."""
    capsule = module.__pyx_capi__[name]
    name_of, pointer_of = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * arguments)(pointer_of(capsule, name_of(capsule)))


_dpotrf = _routine(cython_lapack, "dpotrf", 5)
_dpotri = _routine(cython_lapack, "dpotri", 5)
_dpotrs = _routine(cython_lapack, "dpotrs", 8)
_dsyrk = _routine(cython_blas, "dsyrk", 10)
_dgemm = _routine(cython_blas, "dgemm", 13)
_dtrsm = _routine(cython_blas, "dtrsm", 11)


def factorise(matrix: Matrix) -> bool:
    """Overwrite A by L with A = L L'; False if A is not positive definite."""
    _require(matrix.shape == (len(matrix), len(matrix)), matrix)
    info = ctypes.c_int()
    _dpotrf(_char("L"), _int(len(matrix)), _data(matrix), _leading(matrix), ctypes.byref(info))
    return info.value == 0


def invert(lower: Matrix) -> bool:
    """Overwrite L by (L L')^-1; False if L has a zero on its diagonal."""
    _require(lower.shape == (len(lower), len(lower)), lower)
    info = ctypes.c_int()
    _dpotri(_char("L"), _int(len(lower)), _data(lower), _leading(lower), ctypes.byref(info))
    return info.value == 0


def solve(lower: Matrix, right: Matrix) -> Matrix:  # (s, s), (s, c) -> (s, c)
    """(L L')^-1 right, as a new array."""
    x = np.array(right, dtype=np.float64, order="F")
    _require(x.ndim == 2 and lower.shape == (len(x), len(x)), x, lower)
    info = ctypes.c_int()
    sizes = _int(len(lower)), _int(x.shape[1])
    _dpotrs(_char("L"), *sizes, _data(lower), _leading(lower), _data(x), _leading(x), ctypes.byref(info))
    return x


def add_square(c: Matrix, alpha: float, a: Matrix, beta: float = 1.0, transposed: bool = False) -> None:
    """Overwrite C by  beta C + alpha A A',  or by  beta C + alpha A'A  if transposed."""
    rows, inner = a.shape[::-1] if transposed else a.shape
    _require(c.shape == (rows, rows), c, a)
    letter, a, leading = _oriented(a, transposed)
    scales = _double(alpha), _double(beta)
    sizes = _int(rows), _int(inner)
    _dsyrk(_char("L"), _char(letter), *sizes, scales[0], _data(a), leading, scales[1], _data(c), _leading(c))


def factorise_stack(stack: Matrix, sizes: Sequence[int], right: Matrix) -> int | None:
    """Factorise the leading block of each matrix of a stack in place, and solve for its right-hand sides in place.

    ``stack`` (g, S, S) holds symmetric matrices A_i of sizes s_i <= S, of which the upper triangles are overwritten by
    U_i with A_i = U_i' U_i; ``right`` (g, r, S) holds their right-hand sides as rows.  Returns the index of the first
    matrix that is not positive definite, or None.
    """
    _require_stack(stack, sizes)
    _require_stack(right, sizes)
    _require(len(stack) == len(right) and stack.shape[2] == right.shape[2], right, stack)
    lower, leading, columns, info = _char("L"), _int(stack.shape[2]), _int(right.shape[1]), ctypes.c_int()
    for i, (matrix, rows, s) in enumerate(zip(_addresses(stack), _addresses(right), sizes, strict=True)):
        size = _int(s)
        _dpotrf(lower, size, matrix, leading, ctypes.byref(info))
        if info.value:
            return i
        _dpotrs(lower, size, columns, matrix, leading, rows, leading, ctypes.byref(info))
    return None


def invert_stack(stack: Matrix, sizes: Sequence[int]) -> int | None:
    """Overwrite the factors of :func:`factorise_stack` by the inverses of their matrices, both triangles.

    Returns the index of the first factor that cannot be inverted, or None.
    """
    _require_stack(stack, sizes)
    lower, leading, info = _char("L"), _int(stack.shape[2]), ctypes.c_int()
    for i, (matrix, s) in enumerate(zip(_addresses(stack), sizes, strict=True)):
        _dpotri(lower, _int(s), matrix, leading, ctypes.byref(info))
        if info.value:
            return i
    np.copyto(stack, np.swapaxes(stack, 1, 2), where=_below_diagonal(stack.shape[2]))
    return None


def _addresses(stack: Matrix) -> Iterator[Any]:
    """Where the matrices of a stack begin."""
    first = stack.ctypes.data
    return (ctypes.c_void_p(first + i * stack.strides[0]) for i in range(len(stack)))


def _require_stack(stack: Matrix, sizes: Sequence[int]) -> None:
    sound = stack.ndim == 3 and len(stack) == len(sizes) and stack.dtype == np.float64 and stack.flags.c_contiguous
    _require(sound and all(0 < s <= stack.shape[2] for s in sizes), stack)


def subtract_product(c: Matrix, a: Matrix, b: Matrix) -> None:
    """Overwrite C by  C - A B.  All entries of C are read and written."""
    _require(c.shape == (len(a), b.shape[1]) and a.shape[1] == len(b), c, a, b)
    letter_a, a, leading_a = _oriented(a)
    letter_b, b, leading_b = _oriented(b)
    inner = a.shape[1] if letter_a == "N" else a.shape[0]
    sizes = _int(c.shape[0]), _int(c.shape[1]), _int(inner)
    scales = _double(-1.0), _double(1.0)
    letters = _char(letter_a), _char(letter_b)
    _dgemm(*letters, *sizes, scales[0], _data(a), leading_a, _data(b), leading_b, scales[1], _data(c), _leading(c))


def divide_by_transposed(b: Matrix, lower: Matrix) -> None:
    """Overwrite B by  B L^-T."""
    _require(lower.shape == (b.shape[1], b.shape[1]), b, lower)
    sizes = _int(b.shape[0]), _int(b.shape[1])
    letters = (_char(letter) for letter in "RLTN")
    _dtrsm(*letters, *sizes, _double(1.0), _data(lower), _leading(lower), _data(b), _leading(b))


def fill_upper_triangle(matrix: Matrix) -> Matrix:
    """The same matrix with its lower triangle mirrored to the upper one, in place, in blocks that fit the cache."""
    for i in range(0, len(matrix), MIRRORED_BLOCK):
        here, below = slice(i, i + MIRRORED_BLOCK), slice(i + MIRRORED_BLOCK, None)
        corner = matrix[here, here]
        np.copyto(corner.T, corner, where=_below_diagonal(len(corner)))
        matrix[here, below] = matrix[below, here].T
    return matrix


@cache
def _below_diagonal(size: int) -> BoolArray:
    return np.tri(size, k=-1, dtype=bool)


def _oriented(a: Matrix, transposed: bool = False) -> tuple[str, Matrix, Any]:
    """How BLAS reads a matrix without a copy: as it is, or as the transpose of a matrix in C order."""
    if not _in_columns(a):
        a, transposed = np.ascontiguousarray(a).T, not transposed
    return ("T" if transposed else "N"), a, _leading(a)


def _data(matrix: Matrix) -> Any:
    return ctypes.c_void_p(matrix.ctypes.data)


def _leading(matrix: Matrix) -> Any:
    """The leading dimension: the distance between columns, counted in entries."""
    if not _in_columns(matrix):
        raise ValueError(f"a matrix of type {matrix.dtype} with strides {matrix.strides} is not in Fortran order")
    columns = matrix.strides[1] // matrix.itemsize if matrix.shape[1] > 1 else matrix.shape[0]
    return _int(max(columns, 1))


def _in_columns(matrix: Matrix) -> bool:
    """Whether the columns are contiguous and do not overlap."""
    rows, columns = matrix.shape
    if matrix.dtype != np.float64 or (rows > 1 and matrix.strides[0] != matrix.itemsize):
        return not matrix.size and matrix.dtype == np.float64
    return columns < 2 or matrix.strides[1] >= max(rows, 1) * matrix.itemsize


def _require(sound: bool, written: Matrix, *others: Matrix) -> None:
    """LAPACK does not check this: it writes beyond an array that is too small, and into one that is read-only."""
    if not sound:
        raise ValueError(f"shapes {[one.shape for one in (written, *others)]} do not belong together")
    if not written.flags.writeable:
        raise ValueError("a matrix that is to be overwritten is read-only")


def _int(value: int) -> Any:
    return ctypes.byref(ctypes.c_int(value))


def _double(value: float) -> Any:
    return ctypes.byref(ctypes.c_double(value))


def _char(letter: str) -> Any:
    return ctypes.c_char_p(letter.encode())

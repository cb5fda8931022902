"""Sparse distance matrices, and sparse factorisations with the diagonal of the inverse.

With P A P' = L D L', P chosen to reduce fill-in, the inverse Z = (L D L')^-1 is computed on the pattern of L only, from
the last column to the first.  With J some adjacent columns that have the same pattern R below themselves,

    X = L_RJ L_JJ^-1,     Z_RJ = -Z_RR X,     Z_JJ = (L_JJ D_J L_JJ')^-1 - X' Z_RJ,             (Takahashi)

and Z_RR is a part of the matrix that belongs to the parent of J, the first row of R.  Therefore the diagonal of the
inverse costs about as much as the factorisation, and no entry outside of the pattern is computed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, solve_triangular
from scipy.sparse import csc_array, csr_array, sparray
from scipy.sparse.linalg import SuperLU, splu
from scipy.spatial import cKDTree

from ..typing import Array, IndexArray

WIDEST_GROUP = 64  # columns that are computed together
COUNTED_POINTS = 200  # points whose neighbours are counted


def distances_within(x: Array, centres: Array, radius: float) -> csr_array:  # (k, s)
    """Distances of all pairs within the radius; distances of 0 are entries too.

    A point that is NaN, or outside of the box around the centres, has no entries.
    """
    low, high = centres.min(axis=0) - radius, centres.max(axis=0) + radius
    known = np.flatnonzero(((x >= low) & (x <= high)).all(axis=1))
    pairs = cKDTree(x[known]).sparse_distance_matrix(cKDTree(centres), radius, output_type="ndarray")
    return csr_array((pairs["v"], (known[pairs["i"]], pairs["j"])), shape=(len(x), len(centres)))


def count_within(points: Array, radius: float) -> float:
    """The number of points within the radius around a point, itself included: the mean over some of them."""
    some = points[np.linspace(0, len(points) - 1, min(COUNTED_POINTS, len(points))).astype(np.intp)]
    return float(np.mean(cKDTree(points).query_ball_point(some, radius, return_length=True)))


@dataclass(frozen=True)
class SparseFactor:
    """The factors L D L' of a sparse positive definite matrix."""

    lu: SuperLU

    def solve(self, x: Array) -> Array:  # (s, c) -> (s, c)
        return self.lu.solve(np.ascontiguousarray(x))

    def inverse_diagonal(self) -> Array:  # (s,)
        """The diagonal of A^-1."""
        L, pivots = self.lu.L.tocsc(), self.lu.U.diagonal()
        L.sort_indices()
        patterns = _closed_patterns(L)
        groups = _groups(patterns)
        blocks = _InverseBlocks(groups, patterns)
        diagonal = np.empty(len(pivots))
        for first, last in reversed(groups):
            own, below = np.arange(first, last), patterns[last - 1]
            L_JJ, L_RJ = _dense_columns(L, own, below)
            inverse = solve_triangular(L_JJ, np.eye(len(own)), lower=True, unit_diagonal=True)
            X = L_RJ @ inverse
            Z_RR = blocks.take(below)
            Z_RJ = -Z_RR @ X
            Z_JJ = inverse.T @ (inverse / pivots[own, None]) - X.T @ Z_RJ
            diagonal[own] = np.diag(Z_JJ)
            if blocks.has_children(first):
                blocks.store(first, np.concatenate([own, below]), np.block([[Z_JJ, Z_RJ.T], [Z_RJ, Z_RR]]))
        return diagonal[self.lu.perm_c]


class _InverseBlocks:
    """Z on the rows J and R of each group of columns, stored until the last child of the group has used it."""

    def __init__(self, groups: list[tuple[int, int]], patterns: list[IndexArray]) -> None:
        self._group_of = np.repeat([first for first, _ in groups], [last - first for first, last in groups])
        self._children = np.zeros(len(patterns), dtype=int)  # by the first column of a group
        self._blocks: dict[int, tuple[IndexArray, Array]] = {}
        for _, last in groups:
            if len(below := patterns[last - 1]):
                self._children[self._group_of[below[0]]] += 1

    def has_children(self, first: int) -> bool:
        return bool(self._children[first])

    def store(self, first: int, rows: IndexArray, Z: Array) -> None:
        self._blocks[first] = rows, Z

    def take(self, below: IndexArray) -> Array:  # (r,) -> (r, r)
        """Z_RR from the block of the parent group."""
        if not len(below):
            return np.zeros((0, 0))
        parent = int(self._group_of[below[0]])
        rows, Z = self._blocks[parent]
        self._children[parent] -= 1
        if not self._children[parent]:
            del self._blocks[parent]
        at = np.searchsorted(rows, below)
        return Z if len(at) == len(rows) else Z[np.ix_(at, at)]


def factorised(matrix: sparray) -> SparseFactor:
    """The factor of a symmetric positive definite matrix; LinAlgError if it is not so in double precision."""
    # pivots on the diagonal are safe for a positive definite matrix and keep the factors symmetric
    try:
        lu = splu(csc_array(matrix), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
    except RuntimeError as error:
        raise LinAlgError(str(error)) from None
    if not np.array_equal(lu.perm_r, lu.perm_c) or not np.all(lu.U.diagonal() > 0):
        raise LinAlgError("not positive definite")
    return SparseFactor(lu)


def _closed_patterns(L: csc_array) -> list[IndexArray]:
    """For each column the rows below the diagonal, including entries of the elimination that cancel to 0."""
    patterns: list[IndexArray] = [
        L.indices[L.indptr[j] : L.indptr[j + 1]][1:].astype(np.intp) for j in range(L.shape[1])
    ]
    for pattern in patterns:
        if len(pattern) > 1:
            parent, rest = pattern[0], pattern[1:]
            known = patterns[parent]
            if len(known) < len(rest) or not np.array_equal(known[np.searchsorted(known, rest) % len(known)], rest):
                patterns[parent] = np.union1d(known, rest)
    return patterns


def _groups(patterns: list[IndexArray]) -> list[tuple[int, int]]:
    """Ranges [first, last) of adjacent columns with the same pattern below themselves."""
    groups, first = [], 0
    for j in range(1, len(patterns) + 1):
        if j < len(patterns) and j - first < WIDEST_GROUP:
            before = patterns[j - 1]
            if len(before) == len(patterns[j]) + 1 and before[0] == j:
                continue
        groups.append((first, j))
        first = j
    return groups


def _dense_columns(L: csc_array, own: IndexArray, below: IndexArray) -> tuple[Array, Array]:
    """L_JJ and L_RJ."""
    rows = np.concatenate([own, below])
    columns = np.zeros((len(rows), len(own)))
    for c, j in enumerate(own):
        entries = slice(L.indptr[j], L.indptr[j + 1])
        columns[np.searchsorted(rows, L.indices[entries]), c] = L.data[entries]
    return columns[: len(own)], columns[len(own) :]

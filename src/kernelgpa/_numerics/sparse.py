"""Sparse matrices: who is near whom; and of symmetric positive definite ones, one factorisation for everything.

With P A P' = L D L' (P against fill) the inverse Z = (L D L')^-1 is wanted on the pattern of L alone.  Read from the
last column to the first, with J some columns of equal pattern R below themselves,

    X = L_RJ L_JJ^-1,     Z_RJ = -Z_RR X,     Z_JJ = (L_JJ D_J L_JJ')^-1 - X' Z_RJ,             (Takahashi)

and Z_RR is a part of what the parent of J, the first row of R, has handed down.  So the diagonal of the inverse costs
about as much as the factorisation, and no entry off the pattern is ever computed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, solve_triangular
from scipy.sparse import csc_array, csr_array, sparray
from scipy.sparse.linalg import SuperLU, splu
from scipy.spatial import cKDTree

from ..typing import Array, IndexArray

WIDEST = 64  # columns that are taken together
SAMPLE = 200  # points that tell how many others are near one


def distances_within(x: Array, centres: Array, radius: float) -> csr_array:  # (k, s)
    """Distances of the pairs that are not farther apart than the radius; those of 0 are entries too.

    A point that is NaN, or outside the box around the centres, is near nothing.
    """
    low, high = centres.min(axis=0) - radius, centres.max(axis=0) + radius
    known = np.flatnonzero(((x >= low) & (x <= high)).all(axis=1))
    near = cKDTree(x[known]).sparse_distance_matrix(cKDTree(centres), radius, output_type="ndarray")
    return csr_array((near["v"], (known[near["i"]], near["j"])), shape=(len(x), len(centres)))


def count_within(points: Array, radius: float) -> float:
    """How many points are within the radius of one, itself included: the mean over some of them."""
    some = points[np.linspace(0, len(points) - 1, min(SAMPLE, len(points))).astype(np.intp)]
    return float(np.mean(cKDTree(points).query_ball_point(some, radius, return_length=True)))


@dataclass(frozen=True)
class SparseFactor:
    """L D L' of a sparse positive definite matrix."""

    lu: SuperLU

    def solve(self, x: Array) -> Array:  # (s, c) -> (s, c)
        return self.lu.solve(np.ascontiguousarray(x))

    def inverse_diagonal(self) -> Array:  # (s,)
        """The diagonal of A^-1."""
        L, pivots = self.lu.L.tocsc(), self.lu.U.diagonal()
        L.sort_indices()
        patterns = _closed_patterns(L)
        diagonal = np.empty(len(pivots))
        handed: dict[int, tuple[IndexArray, Array]] = {}  # by first column of a group: its rows J + R, and Z there
        groups = _groups(patterns)
        group_of = np.repeat([first for first, _ in groups], [last - first for first, last in groups])
        children = np.zeros(len(pivots), dtype=int)
        for _, last in groups:
            below = patterns[last - 1]
            if len(below):
                children[group_of[below[0]]] += 1
        for first, last in reversed(groups):
            below, own = patterns[last - 1], np.arange(first, last)
            L_JJ, L_RJ = _dense_columns(L, own, below)
            Z_JJ = solve_triangular(L_JJ, np.eye(len(own)), lower=True, unit_diagonal=True)
            X = L_RJ @ Z_JJ
            Z_JJ = Z_JJ.T @ (Z_JJ / pivots[own, None])
            rows, Z = own, Z_JJ
            if len(below):
                parent = int(group_of[below[0]])
                rows_above, Z_above = handed[parent]
                children[parent] -= 1
                if not children[parent]:
                    del handed[parent]
                at = np.searchsorted(rows_above, below)
                Z_RR = Z_above if len(at) == len(rows_above) else Z_above[np.ix_(at, at)]
                Z_RJ = -Z_RR @ X
                Z_JJ -= X.T @ Z_RJ
                rows, Z = np.concatenate([own, below]), np.block([[Z_JJ, Z_RJ.T], [Z_RJ, Z_RR]])
            diagonal[own] = np.diag(Z_JJ)
            if children[first]:
                handed[first] = rows, Z
        return diagonal[self.lu.perm_c]


def factorised(matrix: sparray) -> SparseFactor:
    """Of a symmetric positive definite matrix; LinAlgError where it is not so in double precision."""
    # pivots on the diagonal, which is safe for a positive definite matrix and keeps it symmetric
    try:
        lu = splu(csc_array(matrix), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
    except RuntimeError as error:
        raise LinAlgError(str(error)) from None
    if not np.array_equal(lu.perm_r, lu.perm_c) or not np.all(lu.U.diagonal() > 0):
        raise LinAlgError("not positive definite")
    return SparseFactor(lu)


def _closed_patterns(L: csc_array) -> list[IndexArray]:
    """For each column the rows below the diagonal, with what elimination adds even where it cancels to 0."""
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
    """Columns side by side, first to before last, whose patterns differ only by themselves."""
    groups, first = [], 0
    for j in range(1, len(patterns) + 1):
        if j < len(patterns) and j - first < WIDEST:
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

"""Kernel warps in dual form, with one kernel at every point of the cloud.

With K the kernel matrix of the points of a cloud, A = K + mu W^-1, and T an orthonormal basis of the affine functions,

    H_t = A^-1 - A^-1 T (T' A^-1 T)^-1 T' A^-1,      Q_t = mu H_t       (theory, eq. 6)
    Omega_t = H_t Y,      c_t = (T' A^-1 T)^-1 T' A^-1 Y                (theory, eq. 7)

Q_t = mu H_t is Proposition 2 of the paper (H_t is positive semidefinite, not definite as printed).  Q_t T = 0, and Q_t
lies between 0 and the cost of affine warps (Proposition 1).  If the cloud is flat, T has fewer columns (Lemma 3).

A is either dense, and its inverse is stored, or sparse, and its factor is stored.  Small clouds of nearly equal size
are stacked: the same formulas, with one call for a whole stack instead of one call for each cloud.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, NamedTuple, cast

import numpy as np
from scipy.linalg import LinAlgError
from scipy.sparse import csr_array, diags_array
from scipy.spatial.distance import cdist

from .._numerics import lapack
from .._numerics.allocation import allocate
from .._numerics.sparse import factorised
from .._numerics.threads import parallel_map
from ..errors import NumericalFailure
from ..observations.cloud import Cloud
from ..observations.geometry import AffineBasis, orthonormal_affine, orthonormal_affine_stack
from ..typing import Array, IndexArray
from .gram import sparse_gram
from .protocols import RELATIVE_ROUNDING, PreparedCloud, ReducedCloud, SparseKernel
from .warp import KernelPart, Warp, fitted_warp

LARGEST_KEPT = 500  # points per cloud; to copy a larger kernel matrix costs more than to compute it again
LARGEST_WARP_ERROR = 1e-5  # error of a warp by rounding, relative to its cloud, that is still accepted
BATCH_COLUMNS = 500  # right-hand sides that are solved for at a time
LARGEST_STACKED = 300  # points; larger clouds are reduced one by one, because their calls are few and long
STACKED_ENTRIES = 1 << 17  # kernel values of one stack, 1 MB, which stay in the cache
STACKED_SHARE = 0.92  # of the points of the largest cloud of a stack that each of its clouds has at least
ROUNDING_MARGIN = 1e3  # times an observed rounding error: an upper bound of all of them


class AffinePart(NamedTuple):
    """How targets determine the affine part of the warp (theory, eq. 7)."""

    of_targets: Array  # (d + 1, s)
    variance: Array  # (d + 1, d + 1)


class DenseSolution(NamedTuple):
    """What the factorisation of one cloud leaves."""

    cost: Array  # (s, s)  Q_t
    affine: AffinePart
    affine_cost: float  # the largest entry of |Q_t T|, 0 but for rounding
    largest: float  # the largest entry of mu A^-1


class DualCloud(ABC):
    """A reduced cloud in dual form, however A^-1 is represented."""

    approximation_error: ClassVar[float] = 0.0
    _affine: AffinePart

    def __init__(self, cloud: Cloud, kernel_part: KernelPart, smoothing: float, weights: Array) -> None:
        self._cloud, self._kernel_part = cloud, kernel_part
        self._smoothing, self.weights = smoothing, weights

    def _require_accuracy(self, largest_cost: float) -> None:
        """Q_t T = 0 in exact arithmetic.  The warp adds what rounding makes of it, max |Q_t T|, to every point."""
        self._affine_cost = largest_cost
        error = self._affine_cost * np.sqrt(len(self.weights)) / self._smoothing
        if error > LARGEST_WARP_ERROR:
            raise NumericalFailure(
                f"cloud {self._cloud.name!r}: rounding causes an error of {error:.1g} of its size in its warp at "
                f"smoothing {self._smoothing:g}; raise smoothing or lower bandwidth"
            )

    def _rounding_of(self, largest: float) -> float:
        """Entries of Q_t below this are rounding errors; Q_t T = 0 shows how much rounding was amplified."""
        return max(RELATIVE_ROUNDING * largest, ROUNDING_MARGIN * self._affine_cost)

    @property
    def seen(self) -> IndexArray:
        return self._cloud.seen

    def low_rank_factor(self) -> None:
        return None

    @abstractmethod
    def apply(self, targets: Array) -> Array: ...

    def variance(self, points: Array) -> Array:
        batches = [points[first : first + BATCH_COLUMNS] for first in range(0, max(len(points), 1), BATCH_COLUMNS)]
        return np.concatenate([self._variance(batch) for batch in batches])

    def _variance(self, points: Array) -> Array:
        """Universal kriging (theory, eq. 18):  k(p,p) - k' H k + f' C f - 2 f' G k,  over mu."""
        unit = self._cloud.frame.to_unit(points)
        f = np.column_stack([unit, np.ones(len(unit))])
        k = self._kernel_part.gram(unit)
        prior = float(self._kernel_part.kernel.value(np.zeros(1))[0])
        affine = np.einsum("ki,ij,kj->k", f, self._affine.variance, f) - 2 * np.einsum(
            "kj,kj->k", f @ self._affine.of_targets, k
        )
        explained = np.einsum("ks,sk->k", k, self.apply(k.T)) / self._smoothing
        return np.maximum(prior + affine - explained, 0.0) / self._smoothing

    def fit_all(self, targets: Sequence[Array]) -> list[Warp]:
        side_by_side = np.hstack(targets)
        weights = np.split(self.apply(side_by_side) / self._smoothing, len(targets), axis=1)
        affine = np.split(self._affine.of_targets @ side_by_side, len(targets), axis=1)
        frame, part = self._cloud.frame, self._kernel_part
        return [fitted_warp(frame, c, replace(part, weights=w)) for c, w in zip(affine, weights, strict=True)]


class PreparedDense:
    """The kernel matrix of one cloud, which is kept if it is small and was requested more than once."""

    def __init__(self, cloud: Cloud, kernel_part: KernelPart) -> None:  # a kernel part without weights
        self.cloud, self.kernel_part = cloud, kernel_part
        self._requested = False
        self.kept: Array | None = None

    def gram(self) -> Array:  # (s, s), which the caller may overwrite
        """The kernel matrix."""
        if self.kept is None:
            K = self.kernel_part.gram(self.kernel_part.centres)
            self.keep(K)
            return K
        K = allocate(*self.kept.shape)
        K[:] = self.kept
        return K

    def keep(self, K: Array) -> None:  # (s, s)
        """Copy a kernel matrix that was computed: a second request means that a third is likely."""
        if self._requested and self.kept is None and len(K) <= LARGEST_KEPT:
            self.kept = K.copy()
        self._requested = True

    def reduce(self, smoothing: float, weights: Array) -> DenseCloud:
        return DenseCloud(self, smoothing, weights, self._solve(smoothing, smoothing / weights))

    def _solve(self, smoothing: float, ridge: Array) -> DenseSolution:
        centres = self.kernel_part.centres
        T = orthonormal_affine(centres, np.ones(len(centres)), self.cloud.frame.rank)
        lower = _factorise(self.gram(), ridge, self.cloud)
        G, affine = _affine_part(T, lapack.solve(lower, T.columns), self.cloud, ridge)
        inverse = _invert(lower, self.cloud)
        largest = smoothing * float(np.diagonal(inverse).max())
        lapack.add_square(inverse, -smoothing, G, beta=smoothing)
        Q = lapack.fill_upper_triangle(inverse).T
        return DenseSolution(Q, affine, float(np.abs(Q @ T.columns).max()), largest)


class DenseCloud(DualCloud):
    """One factorisation, one inverse, one matrix."""

    def __init__(self, prepared: PreparedDense, smoothing: float, weights: Array, solved: DenseSolution) -> None:
        super().__init__(prepared.cloud, prepared.kernel_part, smoothing, weights)
        self._Q, self._affine = solved.cost, solved.affine
        self._require_accuracy(solved.affine_cost)
        self.rounding = self._rounding_of(solved.largest)

    def cost_matrix(self) -> Array:
        return self._Q

    def sparse_kernel(self) -> None:
        return None

    def apply(self, targets: Array) -> Array:
        return np.asarray(self._Q @ targets)

    def diagonal(self) -> Array:
        return np.diagonal(self._Q)

    def rows(self, some: IndexArray) -> Array:
        return self._Q[some]


@dataclass(frozen=True)
class PreparedSparse:
    """The sparse kernel matrix of a cloud."""

    cloud: Cloud
    kernel_part: KernelPart  # without weights

    @cached_property
    def gram(self) -> csr_array:  # (s, s)
        part = self.kernel_part
        return sparse_gram(part.kernel, part.centres, part.centres, part.sigma)

    def reduce(self, smoothing: float, weights: Array) -> SparseCloud:
        return SparseCloud(self, smoothing, weights)


class SparseCloud(DualCloud):
    """One sparse factorisation; Q_t is never formed."""

    def __init__(self, prepared: PreparedSparse, smoothing: float, weights: Array) -> None:
        super().__init__(prepared.cloud, prepared.kernel_part, smoothing, weights)
        self._kernel = prepared.gram
        try:
            self._inverse = factorised(prepared.gram + diags_array(smoothing / weights))
        except LinAlgError:
            raise _not_positive_definite(prepared.cloud, smoothing / weights) from None
        T = orthonormal_affine(self._kernel_part.centres, np.ones(len(weights)), prepared.cloud.frame.rank)
        inverse_T = self._inverse.solve(T.columns)
        self._G, self._affine = _affine_part(T, inverse_T, prepared.cloud, smoothing / weights)
        self._require_accuracy(float(np.abs(self.apply(T.columns)).max()))

    @cached_property
    def rounding(self) -> float:
        return self._rounding_of(self._smoothing * float(self._inverse_diagonal.max()))

    @cached_property
    def _inverse_diagonal(self) -> Array:
        return self._inverse.inverse_diagonal()

    def sparse_kernel(self) -> SparseKernel:
        return SparseKernel(self._kernel, self._smoothing)

    def cost_matrix(self) -> Array:
        return self.rows(np.arange(len(self.weights)))

    def apply(self, targets: Array) -> Array:
        return self._smoothing * (self._inverse.solve(targets) - self._G @ (self._G.T @ targets))

    def diagonal(self) -> Array:
        return self._smoothing * (self._inverse_diagonal - np.einsum("sr,sr->s", self._G, self._G))

    def rows(self, some: IndexArray) -> Array:
        rows = np.empty((len(some), len(self.weights)))
        for first in range(0, len(some), BATCH_COLUMNS):
            batch = some[first : first + BATCH_COLUMNS]
            units = np.zeros((len(self.weights), len(batch)))
            units[batch, np.arange(len(batch))] = 1.0
            rows[first : first + BATCH_COLUMNS] = self.apply(units).T
        return rows


def reduce_clouds(
    prepared: Sequence[PreparedCloud],  # (n,)
    smoothing: Sequence[float],  # (n,)
    weights: Sequence[Array],  # (n,)
    n_jobs: int | None = None,
) -> list[ReducedCloud]:
    """Every cloud with its warp eliminated; small clouds with one kernel matrix each in stacks."""

    def reduce_stack(rows: Sequence[int]) -> list[ReducedCloud]:
        if len(rows) == 1:
            return [prepared[t].reduce(smoothing[t], weights[t]) for t in rows]
        dense = [cast(PreparedDense, prepared[t]) for t in rows]
        solved = _solve_stack(dense, [smoothing[t] for t in rows], [smoothing[t] / weights[t] for t in rows])
        return [DenseCloud(a, smoothing[t], weights[t], b) for t, a, b in zip(rows, dense, solved, strict=True)]

    stacks = _stacks(prepared)
    reduced = parallel_map(reduce_stack, stacks, n_jobs, "clouds")
    by_cloud = {t: one for rows, some in zip(stacks, reduced, strict=True) for t, one in zip(rows, some, strict=True)}
    return [by_cloud[t] for t in range(len(prepared))]


def _stacks(prepared: Sequence[PreparedCloud]) -> list[list[int]]:
    """The indices of the clouds of each stack.  Clouds of one stack differ little in size, and not in rank."""
    alone, sizes = list[list[int]](), dict[tuple[int, ...], list[int]]()
    for t, one in enumerate(prepared):
        if isinstance(one, PreparedDense) and len(one.cloud.seen) <= LARGEST_STACKED:
            sizes.setdefault((id(one.kernel_part.kernel), one.cloud.frame.rank), []).append(t)
        else:
            alone.append([t])
    stacks = alone
    for members in sizes.values():
        count = {t: len(prepared[t].cloud.seen) for t in members}  # type: ignore[attr-defined]
        stack, fewest, most = list[int](), 0.0, 0
        for t in sorted(members, key=lambda t: -count[t]):
            if not stack or count[t] < fewest or len(stack) == most:
                stack = [t]
                stacks.append(stack)
                fewest, most = STACKED_SHARE * count[t], max(1, STACKED_ENTRIES // count[t] ** 2)
            else:
                stack.append(t)
    return stacks


def _solve_stack(
    clouds: Sequence[PreparedDense], smoothing: Sequence[float], ridges: Sequence[Array]
) -> list[DenseSolution]:
    """The formulas of one cloud for a stack of clouds.  Arrays are filled with zeros behind a cloud's last point."""
    sizes = [len(ridge) for ridge in ridges]
    g, s, (rank, d) = len(clouds), max(sizes), (clouds[0].cloud.frame.rank, clouds[0].kernel_part.centres.shape[1])
    units, seen, ridge = np.zeros((g, s, d)), np.zeros((g, s)), np.zeros((g, s))
    for i, (one, size) in enumerate(zip(clouds, sizes, strict=True)):
        units[i, :size], seen[i, :size], ridge[i, :size] = one.kernel_part.centres, 1.0, ridges[i]
    A = _kernel_matrices(clouds, units, sizes)
    A.reshape(g, -1)[:, :: s + 1] += ridge
    T = orthonormal_affine_stack(units, seen, rank)
    rows = np.ascontiguousarray(np.swapaxes(T.columns, 1, 2))
    if (failed := lapack.factorise_stack(A, sizes, rows)) is not None:
        raise _not_positive_definite(clouds[failed].cloud, ridges[failed])
    G, affine = _affine_parts(T, np.swapaxes(rows, 1, 2))
    if (failed := lapack.invert_stack(A, sizes)) is not None:
        raise _not_invertible(clouds[failed].cloud)
    mu = np.array(smoothing)
    largest = mu * (A.reshape(g, -1)[:, :: s + 1] * seen).max(axis=1)
    A -= G @ np.swapaxes(G, 1, 2)
    A *= mu[:, None, None]
    costs = np.abs((A @ T.columns) * seen[:, :, None]).max(axis=(1, 2))
    return [
        DenseSolution(
            A[i, :k, :k],
            AffinePart(affine.of_targets[i, :, :k], affine.variance[i]),
            float(costs[i]),
            float(largest[i]),
        )
        for i, k in enumerate(sizes)
    ]


def _kernel_matrices(clouds: Sequence[PreparedDense], units: Array, sizes: Sequence[int]) -> Array:  # (g, s, s)
    """The kernel matrices of a stack of clouds; ``units`` (g, s, d) are their points."""
    if any(one.kept is None for one in clouds):
        u = units / np.array([one.kernel_part.sigma for one in clouds])[:, None, None]
        K = _squared_distances(u)
        clouds[0].kernel_part.kernel.replace_squares(K.reshape(-1, K.shape[2]))
        for one, size, matrix in zip(clouds, sizes, K, strict=True):
            one.keep(matrix[:size, :size])
        return K
    K = np.zeros((len(clouds), units.shape[1], units.shape[1]))
    for one, size, matrix in zip(clouds, sizes, K, strict=True):
        matrix[:size, :size] = one.kept
    return K


def _squared_distances(u: Array) -> Array:  # (g, s, d) -> (g, s, s)
    squares = np.empty((len(u), u.shape[1], u.shape[1]))
    for points, matrix in zip(u, squares, strict=True):
        cdist(points, points, "sqeuclidean", out=matrix)
    return squares


def _affine_parts(T: AffineBasis, inverse_T: Array) -> tuple[Array, AffinePart]:
    """G with H = A^-1 - G G', and the affine part, of one cloud (A^-1 T of shape (s, r)) or of a stack of clouds."""
    root = np.linalg.cholesky(np.linalg.inv(np.swapaxes(T.columns, -1, -2) @ inverse_T))
    G, to_affine = inverse_T @ root, T.coefficients @ root
    return G, AffinePart(to_affine @ np.swapaxes(G, -1, -2), to_affine @ np.swapaxes(to_affine, -1, -2))


def _affine_part(T: AffineBasis, inverse_T: Array, cloud: Cloud, ridge: Array) -> tuple[Array, AffinePart]:
    try:
        return _affine_parts(T, inverse_T)
    except LinAlgError:
        raise _not_positive_definite(cloud, ridge) from None


def _factorise(K: Array, ridge: Array, cloud: Cloud) -> Array:
    """Overwrite K by L with K + diag(ridge) = L L'; the entries above the diagonal are not cleared."""
    matrix = K.T  # K is symmetric, and its transpose is in the order of LAPACK
    matrix[np.diag_indices_from(matrix)] += ridge
    if not lapack.factorise(matrix):
        raise _not_positive_definite(cloud, ridge)
    return matrix


def _invert(lower: Array, cloud: Cloud) -> Array:
    """Overwrite L by the lower triangle of (L L')^-1."""
    if not lapack.invert(lower):
        raise _not_invertible(cloud)
    return lower


def _not_invertible(cloud: Cloud) -> NumericalFailure:
    return NumericalFailure(f"cloud {cloud.name!r}: its kernel matrix cannot be inverted; raise smoothing")


def _not_positive_definite(cloud: Cloud, ridge: Array) -> NumericalFailure:
    return NumericalFailure(
        f"cloud {cloud.name!r}: the kernel matrix plus the smoothing {ridge.min():.3g} is not positive "
        "definite in double precision; raise smoothing or lower bandwidth"
    )

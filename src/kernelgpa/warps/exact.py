"""Kernel warps in dual form, with one kernel at every point of the cloud.

With K the kernel matrix of the points of a cloud, A = K + mu W^-1, and T an orthonormal basis of the affine functions,

    H_t = A^-1 - A^-1 T (T' A^-1 T)^-1 T' A^-1,      Q_t = mu H_t       (theory, eq. 6)
    Omega_t = H_t Y,      c_t = (T' A^-1 T)^-1 T' A^-1 Y                (theory, eq. 7)

Q_t = mu H_t is Proposition 2 of the paper (H_t is positive semidefinite, not definite as printed).  Q_t T = 0, and Q_t
lies between 0 and the cost of affine warps (Proposition 1).  If the cloud is flat, T has fewer columns (Lemma 3).

A is either dense, and its inverse is stored, or sparse, and its factor is stored.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from scipy.linalg import LinAlgError
from scipy.sparse import csr_array, diags_array

from .._numerics import lapack
from .._numerics.allocation import allocate
from .._numerics.sparse import factorised
from ..errors import NumericalFailure
from ..observations.cloud import Cloud
from ..observations.geometry import orthonormal_affine
from ..typing import Array, IndexArray
from .gram import sparse_gram
from .protocols import RELATIVE_ROUNDING, SparseKernel
from .warp import KernelPart, Warp, fitted_warp

LARGEST_KEPT = 500  # points per cloud; to copy a larger kernel matrix costs more than to compute it again
LARGEST_WARP_ERROR = 1e-5  # error of a warp by rounding, relative to its cloud, that is still accepted
BATCH_COLUMNS = 500  # right-hand sides that are solved for at a time
ROUNDING_MARGIN = 1e3  # times an observed rounding error: an upper bound of all of them


class DualCloud(ABC):
    """A reduced cloud in dual form, however A^-1 is represented."""

    approximation_error: ClassVar[float] = 0.0

    def __init__(self, cloud: Cloud, kernel_part: KernelPart, smoothing: float, weights: Array) -> None:
        self._cloud, self._kernel_part = cloud, kernel_part
        self._smoothing, self.weights = smoothing, weights
        self._T = orthonormal_affine(kernel_part.centres, np.ones(len(weights)), cloud.frame.rank)

    def _prepare_affine(self, inverse_T: Array) -> Array:  # A^-1 T (s, r) -> (s, r)
        """Store what determines the affine part of the warp; return G with H = A^-1 - G G'."""
        T = self._T
        try:
            root = np.linalg.cholesky(np.linalg.inv(T.columns.T @ inverse_T))
        except LinAlgError:
            raise _not_positive_definite(self._cloud, self._smoothing / self.weights) from None
        self._to_affine = T.coefficients @ root @ (inverse_T @ root).T  # (d + 1, s)
        self._affine_variance = T.coefficients @ root @ root.T @ T.coefficients.T  # (d + 1, d + 1)
        return np.asarray(inverse_T @ root)

    def _require_accuracy(self) -> None:
        """Q_t T = 0 in exact arithmetic.  The warp adds what rounding makes of it to every point."""
        self._affine_cost = float(np.abs(self.apply(self._T.columns)).max())
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
        affine = np.einsum("ki,ij,kj->k", f, self._affine_variance, f) - 2 * np.einsum(
            "kj,kj->k", f @ self._to_affine, k
        )
        explained = np.einsum("ks,sk->k", k, self.apply(k.T)) / self._smoothing
        return np.maximum(prior + affine - explained, 0.0) / self._smoothing

    def fit_all(self, targets: Sequence[Array]) -> list[Warp]:
        side_by_side = np.hstack(targets)
        weights = np.split(self.apply(side_by_side) / self._smoothing, len(targets), axis=1)
        affine = np.split(self._to_affine @ side_by_side, len(targets), axis=1)
        frame, part = self._cloud.frame, self._kernel_part
        return [fitted_warp(frame, c, replace(part, weights=w)) for c, w in zip(affine, weights, strict=True)]


class PreparedDense:
    """The kernel matrix of one cloud, which is kept if it is small and was requested more than once."""

    def __init__(self, cloud: Cloud, kernel_part: KernelPart) -> None:  # a kernel part without weights
        self.cloud, self.kernel_part = cloud, kernel_part
        self._requested = False
        self._kept: Array | None = None

    def gram(self) -> Array:  # (s, s), which the caller may overwrite
        """The kernel matrix.  A second request means that a third is likely, therefore it is kept from then on."""
        if len(self.cloud.seen) > LARGEST_KEPT or not self._requested:
            self._requested = True
            return self.kernel_part.gram(self.kernel_part.centres)
        if self._kept is None:
            self._kept = self.kernel_part.gram(self.kernel_part.centres)
        K = allocate(*self._kept.shape)
        K[:] = self._kept
        return K

    def reduce(self, smoothing: float, weights: Array) -> DenseCloud:
        return DenseCloud(self, smoothing, weights)


class DenseCloud(DualCloud):
    """One factorisation, one inverse, one matrix."""

    def __init__(self, prepared: PreparedDense, smoothing: float, weights: Array) -> None:
        super().__init__(prepared.cloud, prepared.kernel_part, smoothing, weights)
        lower = _factorise(prepared.gram(), smoothing / weights, prepared.cloud)
        G = self._prepare_affine(lapack.solve(lower, self._T.columns))
        inverse = _invert(lower, prepared.cloud)
        largest = smoothing * float(np.diagonal(inverse).max())
        lapack.add_square(inverse, -smoothing, G, beta=smoothing)
        self._Q = lapack.fill_upper_triangle(inverse).T  # (s, s), mu H_t
        self._require_accuracy()
        self.rounding = self._rounding_of(largest)

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
        self._G = self._prepare_affine(self._inverse.solve(self._T.columns))
        self._require_accuracy()

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
        raise NumericalFailure(f"cloud {cloud.name!r}: its kernel matrix cannot be inverted; raise smoothing")
    return lower


def _not_positive_definite(cloud: Cloud, ridge: Array) -> NumericalFailure:
    return NumericalFailure(
        f"cloud {cloud.name!r}: the kernel matrix plus the smoothing {ridge.min():.3g} is not positive "
        "definite in double precision; raise smoothing or lower bandwidth"
    )

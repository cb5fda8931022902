"""Kernel warps in dual form: centres at all points of the cloud.

With K the kernel between the points of a cloud, A = K + mu W^-1 and T an orthonormal basis of the
affine functions,

    H_t = A^-1 - A^-1 T (T' A^-1 T)^-1 T' A^-1,      Q_t = mu H_t       (theory, eq. 6)
    Omega_t = H_t Y,      c_t = (T' A^-1 T)^-1 T' A^-1 Y                (theory, eq. 7)

A is dense, and its inverse is kept; or sparse, where a kernel reaches only few points, and its factor is kept.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from scipy.linalg import LinAlgError
from scipy.sparse import csr_array, diags_array

from .._numerics import lapack
from .._numerics.allocation import allocate, made_symmetric
from .._numerics.sparse import factorised
from ..errors import NumericalFailure
from ..observations.cloud import Cloud
from ..observations.geometry import orthonormal_affine
from ..typing import Array, IndexArray
from .kernels import gram, sparse_gram
from .protocols import RELATIVE_ROUNDING, SparseKernel
from .warp import KernelPart, Warp, fitted_warp

LARGEST_KEPT = 500  # points per cloud; to copy a larger kernel matrix costs more than to compute it again
LOST = 1e-5  # error of a warp, as a share of its cloud, that is too much
ROWS = 500  # of Q_t, or points, at a time
SAFELY = 1e3  # times a sample of rounding errors that none of them reaches


class DualCloud(ABC):
    """A reduced cloud in dual form, whatever A is kept as."""

    approximation_error: ClassVar[float] = 0.0

    def __init__(self, cloud: Cloud, kernel_part: KernelPart, smoothing: float, weights: Array) -> None:
        self._cloud, self._kernel_part = cloud, kernel_part
        self._smoothing, self.weights = smoothing, weights
        self._T = orthonormal_affine(kernel_part.centres, np.ones(len(weights)), cloud.frame.rank)

    def _settle_affine(self, inverse_T: Array) -> Array:  # A^-1 T (s, r) -> (s, r)
        """The affine part of the warp; returned is G with H = A^-1 - G G'."""
        T = self._T
        try:
            root = np.linalg.cholesky(np.linalg.inv(T.columns.T @ inverse_T))
        except LinAlgError:
            raise _indefinite(self._cloud, self._smoothing / self.weights) from None
        self._to_affine = T.coefficients @ root @ (inverse_T @ root).T  # (d + 1, s)
        self._affine_variance = T.coefficients @ root @ root.T @ T.coefficients.T  # (d + 1, d + 1)
        return np.asarray(inverse_T @ root)

    def _require_exact(self) -> None:
        """H annihilates affine functions; what rounding leaves of them, the warp adds to every point."""
        self._left = float(np.abs(self.apply(self._T.columns)).max())
        lost = self._left * np.sqrt(len(self.weights)) / self._smoothing
        if lost > LOST:
            raise NumericalFailure(
                f"cloud {self._cloud.name!r}: rounding leaves an error of {lost:.1g} in its warp at smoothing "
                f"{self._smoothing:g}; raise smoothing or lower bandwidth"
            )

    def _rounding_of(self, largest: float) -> float:
        """Below this an entry of Q_t is rounding: what is left of Q_t T = 0 shows how much A^-1 was amplified."""
        return max(RELATIVE_ROUNDING * largest, SAFELY * self._left)

    @property
    def seen(self) -> IndexArray:
        return self._cloud.seen

    def low_rank_factor(self) -> None:
        return None

    @abstractmethod
    def apply(self, targets: Array) -> Array: ...

    def variance(self, points: Array) -> Array:
        parts = [points[first : first + ROWS] for first in range(0, max(len(points), 1), ROWS)]
        return np.concatenate([self._variance(part) for part in parts])

    def _variance(self, points: Array) -> Array:
        """Universal kriging (theory, eq. 18):  k(p,p) - k' H k + f' C f - 2 f' G k,  over mu."""
        kernel, centres, sigma, _ = self._kernel_part
        unit = self._cloud.frame.to_unit(points)
        f = np.column_stack([unit, np.ones(len(unit))])
        k = gram(kernel, unit, centres, sigma)
        prior = float(kernel.value(np.zeros(1))[0])
        affine = np.einsum("ki,ij,kj->k", f, self._affine_variance, f) - 2 * np.einsum(
            "kj,kj->k", f @ self._to_affine, k
        )
        known = np.einsum("ks,sk->k", k, self.apply(k.T)) / self._smoothing
        return np.maximum(prior + affine - known, 0.0) / self._smoothing

    def fit_all(self, targets: Sequence[Array]) -> list[Warp]:
        side_by_side = np.hstack(targets)
        weights = np.split(self.apply(side_by_side) / self._smoothing, len(targets), axis=1)
        affine = np.split(self._to_affine @ side_by_side, len(targets), axis=1)
        frame, part = self._cloud.frame, self._kernel_part
        return [fitted_warp(frame, c, part._replace(weights=w)) for c, w in zip(affine, weights, strict=True)]


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
            return self._computed()
        if self._kept is None:
            self._kept = self._computed()
        K = allocate(*self._kept.shape)
        K[:] = self._kept
        return K

    def _computed(self) -> Array:
        kernel, unit, sigma, _ = self.kernel_part
        return gram(kernel, unit, unit, sigma)

    def reduce(self, smoothing: float, weights: Array) -> DenseCloud:
        return DenseCloud(self, smoothing, weights)


class DenseCloud(DualCloud):
    """One factorisation, one inverse, one matrix."""

    def __init__(self, prepared: PreparedDense, smoothing: float, weights: Array) -> None:
        super().__init__(prepared.cloud, prepared.kernel_part, smoothing, weights)
        lower = _factorise(prepared.gram(), smoothing / weights, prepared.cloud)
        G = self._settle_affine(lapack.solve(lower, self._T.columns))
        inverse = _inverse(lower, prepared.cloud)
        largest = smoothing * float(np.diagonal(inverse).max())
        lapack.add_square(inverse, -smoothing, G, beta=smoothing)
        self._form = made_symmetric(inverse).T  # (s, s), Q_t = mu H_t
        self._require_exact()
        self.rounding = self._rounding_of(largest)

    def cost_matrix(self) -> Array:
        return self._form

    def sparse_kernel(self) -> None:
        return None

    def apply(self, targets: Array) -> Array:
        return np.asarray(self._form @ targets)

    def diagonal(self) -> Array:
        return np.diagonal(self._form)

    def rows(self, some: IndexArray) -> Array:
        return self._form[some]


@dataclass(frozen=True)
class PreparedSparse:
    """The sparse kernel matrix of a cloud."""

    cloud: Cloud
    kernel_part: KernelPart  # without weights

    @cached_property
    def gram(self) -> csr_array:  # (s, s)
        kernel, unit, sigma, _ = self.kernel_part
        return sparse_gram(kernel, unit, unit, sigma)

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
            raise _indefinite(prepared.cloud, smoothing / weights) from None
        self._G = self._settle_affine(self._inverse.solve(self._T.columns))
        self._require_exact()

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
        for first in range(0, len(some), ROWS):
            part = some[first : first + ROWS]
            units = np.zeros((len(self.weights), len(part)))
            units[part, np.arange(len(part))] = 1.0
            rows[first : first + ROWS] = self.apply(units).T
        return rows


def _factorise(K: Array, ridge: Array, cloud: Cloud) -> Array:
    """L of K + diag(ridge) = L L', in place of K; what lies above the diagonal is not cleared."""
    matrix = K.T  # K is symmetric, and its transpose is in the order of LAPACK
    matrix[np.diag_indices_from(matrix)] += ridge
    if not lapack.factorise(matrix):
        raise _indefinite(cloud, ridge)
    return matrix


def _indefinite(cloud: Cloud, ridge: Array) -> NumericalFailure:
    return NumericalFailure(
        f"cloud {cloud.name!r}: the kernel matrix plus the smoothing {ridge.min():.3g} is not positive "
        "definite in double precision; raise smoothing or lower bandwidth"
    )


def _inverse(lower: Array, cloud: Cloud) -> Array:
    """The lower triangle of (L L')^-1, in place of L."""
    if not lapack.invert(lower):
        raise NumericalFailure(f"cloud {cloud.name!r}: its kernel matrix cannot be inverted; raise smoothing")
    return lower

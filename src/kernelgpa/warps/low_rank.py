"""Warps with few features: affine, thin-plate splines, kernels at inducing points.

With T the affine functions, at no cost, and features Phi whose coefficients xi cost mu |xi|^2,

    min |W^(1/2) (Y - T c - Phi xi)|^2 + mu |xi|^2 .                    (theory, eq. 8)

Let T be orthonormal after weighting, F = W^(1/2) Phi minus its projection on T, and F'F + mu I = L L'.  Then with
B = [T, F L^-T]

    Q_t = W - W^(1/2) B B' W^(1/2),    xi = L^-T L^-1 F' W^(1/2) Y.     (theory, eq. 9)

These are the linear basis warps of the paper (Definition 2, appendix M).  Any kernel enters by features k(u, Z) N that
are orthonormal in its energy: N'K N = I with K the kernel matrix of the centres Z.  If the kernel is only conditionally
positive definite, N also annihilates affine functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh, solve_triangular

from .._numerics import lapack
from .._numerics.allocation import allocate
from .._numerics.threads import parallel_map
from ..errors import NumericalFailure
from ..observations.cloud import Cloud
from ..observations.geometry import orthonormal_affine
from ..typing import Array, IndexArray
from .gram import DEFAULT_SPARSE_LIMITS, SparseLimits, gram
from .kernels import Kernel
from .protocols import RELATIVE_ROUNDING, LowRankFactor
from .warp import KernelPart, Warp, fitted_warp

BATCH_POINTS = 2000  # points whose features are computed at a time
DEPENDENT_CENTRES = 1e-10  # singular values of [Z, 1] below this share of the largest count as 0


@dataclass(frozen=True)
class Features:
    """Phi(u) = k(u, centres) mixing, each column of unit energy."""

    kernel: Kernel
    centres: Array  # (l, d), unit frame
    sigma: float
    mixing: Array  # (l, q)
    sparse_limits: SparseLimits = DEFAULT_SPARSE_LIMITS

    @property
    def count(self) -> int:
        return int(self.mixing.shape[1])

    def __call__(self, unit: Array) -> Array:  # (k, d) -> (k, q)
        return gram(self.kernel, unit, self.centres, self.sigma) @ self.mixing

    def kernel_part(self, xi: Array) -> KernelPart:  # (q, d)
        """The kernel part of a warp with the coefficients xi."""
        return KernelPart(self.kernel, self.centres, self.sigma, self.mixing @ xi, self.sparse_limits)


def energy_features(
    kernel: Kernel,
    centres: Array,  # (l, d), unit frame
    sigma: float,
    sparse_limits: SparseLimits = DEFAULT_SPARSE_LIMITS,
) -> Features:
    """Features of unit energy at the centres, which annihilate affine functions if the kernel requires it."""
    space = _annihilating_affine(centres) if kernel.order else np.eye(len(centres))
    energies, vectors = eigh(space.T @ gram(kernel, centres, centres, sigma) @ space)
    # directions with an energy below rounding add nothing to the others
    kept = energies > len(centres) * np.finfo(np.float64).eps * energies.max(initial=0.0)
    return Features(kernel, centres, sigma, space @ (vectors[:, kept] / np.sqrt(energies[kept])), sparse_limits)


def _annihilating_affine(centres: Array) -> Array:  # (l, d) -> (l, l - rank - 1)
    left, spread, _ = np.linalg.svd(np.column_stack([centres, np.ones(len(centres))]))
    rank = int(np.sum(spread > DEPENDENT_CENTRES * spread[0]))
    return left[:, rank:]


class PreparedLowRank:
    """The features of one cloud."""

    def __init__(self, cloud: Cloud, features: Features | None, smoothing_factor: float = 1.0) -> None:
        self.cloud, self.features = cloud, features
        self.smoothing_factor = smoothing_factor  # times ``smoothing``: the penalty mu of features of unit energy
        self.unit = cloud.frame.to_unit(cloud.points)

    @property
    def width(self) -> int:
        return 0 if self.features is None else self.features.count

    def fill(self, values: Array) -> None:  # (s, q)
        """Write the features at the points of the cloud."""
        if (features := self.features) is None:
            return

        def fill_rows(rows: slice) -> None:
            values[rows] = features(self.unit[rows])

        parallel_map(fill_rows, [slice(first, first + BATCH_POINTS) for first in range(0, len(values), BATCH_POINTS)])

    def approximation_error(self, values: Array) -> float:  # (s, q)
        """Root mean square of P, P^2 = k(u, u) - |Phi(u)|^2: the distance of a function of unit energy."""
        if self.features is None or self.features.kernel.order:  # nothing is approximated: the features are the family
            return 0.0
        prior = float(self.features.kernel.value(np.zeros(1))[0])
        return float(np.sqrt(np.mean(np.maximum(prior - np.einsum("sq,sq->s", values, values), 0.0))))

    def reduce(self, smoothing: float, weights: Array) -> LowRankCloud:
        return LowRankCloud(self, smoothing * self.smoothing_factor, weights)


class LowRankCloud:
    """A reduced cloud with few features.  It stores one matrix with a row per point, W^(1/2) B."""

    def __init__(self, prepared: PreparedLowRank, penalty: float, weights: Array) -> None:
        self._cloud, self._features, self.weights = prepared.cloud, prepared.features, weights
        self.rounding = RELATIVE_ROUNDING * float(weights.max())
        affine = orthonormal_affine(prepared.unit, weights, prepared.cloud.frame.rank)
        self._affine = affine.coefficients
        self._rank = affine.columns.shape[1]
        # transposed, because LAPACK works in place on matrices in Fortran order
        self._basis = allocate(self._rank + prepared.width, len(weights)).T
        T, F = self._basis[:, : self._rank], self._basis[:, self._rank :]
        T[:] = affine.columns
        prepared.fill(F)
        self.approximation_error = prepared.approximation_error(F)
        root = np.sqrt(weights)[:, None]
        if np.any(root != 1):
            F *= root
        self._overlap = T.T @ F  # (r, q), T' W^(1/2) Phi
        self._lower = np.zeros((0, 0))
        if prepared.width:
            self._lower = self._orthonormalise(T, F, penalty)
        if np.any(root != 1):
            self._basis *= root

    def _orthonormalise(self, T: Array, F: Array, penalty: float) -> Array:  # (q, q)
        """Subtract from F its projection on T, then overwrite it by F L^-T; return L."""
        lapack.subtract_product(F, T, self._overlap)
        lapack.subtract_product(F, T, T.T @ F)  # twice, so that Q_t 1 = 0 to the last digit
        normal = np.asfortranarray(penalty * np.eye(F.shape[1]))
        lapack.add_square(normal, 1.0, F, transposed=True)
        if not lapack.factorise(normal):
            raise NumericalFailure(
                f"cloud {self._cloud.name!r}: its features are not independent in double precision at this smoothing; "
                "raise smoothing, or use fewer control or inducing points"
            )
        lower = np.asfortranarray(np.tril(normal))
        lapack.divide_by_transposed(F, lower)
        return lower

    @property
    def seen(self) -> IndexArray:
        return self._cloud.seen

    def low_rank_factor(self) -> LowRankFactor:
        return LowRankFactor(self.weights, self._basis)

    def sparse_kernel(self) -> None:
        return None

    def cost_matrix(self) -> Array:
        return np.diag(self.weights) - self._basis @ self._basis.T

    def apply(self, targets: Array) -> Array:
        return self.weights[:, None] * targets - self._basis @ (self._basis.T @ targets)

    def diagonal(self) -> Array:
        return self.weights - np.einsum("sq,sq->s", self._basis, self._basis)

    def rows(self, some: IndexArray) -> Array:
        rows = -self._basis[some] @ self._basis.T
        rows[np.arange(len(some)), some] += self.weights[some]
        return rows

    def fit_all(self, targets: Sequence[Array]) -> list[Warp]:
        coordinates = self._basis.T @ np.hstack(targets)  # in the orthonormal T, then in the features
        affine = coordinates[: self._rank]
        parts: list[KernelPart | None] = [None] * len(targets)
        if self._features is not None:
            xi = solve_triangular(self._lower, coordinates[self._rank :], lower=True, trans="T")
            affine = affine - self._overlap @ xi
            parts = [self._features.kernel_part(one) for one in np.split(xi, len(targets), axis=1)]
        coefficients = np.split(self._affine @ affine, len(targets), axis=1)
        return [fitted_warp(self._cloud.frame, one, part) for one, part in zip(coefficients, parts, strict=True)]

    def variance(self, points: Array) -> Array:
        """|t|^2 + |L^-1 g|^2 with g = phi - Phi'T t  (theory, eq. 18)."""
        unit = self._cloud.frame.to_unit(points)
        t = np.column_stack([unit, np.ones(len(unit))]) @ self._affine
        variance = np.sum(t**2, axis=1)
        if self._features is not None:
            g = self._features(unit) - t @ self._overlap
            variance += np.sum(solve_triangular(self._lower, g.T, lower=True) ** 2, axis=0)
        return variance

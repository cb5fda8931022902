"""Warps with few features: affine, thin-plate splines, kernels at inducing points.

With T the affine functions, free of charge, and features Phi whose coefficients xi cost mu |xi|^2,

    min |W^(1/2) (Y - T c - Phi xi)|^2 + mu |xi|^2 .                    (theory, eq. 8)

Let T be orthonormal after weighting, F = W^(1/2) Phi with its projection on T taken out, and
F'F + mu I = L L'.  Then with B = [T, F L^-T]

    Q_t = W - W^(1/2) B B' W^(1/2),    xi = L^-T L^-1 F' W^(1/2) Y.     (theory, eq. 9)

Any kernel enters by features k(u, Z) N that are orthonormal in its energy: N'K N = I with K the
kernel between the centres; for a kernel that is positive only against affine functions N also
annihilates those.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh, solve_triangular

from .._numerics import lapack
from .._numerics.allocation import allocate
from .._numerics.threads import parallel_map
from ..errors import NumericalFailure
from ..observations.cloud import Cloud
from ..observations.geometry import orthonormal_affine
from ..typing import Array, IndexArray
from .kernels import Kernel, gram
from .protocols import RELATIVE_ROUNDING, LowRankFactor
from .warp import KernelPart, Warp, fitted_warp

ROWS = 2000  # points at a time whose features are computed


class Features(NamedTuple):
    """Phi(u) = k(u, centres) mix, each column of unit energy."""

    kernel: Kernel
    centres: Array  # (l, d), unit frame
    sigma: float
    mix: Array  # (l, q)


def energy_features(kernel: Kernel, centres: Array, sigma: float) -> Features:
    """Features of unit energy at the centres, free of affine functions where the kernel needs it."""
    space = _annihilating_affine(centres) if kernel.against else np.eye(len(centres))
    energies, vectors = eigh(space.T @ gram(kernel, centres, centres, sigma) @ space)
    # directions below rounding carry nothing that the others do not
    kept = energies > len(centres) * np.finfo(np.float64).eps * energies.max(initial=0.0)
    return Features(kernel, centres, sigma, space @ (vectors[:, kept] / np.sqrt(energies[kept])))


def _annihilating_affine(centres: Array) -> Array:  # (l, d) -> (l, l - rank - 1)
    left, spread, _ = np.linalg.svd(np.column_stack([centres, np.ones(len(centres))]))
    rank = int(np.sum(spread > 1e-10 * spread[0]))
    return left[:, rank:]


def _factorise(normal: Array, cloud: Cloud) -> Array:
    if not lapack.factorise(normal):
        raise NumericalFailure(
            f"cloud {cloud.name!r}: its features are not independent in double precision at this smoothing; "
            "raise smoothing, or use fewer control or inducing points"
        )
    return np.asfortranarray(np.tril(normal))


class PreparedThin:
    """The features of a cloud."""

    def __init__(self, cloud: Cloud, features: Features | None, to_unit_energy: float = 1.0) -> None:
        self.cloud, self.features = cloud, features
        self.to_unit_energy = to_unit_energy  # what ``smoothing`` is multiplied by
        self.unit = cloud.frame.to_unit(cloud.points)

    @property
    def width(self) -> int:
        return 0 if self.features is None else self.features.mix.shape[1]

    def values(self, out: Array) -> None:
        """The features at the points of the cloud, (s, q), in Fortran order."""
        if self.features is not None:
            kernel, centres, sigma, mix = self.features

            def fill(rows: slice) -> None:
                out[rows] = gram(kernel, self.unit[rows], centres, sigma) @ mix

            parallel_map(fill, [slice(first, first + ROWS) for first in range(0, len(out), ROWS)])

    def approximation_error(self, values: Array) -> float:  # (s, q)
        """Root mean square of P, P^2 = k(u, u) - |Phi(u)|^2: how far unit energy may lie from all that they reach."""
        if self.features is None or self.features.kernel.against:  # where the features are the family itself
            return 0.0
        prior = float(self.features.kernel.value(np.zeros(1))[0])
        return float(np.sqrt(np.mean(np.maximum(prior - np.einsum("sq,sq->s", values, values), 0.0))))

    def reduce(self, smoothing: float, weights: Array) -> ThinCloud:
        return ThinCloud(self, smoothing * self.to_unit_energy, weights)


class ThinCloud:
    """A reduced cloud in thin form.  It keeps one matrix as tall as the cloud, W^(1/2) B."""

    def __init__(self, prepared: PreparedThin, penalty: float, weights: Array) -> None:
        self._cloud, self._features, self.weights = prepared.cloud, prepared.features, weights
        self.rounding = RELATIVE_ROUNDING * float(weights.max())
        root = np.sqrt(weights)[:, None]
        affine = orthonormal_affine(prepared.unit, weights, prepared.cloud.frame.rank)
        self._affine = affine.coefficients
        self._rank, q = affine.columns.shape[1], prepared.width
        self._basis = allocate(self._rank + q, len(weights)).T  # in the order of LAPACK, which works in place
        T, free = self._basis[:, : self._rank], self._basis[:, self._rank :]
        T[:] = affine.columns
        prepared.values(free)
        self.approximation_error = prepared.approximation_error(free)
        if np.any(root != 1):
            free *= root
        self._overlap = T.T @ free  # (r, q), T' W^(1/2) Phi
        self._lower = np.zeros((0, 0))
        if q:
            lapack.subtract_product(free, T, self._overlap)
            lapack.subtract_product(free, T, T.T @ free)  # twice, so that Q_t 1 = 0 to the last digit
            normal = np.asfortranarray(penalty * np.eye(q))
            lapack.add_square(normal, 1.0, free, transposed=True)
            self._lower = _factorise(normal, prepared.cloud)
            lapack.divide_by_transposed(free, self._lower)
        if np.any(root != 1):
            self._basis *= root

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
        affine, frame = coordinates[: self._rank], self._cloud.frame
        parts: list[KernelPart | None] = [None] * len(targets)
        if self._features is not None:
            kernel, centres, sigma, mix = self._features
            xi = solve_triangular(self._lower, coordinates[self._rank :], lower=True, trans="T")
            affine = affine - self._overlap @ xi
            weights = np.split(mix @ xi, len(targets), axis=1)
            parts = [KernelPart(kernel, centres, sigma, one) for one in weights]
        slopes = np.split(self._affine @ affine, len(targets), axis=1)
        return [fitted_warp(frame, one, part) for one, part in zip(slopes, parts, strict=True)]

    def variance(self, points: Array) -> Array:
        """|t|^2 + |L^-1 g|^2 with g = phi - Phi'T t  (theory, eq. 18)."""
        unit = self._cloud.frame.to_unit(points)
        t = np.column_stack([unit, np.ones(len(unit))]) @ self._affine
        variance = np.sum(t**2, axis=1)
        if self._features is not None:
            kernel, centres, sigma, mix = self._features
            free = gram(kernel, unit, centres, sigma) @ mix - t @ self._overlap
            variance += np.sum(solve_triangular(self._lower, free.T, lower=True) ** 2, axis=0)
        return variance

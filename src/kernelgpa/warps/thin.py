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

from typing import NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cholesky, eigh, solve_triangular

from ..errors import NumericalFailure
from ..frames import AffineBasis, Array, IndexArray, orthonormal_affine
from ..kernels import Kernel, gram
from ..observations import Cloud
from .base import Factor, KernelPart, Warp


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
    try:
        return cholesky(normal, lower=True, check_finite=False)
    except LinAlgError:
        raise NumericalFailure(
            f"cloud {cloud.name!r}: its features are not independent in double precision at this smoothing; "
            "raise smoothing, or use fewer control or inducing points"
        ) from None


class ThinCloud:
    """A reduced cloud in thin form."""

    def __init__(self, cloud: Cloud, features: Features | None, penalty: float) -> None:
        self._cloud = cloud
        self._features, self._penalty = features, penalty
        unit = cloud.frame.to_unit(cloud.points)
        self._root = np.sqrt(cloud.weights)
        self._affine: AffineBasis = orthonormal_affine(unit, cloud.weights, cloud.frame.rank)
        q = 0 if features is None else features.mix.shape[1]
        self._phi = np.zeros((len(unit), q))
        if features is not None:
            kernel, centres, sigma, mix = features
            self._phi = self._root[:, None] * (gram(kernel, unit, centres, sigma) @ mix)
        free = self._off_affine(self._phi)
        self._lower = _factorise(free.T @ free + penalty * np.eye(q), cloud) if q else np.zeros((0, 0))
        self._whitened = solve_triangular(self._lower, free.T, lower=True).T if q else free

    @property
    def seen(self) -> IndexArray:
        return self._cloud.seen

    def factor(self) -> Factor:
        basis = np.hstack([self._affine.columns, self._whitened])
        return Factor(self._cloud.weights, self._root[:, None] * basis)

    def form(self) -> Array:
        weights, basis = self.factor()
        return np.diag(weights) - basis @ basis.T

    def fit(self, targets: Array) -> Warp:
        weighted = self._root[:, None] * targets
        xi = self._coefficients(weighted)
        affine = self._affine.columns.T @ (weighted - self._phi @ xi)
        part = None
        if self._features is not None:
            kernel, centres, sigma, mix = self._features
            part = KernelPart(kernel, centres, sigma, mix @ xi)
        return Warp(self._cloud.frame, self._affine.coefficients @ affine, part)

    def variance(self, points: Array) -> Array:
        """|t|^2 + |L^-1 g|^2 with g = phi - Phi'T t, and what the features cannot express (theory, eq. 18)."""
        unit = self._cloud.frame.to_unit(points)
        t = np.column_stack([unit, np.ones(len(unit))]) @ self._affine.coefficients
        variance = np.sum(t**2, axis=1)
        if self._features is not None:
            kernel, centres, sigma, mix = self._features
            phi = gram(kernel, unit, centres, sigma) @ mix
            free = phi - t @ (self._affine.columns.T @ self._phi)
            variance += np.sum(solve_triangular(self._lower, free.T, lower=True) ** 2, axis=0)
            if not kernel.against:
                prior = float(kernel.value(np.zeros(1))[0])
                variance += np.maximum(prior - np.sum(phi**2, axis=1), 0.0) / self._penalty
        return variance

    def _coefficients(self, weighted: Array) -> Array:  # (s, d) -> (q, d)
        if not self._phi.shape[1]:
            return np.zeros((0, weighted.shape[1]))
        return solve_triangular(self._lower, self._whitened.T @ weighted, lower=True, trans="T")

    def _off_affine(self, columns: Array) -> Array:
        T = self._affine.columns
        once = columns - T @ (T.T @ columns)
        return once - T @ (T.T @ once)  # twice, so that Q_t 1 = 0 to the last digit

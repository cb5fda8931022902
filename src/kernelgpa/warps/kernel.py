"""Kernel warps (KernelGPA, IJRR 2023): exact in dual form, or thin at inducing points.

With K the kernel between the points of a cloud, A = K + mu W^-1 and T an orthonormal basis of the
affine functions,

    H_t = A^-1 - A^-1 T (T' A^-1 T)^-1 T' A^-1,      Q_t = mu H_t       (theory, eq. 6)
    Omega_t = H_t Y,      c_t = (T' A^-1 T)^-1 T' A^-1 Y                (theory, eq. 7)

The width of the kernel is ``bandwidth`` times the mean distance between the cloud's points.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cho_solve, cholesky
from scipy.linalg.lapack import dpotri

from ..errors import InvalidSetting, NumericalFailure
from ..frames import Array, IndexArray, farthest_points, mean_pairwise_distance, orthonormal_affine
from ..kernels import KERNELS, Kernel, gram
from ..observations import Cloud
from .base import KernelPart, ReducedCloud, Warp
from .thin import ThinCloud, energy_features

LOST = 1e-5  # error of a warp, as a share of its cloud, that is too much


@dataclass(frozen=True)
class KernelFamily:
    """An affine part plus a smooth displacement of finite kernel energy."""

    kernel: Kernel
    bandwidth: float
    smoothing: float
    inducing: int | None = None  # centres at so many farthest points; None: at every point

    def reduce(self, cloud: Cloud) -> ReducedCloud:
        unit = cloud.frame.to_unit(cloud.points)
        sigma = self.bandwidth * mean_pairwise_distance(unit)
        if self.inducing is None:
            return DualCloud(cloud, self.kernel, sigma, self.smoothing)
        outermost = int(np.argmax(np.sum(unit**2, axis=1)))  # the same in whatever order the landmarks come
        centres = unit[farthest_points(unit, self.inducing, outermost)]
        if not self.kernel.against:
            _require_positive(self.kernel, gram(self.kernel, centres, centres, sigma), cloud)
        return ThinCloud(cloud, energy_features(self.kernel, centres, sigma), self.smoothing)


class DualCloud:
    """A reduced cloud in dual form: one factorisation, one inverse."""

    def __init__(self, cloud: Cloud, kernel: Kernel, sigma: float, smoothing: float) -> None:
        self._cloud, self._kernel, self._sigma, self._smoothing = cloud, kernel, sigma, smoothing
        unit = cloud.frame.to_unit(cloud.points)
        K = gram(kernel, unit, unit, sigma)
        _require_positive(kernel, K, cloud)
        lower = _factorise(K, smoothing / cloud.weights, cloud)
        basis = orthonormal_affine(unit, np.ones(len(unit)), cloud.frame.rank)
        inverse_T = cho_solve((lower, True), basis.columns)
        schur = np.linalg.inv(basis.columns.T @ inverse_T)
        self._to_affine = basis.coefficients @ schur @ inverse_T.T  # (d + 1, s)
        self._affine_variance = basis.coefficients @ schur @ basis.coefficients.T  # (d + 1, d + 1)
        self._weights = _inverse(lower) - inverse_T @ schur @ inverse_T.T  # (s, s), H_t

        # H annihilates affine functions; what rounding leaves of them, the warp adds to every point
        lost = float(np.abs(self._weights @ basis.columns).max() * np.sqrt(len(unit)))
        if lost > LOST:
            raise NumericalFailure(
                f"cloud {cloud.name!r}: rounding leaves an error of {lost:.1g} in its warp at smoothing {smoothing:g}; "
                "raise smoothing or lower bandwidth"
            )

    @property
    def seen(self) -> IndexArray:
        return self._cloud.seen

    def form(self) -> Array:
        return self._smoothing * self._weights

    def factor(self) -> None:
        return None

    def variance(self, points: Array) -> Array:
        """Universal kriging (theory, eq. 18):  k(p,p) - k' H k + f' C f - 2 f' G k,  over mu."""
        unit, own = self._cloud.frame.to_unit(points), self._cloud.frame.to_unit(self._cloud.points)
        f = np.column_stack([unit, np.ones(len(unit))])
        k = gram(self._kernel, unit, own, self._sigma)
        prior = float(self._kernel.value(np.zeros(1))[0])
        affine = np.einsum("ki,ij,kj->k", f, self._affine_variance, f) - 2 * np.einsum(
            "kj,kj->k", f @ self._to_affine, k
        )
        known = np.einsum("ks,ks->k", k @ self._weights, k)
        return np.maximum(prior + affine - known, 0.0) / self._smoothing

    def fit(self, targets: Array) -> Warp:
        unit = self._cloud.frame.to_unit(self._cloud.points)
        part = KernelPart(self._kernel, unit, self._sigma, self._weights @ targets)
        return Warp(self._cloud.frame, self._to_affine @ targets, part)


def _factorise(K: Array, ridge: Array, cloud: Cloud) -> Array:
    matrix = K.copy()
    matrix[np.diag_indices_from(matrix)] += ridge
    try:
        return cholesky(matrix, lower=True, overwrite_a=True, check_finite=False)
    except LinAlgError:
        raise NumericalFailure(
            f"cloud {cloud.name!r}: the kernel matrix plus the smoothing {ridge.min():.3g} is not positive "
            "definite in double precision; raise smoothing or lower bandwidth"
        ) from None


def _inverse(lower: Array) -> Array:
    inverse, info = dpotri(lower, lower=True)
    if info:
        raise NumericalFailure(f"the kernel matrix cannot be inverted (dpotri {info}); raise smoothing")
    return np.tril(inverse) + np.tril(inverse, -1).T


def _require_positive(kernel: Kernel, K: Array, cloud: Cloud) -> None:
    """A kernel that somebody brought must be positive definite, or the cost has no minimum."""
    if kernel in KERNELS.values():
        return
    if not np.isfinite(K).all():
        raise InvalidSetting(f"kernel: on cloud {cloud.name!r} {np.sum(~np.isfinite(K))} of its values are not finite")
    values = np.linalg.eigvalsh(0.5 * (K + K.T))
    if values[0] < -1e-10 * abs(values[-1]):
        raise InvalidSetting(
            f"kernel: on cloud {cloud.name!r} the kernel matrix has eigenvalue {values[0]:.3g} "
            f"(largest {values[-1]:.3g}); use a positive definite function of distance / sigma"
        )

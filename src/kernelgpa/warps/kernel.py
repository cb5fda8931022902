"""Kernel warps (KernelGPA, IJRR 2023): exact in dual form, or thin at inducing points.

With K the kernel between the points of a cloud, A = K + mu W^-1 and T an orthonormal basis of the
affine functions,

    H_t = A^-1 - A^-1 T (T' A^-1 T)^-1 T' A^-1,      Q_t = mu H_t       (theory, eq. 6)
    Omega_t = H_t Y,      c_t = (T' A^-1 T)^-1 T' A^-1 Y                (theory, eq. 7)

The width of the kernel is ``bandwidth`` times the mean distance between the cloud's points.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg.blas import dsyrk
from scipy.linalg.lapack import dpotrf, dpotri, dpotrs

from ..errors import InvalidSetting, NumericalFailure
from ..frames import Array, IndexArray, farthest_points, mean_pairwise_distance, orthonormal_affine
from ..kernels import KERNELS, Kernel, gram
from ..memory import made_symmetric, room
from ..observations import Cloud
from ..threads import product
from .base import KernelPart, PreparedCloud, Warp, fitted_warp
from .thin import PreparedThin, energy_features

KEPT = 500  # points up to which a cloud's kernel matrix is kept: beyond, new memory costs more than it saves
LOST = 1e-5  # error of a warp, as a share of its cloud, that is too much


@dataclass(frozen=True)
class KernelFamily:
    """An affine part plus a smooth displacement of finite kernel energy."""

    kernel: Kernel
    bandwidth: float
    smoothing: float
    inducing: int | None = None  # centres at so many farthest points; None: at every point

    def features(self, dimension: int) -> int | None:
        return self.inducing

    def prepare(self, cloud: Cloud) -> PreparedCloud:
        unit = cloud.frame.to_unit(cloud.points)
        sigma = self.bandwidth * mean_pairwise_distance(unit)
        if self.inducing is None:
            prepared = PreparedDual(cloud, KernelPart(self.kernel, unit, sigma, np.zeros((0, unit.shape[1]))))
            if self.kernel not in KERNELS.values():
                _require_positive(self.kernel, prepared.gram(), cloud)
            return prepared
        outermost = int(np.argmax(np.sum(unit**2, axis=1)))  # the same in whatever order the landmarks come
        centres = unit[farthest_points(unit, self.inducing, outermost)]
        if not self.kernel.against and self.kernel not in KERNELS.values():
            _require_positive(self.kernel, gram(self.kernel, centres, centres, sigma), cloud)
        return PreparedThin(cloud, energy_features(self.kernel, centres, sigma))


@dataclass(frozen=True)
class PreparedDual:
    """The kernel matrix of a cloud, kept unless it is so large that computing it again costs less."""

    cloud: Cloud
    kernel_part: KernelPart  # without weights

    def gram(self) -> Array:  # (s, s), to be written to
        """The kernel matrix.  From the second time on it is kept: whoever asks twice will ask again."""
        kernel, unit, sigma, _ = self.kernel_part
        if len(self.cloud.seen) > KEPT or "_asked" not in self.__dict__:
            self.__dict__["_asked"] = True
            return gram(kernel, unit, unit, sigma)
        K = room(*self._kept.shape)
        K[:] = self._kept
        return K

    @cached_property
    def _kept(self) -> Array:
        kernel, unit, sigma, _ = self.kernel_part
        return gram(kernel, unit, unit, sigma)

    def reduce(self, smoothing: float, weights: Array) -> DualCloud:
        return DualCloud(self, smoothing, weights)


class DualCloud:
    """A reduced cloud in dual form: one factorisation, one inverse."""

    def __init__(self, prepared: PreparedDual, smoothing: float, weights: Array) -> None:
        cloud = prepared.cloud
        self._cloud, self._kernel_part = cloud, prepared.kernel_part
        self._smoothing, self.weights = smoothing, weights
        unit = prepared.kernel_part.centres
        lower = _factorise(prepared.gram(), smoothing / weights, cloud)
        basis = orthonormal_affine(unit, np.ones(len(unit)), cloud.frame.rank)
        inverse_T = dpotrs(lower, basis.columns, lower=True)[0]
        root = np.linalg.cholesky(np.linalg.inv(basis.columns.T @ inverse_T))
        self._to_affine = basis.coefficients @ root @ (inverse_T @ root).T  # (d + 1, s)
        self._affine_variance = basis.coefficients @ root @ root.T @ basis.coefficients.T  # (d + 1, d + 1)
        inverse = _inverse(lower, cloud)
        self.yardstick = smoothing * float(np.diagonal(inverse).max())
        down_dated = dsyrk(-smoothing, inverse_T @ root, smoothing, inverse, lower=True, overwrite_c=True)
        self._form = made_symmetric(down_dated).T  # (s, s), Q_t = mu H_t

        # H annihilates affine functions; what rounding leaves of them, the warp adds to every point
        lost = float(np.abs(self.apply(basis.columns)).max() * np.sqrt(len(unit)) / smoothing)
        if lost > LOST:
            raise NumericalFailure(
                f"cloud {cloud.name!r}: rounding leaves an error of {lost:.1g} in its warp at smoothing {smoothing:g}; "
                "raise smoothing or lower bandwidth"
            )

    @property
    def seen(self) -> IndexArray:
        return self._cloud.seen

    def form(self) -> Array:
        return self._form

    def factor(self) -> None:
        return None

    def apply(self, targets: Array) -> Array:
        return product(self._form, targets)

    def diagonal(self) -> Array:
        return np.diagonal(self._form)

    def rows(self, some: IndexArray) -> Array:
        return self._form[some]

    def variance(self, points: Array) -> Array:
        """Universal kriging (theory, eq. 18):  k(p,p) - k' H k + f' C f - 2 f' G k,  over mu."""
        kernel, centres, sigma, _ = self._kernel_part
        unit = self._cloud.frame.to_unit(points)
        f = np.column_stack([unit, np.ones(len(unit))])
        k = gram(kernel, unit, centres, sigma)
        prior = float(kernel.value(np.zeros(1))[0])
        affine = np.einsum("ki,ij,kj->k", f, self._affine_variance, f) - 2 * np.einsum(
            "kj,kj->k", f @ self._to_affine, k
        )
        known = np.einsum("ks,ks->k", k @ self._form, k) / self._smoothing
        return np.maximum(prior + affine - known, 0.0) / self._smoothing

    def fits(self, targets: Sequence[Array]) -> list[Warp]:
        side_by_side = np.hstack(targets)
        weights = np.split(self.apply(side_by_side) / self._smoothing, len(targets), axis=1)
        affine = np.split(self._to_affine @ side_by_side, len(targets), axis=1)
        frame, part = self._cloud.frame, self._kernel_part
        return [fitted_warp(frame, c, part._replace(weights=w)) for c, w in zip(affine, weights, strict=True)]


def _factorise(K: Array, ridge: Array, cloud: Cloud) -> Array:
    """L of K + diag(ridge) = L L', in place of K; what lies above the diagonal is not cleared."""
    matrix = K.T  # K is symmetric, and its transpose is in the order of LAPACK
    matrix[np.diag_indices_from(matrix)] += ridge
    lower, info = dpotrf(matrix, lower=True, clean=False, overwrite_a=True)
    if info:
        raise NumericalFailure(
            f"cloud {cloud.name!r}: the kernel matrix plus the smoothing {ridge.min():.3g} is not positive "
            "definite in double precision; raise smoothing or lower bandwidth"
        )
    return np.asarray(lower)


def _inverse(lower: Array, cloud: Cloud) -> Array:
    """The lower triangle of (L L')^-1, in place of L."""
    inverse, info = dpotri(lower, lower=True, overwrite_c=True)
    if info:
        raise NumericalFailure(f"cloud {cloud.name!r}: its kernel matrix cannot be inverted; raise smoothing")
    return np.asarray(inverse)


def _require_positive(kernel: Kernel, K: Array, cloud: Cloud) -> None:
    """A kernel that somebody brought must be positive definite, or the cost has no minimum."""
    if not np.isfinite(K).all():
        raise InvalidSetting(f"kernel: on cloud {cloud.name!r} {np.sum(~np.isfinite(K))} of its values are not finite")
    values = np.linalg.eigvalsh(0.5 * (K + K.T))
    if values[0] < -1e-10 * abs(values[-1]):
        raise InvalidSetting(
            f"kernel: on cloud {cloud.name!r} the kernel matrix has eigenvalue {values[0]:.3g} "
            f"(largest {values[-1]:.3g}); use a positive definite function of distance / sigma"
        )

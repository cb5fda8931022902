"""The fitted warp of one cloud: a smooth map from the cloud's frame into the map.

With u = (p - centre) / size,

    y(p) = [u, 1] C + k(u, Z) Omega                                    (theory, eq. 5)

C (d+1, d) is the affine part, Omega (l, d) the kernel weights at the centres Z (l, d); an affine warp has l = 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .._numerics.threads import parallel_map
from ..errors import InvalidObservations
from ..observations.arrays import finite_rows, masked_as_nan
from ..observations.geometry import Frame
from ..typing import Array, IndexArray
from .kernels import Kernel, gram_gradient, gram_sum, neighbours

BATCH_ENTRIES = 4_000_000  # kernel entries at a time: 32 MB


class KernelPart(NamedTuple):
    """sum_i k(|u - z_i| / sigma) omega_i"""

    kernel: Kernel
    centres: Array  # (l, d), in the cloud's unit frame
    sigma: float
    weights: Array  # (l, d)


@dataclass(frozen=True)
class Warp:
    """A smooth map from one cloud's frame into the map."""

    frame: Frame
    coefficients: Array  # (d + 1, d)
    kernel_part: KernelPart | None = None

    def __call__(self, points: npt.ArrayLike) -> Array:  # (k, d) -> (k, d)
        points = self.checked(points)
        parts = self._batches(len(points))
        return np.concatenate(parallel_map(lambda part: self._value(self.frame.to_unit(points[part])), parts))

    def jacobian(self, points: npt.ArrayLike) -> Array:  # (k, d) -> (k, d, d), dy_i / dp_j
        points = self.checked(points)
        jacobian = np.empty((*points.shape, points.shape[1]))
        for part in self._batches(len(points)):
            jacobian[part] = self._gradient(self.frame.to_unit(points[part])) / self.frame.size
        jacobian[np.isnan(points).any(axis=1)] = np.nan
        return jacobian

    def sensor_jacobian(self, points: npt.ArrayLike) -> Array:  # (k, d) -> (k, d, d)
        """The Jacobian in the directions that the cloud knows of; across a sheet it goes on like a rotation."""
        return self.across_sheets(self.jacobian(points))

    def across_sheets(self, jacobians: Array) -> Array:  # (k, d, d) -> (k, d, d)
        known = finite_rows(jacobians[:, :, 0])
        reliable_rank = self.frame.axes[: self.frame.reliable_rank]
        if len(reliable_rank) < jacobians.shape[2]:
            jacobians[known] = continued(jacobians[known] @ (reliable_rank.T @ reliable_rank), len(reliable_rank))
        return jacobians

    def moved(self, turn: Array, shift: Array) -> Warp:  # (d, d), (d,)
        """The warp followed by a rigid motion  y -> turn y + shift."""
        coefficients = self.coefficients @ turn.T
        coefficients[-1] += shift
        part = self.kernel_part
        return Warp(self.frame, coefficients, None if part is None else part._replace(weights=part.weights @ turn.T))

    @property
    def affine(self) -> tuple[Array, Array]:
        """A (d, d) and a (d,) of the affine part  p -> A p + a."""
        matrix = self.coefficients[:-1].T / self.frame.size
        return matrix, self.coefficients[-1] - matrix @ self.frame.centre

    @property
    def weights(self) -> Array:  # (l, d)
        """Kernel weights, one row a centre; no rows for an affine warp."""
        return self.coefficients[:0] if self.kernel_part is None else self.kernel_part.weights

    @property
    def centres(self) -> Array:  # (l, d)
        """Where the kernels sit, in the cloud's own coordinates."""
        if self.kernel_part is None:
            return self.coefficients[:0]
        return self.kernel_part.centres * self.frame.size + self.frame.centre

    @property
    def sigma(self) -> float:
        """The kernel's width in the cloud's own unit (0 for an affine warp)."""
        return 0.0 if self.kernel_part is None else self.kernel_part.sigma * self.frame.size

    @property
    def energy(self) -> float:
        """tr Omega' K Omega: what the smoothing puts a price on."""
        if self.kernel_part is None:
            return 0.0
        kernel, centres, sigma, weights = self.kernel_part
        return float(np.vdot(weights, gram_sum(kernel, centres, centres, sigma, weights, self.sparse)))

    @property
    def image_size(self) -> float:
        """How large the cloud is in the map, by the affine part: a yardstick for rounding."""
        return float(np.linalg.norm(self.coefficients[:-1])) or 1.0

    def _value(self, unit: Array) -> Array:
        warped = unit @ self.coefficients[:-1] + self.coefficients[-1]
        if self.kernel_part is not None:
            kernel, centres, sigma, weights = self.kernel_part
            warped += gram_sum(kernel, unit, centres, sigma, weights, self.sparse)
        return warped

    def _gradient(self, unit: Array) -> Array:
        gradient = np.repeat(self.coefficients[:-1].T[None], len(unit), axis=0)
        if self.kernel_part is not None:
            kernel, centres, sigma, weights = self.kernel_part
            gradient += gram_gradient(kernel, unit, centres, sigma, weights, self.sparse)
        return gradient

    @cached_property
    def _near(self) -> float | None:
        """Centres within the kernel's reach of a point, where they are few."""
        if self.kernel_part is None:
            return None
        kernel, centres, sigma, _ = self.kernel_part
        return neighbours(kernel, centres, sigma)

    @property
    def sparse(self) -> bool:
        return self._near is not None

    def _batches(self, count: int) -> list[slice]:
        step = max(1, int(BATCH_ENTRIES / (self._near or max(1, len(self.weights)))))
        return [slice(i, i + step) for i in range(0, max(count, 1), step)]

    def checked(self, points: npt.ArrayLike) -> Array:
        array = masked_as_nan(points)
        d = self.coefficients.shape[1]
        if array.ndim != 2 or array.shape[1] != d or array.dtype.kind not in "fiub":
            raise InvalidObservations(
                f"points to warp have shape {array.shape} and type {array.dtype}; expected (points, {d}) real numbers"
            )
        if np.isinf(array).any():
            raise InvalidObservations(f"points to warp: {np.isinf(array).any(axis=1).sum()} are infinite; give NaN")
        return array.astype(np.float64)


def sensor_jacobians(warps: Sequence[Warp], points: Array, which: IndexArray) -> Array:  # (k, d), (k,) -> (k, d, d)
    """Sensor Jacobians, that of point i by ``warps[which[i]]``, of warps of one cloud that differ in their targets."""
    one = warps[0]
    unit = one.frame.to_unit(points)
    jacobians = np.stack([warp.coefficients[:-1].T for warp in warps])[which]
    if one.kernel_part is not None:
        kernel, centres, sigma, _ = one.kernel_part
        side_by_side = np.hstack([warp.weights for warp in warps])
        gradients = gram_gradient(kernel, unit, centres, sigma, side_by_side, one.sparse)
        k, d = points.shape
        jacobians += gradients.reshape(k, len(warps), d, d)[np.arange(k), which]
    return one.across_sheets(jacobians / one.frame.size)


def continued(matrices: Array, rank: int) -> Array:  # (..., d, d) -> (..., d, d)
    """Linear maps of rank ``rank`` continued across the space that they flatten, by a rotation of the same size."""
    if rank == matrices.shape[-1]:
        return matrices
    left, stretch, right = np.linalg.svd(matrices)
    right[..., -1, :] *= np.sign(np.linalg.det(left @ right))[..., None]  # a rotation, not a mirror image
    size = np.exp(np.mean(np.log(np.maximum(stretch[..., :rank], np.finfo(np.float64).tiny)), axis=-1))
    return np.asarray(matrices + size[..., None, None] * left[..., :, rank:] @ right[..., rank:, :])


def fitted_warp(frame: Frame, coefficients: Array, kernel_part: KernelPart | None) -> Warp:
    """A warp; that of a flat cloud, which says nothing of the space off its plane, goes on there like a rotation."""
    linear = continued(coefficients[:-1], frame.rank)
    return Warp(frame, np.vstack([linear, coefficients[-1:]]), kernel_part)

"""The fitted warp of one cloud: a smooth function from the cloud's frame into the map.

With u = (p - centre) / size,

    y(p) = [u, 1] C + k(u, Z) Omega                                    (theory, eq. 5)

C (d+1, d) is the affine part, Omega (l, d) the kernel weights at the centres Z (l, d); an affine warp has l = 0.
With Z the points of the cloud this is the kernel based transformation of the paper (Definition 6).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from .._numerics.threads import parallel_map
from ..errors import InvalidObservations
from ..observations.arrays import finite_rows, is_real, masked_as_nan
from ..observations.geometry import Frame
from ..typing import Array, IndexArray
from .gram import DEFAULT_SPARSE_LIMITS, SparseLimits, gram, gram_gradient, gram_sum
from .kernels import Kernel

BATCH_ENTRIES = 4_000_000  # kernel values that are computed at a time: 32 MB


@dataclass(frozen=True)
class KernelPart:
    """u -> sum_i k(|u - z_i| / sigma) omega_i"""

    kernel: Kernel
    centres: Array  # (l, d), in the cloud's unit frame
    sigma: float
    weights: Array  # (l, c)
    sparse_limits: SparseLimits = DEFAULT_SPARSE_LIMITS

    @cached_property
    def neighbours(self) -> float | None:
        """Centres within the kernel's support around a point, if they are few enough for sparse matrices."""
        return self.sparse_limits.neighbours(self.kernel, self.centres, self.sigma)

    def gram(self, unit: Array) -> Array:  # (k, d) -> (k, l)
        return gram(self.kernel, unit, self.centres, self.sigma)

    def value(self, unit: Array) -> Array:  # (k, d) -> (k, c)
        sparse = self.neighbours is not None
        return gram_sum(self.kernel, unit, self.centres, self.sigma, self.weights, sparse)

    def gradient(self, unit: Array) -> Array:  # (k, d) -> (k, c, d)
        sparse = self.neighbours is not None
        return gram_gradient(self.kernel, unit, self.centres, self.sigma, self.weights, sparse)


@dataclass(frozen=True)
class Warp:
    """A smooth function from one cloud's frame into the map.

    Attributes
    ----------
    affine : pair of arrays (d, d), (d,)
        A and a of the affine part  p -> A p + a.
    weights, centres : arrays (l, d)
        Kernel weights, and the kernel centres in the cloud's own coordinates; an affine warp has none.
    sigma : float
        The width of the kernel in the cloud's own unit; 0 for an affine warp.
    energy : float
        tr Omega' K Omega, which the smoothing penalises.
    image_size : float
        The size of the cloud in the map by the affine part.
    frame, coefficients, kernel_part : Frame, array (d + 1, d), KernelPart or None
        u, C and the kernel term of eq. 5, in the cloud's unit frame.
    sparse : bool
        Whether kernel values are computed only for the centres within the kernel's support.

    Notes
    -----
    Theory, eq. 5.

    Examples
    --------
    >>> from kernelgpa import AffineGPA, simulate
    >>> scene = simulate.liver(clouds=4, landmarks=40)
    >>> warp = AffineGPA().fit(scene.points).warps_[1]
    >>> warp(scene.surfaces[1]).shape == scene.surfaces[1].shape  # any points of cloud 1, taken into the map
    True
    >>> warp.jacobian(scene.surfaces[1][:5]).shape
    (5, 3, 3)
    """

    frame: Frame
    coefficients: Array
    kernel_part: KernelPart | None = None

    def __call__(self, points: npt.ArrayLike, batch_entries: int = BATCH_ENTRIES) -> Array:  # (k, d) -> (k, d)
        points = self.checked(points)
        batches = self._batches(len(points), batch_entries)
        return np.concatenate(parallel_map(lambda batch: self._value(self.frame.to_unit(points[batch])), batches))

    def jacobian(self, points: npt.ArrayLike, batch_entries: int = BATCH_ENTRIES) -> Array:
        """dy_i / dp_j at each point, (k, d) -> (k, d, d)."""
        points = self.checked(points)
        jacobian = np.empty((*points.shape, points.shape[1]))
        for batch in self._batches(len(points), batch_entries):
            jacobian[batch] = self._gradient(self.frame.to_unit(points[batch])) / self.frame.size
        jacobian[np.isnan(points).any(axis=1)] = np.nan
        return jacobian

    def sensor_jacobian(self, points: npt.ArrayLike) -> Array:  # (k, d) -> (k, d, d)
        """The Jacobian in the directions in which the cloud is thick; across a sheet it continues like a rotation."""
        return self.extended_across_sheets(self.jacobian(points))

    def extended_across_sheets(self, jacobians: Array) -> Array:  # (k, d, d) -> (k, d, d)
        known = finite_rows(jacobians[:, :, 0])
        thick = self.frame.axes[: self.frame.reliable_rank]
        if len(thick) < jacobians.shape[2]:
            jacobians[known] = extended_by_rotation(jacobians[known] @ (thick.T @ thick), len(thick))
        return jacobians

    def moved(self, rotation: Array, translation: Array) -> Warp:  # (d, d), (d,)
        """The warp followed by the rigid motion  y -> rotation y + translation."""
        coefficients = self.coefficients @ rotation.T
        coefficients[-1] += translation
        part = self.kernel_part
        rotated = None if part is None else replace(part, weights=part.weights @ rotation.T)
        return Warp(self.frame, coefficients, rotated)

    @property
    def affine(self) -> tuple[Array, Array]:
        """A (d, d) and a (d,) of the affine part  p -> A p + a."""
        matrix = self.coefficients[:-1].T / self.frame.size
        return matrix, self.coefficients[-1] - matrix @ self.frame.centre

    @property
    def weights(self) -> Array:  # (l, d)
        """Kernel weights, one row per centre; an affine warp has none."""
        return self.coefficients[:0] if self.kernel_part is None else self.kernel_part.weights

    @property
    def centres(self) -> Array:  # (l, d)
        """The kernel centres in the cloud's own coordinates."""
        if self.kernel_part is None:
            return self.coefficients[:0]
        return self.kernel_part.centres * self.frame.size + self.frame.centre

    @property
    def sigma(self) -> float:
        """The width of the kernel in the cloud's own unit; 0 for an affine warp."""
        return 0.0 if self.kernel_part is None else self.kernel_part.sigma * self.frame.size

    @property
    def energy(self) -> float:
        """tr Omega' K Omega, which the smoothing penalises."""
        part = self.kernel_part
        return 0.0 if part is None else float(np.vdot(part.weights, part.value(part.centres)))

    @property
    def image_size(self) -> float:
        """The size of the cloud in the map by the affine part, for tolerances relative to it."""
        return float(np.linalg.norm(self.coefficients[:-1])) or 1.0

    def _value(self, unit: Array) -> Array:
        warped = unit @ self.coefficients[:-1] + self.coefficients[-1]
        if self.kernel_part is not None:
            warped += self.kernel_part.value(unit)
        return warped

    def _gradient(self, unit: Array) -> Array:
        gradient = np.repeat(self.coefficients[:-1].T[None], len(unit), axis=0)
        if self.kernel_part is not None:
            gradient += self.kernel_part.gradient(unit)
        return gradient

    @property
    def sparse(self) -> bool:
        return self.kernel_part is not None and self.kernel_part.neighbours is not None

    def _batches(self, count: int, entries: int) -> list[slice]:
        neighbours = None if self.kernel_part is None else self.kernel_part.neighbours
        step = max(1, int(entries / (neighbours or max(1, len(self.weights)))))
        return [slice(first, first + step) for first in range(0, max(count, 1), step)]

    def checked(self, points: npt.ArrayLike) -> Array:
        """Points to warp as float64, masked ones as NaN; an error if they cannot be points of the cloud."""
        array = masked_as_nan(points)
        d = self.coefficients.shape[1]
        if array.ndim != 2 or array.shape[1] != d or not is_real(array):
            raise InvalidObservations(
                f"points to warp have shape {array.shape} and type {array.dtype}; expected (points, {d}) real numbers"
            )
        if np.isinf(array).any():
            raise InvalidObservations(
                f"points to warp: {np.isinf(array).any(axis=1).sum()} of {len(array)} are infinite; use NaN for "
                "points that are not known"
            )
        return array.astype(np.float64)


def sensor_jacobians(warps: Sequence[Warp], points: Array, which: IndexArray) -> Array:  # (k, d), (k,) -> (k, d, d)
    """Sensor Jacobians of several warps of one cloud, which differ in their targets only.

    The Jacobian of point i is that of ``warps[which[i]]``.
    """
    first = warps[0]
    jacobians = np.stack([warp.coefficients[:-1].T for warp in warps])[which]
    if first.kernel_part is not None:
        side_by_side = replace(first.kernel_part, weights=np.hstack([warp.weights for warp in warps]))
        k, d = points.shape
        gradients = side_by_side.gradient(first.frame.to_unit(points)).reshape(k, len(warps), d, d)
        jacobians += gradients[np.arange(k), which]
    return first.extended_across_sheets(jacobians / first.frame.size)


def extended_by_rotation(matrices: Array, rank: int) -> Array:  # (..., d, d) -> (..., d, d)
    """Linear maps of the given rank, extended to the directions that they annihilate.

    There they act like a rotation, scaled by the mean stretch of the other directions.
    """
    if rank == matrices.shape[-1]:
        return matrices
    left, stretches, right = np.linalg.svd(matrices)
    right[..., -1, :] *= np.sign(np.linalg.det(left @ right))[..., None]  # a rotation and no reflection
    stretch = np.exp(np.mean(np.log(np.maximum(stretches[..., :rank], np.finfo(np.float64).tiny)), axis=-1))
    return np.asarray(matrices + stretch[..., None, None] * left[..., :, rank:] @ right[..., rank:, :])


def fitted_warp(frame: Frame, coefficients: Array, kernel_part: KernelPart | None) -> Warp:
    """A warp from its coefficients.

    A flat cloud does not determine a warp outside of its plane; there it continues like a rotation.
    """
    if frame.rank == coefficients.shape[1]:
        return Warp(frame, coefficients, kernel_part)
    linear = extended_by_rotation(coefficients[:-1], frame.rank)
    return Warp(frame, np.vstack([linear, coefficients[-1:]]), kernel_part)

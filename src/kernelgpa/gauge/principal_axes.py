"""The map, zero-centred in its principal axes, with the signs of the axes chosen by a rule.

With  M - 1 mean(M) = U diag(s) V',  s descending, and  D = diag(+-1) V',  det D = +1,

    M <- (M - 1 mean(M)) D',    R_t <- D R_t,    scales = s,    t_t = mbar_t - s_t R_t pbar_t      (theory, eq. 14)

where mbar_t and pbar_t are the weighted means of the landmarks of cloud t in the map and in the cloud, and s_t is the
size factor of the cloud (1 unless sizes are free).  Every shape can be moved like this, to M'1 = 0 and M'M = diag(s^2)
(Theorem 1 of the paper).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..observations.geometry import CLEAR_DISTANCE, COINCIDING, axes_by_rule
from ..observations.stacked import StackedClouds
from ..typing import Array
from .rotations import RotationOptimum, Termination

SYMMETRIC_MOMENT = 1e-6  # largest third moment along an axis, with coordinates at most 1, of symmetric landmarks
CANCELLED = 1e-5  # a cost below this fraction of the terms it is the difference of has lost too many digits


@dataclass(frozen=True)
class Gauge:
    """A map in its principal axes, and the pose of each cloud: R_t p + t_t lies near the map."""

    map: Array  # (m, d)
    scales: Array  # (d,), descending
    rotations: Array  # (n, d, d)
    translations: Array  # (n, d)
    iterations: int
    termination: Termination | None  # None: the rotations come in closed form


def to_principal_axes(
    M: Array,  # (m, d)
    stacked: StackedClouds,
    rotations: Array,  # (n, d, d)
    iterations: int = 0,
    termination: Termination | None = None,  # None: the rotations come in closed form
    size_factors: Array | None = None,  # (n,); None: all 1
) -> Gauge:
    """The map zero-centred in its principal axes, with the poses that belong to it (eq. 14).

    The sign of each axis but the last makes the third moment of the landmarks along it positive; if that vanishes by
    symmetry, it makes the first landmark that lies clearly off zero positive.  The sign of the last axis preserves the
    handedness of the clouds.  Axes of coinciding scales are chosen by the landmarks (:func:`axes_by_rule`).
    """
    M = M - M.mean(axis=0)
    _, scales, axes = np.linalg.svd(M, full_matrices=False)
    axes = axes_by_rule(M, scales, axes, COINCIDING * scales[0])
    signs = np.array([_sign(M @ axis) for axis in axes])
    signs[-1] = np.sign(np.linalg.det(axes)) * np.prod(signs[:-1])
    D = signs[:, None] * axes
    M = M @ D.T
    rotations = D @ rotations
    linear = rotations if size_factors is None else size_factors[:, None, None] * rotations
    translations = _means_in_map(M, stacked) - np.einsum("ted,td->te", linear, stacked.means)
    return Gauge(M, scales, rotations, translations, iterations, termination)


class GaugeOptimum(NamedTuple):
    """A gauge, and the optimum over the rotations that it comes from, in the frame in which that was found."""

    gauge: Gauge
    optimum: RotationOptimum | None  # None: the rotations come in closed form


def optimum_in_principal_axes(M: Array, stacked: StackedClouds, optimum: RotationOptimum) -> GaugeOptimum:
    """The map (m, d) of optimal rotations in its principal axes."""
    gauge = to_principal_axes(M, stacked, optimum.rotations, optimum.iterations, optimum.termination)
    return GaugeOptimum(gauge, optimum)


def rigid_cost(gauge: Gauge, stacked: StackedClouds) -> float:
    """The rigid cost  sum_t |W_t^(1/2) (P_t R_t' + 1 t_t' - M_t)|^2  of a map and its poses.

    It is computed from the second moments of the clouds.  If these cancel nearly completely, it is summed over the
    residuals of all points instead.
    """
    M, rotations, means = gauge.map, gauge.rotations, _means_in_map(gauge.map, stacked)
    n, _, d = stacked.centred.shape
    # rotations are orthonormal to rounding only, and the cost may be a small difference
    of_clouds = float((stacked.squared_sizes * np.einsum("nij,nij->n", rotations, rotations) / d).sum())
    of_map = float(stacked.weights.sum(axis=1) @ np.einsum("md,md->m", M, M))
    of_map -= float(stacked.total_weights @ np.einsum("nd,nd->n", means, means))
    cross = (stacked.weighted_points.T @ M).reshape(n, d, d)
    cost = of_clouds + of_map - 2 * float(np.einsum("nij,nji->", cross, rotations))
    if cost > CANCELLED * (of_clouds + of_map):
        return cost
    residuals = stacked.centred @ np.swapaxes(rotations, 1, 2)
    residuals -= M
    residuals += means[:, None]
    return float(np.vdot(stacked.weights.T, np.einsum("nmd,nmd->nm", residuals, residuals)))


def _means_in_map(M: Array, stacked: StackedClouds) -> Array:  # (n, d)
    """The weighted mean, in the map, of the landmarks of each cloud."""
    return np.asarray((stacked.weights.T @ M) / stacked.total_weights[:, None])


def _sign(coordinates: Array) -> float:  # (m,) along one axis
    largest = np.abs(coordinates).max()
    if largest == 0:
        return 1.0
    third = np.mean((coordinates / largest) ** 3)
    if abs(third) > SYMMETRIC_MOMENT:
        return float(np.sign(third))
    return float(np.sign(coordinates[np.argmax(np.abs(coordinates) > CLEAR_DISTANCE * largest)]))

"""A map zero-centred in its principal axes, with signs chosen by a stated rule (theory, eq. 14)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..observations.geometry import CLEARLY_OFF, COINCIDING, axes_by_rule
from ..observations.stacked import StackedClouds
from ..typing import Array
from .rotations import Ending

SYMMETRIC = 1e-6  # a mean cube, as a share of the largest, below which the landmarks lie alike on both sides of an axis
CANCELLED = 1e-5  # of the squares that a cost is the difference of: a smaller one has lost too many digits


@dataclass(frozen=True)
class Gauge:
    """A map in its principal axes with the pose of every cloud, R_t p + t_t near the map."""

    map: Array  # (m, d)
    scales: Array  # (d,), descending
    rotations: Array  # (n, d, d)
    translations: Array  # (n, d)
    cost: float  # eq. 11; NaN where nobody asked for it
    iterations: int
    ending: Ending | None  # None: a closed form, nothing iterated


def to_principal_axes(
    M: Array,
    stacked: StackedClouds,
    rotations: Array,
    iterations: int,
    ending: Ending | None,
    factors: Array | None = None,
    costed: bool = True,
) -> Gauge:
    """The map zero-centred in its principal axes, poses moved along, signs by rule (eq. 14).

    Axes are turned so that the third moment of the landmarks along each is positive; where it
    vanishes by symmetry, so that the first landmark off the axis is.  The last axis of a body has
    no choice: it keeps the hand of the clouds.  Axes of coinciding scales are chosen by the landmarks
    (:func:`axes_by_rule`).  ``factors`` are the clouds' sizes, where they are free.
    """
    M = M - M.mean(axis=0)
    _, scales, axes = np.linalg.svd(M, full_matrices=False)
    axes = axes_by_rule(M, scales, axes, COINCIDING * scales[0])
    signs = np.array([_sign(M @ axis) for axis in axes])
    signs[-1] = np.sign(np.linalg.det(axes)) * np.prod(signs[:-1])
    turn = signs[:, None] * axes
    M = M @ turn.T
    rotations = turn @ rotations
    motions = rotations if factors is None else factors[:, None, None] * rotations
    there = (stacked.weights.T @ M) / stacked.total_weights[:, None]  # (n, d)
    translations = there - np.einsum("ted,td->te", motions, stacked.means)
    cost = _cost(M, stacked, motions, there) if costed else np.nan
    return Gauge(M, scales, rotations, translations, cost, iterations, ending)


def _cost(M: Array, stacked: StackedClouds, motions: Array, there: Array) -> float:
    """Eq. 11 by the moments of the clouds; where nearly nothing is left of them, by what is left of every point."""
    n, _, d = stacked.centred.shape
    own = stacked.squared_sizes * np.einsum("nij,nij->n", motions, motions) / d  # a motion is a rotation times a size
    pulled = (stacked.weighted_points.T @ M).reshape(n, d, d)
    placed = float(stacked.weights.sum(axis=1) @ np.einsum("md,md->m", M, M))
    placed -= float(stacked.total_weights @ np.einsum("nd,nd->n", there, there))
    cost = float(own.sum()) + placed - 2 * float(np.einsum("nij,nji->", pulled, motions))
    if cost > CANCELLED * (float(own.sum()) + placed):
        return cost
    off = stacked.centred @ np.swapaxes(motions, 1, 2)
    off -= M
    off += there[:, None]
    return float(np.vdot(stacked.weights.T, np.einsum("nmd,nmd->nm", off, off)))


def _sign(along: Array) -> float:
    size = np.abs(along).max()
    if size == 0:
        return 1.0
    third = np.mean((along / size) ** 3)
    if abs(third) > SYMMETRIC:
        return float(np.sign(third))
    return float(np.sign(along[np.argmax(np.abs(along) > CLEARLY_OFF * size)]))

"""The affine registration of all clouds: the global initial estimate of everything that iterates.

Affine warps leave the cost  Q_t = W_t - W_t^(1/2) T_t T_t' W_t^(1/2)  with T_t an orthonormal basis of
W_t^(1/2) [P_t, 1]  (theory, eq. 9).  The bottom eigenvectors of  Q = sum_t Q_t  need no initial guess.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..observations.collection import Observations
from ..observations.geometry import CLEARLY_OFF, orthonormal_slopes
from ..observations.stacked import StackedClouds
from ..spectrum.eigenpairs import Spectrum, bottom_eigenpairs, metric_of
from ..spectrum.operators import CostOperator, low_rank_cost
from ..typing import Array, IndexArray
from .principal_axes import Gauge
from .scales import fix_gauge

UNDECIDED = 1e-6  # coordinate, relative to the largest, below which a cloud belongs to neither side of a division


@dataclass(frozen=True)
class InitialEstimate:
    """The affine spectrum, and the map and poses from it."""

    spectrum: Spectrum
    gauge: Gauge


@dataclass(frozen=True)
class WarmStart:
    """The solution for nearly the same clouds, from which a solve converges in few iterations."""

    rotations: Array  # (n, d, d)
    subspace: Array | None  # (m, ...) vectors close to the bottom eigenvectors


def initial_estimate(observations: Observations) -> InitialEstimate:
    """The map and the rotations of the affine registration: closed form, then refined."""
    spectrum = affine_spectrum(observations, observations.dimension)
    return InitialEstimate(spectrum, fix_gauge(spectrum, observations.stacked))


def affine_spectrum(observations: Observations, modes: int) -> Spectrum:
    """The bottom eigenpairs of the affine cost."""
    stacked = observations.stacked
    return bottom_eigenpairs(affine_cost(stacked), stacked.rank, modes, *metric_of(stacked))


def affine_cost(stacked: StackedClouds) -> CostOperator:
    """The cost that affine warps leave, for all clouds at once (eq. 9 without features)."""
    weights = stacked.weights.T  # (n, m)
    slopes = orthonormal_slopes(stacked.centred, weights, stacked.moments, stacked.ranks)
    n, m, d = slopes.shape
    constants = np.broadcast_to(1 / np.sqrt(stacked.total_weights)[:, None, None], (n, m, 1))
    basis = np.concatenate([slopes, constants], axis=2) * weights[:, :, None]
    return low_rank_cost(stacked.weights.sum(axis=1), np.swapaxes(basis, 0, 1).reshape(m, n * (d + 1)))


def weakest_division(observations: Observations) -> tuple[IndexArray, IndexArray]:
    """The two groups of clouds that come apart most easily.

    The next eigenvector of the affine registration is nearly an affine function of the map within each cloud.
    Where it is another one in one group of clouds than in the rest, only that group's few ties oppose.
    """
    spectrum = affine_spectrum(observations, observations.dimension + 1)
    rank = spectrum.dimension
    functions = np.column_stack([spectrum.vectors[:, :rank], np.ones(len(spectrum.vectors))])
    weak = spectrum.vectors[:, rank]
    said = [functions @ np.linalg.lstsq(functions[c.seen], weak[c.seen], rcond=1e-6)[0] for c in observations.clouds]
    off = np.array(said) - np.mean(said, axis=0)
    along = np.linalg.svd(off, full_matrices=False)[0][:, 0]
    along *= np.sign(along[np.argmax(np.abs(along) > CLEARLY_OFF * np.abs(along).max())])
    other = along < -UNDECIDED * np.abs(along).max()  # a cloud in the middle stays with the first group
    return np.flatnonzero(~other), np.flatnonzero(other)

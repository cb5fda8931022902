"""The affine registration of all clouds: the global initial estimate of everything that iterates.

Affine warps leave the cost  Q_t = W_t - W_t^(1/2) T_t T_t' W_t^(1/2)  with T_t an orthonormal basis of
W_t^(1/2) [P_t, 1]  (theory, eq. 9).  The bottom eigenvectors of  Q = sum_t Q_t  need no initial guess.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..observations.collection import Observations
from ..observations.geometry import CLEAR_DISTANCE, orthonormal_slopes
from ..observations.stacked import StackedClouds
from ..spectrum.eigenpairs import Metric, Spectrum, bottom_eigenpairs
from ..spectrum.operator import CostOperator
from ..spectrum.total import low_rank_cost
from ..typing import Array, IndexArray
from .principal_axes import Gauge
from .scales import fix_gauge

NEITHER_SIDE = 1e-6  # coordinate of a cloud, relative to the largest, below which it is on neither side of a cut


@dataclass(frozen=True)
class InitialEstimate:
    """The affine spectrum, and the map and poses from it."""

    spectrum: Spectrum
    gauge: Gauge


@dataclass(frozen=True)
class Start:
    """What a solve starts from: rotations, and what is known from a solve for nearly the same clouds."""

    rotations: Array  # (n, d, d)
    subspace: Array | None = None  # (m, ...) vectors close to the bottom eigenvectors
    gamma: float | None = None  # of the faithful map; kept if the rule accepts it for these clouds, too
    gamma_is_fixed: bool = False  # whether that gamma is used without asking the rule

    @property
    def is_warm(self) -> bool:
        """Whether nearly the same clouds were solved before, so that the rotations are close to the result."""
        return self.subspace is not None


def initial_estimate(observations: Observations) -> InitialEstimate:
    """The map and the rotations of the affine registration: closed form, then refined."""
    spectrum = affine_spectrum(observations.stacked, observations.dimension)
    return InitialEstimate(spectrum, fix_gauge(spectrum, observations.stacked).gauge)


def affine_spectrum(stacked: StackedClouds, modes: int) -> Spectrum:
    """The bottom eigenpairs of the affine cost."""
    return bottom_eigenpairs(affine_cost(stacked), stacked.rank, modes, Metric.of_clouds(stacked))


def affine_cost(stacked: StackedClouds) -> CostOperator:
    """The cost that affine warps leave, for all clouds at once (eq. 9 without features)."""
    weights = stacked.weights.T  # (n, m)
    slopes = orthonormal_slopes(stacked.centred, weights, stacked.moments, stacked.ranks)
    n, m, d = slopes.shape
    constants = np.broadcast_to(1 / np.sqrt(stacked.total_weights)[:, None, None], (n, m, 1))
    basis = np.concatenate([slopes, constants], axis=2) * weights[:, :, None]
    return low_rank_cost(stacked.weights.sum(axis=1), np.swapaxes(basis, 0, 1).reshape(m, n * (d + 1)))


def weakest_cut(observations: Observations) -> tuple[IndexArray, IndexArray]:
    """The two groups of clouds whose separation costs least; a cloud on neither side counts to the first group.

    Within each cloud, eigenvector d + 1 of the affine cost is nearly an affine function of the map.  If this function
    in one group of clouds differs from that in the rest, only the few landmarks that both groups share oppose it.  The
    groups are the two signs of the first singular vector of these functions.
    """
    spectrum = affine_spectrum(observations.stacked, observations.dimension + 1)
    rank = spectrum.dimension
    affine = np.column_stack([spectrum.vectors[:, :rank], np.ones(len(spectrum.vectors))])
    vector = spectrum.vectors[:, rank]
    functions = np.array(
        [affine @ np.linalg.lstsq(affine[c.seen], vector[c.seen], rcond=1e-6)[0] for c in observations.clouds]
    )
    coordinates = np.linalg.svd(functions - functions.mean(axis=0), full_matrices=False)[0][:, 0]
    largest = np.abs(coordinates).max()
    coordinates *= np.sign(coordinates[np.argmax(np.abs(coordinates) > CLEAR_DISTANCE * largest)])
    other = coordinates < -NEITHER_SIDE * largest
    return np.flatnonzero(~other), np.flatnonzero(other)

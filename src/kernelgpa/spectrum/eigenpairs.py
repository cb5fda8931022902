"""The bottom of the spectrum of Q = sum_t Q_t, in the metric of the landmarks' weights.

Q is symmetric, positive semidefinite and Q 1 = 0 (Theorem 2 of the paper).  Wanted are its smallest eigenpairs other
than the constant one, in the metric of D = (total weight of a landmark) / (number of clouds that see it),

    Q x = lambda D x,      x' D x = 1,

so that a landmark of little weight counts as little in the constraint as it does in the cost; with unit weights
D = I.  The cost operator solves for  S = D^(-1/2) Q D^(-1/2)  with the constants' eigenvalue above all others.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np

from ..observations.stacked import StackedClouds
from ..typing import Array
from .operator import CostOperator, EigenProblem

NO_GAP = 1e-6  # a gap below this share of the eigenvalue above it counts as none
NEARLY = 0.01  # d bottom eigenvalues closer than this share of eigenvalue d+1 nearly coincide


class Uniqueness(Enum):
    """Whether the d bottom eigenvectors, and therefore the map, are determined."""

    UNIQUE = "the d bottom eigenvalues are separated from the rest"
    NO_GAP = (
        "eigenvalues d and d+1 coincide, so the map is not unique; usually two groups of clouds share "
        "too few landmarks, or smoothing is so small that the warps explain anything"
    )


@dataclass(frozen=True)
class Metric:
    """The metric of an eigenvalue problem, and what is known of its accuracy."""

    density: Array  # (m,)  D
    bound: float  # on the largest eigenvalue in this metric
    thinness: float = 1.0  # harmonic mean over the clouds of their smallest over their largest spread

    @classmethod
    def of_clouds(cls, stacked: StackedClouds) -> Metric:
        """D, and the largest number of clouds that see a landmark as the bound."""
        counts = stacked.counts
        return cls(stacked.weights.sum(axis=1) / counts, float(counts.max()), stacked.thinness)

    @classmethod
    def uniform(cls, cost: CostOperator) -> Metric:
        """D = I, and the trace as the bound."""
        return cls(np.ones(cost.landmarks), cost.trace)


@dataclass(frozen=True)
class Spectrum:
    """Bottom eigenpairs of Q other than the constant one, smallest first.

    Attributes
    ----------
    values, vectors : arrays (k + 1,), (m, k)
        Eigenvalues and eigenvectors.
    gap : float
        How far eigenvalue d+1 lies above eigenvalue d, as a share of the former (0 to 1); 1 if there is none.
    uniqueness : Uniqueness
        Whether the d bottom eigenvectors, and therefore the map, are determined.
    nearly_coinciding : bool
        Whether two of the d bottom eigenvalues nearly coincide: noise then decides the axes in their span.
    top : float
        A bound on the largest eigenvalue, which rounding errors are proportional to.
    rounding : float
        Eigenvalues closer than this cannot be distinguished.
    dimension : int
        d, for the gap.
    solver : str
        Which solver ran, and how it ended.
    subspace : array (m, ...) or None
        Vectors from which the spectrum of a similar operator is soon found.
    thinness : float
        Of the clouds: the affine functions of a thin cloud, and with them Q_t, are known to eps over its thinness.
    """

    values: Array
    vectors: Array
    top: float
    dimension: int
    solver: str
    subspace: Array | None = None
    thinness: float = 1.0

    @property
    def gap(self) -> float:
        if len(self.values) <= self.dimension:
            return 1.0
        below, above = self.values[self.dimension - 1 : self.dimension + 1]
        return float((above - below) / above) if above > self.rounding else 0.0

    @property
    def uniqueness(self) -> Uniqueness:
        return Uniqueness.UNIQUE if self.gap > NO_GAP else Uniqueness.NO_GAP

    @property
    def nearly_coinciding(self) -> bool:
        if len(self.values) <= self.dimension:
            return False
        differences = np.diff(self.values[: self.dimension])
        return bool(np.any((differences > self.rounding) & (differences < NEARLY * self.values[self.dimension])))

    @property
    def rounding(self) -> float:
        return (200 + 2 / self.thinness) * np.finfo(np.float64).eps * self.top


def bottom_eigenpairs(
    cost: CostOperator,
    dimension: int,  # d, for the gap
    modes: int,  # k eigenvectors, at least d
    metric: Metric | None = None,  # None: uniform
    subspace: Array | None = None,  # (m, ...) vectors near those at the bottom, if some are known
) -> Spectrum:
    """The k bottom eigenvectors and k + 1 eigenvalues of the total cost.

    Times scales that descend, the first d are the map of lowest cost for these scales (Theorem 3 of the paper).  The
    eigenvalue of the constant vector is raised above all others (Remark 7).
    """
    return _bottom(cost, dimension, modes, metric, subspace, values_only=False)


def bottom_eigenvalues(
    cost: CostOperator, dimension: int, modes: int, metric: Metric | None = None, subspace: Array | None = None
) -> Spectrum:
    """The same with vectors that are no more accurate than the eigenvalues require, for maps that do not need them."""
    return _bottom(cost, dimension, modes, metric, subspace, values_only=True)


def _bottom(
    cost: CostOperator, dimension: int, modes: int, metric: Metric | None, subspace: Array | None, values_only: bool
) -> Spectrum:
    m = cost.landmarks
    uniform = metric is None or bool(np.all(metric.density == 1.0))
    metric = Metric.uniform(cost) if metric is None else metric
    shrink = 1 / np.sqrt(metric.density)  # D^(-1/2)
    scaled = cost if uniform else cost.rescaled(shrink)
    # raised above every other eigenvalue, even those at the bound
    lifted = np.sqrt(2 * metric.bound) / shrink / np.linalg.norm(1 / shrink)
    start = None if subspace is None else subspace / shrink[:, None]
    found = scaled.bottom_eigenpairs(EigenProblem(min(modes + 1, m - 1), lifted, metric.bound, values_only, start))
    vectors = shrink[:, None] * found.vectors[:, :modes]
    similar = None if found.subspace is None else shrink[:, None] * found.subspace
    return Spectrum(found.values, vectors, metric.bound, dimension, found.solver, similar, metric.thinness)

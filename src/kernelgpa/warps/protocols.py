"""The interface between families of warps and the rest of the library: one cloud with its warp eliminated.

    family.prepare(cloud)                    what depends neither on the smoothing nor on the weights
          .reduce(smoothing, weights)        the reduced cloud

A reduced cloud answers three kinds of questions, one protocol each: what a target costs (``CloudCost``), which warp
attains that cost (``WarpFit``), and how uncertain that warp is (``WarpPrediction``).  A function takes the smallest
protocol that it needs.  s is the number of landmarks that the cloud sees, d the dimension.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from scipy.sparse import csr_array

from ..errors import InvalidSetting
from ..observations.cloud import Cloud
from ..typing import Array, IndexArray
from .kernels import Kernel
from .warp import Warp

RELATIVE_ROUNDING = 1e-12  # entries of Q_t below this share of the largest entry are rounding errors


Smoothing = float | tuple[float, ...]  # mu of all clouds, or mu_t of each


class LowRankFactor(NamedTuple):
    """Q_t = diag(weights) - basis basis'"""

    weights: Array  # (s,)
    basis: Array  # (s, q)


class SparseKernel(NamedTuple):
    """Q_t = mu (K + mu W^-1)^-1, except for its affine part, with K sparse."""

    matrix: csr_array  # (s, s), K
    smoothing: float  # mu


class CloudCost(Protocol):
    """The cost of targets Y (s, c) once the best warp is chosen:  tr(Y' Q_t Y)."""

    weights: Array  # (s,), positive

    @property
    def seen(self) -> IndexArray: ...  # (s,), indices of the landmarks that the cloud sees
    @property
    def rounding(self) -> float: ...  # entries of Q_t below this are rounding errors
    def cost_matrix(self) -> Array: ...  # (s, s), Q_t
    def apply(self, targets: Array) -> Array: ...  # (s, c) -> (s, c), Q_t Y
    def diagonal(self) -> Array: ...  # (s,), of Q_t
    def rows(self, some: IndexArray) -> Array: ...  # (b,) -> (b, s), of Q_t

    # Two other representations, for the sum over all clouds; None if the family has none.
    def low_rank_factor(self) -> LowRankFactor | None: ...
    def sparse_kernel(self) -> SparseKernel | None: ...


class WarpFit(Protocol):
    """The warp that attains the cost."""

    @property
    def approximation_error(self) -> float:
        """Root-mean-square distance to the exact kernel warp per unit of energy; 0 if the warp is exact."""
        ...

    def fit_all(self, targets: Sequence[Array]) -> list[Warp]: ...  # one warp for each (s, d)


class WarpPrediction(Protocol):
    """How uncertain the fitted warp is."""

    def variance(self, points: Array) -> Array: ...  # (k, d) -> (k,), in units of the noise variance


class ReducedCloud(CloudCost, WarpFit, WarpPrediction, Protocol):
    """One cloud with its warp eliminated: its cost, its fit and its predictions, from one factorisation."""


class PreparedCloud(Protocol):
    """One cloud under one family: everything that depends neither on the smoothing nor on the weights."""

    def reduce(self, smoothing: float, weights: Array) -> ReducedCloud: ...


class Family(Protocol):
    """A kind of warp with its settings.  It contains all affine functions, at no cost."""

    @property
    def smoothing(self) -> Smoothing: ...
    def features(self, dimension: int) -> int | None: ...  # per cloud; None: one for each point of the cloud
    def neighbours(self, cloud: Cloud) -> float | None: ...  # entries per row of a sparse kernel matrix; None: dense
    def kernel_of_warps(self, dimension: int) -> Kernel | None: ...  # None: the warps are affine
    def prepare(self, cloud: Cloud) -> PreparedCloud: ...


def smoothing_per_cloud(smoothing: Smoothing, count: int) -> tuple[float, ...]:  # (count,)
    """mu_t of each cloud."""
    if not isinstance(smoothing, tuple):
        return (smoothing,) * count
    if len(smoothing) != count:
        raise InvalidSetting(
            f"smoothing has {len(smoothing)} values for {count} clouds; use one, or one for each cloud"
        )
    return smoothing


def common_smoothing(smoothing: Smoothing) -> float:
    """mu where the number of clouds is not known beforehand."""
    if isinstance(smoothing, tuple):
        raise InvalidSetting(
            "smoothing has one value for each cloud; clouds that come one at a time need a single value"
        )
    return smoothing


def reduce(family: Family, cloud: Cloud) -> ReducedCloud:
    """Eliminate the warp of a cloud, with the family's smoothing and the cloud's weights."""
    return family.prepare(cloud).reduce(common_smoothing(family.smoothing), cloud.weights)

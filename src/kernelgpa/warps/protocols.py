"""The seam: one cloud reduced to the cost that remains once its warp is eliminated.

A family of warps (affine, thin-plate, kernel) answers ``prepare(cloud)``, and what comes back answers
``reduce(smoothing, weights)``.  The reduced cloud answers the questions that the rest of the library asks: how much
cost a target leaves, which warp reaches it, and how well that warp predicts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from scipy.sparse import csr_array

from ..observations.cloud import Cloud
from ..typing import Array, IndexArray
from .warp import Warp

LAST_DIGITS = 1e-12  # of the largest entry of Q_t, or of what it is the difference of: smaller ones are rounding


class LowRankFactor(NamedTuple):
    """Q_t = diag(weights) - basis basis'"""

    weights: Array  # (s,)
    basis: Array  # (s, q)


class SparseKernel(NamedTuple):
    """Q_t = mu (K + mu W^-1)^-1 up to its affine part, with K sparse"""

    matrix: csr_array  # (s, s)
    smoothing: float


class ReducedCloud(Protocol):
    """One cloud with its warp eliminated: cost(Y) = tr(Y' Q_t Y)."""

    weights: Array  # (s,)

    @property
    def rounding(self) -> float: ...  # entries of Q_t below this are none
    @property
    def approximation_error(
        self,
    ) -> float: ...  # root mean square per unit of energy; 0: exact
    @property
    def seen(self) -> IndexArray: ...  # (s,)
    def cost_matrix(self) -> Array: ...  # (s, s), Q_t
    def low_rank_factor(self) -> LowRankFactor | None: ...  # Q_t in thin form, if it has one
    def sparse_kernel(self) -> SparseKernel | None: ...  # what Q_t is made of, if that is sparse
    def apply(self, targets: Array) -> Array: ...  # (s, c) -> (s, c), Q_t Y
    def diagonal(self) -> Array: ...  # (s,), of Q_t
    def rows(self, some: IndexArray) -> Array: ...  # (b,) -> (b, s), those of Q_t
    def fit_all(self, targets: Sequence[Array]) -> list[Warp]: ...  # of (s, d) each: the warps with that cost
    def variance(self, points: Array) -> Array: ...  # (k, d) -> (k,), of the warp, in units of the noise variance


class PreparedCloud(Protocol):
    """One cloud under one family: what does not depend on smoothing or weights, and is computed once."""

    def reduce(self, smoothing: float, weights: Array) -> ReducedCloud: ...


class Family(Protocol):
    """A kind of warp with its settings."""

    @property
    def smoothing(self) -> float: ...
    def features(self, dimension: int) -> int | None: ...  # a cloud; None: as many as it has points
    def neighbours(self, cloud: Cloud) -> float | None: ...  # entries a row, where its kernel matrix is sparse
    def prepare(self, cloud: Cloud) -> PreparedCloud: ...


def reduce(family: Family, cloud: Cloud) -> ReducedCloud:
    """A cloud with its warp eliminated, by the family's smoothing and the cloud's weights."""
    return family.prepare(cloud).reduce(family.smoothing, cloud.weights)

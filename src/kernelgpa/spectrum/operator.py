"""What the rest of the library asks of the cost of a map, summed over all clouds:  tr(M' Q M),  Q = sum_t Q_t.

Q is kept dense, as a diagonal minus the products of a few features per cloud (low-rank), or only applied
(matrix-free).  Each of the three answers the same questions: Q x, the trace of Q, the bottom eigenpairs of Q, the
operator without some landmarks, and the solution of

    (scale Q + diag(d) - V V' + l l') x = b .

n clouds, m landmarks, s seen by one cloud, c right-hand sides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
from scipy.linalg.blas import dsyrk

from ..typing import Array, IndexArray
from ..warps import ReducedCloud
from ..warps.leave_out import LeftOut

Apply = Callable[[Array], Array]  # (m, c) -> (m, c), a linear map


@dataclass(frozen=True)
class OperatorLimits:
    """Sizes at which one representation of Q, or one way to solve with it, becomes cheaper than another."""

    dense: int = 400  # landmarks up to which Q is kept dense in any case
    direct: int = 400  # landmarks up to which LAPACK computes the eigenpairs of a dense Q
    dense_features: int = 5000  # landmarks up to which Q is dense if the features are half as many or more
    woodbury: int = 6000  # features of all clouds up to which the Woodbury identity is used

    def prefers_dense(self, landmarks: int, features: float) -> bool:
        """Whether a dense Q is the cheaper one, and within the limits of memory."""
        return landmarks <= self.dense or (2 * features >= landmarks and landmarks <= self.dense_features)


LIMITS = OperatorLimits()


@dataclass(frozen=True, eq=False)
class DiagonalPlusLowRank:
    """diag(d) - V V' + l l', which is added to a multiple of Q."""

    diagonal: Array  # (m,)  d
    columns: Array  # (m, k)  V
    lifted: Array  # (m,)  l
    square: Array | None = None  # (m, m)  V V', if it is known

    def apply(self, x: Array) -> Array:  # (m, c) -> (m, c)
        image = (self.diagonal * x.T).T - self.columns @ (self.columns.T @ x)
        return np.asarray(image + np.multiply.outer(self.lifted, self.lifted @ x))

    def add_to(self, lower: Array) -> None:
        """Add to the lower triangle of a matrix in Fortran order."""
        if self.square is not None:
            np.subtract(lower, self.square, out=lower)
        elif self.columns.shape[1]:
            dsyrk(-1.0, self.columns, 1.0, lower, lower=True, overwrite_c=True)
        dsyrk(1.0, self.lifted[:, None], 1.0, lower, lower=True, overwrite_c=True)
        lower[np.diag_indices_from(lower)] += self.diagonal

    @cached_property
    def lower_triangle(self) -> Array:  # (m, m), in Fortran order
        lower = np.zeros((len(self.diagonal),) * 2, order="F")
        self.add_to(lower)
        return lower


@dataclass(frozen=True)
class EigenProblem:
    """The bottom eigenpairs of  Q + l l',  where l raises the eigenvalue of the constants above all others."""

    wanted: int  # eigenpairs
    lifted: Array  # (m,)  l
    bound: float  # on the largest eigenvalue of Q
    values_only: bool = False  # the vectors need not be more accurate than the values require
    start: Array | None = None  # (m, k) vectors near those at the bottom, if some are known


class Eigenpairs(NamedTuple):
    """Eigenvalues in ascending order with their vectors, and the solver that ran."""

    values: Array  # (k,)
    vectors: Array  # (m, k)
    solver: str
    subspace: Array | None = None  # (m, ...) from which the eigenpairs of a similar operator are soon found


@dataclass(frozen=True)
class Removal:
    """Landmarks to be removed, and what each cloud loses with them."""

    kept: IndexArray  # (k,) landmarks that stay
    clouds: Sequence[ReducedCloud]  # (n,)
    lost: Sequence[LeftOut | None]  # (n,); None: the cloud saw none of them

    def renumbered(self, landmarks: int) -> IndexArray:  # (m,)
        """The new index of each landmark; -1 for those that are removed."""
        numbers = np.full(landmarks, -1, dtype=np.intp)
        numbers[self.kept] = np.arange(len(self.kept))
        return numbers


class CostOperator(Protocol):
    """The cost of a map, summed over all clouds:  tr(M' Q M)."""

    @property
    def landmarks(self) -> int: ...
    @property
    def trace(self) -> float: ...
    @property
    def approximation(self) -> CostOperator | None:
        """A cheaper operator that is close to this one, if every solve with this one is a long iteration."""
        ...

    def apply(self, x: Array) -> Array: ...  # (m, c) -> (m, c), Q x
    def dense_matrix(self) -> Array: ...  # (m, m)
    def rescaled(self, factors: Array) -> CostOperator: ...  # diag(factors) Q diag(factors); ``without`` comes before
    def solver(self, scale: float, added: DiagonalPlusLowRank) -> Apply:
        """The solution of  (scale Q + added) x = b,  whose matrix must be positive definite."""
        ...

    def bottom_eigenpairs(self, problem: EigenProblem) -> Eigenpairs: ...
    def without(self, removal: Removal) -> CostOperator:
        """The cost of the other landmarks: sum_t Q_AA - Q_AB Q_BB^-1 Q_BA with the rows B removed (theory, eq. 17)."""
        ...

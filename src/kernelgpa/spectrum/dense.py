"""Q as a dense matrix: one Cholesky factorisation for each system, LAPACK or Krylov for the eigenpairs."""

from __future__ import annotations

from functools import partial

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, eigh
from scipy.linalg.lapack import dpotrs

from .._numerics.allocation import allocate
from .._numerics.threads import free_cores_for
from ..errors import NumericalFailure
from ..typing import Array
from .krylov import EIGENVALUE_SHIFT, shift_invert
from .operator import LIMITS, Apply, DiagonalPlusLowRank, Eigenpairs, EigenProblem, OperatorLimits, Removal

MOST_KEPT = 3000  # landmarks up to which the part of a system that does not depend on its scale is kept


class DenseCost:
    """Q (m, m)."""

    approximation = None

    def __init__(self, matrix: Array, limits: OperatorLimits = LIMITS) -> None:
        self.matrix, self.limits = matrix, limits

    @property
    def landmarks(self) -> int:
        return len(self.matrix)

    @property
    def trace(self) -> float:
        return float(np.trace(self.matrix))

    def apply(self, x: Array) -> Array:
        return np.asarray(self.matrix @ x)

    def dense_matrix(self) -> Array:
        return self.matrix

    def rescaled(self, factors: Array) -> DenseCost:
        return DenseCost(factors[:, None] * self.matrix * factors, self.limits)

    def solver(self, scale: float, added: DiagonalPlusLowRank) -> Apply:
        # in the order of LAPACK, which reads and writes the lower triangle alone
        system = np.multiply(self.matrix, scale, out=allocate(*self.matrix.shape)).T
        if added.square is None and added.columns.shape[1] and self.limits.dense < self.landmarks <= MOST_KEPT:
            system += added.lower_triangle
        else:
            added.add_to(system)
        try:
            with free_cores_for(len(system)):
                factor = cho_factor(system, lower=True, overwrite_a=True, check_finite=False)
        except LinAlgError:
            raise NumericalFailure(
                "the total cost is not positive definite in double precision; raise smoothing"
            ) from None
        return partial(_solve, factor[0])

    def bottom_eigenpairs(self, problem: EigenProblem) -> Eigenpairs:
        m = self.landmarks
        if m <= self.limits.direct or problem.wanted > m // 4:
            lifted = self.matrix + np.outer(problem.lifted, problem.lifted)
            return Eigenpairs(*_lowest(lifted, problem.wanted), "dense: LAPACK, partial")
        shift = EIGENVALUE_SHIFT * np.full(m, problem.bound)
        return shift_invert(self, shift, problem, "dense: Cholesky and Krylov")

    def without(self, removal: Removal) -> DenseCost:
        root = np.zeros((sum(len(lost.rows) for lost in removal.lost if lost is not None), self.landmarks))
        first = 0
        for cloud, lost in zip(removal.clouds, removal.lost, strict=True):
            if lost is not None:
                root[first : first + len(lost.rows), cloud.seen[lost.kept]] = lost.root
                first += len(lost.rows)
        root = root[:, removal.kept]
        return DenseCost(self.matrix[np.ix_(removal.kept, removal.kept)] - root.T @ root, self.limits)


def _solve(lower: Array, right: Array) -> Array:
    """(L L')^-1 right; SciPy's ``cho_solve`` takes as long to check its arguments as to solve a small system."""
    return np.asarray(dpotrs(lower, right, lower=1)[0])


def _lowest(matrix: Array, wanted: int) -> tuple[Array, Array]:
    try:
        return eigh(matrix, subset_by_index=(0, wanted - 1))
    except LinAlgError:  # LAPACK's partial solver fails on some clusters that the full one solves
        values, vectors = eigh(matrix, driver="evd")
        return values[:wanted], vectors[:, :wanted]

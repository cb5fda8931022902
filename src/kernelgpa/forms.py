"""What is left of the cost of all clouds together: tr(M' Q M), Q = sum_t Q_t.

Dense, Q is a matrix.  Thin, it is never formed: Q = diag - B B' with the features of all clouds side by
side.  Both answer the only two questions that are asked of them: Q x, and the inverse of

    S = scale Q + diag(d) - V V' + l l'

dense by one Cholesky factorisation, thin by Woodbury with a system of the size of all features together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, lu_factor, lu_solve

from .errors import NumericalFailure
from .frames import Array
from .warps import ReducedCloud

SMALL = 400  # landmarks below which a dense form costs nothing

Apply = Callable[[Array], Array]  # (m, c) -> (m, c)


class Form(Protocol):
    """The cost of a map, all clouds together."""

    @property
    def landmarks(self) -> int: ...
    @property
    def total(self) -> float:
        """tr Q, the yardstick for rounding."""
        ...

    def apply(self, x: Array) -> Array: ...
    def rescaled(self, factors: Array) -> Form:
        """diag(factors) Q diag(factors)"""
        ...

    def inverse(self, scale: float, diagonal: Array, columns: Array, lifted: Array) -> Apply:
        """x -> (scale Q + diag(diagonal) - columns columns' + lifted lifted')^-1 x, which must be positive definite."""
        ...


@dataclass(frozen=True)
class DenseForm:
    matrix: Array  # (m, m)

    @property
    def landmarks(self) -> int:
        return len(self.matrix)

    @property
    def total(self) -> float:
        return float(np.trace(self.matrix))

    def apply(self, x: Array) -> Array:
        return self.matrix @ x

    def rescaled(self, factors: Array) -> DenseForm:
        return DenseForm(factors[:, None] * self.matrix * factors)

    def inverse(self, scale: float, diagonal: Array, columns: Array, lifted: Array) -> Apply:
        S = scale * self.matrix
        if columns.shape[1]:
            S -= columns @ columns.T
        S += np.outer(lifted, lifted)
        S[np.diag_indices_from(S)] += diagonal
        try:
            factor = cho_factor(S, lower=True, overwrite_a=True, check_finite=False)
        except LinAlgError:
            raise NumericalFailure(
                "the total cost is not positive definite in double precision; raise smoothing"
            ) from None
        return lambda x: cho_solve(factor, x, check_finite=False)


@dataclass(frozen=True)
class ThinForm:
    diagonal: Array  # (m,)
    basis: Array  # (m, q)

    @property
    def landmarks(self) -> int:
        return len(self.diagonal)

    @property
    def total(self) -> float:
        return float(self.diagonal.sum() - np.sum(self.basis**2))

    def apply(self, x: Array) -> Array:
        scaled: Array = (self.diagonal * x.T).T
        return scaled - self.basis @ (self.basis.T @ x)

    def rescaled(self, factors: Array) -> ThinForm:
        return ThinForm(factors**2 * self.diagonal, factors[:, None] * self.basis)

    def inverse(self, scale: float, diagonal: Array, columns: Array, lifted: Array) -> Apply:
        main = scale * self.diagonal + diagonal
        U = np.column_stack([np.sqrt(scale) * self.basis, columns, lifted])
        signs = np.append(-np.ones(U.shape[1] - 1), 1.0)
        inner = lu_factor(np.diag(signs) + U.T @ (U / main[:, None]))

        def solve(x: Array) -> Array:
            scaled = (x.T / main).T
            correction: Array = U @ lu_solve(inner, U.T @ scaled)
            return scaled - (correction.T / main).T

        return solve


def accumulate(clouds: Sequence[ReducedCloud], landmarks: int) -> Form:
    """The sum of the clouds' forms, thin where they all are and that pays."""
    factors = [cloud.factor() for cloud in clouds]
    features = sum(factor.basis.shape[1] for factor in factors if factor is not None)
    if landmarks <= SMALL or 2 * features >= landmarks or any(factor is None for factor in factors):
        return _dense(clouds, landmarks)
    return _thin(clouds, landmarks, features)


def _dense(clouds: Sequence[ReducedCloud], landmarks: int) -> DenseForm:
    Q = np.zeros((landmarks, landmarks))
    for cloud in clouds:
        Q[np.ix_(cloud.seen, cloud.seen)] += cloud.form()
    return DenseForm(Q)


def _thin(clouds: Sequence[ReducedCloud], landmarks: int, features: int) -> ThinForm:
    diagonal, basis = np.zeros(landmarks), np.zeros((landmarks, features))
    first = 0
    for cloud in clouds:
        factor = cloud.factor()
        if factor is not None:
            width = factor.basis.shape[1]
            diagonal[cloud.seen] += factor.weights
            basis[cloud.seen, first : first + width] = factor.basis
            first += width
    return ThinForm(diagonal, basis)

"""The cost of all clouds together where it is never formed, only applied: conjugate gradients.

Where the kernels of the clouds are sparse, Q x costs a sparse solve a cloud.  All clouds are about as far from rigid
copies of one another as their warps bend, so with the mean K of their kernels and C = sum_t W_t

    Q  is like  C^(1/2) mu (K + mu)^-1 C^(1/2),

up to the few affine directions, and a sparse factorisation of K preconditions whatever is asked of Q.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import LinAlgError
from scipy.sparse import csc_array, diags_array

from .._numerics.sparse import factorised
from .._numerics.threads import parallel_map
from ..errors import NumericalFailure
from ..typing import Array, IndexArray
from ..warps.protocols import SparseKernel

SOLVED = 1e-11  # residual of conjugate gradients, as a share of the right-hand side
MOST_STEPS = 300

Apply = Callable[[Array], Array]  # (m, c) -> (m, c)


def conjugate_gradients(apply: Apply, precondition: Apply, right: Array) -> Array:
    """x with apply(x) = right, for all columns at once."""
    columns = right.reshape(len(right), -1)
    x, residual = np.zeros_like(columns), columns.copy()
    target = SOLVED * np.linalg.norm(columns, axis=0)
    direction = np.zeros_like(columns)
    energy = np.ones(columns.shape[1])
    for _ in range(MOST_STEPS):
        if np.all(np.linalg.norm(residual, axis=0) <= target):
            return x.reshape(right.shape)
        preconditioned = precondition(residual)
        renewed = np.einsum("mc,mc->c", residual, preconditioned)
        direction = preconditioned + direction * (renewed / energy)
        energy = np.where(renewed > 0, renewed, 1.0)
        image = apply(direction)
        bend = np.einsum("mc,mc->c", direction, image)
        step = np.divide(renewed, bend, out=np.zeros_like(bend), where=bend > 0)
        x += step * direction
        residual -= step * image
    raise NumericalFailure(
        f"the map did not settle in {MOST_STEPS} steps of conjugate gradients; raise smoothing, or use fewer "
        "inducing points if there are any"
    )


@dataclass(frozen=True)
class TypicalKernel:
    """The mean of the clouds' kernels."""

    matrix: csc_array  # (m, m)
    smoothing: float

    def only(self, kept: IndexArray) -> TypicalKernel:
        return TypicalKernel(self.matrix[kept][:, kept], self.smoothing)

    def inverse_like(self, scale: float, share: float) -> Apply:
        """x -> (scale mu (K + mu)^-1 + share)^-1 x"""
        mu = self.smoothing
        if share == 0:
            return lambda x: (self.matrix @ x + mu * x) / (scale * mu)
        # (1 - scale mu (scale mu + share (K + mu))^-1) / share
        eye = diags_array(np.full(self.matrix.shape[0], (scale + share) * mu))
        try:
            inner = factorised(share * self.matrix + eye)
        except LinAlgError:
            raise NumericalFailure(
                "the clouds' kernels are not positive definite in double precision; raise smoothing"
            ) from None
        return lambda x: (x - scale * mu * inner.solve(x)) / share


def typical_kernel(clouds: Sequence[tuple[IndexArray, Array, SparseKernel]], landmarks: int) -> TypicalKernel:
    """sum_t W_t^(1/2) K_t W_t^(1/2), each entry over the root of how many clouds see its two landmarks: positive."""
    total = csc_array((landmarks, landmarks))
    counts = np.zeros(landmarks)
    for seen, weights, kernel in clouds:
        counts[seen] += 1
        own = kernel.matrix.tocoo()
        rows, columns = own.coords
        data = own.data * np.sqrt(weights[rows] * weights[columns])
        total = total + csc_array((data, (seen[rows], seen[columns])), shape=(landmarks, landmarks))
    shrink = diags_array(1 / np.sqrt(np.maximum(counts, 1)))
    return TypicalKernel(csc_array(shrink @ total @ shrink), clouds[0][2].smoothing)


class Member(NamedTuple):
    """One cloud: Q_t x."""

    seen: IndexArray  # (s,)
    apply: Apply


@dataclass(frozen=True)
class MatrixFreeCost:
    """diag(factors) (sum_t Q_t) diag(factors)"""

    members: tuple[Member, ...]
    diagonal: Array  # (m,) of sum_t Q_t
    weights: Array  # (m,) C
    typical: TypicalKernel
    factors: Array  # (m,)

    @property
    def landmarks(self) -> int:
        return len(self.weights)

    @property
    def total(self) -> float:
        return float(self.factors**2 @ self.diagonal)

    def apply(self, x: Array) -> Array:
        scaled = (self.factors * x.T).T
        image = np.zeros_like(scaled)
        # one cloud on each core: a sparse solve lets go of the interpreter
        parts = parallel_map(lambda member: member.apply(scaled[member.seen]), self.members)
        for member, part in zip(self.members, parts, strict=True):
            image[member.seen] += part
        return (self.factors * image.T).T

    def rescaled(self, factors: Array) -> MatrixFreeCost:
        return MatrixFreeCost(self.members, self.diagonal, self.weights, self.typical, self.factors * factors)

    def inverse(self, scale: float, diagonal: Array, columns: Array, lifted: Array) -> Apply:
        precondition = self.precondition(scale, diagonal)

        def apply(x: Array) -> Array:
            image = scale * self.apply(x) + (diagonal * x.T).T
            return np.asarray(image - columns @ (columns.T @ x) + np.multiply.outer(lifted, lifted @ x))

        return lambda x: conjugate_gradients(apply, precondition, x)

    def precondition(self, scale: float, diagonal: Array) -> Apply:
        """What is like the inverse of  scale Q + diag(diagonal)."""
        outer = 1 / (np.sqrt(self.weights) * self.factors)
        like = self.typical.inverse_like(scale, float(np.mean(diagonal * outer**2)))
        return lambda x: (outer * like((outer * x.T).T).T).T

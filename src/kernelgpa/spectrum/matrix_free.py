"""Q only applied, never formed, for clouds whose kernels are sparse: each product costs one sparse solve per cloud.

All clouds are rigid copies of one another up to the bending of their warps.  With the mean K of their kernel matrices
and C = sum_t W_t, therefore,

    Q  is close to  C^(1/2) mu (K + mu)^-1 C^(1/2),

except for the few affine directions, and a sparse factorisation of K preconditions every iteration with Q.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.linalg import LinAlgError
from scipy.sparse import csc_array, diags_array

from .._numerics.sparse import factorised
from .._numerics.threads import parallel_map
from ..errors import NumericalFailure
from ..typing import Array, IndexArray
from ..warps import ReducedCloud
from ..warps.leave_out import LeftOut
from .dense import DenseCost
from .krylov import BLOCK_SHARE, START_SEED, conjugate_gradients, preconditioned_eigenpairs
from .operator import Apply, DiagonalPlusLowRank, Eigenpairs, EigenProblem, Removal


@dataclass(frozen=True)
class MeanKernel:
    """The mean of the clouds' kernel matrices, K."""

    matrix: csc_array  # (m, m)
    smoothing: float

    @classmethod
    def of_clouds(cls, clouds: Sequence[ReducedCloud], landmarks: int) -> MeanKernel:
        """sum_t W_t^(1/2) K_t W_t^(1/2), each entry over the root of how many clouds see its two landmarks.

        This is positive semidefinite.
        """
        total, counts, smoothing = csc_array((landmarks, landmarks)), np.zeros(landmarks), 0.0
        for cloud in clouds:
            kernel = cloud.sparse_kernel()
            if kernel is None:
                continue
            smoothing = smoothing or kernel.smoothing
            counts[cloud.seen] += 1
            own = kernel.matrix.tocoo()
            rows, columns = own.coords
            data = own.data * np.sqrt(cloud.weights[rows] * cloud.weights[columns])
            total = total + csc_array((data, (cloud.seen[rows], cloud.seen[columns])), shape=total.shape)
        shrink = diags_array(1 / np.sqrt(np.maximum(counts, 1)))
        return cls(csc_array(shrink @ total @ shrink), smoothing)

    def only(self, kept: IndexArray) -> MeanKernel:
        return MeanKernel(self.matrix[kept][:, kept], self.smoothing)

    def preconditioner(self, scale: float, shift: float) -> Apply:
        """x -> (scale mu (K + mu)^-1 + shift)^-1 x"""
        mu = self.smoothing
        if shift == 0:
            return lambda x: (self.matrix @ x + mu * x) / (scale * mu)
        # (1 - scale mu (scale mu + shift (K + mu))^-1) / shift
        eye = diags_array(np.full(self.matrix.shape[0], (scale + shift) * mu))
        try:
            inner = factorised(shift * self.matrix + eye)
        except LinAlgError:
            raise NumericalFailure(
                "the clouds' kernels are not positive definite in double precision; raise smoothing"
            ) from None
        return lambda x: (x - scale * mu * inner.solve(x)) / shift


class CloudOperator(NamedTuple):
    """One cloud:  x -> Q_t x."""

    seen: IndexArray  # (s,)
    apply: Apply


@dataclass(frozen=True)
class MatrixFreeCost:
    """diag(factors) (sum_t Q_t) diag(factors)"""

    clouds: tuple[CloudOperator, ...]
    diagonal: Array  # (m,) of sum_t Q_t
    weights: Array  # (m,) C
    mean_kernel: MeanKernel
    factors: Array  # (m,)
    approximation: None = None

    @classmethod
    def of_clouds(cls, clouds: Sequence[ReducedCloud], landmarks: int) -> MatrixFreeCost:
        diagonal, weights = np.zeros(landmarks), np.zeros(landmarks)
        for cloud in clouds:
            diagonal[cloud.seen] += cloud.diagonal()
            weights[cloud.seen] += cloud.weights
        operators = tuple(CloudOperator(cloud.seen, cloud.apply) for cloud in clouds)
        return cls(operators, diagonal, weights, MeanKernel.of_clouds(clouds, landmarks), np.ones(landmarks))

    @property
    def landmarks(self) -> int:
        return len(self.weights)

    @property
    def trace(self) -> float:
        return float(self.factors**2 @ self.diagonal)

    def apply(self, x: Array) -> Array:
        scaled = (self.factors * x.T).T
        image = np.zeros_like(scaled)
        # one cloud on each core: a sparse solve releases the interpreter lock
        parts = parallel_map(lambda cloud: cloud.apply(scaled[cloud.seen]), self.clouds)
        for cloud, part in zip(self.clouds, parts, strict=True):
            image[cloud.seen] += part
        return (self.factors * image.T).T

    def dense_matrix(self) -> Array:
        return self.apply(np.eye(self.landmarks))

    def rescaled(self, factors: Array) -> MatrixFreeCost:
        return replace(self, factors=self.factors * factors)

    def solver(self, scale: float, added: DiagonalPlusLowRank) -> Apply:
        precondition = self._preconditioner(scale, added.diagonal)
        return lambda x: conjugate_gradients(lambda y: scale * self.apply(y) + added.apply(y), precondition, x)

    def _preconditioner(self, scale: float, diagonal: Array) -> Apply:
        """An approximate inverse of  scale Q + diag(diagonal)."""
        outer = 1 / (np.sqrt(self.weights) * self.factors)
        inner = self.mean_kernel.preconditioner(scale, float(np.mean(diagonal * outer**2)))
        return lambda x: (outer * inner((outer * x.T).T).T).T

    def bottom_eigenpairs(self, problem: EigenProblem) -> Eigenpairs:
        m = self.landmarks
        if BLOCK_SHARE * problem.wanted >= m:
            return DenseCost(self.dense_matrix()).bottom_eigenpairs(problem)
        precondition = self._preconditioner(1.0, np.zeros(m))
        start = precondition(np.random.default_rng(START_SEED).standard_normal((m, problem.wanted)))
        return Eigenpairs(*preconditioned_eigenpairs(self, precondition, start, problem), "matrix-free: LOBPCG")

    def without(self, removal: Removal) -> MatrixFreeCost:
        renumbered = removal.renumbered(self.landmarks)
        diagonal, operators = self.diagonal.copy(), list[CloudOperator]()
        for cloud, lost in zip(removal.clouds, removal.lost, strict=True):
            if lost is None:
                operators.append(CloudOperator(renumbered[cloud.seen], cloud.apply))
                continue
            diagonal[cloud.seen[lost.kept]] -= np.einsum("ba,ba->a", lost.root, lost.root)
            operators.append(CloudOperator(renumbered[cloud.seen[lost.kept]], _apply_without(cloud, lost)))
        kept = removal.kept
        mean_kernel = self.mean_kernel.only(kept)
        return MatrixFreeCost(tuple(operators), diagonal[kept], self.weights[kept], mean_kernel, np.ones(len(kept)))


def _apply_without(cloud: ReducedCloud, lost: LeftOut) -> Apply:
    def apply(x: Array) -> Array:
        whole = np.zeros((len(cloud.seen), *x.shape[1:]))
        whole[lost.kept] = x
        return np.asarray(cloud.apply(whole)[lost.kept] - lost.root.T @ (lost.root @ x))

    return apply

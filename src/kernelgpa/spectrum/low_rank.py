"""Q as a diagonal minus products of features, never formed:  Q = diag(weights) - sum_t B_t B_t'.

Systems are solved by the Woodbury identity, with a matrix of the size of all features of all clouds.  If the added
diagonal is a multiple of the total weights, that matrix holds the same products  B_s' diag^-1 B_t  for every scale,
and they are computed once.  If the features are too many for that, systems are solved by conjugate gradients,
preconditioned with an approximation of Q that has few features.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.linalg import eigh, lu_factor, lu_solve, solve_triangular
from scipy.linalg.blas import dsyrk

from .._numerics.allocation import allocate, zeros
from .._numerics.lapack import fill_upper_triangle
from .._numerics.threads import free_cores_for, parallel_map
from ..typing import Array, IndexArray
from ..warps import ReducedCloud
from .dense import DenseCost
from .krylov import BLOCK_SHARE, EIGENVALUE_SHIFT, conjugate_gradients, preconditioned_eigenpairs, shift_invert
from .operator import LIMITS, Apply, DiagonalPlusLowRank, Eigenpairs, EigenProblem, OperatorLimits, Removal

FEATURE_ROWS = 2000  # landmarks at a time in products of features
GRAM_TILE = 400  # features at a time in products of features with each other, which several threads compute
PARALLEL_FEATURES = 1_000_000  # numbers in all features from which several threads are used
LEAST_EXPLAINED = 0.3  # share of a direction's weight that the features explain, below which an approximation omits it
OVERSAMPLING = 20  # random directions beyond those that may be kept
POWER_ITERATIONS = 2  # of the random directions
RANDOM_SEED = 20231
PROPORTIONAL = 1e-14  # relative spread below which two diagonals are multiples of each other


@dataclass(frozen=True)
class Block:
    """One cloud:  diag(weights) - basis basis'."""

    seen: IndexArray  # (s,)
    weights: Array  # (s,)
    basis: Array  # (s, q)

    def rows_within(self, landmarks: slice) -> slice:
        """The rows of the basis that belong to a range of landmarks."""
        return slice(*np.searchsorted(self.seen, [landmarks.start, landmarks.stop]))


@dataclass(frozen=True)
class TotalFeatures:
    """The features of all clouds side by side, B (m, q), and the total weights of the landmarks."""

    weights: Array  # (m,)
    blocks: tuple[Block, ...]
    limits: OperatorLimits = LIMITS

    @classmethod
    def of_clouds(
        cls, clouds: Sequence[ReducedCloud], landmarks: int, limits: OperatorLimits = LIMITS
    ) -> TotalFeatures:
        """The features of reduced clouds that have a low-rank form."""
        weights, blocks = np.zeros(landmarks), []
        for cloud in clouds:
            factor = cloud.low_rank_factor()
            if factor is not None:
                weights[cloud.seen] += factor.weights
                blocks.append(Block(cloud.seen, factor.weights, factor.basis))
        return cls(weights, tuple(blocks), limits)

    @property
    def landmarks(self) -> int:
        return len(self.weights)

    @property
    def count(self) -> int:
        return sum(block.basis.shape[1] for block in self.blocks)

    def transposed(self, x: Array) -> Array:  # (m, ...) -> (q, ...), B' x
        return np.concatenate(parallel_map(lambda block: block.basis.T @ x[block.seen], self.blocks, self._jobs))

    def combined(self, z: Array) -> Array:  # (q, ...) -> (m, ...), B z
        image = np.zeros((self.landmarks, *z.shape[1:]))
        parts = np.split(z, np.cumsum([block.basis.shape[1] for block in self.blocks])[:-1])

        def add_rows(rows: slice) -> None:
            for block, part in zip(self.blocks, parts, strict=True):
                own = block.rows_within(rows)
                image[block.seen[own]] += block.basis[own] @ part

        parallel_map(add_rows, self._batches, self._jobs)
        return image

    @property
    def _batches(self) -> list[slice]:
        """The landmarks in batches."""
        m = self.landmarks
        return [slice(first, min(first + FEATURE_ROWS, m)) for first in range(0, m, FEATURE_ROWS)]

    @property
    def _jobs(self) -> int | None:
        """One thread for few numbers, which take less time than starting threads."""
        return None if self.landmarks * self.count >= PARALLEL_FEATURES else 1

    @cached_property
    def weighted_gram(self) -> Array:  # (q, q)
        """B' diag(weights)^-1 B, which no rescaling changes."""
        return self.gram(1 / self.weights)

    def gram(self, diagonal: Array) -> Array:  # (m,) -> (q, q), B' diag(diagonal) B
        total = zeros(self.count, self.count).T
        columns = [slice(first, first + GRAM_TILE) for first in range(0, self.count, GRAM_TILE)]
        tiles = [(i, j) for i in columns for j in columns if i.start >= j.start]
        for part in self._batches:
            rows = self._rows(self.blocks, part)
            rows *= np.sqrt(diagonal[part])[:, None]

            def add_tile(tile: tuple[slice, slice], rows: Array = rows) -> None:
                total[tile] += rows[:, tile[0]].T @ rows[:, tile[1]]

            parallel_map(add_tile, tiles, self._jobs)
        return fill_upper_triangle(total)

    def dense_matrix(self) -> Array:  # (m, m), diag(weights) - B B'
        total = zeros(self.landmarks, self.landmarks).T  # in the order of LAPACK, which works in place
        for blocks in self._groups():
            rows = self._rows(blocks, slice(0, self.landmarks))
            total = dsyrk(-1.0, rows.T, 1.0, total, trans=True, lower=True, overwrite_c=True)
        matrix = fill_upper_triangle(total)
        matrix[np.diag_indices_from(matrix)] += self.weights
        return matrix

    def _groups(self) -> Iterator[tuple[Block, ...]]:
        """Blocks in groups of fewer features than landmarks, so that no copy is larger than Q."""
        group, features = list[Block](), 0
        for block in self.blocks:
            if group and features + block.basis.shape[1] > self.landmarks:
                yield tuple(group)
                group, features = [], 0
            group.append(block)
            features += block.basis.shape[1]
        yield tuple(group)

    @staticmethod
    def _rows(blocks: Sequence[Block], part: slice) -> Array:
        """The features of some blocks at some landmarks."""
        rows = np.zeros((part.stop - part.start, sum(block.basis.shape[1] for block in blocks)))
        column = 0
        for block in blocks:
            own, width = block.rows_within(part), block.basis.shape[1]
            rows[block.seen[own] - part.start, column : column + width] = block.basis[own]
            column += width
        return rows

    @cached_property
    def approximation(self) -> TotalFeatures | None:
        """Few features that explain nearly the same, if these are too many for the Woodbury identity; else None.

        B B', in units of the weights, has eigenvalues from 0 to 1 and a known trace.  Those above a half are therefore
        fewer than twice the trace, and are found, with their vectors and some smaller ones, from a random block of that
        width.  On the directions left out the two operators differ by less than a factor of two.
        """
        if self.count <= self.limits.woodbury:
            return None
        root = np.sqrt(self.weights)[:, None]

        def explained(x: Array) -> Array:
            return self.combined(self.transposed(x / root)) / root

        total = sum(float(np.sum(block.basis**2 / self.weights[block.seen, None])) for block in self.blocks)
        width = min(int(np.ceil(2 * total)) + OVERSAMPLING, self.landmarks // 2, self.limits.woodbury)
        space = np.random.default_rng(RANDOM_SEED).standard_normal((self.landmarks, width))
        for _ in range(POWER_ITERATIONS):
            space = np.linalg.qr(explained(space))[0]
        shares, mix = eigh(space.T @ explained(space))
        kept = shares > LEAST_EXPLAINED
        basis = root * (space @ (mix[:, kept] * np.sqrt(np.minimum(shares[kept], 1.0))))
        return TotalFeatures(self.weights, (Block(np.arange(self.landmarks), self.weights, basis),), self.limits)


class LowRankCost:
    """diag(factors) (diag(weights) - B B') diag(factors)"""

    def __init__(self, features: TotalFeatures, factors: Array | None = None) -> None:
        self.features = features
        self.factors = np.ones(features.landmarks) if factors is None else factors  # (m,)

    @property
    def landmarks(self) -> int:
        return self.features.landmarks

    @property
    def diagonal(self) -> Array:  # (m,) of the first term
        return self.factors**2 * self.features.weights

    @property
    def trace(self) -> float:
        explained = sum(
            float(self.factors[block.seen] ** 2 @ np.einsum("sq,sq->s", block.basis, block.basis))
            for block in self.features.blocks
        )
        return float(self.diagonal.sum()) - explained

    @property
    def approximation(self) -> LowRankCost | None:
        few = self.features.approximation
        return None if few is None else LowRankCost(few, self.factors)

    def apply(self, x: Array) -> Array:
        scaled = (self.factors * x.T).T
        explained = self.features.combined(self.features.transposed(scaled))
        return (self.factors * (self.features.weights * scaled.T - explained.T)).T

    def dense_matrix(self) -> Array:
        return self.factors[:, None] * self.features.dense_matrix() * self.factors

    def rescaled(self, factors: Array) -> LowRankCost:
        return LowRankCost(self.features, self.factors * factors)

    def solver(self, scale: float, added: DiagonalPlusLowRank) -> Apply:
        if self.approximation is None:
            return self._woodbury(scale, added)
        precondition = self.approximation.solver(scale, added)
        return lambda x: conjugate_gradients(lambda y: scale * self.apply(y) + added.apply(y), precondition, x)

    def _woodbury(self, scale: float, added: DiagonalPlusLowRank) -> Apply:
        main = scale * self.diagonal + added.diagonal
        others = np.column_stack([added.columns, added.lifted])
        share = main / self.diagonal
        proportional = bool(np.ptp(share) <= PROPORTIONAL * share[0])
        gram = self.features.weighted_gram if proportional else self.features.gram(self.factors**2 / main)
        gram_scale = scale / share[0] if proportional else scale
        across = np.sqrt(scale) * self._transposed(others / main[:, None])
        q = self.features.count
        inner = allocate(q + others.shape[1], q + others.shape[1]).T  # in the order of LAPACK, which works in place
        np.multiply(gram, gram_scale, out=inner[:q, :q])
        inner[:q, q:], inner[q:, :q] = across, across.T
        inner[q:, q:] = others.T @ (others / main[:, None])
        inner[np.diag_indices_from(inner)] -= 1.0
        inner[-1, -1] += 2.0  # the lifted vector counts with the other sign
        with free_cores_for(len(inner)):
            factor = lu_factor(inner, overwrite_a=True, check_finite=False)

        def solve(x: Array) -> Array:
            scaled = (x.T / main).T
            held = np.concatenate([np.sqrt(scale) * self._transposed(scaled), others.T @ scaled])
            moved = lu_solve(factor, held, check_finite=False)
            back = np.sqrt(scale) * self._combined(moved[:q]) + others @ moved[q:]
            return np.asarray(scaled - (back.T / main).T)

        return solve

    def _transposed(self, x: Array) -> Array:  # (m, ...) -> (q, ...)
        return self.features.transposed((self.factors * x.T).T)

    def _combined(self, z: Array) -> Array:  # (q, ...) -> (m, ...)
        return np.asarray((self.factors * self.features.combined(z).T).T)

    def bottom_eigenpairs(self, problem: EigenProblem) -> Eigenpairs:
        m, few = self.landmarks, self.approximation
        if few is None:
            return shift_invert(self, EIGENVALUE_SHIFT * self.diagonal, problem, "low-rank: Woodbury and Krylov")
        if BLOCK_SHARE * problem.wanted >= m:
            return DenseCost(self.dense_matrix(), self.features.limits).bottom_eigenpairs(problem)
        wanted = min(problem.wanted + 3, m - 1)  # a few more, which separates the last wanted ones
        roughly = few.bottom_eigenpairs(replace(problem, wanted=wanted, values_only=False, start=None))
        shift = np.full(m, max(float(roughly.values[0]), EIGENVALUE_SHIFT * problem.bound))
        precondition = few.solver(1.0, DiagonalPlusLowRank(shift, np.zeros((m, 0)), problem.lifted))
        start = roughly.vectors[:, : problem.wanted]
        return Eigenpairs(*preconditioned_eigenpairs(self, precondition, start, problem), "low-rank: LOBPCG")

    def without(self, removal: Removal) -> LowRankCost:
        """With Q_t = W - B B' the remaining cost is  W_A - B_A (I - B_B' W_B^-1 B_B)^-1 B_A'."""
        renumbered = removal.renumbered(self.landmarks)
        weights, blocks = np.zeros(len(removal.kept)), []
        for cloud, lost in zip(removal.clouds, removal.lost, strict=True):
            factor = cloud.low_rank_factor()
            if factor is None:
                continue
            rows = np.arange(len(cloud.seen)) if lost is None else lost.kept
            basis = factor.basis[rows]
            if lost is not None:
                out = factor.basis[lost.rows] / np.sqrt(factor.weights[lost.rows, None])
                lower = np.linalg.cholesky(np.eye(basis.shape[1]) - out.T @ out)
                basis = solve_triangular(lower, basis.T, lower=True, check_finite=False).T
            seen = renumbered[cloud.seen[rows]]
            weights[seen] += factor.weights[rows]
            blocks.append(Block(seen, factor.weights[rows], basis))
        return LowRankCost(TotalFeatures(weights, tuple(blocks), self.features.limits))

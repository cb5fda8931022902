"""What is left of the cost of all clouds together: tr(M' Q M), Q = sum_t Q_t.

Dense, Q is a matrix.  Thin, it is never formed: Q = diag - sum_t B_t B_t' with the features of every cloud.  Both
answer the only two questions that are asked of them: Q x, and the inverse of

    S = scale Q + diag(d) - V V' + l l'

dense by one Cholesky factorisation; thin by Woodbury, with a system of the size of all features together.  Where
d is a multiple of the total weights that system holds the same products  B_s' diag^-1 B_t  whatever the scale,
and they are computed once.  Where the features are too many for that, by conjugate gradients, preconditioned with
the inverse of a form with few features that stands in for it.  A third, with sparse kernels, is in ``iterated``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, eigh, lu_factor, lu_solve, solve_triangular
from scipy.linalg.blas import dsyrk

from .._numerics.allocation import allocate, zeros
from .._numerics.lapack import fill_upper_triangle
from .._numerics.threads import free_cores_for
from ..errors import NumericalFailure
from ..typing import Array, IndexArray
from ..warps import ReducedCloud
from ..warps.leave_out import LeftOut
from .matrix_free import Apply, MatrixFreeCost, Member, conjugate_gradients, typical_kernel

SMALL = 400  # landmarks below which a dense form costs nothing
MOST_KEPT = 3000  # landmarks up to which what is the same for all prices of the map is kept
MOST_DENSE = 5000  # landmarks above which features, however many, are kept thin
FEW = 0.1  # features a cloud, as a share of the landmarks, that are added up by one product
ROWS = 2000  # landmarks at a time in products of features
MOST_FEATURES = 6000  # of all clouds together that Woodbury takes
KEPT_SHARE = 0.3  # of a direction's weight that the features explain: directions with less are left out of a stand-in
SPARE = 20  # random directions beyond those that may be kept
POWERS = 2  # of the random directions
SEED = 20231


class CostOperator(Protocol):
    """The cost of a map, all clouds together."""

    @property
    def landmarks(self) -> int: ...
    @property
    def total(self) -> float:
        """tr Q, the yardstick for rounding."""
        ...

    def apply(self, x: Array) -> Array: ...
    def rescaled(self, factors: Array) -> CostOperator:
        """diag(factors) Q diag(factors)"""
        ...

    def inverse(self, scale: float, diagonal: Array, columns: Array, lifted: Array) -> Apply:
        """x -> (scale Q + diag(diagonal) - columns columns' + lifted lifted')^-1 x, which must be positive definite."""
        ...


@dataclass(frozen=True)
class DenseCost:
    matrix: Array  # (m, m)

    @property
    def landmarks(self) -> int:
        return len(self.matrix)

    @property
    def total(self) -> float:
        return float(np.trace(self.matrix))

    def apply(self, x: Array) -> Array:
        return np.asarray(self.matrix @ x)

    def rescaled(self, factors: Array) -> DenseCost:
        return DenseCost(factors[:, None] * self.matrix * factors)

    def inverse(self, scale: float, diagonal: Array, columns: Array, lifted: Array) -> Apply:
        # in the order of LAPACK, which reads and writes the lower triangle alone
        S = np.multiply(self.matrix, scale, out=allocate(*self.matrix.shape)).T
        rest = self._rest(diagonal, columns, lifted)
        if rest is None:
            _add_rest(S, diagonal, columns, lifted)
        else:
            S += rest
        try:
            with free_cores_for(len(S)):
                factor = cho_factor(S, lower=True, overwrite_a=True, check_finite=False)
        except LinAlgError:
            raise NumericalFailure(
                "the total cost is not positive definite in double precision; raise smoothing"
            ) from None
        return lambda x: cho_solve(factor, x, check_finite=False)

    def _rest(self, diagonal: Array, columns: Array, lifted: Array) -> Array | None:
        """All but Q, kept for whoever asks again for the same; None where that is not worth its memory."""
        if not columns.shape[1] or not SMALL < self.landmarks <= MOST_KEPT:
            return None
        parts, known = (diagonal, columns, lifted), self.__dict__.get("_kept_rest")
        if known is None or any(one is not other for one, other in zip(known[0], parts, strict=True)):
            rest = np.zeros(self.matrix.shape, order="F")
            _add_rest(rest, *parts)
            known = self.__dict__["_kept_rest"] = (parts, rest)
        return known[1]


def _add_rest(S: Array, diagonal: Array, columns: Array, lifted: Array) -> None:
    """diag(diagonal) - columns columns' + lifted lifted', added to the lower triangle of S, in Fortran order."""
    if columns.shape[1]:
        dsyrk(-1.0, columns, 1.0, S, lower=True, overwrite_c=True)
    dsyrk(1.0, lifted[:, None], 1.0, S, lower=True, overwrite_c=True)
    S[np.diag_indices_from(S)] += diagonal


@dataclass(frozen=True)
class Block:
    """One cloud:  diag(weights) - basis basis'."""

    seen: IndexArray  # (s,)
    weights: Array  # (s,)
    basis: Array  # (s, q)


@dataclass(frozen=True)
class LowRankCost:
    """diag(factors) (diag(weights) - sum_t B_t B_t') diag(factors)"""

    weights: Array  # (m,)
    blocks: tuple[Block, ...]
    factors: Array  # (m,)

    @property
    def landmarks(self) -> int:
        return len(self.weights)

    @property
    def features(self) -> int:
        return sum(block.basis.shape[1] for block in self.blocks)

    @property
    def diagonal(self) -> Array:
        return self.factors**2 * self.weights

    @property
    def total(self) -> float:
        lost = sum(
            float(self.factors[block.seen] ** 2 @ np.einsum("sq,sq->s", block.basis, block.basis))
            for block in self.blocks
        )
        return float(self.diagonal.sum()) - lost

    def apply(self, x: Array) -> Array:
        scaled = (self.factors * x.T).T
        image: Array = (self.weights * scaled.T).T
        for block in self.blocks:
            image[block.seen] -= block.basis @ (block.basis.T @ scaled[block.seen])
        return (self.factors * image.T).T

    def rescaled(self, factors: Array) -> LowRankCost:
        again = LowRankCost(self.weights, self.blocks, self.factors * factors)
        if self.stand_in is None:
            again.__dict__["_products"] = self._products  # which the first that asks has computed for all
        else:
            again.__dict__["stand_in"] = LowRankCost(self.weights, self.stand_in.blocks, again.factors)
        return again

    def dense(self) -> DenseCost:
        total = zeros(self.landmarks, self.landmarks).T  # in the order of LAPACK, which works in place
        for blocks in self._groups():
            rows = LowRankCost(self.weights, blocks, self.factors)._rows(slice(0, self.landmarks))
            total = dsyrk(-1.0, rows.T, 1.0, total, trans=True, lower=True, overwrite_c=True)
        matrix = fill_upper_triangle(total)
        matrix[np.diag_indices_from(matrix)] += self.weights
        return DenseCost(matrix)

    def _groups(self) -> Iterator[tuple[Block, ...]]:
        """Blocks together as long as their features are fewer than the landmarks, so that no copy is larger than Q."""
        group, features = list[Block](), 0
        for block in self.blocks:
            if group and features + block.basis.shape[1] > self.landmarks:
                yield tuple(group)
                group, features = [], 0
            group.append(block)
            features += block.basis.shape[1]
        yield tuple(group)

    @cached_property
    def stand_in(self) -> LowRankCost | None:
        """A form near this one with few features, where these are too many for Woodbury; else None.

        B_t B_t' summed over the clouds, in units of the weights, has eigenvalues from 0 to 1 and a known trace.  So
        those above a half are fewer than twice the trace, and are found, with their vectors and some smaller ones, from
        a random block of that width.  On what is left out the two forms differ by less than a factor of two.
        """
        if self.features <= MOST_FEATURES:
            return None
        root = np.sqrt(self.weights)[:, None]
        plain = LowRankCost(self.weights, self.blocks, np.ones(self.landmarks))

        def explained(x: Array) -> Array:
            return x - plain.apply(x / root) / root

        explained_by = (np.sum(block.basis**2 / self.weights[block.seen, None]) for block in self.blocks)
        width = int(np.ceil(2 * sum(explained_by))) + SPARE
        random = np.random.default_rng(SEED).standard_normal(
            (self.landmarks, min(width, self.landmarks // 2, MOST_FEATURES))
        )
        space = random
        for _ in range(POWERS):
            space = np.linalg.qr(explained(space))[0]
        image = explained(space)
        shares, mix = eigh(space.T @ image)
        kept = shares > KEPT_SHARE
        basis = root * (space @ (mix[:, kept] * np.sqrt(np.minimum(shares[kept], 1.0))))
        everything = np.arange(self.landmarks)
        return LowRankCost(self.weights, (Block(everything, self.weights, basis),), self.factors)

    def inverse(self, scale: float, diagonal: Array, columns: Array, lifted: Array) -> Apply:
        if self.stand_in is None:
            return self._woodbury(scale, diagonal, columns, lifted)
        precondition = self.stand_in.inverse(scale, diagonal, columns, lifted)

        def apply(x: Array) -> Array:
            image = scale * self.apply(x) + (diagonal * x.T).T
            return np.asarray(image - columns @ (columns.T @ x) + np.multiply.outer(lifted, lifted @ x))

        return lambda x: conjugate_gradients(apply, precondition, x)

    def _woodbury(self, scale: float, diagonal: Array, columns: Array, lifted: Array) -> Apply:
        main = scale * self.diagonal + diagonal
        others = np.column_stack([columns, lifted])
        share = main / self.diagonal
        proportional = bool(np.ptp(share) <= 1e-14 * share[0])
        products = self._products if proportional else self._gram(self.factors**2 / main)
        scale_products = scale / share[0] if proportional else scale
        across = np.sqrt(scale) * self._features_of(others / main[:, None])
        q = self.features
        inner = allocate(q + others.shape[1], q + others.shape[1]).T  # in the order of LAPACK, which works in place
        np.multiply(products, scale_products, out=inner[:q, :q])
        inner[:q, q:], inner[q:, :q] = across, across.T
        inner[q:, q:] = others.T @ (others / main[:, None])
        inner[np.diag_indices_from(inner)] -= 1.0
        inner[-1, -1] += 2.0  # what is lifted counts with the other sign
        with free_cores_for(len(inner)):
            factor = lu_factor(inner, overwrite_a=True, check_finite=False)

        def solve(x: Array) -> Array:
            scaled = (x.T / main).T
            held = np.concatenate([np.sqrt(scale) * self._features_of(scaled), others.T @ scaled])
            moved = lu_solve(factor, held, check_finite=False)
            back = np.sqrt(scale) * self._from_features(moved[:q]) + others @ moved[q:]
            return np.asarray(scaled - (back.T / main).T)

        return solve

    @cached_property
    def _products(self) -> Array:  # (q, q)
        """B' diag(weights)^-1 B, which no rescaling changes."""
        return self._gram(1 / self.weights)

    def _gram(self, divided: Array) -> Array:  # (m,) -> (q, q), B' diag(divided) B
        total = np.zeros((self.features, self.features), order="F")
        for first in range(0, self.landmarks, ROWS):
            part = slice(first, min(first + ROWS, self.landmarks))
            rows = self._rows(part)
            rows *= np.sqrt(divided[part])[:, None]
            with free_cores_for(len(total)):
                total = dsyrk(1.0, rows.T, 1.0, total, lower=True, overwrite_c=True)
        return fill_upper_triangle(np.asarray(total))

    def _rows(self, part: slice) -> Array:  # the features of all clouds at some landmarks
        rows = np.zeros((part.stop - part.start, self.features))
        column = 0
        for block in self.blocks:
            first, last = np.searchsorted(block.seen, [part.start, part.stop])
            width = block.basis.shape[1]
            rows[block.seen[first:last] - part.start, column : column + width] = block.basis[first:last]
            column += width
        return rows

    def _features_of(self, x: Array) -> Array:  # (m, ...) -> (q, ...)
        scaled = (self.factors * x.T).T
        return np.concatenate([block.basis.T @ scaled[block.seen] for block in self.blocks])

    def _from_features(self, z: Array) -> Array:  # (q, ...) -> (m, ...)
        image = np.zeros((self.landmarks, *z.shape[1:]))
        first = 0
        for block in self.blocks:
            width = block.basis.shape[1]
            image[block.seen] += block.basis @ z[first : first + width]
            first += width
        return np.asarray((self.factors * image.T).T)


def low_rank_cost(weights: Array, basis: Array) -> CostOperator:
    """diag(weights) - basis basis'"""
    thin = LowRankCost(weights, (Block(np.arange(len(weights)), weights, basis),), np.ones(len(weights)))
    return thin.dense() if _small_or_full(len(weights), basis.shape[1]) else thin


def _small_or_full(landmarks: int, features: int) -> bool:
    """Whether a dense form is the cheaper one, and within reach."""
    return landmarks <= SMALL or (2 * features >= landmarks and landmarks <= MOST_DENSE)


def total_cost(clouds: Sequence[ReducedCloud], landmarks: int) -> CostOperator:
    """The sum of the clouds' forms: thin where they all are and that pays, never formed where kernels are sparse."""
    if any(cloud.sparse_kernel() is not None for cloud in clouds):
        return _sum(clouds, landmarks)
    factors = [cloud.low_rank_factor() for cloud in clouds]
    features = sum(factor.basis.shape[1] for factor in factors if factor is not None)
    if _small_or_full(landmarks, features) or any(factor is None for factor in factors):
        return _dense(clouds, landmarks)
    return _thin(clouds, landmarks)


def _dense(clouds: Sequence[ReducedCloud], landmarks: int) -> DenseCost:
    factors = [cloud.low_rank_factor() for cloud in clouds]
    if all(factor is not None and factor.basis.shape[1] < FEW * landmarks for factor in factors):
        return _thin(clouds, landmarks).dense()
    Q = zeros(landmarks, landmarks)
    for cloud in clouds:
        if len(cloud.seen) == landmarks:  # all of them, in their order
            Q += cloud.cost_matrix()
        else:  # faster than rows and columns at once
            wide = np.zeros((len(cloud.seen), landmarks))
            wide[:, cloud.seen] = cloud.cost_matrix()
            Q[cloud.seen] += wide
    return DenseCost(Q)


def _thin(clouds: Sequence[ReducedCloud], landmarks: int) -> LowRankCost:
    weights, blocks = np.zeros(landmarks), []
    for cloud in clouds:
        factor = cloud.low_rank_factor()
        if factor is not None:
            weights[cloud.seen] += factor.weights
            blocks.append(Block(cloud.seen, factor.weights, factor.basis))
    return LowRankCost(weights, tuple(blocks), np.ones(landmarks))


def _sum(clouds: Sequence[ReducedCloud], landmarks: int) -> MatrixFreeCost:
    members = tuple(Member(cloud.seen, cloud.apply) for cloud in clouds)
    diagonal, weights = np.zeros(landmarks), np.zeros(landmarks)
    for cloud in clouds:
        diagonal[cloud.seen] += cloud.diagonal()
        weights[cloud.seen] += cloud.weights
    kernels = [(cloud.seen, cloud.weights, cloud.sparse_kernel()) for cloud in clouds]
    known = [(seen, own, kernel) for seen, own, kernel in kernels if kernel is not None]
    return MatrixFreeCost(members, diagonal, weights, typical_kernel(known, landmarks), np.ones(landmarks))


def without(
    cost: CostOperator,
    clouds: Sequence[ReducedCloud],
    parts: Sequence[Sequence[LeftOut | None]],  # for every cloud, what it loses in every fold
    folds: Sequence[IndexArray],
) -> Iterator[CostOperator]:
    """The form without the landmarks of each fold: with rows B left out of every cloud (theory, eq. 17),

    sum_t Q_AA - Q_AB Q_BB^-1 Q_BA.
    """
    for f, fold in enumerate(folds):
        kept = np.delete(np.arange(cost.landmarks), fold)
        lost = [own[f] for own in parts]
        if isinstance(cost, DenseCost):
            yield _dense_without(cost, clouds, lost, kept)
        elif isinstance(cost, MatrixFreeCost):
            yield _sum_without(cost, clouds, lost, kept)
        else:
            yield _thin_without(clouds, lost, kept, cost.landmarks)


def _dense_without(
    cost: DenseCost, clouds: Sequence[ReducedCloud], parts: Sequence[LeftOut | None], kept: IndexArray
) -> DenseCost:
    root = np.zeros((sum(len(part.rows) for part in parts if part is not None), cost.landmarks))
    first = 0
    for cloud, part in zip(clouds, parts, strict=True):
        if part is not None:
            root[first : first + len(part.rows), cloud.seen[part.kept]] = part.root
            first += len(part.rows)
    root = root[:, kept]
    return DenseCost(cost.matrix[np.ix_(kept, kept)] - root.T @ root)


def _sum_without(
    cost: MatrixFreeCost, clouds: Sequence[ReducedCloud], parts: Sequence[LeftOut | None], kept: IndexArray
) -> MatrixFreeCost:
    renumbered = np.full(cost.landmarks, -1, dtype=np.intp)
    renumbered[kept] = np.arange(len(kept))
    diagonal, members = cost.diagonal.copy(), list[Member]()
    for cloud, part in zip(clouds, parts, strict=True):
        if part is None:
            members.append(Member(renumbered[cloud.seen], cloud.apply))
            continue
        diagonal[cloud.seen[part.kept]] -= np.einsum("ba,ba->a", part.root, part.root)
        members.append(Member(renumbered[cloud.seen[part.kept]], _apply_without(cloud, part)))
    typical = cost.typical.only(kept)
    return MatrixFreeCost(tuple(members), diagonal[kept], cost.weights[kept], typical, np.ones(len(kept)))


def _apply_without(cloud: ReducedCloud, part: LeftOut) -> Apply:
    def apply(x: Array) -> Array:
        whole = np.zeros((len(cloud.seen), *x.shape[1:]))
        whole[part.kept] = x
        return np.asarray(cloud.apply(whole)[part.kept] - part.root.T @ (part.root @ x))

    return apply


def _thin_without(
    clouds: Sequence[ReducedCloud], parts: Sequence[LeftOut | None], kept: IndexArray, landmarks: int
) -> LowRankCost:
    """With Q_t = W - B B' what is left is  W_A - B_A (I - B_B' W_B^-1 B_B)^-1 B_A'."""
    renumbered = np.full(landmarks, -1, dtype=np.intp)
    renumbered[kept] = np.arange(len(kept))
    weights, blocks = np.zeros(len(kept)), []
    for cloud, part in zip(clouds, parts, strict=True):
        factor = cloud.low_rank_factor()
        if factor is None:
            continue
        rows = np.arange(len(cloud.seen)) if part is None else part.kept
        basis = factor.basis[rows]
        if part is not None:
            out = factor.basis[part.rows] / np.sqrt(factor.weights[part.rows, None])
            lower = np.linalg.cholesky(np.eye(basis.shape[1]) - out.T @ out)
            basis = solve_triangular(lower, basis.T, lower=True, check_finite=False).T
        seen = renumbered[cloud.seen[rows]]
        weights[seen] += factor.weights[rows]
        blocks.append(Block(seen, factor.weights[rows], basis))
    return LowRankCost(weights, tuple(blocks), np.ones(len(kept)))

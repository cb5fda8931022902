"""The bottom of the spectrum of Q = sum_t Q_t, never by a full eigen-decomposition.

Q is symmetric, positive semidefinite and Q 1 = 0.  Wanted are its smallest eigenpairs other than the
constant one, in the metric of D = (total weight of a landmark) / (clouds that see it),

    Q x = lambda D x,      x' D x = 1,

so that a landmark of little weight counts as little in the constraint as it does in the cost; with unit
weights D = I.  With S = D^(-1/2) Q D^(-1/2), small problems go to LAPACK's partial solver, all others to
Lanczos on the inverse of

    S + 2 n c c' + eps I,    c = D^(1/2) 1 normalised,                 (theory, eq. 10)

which has the constants moved to the top (S <= n).  The eigenvalues are recomputed as Rayleigh quotients.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, eigh
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh, lobpcg

from ..errors import NumericalFailure, warn
from ..observations.stacked import StackedClouds
from ..typing import Array, BoolArray
from .matrix_free import Apply, MatrixFreeCost
from .operators import SMALL, CostOperator, DenseCost, LowRankCost

SHIFT = 1e-10  # eps, as a share of the largest eigenvalue
NO_GAP_SHARE = 1e-6  # a gap below this share of the eigenvalue above it is none
RESIDUAL = 1e-9  # of an eigenvector, as a share of what Q does to the others
RUNS = 20  # of Lanczos beyond two a wanted vector, then it is given up
SEED = 20230  # of the start vectors
ROOM = (20, 80, 320)  # Krylov vectors beyond those wanted: a crowded spectrum needs more to come apart
RESTARTS = 50
SPARE = 5  # vectors in a block beyond those wanted
MOST_BLOCKS = 12
BLOCK_RESIDUAL = 1e-8  # of an eigenpair of the inverse, as a share
MOST_BLOCK_STEPS = 60
ROUGH = 1e-3  # residual of an eigenvector by LOBPCG, as a share of the next eigenvalue
LANCZOS = 1e-12  # residual, as a share of the eigenvalue

SOLVERS: dict[type, str] = {
    DenseCost: "dense: Cholesky and Krylov",
    LowRankCost: "thin: Woodbury and Krylov",
}


class Uniqueness(Enum):
    """Whether the d bottom eigenvectors, and so the map, are determined."""

    UNIQUE = "the d bottom eigenvalues are separated from the rest"
    NO_GAP = (
        "eigenvalues d and d+1 coincide, so the map is not unique; usually two groups of clouds share "
        "too few landmarks, or smoothing is so small that the warps explain anything"
    )


@dataclass(frozen=True)
class Spectrum:
    """Bottom eigenpairs of Q, the constant left out, smallest first."""

    values: Array  # (k + 1,)
    vectors: Array  # (m, k)
    top: float  # a bound on the largest eigenvalue, the yardstick for rounding
    dimension: int
    solver: str
    space: Array | None = None  # (m, ...) from which the spectrum of nearly the same form is soon found
    thinness: float = 1.0  # of the clouds

    @property
    def gap(self) -> float:
        """How far eigenvalue d+1 lies above eigenvalue d, as a share of the former (0 to 1)."""
        below, above = self.values[self.dimension - 1 : self.dimension + 1]
        return float((above - below) / above) if above > self.rounding else 0.0

    @property
    def uniqueness(self) -> Uniqueness:
        return Uniqueness.UNIQUE if self.gap > NO_GAP_SHARE else Uniqueness.NO_GAP

    @property
    def rounding(self) -> float:
        """Eigenvalues closer than this cannot be distinguished.

        The affine functions of a thin cloud, and with them Q_t <= 1, are known to eps over its thinness.
        """
        return (200 + 2 / self.thinness) * np.finfo(np.float64).eps * self.top


def bottom_eigenpairs(
    cost: CostOperator,
    dimension: int,  # d, for the gap
    modes: int,  # k eigenvectors, at least d
    density: Array | None = None,  # (m,) D; None: all 1
    top: float | None = None,  # a bound on the largest eigenvalue; None: the trace
    thinness: float = 1.0,  # of the clouds
    values_only: bool = False,  # the vectors need not be better than the values ask for
    begun: Array | None = None,  # (m, ...) vectors near those at the bottom, where some are known
) -> Spectrum:
    """The k bottom eigenvectors and k + 1 eigenvalues of the total form."""
    found = _bottom_eigenpairs(cost, dimension, modes, density, top, values_only, begun)
    return replace(found, thinness=thinness)


def _bottom_eigenpairs(
    cost: CostOperator,
    dimension: int,
    modes: int,
    density: Array | None,
    top: float | None,
    values_only: bool,
    begun: Array | None = None,
) -> Spectrum:
    m = cost.landmarks
    uniform = density is None or bool(np.all(density == 1.0))
    shrink = np.ones(m) if density is None else 1 / np.sqrt(density)  # D^(-1/2)
    scaled = cost if uniform else cost.rescaled(shrink)
    top = scaled.total if top is None else top
    lifted = np.sqrt(2 * top) / shrink / np.linalg.norm(1 / shrink)  # above every other, even those at the bound
    wanted = min(modes + 1, m - 1)
    if isinstance(scaled, DenseCost) and (m <= SMALL or wanted > m // 4):
        values, vectors = _bottom_of(scaled.matrix + np.outer(lifted, lifted), wanted)
        return Spectrum(values, shrink[:, None] * vectors[:, :modes], top, dimension, "dense: LAPACK, partial")
    if isinstance(scaled, LowRankCost) and scaled.stand_in is not None:
        stand_in = scaled.stand_in
        roughly = _bottom_eigenpairs(replace(stand_in, factors=np.ones(m)), dimension, wanted + 2, density, top, False)
        shift = np.full(m, max(float(roughly.values[0]), SHIFT * top))
        precondition = stand_in.inverse(1.0, shift, np.zeros((m, 0)), lifted)
        values, vectors = _preconditioned(
            scaled, precondition, roughly.vectors[:, :wanted] / shrink[:, None], lifted, top, values_only
        )
        return Spectrum(values, shrink[:, None] * vectors[:, :modes], top, dimension, "thin: LOBPCG")
    if isinstance(scaled, MatrixFreeCost) and 5 * wanted >= m:  # too few landmarks for a block method
        return _bottom_eigenpairs(DenseCost(cost.apply(np.eye(m))), dimension, modes, density, top, values_only)
    if isinstance(scaled, MatrixFreeCost):
        precondition = scaled.precondition(1.0, np.zeros(m))
        random = np.random.default_rng(SEED).standard_normal((m, wanted))
        values, vectors = _preconditioned(scaled, precondition, precondition(random), lifted, top, values_only)
        return Spectrum(values, shrink[:, None] * vectors[:, :modes], top, dimension, "sparse kernels: LOBPCG")
    shift = SHIFT * (scaled.diagonal if isinstance(scaled, LowRankCost) else np.full(m, top))
    solve = scaled.inverse(1.0, shift, np.zeros((m, 0)), lifted)

    def apply(x: Array) -> Array:
        return scaled.apply(x) + np.multiply.outer(lifted, lifted @ x)

    near = None if begun is None else begun / shrink[:, None]
    found = _block_krylov(solve, apply, m * top, m, wanted, values_only, near)
    values, vectors, space = (*_lanczos(solve, apply, m * top, m, wanted), None) if found is None else found
    # a shift that is not the same for all landmarks lets a trace of the constants in
    vectors = vectors - np.outer(lifted, lifted @ vectors) / (lifted @ lifted)
    kept = None if space is None else shrink[:, None] * space
    return Spectrum(values, shrink[:, None] * vectors[:, :modes], top, dimension, SOLVERS[type(scaled)], kept)


def _bottom_of(matrix: Array, wanted: int) -> tuple[Array, Array]:
    try:
        return eigh(matrix, subset_by_index=(0, wanted - 1))
    except LinAlgError:  # LAPACK's partial solver gives up on some clusters that the full one takes
        values, vectors = eigh(matrix, driver="evd")
        return values[:wanted], vectors[:, :wanted]


def metric_of(stacked: StackedClouds) -> tuple[Array, float, float]:
    """D, the bound n on the eigenvalues in its metric, and the thinness of the clouds that a form was made of."""
    counts = stacked.counts
    return stacked.weights.sum(axis=1) / counts, float(counts.max()), stacked.thinness


def _preconditioned(
    cost: CostOperator, precondition: Apply, begun: Array, lifted: Array, top: float, values_only: bool
) -> tuple[Array, Array]:
    """The bottom by a preconditioned block method."""
    m = cost.landmarks
    constant = (lifted / np.linalg.norm(lifted))[:, None]
    operator = LinearOperator((m, m), matvec=cost.apply, matmat=cost.apply)
    preconditioner = LinearOperator((m, m), matvec=precondition, matmat=precondition)
    values, vectors, tolerance = np.zeros(0), begun, RESIDUAL * top
    for _ in range(2):
        with warnings.catch_warnings():  # it warns where it stops before its tolerance; the residual is looked at here
            warnings.simplefilter("ignore", UserWarning)
            values, vectors = lobpcg(
                operator,
                vectors - constant @ (constant.T @ vectors),
                M=preconditioner,
                Y=constant,
                tol=tolerance,
                maxiter=MOST_BLOCK_STEPS,
                largest=False,
            )
        order = np.argsort(values)
        values, vectors = values[order], vectors[:, order]
        off = np.linalg.norm(cost.apply(vectors) - vectors * values, axis=0)
        if np.all(off[:-1] <= ROUGH * values[-1]):
            return values, vectors
        tolerance = 0.1 * ROUGH * abs(float(values[-1]))  # eigenvalues far below the top ask for more
    found = f"the eigenvectors did not settle in {MOST_BLOCK_STEPS} steps (residual {off.max():.2g})"
    if not values_only:
        raise NumericalFailure(f"{found}; raise smoothing")
    warn(f"{found}; eigenvalues_ are rough, the map does not need them")
    return values, vectors


def _block_krylov(
    solve: Apply, apply: Apply, total: float, m: int, wanted: int, values_only: bool, near: Array | None = None
) -> tuple[Array, Array, Array] | None:
    """The bottom eigenpairs of ``apply`` by a block Krylov method on its (shifted) inverse ``solve``, from ``near``.

    A block as wide as what is wanted and a few more sees repeated eigenvalues, and costs hardly more than one vector
    where the time goes into reading the inverse.  None where it has not settled after some blocks.
    """
    width = wanted + SPARE
    if width * MOST_BLOCKS > m // 2:
        return None
    random = np.random.default_rng(SEED)
    first = random.standard_normal((m, width))
    if near is not None:
        first[:, : near.shape[1]] = near[:, :width]
    block = np.linalg.qr(first)[0]
    basis, image = np.zeros((m, 0)), np.zeros((m, 0))
    before = np.full(wanted, np.inf)
    for _ in range(MOST_BLOCKS):
        basis, image = np.hstack([basis, block]), np.hstack([image, solve(block)])
        projected = basis.T @ image
        all_values, all_mix = eigh(0.5 * (projected + projected.T))
        top, mix = all_values[-wanted:], all_mix[:, -wanted:]
        found = basis @ mix
        off = np.linalg.norm(image @ mix - found * top, axis=0)
        # of the last, which is first here, only the value is wanted: it is as good as the square of the vector
        rough = values_only | (np.arange(wanted) == 0)
        allowed = np.where(rough, np.sqrt(BLOCK_RESIDUAL), BLOCK_RESIDUAL) * top
        if np.all(off <= allowed) and np.all(np.abs(top - before) <= BLOCK_RESIDUAL * top):
            space = basis @ all_mix[:, -width:][:, ::-1]
            if values_only:
                basis = np.linalg.qr(found[:, ::-1])[0]
                projected = basis.T @ apply(basis)
                values, mix = eigh(0.5 * (projected + projected.T))
                return values, basis @ mix, space
            ritz = _ritz(solve, apply, found, total, wanted)
            return (ritz.values, ritz.vectors, space) if ritz.settled[:-1].all() else None
        before = top
        block = image[:, -width:]
        for _ in range(2):  # twice is enough
            block = np.linalg.qr(block - basis @ (basis.T @ block))[0]
    return None


def _lanczos(solve: Apply, apply: Apply, total: float, m: int, wanted: int) -> tuple[Array, Array]:
    """The bottom eigenpairs of ``apply``, of trace ``total``, by Lanczos on its (shifted) inverse ``solve``.

    One run sees one direction of a repeated eigenvalue, and beside eigenvalues near 0 the others only
    roughly.  So what has settled is kept, and Lanczos runs again on what is orthogonal to it, until all
    have settled and a run for one more finds nothing smaller.
    """
    random = np.random.default_rng(SEED)
    kept, cost = np.zeros((m, 0)), np.inf
    for _ in range(2 * wanted + RUNS):
        missing = wanted - kept.shape[1]
        found = _top(_orthogonal_to(kept, solve), random.standard_normal(m), max(missing, 1))
        ritz = _ritz(solve, apply, np.hstack([kept, found]), total, wanted)
        if ritz.settled.all() and missing == 0 and cost - ritz.values.sum() <= ritz.tolerance:
            return ritz.values, ritz.vectors
        if missing > 0 and ritz.settled.sum() <= kept.shape[1]:
            break
        kept, cost = ritz.vectors[:, ritz.settled], float(ritz.values.sum())
    raise NumericalFailure(
        f"the eigenvectors did not settle (residual above {ritz.tolerance:.2g}): the bottom of the spectrum "
        "is lost in rounding; raise smoothing, or ask for fewer modes"
    )


def _top(solve: Apply, start: Array, count: int) -> Array:  # (m, count)
    """Eigenvectors of the largest eigenvalues of ``solve``."""
    m = len(start)
    operator, start = LinearOperator((m, m), matvec=solve), solve(start)
    problem: Exception | None = None
    for room in ROOM:
        try:
            return eigsh(operator, count, v0=start, ncv=min(m, 2 * count + room), maxiter=RESTARTS, tol=LANCZOS)[1]
        except ArpackError as error:
            problem = error
    raise NumericalFailure(
        f"the eigenvalue solver stopped without an answer ({problem}); raise smoothing or check that "
        "no landmark or cloud is given twice"
    )


def _orthogonal_to(vectors: Array, solve: Apply) -> Apply:
    def away(x: Array) -> Array:
        return x - vectors @ (vectors.T @ x)

    return lambda x: away(solve(away(x)))


class _Ritz(NamedTuple):
    values: Array  # (k,)
    vectors: Array  # (m, k)
    settled: BoolArray  # (k,)
    tolerance: float  # what rounding may do


def _ritz(solve: Apply, apply: Apply, vectors: Array, total: float, wanted: int) -> _Ritz:
    """The k best eigenpairs in the span of the vectors, cleaned by a step of inverse iteration.

    The inverse is that of a shifted matrix; where the shift shows, what is left is taken out once more.
    """
    found = _projected(apply, np.linalg.qr(solve(np.linalg.qr(vectors)[0]))[0], total, wanted)
    if not found.settled.all():
        left = apply(found.vectors) - found.vectors * found.values
        found = _projected(apply, np.linalg.qr(found.vectors - solve(left))[0], total, wanted)
    return found


def _projected(apply: Apply, basis: Array, total: float, wanted: int) -> _Ritz:
    image = apply(basis)
    projected = basis.T @ image
    values, mix = eigh(0.5 * (projected + projected.T), subset_by_index=(0, wanted - 1))
    found = basis @ mix
    errors = np.linalg.norm(image @ mix - found * values, axis=0)
    tolerance = RESIDUAL * np.linalg.norm(image, axis=0).max() + np.finfo(np.float64).eps * total
    return _Ritz(values, found, errors <= tolerance, float(tolerance))

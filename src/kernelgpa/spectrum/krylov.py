"""Iterative solvers: the bottom eigenpairs of an operator, and systems by conjugate gradients.

``shift_invert`` runs a block Krylov method on the inverse of the shifted operator

    Q + eps + l l',    l = constants, raised above every other eigenvector,                (theory, eq. 10)

and single-vector Lanczos if the block method does not converge.  ``preconditioned_eigenpairs`` is LOBPCG for operators
that cannot be factorised.  Eigenvalues are recomputed as Rayleigh quotients.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh, lobpcg

from ..errors import NumericalFailure, warn
from ..typing import Array, BoolArray
from .operator import Apply, CostOperator, DiagonalPlusLowRank, Eigenpairs, EigenProblem

EIGENVALUE_SHIFT = 1e-10  # eps, relative to the diagonal of Q or to a bound on its eigenvalues
RESIDUAL = 1e-9  # of an eigenvector, as a share of the largest image Q x
EXTRA_RUNS = 20  # of Lanczos beyond two for each wanted vector, before it stops with an error
START_SEED = 20230  # of the random start vectors
KRYLOV_SIZES = (20, 80, 320)  # vectors beyond two for each wanted one: a crowded spectrum needs more
RESTARTS = 50
EXTRA_COLUMNS = 5  # in a block beyond those wanted
MOST_BLOCKS = 12
BLOCK_RESIDUAL = 1e-8  # relative, of an eigenpair of the inverse
LOBPCG_STEPS = 60
BLOCK_SHARE = 5  # landmarks per wanted eigenpair that LOBPCG needs at least
LOBPCG_RESIDUAL = 1e-3  # of an eigenvector, as a share of the next eigenvalue
LANCZOS_RESIDUAL = 1e-12  # relative
CG_RESIDUAL = 1e-11  # of conjugate gradients, relative to the right-hand side
CG_STEPS = 300


def conjugate_gradients(apply: Apply, precondition: Apply, right: Array) -> Array:
    """x with apply(x) = right, for all columns at once."""
    columns = right.reshape(len(right), -1)
    x, residual = np.zeros_like(columns), columns.copy()
    target = CG_RESIDUAL * np.linalg.norm(columns, axis=0)
    direction = np.zeros_like(columns)
    energy = np.ones(columns.shape[1])
    for _ in range(CG_STEPS):
        if np.all(np.linalg.norm(residual, axis=0) <= target):
            return x.reshape(right.shape)
        preconditioned = precondition(residual)
        renewed = np.einsum("mc,mc->c", residual, preconditioned)
        direction = preconditioned + direction * (renewed / energy)
        energy = np.where(renewed > 0, renewed, 1.0)
        image = apply(direction)
        curvature = np.einsum("mc,mc->c", direction, image)
        step = np.divide(renewed, curvature, out=np.zeros_like(curvature), where=curvature > 0)
        x += step * direction
        residual -= step * image
    raise NumericalFailure(
        f"the map did not converge in {CG_STEPS} steps of conjugate gradients; raise smoothing, or use fewer "
        "inducing points if there are any"
    )


def shift_invert(operator: CostOperator, shift: Array, problem: EigenProblem, solver: str) -> Eigenpairs:
    """The bottom eigenpairs of an operator whose shifted matrix can be factorised."""
    m, lifted = operator.landmarks, problem.lifted
    solve = operator.solver(1.0, DiagonalPlusLowRank(shift, np.zeros((m, 0)), lifted))

    def apply(x: Array) -> Array:
        return operator.apply(x) + np.multiply.outer(lifted, lifted @ x)

    pair = _ShiftedPair(solve, apply, m * problem.bound)
    found = _block_krylov(pair, m, problem)
    values, vectors, subspace = (*_lanczos(pair, m, problem.wanted), None) if found is None else found
    # a shift that differs between landmarks leaves a small component along the constants
    vectors = vectors - np.outer(lifted, lifted @ vectors) / (lifted @ lifted)
    return Eigenpairs(values, vectors, solver, subspace)


def preconditioned_eigenpairs(
    operator: CostOperator, precondition: Apply, start: Array, problem: EigenProblem
) -> tuple[Array, Array]:
    """The bottom eigenpairs by LOBPCG, a preconditioned block method."""
    m = operator.landmarks
    constant = (problem.lifted / np.linalg.norm(problem.lifted))[:, None]
    linear = LinearOperator((m, m), matvec=operator.apply, matmat=operator.apply)
    preconditioner = LinearOperator((m, m), matvec=precondition, matmat=precondition)
    values, vectors, tolerance = np.zeros(0), start, RESIDUAL * problem.bound
    for _ in range(2):
        with warnings.catch_warnings():  # it warns if it stops before its tolerance; the residual is checked below
            warnings.simplefilter("ignore", UserWarning)
            values, vectors = lobpcg(
                linear,
                vectors - constant @ (constant.T @ vectors),
                M=preconditioner,
                Y=constant,
                tol=tolerance,
                maxiter=LOBPCG_STEPS,
                largest=False,
            )
        order = np.argsort(values)
        values, vectors = values[order], vectors[:, order]
        errors = np.linalg.norm(operator.apply(vectors) - vectors * values, axis=0)
        if np.all(errors[:-1] <= LOBPCG_RESIDUAL * values[-1]):
            return values, vectors
        tolerance = 0.1 * LOBPCG_RESIDUAL * abs(float(values[-1]))  # eigenvalues far below the top need a smaller one
    found = f"the eigenvectors did not converge in {2 * LOBPCG_STEPS} steps (residual {errors[:-1].max():.2g})"
    if not problem.values_only:
        raise NumericalFailure(f"{found}; raise smoothing")
    warn(f"{found}; eigenvalues_ are inaccurate, but the map does not depend on them")
    return values, vectors


class _ShiftedPair(NamedTuple):
    solve: Apply  # with the shifted operator
    apply: Apply  # Q + l l', without the shift
    trace_bound: float


class _Ritz(NamedTuple):
    values: Array  # (k,)
    vectors: Array  # (m, k)
    converged: BoolArray  # (k,)
    tolerance: float  # what rounding may do


def _block_krylov(pair: _ShiftedPair, m: int, problem: EigenProblem) -> tuple[Array, Array, Array] | None:
    """Eigenpairs and their subspace by a block Krylov method on the inverse; None if it does not converge.

    A block as wide as what is wanted, and a few columns more, finds repeated eigenvalues.  It costs little more than
    one vector, because the time is spent reading the factor from memory.
    """
    wanted = problem.wanted
    width = wanted + EXTRA_COLUMNS
    if width * MOST_BLOCKS > m // 2:
        return None
    block = _first_block(m, width, problem.start)
    basis, image = np.zeros((m, 0)), np.zeros((m, 0))
    before = np.full(wanted, np.inf)
    for _ in range(MOST_BLOCKS):
        basis, image = np.hstack([basis, block]), np.hstack([image, pair.solve(block)])
        projected = basis.T @ image
        all_values, all_mix = eigh(0.5 * (projected + projected.T))
        top, mix = all_values[-wanted:], all_mix[:, -wanted:]
        found = basis @ mix
        errors = np.linalg.norm(image @ mix - found * top, axis=0)
        # of the last, which is first here, only the value is wanted: its error is quadratic in that of the vector
        value_only = problem.values_only | (np.arange(wanted) == 0)
        allowed = np.where(value_only, np.sqrt(BLOCK_RESIDUAL), BLOCK_RESIDUAL) * top
        if np.all(errors <= allowed) and np.all(np.abs(top - before) <= BLOCK_RESIDUAL * top):
            subspace = basis @ all_mix[:, -width:][:, ::-1]
            pairs = _rayleigh_ritz(pair, found, wanted, problem.values_only)
            return None if pairs is None else (*pairs, subspace)
        before = top
        block = image[:, -width:]
        for _ in range(2):  # orthogonalising twice is enough
            block = np.linalg.qr(block - basis @ (basis.T @ block))[0]
    return None


def _first_block(m: int, width: int, start: Array | None) -> Array:  # (m, width)
    first = np.random.default_rng(START_SEED).standard_normal((m, width))
    if start is not None:
        first[:, : start.shape[1]] = start[:, :width]
    return np.linalg.qr(first)[0]


def _rayleigh_ritz(pair: _ShiftedPair, found: Array, wanted: int, values_only: bool) -> tuple[Array, Array] | None:
    """Eigenpairs of the operator itself in the span of the vectors found; None if they have not converged."""
    if values_only:
        basis = np.linalg.qr(found[:, ::-1])[0]
        projected = basis.T @ pair.apply(basis)
        values, mix = eigh(0.5 * (projected + projected.T))
        return values, basis @ mix
    ritz = _ritz(pair, found, wanted)
    return (ritz.values, ritz.vectors) if ritz.converged[:-1].all() else None


def _lanczos(pair: _ShiftedPair, m: int, wanted: int) -> tuple[Array, Array]:
    """The bottom eigenpairs by Lanczos on the inverse.

    One run sees one direction of a repeated eigenvalue, and sees the others only roughly beside eigenvalues near 0.
    Therefore what has converged is kept, and Lanczos runs again on its orthogonal complement, until all have converged
    and a run for one more finds nothing smaller.
    """
    random = np.random.default_rng(START_SEED)
    kept, total = np.zeros((m, 0)), np.inf
    for _ in range(2 * wanted + EXTRA_RUNS):
        missing = wanted - kept.shape[1]
        found = _largest(_orthogonal_to(kept, pair.solve), random.standard_normal(m), max(missing, 1))
        ritz = _ritz(pair, np.hstack([kept, found]), wanted)
        if ritz.converged.all() and missing == 0 and total - ritz.values.sum() <= ritz.tolerance:
            return ritz.values, ritz.vectors
        if missing > 0 and ritz.converged.sum() <= kept.shape[1]:
            break
        kept, total = ritz.vectors[:, ritz.converged], float(ritz.values.sum())
    raise NumericalFailure(
        f"the eigenvectors did not converge (residual above {ritz.tolerance:.2g}) because the bottom of the spectrum "
        "is lost in rounding; raise smoothing, or use fewer modes"
    )


def _largest(solve: Apply, start: Array, count: int) -> Array:  # (m, count)
    """Eigenvectors of the largest eigenvalues of ``solve``."""
    m = len(start)
    operator, start = LinearOperator((m, m), matvec=solve), solve(start)
    problem: Exception | None = None
    for extra in KRYLOV_SIZES:
        size = min(m, 2 * count + extra)
        try:
            return eigsh(operator, count, v0=start, ncv=size, maxiter=RESTARTS, tol=LANCZOS_RESIDUAL)[1]
        except ArpackError as error:
            problem = error
    raise NumericalFailure(
        f"the eigenvalue solver stopped without an answer ({problem}); raise smoothing or check that "
        "no landmark or cloud is given twice"
    )


def _orthogonal_to(vectors: Array, solve: Apply) -> Apply:
    def project(x: Array) -> Array:
        return x - vectors @ (vectors.T @ x)

    return lambda x: project(solve(project(x)))


def _ritz(pair: _ShiftedPair, vectors: Array, wanted: int) -> _Ritz:
    """The k best eigenpairs in the span of the vectors, after one step of inverse iteration.

    The inverse is that of a shifted matrix; if they have not converged, one residual correction follows.
    """
    found = _projected(pair, np.linalg.qr(pair.solve(np.linalg.qr(vectors)[0]))[0], wanted)
    if not found.converged.all():
        residual = pair.apply(found.vectors) - found.vectors * found.values
        found = _projected(pair, np.linalg.qr(found.vectors - pair.solve(residual))[0], wanted)
    return found


def _projected(pair: _ShiftedPair, basis: Array, wanted: int) -> _Ritz:
    image = pair.apply(basis)
    projected = basis.T @ image
    values, mix = eigh(0.5 * (projected + projected.T), subset_by_index=(0, wanted - 1))
    found = basis @ mix
    errors = np.linalg.norm(image @ mix - found * values, axis=0)
    tolerance = RESIDUAL * np.linalg.norm(image, axis=0).max() + np.finfo(np.float64).eps * pair.trace_bound
    return _Ritz(values, found, errors <= tolerance, float(tolerance))

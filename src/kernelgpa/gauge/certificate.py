"""A certificate that rotations are the global optimum, and a bound on how far from it they can be otherwise.

The rotations of a map maximise  f(R) = <R, G(R)>  over SO(d)^n, G linear, symmetric, positive semidefinite (theory,
eq. 12).  f may have several local maxima.  As in rotation synchronisation, let

    Lambda_t = sym(R_t' G(R)_t),      L(X)_t = X_t Lambda_t - G(X)_t                                  (theory, eq. 16b)

Lambda_t is the multiplier of the constraint  R_t' R_t = I,  and  sum_t tr Lambda_t = f(R).  For any rotations X

    f(X) = sum_t <X_t, X_t Lambda_t> - <X, L(X)> = f(R) - <X, L(X)> .

If L is positive semidefinite, no rotations have a larger f.  Otherwise let lambda be the smallest eigenvalue of
D^(-1/2) L D^(-1/2),  where D multiplies cloud t by  c_t = tr(Lambda_t) / d.  Because  <X, D X> = d sum_t c_t = f(R),

    f(X) <= (1 + gap) f(R),      gap = max(0, -lambda)                                                (theory, eq. 16c)

This holds whether or not R is stationary.  If it is,  L(R) = 0,  and likewise  L(E R) = 0  for every matrix E that
commutes with G: the rotations of the whole map.

L need be positive semidefinite on the linear span of the rotations only.  In 2D the span consists of the multiples of
rotations and excludes reflections.  In 3D it consists of all matrices, and the certificate proves optimality among all
orthogonal matrices.  Therefore it is sufficient but not necessary: it fails if some reflections fit better.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from ..typing import Array
from .rotations import Operator

# orthonormal bases of the linear span of SO(d)
SPANS = {2: np.array([np.eye(2), [[0.0, -1.0], [1.0, 0.0]]]) / np.sqrt(2), 3: np.eye(9).reshape(9, 3, 3)}
GAP_ROUNDING = 1000.0  # a gap below this multiple of eps times the root of the number of unknowns is rounding error
GAUGE_RESIDUAL = 1e-6  # |L v| below which a unit vector v is split off as a rotation of the whole map
LEAST_MULTIPLIER = 1e-6  # of the mean: a smaller c_t is replaced by this, so that D can be inverted
SMALL = 36  # unknowns up to which all eigenvalues are computed at once
# Lanczos stops at the first of these residuals at which the sign is settled; the last one is rounding level
RESIDUALS = (1e-2, 1e-12)
SETTLED = 10.0  # the sign is settled if the eigenvalue exceeds this multiple of its residual
MAX_RESTARTS = 300  # of Lanczos


@dataclass(frozen=True)
class Certificate:
    """Whether rotations are proven to be the global optimum, and how much larger f could be at most.

    Attributes
    ----------
    certified : bool
        Whether no other rotations have a larger f (theory, eq. 16b).
    gap : float
        Bound on (largest f - f) / f (theory, eq. 16c): rounding error if certified, inf if it was not found.
    """

    certified: bool
    gap: float

    def __str__(self) -> str:
        if self.certified:
            return "The rotations of the clouds are certified: no others fit the clouds better under this model."
        if not np.isfinite(self.gap):
            return "The rotations of the clouds could not be certified: the computation of the bound did not converge."
        return (
            "The rotations of the clouds could not be certified as the global optimum: others may explain up to "
            f"{100 * self.gap:.2g} % more of the sum of squares. It is only a bound: such rotations need not exist."
        )


def certify(operator: Operator, rotations: Array, max_restarts: int = MAX_RESTARTS) -> Certificate:  # G, (n, d, d)
    """The certificate of rotations for  f(R) = <R, G(R)>."""
    dual = _Dual(operator, rotations, max_restarts)
    if not dual.value > 0:
        return Certificate(False, np.inf)
    gap = dual.slack * max(0.0, -dual.smallest_eigenvalue())
    tolerance = GAP_ROUNDING * np.finfo(np.float64).eps * np.sqrt(dual.size)
    return Certificate(bool(gap <= tolerance), float(gap))


class _Dual:
    """D^(-1/2) L D^(-1/2), on coordinates with respect to a basis of the span of the rotations."""

    def __init__(self, operator: Operator, rotations: Array, max_restarts: int) -> None:
        n, d, _ = rotations.shape
        self._max_restarts = max_restarts
        products = np.swapaxes(rotations, 1, 2) @ operator(rotations)
        multipliers = 0.5 * (products + np.swapaxes(products, 1, 2))  # Lambda_t
        traces = np.trace(products, axis1=1, axis2=2) / d
        self.value = d * float(traces.sum())  # f(R)
        c = np.maximum(traces, max(LEAST_MULTIPLIER * float(traces.mean()), np.finfo(np.float64).tiny))
        self.slack = d * float(c.sum()) / self.value if self.value > 0 else np.inf  # <X, D X> / f(R), usually 1
        self._operator, self._basis = operator, SPANS[d].reshape(-1, d * d)
        self.size = n * len(self._basis)
        self._multipliers = multipliers / c[:, None, None]
        self._inverse_roots = 1 / np.sqrt(c)[:, None, None]
        self._split_off_gauge(rotations / (np.sqrt(float(c.sum())) * self._inverse_roots))

    def smallest_eigenvalue(self) -> float:
        """A lower bound, equal to the smallest eigenvalue up to the residuals of the gauge; -inf if none was found.

        The gauge V and its complement are bounded apart.  With  a = |V' L V|,  b = |L V|,  and mu the smallest
        eigenvalue on the complement, no eigenvalue lies below the smaller one of the matrix  [[-a, b], [b, mu]].
        """
        mu = self._smallest_by_lapack() if self.size <= SMALL else self._smallest_by_lanczos()
        products = self._gauge @ self._gauge_images.T
        a = float(np.linalg.norm(0.5 * (products + products.T)))
        b = float(np.linalg.norm(self._gauge_images))
        return 0.5 * (mu - a - float(np.hypot(mu + a, 2 * b)))

    def _apply(self, X: Array) -> Array:  # (n, d, d) -> (n, d, d)
        roots = self._inverse_roots
        return np.asarray(X @ self._multipliers - roots * self._operator(roots * X))

    def _split_off_gauge(self, turnable: Array) -> None:
        """Keep the vectors  E D^(1/2) R  of length 1 that L maps to zero, E in the basis of the span.

        If G commutes with a matrix E that has no structure, it commutes with all of them.
        """
        matrices = SPANS[turnable.shape[1]]
        mixed = np.tensordot(np.sqrt(np.arange(1.0, len(matrices) + 1)), matrices, axes=1)
        if float(np.linalg.norm(self._apply(mixed @ turnable))) <= GAUGE_RESIDUAL:
            image = self._apply(turnable)
            images = [E @ image for E in matrices]
        else:
            images = [self._apply(E @ turnable) for E in matrices]
        null = [k for k, image in enumerate(images) if float(np.linalg.norm(image)) <= GAUGE_RESIDUAL]
        self._gauge = np.array([self._coordinates(matrices[k] @ turnable) for k in null]).reshape(-1, self.size)
        self._gauge_images = np.array([self._coordinates(images[k]) for k in null]).reshape(-1, self.size)

    def _coordinates(self, X: Array) -> Array:  # (n, d, d) -> (size,)
        return np.asarray(X.reshape(len(X), -1) @ self._basis.T).ravel()

    def _lifted(self, x: Array) -> Array:  # (size,) -> (size,)
        """L - I, with the eigenvalues of the gauge raised by d.

        On the complement of the gauge the mean eigenvalue of L is at most 2, so that those of the gauge are not the
        smallest.  Without the identity, a residual would be judged relative to an eigenvalue that may be 0.
        """
        X = (x.reshape(-1, len(self._basis)) @ self._basis).reshape(self._multipliers.shape)
        lift = self._multipliers.shape[1] * (self._gauge @ x)
        return np.asarray(self._coordinates(self._apply(X)) + lift @ self._gauge - x)

    def _smallest_by_lapack(self) -> float:
        matrix = np.array([self._lifted(unit) for unit in np.eye(self.size)])
        return 1 + float(np.linalg.eigvalsh(0.5 * (matrix + matrix.T))[0])

    def _smallest_by_lanczos(self) -> float:
        """From a random start, which has a component along every eigenvector."""
        lifted = LinearOperator((self.size, self.size), matvec=self._lifted, dtype=np.float64)
        start, eigenvalue, residual = np.random.default_rng(0).standard_normal(self.size), 0.0, np.inf
        for tolerance in RESIDUALS:
            try:
                values, vectors = eigsh(lifted, k=1, which="SA", v0=start, tol=tolerance, maxiter=self._max_restarts)
            except ArpackNoConvergence:
                return -np.inf
            vector = vectors[:, 0]
            residual = float(np.linalg.norm(self._lifted(vector) - values[0] * vector))
            eigenvalue = 1 + float(values[0])
            if eigenvalue > SETTLED * residual:
                break
        return eigenvalue - residual

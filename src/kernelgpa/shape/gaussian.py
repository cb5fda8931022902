"""The distribution of shapes: a Gaussian whose covariance is learned and shrunk to a spatial kernel, up to a pose.

n clouds, m landmarks, d dimension; D = m d coordinates, in the order x, y, z of landmark 1, x, y, z of landmark 2, ...
The residuals y_t (D,) of cloud t after its pose, from the positions M of the mean shape, are modelled as

    y_t = x_t + G g + e,      x_t ~ N(mu, Sigma),   g ~ N(0, tau I),   e ~ N(0, s2 I)               (theory, eq. 23)
    Sigma = (1 - a) S + a C0,      C0 = v (k(M, M) + affine part) (x) I_d                            (theory, eq. 24)

with S the covariance that was learned, C0 the spatial kernel of ``spaces``, a the shrinkage, v the mean square of all
residuals, and s2 = noise v.  The columns of G span the infinitesimal motions of M; tau is so large that a prediction
never depends on the pose that a cloud was given.  With

    H = K^-1 - K^-1 G (G' K^-1 G + I / tau)^-1 G' K^-1,        K = Sigma + s2 I                      (theory, eq. 25)

the coordinates h that a cloud did not see, given those that it saw (o), have

    mean  mu_h - H_hh^-1 H_ho (y_o - mu_o),        covariance  H_hh^-1  (noise included)             (theory, eq. 26)

because H is the inverse covariance of all coordinates.  Its inverse on the few unseen coordinates is all that one
visibility pattern costs.  With many landmarks, the covariance of all coordinates is F F' + s2 I with few columns F, of
which the motions are some, and H_hh^-1 follows from the identity of Woodbury without any (D, D) matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
from scipy.linalg import cho_factor, cho_solve, lapack

from ..errors import NumericalFailure
from ..typing import Array, BoolArray, IndexArray
from .patterns import Patterns


class Prediction(NamedTuple):
    """The unseen coordinates of one cloud."""

    values: Array  # (k d,) residuals minus their mean
    covariances: Array  # (k, d, d) of each landmark, noise included


class Filled(NamedTuple):
    """The residuals of clouds with their unseen coordinates predicted."""

    residuals: Array  # (n, D) minus their mean
    scatter: Array  # the sum over clouds of the covariances of what was predicted, in the coordinates of the space


class Gaussian(Protocol):
    """What the rest of the package asks of eq. 25; residuals are minus their mean, and 0 where unseen."""

    def fill(self, residuals: Array, patterns: Patterns, weights: Array) -> Filled: ...

    def predict(self, residuals: Array, hidden: BoolArray, d: int) -> Prediction: ...

    def projected_variances(self, hidden: BoolArray, directions: Array) -> Array: ...

    def leave_one_out(self, residuals: Array, seen: BoolArray, d: int) -> Prediction: ...

    def square(self, residuals: Array, seen: BoolArray) -> float: ...

    def log_density(self, residuals: Array, seen: BoolArray) -> float: ...


@dataclass(frozen=True)
class DenseGaussian:
    """Eqs. 25 and 26 with the (D, D) matrix H."""

    covariance: Array  # (D, D) Sigma
    motions: Array  # (D, g) G
    pose_variance: float  # tau
    noise: float  # s2

    @cached_property
    def precision(self) -> Array:  # (D, D)
        """H of eq. 25."""
        K = self.covariance.copy()
        K[np.diag_indices(len(K))] += self.noise
        factor, failed = lapack.dpotrf(K, lower=1, overwrite_a=1)
        if failed:
            raise NumericalFailure("the covariance of the shapes is not positive definite; raise noise")
        inverse, _ = lapack.dpotri(factor, lower=1)
        inverse = np.tril(inverse) + np.tril(inverse, -1).T
        product = inverse @ self.motions
        inner = self.motions.T @ product + np.eye(self.motions.shape[1]) / self.pose_variance
        H = inverse - product @ np.linalg.solve(inner, product.T)
        return np.asarray(0.5 * (H + H.T))

    def fill(self, residuals: Array, patterns: Patterns, weights: Array) -> Filled:
        """All clouds at once: patterns with as many unseen coordinates are inverted together."""
        H = self.precision
        filled, scatter, products = residuals.copy(), np.zeros_like(H), residuals @ H
        for group in patterns.groups:
            columns = group.hidden  # (p, k)
            blocks = np.linalg.inv(H[columns[:, :, None], columns[:, None, :]])
            own = columns[group.pattern]
            at = (group.clouds[:, None], own)
            filled[at] = -np.einsum("rij,rj->ri", blocks[group.pattern], products[at])
            total = np.bincount(group.pattern, weights[group.clouds], len(columns))
            blocks -= self.noise * np.eye(columns.shape[1])
            np.add.at(scatter, (columns[:, :, None], columns[:, None, :]), total[:, None, None] * blocks)
        return Filled(filled, scatter)

    def predict(self, residuals: Array, hidden: BoolArray, d: int) -> Prediction:  # (D,), (D,)
        """Eq. 26 for one cloud."""
        h = np.flatnonzero(hidden)
        block = np.asarray(np.linalg.inv(self.precision[np.ix_(h, h)]), dtype=np.float64)
        return Prediction(-block @ (self.precision[h] @ residuals), _diagonal_blocks(block, d))

    def projected_variances(self, hidden: BoolArray, directions: Array) -> Array:  # (D,), (k, D) -> (k,)
        """The variances along given directions that the unseen coordinates leave open, without noise."""
        h = np.flatnonzero(hidden)
        block = np.linalg.inv(self.precision[np.ix_(h, h)]) - self.noise * np.eye(len(h))
        return np.einsum("kh,hi,ki->k", directions[:, h], block, directions[:, h])

    def leave_one_out(self, residuals: Array, seen: BoolArray, d: int) -> Prediction:
        """Residual of each seen landmark from its prediction by the other ones, and the covariance of that."""
        o, h = np.flatnonzero(seen), np.flatnonzero(~seen)
        L = self.precision[np.ix_(o, o)]
        if len(h):  # the precision of what was seen, whatever was not
            across = self.precision[np.ix_(h, o)]
            L = L - across.T @ np.linalg.solve(self.precision[np.ix_(h, h)], across)
        own = np.asarray(np.linalg.inv(_diagonal_blocks(np.asarray(L, dtype=np.float64), d)), dtype=np.float64)
        return Prediction(np.einsum("kij,kj->ki", own, (L @ residuals[o]).reshape(-1, d)).ravel(), own)

    def square(self, residuals: Array, seen: BoolArray) -> float:
        """The squared Mahalanobis distance of what was seen: y' H y with the unseen coordinates as predicted."""
        values = residuals.copy()
        if not seen.all():
            values[~seen] = self.predict(residuals, ~seen, 1).values
        return float(values @ self.precision @ values)

    def log_density(self, residuals: Array, seen: BoolArray) -> float:
        """The log-density of what was seen, whatever the pose."""
        o = np.flatnonzero(seen)
        K = self.covariance[np.ix_(o, o)] + self.noise * np.eye(len(o))
        factor = cho_factor(K, lower=True)
        determinant = 2 * float(np.sum(np.log(np.diag(factor[0]))))
        return _restricted(residuals[o], self.motions[o], lambda x: cho_solve(factor, x), determinant)


@dataclass(frozen=True)
class LowRankGaussian:
    """Eqs. 25 and 26 with K = F F' + s2 I, by the identity of Woodbury; the last columns of F are the motions."""

    basis: Array  # (D, r) orthonormal
    root: Array  # (r, r), Sigma = basis root root' basis'
    motions: Array  # (D, g)
    pose_variance: float
    noise: float

    @cached_property
    def features(self) -> Array:  # (D, r + g)
        return np.hstack([self.basis @ self.root, np.sqrt(self.pose_variance) * self.motions])

    @cached_property
    def gram(self) -> Array:  # (r + g, r + g)
        return self.features.T @ self.features

    def _posterior(self, hidden: IndexArray) -> tuple[Array, Array]:
        """The features of the hidden rows, and s2 (s2 I + F_o'F_o)^-1: the covariance of the coefficients of F."""
        rows = self.features[hidden]
        inner = self.gram - rows.T @ rows
        inner[np.diag_indices(len(inner))] += self.noise
        factor = cho_factor(inner, lower=True, overwrite_a=True)
        return rows, self.noise * cho_solve(factor, np.eye(len(inner)))

    def fill(self, residuals: Array, patterns: Patterns, weights: Array) -> Filled:
        """One pattern after the other; the scatter is in the coordinates of the basis."""
        filled, products = residuals.copy(), residuals @ self.features
        scatter = np.zeros((self.basis.shape[1],) * 2)
        for group in patterns.groups:
            for p, hidden in enumerate(group.hidden):
                clouds = group.clouds[group.pattern == p]
                rows, covariance = self._posterior(hidden)
                filled[np.ix_(clouds, hidden)] = products[clouds] @ (covariance / self.noise) @ rows.T
                across = self.basis[hidden].T @ rows
                scatter += weights[clouds].sum() * across @ covariance @ across.T
        return Filled(filled, scatter)

    def predict(self, residuals: Array, hidden: BoolArray, d: int) -> Prediction:
        rows, covariance = self._posterior(np.flatnonzero(hidden))
        values = rows @ (covariance @ (residuals @ self.features)) / self.noise
        blocks = _feature_blocks(rows, covariance, d)
        return Prediction(values, blocks + self.noise * np.eye(d))

    def projected_variances(self, hidden: BoolArray, directions: Array) -> Array:
        rows, covariance = self._posterior(np.flatnonzero(hidden))
        across = directions[:, hidden] @ rows
        return np.einsum("kr,rs,ks->k", across, covariance, across)

    def leave_one_out(self, residuals: Array, seen: BoolArray, d: int) -> Prediction:
        """Of L = (I - F_o B F_o') / s2, with s2 B the covariance of the coefficients, only the diagonal blocks."""
        rows = self.features[seen]
        _, covariance = self._posterior(np.flatnonzero(~seen))
        blocks = (np.eye(d) - _feature_blocks(rows, covariance, d) / self.noise) / self.noise
        own = np.asarray(np.linalg.inv(blocks), dtype=np.float64)
        y = residuals[seen]
        product = (y - rows @ (covariance @ (rows.T @ y)) / self.noise) / self.noise
        return Prediction(np.einsum("kij,kj->ki", own, product.reshape(-1, d)).ravel(), own)

    def square(self, residuals: Array, seen: BoolArray) -> float:
        _, covariance = self._posterior(np.flatnonzero(~seen))
        inner = residuals @ self.features
        return float(residuals @ residuals - inner @ covariance @ inner / self.noise) / self.noise

    def log_density(self, residuals: Array, seen: BoolArray) -> float:
        rows, s2 = (self.basis @ self.root)[seen], self.noise
        inner = rows.T @ rows + s2 * np.eye(rows.shape[1])
        factor = cho_factor(inner, lower=True)
        determinant = 2 * float(np.sum(np.log(np.diag(factor[0])))) + (len(rows) - len(inner)) * float(np.log(s2))

        def solve(x: Array) -> Array:
            return np.asarray((x - rows @ cho_solve(factor, rows.T @ x)) / s2)

        return _restricted(residuals[seen], self.motions[seen], solve, determinant)


def _restricted(y: Array, G: Array, solve: Callable[[Array], Array], log_determinant: float) -> float:
    """The restricted log-likelihood: that of the contrasts of y that no motion changes."""
    Q, _ = np.linalg.qr(G)
    solved = solve(Q)
    inner = Q.T @ solved
    image = solve(y)
    square = float(y @ image - (Q.T @ image) @ np.linalg.solve(inner, Q.T @ image))
    total = log_determinant + float(np.linalg.slogdet(inner)[1])
    return -0.5 * (square + total + (len(y) - Q.shape[1]) * float(np.log(2 * np.pi)))


def _diagonal_blocks(matrix: Array, d: int) -> Array:  # (k d, k d) -> (k, d, d)
    k = len(matrix) // d
    return np.ascontiguousarray(matrix.reshape(k, d, k, d)[np.arange(k), :, np.arange(k), :])


def _feature_blocks(rows: Array, covariance: Array, d: int) -> Array:  # (k d, r), (r, r) -> (k, d, d)
    """The diagonal blocks of  rows covariance rows'."""
    points = rows.reshape(-1, d, rows.shape[1])
    weighted = (rows @ covariance).reshape(points.shape)
    return np.einsum("kir,kjr->kij", weighted, points)

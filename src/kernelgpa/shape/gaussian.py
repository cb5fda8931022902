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

because H is the inverse covariance of all coordinates. Its inverse on the few unseen coordinates is all that one
visibility pattern costs. An observation of weight w < 1 has noise of variance s2 / w, of which s2 belongs to the
distribution; it is predicted, too, from itself and the others: H_hh gets l = w / ((1 - w) s2) on its diagonal, and l
times the observation is added before it is inverted. With many landmarks, the covariance of all coordinates is F F' +
s2 I with few columns F, of which the motions are some, and H_hh^-1 follows from the identity of Woodbury without any
(D, D) matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple, Protocol

import numpy as np
from scipy.linalg import cho_factor, cho_solve, lapack

from ..errors import NumericalFailure
from ..typing import Array, IndexArray
from .patterns import PatternGroup, Patterns


class PredictedCoordinates(NamedTuple):
    """Coordinates of clouds that were predicted, and their covariances."""

    values: Array  # (n, D) residuals minus their mean
    covariances: Array  # (n, m, d, d) of each landmark, noise included; 0 where nothing was predicted


class Filled(NamedTuple):
    """The residuals of clouds with their unseen coordinates predicted."""

    residuals: Array  # (n, D) minus their mean
    scatter: Array  # the sum over clouds of the covariances of what was predicted, in the coordinates of the space


class ShapeDistribution(Protocol):
    """What the rest of the package asks of eqs. 25 and 26, for all clouds (n, D) at once.

    Residuals are minus their mean, and 0 where unseen.  The last four ask what clouds saw, whatever the weights.
    """

    def fill(self, residuals: Array, patterns: Patterns, weights: Array) -> Filled: ...

    def predict(self, residuals: Array, patterns: Patterns, d: int) -> PredictedCoordinates: ...

    def projected_variances(self, patterns: Patterns, directions: Array) -> Array: ...

    def leave_one_out(self, residuals: Array, patterns: Patterns, d: int) -> PredictedCoordinates: ...

    def squares(self, residuals: Array, patterns: Patterns) -> Array: ...

    def log_densities(self, residuals: Array, patterns: Patterns) -> Array: ...

    def covariance_arrays(self) -> dict[str, Array]:
        """Sigma in the form in which it is stored; the rest follows from the shapes and the settings."""


@dataclass(frozen=True)
class DenseGaussian:
    """Eqs. 25 and 26 with the (D, D) matrix H; patterns with as many unseen coordinates are solved at once."""

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

    def _blocks(self, group: PatternGroup) -> Array:  # (p, k, k)
        """(H_hh + diag(l))^-1 of each pattern, with l = w / (1 - w) / s2: 0 for coordinates that were not seen."""
        columns = group.hidden
        matrices = self.precision[columns[:, :, None], columns[:, None, :]]
        i = np.arange(columns.shape[1])
        matrices[:, i, i] += group.weights / (1 - group.weights) / self.noise
        return np.asarray(np.linalg.inv(matrices), dtype=np.float64)

    def _filled(self, residuals: Array, patterns: Patterns) -> Iterator[tuple[PatternGroup, Array, Array]]:
        """For each group of patterns its blocks, and what its clouds (c, k) are predicted to have."""
        for group in patterns.groups:
            blocks, own = self._blocks(group), group.hidden[group.pattern]
            y = residuals[group.clouds]
            inaccurate = np.take_along_axis(y, own, axis=1)
            np.put_along_axis(y, own, 0.0, axis=1)
            factors = (group.weights / (1 - group.weights))[group.pattern] / self.noise
            target = factors * inaccurate - np.take_along_axis(y @ self.precision, own, axis=1)
            yield group, blocks, np.einsum("rij,rj->ri", blocks[group.pattern], target)

    def fill(self, residuals: Array, patterns: Patterns, weights: Array) -> Filled:
        filled, scatter = residuals.copy(), np.zeros_like(self.precision)
        for group, blocks, values in self._filled(residuals, patterns):
            columns = group.hidden
            filled[group.clouds[:, None], columns[group.pattern]] = values
            total = np.bincount(group.pattern, weights[group.clouds], len(columns))
            i = np.arange(columns.shape[1])
            blocks[:, i, i] -= self.noise * (1 - group.weights)
            np.add.at(scatter, (columns[:, :, None], columns[:, None, :]), total[:, None, None] * blocks)
        return Filled(filled, scatter)

    def predict(self, residuals: Array, patterns: Patterns, d: int) -> PredictedCoordinates:
        """Eq. 26."""
        filled, covariances = residuals.copy(), np.zeros((*_points_shape(residuals, d), d))
        for group, blocks, values in self._filled(residuals, patterns):
            own, k = group.hidden[group.pattern], group.hidden.shape[1] // d
            filled[group.clouds[:, None], own] = values
            diagonal = blocks.reshape(len(blocks), k, d, k, d)[:, np.arange(k), :, np.arange(k), :]  # (k, p, d, d)
            covariances[group.clouds[:, None], own[:, ::d] // d] = diagonal.swapaxes(0, 1)[group.pattern]
        return PredictedCoordinates(filled, covariances)

    def projected_variances(self, patterns: Patterns, directions: Array) -> Array:  # (k, D) -> (n, k)
        """The variances along given directions that the unseen coordinates leave open, without noise."""
        variances = np.zeros((patterns.shape[0], len(directions)))
        for group in patterns.groups:
            blocks, i = self._blocks(group), np.arange(group.hidden.shape[1])
            blocks[:, i, i] -= self.noise * (1 - group.weights)
            for p, (columns, block) in enumerate(zip(group.hidden, blocks, strict=True)):
                across = directions[:, columns]
                variances[group.clouds[group.pattern == p]] = np.sum((across @ block) * across, axis=1)
        return variances

    def leave_one_out(self, residuals: Array, patterns: Patterns, d: int) -> PredictedCoordinates:
        """Residual of each seen landmark from its prediction by the other ones, and the covariance of that.

        With L the precision of what was seen, whatever was not, the residual of landmark j is L_jj^-1 (L y)_j, and L y
        is H times the residuals with the unseen coordinates filled in.
        """
        n, m, _ = _points_shape(residuals, d)
        values, covariances = np.zeros_like(residuals), np.zeros((n, m, d, d))
        own = _diagonal_blocks(self.precision, d)
        for group, blocks, filled in self._filled(residuals, patterns):
            y = residuals[group.clouds]
            np.put_along_axis(y, group.hidden[group.pattern], filled, axis=1)
            across = self.precision[:, group.hidden].swapaxes(0, 1)  # (p, D, k)
            inner = (across @ blocks).reshape(len(blocks), m, d, blocks.shape[1])
            matrices = own - inner @ across.reshape(inner.shape).swapaxes(2, 3)
            seen = np.ones((len(blocks), m), dtype=bool)
            np.put_along_axis(seen, group.hidden // d, False, axis=1)
            matrices[~seen] = np.eye(d)
            inverse = np.where(seen[:, :, None, None], np.linalg.inv(matrices), 0.0)[group.pattern]
            product = (y @ self.precision).reshape(-1, m, d, 1)
            values[group.clouds] = (inverse @ product).reshape(len(y), -1)
            covariances[group.clouds] = inverse
        return PredictedCoordinates(values, covariances)

    def squares(self, residuals: Array, patterns: Patterns) -> Array:  # (n,)
        """Squared Mahalanobis distances of what was seen: y' H y with the unseen coordinates as predicted."""
        filled = self.fill(residuals, patterns, np.zeros(len(residuals))).residuals
        return np.sum((filled @ self.precision) * filled, axis=1)

    def log_densities(self, residuals: Array, patterns: Patterns) -> Array:  # (n,)
        """The log-densities of what was seen, whatever the pose."""
        found = np.empty(len(residuals))
        for hidden, _, clouds in patterns:
            o = np.delete(np.arange(residuals.shape[1]), hidden)
            K = self.covariance[np.ix_(o, o)] + self.noise * np.eye(len(o))
            factor = cho_factor(K, lower=True)
            determinant = 2 * float(np.sum(np.log(np.diag(factor[0]))))
            y = residuals[np.ix_(clouds, o)].T
            found[clouds] = _restricted(y, self.motions[o], partial(cho_solve, factor), determinant)
        return found

    def covariance_arrays(self) -> dict[str, Array]:
        return {"covariance": self.covariance}


class FilledPattern(NamedTuple):
    """One pattern of a low-rank distribution."""

    hidden: IndexArray  # (k,)
    weights: Array  # (k,)
    clouds: IndexArray  # (c,)
    values: Array  # (c, k) as predicted
    rows: Array  # (k, r) features times 1 - w
    covariance: Array  # (r, r) of their coefficients


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

    def _posterior(self, hidden: IndexArray, weights: Array) -> tuple[Array, Array]:  # (k,), (k,)
        """The features of the hidden rows, and s2 (s2 I + F'W F)^-1: the covariance of the coefficients of F."""
        rows = self.features[hidden]
        inner = self.gram - rows.T @ ((1 - weights)[:, None] * rows)
        inner[np.diag_indices(len(inner))] += self.noise
        factor = cho_factor(inner, lower=True, overwrite_a=True)
        return rows, self.noise * cho_solve(factor, np.eye(len(inner)))

    def _filled(self, residuals: Array, patterns: Patterns) -> Iterator[FilledPattern]:
        """One pattern after the other.

        A coordinate of weight w was seen with noise of variance s2 / w, of which s2 belongs to the distribution; given
        the value f of its features, it is  f + w (y - f),  and its variance is that of (1 - w) f plus (1 - w) s2.
        """
        for hidden, weights, clouds in patterns:
            rows, covariance = self._posterior(hidden, weights)
            y = residuals[clouds]
            inaccurate = y[:, hidden]
            y[:, hidden] = weights * inaccurate
            smooth = (y @ self.features) @ (covariance / self.noise) @ rows.T
            open_rows = (1 - weights)[:, None] * rows
            yield FilledPattern(
                hidden, weights, clouds, smooth + weights * (inaccurate - smooth), open_rows, covariance
            )

    def fill(self, residuals: Array, patterns: Patterns, weights: Array) -> Filled:
        """The scatter is in the coordinates of the basis."""
        filled, scatter = residuals.copy(), np.zeros((self.basis.shape[1],) * 2)
        for one in self._filled(residuals, patterns):
            filled[np.ix_(one.clouds, one.hidden)] = one.values
            across = self.basis[one.hidden].T @ one.rows
            scatter += weights[one.clouds].sum() * across @ one.covariance @ across.T
        return Filled(filled, scatter)

    def predict(self, residuals: Array, patterns: Patterns, d: int) -> PredictedCoordinates:
        filled, covariances = residuals.copy(), np.zeros((*_points_shape(residuals, d), d))
        for one in self._filled(residuals, patterns):
            filled[np.ix_(one.clouds, one.hidden)] = one.values
            noise = self.noise * (1 - one.weights[::d, None, None]) * np.eye(d)
            blocks = _feature_blocks(one.rows, one.covariance, d) + noise
            covariances[np.ix_(one.clouds, one.hidden[::d] // d)] = blocks
        return PredictedCoordinates(filled, covariances)

    def projected_variances(self, patterns: Patterns, directions: Array) -> Array:
        variances = np.zeros((patterns.shape[0], len(directions)))
        for hidden, weights, clouds in patterns:
            rows, covariance = self._posterior(hidden, weights)
            across = directions[:, hidden] @ ((1 - weights)[:, None] * rows)
            variances[clouds] = np.sum((across @ covariance) * across, axis=1)
        return variances

    def leave_one_out(self, residuals: Array, patterns: Patterns, d: int) -> PredictedCoordinates:
        """Of L = (I - F_o B F_o') / s2, with s2 B the covariance of the coefficients, only the diagonal blocks."""
        n, m, _ = _points_shape(residuals, d)
        values, covariances = np.zeros_like(residuals), np.zeros((n, m, d, d))
        for hidden, weights, clouds in patterns:
            seen = np.delete(np.arange(residuals.shape[1]), hidden)
            rows = self.features[seen]
            _, covariance = self._posterior(hidden, weights)
            blocks = (np.eye(d) - _feature_blocks(rows, covariance, d) / self.noise) / self.noise
            own = np.asarray(np.linalg.inv(blocks), dtype=np.float64)
            y = residuals[np.ix_(clouds, seen)]
            product = ((y - (y @ rows) @ covariance @ rows.T / self.noise) / self.noise).reshape(len(y), -1, d)
            values[np.ix_(clouds, seen)] = np.einsum("kij,ckj->cki", own, product).reshape(len(y), -1)
            covariances[np.ix_(clouds, seen[::d] // d)] = own
        return PredictedCoordinates(values, covariances)

    def squares(self, residuals: Array, patterns: Patterns) -> Array:
        found = np.sum(residuals**2, axis=1)
        for hidden, weights, clouds in patterns:
            _, covariance = self._posterior(hidden, weights)
            inner = residuals[clouds] @ self.features
            found[clouds] -= np.sum((inner @ covariance) * inner, axis=1) / self.noise
        return found / self.noise

    def log_densities(self, residuals: Array, patterns: Patterns) -> Array:
        found, features, s2 = np.empty(len(residuals)), self.basis @ self.root, self.noise
        for hidden, _, clouds in patterns:
            seen = np.delete(np.arange(residuals.shape[1]), hidden)
            rows = features[seen]
            inner = rows.T @ rows + s2 * np.eye(rows.shape[1])
            factor = cho_factor(inner, lower=True)
            determinant = 2 * float(np.sum(np.log(np.diag(factor[0])))) + (len(rows) - len(inner)) * float(np.log(s2))
            solve = partial(_woodbury, rows, factor, s2)
            found[clouds] = _restricted(residuals[np.ix_(clouds, seen)].T, self.motions[seen], solve, determinant)
        return found

    def covariance_arrays(self) -> dict[str, Array]:
        return {"basis": self.basis, "root": self.root}


def _woodbury(rows: Array, factor: tuple[Array, bool], s2: float, x: Array) -> Array:
    """(F F' + s2 I)^-1 x, with the factor of F'F + s2 I."""
    return np.asarray((x - rows @ cho_solve(factor, rows.T @ x)) / s2)


def _restricted(y: Array, G: Array, solve: Callable[[Array], Array], log_determinant: float) -> Array:  # (k, c) -> (c,)
    """Restricted log-likelihoods: those of the contrasts of the columns of y that no motion changes."""
    Q, _ = np.linalg.qr(G)
    solved = solve(Q)
    inner = Q.T @ solved
    image = solve(y)
    across = Q.T @ image
    squares = np.sum(y * image, axis=0) - np.sum(across * np.linalg.solve(inner, across), axis=0)
    total = log_determinant + float(np.linalg.slogdet(inner)[1])
    return -0.5 * (squares + total + (len(y) - Q.shape[1]) * float(np.log(2 * np.pi)))


def _points_shape(residuals: Array, d: int) -> tuple[int, int, int]:
    return len(residuals), residuals.shape[1] // d, d


def _diagonal_blocks(matrix: Array, d: int) -> Array:  # (k d, k d) -> (k, d, d)
    k = len(matrix) // d
    return np.ascontiguousarray(matrix.reshape(k, d, k, d)[np.arange(k), :, np.arange(k), :])


def _feature_blocks(rows: Array, covariance: Array, d: int) -> Array:  # (k d, r), (r, r) -> (k, d, d)
    """The diagonal blocks of  rows covariance rows'."""
    points = rows.reshape(-1, d, rows.shape[1])
    weighted = (rows @ covariance).reshape(points.shape)
    return np.einsum("kir,kjr->kij", weighted, points)

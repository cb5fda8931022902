"""The spatial kernel of the landmarks, the motions of the mean shape, and the space in which a covariance is stored.

With c the positions of the mean shape, centred and divided by their mean distance, and b the bandwidth,

    C0 = v (exp(-|c_i - c_j|^2 / (2 b^2)) + w (c_i . c_j + 1))  for each coordinate axis alike.      (theory, eq. 24)

The term with w is the affine part; as w grows it becomes free, as in the warps from the map into the clouds (eq. 21),
and a = 1 is then the same predictor.  Up to MOST_DENSE coordinates a covariance is a (D, D) matrix.  Beyond, it is
B C B' with an orthonormal basis B of few columns: the kernel at inducing points, and the principal directions of the
residuals themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from typing import ClassVar, Protocol

import numpy as np
from scipy.spatial.distance import cdist, pdist

from .._numerics.system_memory import available_memory
from ..observations.sampling import farthest_points
from ..spectrum.forecast import PROGRAM, Forecast
from ..typing import Array
from .gaussian import DenseGaussian, LowRankGaussian, ShapeDistribution
from .patterns import MOST_ENTRIES

MOST_DENSE = 2000  # coordinates for which (D, D) matrices are formed
INDUCING = 64  # points at which the kernel is placed if there are more coordinates
DIRECTIONS = 100  # principal directions of the residuals in the basis
POSE_DEVIATIONS = 10.0  # standard deviation of an unknown motion of each landmark, in units of that of the residuals
AFFINE = 1.0  # w
SAMPLE = 1000  # landmarks from which the mean distance is computed
MOST_LANDMARKS = 200  # from which settings are chosen if there are too many for (D, D) matrices
MODELS = 11  # that exist at the same time: those without each fold, and that of all clouds


def mean_distance(points: Array) -> float:  # (m, d)
    """The mean distance between points; of many points, between some that are evenly spaced in their order."""
    some = points[np.linspace(0, len(points) - 1, min(len(points), SAMPLE)).astype(int)]
    return float(pdist(some).mean())


def motions(points: Array, scaling: bool) -> Array:  # (m, d) -> (D, g) orthonormal
    """The infinitesimal translations and rotations of points, and their change of size."""
    m, d = points.shape
    centred = points - points.mean(axis=0)
    columns = [np.tile(axis, (m, 1)) for axis in np.eye(d)]
    for i, j in combinations(range(d), 2):
        turn = np.zeros((d, d))
        turn[i, j], turn[j, i] = 1.0, -1.0
        columns.append(centred @ turn.T)
    if scaling:
        columns.append(centred)
    return np.linalg.qr(np.stack([one.ravel() for one in columns], axis=1))[0]


@dataclass(frozen=True)
class Shapes:
    """What all models of one alignment share: mean positions, motions and the mean square v of the residuals."""

    positions: Array  # (m, d)
    motions: Array  # (D, g)
    variance: float  # v

    @property
    def pose_variance(self) -> float:
        """tau of eq. 23: the motions are columns of length 1, which move each landmark by about 1 / sqrt(m)."""
        return POSE_DEVIATIONS**2 * len(self.positions) * self.variance

    def kernel(self, bandwidth: float, centres: Array | None = None, affine: float = AFFINE) -> Array:  # (m, l)
        """k of eq. 24 with its affine part, for one coordinate axis and v = 1."""
        size, mean = mean_distance(self.positions), self.positions.mean(axis=0)
        c = (self.positions - mean) / size
        z = c if centres is None else (centres - mean) / size
        return np.exp(-cdist(c, z, "sqeuclidean") / (2 * bandwidth**2)) + affine * (c @ z.T + 1)


def forecast_shapes(n: int, m: int, d: int = 3) -> Forecast:
    """Peak memory of a shape model of n clouds and m landmarks, counted in numbers of eight bytes.

    With D = m d coordinates: 14 n D for the clouds, their residuals and completions (3 n D d for covariances), as many
    again for the clouds that the models without each fold are learned from, and matrices of D x D, or with more than
    MOST_DENSE coordinates D x r of the models, with r columns of the basis.  The registration before it is smaller.
    """
    D = m * d
    clouds = n * D * (14 + MODELS + 3 * d)
    if D <= MOST_DENSE:
        path, rest = "all coordinates", (3 * MODELS + 6) * D**2
    else:
        r = d * (INDUCING + d + 1) + min(DIRECTIONS, n) + d * (d + 1) // 2
        path, rest = "a basis of few directions", D * r * (MODELS + 8) + (3 * MODELS + 6) * r**2
        rest += (3 * MODELS + 6) * (MOST_LANDMARKS * d) ** 2
    return Forecast(f"shape model in {path}", int(8 * (clouds + rest + 3 * MOST_ENTRIES) + PROGRAM), available_memory())


class Space(Protocol):
    """Where covariances live: all coordinates, or the span of a basis."""

    rounds: ClassVar[int]  # of eq. 27 for the final model

    def prior(self, bandwidth: float) -> Array:
        """C0 of eq. 24."""

    def scatter(self, residuals: Array, weights: Array) -> Array:
        """The weighted sum of the outer products of residuals (n, D)."""

    def gaussian(self, covariance: Array, noise: float) -> ShapeDistribution:
        """The distribution with that covariance, and noise as a multiple of v."""

    def eigenpairs(self, covariance: Array) -> tuple[Array, Array]:
        """Eigenvalues, largest first, and eigenvectors as rows over all coordinates."""

    def trace(self, covariance: Array) -> float:
        """The total variance."""


@dataclass(frozen=True)
class FullSpace:
    """All coordinates."""

    rounds: ClassVar[int] = 12
    shapes: Shapes
    affine: float = AFFINE

    def prior(self, bandwidth: float) -> Array:
        kernel = self.shapes.variance * self.shapes.kernel(bandwidth, affine=self.affine)
        return np.asarray(np.kron(kernel, np.eye(self.shapes.positions.shape[1])), dtype=np.float64)

    def scatter(self, residuals: Array, weights: Array) -> Array:
        return (residuals * weights[:, None]).T @ residuals

    def gaussian(self, covariance: Array, noise: float) -> DenseGaussian:
        shapes = self.shapes
        return DenseGaussian(covariance, shapes.motions, shapes.pose_variance, noise * shapes.variance)

    def eigenpairs(self, covariance: Array) -> tuple[Array, Array]:
        values, vectors = np.linalg.eigh(covariance)
        return values[::-1], vectors.T[::-1]

    def trace(self, covariance: Array) -> float:
        return float(np.trace(covariance))


@dataclass(frozen=True)
class BasisSpace:
    """The span of the kernel at inducing points and of the principal directions of the residuals."""

    rounds: ClassVar[int] = 4
    shapes: Shapes
    basis: Array  # (D, r) orthonormal
    inducing: int

    @classmethod
    def of(
        cls,
        shapes: Shapes,
        bandwidth: float,
        fill: Callable[[BasisSpace], Array],  # the residuals (n, D) as the kernel alone fills them in
        inducing: int = INDUCING,
        directions: int = DIRECTIONS,
    ) -> BasisSpace:
        d = shapes.positions.shape[1]
        spatial = np.kron(_kernel_features(shapes, bandwidth, inducing), np.eye(d))
        first = cls(shapes, np.linalg.qr(spatial)[0], inducing)
        filled = fill(first)
        rest = filled - (filled @ first.basis) @ first.basis.T
        _, values, vectors = np.linalg.svd(rest - rest.mean(axis=0), full_matrices=False)
        kept = vectors[: min(directions, int(np.sum(values > 1e-9 * max(values[0], 1e-300))))]
        return cls(shapes, np.linalg.qr(np.hstack([first.basis, kept.T]))[0], inducing)

    def prior(self, bandwidth: float) -> Array:
        d = self.shapes.positions.shape[1]
        features = np.kron(_kernel_features(self.shapes, bandwidth, self.inducing), np.eye(d))
        inner = self.basis.T @ features
        return self.shapes.variance * inner @ inner.T

    def scatter(self, residuals: Array, weights: Array) -> Array:
        inner = residuals @ self.basis
        return (inner * weights[:, None]).T @ inner

    def gaussian(self, covariance: Array, noise: float) -> LowRankGaussian:
        values, vectors = np.linalg.eigh(0.5 * (covariance + covariance.T))
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        shapes = self.shapes
        return LowRankGaussian(self.basis, root, shapes.motions, shapes.pose_variance, noise * shapes.variance)

    def eigenpairs(self, covariance: Array) -> tuple[Array, Array]:
        values, vectors = np.linalg.eigh(covariance)
        return values[::-1], vectors.T[::-1] @ self.basis.T

    def trace(self, covariance: Array) -> float:
        return float(np.trace(covariance))


def _kernel_features(shapes: Shapes, bandwidth: float, inducing: int) -> Array:  # (m, q)
    """Features Phi with  Phi Phi' = k(M, Z) k(Z, Z)^-1 k(Z, M), Z the inducing points; the affine part is exact."""
    positions = shapes.positions
    centred = (positions - positions.mean(axis=0)) / mean_distance(positions)
    some = farthest_points(positions, inducing)
    across = shapes.kernel(bandwidth, positions[some], affine=0.0)
    values, vectors = np.linalg.eigh(across[some])
    kept = values > 1e-10 * values[-1]
    features = across @ (vectors[:, kept] / np.sqrt(values[kept]))
    return np.hstack([features, np.sqrt(AFFINE) * np.hstack([centred, np.ones((len(positions), 1))])])

"""Kernel matrices between points and centres, their products with weights, and the gradients of these.

With k(x, z) = phi(|x - z| / sigma), points x (k, d), centres z (s, d) and weights w (s, c):

    gram            K = [k(x_i, z_j)]                                   (k, s)    Definition 4 of the paper
    gram_sum        K w                                                 (k, c)
    gram_gradient   d (K w) / d x                                       (k, c, d)

The matrices of a kernel of compact support are sparse if few centres lie within its support.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist

from .._numerics.allocation import allocate
from .._numerics.sparse import count_within, distances_within
from .._numerics.threads import parallel_map
from ..observations.arrays import finite_rows
from ..typing import Array
from .kernels import Kernel

PARALLEL_ENTRIES = 1_000_000  # a kernel matrix with more entries is computed on all cores
CACHED_ROWS = 512  # rows of a kernel matrix that stay in the cache together


@dataclass(frozen=True)
class SparseLimits:
    """When sparse kernel matrices are faster than dense ones."""

    fewest_points: int = 2000
    largest_share: float = 0.015  # of the points that lie within the support around one of them

    def pays(self, neighbours: float, points: float) -> bool:
        """Whether sparse algebra is faster for this number of points and of entries per row."""
        return points >= self.fewest_points and neighbours <= self.largest_share * points

    def neighbours(self, kernel: Kernel, centres: Array, sigma: float) -> float | None:
        """The mean number of centres within the support around a centre; None if dense matrices are faster."""
        if len(centres) < self.fewest_points or not np.isfinite(kernel.support):
            return None
        count = count_within(centres, kernel.support * sigma)
        return count if self.pays(count, len(centres)) else None


DEFAULT_SPARSE_LIMITS = SparseLimits()


def gram(
    kernel: Kernel,
    x: Array,  # (k, d)
    centres: Array,  # (s, d)
    sigma: float,
) -> Array:  # (k, s)
    """The dense kernel matrix."""
    squares = allocate(len(x), len(centres))
    u, z = x / sigma, centres / sigma

    def fill(rows: slice) -> None:
        cdist(u[rows], z, "sqeuclidean", out=squares[rows])
        kernel.replace_squares(squares[rows])

    step = CACHED_ROWS if squares.size > PARALLEL_ENTRIES else max(len(x), 1)
    parallel_map(fill, [slice(first, first + step) for first in range(0, len(x), step)])
    return squares


def sparse_gram(kernel: Kernel, x: Array, centres: Array, sigma: float) -> csr_array:  # (k, s)
    """The kernel matrix of a kernel of compact support."""
    K = distances_within(x / sigma, centres / sigma, kernel.support)
    K.data = kernel.value(K.data)
    return K


def gram_sum(
    kernel: Kernel,
    x: Array,  # (k, d)
    centres: Array,  # (s, d)
    sigma: float,
    weights: Array,  # (s, c)
    sparse: bool = False,  # whether few centres lie within the support around a point
) -> Array:  # (k, c)
    """The kernel matrix times weights, a few rows at a time so that they stay in the cache."""
    if sparse:
        return _nan_for_unknown(x, sparse_gram(kernel, x, centres, sigma) @ weights)
    total = np.empty((len(x), weights.shape[1]))
    buffer = np.empty((min(CACHED_ROWS, len(x)), len(centres)))
    u, evaluate = x / sigma, kernel.evaluation(centres / sigma)
    for first in range(0, len(x), CACHED_ROWS):
        rows = slice(first, first + CACHED_ROWS)
        np.matmul(evaluate(u[rows], buffer[: len(u[rows])]), weights, out=total[rows])
    return total


def gram_gradient(
    kernel: Kernel,
    x: Array,  # (k, d)
    centres: Array,  # (s, d)
    sigma: float,
    weights: Array,  # (s, c)
    sparse: bool = False,
) -> Array:  # (k, c, d)
    """The gradient of the kernel matrix times weights."""
    if sparse:
        return _sparse_gradient(kernel, x, centres, sigma, weights)
    factors = kernel.derivative_over_r(cdist(x / sigma, centres / sigma)) / sigma**2
    # differences first: the factor grows like 1 / r at a kink, and x - z carries the digits
    return np.stack([(factors * (x[:, j, None] - centres[None, :, j])) @ weights for j in range(x.shape[1])], axis=-1)


def _sparse_gradient(kernel: Kernel, x: Array, centres: Array, sigma: float, weights: Array) -> Array:
    distances = distances_within(x / sigma, centres / sigma, kernel.support).tocoo()
    factors, (rows, columns) = kernel.derivative_over_r(distances.data) / sigma**2, distances.coords
    differences = x[rows] - centres[columns]
    parts = [
        csr_array((factors * differences[:, j], (rows, columns)), distances.shape) @ weights for j in range(x.shape[1])
    ]
    return _nan_for_unknown(x, np.stack(parts, axis=-1))


def _nan_for_unknown(x: Array, values: Array) -> Array:
    """Points that are not known are near no centre; their values are NaN and not 0."""
    values[~finite_rows(x)] = np.nan
    return values

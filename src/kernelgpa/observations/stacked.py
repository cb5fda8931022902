"""All clouds stacked in arrays over all landmarks, so that one matrix product replaces a loop over clouds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ..typing import Array, IndexArray


class WeightedProducts(NamedTuple):
    """Products of the weights and the points; a running sum updates them with every cloud."""

    weighted_points: Array  # (m, n d)
    squared_sizes: Array  # (n,)
    translations: Array  # (m, m), sum_t w_t w_t' / |w_t| with the weights of cloud t as a vector over all landmarks


@dataclass(frozen=True)
class StackedClouds:
    """n clouds over m landmarks, with zeros for the landmarks that a cloud did not see."""

    weights: Array  # (m, n), positive for what was seen
    centred: Array  # (n, m, d), points minus the weighted mean of their cloud
    means: Array  # (n, d), weighted means
    ranks: IndexArray  # (n,), dimensions that each cloud spans
    resolution: float = 0.0  # the coarsest spacing of the numbers in which the points were given
    thinness: float = 1.0  # harmonic mean over the clouds of (smallest spread / largest spread)
    products: WeightedProducts | None = None  # if already known; otherwise computed on first use

    @property
    def rank(self) -> int:
        """Dimensions of the map: the largest number of dimensions that a cloud spans."""
        return int(self.ranks.max())

    @property
    def counts(self) -> IndexArray:  # (m,)
        """The number of clouds that see each landmark."""
        return np.count_nonzero(self.weights, axis=1)

    @cached_property
    def weighted_points(self) -> Array:  # (m, n d)
        if self.products is not None:
            return self.products.weighted_points
        return (self.weights[:, :, None] * np.swapaxes(self.centred, 0, 1)).reshape(len(self.weights), -1)

    @cached_property
    def squared_sizes(self) -> Array:  # (n,)
        """The weighted sum of squared distances of each cloud from its mean."""
        if self.products is not None:
            return self.products.squared_sizes
        return np.asarray(np.einsum("mn,nmd,nmd->n", self.weights, self.centred, self.centred))

    @cached_property
    def total_weights(self) -> Array:  # (n,)
        """The sum of the weights of each cloud."""
        return self.weights.sum(axis=0)

    @cached_property
    def moments(self) -> Array:  # (n, d, d)
        """The weighted second moments of each cloud about its mean."""
        n, m, d = self.centred.shape
        weighted = np.ascontiguousarray(np.swapaxes(self.weighted_points.reshape(m, n, d), 0, 1))
        return np.asarray(np.swapaxes(self.centred, 1, 2) @ weighted)

    def at(self, clouds: IndexArray) -> StackedClouds:
        """Some of the clouds, or all of them in another order."""
        weights, centred, means = self.weights[:, clouds], self.centred[clouds], self.means[clouds]
        return StackedClouds(weights, centred, means, self.ranks[clouds], self.resolution, self.thinness)

    def only(self, landmarks: IndexArray) -> StackedClouds:
        """The same clouds restricted to some landmarks and centred again.

        Each cloud must still span as many dimensions as before.
        """
        weights, centred = self.weights[landmarks], self.centred[:, landmarks]
        shifts = np.einsum("mn,nmd->nd", weights, centred) / weights.sum(axis=0)[:, None]
        centred -= shifts[:, None] * (weights.T > 0)[:, :, None]
        return StackedClouds(weights, centred, self.means + shifts, self.ranks, self.resolution, self.thinness)

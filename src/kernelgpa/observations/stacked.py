"""All clouds in arrays over all landmarks: what lets one product do the work of a loop over clouds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..typing import Array, IndexArray


@dataclass(frozen=True)
class StackedClouds:
    """n clouds over m landmarks; zeros where a cloud did not see one, and only there."""

    weights: Array  # (m, n)
    centred: Array  # (n, m, d) points less the centre of weight of their cloud
    means: Array  # (n, d) the centres of weight
    ranks: IndexArray  # (n,) dimensions that each cloud spans
    resolution: float = 0.0  # the coarsest spacing of the numbers that the points were given in
    thinness: float = 1.0  # harmonic mean over the clouds: the least spread of each as a share of its largest

    @property
    def rank(self) -> int:
        """Dimensions of the map: as many as the fullest cloud spans."""
        return int(self.ranks.max())

    @property
    def counts(self) -> IndexArray:  # (m,)
        """Clouds that see each landmark."""
        return np.count_nonzero(self.weights, axis=1)

    @cached_property
    def weighted_points(self) -> Array:  # (m, n d)
        return (self.weights[:, :, None] * np.swapaxes(self.centred, 0, 1)).reshape(len(self.weights), -1)

    @cached_property
    def squared_sizes(self) -> Array:  # (n,)
        """The weighted square of each cloud about its centre."""
        return np.asarray(np.einsum("mn,nmd,nmd->n", self.weights, self.centred, self.centred))

    @cached_property
    def total_weights(self) -> Array:  # (n,)
        """The weight of each cloud."""
        return self.weights.sum(axis=0)

    def only(self, landmarks: IndexArray) -> StackedClouds:
        """The same clouds at some landmarks, enough of them for each to span what it spans, centred there."""
        weights, centred = self.weights[landmarks], self.centred[:, landmarks]
        moved = np.einsum("mn,nmd->nd", weights, centred) / weights.sum(axis=0)[:, None]
        centred -= moved[:, None] * (weights.T > 0)[:, :, None]
        return StackedClouds(weights, centred, self.means + moved, self.ranks, self.resolution, self.thinness)

    @cached_property
    def moments(self) -> Array:  # (n, d, d)
        """The weighted second moments of each cloud about its centre."""
        n, m, d = self.centred.shape
        pull = np.ascontiguousarray(np.swapaxes(self.weighted_points.reshape(m, n, d), 0, 1))
        return np.asarray(np.swapaxes(self.centred, 1, 2) @ pull)

"""Mean and covariance of the shapes by expectation maximisation over unseen coordinates.

With E_t the residuals of cloud t, what it did not see predicted by eq. 26, V_t the covariance of that prediction
without noise (0 where seen) and u_t the weight of the cloud (1 unless it is an outlier), U = sum_t u_t:

    mu <- sum_t u_t E_t / U,      S <- sum_t u_t ((E_t - mu)(E_t - mu)' + V_t) / (U - 1)              (theory, eq. 27)

The iteration starts from the mean shape of the registration and Sigma = C0.  With complete data it ends after one
round, and S is the empirical covariance.  No round lowers the posterior density of mean and covariance for which the
shrinkage is a prior (theory, section 17).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..typing import Array, BoolArray
from .gaussian import ShapeDistribution
from .patterns import Patterns
from .spaces import Space

KERNEL_ROUNDS = 3  # for a = 1, where the covariance does not change


class ShapeSettings(NamedTuple):
    """What a model is learned with."""

    bandwidth: float
    noise: float  # s2 / v
    shrinkage: float  # a


@dataclass(frozen=True)
class TrainingClouds:
    """Residuals of the clouds that a model is learned from."""

    residuals: Array  # (n, D), 0 where unseen
    seen: BoolArray  # (n, D)
    patterns: Patterns  # of the weights of the observations
    weights: Array  # (n,) u
    start: Array  # (D,) the mean shape of their registration

    @classmethod
    def of(
        cls,
        residuals: Array,
        observation_weights: Array | BoolArray,  # (n, D) from 0 to 1
        weights: Array,
        start: Array,
    ) -> TrainingClouds:
        return cls(residuals, observation_weights > 0, Patterns.of(observation_weights), weights, start)

    def centred(self, mean: Array) -> Array:  # (D,) -> (n, D)
        """The residuals minus a mean, 0 where unseen."""
        return np.where(self.seen, self.residuals - mean, 0.0)


class Learned(NamedTuple):
    """A mean, a learned covariance and the distribution of eq. 23."""

    mean: Array  # (D,)
    covariance: Array  # S, in the coordinates of the space
    gaussian: ShapeDistribution


def learn(clouds: TrainingClouds, space: Space, settings: ShapeSettings, rounds: int) -> Learned:
    """Eq. 27, for a number of rounds."""
    a, prior = settings.shrinkage, space.prior(settings.bandwidth)
    mean, S, u = clouds.start, prior, clouds.weights
    complete = clouds.patterns.are_complete
    gaussian = space.gaussian(prior, settings.noise)
    for _ in range(1 if complete else (KERNEL_ROUNDS if a == 1 else rounds)):
        filled = gaussian.fill(clouds.centred(mean), clouds.patterns, u)
        step = u @ filled.residuals / u.sum()
        mean = mean + step
        S = (space.scatter(filled.residuals - step, u) + filled.scatter) / (u.sum() - 1)
        if a < 1:
            gaussian = space.gaussian((1 - a) * S + a * prior, settings.noise)
    return Learned(mean, S, gaussian)

"""Residual to weight.

A flexible warp swallows a wrong match, so plain residuals see nothing.  The residual that counts is the one
an observation would have if its cloud had been fitted without it (theory, eq. 17).  Weights are

    huber           min(1, c / r)                 c = 1.345 sigma
    tukey           (1 - (r / c)^2)^2, r < c      c = 4.685 sigma
    geman-mcclure   (c^2 / (c^2 + r^2))^2         c = 3 sigma

sigma is the spread of the good observations, from the median of all residuals: half of them may be
wrong.  While c shrinks, the map that residuals are taken against has each landmark where most of its
observations agree after their clouds' rigid motions (``consensus``): the mean of few observations follows the
wrong ones among them, and would then hold on to them.  For the last two losses c is never less than twice the
median distance of the clouds from the map after a rigid motion: what lies within that does no more harm to the
map than the deformation itself.  The first
solve is wrong wherever wrong matches are many, so c starts large enough for nine observations in ten and
shrinks by 0.6 from solve to solve until it reaches its value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.stats import chi

from ..errors import InvalidSetting
from ..typing import Array

SHRINK = 0.6
FIRST_SHARE = 0.9  # of the observations that the first scale takes in
FAINTEST = 1e-6  # a weight is never less, so that every observation keeps a residual
SETTLED = 1e-2  # root mean square change of the weights that ends the iteration
MOST_ROUNDS = 60
TIE = 1e-9  # of the support: two views of a landmark have the same, and neither is the first
MOST_CANDIDATES = 60  # observations of a landmark whose support is counted


def _huber(r: Array) -> Array:
    return np.minimum(1.0, 1 / np.maximum(r, 1e-300))


def _tukey(r: Array) -> Array:
    return np.maximum(1 - r**2, 0.0) ** 2


def _geman_mcclure(r: Array) -> Array:
    return 1 / (1 + r**2) ** 2


class Loss(NamedTuple):
    tuning: float  # c in units of sigma
    harmless: float  # c in units of the median rigid distance, below which it does not go
    weight: Callable[[Array], Array]  # of r / c


LOSSES: dict[str, Loss] = {
    "huber": Loss(1.345, 0.0, _huber),  # it never lets go, so a wide c would heed wrong matches too much
    "tukey": Loss(4.685, 2.0, _tukey),
    "geman-mcclure": Loss(3.0, 2.0, _geman_mcclure),
}


def spread(residuals: Array, dimension: int) -> float:  # (...,) lengths, NaN where unseen
    """sigma of one coordinate, from the median length of the residuals."""
    return float(np.nanmedian(residuals) / chi(dimension).median())


def consensus(
    posed: Array,  # (n, m, d) observations after their clouds' rigid motions, NaN where unseen
    reach: float,
) -> Array:  # (m, d)
    """Where most observations of each landmark agree: the mean about the one with the most support, or about those.

    Support is the sum of Geman-McClure weights of the distances to all observations, with c = ``reach``.
    """
    n, m, d = posed.shape
    candidates = posed[np.linspace(0, n - 1, min(n, MOST_CANDIDATES)).astype(int)]
    if n > MOST_CANDIDATES:  # of a landmark that none of these saw, the first observation stands in
        first = posed[np.argmax(~np.isnan(posed[:, :, 0]), axis=0), np.arange(m)]
        candidates = np.concatenate([candidates, first[None]])
    most, places, tied = np.full(m, -1.0), np.zeros((m, d)), np.zeros(m)
    for candidate in candidates:
        weights = np.nan_to_num(_geman_mcclure(np.linalg.norm(posed - candidate, axis=2) / reach))
        support = np.where(np.isnan(candidate[:, 0]), -np.inf, weights.sum(axis=0))
        tied[support > most * (1 + TIE)] = 0.0  # those before have less
        some = np.flatnonzero(support >= most * (1 - TIE))
        near = np.einsum("nm,nmd->md", weights[:, some], np.nan_to_num(posed[:, some])) / support[some, None]
        tied[some] += 1
        places[some] += (near - places[some]) / tied[some, None]
        most[some] = np.maximum(support[some], most[some])
    return np.where(tied[:, None] > 0, places, np.nan)


def require_loss(loss: str) -> None:
    if not isinstance(loss, str) or loss not in LOSSES:
        raise InvalidSetting(f"robust is {loss!r}; expected one of {', '.join(LOSSES)}, or None")


class Annealing:
    """The scale of a loss from solve to solve: large at first, then down to its place."""

    def __init__(self, loss: str, dimension: int, rounding: float) -> None:
        require_loss(loss)
        self._loss = LOSSES[loss]
        self._dimension, self._rounding = dimension, rounding
        self._scale = np.inf
        self.arrived = False

    def weights(self, residuals: Array, rigid: Array) -> Array:
        """Weights between FAINTEST and 1 for leave-one-out and rigid distances; NaN stays NaN."""
        self._shrink(residuals, rigid)
        return np.maximum(self._loss.weight(residuals / self._scale), FAINTEST)

    def _shrink(self, residuals: Array, rigid: Array) -> None:
        usual, harmless = spread(residuals, self._dimension), float(np.nanmedian(rigid))
        last = max(self._loss.tuning * usual, self._loss.harmless * harmless, self._rounding)
        first = float(np.nanquantile(residuals, FIRST_SHARE))
        self._scale = max(last, first if np.isinf(self._scale) else SHRINK * self._scale)
        self.arrived = self._scale == last

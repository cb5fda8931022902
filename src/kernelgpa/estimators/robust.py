"""Robust fitting: residuals to weights, from solve to solve.

A flexible warp absorbs a wrong match, so that plain residuals show nothing.  The residual that counts is the one that
an observation would have if its cloud had been fitted without it (theory, eq. 17).  Weights are

    huber           min(1, c / r)                 c = 1.345 sigma
    tukey           (1 - (r / c)^2)^2, r < c      c = 4.685 sigma
    geman-mcclure   (c^2 / (c^2 + r^2))^2         c = 3 sigma

sigma is the spread of the inliers, from the median of all residuals: up to half of them may be outliers.  For the last
two losses c is never less than twice the median distance of the clouds from the map after a rigid motion, because what
lies within that does no more harm to the map than the deformation itself.  No c is below 1e-6 of the map's size.

The first solve is wrong if wrong matches are many.  Therefore c starts large enough for nine observations in ten and
shrinks by 0.6 from solve to solve until it reaches its final value.  While it shrinks, residuals are taken against a
map in which each landmark lies where most of its observations agree after their clouds' rigid motions (``consensus``):
the mean of few observations would follow the wrong ones among them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.stats import chi

from .._numerics.progress import with_progress
from ..errors import InvalidSetting, warn
from ..gauge.initial import Start
from ..observations import Observations
from ..observations.collection import reweighted
from ..typing import Array
from .problem import Problem
from .registration import Solution, posed_observations

SHRINK = 0.6
FIRST_SHARE = 0.9  # of the observations that the first scale takes in
LEAST_FACTOR = 1e-6  # a weight is never lowered further, so that every observation keeps a residual
LEAST_WEIGHT_CHANGE = 1e-2  # root mean square change of the weights that ends the iteration
MOST_SOLVES = 60
EQUAL_SUPPORT = 1e-9  # relative: two views of a landmark with the same support count alike
EXACT_COPIES = 1e-6  # of the map's size: residuals below this are those of exact copies
MOST_CANDIDATES = 60  # observations of a landmark whose support is counted

ResidualLengths = Callable[[Array], Array]  # (k, d) positions in the map -> (n, k) leave-one-out lengths of all clouds


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
    "huber": Loss(1.345, 0.0, _huber),  # its weights never vanish, so a wide c would count wrong matches too much
    "tukey": Loss(4.685, 2.0, _tukey),
    "geman-mcclure": Loss(3.0, 2.0, _geman_mcclure),
}


def spread(residuals: Array, dimension: int) -> float:  # (...,) lengths, NaN where unseen
    """sigma of one coordinate, from the median length of the residuals."""
    return float(np.nanmedian(residuals) / chi(dimension).median())


def consensus(
    posed: Array,  # (n, m, d) observations after their clouds' rigid motions, NaN where unseen
    scale: float,
) -> Array:  # (m, d)
    """Where most observations of each landmark agree: the mean about the one, or those, with the most support.

    Support is the sum of Geman-McClure weights of the distances to all observations, with c = ``scale``.
    """
    n, m, d = posed.shape
    candidates = posed[np.linspace(0, n - 1, min(n, MOST_CANDIDATES)).astype(int)]
    if n > MOST_CANDIDATES:  # of a landmark that none of these saw, the first observation is added
        first = posed[np.argmax(~np.isnan(posed[:, :, 0]), axis=0), np.arange(m)]
        candidates = np.concatenate([candidates, first[None]])
    most, positions, equal = np.full(m, -1.0), np.zeros((m, d)), np.zeros(m)
    for candidate in candidates:
        weights = np.nan_to_num(_geman_mcclure(np.linalg.norm(posed - candidate, axis=2) / scale))
        support = np.where(np.isnan(candidate[:, 0]), -np.inf, weights.sum(axis=0))
        equal[support > most * (1 + EQUAL_SUPPORT)] = 0.0  # those before have less
        some = np.flatnonzero(support >= most * (1 - EQUAL_SUPPORT))
        near = np.einsum("nm,nmd->md", weights[:, some], np.nan_to_num(posed[:, some])) / support[some, None]
        equal[some] += 1
        positions[some] += (near - positions[some]) / equal[some, None]
        most[some] = np.maximum(support[some], most[some])
    return np.where(equal[:, None] > 0, positions, np.nan)


def require_loss(loss: str) -> None:
    if not isinstance(loss, str) or loss not in LOSSES:
        raise InvalidSetting(f"robust is {loss!r}; expected one of {', '.join(LOSSES)}, 'auto' or None")


class Annealing:
    """The scale c of a loss from solve to solve: large at first, then down to its final value."""

    def __init__(self, loss: str, dimension: int, rounding: float) -> None:
        require_loss(loss)
        self._loss = LOSSES[loss]
        self._dimension, self._rounding = dimension, rounding
        self._scale = np.inf
        self.finished = False

    def weights(self, residuals: Array, rigid: Array) -> Array:
        """Weights between LEAST_FACTOR and 1 for leave-one-out and rigid distances; NaN stays NaN."""
        self._shrink(residuals, rigid)
        return np.maximum(self._loss.weight(residuals / self._scale), LEAST_FACTOR)

    def _shrink(self, residuals: Array, rigid: Array) -> None:
        sigma, deformation = spread(residuals, self._dimension), float(np.nanmedian(rigid))
        final = max(self._loss.tuning * sigma, self._loss.harmless * deformation, self._rounding)
        initial = float(np.nanquantile(residuals, FIRST_SHARE))
        self._scale = max(final, initial if np.isinf(self._scale) else SHRINK * self._scale)
        self.finished = self._scale == final


class Weighting(NamedTuple):
    """What one solve starts from: the weights of all clouds, and the last solution of those that participate."""

    observations: Observations  # all clouds on the shared landmarks
    start: Start


class Reweighting:
    """The weights of a robust fit from solve to solve; without a loss there is one solve.

    Each solve is followed by :meth:`update`, which returns whether another one is needed, with the weights in
    ``current``.

    One wrong observation can displace a whole cloud that only moves rigidly.  Lowering the weights of all its
    observations alike would not help.  With ``within_clouds``, the observations of such a cloud are therefore compared
    with each other while c shrinks.
    """

    def __init__(self, loss: str | None, problem: Problem, within_clouds: bool = False) -> None:
        self._loss, self._problem, self._within_clouds = loss, problem, within_clouds
        self._given = problem.restricted.weights
        self._factors = np.ones_like(self._given)
        self._annealing: Annealing | None = None
        self._change, self._rounding = np.inf, 0.0
        self._progress = with_progress(range(MOST_SOLVES), f"robust={loss!r}, at most", MOST_SOLVES)
        self.current = Weighting(problem.restricted, Start(problem.initial.gauge.rotations))

    def update(self, lengths_against: ResidualLengths, solution: Solution) -> bool:
        """Renew the weights from the result of a solve; return whether to solve once more."""
        if self._loss is None:
            return False
        if self._annealing is None:
            self._rounding = EXACT_COPIES * float(solution.gauge.scales[0])
            self._annealing = Annealing(self._loss, self._problem.restricted.dimension, self._rounding)
        elif self._annealing.finished and self._change < LEAST_WEIGHT_CHANGE:
            self._progress.close()
            return False
        if next(self._progress, None) is None:
            warn(f"robust={self._loss!r}: after {MOST_SOLVES} solves the weights still change by {self._change:.2g}")
            return False
        self._renew(self._annealing, lengths_against, solution)
        return True

    def _renew(self, annealing: Annealing, lengths_against: ResidualLengths, solution: Solution) -> None:
        gauge = solution.gauge
        positions, posed = gauge.map, posed_observations(self._problem.participants, gauge, solution.size_factors)
        rigid = np.linalg.norm(posed - positions, axis=2)
        if not annealing.finished:
            positions = consensus(posed, max(2 * float(np.nanmedian(rigid)), self._rounding))
        lengths = lengths_against(positions)
        if self._within_clouds and not annealing.finished:
            lengths = _relative_to_clouds(lengths)
        # an observation that its warp interpolates has no residual, and keeps its weight
        factors = np.where(np.isnan(lengths), 1.0, annealing.weights(lengths, rigid))
        self._change = float(np.sqrt(np.mean((factors - self._factors)[~np.isnan(lengths)] ** 2)))
        self._factors = factors
        gamma = solution.faithful.gamma if solution.faithful and annealing.finished else None  # it has settled too
        observations = reweighted(self._problem.restricted, self._given * factors)
        self.current = Weighting(observations, Start(gauge.rotations, gamma=gamma, gamma_is_fixed=True))


def _relative_to_clouds(lengths: Array) -> Array:  # (n, k) -> (n, k)
    """Residuals of the clouds with a larger median than usual, divided by the ratio of these medians."""
    of_clouds = np.nanmedian(lengths, axis=1, keepdims=True)
    usual = float(np.nanmedian(of_clouds))
    return np.asarray(lengths * np.minimum(1.0, usual / np.maximum(of_clouds, np.finfo(np.float64).tiny)))

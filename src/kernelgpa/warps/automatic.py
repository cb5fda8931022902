"""Bandwidth and smoothing by the leave-one-out residuals of warps against fixed targets.

With its targets Y_t fixed, the residual that observation j of cloud t would have if the warp were fitted without it is
known in closed form (theory, eq. 17).  The settings minimise

    error = sum_tj w_tj min(r_tj, 20 median r) / sum_tj w_tj,   r_tj = |(Q_t Y_t)_j| / (Q_t)_jj   (theory, eq. 20)

over all clouds.  Because the targets do not depend on the
settings, no map can shrink to lower the error; the mean of lengths and their limit keep single wrong matches from
deciding.  The bandwidth is the correlation length of the deformation and the smoothing the ratio of the variances of
noise and deformation; neither depends on how many landmarks there are.  Therefore a sample of clouds and landmarks
determines them.

The sample and the search depend neither on the order nor on the frames of the clouds.  Errors below the rounding of the
data are equal, and of settings with equal errors the first of the grid wins; the result has two significant digits,
because the error changes little within them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from ..errors import NumericalFailure
from ..observations.cloud import Cloud
from ..typing import Array, IndexArray
from .leave_out import leave_one_out
from .protocols import Family, PreparedCloud, ReducedCloud, common_smoothing

OBSERVATIONS = 1000  # of a sample, about
LEAST_SAMPLED_CLOUDS = 8  # of a sample
MOST_POINTS = 100  # of each cloud in a sample
CLIPPED_RESIDUAL = 20.0  # residuals count as at most this many medians
BEYOND = 4.0  # the factor by which the search goes beyond the coarse grid
PRECISION = 0.1  # relative precision of the settings
MOST_SEARCH_STEPS = 20  # of the search around the best point of the coarse grid
FIRST_STEP = 0.15  # of the search, as a share of the logarithmic range of the grid
ROUNDING_SHARE = 1e-9  # of the size of the clouds: smaller errors are rounding errors of the fits
SIGNIFICANT_DIGITS = 2  # significant digits of the settings


class Target(NamedTuple):
    """A cloud, and where its points should be taken."""

    cloud: Cloud
    positions: Array  # (s, d)


class Search(NamedTuple):
    """A family of warps as a function of its settings, and a coarse grid of these.

    The last setting is the smoothing.  A setting with a single value is not searched.
    """

    family_of: Callable[[tuple[float, ...]], Family]
    grid: Sequence[Sequence[float]]  # none: the family has no settings


def sample(targets: Sequence[Target], observations: int = OBSERVATIONS) -> list[Target]:
    """Clouds of all sizes, and landmarks at all distances from the centre of each."""
    sizes = [float(np.sum((one.positions - one.positions.mean(axis=0)) ** 2)) for one in targets]
    points = np.mean([min(len(one.positions), MOST_POINTS) for one in targets])
    clouds = max(LEAST_SAMPLED_CLOUDS, round(observations / points))
    return [_some_points(targets[t]) for t in evenly_spaced(np.argsort(sizes, kind="stable"), clouds)]


def _some_points(target: Target) -> Target:
    cloud, positions = target
    if len(cloud.seen) <= MOST_POINTS:
        return target
    distances = np.linalg.norm(cloud.points - cloud.points.mean(axis=0), axis=1)
    rows = np.sort(evenly_spaced(np.argsort(distances, kind="stable"), MOST_POINTS))
    return Target(
        Cloud(cloud.name, np.arange(MOST_POINTS), cloud.points[rows], cloud.weights[rows], cloud.resolution),
        positions[rows],
    )


def evenly_spaced(items: IndexArray, most: int) -> IndexArray:
    """At most the given number of items, at equal distances in their order."""
    return items[np.unique(np.linspace(0, len(items) - 1, min(len(items), most)).round().astype(int))]


class LeaveOneOutError:
    """The error of a family of warps as a function of its settings."""

    def __init__(self, search: Search, targets: Sequence[Target]) -> None:
        self.search, self._targets = search, targets
        self._prepared: tuple[tuple[float, ...], list[PreparedCloud]] | None = None  # for the last settings
        self._weights = np.concatenate([one.cloud.weights for one in targets])
        self._given_smoothing = search.family_of(()).smoothing if not search.grid else np.nan
        self.rounding = ROUNDING_SHARE * float(np.median([np.ptp(one.positions, axis=0).max() for one in targets]))

    def __call__(self, settings: tuple[float, ...]) -> float:
        """Infinite for settings whose warps double precision cannot determine."""
        try:
            return max(pooled(self.residuals(settings), self._weights), self.rounding)
        except NumericalFailure:
            return np.inf

    def residuals(self, settings: tuple[float, ...]) -> Array:  # lengths, one for each observation
        return np.concatenate([lengths for lengths, _ in self._residuals(settings)])

    def standardised_residuals(self, settings: tuple[float, ...]) -> Array:
        """Lengths in units of their expected standard deviations, which are known up to a common factor."""
        parts = [lengths * np.sqrt(np.maximum(cloud.diagonal(), 0.0)) for lengths, cloud in self._residuals(settings)]
        return np.concatenate(parts)

    def _residuals(self, settings: tuple[float, ...]) -> list[tuple[Array, ReducedCloud]]:
        found = []
        smoothing = settings[-1] if settings else common_smoothing(self._given_smoothing)
        for prepared, target in zip(self._prepare(settings), self._targets, strict=True):
            reduced = prepared.reduce(smoothing, target.cloud.weights)
            found.append((np.linalg.norm(leave_one_out(reduced, target.positions), axis=1), reduced))
        return found

    def _prepare(self, settings: tuple[float, ...]) -> list[PreparedCloud]:
        """What does not depend on the smoothing is computed once for equal other settings."""
        if self._prepared is None or self._prepared[0] != settings[:-1]:
            family = self.search.family_of(settings)
            self._prepared = settings[:-1], [family.prepare(target.cloud) for target in self._targets]
        return self._prepared[1]


def pooled(lengths: Array, weights: Array) -> float:  # (k,), (k,)
    """The weighted mean length of residuals, each counted as at most CLIPPED_RESIDUAL medians."""
    known = np.isfinite(lengths)
    if not known.any():
        return np.inf
    limited = np.minimum(lengths[known], CLIPPED_RESIDUAL * np.median(lengths[known]))
    return float(np.average(limited, weights=weights[known]))


def choose(error: LeaveOneOutError, start: tuple[float, ...] | None = None) -> tuple[float, ...]:
    """The settings of the smallest error: the best of the coarse grid, or ``start``, then a search around it."""
    grid = error.search.grid
    if start is None:
        start = min(product(*grid), key=error)
    free = [i for i, values in enumerate(grid) if len(values) > 1]
    if not free:
        return start
    low, high = np.log([(min(grid[i]) / BEYOND, max(grid[i]) * BEYOND) for i in free]).T

    def settings_at(logs: Array) -> tuple[float, ...]:
        settings = list(start)
        for i, value in zip(free, np.exp(logs).tolist(), strict=True):
            settings[i] = value
        return tuple(settings)

    def bounded(logs: Array) -> float:
        return error(settings_at(logs)) if np.all((low <= logs) & (logs <= high)) else np.inf

    centre = np.log([start[i] for i in free])
    steps = [FIRST_STEP * np.log(max(grid[i]) / min(grid[i])) for i in free]
    simplex = centre + np.vstack([np.zeros(len(free)), np.diag(steps)])
    options = {"initial_simplex": simplex, "xatol": PRECISION, "fatol": np.inf, "maxfev": MOST_SEARCH_STEPS}
    found = minimize(bounded, centre, method="Nelder-Mead", options=options)
    return rounded(start, settings_at(found.x), free)


def rounded(start: tuple[float, ...], settings: Sequence[float], free: Sequence[int]) -> tuple[float, ...]:
    """The free settings with few significant digits, the others as they are in ``start``."""
    return tuple(
        float(f"{value:.{SIGNIFICANT_DIGITS}g}") if i in free else start[i] for i, value in enumerate(settings)
    )

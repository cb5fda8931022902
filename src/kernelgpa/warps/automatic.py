"""Bandwidth and smoothing by the leave-one-out residuals of warps against fixed targets.

With its targets Y_t fixed, the residual that observation j of cloud t would have if the warp were fitted without it is
known in closed form (theory, eq. 17).  The settings minimise

    error = mean_tj min(r_tj, 20 median of all),      r_tj = |(Q_t Y_t)_j| / (Q_t)_jj             (theory, eq. 20)

over all clouds together.  Because the targets do not depend on the settings, no map can shrink to lower the error; the
mean of lengths and their limit keep single wrong matches from deciding.  The bandwidth is the correlation length of the
deformation and the smoothing the ratio of the variances of noise and deformation; neither depends on how many landmarks
there are.  Therefore a sample of clouds and landmarks determines them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from ..errors import NumericalFailure
from ..observations.cloud import Cloud
from ..typing import Array
from .leave_out import leave_one_out
from .protocols import Family, PreparedCloud

MOST_CLOUDS = 12  # of a sample
MOST_POINTS = 250  # of each cloud in a sample
CLIPPED = 20.0  # residuals count as at most so many medians
RANDOM_SEED = 20232
BEYOND = 4.0  # the search goes so many times beyond the coarse grid
PRECISION = 0.05  # relative precision of the settings
MOST_EVALUATIONS = 40  # of the search between the points of the coarse grid


class Target(NamedTuple):
    """A cloud, and where its points should be taken."""

    cloud: Cloud
    positions: Array  # (s, d)


def sample(targets: Sequence[Target]) -> list[Target]:
    """Some clouds, evenly spaced, and some landmarks of each."""
    rng = np.random.default_rng(RANDOM_SEED)
    some = np.unique(np.linspace(0, len(targets) - 1, min(len(targets), MOST_CLOUDS)).round().astype(int))
    return [_some_points(targets[t], rng) for t in some]


def _some_points(target: Target, rng: np.random.Generator) -> Target:
    cloud, positions = target
    s = len(cloud.seen)
    if s <= MOST_POINTS:
        return target
    rows = np.sort(rng.choice(s, MOST_POINTS, replace=False))
    return Target(
        Cloud(cloud.name, np.arange(MOST_POINTS), cloud.points[rows], cloud.weights[rows], cloud.resolution),
        positions[rows],
    )


class LeaveOneOutError:
    """The error of a family of warps as a function of its settings; the last of them is the smoothing."""

    def __init__(self, family_of: Callable[[tuple[float, ...]], Family], targets: Sequence[Target]) -> None:
        self._family_of, self._targets = family_of, targets
        self._prepared: tuple[tuple[float, ...], list[PreparedCloud]] | None = None  # for the last settings

    def __call__(self, settings: tuple[float, ...]) -> float:
        """Infinite for settings whose warps double precision cannot determine."""
        try:
            return pooled(self.residuals(settings))
        except NumericalFailure:
            return np.inf

    def residuals(self, settings: tuple[float, ...]) -> Array:  # lengths, one for each observation
        lengths = [
            np.linalg.norm(leave_one_out(one.reduce(settings[-1], target.cloud.weights), target.positions), axis=1)
            for one, target in zip(self._prepare(settings), self._targets, strict=True)
        ]
        return np.concatenate(lengths)

    def _prepare(self, settings: tuple[float, ...]) -> list[PreparedCloud]:
        """What does not depend on the smoothing is computed once for equal other settings."""
        if self._prepared is None or self._prepared[0] != settings[:-1]:
            family = self._family_of(settings)
            self._prepared = settings[:-1], [family.prepare(target.cloud) for target in self._targets]
        return self._prepared[1]


def pooled(lengths: Array) -> float:
    """The mean length of residuals, each counted as at most so many medians."""
    known = lengths[np.isfinite(lengths)]
    if not len(known):
        return np.inf
    return float(np.mean(np.minimum(known, CLIPPED * np.median(known))))


def choose(
    error: LeaveOneOutError,
    grid: Sequence[Sequence[float]],  # for each setting, a few values that are far apart
    start: tuple[float, ...] | None = None,  # settings near the best ones, instead of the grid
) -> tuple[float, ...]:
    """The settings of the smallest error: the best of a coarse grid, then a search between its points."""
    if start is None:
        start = min(product(*grid), key=error)
    low, high = np.log([(min(values) / BEYOND, max(values) * BEYOND) for values in grid]).T

    def bounded(logs: Array) -> float:
        inside = bool(np.all((low <= logs) & (logs <= high)))
        return error(tuple(np.exp(logs).tolist())) if inside else np.inf

    found = minimize(
        bounded,
        np.log(start),
        method="Nelder-Mead",
        options={
            "initial_simplex": _simplex(np.log(start)),
            "xatol": PRECISION,
            "fatol": np.inf,
            "maxfev": MOST_EVALUATIONS,
        },
    )
    return tuple(np.exp(found.x).tolist())


def _simplex(centre: Array) -> Array:  # (k,) -> (k + 1, k)
    """The centre and one step along each setting."""
    return centre + np.vstack([np.zeros(len(centre)), np.diag(np.full(len(centre), np.log(2.0)))])

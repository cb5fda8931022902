"""Prediction in the frame of each cloud: warps that are fitted from the map into the cloud.

To invert a forward warp fails where the warp folds and, on a sheet, across the sheet.  With the map M known, each cloud
is therefore regressed the other way, by a warp of the same family:

    P_t ~ g_t(M_t)                                                                            (theory, eq. 21)

It is one closed-form solve for each cloud, has one value everywhere, and its leave-one-out residuals (eq. 17) are
errors in the frame of the cloud.  They choose the settings (eq. 20) and calibrate the covariances.  An observation has
a share of 1/k in the position of its landmark, which k clouds saw; without it, the residual is k / (k - 1) times as
long.

With c so that nine in ten of the residuals lie within the regions of probability 0.9 that it implies,

    cov g_t(q) = c (variance(q) + 1) I                                                        (theory, eq. 22)

with the variance of eq. 18 in units of that of the noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import chi2

from .._numerics.threads import parallel_map
from ..observations.cloud import Cloud
from ..typing import Array, IndexArray
from ..warps import ReducedCloud, Warp, smoothing_per_cloud
from ..warps.affine import affine_warp
from ..warps.automatic import LeaveOneOutError, Search, Target, choose, sample
from ..warps.leave_out import leave_one_out
from .problem import Problem
from .registration import Registration

PROBABILITY = 0.9  # of the regions that are calibrated


@dataclass(frozen=True)
class BackwardWarp:
    """The warp from the map into one cloud."""

    warp: Warp
    uncertainty: ReducedCloud | None  # None: that of a rigid motion, which is the same everywhere
    residuals: Array  # (m,) lengths of the leave-one-out residuals, in the frame of the cloud; NaN where unseen
    expected: Array  # (m,) their standard deviations in units of that of the noise


@dataclass(frozen=True)
class BackwardWarps:
    """The warps from the map into all clouds, and their calibration."""

    warps: Sequence[BackwardWarp]
    settings: tuple[float, ...]
    dimension: int

    @property
    def residuals(self) -> Array:  # (n, m)
        """Lengths of the leave-one-out residuals, each in the frame of its cloud."""
        return np.stack([one.residuals for one in self.warps])

    @property
    def noise_variance(self) -> float:
        """c of eq. 22."""
        squares = np.concatenate([(one.residuals / one.expected) ** 2 for one in self.warps])
        return float(np.nanquantile(squares, PROBABILITY) / chi2(self.dimension).ppf(PROBABILITY))

    def covariances(self, points: Array, t: int) -> Array:  # (k, d) -> (k, d, d)
        """The covariances of the predictions in cloud t at points of the map."""
        uncertainty = self.warps[t].uncertainty
        variance = np.zeros(len(points)) if uncertainty is None else uncertainty.variance(points)
        return self.noise_variance * (variance + 1)[:, None, None] * np.eye(self.dimension)


def fit_backward(registration: Registration, search: Search) -> BackwardWarps:
    """Fit all clouds from the map, with the settings of the smallest leave-one-out error."""
    targets = _targets_of(registration)
    settings: tuple[float, ...] = ()
    if search.grid:
        settings = choose(LeaveOneOutError(search, sample(targets)))
    family = search.family_of(settings)
    counts = registration.problem.counts
    smoothing = smoothing_per_cloud(settings[-1] if settings else registration.smoothing, len(targets))

    def fit(pair: tuple[Target, float]) -> BackwardWarp:
        target, mu = pair
        reduced = family.prepare(target.cloud).reduce(mu, target.cloud.weights)
        residuals = np.linalg.norm(leave_one_out(reduced, target.positions), axis=1)
        expected = 1 / np.sqrt(np.maximum(reduced.diagonal(), reduced.rounding))
        (warp,) = reduced.fit_all([target.positions])
        return BackwardWarp(warp, reduced, *_without_own_share(target.cloud, residuals, expected, counts))

    return BackwardWarps(
        parallel_map(fit, list(zip(targets, smoothing, strict=True))), settings, registration.map.shape[1]
    )


def backward_targets(
    problem: Problem,
    positions: Array,  # (m, d) of all landmarks in the map
    weights: Array,  # (n, m)
) -> list[Target]:
    """For each cloud, the map at the shared landmarks that it saw, and where the cloud has them."""
    targets = []
    for t, cloud in enumerate(problem.restricted.clouds):
        landmarks = problem.landmarks[cloud.seen]
        targets.append(Target(Cloud(cloud.name, landmarks, positions[landmarks], weights[t, landmarks]), cloud.points))
    return targets


def _targets_of(registration: Registration) -> list[Target]:
    return backward_targets(registration.problem, registration.map, registration.statistics.weights)


def rigid_backward(registration: Registration) -> BackwardWarps:
    """The inverse motions of the clouds; the residuals are those of the motions themselves, in the frame of each."""
    backward = []
    motions = zip(registration.size_factors, registration.rotations, registration.translations, strict=True)
    for t, (target, (factor, R, translation)) in enumerate(zip(_targets_of(registration), motions, strict=True)):
        warp = affine_warp(target.cloud, R.T / factor, -R.T @ translation / factor)
        lengths = registration.statistics.residuals[t] / factor
        backward.append(BackwardWarp(warp, None, lengths, np.where(np.isnan(lengths), np.nan, 1.0)))
    return BackwardWarps(backward, (), registration.map.shape[1])


def _without_own_share(cloud: Cloud, residuals: Array, expected: Array, counts: IndexArray) -> tuple[Array, Array]:
    """Residuals against positions to which the cloud itself did not contribute, for all landmarks."""
    views = np.maximum(counts[cloud.seen], 2)
    lengths, deviations = np.full(len(counts), np.nan), np.full(len(counts), np.nan)
    lengths[cloud.seen] = residuals * views / (views - 1)
    deviations[cloud.seen] = expected
    return lengths, deviations

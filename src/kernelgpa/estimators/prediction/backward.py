"""Prediction in the frame of each cloud: warps that are fitted from the map into the cloud.

To invert a forward warp fails where the warp folds and, on a sheet, across the sheet.  With the map M known, each cloud
is therefore regressed the other way, by a warp of the same family:

    P_t ~ g_t(M_t)                                                                            (theory, eq. 21)

It is one closed-form solve for each cloud, has one value everywhere, and its leave-one-out residuals (eq. 17) are
errors in the frame of the cloud.  They choose the settings (eq. 20) and calibrate the covariances.  An observation has
a share of 1/k in the position of its landmark, which k clouds saw; without it, the residual is k / (k - 1) times as
long.

The error of a prediction has the covariance

    cov g_t(q) = c (variance(q) + 1) I                                                        (theory, eq. 22)

with the variance of eq. 18 in units of that of the noise.  c is such that the regions of probability 0.9 that it
implies hold a share of the leave-one-out residuals.  Without a robust loss this share is 0.9.  An observation that a
robust loss rejected is either a wrong match, which gives no information about predictions, or a rare deformation, which
predictions miss as well; nothing in the data decides which.  Half of the rejected ones are counted as deformation that
lies outside: of a share rho of rejected observations, the regions hold 0.9 / (1 - rho / 2) of the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.stats import chi2

from ..._numerics.threads import parallel_map
from ...observations.arrays import finite_rows
from ...observations.cloud import Cloud
from ...typing import Array, BoolArray, IndexArray
from ...warps import ReducedCloud, Warp, smoothing_per_cloud
from ...warps.affine import affine_warp
from ...warps.automatic import LeaveOneOutError, Search, Target, choose, sample
from ...warps.leave_out import leave_one_out
from ..problem import Problem
from ..registration import Registration

CALIBRATED_PROBABILITY = 0.9  # of the regions that are calibrated
REJECTED_SHARE = 0.05  # an observation with a smaller share of its given weight counts as rejected
MOST_HELD = 0.99  # of the observations that were not rejected


@dataclass(frozen=True)
class BackwardWarp:
    """The warp from the map into one cloud."""

    warp: Warp
    uncertainty: ReducedCloud | None  # None: that of a rigid motion, which is the same everywhere
    residuals: Array  # (m,) lengths of the leave-one-out residuals, in the frame of the cloud; NaN where unseen
    expected: Array  # (m,) their standard deviations in units of that of the noise
    rejected: BoolArray  # (m,) whether a robust loss rejected the observation


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

    @cached_property
    def noise_variance(self) -> float:
        """c of eq. 22."""
        squares, rejected = (np.concatenate(parts) for parts in zip(*map(_squares, self.warps), strict=True))
        share = min(CALIBRATED_PROBABILITY / (1 - np.mean(rejected) / 2), MOST_HELD)
        return float(np.quantile(squares[~rejected], share) / chi2(self.dimension).ppf(CALIBRATED_PROBABILITY))

    def covariances(self, points: Array, t: int) -> Array:  # (k, d) -> (k, d, d)
        """The covariances of the predictions in cloud t at points of the map."""
        uncertainty, known = self.warps[t].uncertainty, finite_rows(points)
        variance = np.where(known, 0.0, np.nan)
        if uncertainty is not None and known.any():
            variance[known] = uncertainty.variance(points[known])
        return self.noise_variance * (variance + 1)[:, None, None] * np.eye(self.dimension)


def _squares(one: BackwardWarp) -> tuple[Array, BoolArray]:
    """The squared standardised residuals of the seen landmarks, and which of them were rejected."""
    known = np.isfinite(one.residuals)
    return (one.residuals[known] / one.expected[known]) ** 2, one.rejected[known]


def fit_backward(registration: Registration, search: Search) -> BackwardWarps:
    """Fit all clouds from the map, with the settings of the smallest leave-one-out error."""
    targets = _targets_of(registration)
    settings: tuple[float, ...] = ()
    if search.grid:
        settings = choose(LeaveOneOutError(search, sample(targets)))
    family, problem = search.family_of(settings), registration.problem
    smoothing = smoothing_per_cloud(settings[-1] if settings else registration.smoothing, len(targets))
    given = [cloud.weights for cloud in problem.restricted.clouds]

    def fit(one: tuple[Target, float, Array]) -> BackwardWarp:
        target, mu, before = one
        reduced = family.prepare(target.cloud).reduce(mu, target.cloud.weights)
        residuals = np.linalg.norm(leave_one_out(reduced, target.positions), axis=1)
        (warp,) = reduced.fit_all([target.positions])
        return _calibrated(target.cloud, warp, reduced, residuals, _expected(reduced, before), before, problem.counts)

    return BackwardWarps(
        parallel_map(fit, list(zip(targets, smoothing, given, strict=True))), settings, registration.map.shape[1]
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
    backward, weights = [], registration.statistics.weights
    rejected = weights < REJECTED_SHARE * registration.problem.observations.weights
    motions = zip(registration.size_factors, registration.rotations, registration.translations, strict=True)
    for t, (target, (factor, R, translation)) in enumerate(zip(_targets_of(registration), motions, strict=True)):
        warp = affine_warp(target.cloud, R.T / factor, -R.T @ translation / factor)
        lengths = registration.statistics.residuals[t] / factor
        backward.append(BackwardWarp(warp, None, lengths, np.where(np.isnan(lengths), np.nan, 1.0), rejected[t]))
    return BackwardWarps(backward, (), registration.map.shape[1])


def _expected(
    reduced: ReducedCloud,
    given: Array,  # (s,) weights before a robust loss lowered them
) -> Array:  # (s,)
    """Standard deviations of the leave-one-out residuals in units of that of the noise.

    1 / Q_jj is the variance of residual j, with that of the noise, 1 / w_j.  A robust loss lowers w_j because of the
    residual, not because the noise is larger; therefore the given weight takes its place.
    """
    variances = 1 / np.maximum(reduced.diagonal(), reduced.rounding) - 1 / reduced.weights
    return np.sqrt(np.maximum(variances, 0.0) + 1 / given)


def _calibrated(
    cloud: Cloud,  # the map at the landmarks that the cloud saw
    warp: Warp,
    uncertainty: ReducedCloud | None,
    residuals: Array,  # (s,) lengths
    expected: Array,  # (s,)
    given: Array,  # (s,) weights before a robust loss lowered them
    counts: IndexArray,  # (m,) clouds that saw each landmark
) -> BackwardWarp:
    """The warp with residuals against positions to which the cloud itself did not contribute."""
    views = np.maximum(counts[cloud.seen], 2)
    lengths, deviations = np.full(len(counts), np.nan), np.full(len(counts), np.nan)
    rejected = np.zeros(len(counts), dtype=bool)
    lengths[cloud.seen] = residuals * views / (views - 1)
    deviations[cloud.seen] = expected
    rejected[cloud.seen] = cloud.weights < REJECTED_SHARE * given
    return BackwardWarp(warp, uncertainty, lengths, deviations, rejected)

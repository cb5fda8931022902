"""What several checks read of a fitted registration, computed once.

The error of a registration is the root mean square of the leave-one-out residuals r_tj of its backward warps, in the
frames of the clouds, in which each observation counts by the share q_tj of its weight that a robust fit left it:

    E^2 = sum_tj q_tj r_tj^2 / sum_tj q_tj

Correcting some observations is expected to give them the error of all others.  With E_B that of the others, the
expected gain is  1 - E_B / E.  It vanishes once a robust fit has rejected these observations.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import chi

from ...estimators.registration import posed_observations
from ...gauge.rigid import rigid_registration
from ...typing import Array, BoolArray, IndexArray
from .finding import CheckNotPossible, FittedRegistration
from .learned_shape import LEAST_CLOUDS, MOST_COORDINATES, learned_residuals
from .outliers import judge_of, limits
from .suspicious import weight_shares

LARGE = 6.0  # standard deviations: if no residual exceeds them, no observation is judged
NO_RESIDUALS = "no cloud has more landmarks than its warp needs, so that no observation has a leave-one-out residual"


@dataclass(frozen=True)
class Evidence:
    """Residuals and positions of the observations of a fitted registration: n clouds, m landmarks."""

    gpa: FittedRegistration

    @cached_property
    def residuals(self) -> Array:  # (n, m)
        """Lengths of the leave-one-out residuals, in the frame of each cloud."""
        residuals = self.gpa._backward().residuals
        if np.isnan(residuals).all():
            raise CheckNotPossible(NO_RESIDUALS)
        return residuals

    @cached_property
    def scaled_residuals(self) -> Array:  # (n, m)
        """The same times sd(noise) / sd(expected): lengths that compare observations near and far from others."""
        if not self.gpa._deforms:
            return self.residuals
        expected = np.stack([one.expected for one in self.gpa._backward().warps])
        given, used = self.gpa.observations_.weights, self.gpa.weights_
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            prediction = np.maximum(expected**2 - 1 / used, 0.0)
            return np.asarray(self.residuals / np.sqrt(1 + given * prediction))

    @cached_property
    def shares(self) -> Array:  # (n, m)
        """The share of its weight that each observation has in the fit; 0 where there is no residual."""
        return np.where(np.isnan(self.residuals), 0.0, np.nan_to_num(weight_shares(self.gpa)))

    @cached_property
    def displacements(self) -> Array:  # (n, m, d)
        """From the map to each observation after the rigid motion of its cloud; NaN where unseen."""
        gpa = self.gpa
        turned = np.einsum("tij,tmj->tmi", gpa.rotations_, gpa.observations_.points)
        return np.asarray(gpa.size_factors_[:, None, None] * turned + gpa.translations_[:, None] - gpa.map_)

    @cached_property
    def limits(self) -> Array:  # (n, m)
        """The lengths from which scaled residuals are those of outliers."""
        return limits(self.scaled_residuals, self.displacements, self.gpa.map_, self.rounding)

    @cached_property
    def rounding(self) -> float:
        """The length of residuals up to which they may be rounding errors."""
        thinnest = min(cloud.frame.thinness for cloud in self.gpa.observations_.clouds)  # its inverse amplifies them
        return float(max(1e-9, 100 * np.finfo(np.float64).eps / thinnest) * self.gpa.scales_[0])

    @cached_property
    def judge(self) -> Judge:
        """The evidence of the registration that judges single observations (``outliers``)."""
        gpa, clouds = judge_of(self.gpa, self.scaled_residuals)
        return Judge(self if gpa is self.gpa else Evidence(gpa), clouds, len(self.residuals))

    @cached_property
    def needs_judge(self) -> bool:
        """Whether some residual of this registration is large."""
        residuals = self.scaled_residuals
        noise = float(np.nanmedian(residuals)) / chi(self.gpa.observations_.dimension).median()
        return bool(np.nanmax(residuals) > max(LARGE * noise, self.rounding))

    @cached_property
    def suspicious(self) -> BoolArray:  # (n, m)
        """The outliers among the judged observations; none, without a judge, if no residual is large."""
        if not self.needs_judge:
            return np.zeros(self.residuals.shape, dtype=bool)
        judging = self.judge.evidence
        return self.judge.scattered(np.nan_to_num(judging.scaled_residuals) > judging.limits)

    @cached_property
    def rigid_map(self) -> tuple[Array, Array]:  # (m, d), (n, m)
        """The positions of the landmarks in the map of rigid registration, and the distances of each from the others.

        NaN for landmarks that fewer than two participating clouds saw, and for clouds left out.
        """
        problem = self.gpa.registration_.problem
        gauge = rigid_registration(problem.participants, problem.initial.gauge.rotations).gauge
        positions, lengths = np.full(self.gpa.map_.shape, np.nan), np.full(problem.shape, np.nan)
        positions[problem.landmarks] = gauge.map
        distances = np.linalg.norm(posed_observations(problem.participants, gauge) - gauge.map, axis=2)
        left_out = distances / (1 - 1 / problem.counts[problem.landmarks])
        lengths[np.ix_(problem.participating, problem.landmarks)] = left_out
        return positions, lengths

    @cached_property
    def learned_residuals(self) -> Array | None:  # (n, m)
        """Leave-one-out residuals of a learned covariance; None if clouds are too few or landmarks too many."""
        gpa, problem = self.gpa, self.gpa.registration_.problem
        part, shared = problem.participating, problem.landmarks
        if len(part) < LEAST_CLOUDS or len(shared) * problem.observations.dimension > MOST_COORDINATES:
            return None
        displacements = self.displacements[np.ix_(part, shared)]
        seen = np.isfinite(displacements[:, :, 0])
        for i, t in enumerate(part):
            positions = gpa.map_[shared[~seen[i]]]
            predicted = gpa._backward().warps[t].warp(positions)
            moved = gpa.size_factors_[t] * predicted @ gpa.rotations_[t].T + gpa.translations_[t]
            displacements[i, ~seen[i]] = moved - positions
        lengths = np.full(problem.shape, np.nan)
        found = learned_residuals(displacements, gpa.map_[shared], seen)
        lengths[np.ix_(part, shared)] = found / gpa.size_factors_[part, None]
        return lengths

    @cached_property
    def error(self) -> float:
        """E, in the unit of the data."""
        return self._error(np.zeros(self.residuals.shape, dtype=bool))

    def gain(self, corrected: BoolArray) -> float:  # (n, m)
        """The share of the error that correcting some observations is expected to remove."""
        return float(np.clip(1 - self._error(corrected) / self.error, 0.0, 1.0)) if self.error > 0 else 0.0

    def _error(self, without: BoolArray) -> float:
        counts = np.where(without, 0.0, self.shares)
        total = counts.sum()
        return float(np.sqrt(np.sum(counts * np.nan_to_num(self.residuals) ** 2) / total)) if total > 0 else 0.0


@dataclass(frozen=True)
class Judge:
    """The evidence of the registration that judges single observations, which may be one of k of the n clouds."""

    evidence: Evidence
    clouds: IndexArray  # (k,)
    count: int  # n

    def scattered(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:  # (k, m) -> (n, m)
        """Values of the judged clouds; 0 or False for the others."""
        if len(self.clouds) == self.count:
            return values
        every = np.zeros((self.count, values.shape[1]), dtype=values.dtype)
        every[self.clouds] = values
        return every

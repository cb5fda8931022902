"""How far to trust a warped point, a landmark of the map, and a pose.

A warp is a universal-kriging predictor.  With sigma_t^2 the noise variance of cloud t, estimated from what
its warp leaves of the map, an observed point p has variance

    v_t(p) = sigma_t^2 (variance_t(p) + 1 / w),    sigma_t^2 = tr(M_t' Q_t M_t) / (d (s - r - 1))   (theory, eq. 18)

in every coordinate, w the weight of an observation as accurate as p, r the dimensions of the cloud.
Real deformations are no Gaussian process, so regions are calibrated by what
cross-validation found: the landmarks left out lay within  factor(level) sqrt(v)  of where the other clouds put
them in the share ``level`` of all cases.  What a robust fit set aside counts there as little as in the fit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Real

import numpy as np
import numpy.typing as npt
from scipy.stats import chi

from ..errors import InvalidSetting
from ..estimators.deformable import DeformableGPA
from ..gauge.poses import jackknife_covariance, jackknifed_poses
from ..gauge.rotations import rotation_vector
from ..observations.arrays import finite_rows
from ..observations.cloud import Cloud
from ..typing import Array, Name
from .metrics import mean_of_others
from .selection import CrossValidation

ROUNDING = 1e-12  # of the map's size: noise below this is that of exact copies
POSE_REGIONS = 10  # parts of a cloud left out in turn to see how a pose depends on them


@dataclass(frozen=True, repr=False)
class Uncertainty:
    """Regions of warped points, calibrated by cross-validation; covariances of map and poses, estimated."""

    validation: CrossValidation
    scores: Array  # |residual| / sqrt(v) of the landmarks left out, ascending
    counts: Array  # how much each of them counts, up to a factor

    def __repr__(self) -> str:
        factors = ", ".join(f"{level:.0%}: {self.factor(level):.3g}" for level in (0.5, 0.9, 0.95))
        return f"Uncertainty(factors {factors}; {len(self.scores)} observations left out in turn)"

    def factor(self, level: float) -> float:
        """How many sqrt(v) the region of the given level reaches."""
        if not isinstance(level, Real) or not 0 < level < 1:
            raise InvalidSetting(f"level is {level!r}; expected a share between 0 and 1, such as 0.9")
        share = (np.cumsum(self.counts) - 0.5 * self.counts) / self.counts.sum()
        return float(np.interp(level, share, self.scores))

    def radius(
        self,
        points: npt.ArrayLike,  # (k, d)
        cloud: Name,
        level: float = 0.9,
        weight: float | None = None,
    ) -> Array:  # (k,)
        """Radius in the map within which the others put the same point, in the share ``level`` of all cases.

        ``weight`` is that of an observation as accurate as the points are, in the units of the weights that were
        given to ``fit``; by default the median weight in the cloud.
        """
        return self.factor(level) * np.sqrt(self._variance(points, cloud, weight))

    def standard_deviation(self, points: npt.ArrayLike, cloud: Name, weight: float | None = None) -> Array:  # (k,)
        """Of each coordinate of a warped point: the calibrated median distance, read as that of a normal law."""
        d = self.validation.fitted.observations_.dimension
        return self.radius(points, cloud, 0.5, weight) / chi(d).median()

    def covariance(self, points: npt.ArrayLike, cloud: Name, weight: float | None = None) -> Array:  # (k, d, d)
        """Covariance of each warped point; the same in every direction of the map."""
        d = self.validation.fitted.observations_.dimension
        return self.standard_deviation(points, cloud, weight)[:, None, None] ** 2 * np.eye(d)

    def map_covariance(self) -> Array:  # (m, d, d)
        """Covariance of each map landmark, from how its clouds scatter about it after their rigid motions.

        Few observations say little of their scatter, so d + 1 more with the scatter of all landmarks are added.
        NaN for a landmark that fewer than two clouds of the solve saw.
        """
        fitted = self.validation.fitted
        d, part = fitted.observations_.dimension, fitted.problem_.part
        points, weights = fitted.observations_.points[part], fitted.weights_[part]
        posed = np.einsum("tij,tmj->tmi", fitted.rotations_[part], points) + fitted.translations_[part, None]
        off = np.nan_to_num(posed - fitted.map_)
        total = np.maximum(weights.sum(axis=0), np.finfo(np.float64).tiny)
        effective = total**2 / np.maximum(np.sum(weights**2, axis=0), np.finfo(np.float64).tiny)  # observations
        effective = np.maximum(effective, 1.0)  # nobody saw those below
        scatter = np.einsum("tm,tmi,tmj->mij", weights / total, off, off) * effective[:, None, None]
        freedom = np.maximum(effective - 1, 0.0)
        pooled = scatter.sum(axis=0) / freedom.sum()
        one = (scatter + (d + 1) * pooled) / (freedom + d + 1)[:, None, None]  # of a single observation
        known = np.sum(weights > 0, axis=0) > 1
        return np.where(known[:, None, None], one / effective[:, None, None], np.nan)

    def pose_covariance(self, cloud: Name) -> Array:  # (q, q), q = 3 in 2D and 6 in 3D
        """Covariance of (rotation vector, translation) of a pose: a jackknife over regions of the cloud.

        The rotation vector is a small turn after the pose's rotation, in radians.  It tells how far noise and
        deformation of one region move the pose.  How much of a deformation of the whole is a motion, no data of
        this kind can tell: that is not in it.
        """
        fitted = self.validation.fitted
        t = fitted.observations_.cloud_index(cloud)
        whole = _heeded(fitted, t)
        poses = jackknifed_poses(whole, fitted.map_[whole.seen], POSE_REGIONS)
        back = fitted.rotations_[t].T
        return jackknife_covariance(np.array([[*rotation_vector(turn @ back), *shift] for turn, shift in poses]))

    def _variance(self, points: npt.ArrayLike, cloud: Name, weight: float | None) -> Array:
        fitted = self.validation.fitted
        t = fitted.observations_.cloud_index(cloud)
        array = fitted.warps_[t].checked(points)
        reduced, noise = fitted.reduced_cloud(cloud), noise_variance(fitted, t)
        if np.isnan(noise):
            raise InvalidSetting(
                f"cloud {cloud!r} has no more landmarks than its affine part needs, so its noise is unknown"
            )
        if weight is None:
            weight = float(np.median(fitted.observations_.clouds[t].weights))
        if not isinstance(weight, Real) or not weight > 0:
            raise InvalidSetting(f"weight is {weight!r}; expected a positive number")
        return noise * (reduced.variance(array) + 1 / weight)


def uncertainty(validation: CrossValidation) -> Uncertainty:
    """Calibrate the uncertainty of a registration by its cross-validation."""
    if not isinstance(validation, CrossValidation):
        raise InvalidSetting(
            f"uncertainty takes the result of selection.cross_validate, found {type(validation).__name__}"
        )
    fitted = validation.fitted
    if not isinstance(fitted, DeformableGPA):
        raise InvalidSetting(f"{type(fitted).__name__} has no warps that bend; uncertainty needs affine, tps or kernel")
    off = np.linalg.norm(validation.predictions - mean_of_others(validation.predictions, validation.weights), axis=2)
    given = fitted.observations_.weights
    heeded = np.divide(validation.weights, given, out=np.zeros_like(given), where=given > 0)
    scores, counts = [np.zeros(0)], [np.zeros(0)]
    for t in fitted.problem_.part:
        tested = np.isfinite(off[t]) & np.isfinite(validation.spreads[t])
        noise = noise_variance(fitted, t)
        if tested.any() and not np.isnan(noise):
            # a spread holds the noise of its observation; that of one which a robust fit set aside was not raised
            aside = 1 / validation.weights[t, tested] - 1 / given[t, tested]
            scores.append(off[t, tested] / np.sqrt(noise * (validation.spreads[t, tested] - aside)))
            counts.append(heeded[t, tested])
    score, count = np.concatenate(scores), np.concatenate(counts)
    if not len(score):
        raise InvalidSetting("cross-validation tested no landmark that two clouds saw; use other folds")
    order = np.argsort(score)
    return Uncertainty(validation, score[order], count[order])


def noise_variance(fitted: DeformableGPA, t: int) -> float:
    """sigma_t^2 of an observation of weight 1, from what the warp leaves of its targets; NaN if it leaves nothing."""
    reduced = fitted.reduced_cloud(fitted.observations_.names[t])
    targets = fitted.map_[fitted.shared_landmarks_[reduced.seen]]
    s, d = targets.shape
    free = s - fitted.problem_.restricted.clouds[t].frame.rank - 1
    if free <= 0:
        return np.nan
    least = (ROUNDING * float(fitted.scales_[0])) ** 2 * float(np.median(fitted.weights_[t][fitted.weights_[t] > 0]))
    return max(float(np.vdot(targets, reduced.apply(targets)) / (d * free)), least)


def _heeded(fitted: DeformableGPA, t: int) -> Cloud:
    """A cloud's landmarks that the map holds, with the weights of the last solve."""
    cloud = fitted.observations_.clouds[t]
    cloud = replace(cloud, weights=fitted.weights_[t, cloud.seen])
    known = finite_rows(fitted.map_[cloud.seen]) & (cloud.weights > 0)
    return cloud.only(known, np.arange(len(fitted.map_)))

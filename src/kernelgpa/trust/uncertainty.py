"""Uncertainty of warped points, of the landmarks of the map, and of poses.

A warp is a universal-kriging predictor.  With sigma_t^2 the noise variance of cloud t, estimated from the residuals of
its warp, an observed point p has in every coordinate the variance

    v_t(p) = sigma_t^2 (variance_t(p) + 1 / w),    sigma_t^2 = tr(M_t' Q_t M_t) / (d (s - r - 1))   (theory, eq. 18)

where w is the weight of an observation as accurate as p, s the number of landmarks of the cloud, and r its rank.
Deformations of real objects are not Gaussian processes.  The regions are therefore calibrated by cross-validation: a
share ``level`` of the landmarks left out lay within  factor(level) sqrt(v)  of the mean of the other clouds.
Observations that a robust fit down-weighted count there by the same weights.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Real

import numpy as np
import numpy.typing as npt
from scipy.stats import chi

from ..errors import InvalidSetting
from ..estimators.base import GPA
from ..gauge.poses import jackknife_covariance, jackknifed_poses
from ..gauge.rotations import rotation_vector
from ..observations.arrays import finite_rows
from ..observations.cloud import Cloud
from ..typing import Array, Name
from .cross_validation import CrossValidation
from .metrics import mean_of_others

LEAST_NOISE = 1e-12  # standard deviation of noise, as a share of the map's largest scale, for exact copies
JACKKNIFE_REGIONS = 10  # regions of a cloud that are left out in turn to estimate the covariance of its pose


@dataclass(frozen=True, repr=False)
class Uncertainty:
    """Regions of warped points, calibrated by cross-validation, and covariances of the map and of poses.

    Attributes
    ----------
    validation : CrossValidation
        The cross-validation that the regions are calibrated by; its ``fitted`` is the registration.
    scores : ndarray of shape (k,)
        Distances of the k predictions from the mean of the other clouds, divided by sqrt(v), ascending.
    weights : ndarray of shape (k,)
        Weights of the scores.

    Examples
    --------
    >>> from kernelgpa import KernelGPA, selection, simulate, uncertainty
    >>> scene = simulate.liver(clouds=5, landmarks=60, vertices=202)
    >>> estimate = uncertainty(selection.cross_validate(KernelGPA(), scene.points, folds=5))
    >>> surface = scene.surfaces[0]  # points of cloud 0 that are no landmarks
    >>> estimate.radius(surface, cloud=0, level=0.9).shape
    (202,)
    """

    validation: CrossValidation
    scores: Array
    weights: Array

    def __repr__(self) -> str:
        factors = ", ".join(f"{level:.0%}: {self.factor(level):.3g}" for level in (0.5, 0.9, 0.95))
        return f"Uncertainty(factors {factors}; {len(self.scores)} observations left out in turn)"

    def factor(self, level: float) -> float:
        """Return the radius of the region of a level in units of sqrt(v): the weighted quantile of the scores."""
        if not isinstance(level, Real) or not 0 < level < 1:
            raise InvalidSetting(f"level is {level!r}; expected a share between 0 and 1, such as 0.9")
        shares = (np.cumsum(self.weights) - 0.5 * self.weights) / self.weights.sum()
        return float(np.interp(level, shares, self.scores))

    def radius(self, points: npt.ArrayLike, cloud: Name, level: float = 0.9, weight: float | None = None) -> Array:
        """Return the radius in the map within which the mean of the other clouds lies with the given probability.

        Parameters
        ----------
        points : array_like of shape (k, d)
            Points in the frame of the cloud.
        cloud : hashable
            Name or index of the cloud.
        level : float
            Probability, between 0 and 1.
        weight : float, optional
            Weight of an observation as accurate as the points, in the unit of the weights given to ``fit``; by default
            the median weight in the cloud.

        Returns
        -------
        ndarray of shape (k,)
        """
        return self.factor(level) * np.sqrt(self._variance(points, cloud, weight))

    def standard_deviation(self, points: npt.ArrayLike, cloud: Name, weight: float | None = None) -> Array:
        """Return the standard deviation of each coordinate of warped points, shape (k,).

        It is that of the normal distribution with the calibrated median distance.  The arguments are those of
        :meth:`radius`.
        """
        d = self.validation.fitted.observations_.dimension
        return self.radius(points, cloud, 0.5, weight) / chi(d).median()

    def covariance(self, points: npt.ArrayLike, cloud: Name, weight: float | None = None) -> Array:
        """Return the covariance of each warped point, shape (k, d, d), a multiple of the identity.

        The arguments are those of :meth:`radius`.
        """
        d = self.validation.fitted.observations_.dimension
        return self.standard_deviation(points, cloud, weight)[:, None, None] ** 2 * np.eye(d)

    def map_covariance(self) -> Array:
        """Return the covariance of each landmark of the map, shape (m, d, d).

        It is estimated from the scatter of the clouds about the map after their rigid motions.  Few observations
        determine their scatter poorly; therefore d + 1 observations with the mean scatter of all landmarks are added.
        NaN for a landmark that fewer than two clouds of the solve saw.
        """
        fitted = self.validation.fitted
        d, part = fitted.observations_.dimension, fitted.registration_.problem.participating
        points, weights = fitted.observations_.points[part], fitted.weights_[part]
        posed = np.einsum("tij,tmj->tmi", fitted.rotations_[part], points) + fitted.translations_[part, None]
        differences = np.nan_to_num(posed - fitted.map_)
        total = np.maximum(weights.sum(axis=0), np.finfo(np.float64).tiny)
        squares = np.maximum(np.sum(weights**2, axis=0), np.finfo(np.float64).tiny)
        effective = np.maximum(total**2 / squares, 1.0)  # observations; less than 1 only for landmarks no cloud saw
        scatter = np.einsum("tm,tmi,tmj->mij", weights / total, differences, differences) * effective[:, None, None]
        freedom = np.maximum(effective - 1, 0.0)
        pooled = scatter.sum(axis=0) / freedom.sum()
        of_one = (scatter + (d + 1) * pooled) / (freedom + d + 1)[:, None, None]  # covariance of one observation
        known = np.sum(weights > 0, axis=0) > 1
        return np.where(known[:, None, None], of_one / effective[:, None, None], np.nan)

    def pose_covariance(self, cloud: Name) -> Array:
        """Return the covariance of (rotation vector, translation) of a pose, of shape (3, 3) in 2D and (6, 6) in 3D.

        The rotation vector is a small rotation, in radians, applied after that of the pose.  The covariance is a
        jackknife over regions of the cloud: it shows how far noise and the deformation of one region move the pose.
        It does not contain the part of a deformation of the whole cloud that is a motion, because no data of this kind
        separates the two.
        """
        fitted = self.validation.fitted
        t = fitted.observations_.cloud_index(cloud)
        weighted = _with_solved_weights(fitted, t)
        poses = jackknifed_poses(weighted, fitted.map_[weighted.seen], JACKKNIFE_REGIONS)
        inverse = fitted.rotations_[t].T
        vectors = [[*rotation_vector(rotation @ inverse), *translation] for rotation, translation in poses]
        return jackknife_covariance(np.array(vectors))

    def _variance(self, points: npt.ArrayLike, cloud: Name, weight: float | None) -> Array:  # (k,)
        fitted = self.validation.fitted
        t = fitted.observations_.cloud_index(cloud)
        array = fitted.warps_[t].checked(points)
        reduced, noise = fitted._reduced_cloud(cloud), noise_variance(fitted, t)
        if np.isnan(noise):
            raise InvalidSetting(
                f"the noise of cloud {cloud!r} is unknown, because it has no more landmarks than an affine map needs; "
                "use a cloud with more landmarks"
            )
        if weight is None:
            weight = float(np.median(fitted.observations_.clouds[t].weights))
        if not isinstance(weight, Real) or not weight > 0:
            raise InvalidSetting(f"weight is {weight!r}; expected a positive number")
        return noise * (reduced.variance(array) + 1 / weight)


def uncertainty(validation: CrossValidation) -> Uncertainty:
    """Calibrate the uncertainty of a registration by its cross-validation.

    Parameters
    ----------
    validation : CrossValidation
        The result of :func:`selection.cross_validate` for an estimator other than RigidGPA.

    Returns
    -------
    Uncertainty
    """
    if not isinstance(validation, CrossValidation):
        raise InvalidSetting(
            f"uncertainty takes the result of selection.cross_validate, found {type(validation).__name__}"
        )
    fitted = validation.fitted
    if not fitted._deforms:
        raise InvalidSetting(
            f"{type(fitted).__name__} has rigid warps, whose uncertainty is not modelled; use AffineGPA, TPSGPA or "
            "KernelGPA"
        )
    scores, weights = (np.concatenate(parts) for parts in zip(*_scores_per_cloud(validation), strict=True))
    if not len(scores):
        raise InvalidSetting("cross-validation tested no landmark that two clouds saw; use other folds")
    order = np.argsort(scores)
    return Uncertainty(validation, scores[order], weights[order])


def _scores_per_cloud(validation: CrossValidation) -> list[tuple[Array, Array]]:
    """Return, for each cloud, the scores of its predictions and their weights."""
    fitted = validation.fitted
    given, used = fitted.observations_.weights, validation.weights
    expected = mean_of_others(validation.predictions, used)
    distances = np.linalg.norm(validation.predictions - expected, axis=2)
    scores = [(np.zeros(0), np.zeros(0))]
    for t in fitted.registration_.problem.participating:
        tested = np.isfinite(distances[t]) & np.isfinite(validation.variances[t])
        noise = noise_variance(fitted, t)
        if tested.any() and not np.isnan(noise):
            # the variance contains the noise 1 / used; the noise of the observation itself is 1 / given
            excess = 1 / used[t, tested] - 1 / given[t, tested]
            deviations = np.sqrt(noise * (validation.variances[t, tested] - excess))
            scores.append((distances[t, tested] / deviations, used[t, tested] / given[t, tested]))
    return scores


def noise_variance(fitted: GPA, t: int) -> float:
    """Return sigma_t^2, the noise variance of an observation of weight 1 in cloud t.

    NaN if the cloud has no more landmarks than an affine map needs, because its warp then has no residuals.
    """
    reduced = fitted._reduced_cloud(fitted.observations_.names[t])
    targets = fitted.map_[fitted.shared_landmarks_[reduced.seen]]
    s, d = targets.shape
    freedom = s - fitted.registration_.problem.restricted.clouds[t].frame.rank - 1
    if freedom <= 0:
        return np.nan
    median_weight = float(np.median(fitted.weights_[t][fitted.weights_[t] > 0]))
    least = (LEAST_NOISE * float(fitted.scales_[0])) ** 2 * median_weight
    return max(float(np.vdot(targets, reduced.apply(targets)) / (d * freedom)), least)


def _with_solved_weights(fitted: GPA, t: int) -> Cloud:
    """Return cloud t with the weights of the last solve, without landmarks that are not in the map."""
    cloud = fitted.observations_.clouds[t]
    cloud = replace(cloud, weights=fitted.weights_[t, cloud.seen])
    known = finite_rows(fitted.map_[cloud.seen]) & (cloud.weights > 0)
    return cloud.only(known, np.arange(len(fitted.map_)))

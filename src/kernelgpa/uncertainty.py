"""How far to trust a warped point, a landmark of the map, and a pose.

A warp is a universal-kriging predictor.  With sigma_t^2 the noise variance of cloud t, estimated from what
its warp leaves of the map, an observed point p has variance

    v_t(p) = sigma_t^2 (variance_t(p) + 1),      sigma_t^2 = tr(M_t' Q_t M_t) / (d (s - r))       (theory, eq. 18)

in every coordinate.  Real deformations are no Gaussian process, so regions are calibrated by what
cross-validation found: the landmarks left out lay within  factor(level) sqrt(v)  of where the other clouds put
them in the share ``level`` of all cases.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.stats import chi

from .deformable import DeformableGPA
from .errors import InvalidSetting
from .frames import Array, BoolArray, IndexArray, farthest_points, finite_rows
from .metrics import mean_of_others
from .names import Name
from .observations import Cloud
from .rigid import pose_onto
from .rotations import rotation_vector
from .selection import CrossValidation
from .warps import ReducedCloud

POSE_REGIONS = 10  # parts of a cloud left out in turn to see how a pose depends on them


@dataclass(frozen=True)
class Uncertainty:
    """Calibrated standard deviations and regions of one registration."""

    validation: CrossValidation
    scores: Array  # |residual| / sqrt(v) of the landmarks left out, ascending

    def factor(self, level: float) -> float:
        """How many sqrt(v) the region of the given level reaches."""
        if not 0 < level < 1:
            raise InvalidSetting(f"level is {level}; expected a share between 0 and 1, such as 0.9")
        return float(np.quantile(self.scores, level))

    def radius(self, points: npt.ArrayLike, cloud: Name, level: float = 0.9) -> Array:  # (k, d) -> (k,)
        """Radius in the map within which the others put the same point, in the share ``level`` of all cases."""
        return self.factor(level) * np.sqrt(self._variance(points, cloud))

    def standard_deviation(self, points: npt.ArrayLike, cloud: Name) -> Array:  # (k, d) -> (k,)
        """Of each coordinate of a warped point: the calibrated median distance, read as that of a normal law."""
        d = self.validation.fitted.observations_.dimension
        return self.radius(points, cloud, 0.5) / chi(d).median()

    def covariance(self, points: npt.ArrayLike, cloud: Name) -> Array:  # (k, d) -> (k, d, d)
        """Covariance of each warped point; the same in every direction of the map."""
        d = self.validation.fitted.observations_.dimension
        return self.standard_deviation(points, cloud)[:, None, None] ** 2 * np.eye(d)

    def map_covariance(self) -> Array:  # (m, d, d)
        """Covariance of each map landmark, from how its clouds scatter about it after their rigid motions.

        NaN for a landmark that fewer than two clouds saw.
        """
        fitted = self.validation.fitted
        points = fitted.observations_.points
        posed = np.einsum("tij,tmj->tmi", fitted.rotations_, points) + fitted.translations_[:, None]
        off = posed - fitted.map_
        seen = ~np.isnan(off[:, :, 0])
        scatter = np.einsum("tmi,tmj->mij", np.nan_to_num(off), np.nan_to_num(off))
        count = seen.sum(axis=0)[:, None, None]
        return np.where(count > 1, scatter / np.maximum(count * (count - 1), 1), np.nan)

    def pose_covariance(self, cloud: Name) -> Array:  # (q, q), q = 3 in 2D and 6 in 3D
        """Covariance of (rotation vector, translation) of a pose: a jackknife over regions of the cloud.

        The rotation vector is a small turn after the pose's rotation, in radians.
        """
        fitted = self.validation.fitted
        t = fitted.observations_.cloud_index(cloud)
        whole = _known(fitted.observations_.clouds[t], fitted.map_)
        regions, rotation = _regions(whole, POSE_REGIONS), fitted.rotations_[t]
        moves = np.array([_pose_change(whole, regions != i, fitted.map_, rotation) for i in np.unique(regions)])
        centred = moves - moves.mean(axis=0)
        return (len(moves) - 1) / len(moves) * centred.T @ centred

    def _variance(self, points: npt.ArrayLike, cloud: Name) -> Array:
        fitted = self.validation.fitted
        array = fitted.warps_[fitted.observations_.cloud_index(cloud)].checked(points)
        reduced = fitted.reduced_cloud(cloud)
        return noise_variance(reduced, fitted.map_[fitted.solved_[reduced.seen]]) * (reduced.variance(array) + 1)


def uncertainty(validation: CrossValidation) -> Uncertainty:
    """Calibrate the uncertainty of a registration by its cross-validation."""
    fitted = validation.fitted
    if not isinstance(fitted, DeformableGPA):
        raise InvalidSetting(f"{type(fitted).__name__} has no warps that bend; uncertainty needs affine, tps or kernel")
    off = np.linalg.norm(validation.predictions - mean_of_others(validation.predictions), axis=2)
    scores = []
    for t, name in enumerate(fitted.observations_.names):
        tested = np.isfinite(off[t]) & np.isfinite(validation.spreads[t])
        if tested.any():
            reduced = fitted.reduced_cloud(name)
            noise = noise_variance(reduced, fitted.map_[fitted.solved_[reduced.seen]])
            scores.append(off[t, tested] / np.sqrt(noise * validation.spreads[t, tested]))
    return Uncertainty(validation, np.sort(np.concatenate(scores)))


def noise_variance(reduced: ReducedCloud, targets: Array) -> float:
    """sigma_t^2, from what the warp leaves of its targets."""
    s, d = targets.shape
    free = max(s - d - 1, 1)
    return float(np.vdot(targets, reduced.form() @ targets) / (d * free))


def _known(cloud: Cloud, places: Array) -> Cloud:
    return cloud.only(finite_rows(places[cloud.seen]), np.arange(len(places)))


def _regions(cloud: Cloud, count: int) -> IndexArray:  # (s,) which region each point belongs to
    centres = cloud.points[farthest_points(cloud.points, count)]
    return np.argmin(np.sum((cloud.points[:, None] - centres) ** 2, axis=2), axis=1)


def _pose_change(cloud: Cloud, keep: BoolArray, places: Array, rotation: Array) -> Array:
    part = cloud.only(keep, np.arange(len(places)))
    turned, moved = pose_onto(part, places[part.seen])
    return np.concatenate([rotation_vector(turned @ rotation.T), moved])

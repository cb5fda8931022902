"""Clouds that a model was not learned from: their poses onto its mean shape, and their completion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import InvalidObservations
from ..observations import Observations
from ..observations.arrays import masked_as_nan
from ..typing import Array, Name
from .alignment import Pose, procrustes
from .learning import TrainingClouds
from .results import Frozen


@dataclass(frozen=True)
class NewClouds:
    """New clouds in the frame of the mean shape."""

    points: Array  # (k, m, d), NaN where unseen
    poses: tuple[Pose, ...]
    clouds: TrainingClouds  # their residuals

    def completed(self, frozen: Frozen) -> tuple[Array, Array]:  # (k, m, d), (k, m, d, d)
        """All landmarks in the frame of each cloud, and the covariances of those that it did not see."""
        d, completed = frozen.dimension, self.points.copy()
        covariances = np.zeros((*completed.shape, d))
        mean = frozen.shapes.positions + frozen.mean.reshape(-1, d)
        found = frozen.gaussian.predict(self.clouds.centred(frozen.mean), self.clouds.patterns, d)
        values = found.values.reshape(completed.shape)
        for t, pose in enumerate(self.poses):
            unseen = np.isnan(completed[t, :, 0])
            completed[t, unseen] = pose.back(mean[unseen] + values[t, unseen])
            covariances[t, unseen] = frozen.calibration * pose.covariances_back(found.covariances[t, unseen])
        return completed, covariances


def pose_new(points: Any, landmarks: Sequence[Name], frozen: Frozen) -> NewClouds:
    """The poses of new clouds onto the landmarks of the mean shape that they saw."""
    array = _as_array(points, landmarks, frozen.dimension)
    mean = frozen.shapes.positions + frozen.mean.reshape(-1, frozen.dimension)
    seen = np.isfinite(array[:, :, 0])
    poses, residuals = [], np.zeros((len(array), mean.size))
    for t, own in enumerate(array):
        if seen[t].sum() < frozen.dimension:
            raise InvalidObservations(
                f"cloud {t} sees {seen[t].sum()} landmarks of the model, and at least {frozen.dimension} are needed to "
                "place it; leave it out"
            )
        pose = procrustes(own[seen[t]], mean[seen[t]], frozen.scaling, frozen.gain)
        poses.append(pose)
        residuals[t] = np.nan_to_num(pose(own) - frozen.shapes.positions).ravel()
    entries = np.repeat(seen, frozen.dimension, axis=1)
    clouds = TrainingClouds.of(residuals, entries, np.ones(len(array)), np.zeros(mean.size))
    return NewClouds(array, tuple(poses), clouds)


def _as_array(points: Any, landmarks: Sequence[Name], d: int) -> Array:  # (k, m, d)
    """New clouds on the landmarks of the model, whatever the kind of data."""
    if isinstance(points, list) and points and isinstance(points[0], tuple):
        points = Observations.from_clouds(points)
    if isinstance(points, Observations):
        known = set(landmarks)
        unknown = [one for one in points.landmarks if one not in known]
        if unknown:
            raise InvalidObservations(f"the model has no landmark {unknown[0]!r}; leave it out with subset()")
        position = {name: j for j, name in enumerate(landmarks)}
        array = np.full((len(points.clouds), len(landmarks), points.dimension), np.nan)
        array[:, [position[name] for name in points.landmarks]] = points.points
    else:
        array = masked_as_nan(points)
        array = array[None] if array.ndim == 2 else array
    if array.ndim != 3 or array.shape[1:] != (len(landmarks), d):
        raise InvalidObservations(f"points have shape {array.shape}; expected (clouds, {len(landmarks)}, {d})")
    unseen = np.isnan(array)
    if np.isinf(array).any() or (unseen.any(axis=2) != unseen.all(axis=2)).any():
        raise InvalidObservations("a point is infinite, or NaN in some coordinates only; make all of them NaN or none")
    return array

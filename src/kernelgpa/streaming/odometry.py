"""Motions measured by odometry or a tracker, and the poses refined by them (theory, eq. 19)."""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ..errors import InvalidObservations
from ..gauge import pose_graph
from ..gauge.pose_graph import Motion
from ..gauge.poses import jackknife_covariance, jackknifed_poses, pose_onto
from ..gauge.rotations import nearest_rotation, rotation_vector
from ..observations.cloud import Cloud
from ..trust.diagnosis import Finding
from ..typing import Array
from .running_sum import CloudKey
from .stream_map import StreamMap

TRACKER = "tracker"  # the source of poses that are measured in the frame of a tracker
FINEST_ACCURACY = 1e-12  # smaller standard deviations cannot be weighed against anything
FARTHEST_MOTION = 1e50  # squares of larger numbers leave double precision
CONTRADICTION = 4.0  # standard deviations of the residual beyond which a motion is rejected
POSE_REGIONS = 8  # of a cloud, each left out once by the jackknife
LEAST_POSE_ERROR = 1e-6  # of the cloud's size, and radians: no pose is known better
UNKNOWN_POSE = 1e12  # times the least variance: the variance of a pose that the jackknife cannot estimate


@dataclass(frozen=True)
class Measured:
    """A measured motion: the pose of a cloud in the frame of another cloud, or of a tracker.

    Attributes
    ----------
    rotation, translation : arrays (d, d), (d,)
        ``rotation @ p + translation`` takes a point of the cloud into the frame of the source.
    accuracy : float
        Standard deviation of each coordinate of the translation, in the unit of the points.
    degrees : float
        Standard deviation of each angle of the rotation.
    source : int or "tracker", default="tracker"
        The key of an earlier cloud, or "tracker" for poses in the frame of one tracker.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelgpa import Measured
    >>> step = Measured(np.eye(3), [12.0, 0.0, 0.0], accuracy=0.5, degrees=0.2, source=0)
    """

    rotation: npt.ArrayLike
    translation: npt.ArrayLike
    accuracy: float
    degrees: float
    source: CloudKey | str = TRACKER


MotionKey = tuple[CloudKey, CloudKey | str, int]  # cloud, source, and position among all motions


def measured_motions(
    measured: Measured | Sequence[Measured], dimension: int, known: Collection[CloudKey]
) -> list[Measured]:
    """Motions as a list; an error unless each is valid and starts from a known cloud."""
    motions = [measured] if isinstance(measured, Measured) else measured
    if not isinstance(motions, Sequence) or not all(isinstance(one, Measured) for one in motions):
        raise InvalidObservations(f"measured is {measured!r}; expected Measured(...), or a list of them")
    return [validated(one, dimension, known) for one in motions]


def validated(measured: Measured, d: int, keys: Container[CloudKey]) -> Measured:
    """The motion in plain arrays and numbers; its source must be the tracker or one of the clouds in ``keys``."""
    try:
        rotation, translation = (np.array(part, dtype=np.float64) for part in (measured.rotation, measured.translation))
        accuracy, degrees = float(measured.accuracy), float(measured.degrees)
    except (TypeError, ValueError) as problem:
        raise InvalidObservations(f"a measured motion has parts that are not numbers ({problem})") from None
    if rotation.shape != (d, d) or translation.shape != (d,):
        raise InvalidObservations(
            f"a measured motion has a rotation of shape {rotation.shape} and a translation of shape "
            f"{translation.shape}; expected {(d, d)} and {(d,)}"
        )
    if not np.allclose(rotation @ rotation.T, np.eye(d), atol=1e-6) or np.linalg.det(rotation) < 0:
        raise InvalidObservations("a measured motion has a matrix that is not a rotation; expected R R' = 1, det R = 1")
    finite = np.abs(translation).max() < FARTHEST_MOTION
    if not finite or not all(FINEST_ACCURACY < one < FARTHEST_MOTION for one in (accuracy, degrees)):
        raise InvalidObservations(
            f"a measured motion has translation {translation}, accuracy {accuracy:g} and degrees {degrees:g}; expected "
            f"finite numbers, and accuracies above {FINEST_ACCURACY:g}"
        )
    source = measured.source.item() if isinstance(measured.source, np.generic) else measured.source
    if source != TRACKER and (not isinstance(source, int) or source not in keys):
        raise InvalidObservations(f"a measured motion starts from cloud {source!r}, which is not in the stream")
    return Measured(rotation, translation, accuracy, degrees, source)


def usable_motions(
    motions: Mapping[CloudKey, Sequence[Measured]], keys: Sequence[CloudKey]
) -> list[tuple[CloudKey, Measured]]:
    """The motions of participating clouds whose source is the tracker or participates too."""
    present = set(keys)
    pairs = [(key, one) for key, several in motions.items() if key in present for one in several]
    return [(key, one) for key, one in pairs if one.source == TRACKER or one.source in present]


def refine_poses(
    stream_map: StreamMap, pairs: Sequence[tuple[CloudKey, Measured]], covariances: Array
) -> tuple[StreamMap, dict[MotionKey, float]]:
    """The poses that agree best with clouds and motions, and the scaled residual of each motion.

    Motions that contradict the clouds are rejected, because a single wrong one would distort all poses.
    """
    position = {key: t for t, key in enumerate(stream_map.keys)}
    n, rotations, translations = len(position), stream_map.rotations, stream_map.translations
    tracked = [(position[key], one) for key, one in pairs if one.source == TRACKER]
    if tracked:  # the tracker is one more pose, which is unknown
        rotation, translation = _tracker_pose(tracked, rotations, translations)
        rotations, translations = np.concatenate([rotations, rotation[None]]), np.vstack([translations, translation])
        covariances = np.concatenate([covariances, np.full((1, *covariances.shape[1:]), np.inf)])
    motions = [
        Motion(
            n if isinstance(one.source, str) else position[one.source],
            position[key],
            np.asarray(one.rotation, dtype=np.float64),
            np.asarray(one.translation, dtype=np.float64),
            float(one.accuracy),
            float(np.radians(one.degrees)),
        )
        for key, one in pairs
    ]
    residuals = pose_graph.motion_errors(rotations, translations, covariances, motions)
    by_motion = {(key, one.source, i): float(residuals[i]) for i, (key, one) in enumerate(pairs)}
    accepted = [motions[i] for i in np.flatnonzero(residuals <= CONTRADICTION)]
    if not accepted:
        return stream_map, by_motion
    if not any(one.source == n for one in accepted):
        rotations, translations, covariances = rotations[:n], translations[:n], covariances[:n]
    rotations, translations = pose_graph.refine_poses(rotations, translations, covariances, accepted)
    return replace(stream_map, rotations=rotations[:n], translations=translations[:n]), by_motion


def _tracker_pose(
    tracked: Sequence[tuple[int, Measured]], rotations: Array, translations: Array
) -> tuple[Array, Array]:
    """The pose of the tracker in the map: the mean of those that its measured poses imply."""
    turns = np.array([rotations[t] @ np.asarray(one.rotation, dtype=np.float64).T for t, one in tracked])
    rotation = nearest_rotation(turns.sum(axis=0))
    shifts = [translations[t] - rotation @ np.asarray(one.translation, dtype=np.float64) for t, one in tracked]
    return rotation, np.median(shifts, axis=0)


def contradictions(residuals: Mapping[MotionKey, float]) -> list[Finding]:
    """One finding for all motions that contradict the clouds."""
    wrong = {motion: value for motion, value in residuals.items() if value > CONTRADICTION}
    if not wrong:
        return []
    (key, source, _), worst = max(wrong.items(), key=lambda item: item[1])
    found = (
        f"{len(wrong)} of {len(residuals)} measured motions contradict the clouds and are rejected; that of cloud "
        f"{key} from {source} has the largest residual, {worst:.1f} standard deviations"
    )
    action = "check the odometry and its accuracy, or leave it out"
    return [Finding("measured motion", min(1.0, worst / (10 * CONTRADICTION)), found, action)]


def pose_covariance(cloud: Cloud, targets: Array) -> Array:  # (s, d) -> (q, q)
    """Covariance of (translation, rotation vector) of a cloud's pose onto targets, in the frame of the sensor.

    A jackknife over regions of the cloud: the more the cloud deforms, the less its pose is known.
    """
    rotation, translation = pose_onto(cloud, targets)
    replicates = [
        np.concatenate([rotation.T @ (shifted - translation), rotation_vector(rotation.T @ turned)])
        for turned, shifted in jackknifed_poses(cloud, targets, POSE_REGIONS)
    ]
    d = cloud.points.shape[1]
    least = np.array([LEAST_POSE_ERROR * cloud.frame.size] * d + [LEAST_POSE_ERROR] * (d * (d - 1) // 2)) ** 2
    if len(replicates) < 2:
        return np.diag(least * UNKNOWN_POSE)
    return jackknife_covariance(np.array(replicates)) + np.diag(least)

"""Motions that a sensor measured, and the poses that heed them."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ..errors import InvalidObservations
from ..gauge.pose_graph import Motion, motion_errors, refine_poses
from ..gauge.rotations import nearest_rotation
from ..spectrum.running_sum import Key
from ..trust.diagnosis import Finding
from ..typing import Array
from .solved import StreamMap

TRACKER = "tracker"  # the source of poses that are measured in the frame of a tracker
FINEST = 1e-12  # accuracy: beyond it nothing can be weighed against a motion
FARTHEST = 1e50  # beyond it squares leave double precision
SURPRISING = 4.0  # times what a motion and the clouds leave open: they contradict each other


@dataclass(frozen=True)
class Measured:
    """A motion that a sensor measured: the pose of a cloud as seen from another, or from a tracker."""

    rotation: npt.ArrayLike  # (d, d)
    translation: npt.ArrayLike  # (d,)
    accuracy: float  # standard deviation of each coordinate, in the unit of the points
    degrees: float  # standard deviation of each angle
    source: Key | str = TRACKER


Deviations = dict[tuple[Key, Key | str, int], float]  # of the motions of a cloud, counted


def checked(one: Measured, d: int, keys: Container[Key]) -> Measured:
    """The motion in plain arrays and numbers; an error unless it is one, and starts from a cloud that is here."""
    try:
        rotation, translation = (np.array(part, dtype=np.float64) for part in (one.rotation, one.translation))
        accuracy, degrees = float(one.accuracy), float(one.degrees)
    except (TypeError, ValueError) as problem:
        raise InvalidObservations(f"a measured motion has parts that are no numbers ({problem})") from None
    if rotation.shape != (d, d) or translation.shape != (d,):
        raise InvalidObservations(
            f"a measured motion has a rotation of shape {rotation.shape} and a translation of shape "
            f"{translation.shape}; expected {(d, d)} and {(d,)}"
        )
    if not np.allclose(rotation @ rotation.T, np.eye(d), atol=1e-6) or np.linalg.det(rotation) < 0:
        raise InvalidObservations("the rotation of a measured motion is no rotation; expected R R' = 1, det R = 1")
    sound = np.abs(translation).max() < FARTHEST and FINEST < accuracy < FARTHEST and FINEST < degrees < FARTHEST
    if not sound:
        raise InvalidObservations(
            f"a measured motion needs finite numbers, and accuracies above {FINEST:g}; found {translation}, "
            f"{accuracy:g} and {degrees:g}"
        )
    source = one.source.item() if isinstance(one.source, np.generic) else one.source
    if source != TRACKER and (not isinstance(source, int) or source not in keys):
        raise InvalidObservations(f"a measured motion starts from cloud {source!r}, which is not here")
    return Measured(rotation, translation, accuracy, degrees, source)


def measured_of(measured: Mapping[Key, Sequence[Measured]], solved: StreamMap) -> list[tuple[Key, Measured]]:
    """The motions between clouds that take part."""
    here = set(solved.keys)
    pairs = [(key, one) for key, several in measured.items() if key in here for one in several]
    return [(key, one) for key, one in pairs if one.source == TRACKER or one.source in here]


def with_motions(
    solved: StreamMap, pairs: Sequence[tuple[Key, Measured]], trust: Array
) -> tuple[StreamMap, Deviations]:
    """The poses that answer to the clouds and to the motions, and how far each motion is off.

    Motions that contradict the clouds by much more than either leaves open are not heeded: one of them would spoil all.
    """
    at = {key: i for i, key in enumerate(solved.keys)}
    n, rotations, translations = len(at), solved.rotations, solved.translations
    tracked = [(at[key], one) for key, one in pairs if one.source == TRACKER]
    if tracked:  # one more pose, of which nothing is known
        turn, shift = _tracker(tracked, rotations, translations)
        rotations, translations = np.concatenate([rotations, turn[None]]), np.vstack([translations, shift])
        trust = np.concatenate([trust, np.full((1, *trust.shape[1:]), np.inf)])
    motions = [
        Motion(
            n if isinstance(one.source, str) else at[one.source],
            at[key],
            np.asarray(one.rotation, dtype=np.float64),
            np.asarray(one.translation, dtype=np.float64),
            float(one.accuracy),
            float(np.radians(one.degrees)),
        )
        for key, one in pairs
    ]
    off = motion_errors(rotations, translations, trust, motions)
    heeded = [one for one, away in zip(motions, off, strict=True) if away <= SURPRISING]
    told = {(key, one.source, i): float(away) for i, ((key, one), away) in enumerate(zip(pairs, off, strict=True))}
    if not heeded:
        return solved, told
    if not any(one.source == n for one in heeded):
        rotations, translations, trust = rotations[:n], translations[:n], trust[:n]
    turned, moved = refine_poses(rotations, translations, trust, heeded)
    return replace(solved, rotations=turned[:n], translations=moved[:n]), told


def _tracker(tracked: Sequence[tuple[int, Measured]], rotations: Array, translations: Array) -> tuple[Array, Array]:
    """The pose of the tracker in the map: the mean of where its measured poses put it."""
    turns = np.array([rotations[t] @ np.asarray(one.rotation, dtype=np.float64).T for t, one in tracked])
    turn = nearest_rotation(turns.sum(axis=0))
    shifts = [translations[t] - turn @ np.asarray(one.translation, dtype=np.float64) for t, one in tracked]
    return turn, np.median(shifts, axis=0)


def contradicted(deviations: Deviations) -> list[Finding]:
    """A finding where motions are off by much more than their accuracy."""
    wrong = {pair: value for pair, value in deviations.items() if value > SURPRISING}
    if not wrong:
        return []
    (key, source, _), worst = max(wrong.items(), key=lambda item: item[1])
    found = (
        f"{len(wrong)} of {len(deviations)} measured motions contradict the clouds; that of cloud {key} from {source} "
        f"is off by {worst:.1f} times what both leave open; they are not heeded"
    )
    action = "check the odometry and its accuracy, or leave it out"
    return [Finding("measured motion", min(1.0, worst / (10 * SURPRISING)), found, action)]

"""Motions that a sensor measured, and the poses that heed them."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ..diagnosis import Finding
from ..errors import InvalidObservations
from ..frames import Array
from ..live import Key
from ..posegraph import Motion, refined
from .solved import Solved

TRACKER = "tracker"  # the source of poses that are measured in the frame of a tracker
SURPRISING = 4.0  # times its accuracy: a measured motion that the clouds contradict


@dataclass(frozen=True)
class Measured:
    """A motion that a sensor measured: the pose of a cloud as seen from another, or from a tracker."""

    rotation: npt.ArrayLike  # (d, d)
    translation: npt.ArrayLike  # (d,)
    accuracy: float  # standard deviation of each coordinate, in the unit of the points
    degrees: float  # standard deviation of each angle
    source: Key | str = TRACKER


Deviations = dict[tuple[Key, Key | str], float]


def require_measured(one: Measured, d: int, keys: Container[Key]) -> None:
    """An error unless the motion is one, and starts from a cloud that is here."""
    rotation, translation = np.asarray(one.rotation), np.asarray(one.translation)
    if rotation.shape != (d, d) or translation.shape != (d,):
        raise InvalidObservations(
            f"a measured motion has a rotation of shape {rotation.shape} and a translation of shape "
            f"{translation.shape}; expected {(d, d)} and {(d,)}"
        )
    if not np.allclose(rotation @ rotation.T, np.eye(d), atol=1e-6) or np.linalg.det(rotation) < 0:
        raise InvalidObservations("the rotation of a measured motion is no rotation; expected R R' = 1, det R = 1")
    if not (np.isfinite(translation).all() and 0 < one.accuracy < np.inf and 0 < one.degrees < np.inf):
        raise InvalidObservations("a measured motion needs finite numbers, and accuracies above 0")
    if one.source != TRACKER and one.source not in keys:
        raise InvalidObservations(f"a measured motion starts from cloud {one.source!r}, which is not here")


def measured_of(measured: Mapping[Key, Sequence[Measured]], solved: Solved) -> list[tuple[Key, Measured]]:
    """The motions between clouds that take part."""
    here = set(solved.keys)
    pairs = [(key, one) for key, several in measured.items() if key in here for one in several]
    return [(key, one) for key, one in pairs if one.source == TRACKER or one.source in here]


def with_motions(solved: Solved, pairs: Sequence[tuple[Key, Measured]], trust: Array) -> tuple[Solved, Deviations]:
    """The poses that answer to the clouds and to the motions, and how far each motion is off."""
    at = {key: i for i, key in enumerate(solved.keys)}
    n, rotations, translations = len(at), solved.rotations, solved.translations
    tracked = next(((key, one) for key, one in pairs if one.source == TRACKER), None)
    if tracked is not None:  # one more pose, of which nothing is known
        key, first = tracked
        turn = rotations[at[key]] @ np.asarray(first.rotation, dtype=np.float64).T
        shift = translations[at[key]] - turn @ np.asarray(first.translation, dtype=np.float64)
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
    graph = refined(rotations, translations, trust, motions)
    deviations = {(key, one.source): float(off) for (key, one), off in zip(pairs, graph.deviations, strict=True)}
    return replace(solved, rotations=graph.rotations[:n], translations=graph.translations[:n]), deviations


def contradicted(deviations: Deviations) -> list[Finding]:
    """A finding where motions are off by much more than their accuracy."""
    wrong = {pair: value for pair, value in deviations.items() if value > SURPRISING}
    if not wrong:
        return []
    (key, source), worst = max(wrong.items(), key=lambda item: item[1])
    found = (
        f"{len(wrong)} of {len(deviations)} measured motions contradict the clouds; that of cloud {key} from {source} "
        f"is off by {worst:.1f} times its accuracy"
    )
    action = "check the odometry and its accuracy, or leave it out"
    return [Finding("measured motion", min(1.0, worst / (10 * SURPRISING)), found, action)]

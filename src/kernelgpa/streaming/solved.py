"""A map with its poses: moved onto another, completed, or of a batch fit."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from sklearn.base import clone

from ..estimators.base import GPA
from ..gauge.rotations import motion_onto
from ..spectrum.running_sum import Key, RunningSum
from ..typing import Array, IndexArray, Name
from ..warps import ReducedCloud, Warp


@dataclass(frozen=True)
class StreamMap:
    """A map in its own frame, as a batch fit delivers it."""

    landmarks: list[Name]
    map: Array  # (m, d)
    keys: tuple[Key, ...]
    rotations: Array  # (n, d, d)
    translations: Array  # (n, d)
    scales: Array  # (d,)
    eigenvalues: Array  # (d + 1,)
    warps: dict[Key, Warp] = field(default_factory=dict)  # those that are known already
    reduced: dict[Key, tuple[ReducedCloud, IndexArray]] = field(default_factory=dict)  # clouds, with their numbers
    rows: IndexArray = field(default_factory=lambda: np.zeros(0, dtype=np.intp))  # of map, by number

    def fitted(self, key: Key) -> Warp:
        """The warp of a cloud that is in the sum."""
        reduced, numbers = self.reduced[key]
        return reduced.fit_all([self.map[self.rows[numbers]]])[0]


def moved_onto(solved: StreamMap, new: Array, old: Array) -> tuple[StreamMap, float]:
    """A map and its poses after the rigid motion that brings some landmarks nearest to where they were."""
    turn, shift = motion_onto(new, old)
    moved = replace(
        solved,
        map=solved.map @ turn.T + shift,
        rotations=turn @ solved.rotations,
        translations=solved.translations @ turn.T + shift,
        warps={key: warp.moved(turn, shift) for key, warp in solved.warps.items()},
    )
    return moved, float(np.sqrt(np.mean(np.sum((new @ turn.T + shift - old) ** 2, axis=1))))


def determines_motion(points: Array) -> bool:  # (k, d)
    """Whether the points fix a rigid motion: they do not lie on a line."""
    k, d = points.shape
    if k < d:
        return False
    spread = np.linalg.svd(points - points.mean(axis=0), compute_uv=False)
    return bool(spread[d - 2] > 1e-6 * spread[0] > 0)


def reduced_of(running: RunningSum) -> dict[Key, tuple[ReducedCloud, IndexArray]]:
    """The clouds as they are in the sum, so that their warps belong to its map whatever comes after."""
    members = ((key, running.members[key]) for key in running.keys)
    return {
        key: (one.reduced, one.used.seen) for key, one in members if one.reduced is not None and one.used is not None
    }


def with_lonely(solved: StreamMap, running: RunningSum) -> StreamMap:
    """Landmarks that one cloud alone saw are where its warp takes them."""
    names, places, warps = list(solved.landmarks), [solved.map], dict(solved.warps)
    for key in solved.keys:
        member = running.members[key]
        used, reduced = member.used, member.reduced
        if used is None or reduced is None or len(used.seen) == len(member.cloud.seen):
            continue
        alone = ~np.isin(member.cloud.seen, used.seen)
        warps[key] = reduced.fit_all([solved.map[running.places_of(key)]])[0]
        places.append(warps[key](member.cloud.points[alone]))
        names += [running.names[number] for number in member.cloud.seen[alone].tolist()]
    return replace(solved, landmarks=names, map=np.concatenate(places), warps=warps)


def refitted(estimator: GPA, running: RunningSum) -> StreamMap:
    """The batch fit itself, where there is no sum to be kept."""
    gpa, keys = clone(estimator).fit(running.batch()), tuple(sorted(running.keys))
    return StreamMap(
        list(gpa.observations_.landmarks),
        gpa.map_,
        keys,
        gpa.rotations_,
        gpa.translations_,
        gpa.scales_,
        gpa.eigenvalues_,
        dict(zip(keys, gpa.warps_, strict=True)),
    )

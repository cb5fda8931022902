"""A map with its poses: moved onto another, completed, or of a batch fit."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from sklearn.base import clone

from ..frames import Array
from ..live import Key, Live
from ..names import Name
from ..registration import GPA
from ..rotations import nearest
from ..warps import Warp


@dataclass(frozen=True)
class Solved:
    """A map in its own frame, as a batch fit delivers it."""

    landmarks: list[Name]
    map: Array  # (m, d)
    keys: tuple[Key, ...]
    rotations: Array  # (n, d, d)
    translations: Array  # (n, d)
    scales: Array  # (d,)
    eigenvalues: Array  # (d + 1,)
    warps: dict[Key, Warp] = field(default_factory=dict)  # those that are known already


def moved_onto(solved: Solved, new: Array, old: Array) -> tuple[Solved, float]:
    """A map and its poses after the rigid motion that brings some landmarks nearest to where they were."""
    here, there = new.mean(axis=0), old.mean(axis=0)
    turn = nearest((old - there).T @ (new - here))

    def moved(points: Array) -> Array:
        return (points - here) @ turn.T + there

    after = moved(new)
    return (
        replace(
            solved,
            map=moved(solved.map),
            rotations=turn @ solved.rotations,
            translations=moved(solved.translations),
            warps={},
        ),
        float(np.sqrt(np.mean(np.sum((after - old) ** 2, axis=1)))),
    )


def with_lonely(solved: Solved, live: Live) -> Solved:
    """Landmarks that one cloud alone saw are where its warp takes them."""
    names, places, warps = list(solved.landmarks), [solved.map], dict[Key, Warp]()
    for key in solved.keys:
        member = live.members[key]
        used, reduced = member.used, member.reduced
        if used is None or reduced is None or len(used.seen) == len(member.cloud.seen):
            continue
        alone = ~np.isin(member.cloud.seen, used.seen)
        warps[key] = reduced.fits([solved.map[live.places_of(key)]])[0]
        places.append(warps[key](member.cloud.points[alone]))
        names += [live.names[number] for number in member.cloud.seen[alone].tolist()]
    return replace(solved, landmarks=names, map=np.concatenate(places), warps=warps)


def refitted(estimator: GPA, live: Live) -> Solved:
    """The batch fit itself, where there is no sum to be kept."""
    gpa, keys = clone(estimator).fit(live.batch()), tuple(sorted(live.keys))
    return Solved(
        list(gpa.observations_.landmarks),
        gpa.map_,
        keys,
        gpa.rotations_,
        gpa.translations_,
        gpa.scales_,
        gpa.eigenvalues_,
        dict(zip(keys, gpa.warps_, strict=True)),
    )

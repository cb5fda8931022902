"""A map with its poses and warps: aligned with the last map, and compared with the motion that is usual."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from ..gauge.rotations import motion_onto
from ..observations.arrays import finite_rows
from ..observations.cloud import Cloud
from ..typing import Array, IndexArray, Name
from ..warps import ReducedCloud, Warp
from .running_sum import CloudKey

COLLINEAR = 1e-6  # of the largest spread: points that spread less across it lie on a line
ROUNDING_MOTION = 1e-9  # of the map's size: smaller motions are rounding
UNUSUAL = 5.0  # times the usual motion of the map: more is an event
REMEMBERED = 50  # updates, whose median motion is the usual one
FEWEST_UPDATES = 5  # before there is a usual motion

ReducedClouds = dict[CloudKey, tuple[ReducedCloud, IndexArray]]  # each with the indices of its landmarks


@dataclass(frozen=True)
class StreamMap:
    """A map of m landmarks and the poses of the n clouds that participated."""

    landmarks: list[Name]
    map: Array  # (m, d)
    keys: tuple[CloudKey, ...]
    rotations: Array  # (n, d, d)
    translations: Array  # (n, d)
    scales: Array  # (d,)
    eigenvalues: Callable[[], Array]  # (d + 1,), which may take as long as an update
    gamma: float = np.nan  # of the faithful map; NaN if the map is another one, or was fitted again
    warps: dict[CloudKey, Warp] = field(default_factory=dict)  # those that are fitted already
    reduced: ReducedClouds = field(default_factory=dict)
    rows_of_indices: IndexArray = field(default_factory=lambda: np.zeros(0, dtype=np.intp))  # by landmark index
    eigenvectors: Array = field(default_factory=lambda: np.zeros((0, 0)))  # bottom ones, one row per landmark index

    @cached_property
    def rows(self) -> dict[Name, int]:
        """Rows of the map, by name of the landmark."""
        return {name: row for row, name in enumerate(self.landmarks)}

    @cached_property
    def poses(self) -> dict[CloudKey, tuple[Array, Array]]:
        """Rotation and translation of each cloud that participated."""
        return dict(zip(self.keys, zip(self.rotations, self.translations, strict=True), strict=True))

    def fit_warp(self, key: CloudKey) -> Warp:
        """The warp of a cloud that participated, which takes its reduced cloud onto the map."""
        reduced, indices = self.reduced[key]
        return reduced.fit_all([self.map[self.rows_of_indices[indices]]])[0]

    def overlap(self, cloud: Cloud, names: Sequence[Name | None]) -> tuple[Cloud, Array] | None:
        """The observations of a cloud whose landmarks the map has, and their positions in the map.

        ``names`` are those of landmark indices.  None if the landmarks are too few to fix a pose.
        """
        d = cloud.points.shape[1]
        rows = np.array([self.rows.get(names[index], -1) for index in cloud.seen.tolist()])
        known = rows >= 0
        known[known] = finite_rows(self.map[rows[known]])
        if np.sum(known) <= d:
            return None
        return cloud.only(known, np.arange(len(names))), self.map[rows[known]]


def align(new: StreamMap, last: StreamMap) -> tuple[StreamMap, float]:
    """The new map moved rigidly onto the last one, and the root mean square motion that remains.

    The motion is that which brings the common landmarks nearest to their last positions; without enough of them the
    map stays in its own frame, and the remaining motion is NaN.
    """
    common = [(row, last.rows[name]) for row, name in enumerate(new.landmarks) if name in last.rows]
    new_rows, last_rows = np.array(common, dtype=np.intp).reshape(-1, 2).T
    source, target = new.map[new_rows], last.map[last_rows]
    known = finite_rows(source) & finite_rows(target)
    source, target = source[known], target[known]
    if not _determines_motion(source):
        return new, np.nan
    rotation, translation = motion_onto(source, target)
    aligned = replace(
        new,
        map=new.map @ rotation.T + translation,
        rotations=rotation @ new.rotations,
        translations=new.translations @ rotation.T + translation,
        warps={key: warp.moved(rotation, translation) for key, warp in new.warps.items()},
    )
    residual = source @ rotation.T + translation - target
    return aligned, float(np.sqrt(np.mean(np.sum(residual**2, axis=1))))


def _determines_motion(points: Array) -> bool:  # (k, d)
    """Whether the points fix a rigid motion: they do not lie on a line."""
    k, d = points.shape
    if k < d:
        return False
    spread = np.linalg.svd(points - points.mean(axis=0), compute_uv=False)
    return bool(spread[d - 2] > COLLINEAR * spread[0] > 0)


class MotionHistory:
    """Motions of the map over the last updates, against which the next is judged."""

    def __init__(self, motions: Iterable[float] = ()) -> None:
        self.motions = deque(motions, maxlen=REMEMBERED)

    def record(self, moved: float, size: float) -> list[str]:
        """Record a motion (root mean square); an event if it is many times the usual.

        ``size`` is the root mean square size of the map along its first axis.
        """
        usual = float(np.median(self.motions)) if len(self.motions) >= FEWEST_UPDATES else np.inf
        usual = max(usual, ROUNDING_MOTION * size)
        self.motions.append(moved)
        if moved <= UNUSUAL * usual:
            return []
        return [
            f"the map moved by {moved:.3g}, {moved / usual:.0f} times its usual motion: a loop was closed, or clouds "
            "that held the map left"
        ]

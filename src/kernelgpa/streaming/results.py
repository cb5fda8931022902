"""What a stream knows: the map, the poses, the warps of its clouds, and what may be wrong."""

from __future__ import annotations

from numbers import Integral

import numpy as np
import numpy.typing as npt

from ..errors import InvalidObservations, NotFitted
from ..estimators.base import GPA
from ..estimators.deformable import DeformableGPA
from ..gauge.poses import pose_onto
from ..observations.arrays import finite_rows
from ..observations.cloud import Cloud
from ..observations.identifiers import in_order
from ..spectrum.running_sum import Key, RunningSum
from ..trust.diagnosis import Finding
from ..typing import Array, Name
from ..warps import Warp, reduce
from ..warps.affine import affine_warp
from ..warps.inverse import inverse
from .motions import Deviations, contradicted
from .solved import StreamMap


class StreamResults:
    """The results of the last update, and of clouds that had no say in it."""

    estimator: GPA

    def __init__(self) -> None:
        self._running: RunningSum | None = None
        self._aside: dict[Key, Cloud] = {}  # over numbers: mirror images, and what came while frozen
        self._order: dict[Key, float] = {}  # times of all clouds
        self._mirrored: set[Key] = set()
        self._deviations: Deviations = {}
        self._solved: StreamMap | None = None
        self._places: dict[Name, int] = {}
        self._warps: dict[Key, Warp] = {}

    @property
    def map_(self) -> Array:  # (m, d)
        solved = self._require_solved()
        return solved.map[[self._places[name] for name in self.landmarks_]]

    @property
    def landmarks_(self) -> tuple[Name, ...]:
        return in_order([self._require_solved().landmarks])

    @property
    def keys_(self) -> tuple[Key, ...]:
        """All clouds, oldest first."""
        return tuple(sorted(self._order, key=lambda key: (self._order[key], key)))

    @property
    def times_(self) -> Array:  # (n,)
        return np.array([self._order[key] for key in self.keys_])

    @property
    def rotations_(self) -> Array:  # (n, d, d), NaN for clouds that wait
        return np.array([self.pose(key)[0] for key in self.keys_])

    @property
    def translations_(self) -> Array:  # (n, d)
        return np.array([self.pose(key)[1] for key in self.keys_])

    @property
    def scales_(self) -> Array:
        return self._require_solved().scales

    @property
    def eigenvalues_(self) -> Array:
        return self._require_solved().eigenvalues

    @property
    def warps_(self) -> list[Warp | None]:
        return [self._warp_or_none(key) for key in self.keys_]

    @property
    def waiting_(self) -> list[Key]:
        """Clouds that share too few landmarks with the others as yet."""
        return [] if self._running is None else self._running.waiting

    @property
    def mirrored_(self) -> list[Key]:
        return sorted(self._mirrored)

    def pose(self, key: Key) -> tuple[Array, Array]:
        """R and t with R p + t near the map; NaN for a cloud that waits."""
        solved, running = self._require_solved(), self._living()
        self._require_key(key)
        if key in solved.keys:
            at = solved.keys.index(key)
            return solved.rotations[at], solved.translations[at]
        cloud = self._aside[key] if key in self._aside else running.members[key].cloud
        found = self._shared_with_map(cloud)
        if found is None:
            return np.full((running.dimension,) * 2, np.nan), np.full(running.dimension, np.nan)
        return pose_onto(*found)

    def transform(self, points: npt.ArrayLike, cloud: Key) -> Array:  # (k, d) -> (k, d)
        """Points of one cloud taken into the map."""
        return self.warp(cloud)(points)

    def inverse_transform(self, points: npt.ArrayLike, cloud: Key) -> Array:  # (k, d) -> (k, d)
        """Points of the map taken back into one cloud; NaN where there is no one answer."""
        warp = self.warp(cloud)
        return inverse(warp, warp.checked(points))

    def warp(self, key: Key) -> Warp:
        """The warp of a cloud, fitted when it is asked for."""
        found = self._warp_or_none(key)
        if found is None:
            raise InvalidObservations(f"cloud {key} shares too few landmarks with the map; add more, or update()")
        return found

    def _warp_or_none(self, key: Key) -> Warp | None:
        solved, running = self._require_solved(), self._living()
        self._require_key(key)
        if key not in self._warps:
            if key in solved.reduced:
                self._warps[key] = solved.fitted(key)
            else:
                cloud = self._aside[key] if key in self._aside else running.members[key].cloud
                found = self._shared_with_map(cloud)
                if found is None:
                    return None
                self._warps[key] = self._laid_onto(running, *found)
        return self._warps[key]

    def _laid_onto(self, running: RunningSum, cloud: Cloud, places: Array) -> Warp:
        """The warp of a cloud that has no say in the map."""
        if isinstance(self.estimator, DeformableGPA):
            return reduce(running.family, cloud).fit_all([places])[0]
        return affine_warp(cloud, *pose_onto(cloud, places))

    # -- what may be wrong --

    def diagnose(self) -> list[Finding]:
        """What may be wrong, worst first."""
        findings = contradicted(self._deviations)
        if self.waiting_:
            found = (
                f"{len(self.waiting_)} clouds share too few landmarks with the others, the first is {self.waiting_[0]}"
            )
            findings.append(Finding("waiting", 0.3, found, "they take part as soon as they share enough, or drop them"))
        for key, why in (self._running.failures if self._running is not None else {}).items():
            findings.append(Finding("cloud left out", 0.5, f"cloud {key} cannot be reduced: {why}", "drop it"))
        if self._mirrored:
            found = f"{len(self._mirrored)} clouds are mirror images of the others, the first is {min(self._mirrored)}"
            findings.append(Finding("mirror image", 0.7, found, "negate one coordinate there, or drop them"))
        return sorted(findings, key=lambda one: -one.severity)

    # -- small things --

    def _shared_with_map(self, cloud: Cloud) -> tuple[Cloud, Array] | None:
        """The landmarks of a cloud that the map has, and where."""
        running = self._living()
        rows = np.array([self._places.get(running.names[number], -1) for number in cloud.seen.tolist()])
        if self._solved is None or np.sum(rows >= 0) <= cloud.points.shape[1]:
            return None
        part = cloud.only(rows >= 0, np.arange(len(running.names)))
        places = self._solved.map[rows[rows >= 0]]
        known = finite_rows(places)
        if np.sum(known) <= cloud.points.shape[1]:
            return None
        return part.only(known, np.arange(len(running.names))), places[known]

    def _living(self) -> RunningSum:
        if self._running is None:
            raise NotFitted("no cloud was added as yet; call add(points, ids)")
        return self._running

    def _require_solved(self) -> StreamMap:
        if self._solved is None:
            raise NotFitted("there is no map as yet; call update() once two clouds share landmarks")
        return self._solved

    def _require_key(self, key: Key) -> None:
        if not isinstance(key, Integral) or key not in self._order:
            raise InvalidObservations(f"there is no cloud {key!r}; keys are what add returned, less what was dropped")

"""Which clouds of a stream are in the sum, and which are kept outside: mirror images, and those added while frozen.

Mirror images are those that a batch fit to the same clouds finds.  Its decision
(:func:`~kernelgpa.estimators.problem.screening.screen`) takes longer than an update.  There is nothing to decide while
no cloud is left out and every solid one decisively fits the new map by a rotation.  Otherwise the decision begins, as
in a batch fit, with the affine registration of all clouds.  It ends there if this names no clouds, or those that are
left out already and that are mirror images of the new map.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set

import numpy as np

from ..errors import DegenerateCloud, silenced_warnings
from ..estimators.base import GPA
from ..estimators.problem.problem import weakly_connected
from ..estimators.problem.screening import screen
from ..gauge.initial import affine_spectrum
from ..gauge.mirror import find_mirror_images, is_mirror_image, may_be_mirrored
from ..observations.cloud import Cloud
from ..shape import ShapeModel
from ..typing import Name
from .results import StreamResults
from .running_sum import CloudKey, RunningSum
from .stream_map import StreamMap


class StreamMembership(StreamResults):
    """Moves clouds into the running sum and out of it."""

    def __init__(self, shape_model: ShapeModel | None = None) -> None:
        super().__init__(shape_model)
        self._disconnected: set[CloudKey] = set()  # clouds that too few shared landmarks connect with the map

    def _put_outside(self, key: CloudKey, cloud: Cloud) -> None:
        """Keep a cloud, and the indices of its landmarks, outside the sum."""
        self._outside[key] = cloud
        self._require_running().index.hold(cloud.seen)

    def _put_inside(self, keys: Set[CloudKey]) -> None:
        """Add clouds that were kept outside to the sum."""
        running = self._require_running()
        for key in keys:
            cloud = self._outside.pop(key)
            running.add(key, cloud)
            running.index.release(cloud.seen)
            self._warps.pop(key, None)

    def _is_mirrored(self, cloud: Cloud, names: Sequence[Name | None]) -> bool:
        """Whether a cloud is a mirror image of the map; ``names`` are those of its landmark indices."""
        overlap = None if self._map is None else self._map.overlap(cloud, names)
        return overlap is not None and is_mirror_image(*overlap)

    def _leave_out(self, mirrored: Iterable[CloudKey], left_out: Iterable[CloudKey]) -> None:
        """Take mirror images out of the sum."""
        running = self._require_running()
        self._mirrored |= set(mirrored)
        for key in left_out:
            cloud = running.records[key].cloud
            running.drop(key)
            self._put_outside(key, cloud)
        running.update_participation(self._disconnected)

    def _handedness_changed(self, running: RunningSum, solved: StreamMap) -> bool:
        """Decide again which clouds are mirror images, as a batch fit to all clouds does, if any may have changed."""
        before = self._mirrored & self._outside.keys()
        shared = solved.map[: len(running.landmarks)]
        if not before and not may_be_mirrored(running.stacked(), running.spreads(), shared).any():
            return False
        overlaps = [solved.overlap(self._outside[key], running.names) for key in before]
        confirmed = all(overlap is not None and is_mirror_image(*overlap) for overlap in overlaps)
        self._put_inside(before)
        running.update_participation(self._disconnected)
        mirrored, left_out = _mirror_images(self.estimator, running, before, confirmed)
        self._mirrored -= running.records.keys()
        self._leave_out(mirrored, left_out)
        if 2 * len(left_out & set(solved.keys)) > len(solved.keys):
            self._map = None  # it was that of the mirror images
        return left_out != before


def _mirror_images(
    estimator: GPA, running: RunningSum, before: set[CloudKey], confirmed: bool
) -> tuple[set[CloudKey], set[CloudKey]]:
    """Keys of the mirror images among the clouds in the sum, and of those to leave out; as before if undecidable.

    ``confirmed``: whether those before are mirror images of the map of the others.
    """
    keys = sorted(running.participating)
    stacked = running.stacked().at(np.argsort(running.participating))
    spectrum = affine_spectrum(stacked, running.dimension)
    candidates = {keys[t] for t in find_mirror_images(spectrum, stacked)}
    if not candidates:
        return set(), set()  # a batch fit confirms some of those that it finds like this, and no others
    if confirmed and candidates == before and not weakly_connected(spectrum, stacked.counts):
        return before, before
    try:
        with silenced_warnings():  # about the same clouds, at every update
            problem = screen(running.observations(), estimator._sizes_differ, estimator.mirrored)
    except DegenerateCloud:  # without the mirror images, a cloud would share too few landmarks with the others
        return before, before
    return {keys[t] for t in problem.mirrored}, {keys[t] for t in problem.left_out}

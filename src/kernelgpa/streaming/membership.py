"""Which clouds of a stream are in the sum, and which are kept outside: mirror images, and those added while frozen.

Mirror images are those that a batch fit to the same clouds finds.  Its decision
(:func:`~kernelgpa.estimators.problem.screening.screen`) takes longer than an update.  It is made again only if a solid
cloud fits the new map better as a mirror image, if a cloud that was left out no longer does, or if at least a third
of the clouds were left out, because they may then be the majority, which decides which handedness is right.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set

from ..errors import DegenerateCloud, silenced_warnings
from ..estimators.base import GPA
from ..estimators.problem.screening import screen
from ..gauge.initial import affine_spectrum
from ..gauge.mirror import find_mirror_images, fits_reflected, is_mirror_image
from ..observations.cloud import Cloud
from ..shape import ShapeModel
from ..typing import Name
from .results import StreamResults
from .running_sum import CloudKey, RunningSum
from .stream_map import StreamMap

CONTESTED = 1 / 3  # share of mirror images from which on every update decides again; clouds without a vote are rare


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
        outside = {key: self._outside[key] for key in before}
        if not _may_have_changed(running, solved, outside):
            return False
        self._put_inside(before)
        running.update_participation(self._disconnected)
        mirrored, left_out = _mirror_images(self.estimator, running, before)
        self._mirrored -= running.records.keys()
        self._leave_out(mirrored, left_out)
        if 2 * len(left_out & set(solved.keys)) > len(solved.keys):
            self._map = None  # it was that of the mirror images
        return left_out != before


def _may_have_changed(running: RunningSum, solved: StreamMap, left_out: Mapping[CloudKey, Cloud]) -> bool:
    """Whether the decision must be made again, with the map that was solved without the clouds that are left out."""
    if len(left_out) >= CONTESTED * (len(left_out) + len(running.records)):
        return True
    if fits_reflected(running.weighted_points, solved.map[: len(running.landmarks)]).any():
        return True
    overlaps = (solved.overlap(cloud, running.names) for cloud in left_out.values())
    return not all(overlap is not None and is_mirror_image(*overlap) for overlap in overlaps)


def _mirror_images(estimator: GPA, running: RunningSum, before: set[CloudKey]) -> tuple[set[CloudKey], set[CloudKey]]:
    """Keys of the mirror images among the clouds in the sum, and of those to leave out; as before if undecidable."""
    stacked = running.stacked()
    if not len(find_mirror_images(affine_spectrum(stacked, running.dimension), stacked)):
        return set(), set()  # a batch fit confirms some of those that it finds like this, and no others
    keys = sorted(running.participating)
    try:
        with silenced_warnings():  # about the same clouds, at every update
            problem = screen(running.observations(), estimator._sizes_differ, estimator.mirrored)
    except DegenerateCloud:  # without the mirror images, a cloud would share too few landmarks with the others
        return before, before
    return {keys[t] for t in problem.mirrored}, {keys[t] for t in problem.left_out}

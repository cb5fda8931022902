"""Clouds that are added and dropped one at a time, and a map that is kept current.

add, drop      change the running sum of the costs, only at the landmarks that the cloud observes
update         solve the sum: the map of a batch fit to the same clouds
               align it rigidly with the last map, so that its frame does not jump
               refine the poses by measured motions
               report events: a loop that was closed, motions that contradict the clouds
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone

from .._numerics.threads import one_blas_thread
from ..errors import InvalidObservations, InvalidSetting, KernelGPAError, NotFitted, WeaklyConnected
from ..estimators.base import GPA
from ..estimators.models import KernelGPA
from ..estimators.problem.screening import screen
from ..observations.cloud import Cloud, cloud_of
from ..observations.identifiers import landmark_ids
from ..shape import ShapeModel
from ..typing import Array, Name
from ..warps import common_smoothing
from .membership import StreamMembership
from .memory import MemoryLimits, require_memory
from .odometry import (
    CONTRADICTION,
    Measured,
    contradictions,
    measured_motions,
    pose_covariance,
    refine_poses,
    usable_motions,
)
from .results import Update, fitted_or_none
from .running_sum import CloudKey, RunningSum, WeightRange, weight_range
from .solving import (
    disconnected_from,
    family_of,
    initial_rotations,
    refit,
    reset_if_interrupted,
    solve_sum,
    with_settings_chosen,
)
from .stream_map import MotionHistory, StreamMap, align

FIRST_CHOICE = 2  # clouds from which automatic settings are chosen
CHOICE_FACTOR = 4  # times as many clouds, after which they are chosen again


class StreamingGPA(StreamMembership):
    """Registration of clouds that are added and dropped one at a time.

    Parameters
    ----------
    estimator : GPA, optional
        The method, such as ``TPSGPA()``.  The default is :class:`KernelGPA` with the settings given by name.
    window : int, optional
        How many clouds are kept.  When one more is added, the oldest is dropped.  The default keeps all clouds.
    automatic : bool, default=False
        Whether every ``add`` and ``drop`` calls ``update``, once the map can be solved.
    shape_model : ShapeModel, optional
        A fitted model of earlier clouds, which is not changed; ``impute`` predicts unseen landmarks by it.
    **settings
        Settings of :class:`KernelGPA`, if no estimator is given.  Automatic ones are chosen from the first clouds, and
        again whenever four times as many were added; ``estimator`` holds the values in use.  An automatic robust loss
        is none in a stream.

    Attributes
    ----------
    map_ : ndarray of shape (m, d)
        Landmark positions.
    landmarks_ : tuple of length m
        Ids of the landmarks in the order of ``map_``, sorted if they can be sorted.
    keys_ : tuple of length n
        Keys of all clouds, oldest first.
    times_ : ndarray of shape (n,)
        Times of all clouds.
    rotations_, translations_ : ndarrays of shapes (n, d, d) and (n, d)
        Poses of all clouds, mirror images included: ``R p + t`` lies near the map.  NaN for a cloud that shares too few
        landmarks with the map.
    warps_ : list of length n
        Warps from each cloud into the map.  None for a cloud that shares too few landmarks with the map.
    scales_ : ndarray of shape (d,)
        Global scales of the map.
    eigenvalues_ : ndarray of shape (d + 1,)
        Bottom eigenvalues of the summed cost.
    gamma_ : float
        Weight of the warps' cost in the default map.  It is kept while its rule (docs/theory.md, equation 16a) accepts
        it.  NaN if ``modes`` is not "auto", or if the estimator is fitted again at each update.
    waiting_, mirrored_ : lists of keys
        Clouds that share too few landmarks with the others so far, and clouds that are mirror images of the others.
        The first do not participate in the map; the latter do only with ``mirrored="keep"``.
    frozen : bool
        Whether the map is kept as it is.
    incremental : bool
        Whether an update solves the running sum; otherwise the estimator is fitted again.
    memory_limits : MemoryLimits
        When a cloud is refused because memory would run out.

    Notes
    -----
    The cost of the map is a sum over clouds, ``Q = sum_t Q_t`` (docs/theory.md, section 16), which a cloud changes only
    at the landmarks that it observes.  An update solves this sum and gives the map of a batch fit to the same clouds
    with the same ``gamma_``, moved rigidly onto the last map at the landmarks that both have.  Mirror images are those
    that a batch fit finds.  Measured motions refine the poses (equation 19) and leave the map unchanged.  Estimators
    whose map does not follow from the sum (``robust``, ``RigidGPA``, pairwise scales) are fitted again at each update.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelgpa import StreamingGPA, simulate
    >>> scene = simulate.liver(clouds=6, landmarks=40)
    >>> stream = StreamingGPA(window=4, bandwidth=0.25, smoothing=0.1)
    >>> for points in scene.points:
    ...     seen = np.flatnonzero(np.isfinite(points[:, 0]))
    ...     key = stream.add(points[seen], ids=seen.tolist())
    >>> update = stream.update()
    >>> update.clouds, update.landmarks, stream.keys_
    (4, 40, (2, 3, 4, 5))
    >>> rotation, translation = stream.pose(key)
    >>> stream.transform(points[seen], cloud=key).shape == (len(seen), 3)
    True
    """

    memory_limits = MemoryLimits()

    def __init__(
        self,
        estimator: GPA | None = None,
        *,
        window: int | None = None,
        automatic: bool = False,
        shape_model: ShapeModel | None = None,
        **settings: Any,
    ) -> None:
        if estimator is not None and settings:
            raise InvalidSetting(
                f"an estimator and {', '.join(settings)} are given; give the settings to the estimator"
            )
        if estimator is not None and not isinstance(estimator, GPA):
            raise InvalidSetting(f"estimator is {estimator!r}; expected KernelGPA(...), TPSGPA(...) or the like")
        if window is not None and (not isinstance(window, Integral) or window < 2):
            raise InvalidSetting(f"window is {window!r}; expected None for all clouds, or 2 or more")
        super().__init__(fitted_or_none(shape_model))
        self._given = KernelGPA(**settings) if estimator is None else clone(estimator)
        self._given._check_settings()
        self.estimator = self._given._with_provisional_settings()
        self._choice_due = FIRST_CHOICE  # clouds added until automatic settings are chosen
        common_smoothing(family_of(self.estimator).smoothing)  # or an error: the number of clouds is not known
        self.window, self.automatic = None if window is None else int(window), bool(automatic)
        self._weight_ranges: dict[Name, WeightRange] = {}
        self._motions: dict[CloudKey, list[Measured]] = {}
        self._history = MotionHistory()
        self._next_key, self._changed, self.frozen = 0, False, False

    @property
    def incremental(self) -> bool:
        return self.estimator._solves_from_sum

    # -- clouds come and go --

    def add(
        self,
        points: npt.ArrayLike,  # (s, d)
        ids: Iterable[Name],
        time: float | None = None,
        weights: npt.ArrayLike | None = None,  # (s,)
        measured: Measured | Sequence[Measured] = (),
    ) -> CloudKey:
        """Add a cloud and return its key; an id that was never seen is a new landmark.

        Parameters
        ----------
        points : array (s, d)
            The landmarks that the cloud sees.
        ids : s hashables
            Ids of these landmarks, in the same order.
        time : float, optional
            Orders the clouds in the window; by default one more than the latest time.
        weights : array (s,), optional
            One weight per landmark, as for :meth:`KernelGPA.fit`.
        measured : Measured or sequence of Measured, optional
            Measured motions from earlier clouds, or poses from a tracker.
        """
        key = self._next_key
        names = landmark_ids(ids, key)
        cloud = cloud_of(points, names, key, weights)
        running = self._running or RunningSum(family_of(self.estimator), cloud.points.shape[1])
        when, motions = self.time_of(time), measured_motions(measured, running.dimension, self._times)
        leaving, seen_names = self._leaving(), [names[i] for i in cloud.seen]
        if not self.frozen:
            require_memory(running, self.memory_limits, seen_names, leaving)
        self._check_cloud(cloud, running.dimension)
        refused = self.estimator.mirrored == "error"
        is_mirrored = (self.frozen or refused) and self._is_mirrored(cloud, names)  # otherwise update() decides
        if is_mirrored and refused:
            del self._weight_ranges[key]
            raise InvalidObservations(f"cloud {key} is a mirror image of the map; negate one coordinate, or omit it")
        self._running, self._next_key = running, key + 1
        for old in leaving:
            self._remove(old)
        indices = running.assign(seen_names)
        order = np.argsort(indices)
        cloud = replace(cloud, seen=indices[order], points=cloud.points[order], weights=cloud.weights[order])
        self._times[key] = when
        if motions:
            self._motions[key] = motions
        if self.frozen:
            self._put_outside(key, cloud)
            self._mirrored |= {key} if is_mirrored else set()
        else:
            running.add(key, cloud)
            self._changed = True
        if self.automatic:
            self._try_update()
        return key

    def drop(self, key: CloudKey) -> None:
        """Remove a cloud."""
        self._require_key(key)
        self._remove(key)
        if self.automatic:
            self._try_update()

    def _check_cloud(self, cloud: Cloud, dimension: int) -> None:
        self._weight_ranges[cloud.name] = weight_range(cloud, dimension, self._weight_ranges.values())

    def _leaving(self) -> list[CloudKey]:
        """The oldest clouds, which leave the window when one more is added."""
        return [] if self.window is None else list(self.keys_[: max(0, len(self._times) - self.window + 1)])

    def _remove(self, key: CloudKey) -> None:
        running = self._require_running()
        if key in self._outside:
            running.index.release(self._outside.pop(key).seen)
        else:
            running.drop(key)
            self._changed = True
        self._mirrored.discard(key)
        self._motions.pop(key, None)
        self._warps.pop(key, None)
        del self._times[key], self._weight_ranges[key]

    # -- the map --

    def update(self) -> Update:
        """Solve the map of the clouds in the stream; the last results stay if that is impossible."""
        running = self._require_running()
        if self._map is not None and (self.frozen or not self._changed):
            return Update(len(running.participating), len(self._map.landmarks), 0.0)
        require_memory(running, self.memory_limits)
        with one_blas_thread(), reset_if_interrupted(running):
            solved = self._solve(running)
            if self.incremental and self._handedness_changed(running, solved):
                solved = self._solve(running)
        moved, events = self._replace_map(solved)
        events += self._refine_poses()
        self._changed = False
        return Update(len(solved.keys), len(solved.landmarks), moved, tuple(events))

    def _try_update(self) -> None:
        try:
            self.update()
        except KernelGPAError:  # too few clouds, or not connected so far; an explicit update() raises it
            return

    def _solve(self, running: RunningSum) -> StreamMap:
        """The map of the participating clouds, in its own frame; clouds not connected with the last map wait."""
        self._disconnected = set()
        while True:
            running.update_participation(self._disconnected)
            if len(running.participating) < 2:
                raise InvalidObservations(
                    f"{len(running.participating)} clouds share landmarks so far and {len(running.waiting)} wait; at "
                    "least 2 are needed"
                )
            try:
                self._choose_settings(running)
                rotations = self._initial_rotations(running)
                if len(running.participating) < 2:
                    raise InvalidObservations("only one cloud is not a mirror image of the others; add more clouds")
                if self.incremental:
                    return solve_sum(self.estimator, running, rotations, self._map)
                return refit(self.estimator, running)
            except WeaklyConnected:
                if self._map is None:
                    raise
                self._disconnected |= disconnected_from(self._map, running)

    def _choose_settings(self, running: RunningSum) -> None:
        """Choose automatic settings from the clouds so far, at first and whenever four times as many were added."""
        if self._given is self.estimator or self._next_key < self._choice_due:
            return
        chosen = with_settings_chosen(self._given, running, self.estimator)
        self._choice_due = CHOICE_FACTOR * self._next_key
        if chosen.get_params() != self.estimator.get_params():
            self.estimator = chosen
            running.family = family_of(chosen)
            running.reset()
            running.update_participation(self._disconnected)

    def _initial_rotations(self, running: RunningSum) -> Array:  # (n, d, d)
        """Rotations from the last map, or from an affine estimate that also finds mirror images."""
        rotations = None if self._map is None else initial_rotations(running, self._map)
        if rotations is not None:
            return rotations
        keys = sorted(running.participating)
        problem = screen(running.observations(), self.estimator._sizes_differ, self.estimator.mirrored)
        self._leave_out([keys[t] for t in problem.mirrored], [keys[t] for t in problem.left_out])
        estimated = dict(zip((keys[t] for t in problem.participating), problem.initial.gauge.rotations, strict=True))
        return np.array([estimated[key] for key in running.participating])

    def _replace_map(self, solved: StreamMap) -> tuple[float, list[str]]:
        """Align a new map with the last one and replace it; the motion of the map, and events."""
        moved, events = np.nan, list[str]()
        if self._map is not None:
            solved, moved = align(solved, self._map)
            if np.isnan(moved):
                events.append("a new map begins, in its own frame: it shares too few landmarks with the last map")
            else:
                events += self._history.record(moved, float(solved.scales[0]) / np.sqrt(len(solved.map)))
        self._map, self._warps = solved, dict(solved.warps)
        return float(moved), events

    def _refine_poses(self) -> list[str]:
        """Refine the poses by measured motions; an event if motions contradict the clouds that did not before."""
        stream_map, running = self._require_map(), self._require_running()
        pairs = usable_motions(self._motions, stream_map.keys)
        before, self._motion_residuals = self._motion_residuals, {}
        if not pairs:
            return []
        covariances = np.array([pose_covariance(*self._participating(running, key)) for key in stream_map.keys])
        self._map, self._motion_residuals = refine_poses(stream_map, pairs, covariances)
        new = {one: value for one, value in self._motion_residuals.items() if before.get(one, 0.0) <= CONTRADICTION}
        return [finding.found for finding in contradictions(new)]

    def _participating(self, running: RunningSum, key: CloudKey) -> tuple[Cloud, Array]:
        """The observations of a cloud that participate, and the positions of their landmarks in the map."""
        stream_map, part = self._require_map(), running.records[key].participating
        if part is None:
            raise NotFitted(f"cloud {key} does not participate in the map; call update()")
        return part, stream_map.map[[stream_map.rows[name] for name in running.index.names_of(part.seen)]]

    # -- a map that stays as it is --

    def freeze(self) -> None:
        """Keep the map as it is; clouds added from now on are warped onto it and do not change it.

        Their warps have no robust weights.  Motions measured of them count once the map is solved again.
        """
        self._require_map()
        self.frozen = True

    def unfreeze(self) -> Update:
        """Let all clouds participate again, also those added while the map was frozen, and update."""
        self.frozen = False
        names = self._require_running().names
        self._mirrored |= {key for key, cloud in self._outside.items() if self._is_mirrored(cloud, names)}
        kept = self.estimator.mirrored == "keep"
        self._put_inside({key for key in self._outside if kept or key not in self._mirrored})
        self._changed = True
        return self.update()

    # -- checkpoints --

    def checkpoint(self, path: str | os.PathLike[str], about: dict[str, Any] | None = None) -> None:
        """Save the whole stream in one file, atomically; ``about`` is any JSON to keep beside it."""
        from .checkpoint import write

        write(self, path, about or {})

    @classmethod
    def resume(cls, path: str | os.PathLike[str]) -> StreamingGPA:
        """The stream as it was at its checkpoint."""
        from .checkpoint import read

        return read(cls, path)[0]

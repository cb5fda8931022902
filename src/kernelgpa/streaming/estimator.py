"""Clouds that come and go one at a time, and a map that is kept current.

    add, drop      change the sum of the clouds' forms, which touches only what a cloud saw
    update         solve the sum: the map of a batch fit to the same clouds, in a frame that does not jump

The frame follows the last map: the new one is moved rigidly onto it at the landmarks that both have.  What that cannot
undo is change of the map itself, and where it is many times the usual an event says so: a loop was closed.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone

from .._numerics.threads import one_blas_thread
from ..errors import (
    InvalidObservations,
    InvalidSetting,
    KernelGPAError,
    NotFitted,
    NumericalFailure,
    TooLarge,
    WeaklyConnected,
)
from ..estimators.base import GPA
from ..estimators.deformable import DeformableGPA
from ..estimators.models import KernelGPA
from ..estimators.registration import padded
from ..estimators.screening import screen
from ..gauge.initial import WarmStart
from ..gauge.mirror import is_mirror_image
from ..gauge.poses import pose_onto
from ..observations.arrays import finite_rows
from ..observations.checks import MOST_RATIO, MOST_WEIGHT
from ..observations.cloud import Cloud, cloud_of
from ..observations.collection import Observations
from ..observations.connectivity import connected_groups, require_connected
from ..observations.identifiers import listed, refuse_repeats
from ..spectrum.running_sum import Key, RunningSum
from ..typing import Array, Name
from ..warps import AffineFamily
from .known import StreamResults
from .memory import require_memory
from .motions import SURPRISING, Measured, checked, contradicted, measured_of, with_motions
from .solved import StreamMap, determines_motion, moved_onto, reduced_of, refitted, with_lonely
from .trust import pose_trust

STILL = 1e-9  # of the map's size: motions below this are rounding
UNUSUAL = 5.0  # times the usual motion of the map that is an event
REMEMBERED = 50  # updates, from which the usual is known
FEWEST = 5  # of them before anything is unusual
NO_TIE = 1e-9  # of the largest eigenvalue: one below may mean that some clouds are not tied


@dataclass(frozen=True)
class Update:
    """What an update did."""

    clouds: int  # that take part
    landmarks: int  # of the map
    moved: float  # root mean square motion of the landmarks that were there before, after the frame is kept; NaN: none
    events: tuple[str, ...] = ()


class StreamingGPA(StreamResults):
    """A registration of clouds that come and go.

    >>> from kernelgpa import StreamingGPA
    >>> stream = StreamingGPA(window=300, bandwidth=0.25, smoothing=0.1)
    >>> key = stream.add(points, ids)  # doctest: +SKIP
    >>> stream.update()  # doctest: +SKIP
    >>> stream.map_, stream.landmarks_, stream.pose(key)  # doctest: +SKIP

    estimator : the method, such as ``TPSGPA()``; without it KernelGPA with the settings that are given by name.
    window : the clouds that are kept; the oldest goes when one more comes.  None: all.
    automatic : whether every ``add`` and ``drop`` updates the map, as soon as it can be solved.
    """

    def __init__(
        self, estimator: GPA | None = None, *, window: int | None = None, automatic: bool = False, **settings: Any
    ) -> None:
        if estimator is not None and settings:
            raise InvalidSetting(f"settings {', '.join(settings)} are given beside an estimator; give them to it")
        if estimator is not None and not isinstance(estimator, GPA):
            raise InvalidSetting(f"estimator is {estimator!r}; expected KernelGPA(...), TPSGPA(...) or the like")
        if window is not None and (not isinstance(window, Integral) or window < 2):
            raise InvalidSetting(f"window is {window!r}; expected None for all clouds, or 2 or more")
        super().__init__()
        self.estimator = KernelGPA(**settings) if estimator is None else clone(estimator)
        self.estimator.check_settings()
        self.window, self.automatic = None if window is None else int(window), bool(automatic)
        self._weights: dict[Name, tuple[float, float]] = {}  # of all clouds, least and most
        self._measured: dict[Key, list[Measured]] = {}
        self._loose: set[Key] = set()  # clouds that nothing ties to the map as yet
        self._space = np.zeros((0, 0))  # (numbers, ...) near the bottom of the spectrum
        self._usual: deque[float] = deque(maxlen=REMEMBERED)
        self._next, self._changed, self.frozen = 0, False, False

    # -- clouds come and go --

    def add(
        self,
        points: npt.ArrayLike,  # (s, d)
        ids: Iterable[Name],
        time: float | None = None,
        weights: npt.ArrayLike | None = None,  # (s,)
        measured: Measured | Sequence[Measured] = (),
    ) -> Key:
        """A cloud; an id that was never seen is a new landmark.  The key drops it again."""
        key = self._next
        if isinstance(ids, Set):
            raise InvalidObservations(f"cloud {key}: its ids are a set, which has no order; give a list")
        names = listed(ids)
        refuse_repeats(names, f"cloud {key}: landmark id")
        cloud = cloud_of(points, names, key, weights)
        running = self._running or RunningSum(self._family(), cloud.points.shape[1])
        when = self.time_of(time)
        given = [measured] if isinstance(measured, Measured) else measured
        if not isinstance(given, Sequence) or not all(isinstance(one, Measured) for one in given):
            raise InvalidObservations(f"measured is {measured!r}; expected Measured(...), or a list of them")
        motions = [checked(one, running.dimension, self._order) for one in given]
        leaving = self._leaving()
        if not self.frozen:
            require_memory(running, [names[i] for i in cloud.seen], leaving)
        self._require_sound(cloud, running.dimension)
        self._running, self._next = running, key + 1
        for old in leaving:
            self._remove(old)
        numbers = running.numbers_of([names[i] for i in cloud.seen])
        order = np.argsort(numbers)
        cloud = replace(cloud, seen=numbers[order], points=cloud.points[order], weights=cloud.weights[order])
        self._order[key] = when
        if motions:
            self._measured[key] = motions
        if self.frozen or self._is_mirrored(cloud):
            self._aside[key] = cloud
            running.keep_names(cloud)
        else:
            running.add(key, cloud)
            self._changed = True
        if self.automatic:
            self._try_update()
        return key

    def _leaving(self) -> list[Key]:
        """The oldest clouds, which one more pushes out of the window."""
        oldest = sorted(self._order, key=lambda old: (self._order[old], old))
        return [] if self.window is None else oldest[: max(0, len(oldest) - self.window + 1)]

    def drop(self, key: Key) -> None:
        """Without a cloud that was added."""
        self._require_key(key)
        self._remove(key)
        if self.automatic:
            self._try_update()

    def _remove(self, key: Key) -> None:
        running = self._living()
        if key in self._aside:
            running.release_names(self._aside.pop(key))
        else:
            running.drop(key)
            self._changed = True
        self._mirrored.discard(key)
        self._measured.pop(key, None)
        self._warps.pop(key, None)
        del self._order[key], self._weights[key]

    def time_of(self, time: float | None) -> float:
        """The time of a cloud that comes now; an error where it is older than all of a full window."""
        if time is None:
            return max(self._order.values(), default=-1.0) + 1.0
        if not isinstance(time, Real) or isinstance(time, bool) or not abs(time) < np.inf:
            raise InvalidObservations(f"time is {time!r}; expected a number")
        if self.window is not None and len(self._order) >= self.window and time < min(self._order.values()):
            begins = min(self._order.values())
            raise InvalidObservations(
                f"time {time:g} is before all of a full window, which begins at {begins:g}; expected it sooner, or a "
                "wider window"
            )
        return float(time)

    def _require_sound(self, cloud: Cloud, dimension: int) -> None:
        d = cloud.points.shape[1]
        if d not in (2, 3) or d != dimension:
            raise InvalidObservations(f"cloud {cloud.name}: its points are in {d}D; expected {dimension}D")
        Observations((cloud,), tuple(range(len(cloud.seen))), d)._checked()
        lightest = min(float(cloud.weights.min()), *(low for low, _ in self._weights.values()), np.inf)
        heaviest = max(float(cloud.weights.max()), *(high for _, high in self._weights.values()), 0.0)
        if heaviest > MOST_RATIO * lightest or heaviest > MOST_WEIGHT:
            raise InvalidObservations(
                f"cloud {cloud.name}: with it weights range from {lightest:.3g} to {heaviest:.3g}; double precision "
                f"carries a ratio of {MOST_RATIO:g}; give 0 to what should not count"
            )
        self._weights[cloud.name] = float(cloud.weights.min()), float(cloud.weights.max())

    # -- the map --

    def update(self) -> Update:
        """Solve for the clouds that are here; the old results stay where that cannot be done."""
        running = self._living()
        if self.frozen or (not self._changed and self._solved is not None):
            return Update(len(running.keys), len(self._places), 0.0)
        require_memory(running)
        try:
            with one_blas_thread():
                solved = self._solve(running)
        except MemoryError as problem:
            running.forget_sum()  # half done; the next update makes it again
            raise TooLarge(
                f"the memory was used up by an update of {len(running.members)} clouds and {len(running.names)} "
                "landmarks; "
                "use fewer landmarks per frame or a smaller window"
            ) from problem
        except KernelGPAError:
            raise
        except BaseException:  # interrupted, perhaps with a cloud half in the sum
            running.forget_sum()
            raise
        moved, events = self._keep(solved)
        events += self._refine_poses()
        self._changed = False
        return Update(len(solved.keys), len(solved.landmarks), moved, events)

    def _try_update(self) -> Update | None:
        try:
            return self.update()
        except KernelGPAError:  # not yet enough, or clouds that nothing ties as yet: update() says it
            return None

    def _solve(self, running: RunningSum) -> StreamMap:
        """The map of all clouds that are tied; of several groups that of the map that is there, the others wait."""
        self._loose = set()
        if len(self._mirrored) > len(running.members):  # the others may be the mirror images
            self._take_back(self._mirrored)
            self._mirrored, self._solved = set(), None
        while True:
            running.settle(self._loose)
            if len(running.keys) < 2:
                raise InvalidObservations(
                    f"{len(running.keys)} clouds share landmarks as yet, {len(running.waiting)} wait; at least 2 are "
                    "needed"
                )
            try:
                start = self._start(running)
                if len(running.keys) < 2:
                    raise InvalidObservations("only one cloud is left once mirror images are taken out")
                return self._solve_sum(running, start) if self.incremental else refitted(self.estimator, running)
            except WeaklyConnected:
                if self._solved is None:
                    raise
                self._loose |= self._not_of_the_map(running)

    def _not_of_the_map(self, running: RunningSum) -> set[Key]:
        """All clouds but those of the group that shares most landmarks with the map."""
        keys = sorted(running.keys)
        groups = [{keys[t] for t in group.members} for group in connected_groups(running.batch())]

        def shared(group: set[Key]) -> int:
            names = {running.names[number] for key in group for number in running.members[key].cloud.seen.tolist()}
            return sum(name in self._places for name in names)

        return set(keys) - groups[int(np.argmax([shared(group) for group in groups]))]

    def _solve_sum(self, running: RunningSum, start: Array) -> StreamMap:
        core, cost = running.arrays(), running.cost()
        try:
            warm = None if self._solved is None else WarmStart(start, self._near(running))
            solution = self._bending().solve(core, cost, start, warm=warm)
        except (NumericalFailure, np.linalg.LinAlgError) as problem:
            require_connected(running.batch())
            raise NumericalFailure(str(problem)) from problem
        spectrum = solution.spectrum
        if spectrum is None:
            raise NumericalFailure("the solve gave no spectrum")
        if spectrum.values[0] < NO_TIE * spectrum.top:  # clouds that come apart cost nothing
            require_connected(running.batch())
        gauge = solution.gauge
        if spectrum.subspace is not None:
            self._space = np.zeros((len(running.names), spectrum.subspace.shape[1]))
            self._space[running.numbers] = spectrum.subspace
        solved = StreamMap(
            list(running.landmarks),
            gauge.map,
            running.keys,
            gauge.rotations,
            gauge.translations,
            gauge.scales,
            padded(spectrum.values, running.dimension + 1),
            reduced=reduced_of(running),
            rows=running.places.copy(),
        )
        return with_lonely(solved, running)

    def _near(self, running: RunningSum) -> Array:  # (m, ...)
        """Vectors near the bottom of the spectrum: the last ones; landmarks that are new have any value."""
        numbers = np.array(running.numbers)
        known = numbers < len(self._space)
        near = np.zeros((len(numbers), self._space.shape[1]))
        near[known] = self._space[numbers[known]]
        return near

    def _start(self, running: RunningSum) -> Array:  # (n, d, d)
        """Rotations to begin from: the last ones; new clouds are laid onto the map."""
        if self._solved is not None:
            known = dict(zip(self._solved.keys, self._solved.rotations, strict=True))
            rotations = [known[key] if key in known else self._laid(running, key) for key in running.keys]
            if all(one is not None for one in rotations):
                return np.array(rotations)
        problem, keys = screen(running.batch()), sorted(running.keys)
        self._mirrored |= {keys[t] for t in problem.mirrored}
        keys = [keys[t] for t in problem.part]
        for key in list(self._mirrored & set(running.keys)):
            cloud = running.members[key].cloud
            self._aside[key] = cloud
            running.keep_names(cloud)
            running.drop(key)
        running.settle()
        found = dict(zip(keys, problem.initial.gauge.rotations, strict=True))
        return np.array([found[key] for key in running.keys])

    def _laid(self, running: RunningSum, key: Key) -> Array | None:
        found = self._shared_with_map(running.members[key].cloud)
        if found is None:
            return None
        return pose_onto(*found)[0]

    def _is_mirrored(self, cloud: Cloud) -> bool:
        found = self._shared_with_map(cloud)
        if found is None or not is_mirror_image(*found):
            return False
        self._mirrored.add(cloud.name)  # type: ignore[arg-type]
        return True

    def _keep(self, solved: StreamMap) -> tuple[float, tuple[str, ...]]:
        """The new map, moved rigidly onto the old one at the landmarks that both have."""
        moved, events = np.nan, list[str]()
        if self._solved is not None:
            common = [(i, self._places[name]) for i, name in enumerate(solved.landmarks) if name in self._places]
            here, there = np.array(common, dtype=np.intp).reshape(-1, 2).T
            new, old = solved.map[here], self._solved.map[there]
            sound = finite_rows(new) & finite_rows(old)
            if determines_motion(new[sound]):
                solved, moved = moved_onto(solved, new[sound], old[sound])
            else:
                events.append("a new map begins, in a frame of its own: it shares too few landmarks with the last one")
        self._solved = solved
        self._places = {name: i for i, name in enumerate(solved.landmarks)}
        self._warps = dict(solved.warps)
        if not np.isnan(moved):
            usual = float(np.median(self._usual)) if len(self._usual) >= FEWEST else np.inf
            usual = max(usual, STILL * float(solved.scales[0]) / np.sqrt(len(solved.map)))
            if moved > UNUSUAL * usual:
                events.append(
                    f"the map moved by {moved:.3g}, {moved / usual:.0f} times the usual: a loop was closed, or clouds "
                    "that held it went"
                )
            self._usual.append(moved)
        return float(moved), tuple(events)

    # -- frozen --

    def freeze(self) -> None:
        """Keep the map as it is; clouds that come are warped onto it, and have no say in it.

        Their warps are those of the family, without robust weights; measured motions count once the map is solved
        again.
        """
        self._require_solved()
        self.frozen = True

    def unfreeze(self) -> Update:
        """Let all clouds take part again, those that came meanwhile too, and solve."""
        self.frozen = False
        self._take_back({key for key, cloud in self._aside.items() if not self._is_mirrored(cloud)})
        self._changed = True
        return self.update()

    def _take_back(self, keys: set[Key]) -> None:
        running = self._living()
        for key in keys:
            cloud = self._aside.pop(key)
            running.add(key, cloud)
            running.release_names(cloud)
            self._warps.pop(key, None)

    @property
    def incremental(self) -> bool:
        """Whether an update solves the sum; robust and rigid fits and pairwise scales are fitted again instead."""
        return (
            isinstance(self.estimator, DeformableGPA)
            and self.estimator.robust is None
            and self.estimator.scale_method != "pairwise"
            and getattr(self.estimator, "method", "spectral") == "spectral"
        )

    # -- motions that a sensor measured --

    def _refine_poses(self) -> tuple[str, ...]:
        """Poses that answer to the clouds and to what was measured of their motion; without that nothing changes.

        Returned is what is told of motions that contradict the clouds for the first time.
        """
        solved, running = self._require_solved(), self._living()
        pairs = measured_of(self._measured, solved)
        known, self._deviations = self._deviations, {}
        if not pairs:
            return ()
        trust = np.array([pose_trust(*self._in_map(running, key)) for key in solved.keys])
        self._solved, self._deviations = with_motions(solved, pairs, trust)
        new = {pair: off for pair, off in self._deviations.items() if known.get(pair, 0.0) <= SURPRISING}
        return tuple(finding.found for finding in contradicted(new))

    def _in_map(self, running: RunningSum, key: Key) -> tuple[Cloud, Array]:
        used = running.members[key].used
        if used is None:
            raise NotFitted(f"cloud {key} does not take part")
        rows = [self._places[running.names[number]] for number in used.seen.tolist()]
        return used, self._require_solved().map[rows]

    # -- checkpoints --

    def checkpoint(self, path: str | os.PathLike[str], about: dict[str, Any] | None = None) -> None:
        """Everything in one file, written whole or not at all; ``resume`` goes on from it."""
        from .checkpoint import write

        write(self, path, about or {})

    @classmethod
    def resume(cls, path: str | os.PathLike[str]) -> StreamingGPA:
        """The stream as it was at its checkpoint."""
        from .checkpoint import read

        return read(cls, path)[0]

    # -- small things --

    def _family(self) -> Any:
        return self._bending().family() if isinstance(self.estimator, DeformableGPA) else AffineFamily()

    def _bending(self) -> DeformableGPA:
        if not isinstance(self.estimator, DeformableGPA):
            raise InvalidSetting(f"{type(self.estimator).__name__} has no warps that bend")
        return self.estimator

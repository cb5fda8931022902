"""A run over frames: which are here by name, when the map is solved again, and what is told of it.

Everything is kept for the frames of the window only, so a run without end needs no more memory than its window.
``about`` holds what a checkpoint must know beyond the stream itself.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from ..errors import InvalidObservations, KernelGPAError, KernelGPAWarning, NotFitted
from ..io.poses import tum_row
from ..io.validation import InvalidRecord, checked_number, is_integer
from ..spectrum.running_sum import Key
from ..typing import Array
from .estimator import StreamingGPA
from .frames import Drop, Frame, FrameName
from .motions import Measured


@dataclass
class Taken:
    """A frame of the window."""

    name: FrameName
    time: float
    posed: bool = False  # whether its pose was told, or that it has none


@dataclass(frozen=True)
class Told:
    """One update: its line, and rows of poses that are known for the first time."""

    line: dict[str, Any]
    poses: str


@dataclass
class Session:
    """A stream and its frames."""

    stream: StreamingGPA
    every: int = 1  # frames from one update to the next
    tolerance: float | None = None  # how far a landmark moves before it is told again; None: the map is not told
    taken: dict[Key, Taken] = field(default_factory=dict)
    pending: int = 0  # frames since the last update
    before: Key | None = None  # the frame of the line before, if it was taken
    last: tuple[FrameName, float] | None = None  # name and time of the frame that came or went last
    placed: dict[str, list[float]] = field(default_factory=dict)  # landmarks where they were told last
    notes: list[str] = field(default_factory=list)  # for the next line

    # -- frames come and go --

    def take(self, frame: Frame, number: int) -> None:
        """A frame; one that cannot be taken is an error, after which everything is as before."""
        name = number if frame.name is None else frame.name
        before, self.before = self.before, None  # a frame that is not taken is nobody's frame before
        if self._key_of(name) is not None:
            raise InvalidObservations(f"there is a frame {name!r} already; expected another name, or a drop before")
        time = self.stream.time_of(frame.time)
        measured = self._measured(frame, name, time, before)
        key = self.stream.add(frame.points, frame.ids, time, frame.weights, measured)
        self.taken[key] = Taken(name, time)
        here = set(self.stream.keys_)
        self.taken = {one: taken for one, taken in self.taken.items() if one in here}
        self.before, self.last = key, (name, time)
        self.pending += 1

    def drop(self, drop: Drop) -> None:
        key = self._key_of(drop.name)
        if key is None:
            raise InvalidObservations(f"there is no frame {drop.name!r} to drop; it may have left the window")
        self.stream.drop(key)
        gone = self.taken.pop(key)
        if self.before == key:
            self.before = None
        self.last = (gone.name, gone.time)
        self.notes.append(f"frame {gone.name!r} was dropped")
        self.pending += 1

    @property
    def due(self) -> bool:
        return self.pending >= self.every

    def _key_of(self, name: FrameName) -> Key | None:
        return next((key for key, one in self.taken.items() if one.name == name), None)

    def _measured(self, frame: Frame, name: FrameName, time: float, before: Key | None) -> list[Measured]:
        measured = [] if frame.pose is None else [frame.pose.measured()]
        if frame.odometry is None:
            return measured
        start = frame.odometry.start
        source = before if start is None else self._key_of(start)
        if source is None or (start is None and time < self.taken[source].time):
            which = "before it" if start is None else repr(start)
            self.notes.append(f"odometry of frame {name!r} is left out: the frame {which} is not here")
            return measured
        return [*measured, frame.odometry.measured(source)]

    # -- the map --

    def update(self) -> Told:
        """Solve, and tell what is new."""
        state: dict[str, Any] = {"clouds": 0, "landmarks": 0, "moved": None}
        events, why = self.notes, None
        try:
            with warnings.catch_warnings(record=True) as warned:
                warnings.simplefilter("ignore")
                warnings.simplefilter("always", KernelGPAWarning)
                update = self.stream.update()
            state = {"clouds": update.clouds, "landmarks": update.landmarks, "moved": _number(update.moved)}
            events = [*events, *update.events, *(str(one.message) for one in warned), *self._new_mirror_images()]
        except KernelGPAError as error:
            why = " ".join(str(error).split())
        self.notes, self.pending = [], 0
        name, time = self.last or (None, None)
        key = None if name is None else self._key_of(name)
        line = {"frame": name, "time": time, "state": "ok" if why is None else "waiting", **state}
        if why is not None:
            line["why"] = why
        line |= {"pose": self._told_pose(key), "events": events, "waiting": len(self.stream.waiting_)}
        if self.tolerance is not None:
            line["map"] = self._changed_places(self.tolerance)
        return Told(line, self._new_poses())

    def places(self) -> tuple[list[str], Array]:  # (m,), (m, d)
        """The map as it is; nothing where there is none yet."""
        try:
            return list(map(str, self.stream.landmarks_)), self.stream.map_
        except NotFitted:
            return [], np.zeros((0, 3))

    def positions(self) -> Array:  # (n, d)
        """Where the sensor was, for the frames whose pose is known, oldest first."""
        found = [self._pose(key) for key in self.stream.keys_]
        return np.array([pose[1] for pose in found if pose is not None])

    def _pose(self, key: Key) -> tuple[Array, Array] | None:
        if key in self.stream.mirrored_:
            return None
        try:
            rotation, translation = self.stream.pose(key)
        except NotFitted:
            return None
        return (rotation, translation) if np.isfinite(rotation).all() and np.isfinite(translation).all() else None

    def _told_pose(self, key: Key | None) -> dict[str, Any] | None:
        found = None if key is None else self._pose(key)
        return None if found is None else {"rotation": found[0].tolist(), "translation": found[1].tolist()}

    def _new_poses(self) -> str:
        rows = ""
        for key, one in self.taken.items():
            found = None if one.posed else self._pose(key)
            if found is not None:
                rows += tum_row(one.time, *found)
                one.posed = True
        return rows

    def _new_mirror_images(self) -> list[str]:
        found = [one for key, one in self.taken.items() if key in self.stream.mirrored_ and not one.posed]
        for one in found:
            one.posed = True
        return [f"frame {one.name!r} is a mirror image of the others, and stays out of the map" for one in found]

    def _changed_places(self, tolerance: float) -> dict[str, list[float] | None]:
        names, places = self.places()
        changed: dict[str, list[float] | None] = {}
        for name, place in zip(names, places.tolist(), strict=True):
            old = self.placed.get(name)
            if not all(map(math.isfinite, place)):
                changed |= {} if old is None else {name: None}
            elif old is None or (place != old and math.dist(place, old) > tolerance):
                changed[name] = place
        changed |= dict.fromkeys(self.placed.keys() - set(names))  # they have left the map
        for name, new in changed.items():
            if new is None:
                del self.placed[name]
            else:
                self.placed[name] = new
        return changed

    # -- checkpoints --

    def about(self) -> dict[str, Any]:
        return {
            "taken": [[key, asdict(one)] for key, one in self.taken.items()],
            "pending": self.pending,
            "before": self.before,
            "last": self.last,
            "placed": self.placed,
            "notes": self.notes,
        }

    def restore(self, about: dict[str, Any]) -> None:
        """Go on from what :meth:`about` gave; a ValueError if it is anything else."""
        taken = {key: Taken(**one) for key, one in about["taken"]}
        here = set(self.stream.keys_)
        if not all(is_integer(key) and key in here and _is_taken(one) for key, one in taken.items()):
            raise InvalidRecord("a frame is not what was taken")
        if not is_integer(about["pending"], 0) or about["before"] not in (None, *taken):
            raise InvalidRecord("the frames since the last update are not known")
        last = about["last"]
        if last is not None and (len(last) != 2 or not _is_taken(Taken(*last))):
            raise InvalidRecord("the last frame is not known")
        for name, place in about["placed"].items():
            if not isinstance(name, str) or not isinstance(place, list):
                raise InvalidRecord("a landmark has no place")
            for one in place:
                checked_number(one, "a coordinate")
        if not isinstance(about["notes"], list) or not all(isinstance(one, str) for one in about["notes"]):
            raise InvalidRecord("the notes are not texts")
        self.taken, self.pending, self.before = taken, about["pending"], about["before"]
        self.last = None if last is None else (last[0], last[1])
        self.placed, self.notes = about["placed"], about["notes"]


def _is_taken(one: Taken) -> bool:
    named = is_integer(one.name) or isinstance(one.name, str)
    return named and isinstance(one.posed, bool) and math.isfinite(checked_number(one.time, "a time"))


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None

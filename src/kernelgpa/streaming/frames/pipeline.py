"""From frames to update reports: frames by name, the rhythm of updates, and what has been reported already.

Only the frames of the window are recorded, so that an endless run needs no more memory than its window.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import asdict, dataclass, field
from time import perf_counter
from typing import Any

import numpy as np

from ...errors import InvalidObservations, KernelGPAError, NotFitted, recorded_warnings
from ...io.poses import tum_row
from ...io.validation import InvalidRecord, checked_number, is_integer
from ...typing import Array
from ..estimator import StreamingGPA
from ..odometry import Measured
from ..results import Update
from ..running_sum import CloudKey
from .json_lines import Drop, FrameLine, FrameName


@dataclass
class FrameRecord:
    """A frame of the window."""

    name: FrameName
    time: float
    reported: bool = False  # whether its pose was written
    mirrored: bool = False  # whether it was reported to be a mirror image


@dataclass(frozen=True)
class UpdateReport:
    """One update, as a line of JSON reports it, and the rows of poses that are known for the first time."""

    frame: FrameName | None
    time: float | None
    clouds: int
    landmarks: int
    moved: float | None
    why: str | None  # the map could not be solved; None: it was
    pose: tuple[Array, Array] | None
    mirrored: bool  # whether the frame is a mirror image of the others
    events: list[str]
    waiting: int
    map_changes: dict[str, list[float] | None] | None  # None: not asked for
    new_poses: str

    @property
    def state(self) -> str:
        return "ok" if self.why is None else "waiting"

    def as_json(self) -> dict[str, Any]:
        pose = None if self.pose is None else {"rotation": self.pose[0].tolist(), "translation": self.pose[1].tolist()}
        return {
            "frame": self.frame,
            "time": self.time,
            "state": self.state,
            "clouds": self.clouds,
            "landmarks": self.landmarks,
            "moved": self.moved,
            **({} if self.why is None else {"why": self.why}),
            "pose": pose,
            **({"mirrored": True} if self.mirrored else {}),
            "events": self.events,
            "waiting": self.waiting,
            **({} if self.map_changes is None else {"map": self.map_changes}),
        }


@dataclass
class FramePipeline:
    """A stream, and the frames that are added to it by name."""

    stream: StreamingGPA
    update_every: int = 1  # frames
    map_tolerance: float | None = None  # motion beyond which a landmark is reported again; None: no landmarks
    frames: dict[CloudKey, FrameRecord] = field(default_factory=dict)
    pending: int = 0  # frames added or dropped since the last update
    previous: CloudKey | None = None  # the frame of the line before, if it was added
    last: tuple[FrameName, float] | None = None  # name and time of the frame that was added or dropped last
    reported: dict[str, list[float]] = field(default_factory=dict)  # positions of landmarks as last reported
    notes: list[str] = field(default_factory=list)  # events for the next report
    latencies: deque[float] = field(default_factory=lambda: deque(maxlen=100))  # seconds of the last updates

    # -- frames --

    def add(self, frame: FrameLine, line: int) -> None:
        """Add a frame, named after its line if it has no name; an error leaves everything as before."""
        name = line if frame.name is None else frame.name
        previous, self.previous = self.previous, None  # a refused frame precedes no other
        if self._key_of(name) is not None:
            raise InvalidObservations(f"there is a frame {name!r} already; use another name, or drop that frame before")
        time = self.stream.time_of(frame.time)
        motions = self._motions_of(frame, name, time, previous)
        key = self.stream.add(frame.points, frame.ids, time, frame.weights, motions)
        self.frames[key] = FrameRecord(name, time)
        present = set(self.stream.keys_)
        self.frames = {one: record for one, record in self.frames.items() if one in present}
        self.previous, self.last = key, (name, time)
        self.pending += 1

    def drop(self, drop: Drop) -> None:
        key = self._key_of(drop.name)
        if key is None:
            raise InvalidObservations(f"there is no frame {drop.name!r} to drop; it may have left the window")
        self.stream.drop(key)
        dropped = self.frames.pop(key)
        if self.previous == key:
            self.previous = None
        self.last = (dropped.name, dropped.time)
        self.notes.append(f"frame {dropped.name!r} was dropped")
        self.pending += 1

    @property
    def update_is_due(self) -> bool:
        return self.pending >= self.update_every

    def _key_of(self, name: FrameName) -> CloudKey | None:
        return next((key for key, record in self.frames.items() if record.name == name), None)

    def _motions_of(self, frame: FrameLine, name: FrameName, time: float, previous: CloudKey | None) -> list[Measured]:
        motions = [] if frame.pose is None else [frame.pose.measured()]
        if frame.odometry is None:
            return motions
        start = frame.odometry.start
        source = previous if start is None else self._key_of(start)
        if source is None or (start is None and time < self.frames[source].time):
            which = "before it" if start is None else repr(start)
            self.notes.append(f"odometry of frame {name!r} is ignored: the frame {which} is not in the window")
            return motions
        return [*motions, frame.odometry.measured(source)]

    # -- updates --

    def update(self) -> UpdateReport:
        """Update the map, and report what is new."""
        solved, why, events = Update(0, 0, math.nan), None, self.notes
        try:
            with recorded_warnings() as messages:
                started = perf_counter()
                solved = self.stream.update()
                self.latencies.append(perf_counter() - started)
            events = [*events, *solved.events, *messages, *self._new_mirror_images()]
        except KernelGPAError as error:
            why = " ".join(str(error).split())
        self.notes, self.pending = [], 0
        name, time = self.last or (None, None)
        key = None if name is None else self._key_of(name)
        return UpdateReport(
            name,
            time,
            solved.clouds,
            solved.landmarks,
            float(solved.moved) if math.isfinite(solved.moved) else None,
            why,
            None if key is None else self._pose(key),
            key in self.stream.mirrored_,
            events,
            len(self.stream.waiting_),
            None if self.map_tolerance is None else self._map_changes(self.map_tolerance),
            self._new_poses(),
        )

    def landmark_positions(self) -> tuple[list[str], Array]:  # (m,), (m, d)
        """Names and positions of the landmarks; none if there is no map yet."""
        try:
            return list(map(str, self.stream.landmarks_)), self.stream.map_
        except NotFitted:
            return [], np.zeros((0, 3))

    def current_frame(self) -> Array:  # (s, d)
        """The points of the last frame, moved into the map by its pose; none if it has no pose."""
        key = None if self.last is None else self._key_of(self.last[0])
        pose = None if key is None else self._pose(key)
        if key is None or pose is None:
            return np.zeros((0, 3))
        rotation, translation = pose
        return self.stream.points_of(key) @ rotation.T + translation

    def trajectory(self) -> Array:  # (n, d)
        """Positions of the sensor in the map, for the frames whose pose is known, oldest first."""
        poses = [self._pose(key) for key in self.stream.keys_]
        return np.array([pose[1] for pose in poses if pose is not None])

    def _pose(self, key: CloudKey) -> tuple[Array, Array] | None:
        """The pose of a frame; None if it shares too few landmarks with the map."""
        try:
            rotation, translation = self.stream.pose(key)
        except NotFitted:
            return None
        return (rotation, translation) if np.isfinite(rotation).all() and np.isfinite(translation).all() else None

    def _new_poses(self) -> str:
        rows = ""
        for key, record in self.frames.items():
            pose = None if record.reported else self._pose(key)
            if pose is not None:
                rows += tum_row(record.time, *pose)
                record.reported = True
        return rows

    def _new_mirror_images(self) -> list[str]:
        mirrored = self.stream.mirrored_
        new = [record for key, record in self.frames.items() if key in mirrored and not record.mirrored]
        for record in new:
            record.mirrored = True
        kept = "kept in" if self.stream.estimator.mirrored == "keep" else "left out of"
        return [f"frame {record.name!r} is a mirror image of the others and {kept} the map" for record in new]

    def _map_changes(self, tolerance: float) -> dict[str, list[float] | None]:
        """Landmarks that are new or moved by more than the tolerance; None for those that left the map."""
        names, positions = self.landmark_positions()
        changes: dict[str, list[float] | None] = {}
        for name, position in zip(names, positions.tolist(), strict=True):
            before = self.reported.get(name)
            if not all(map(math.isfinite, position)):
                changes |= {} if before is None else {name: None}
            elif before is None or (position != before and math.dist(position, before) > tolerance):
                changes[name] = position
        changes |= dict.fromkeys(self.reported.keys() - set(names))
        for name, after in changes.items():
            if after is None:
                del self.reported[name]
            else:
                self.reported[name] = after
        return changes

    # -- checkpoints --

    def state(self) -> dict[str, Any]:
        """Everything that a checkpoint must hold beside the stream itself, as JSON."""
        return {
            "frames": [[key, asdict(record)] for key, record in self.frames.items()],
            "pending": self.pending,
            "previous": self.previous,
            "last": self.last,
            "reported": self.reported,
            "notes": self.notes,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a :meth:`state`; a ValueError if it is not one."""
        frames = {key: FrameRecord(**record) for key, record in state["frames"]}
        present = set(self.stream.keys_)
        if not all(is_integer(key) and key in present and _is_sound(record) for key, record in frames.items()):
            raise InvalidRecord("a frame is not one of the stream")
        if not is_integer(state["pending"], 0) or state["previous"] not in (None, *frames):
            raise InvalidRecord("the frames since the last update are not known")
        last = state["last"]
        if last is not None and (len(last) != 2 or not _is_sound(FrameRecord(*last))):
            raise InvalidRecord("the last frame is not known")
        for name, position in state["reported"].items():
            if not isinstance(name, str) or not isinstance(position, list):
                raise InvalidRecord("a landmark has no position")
            for coordinate in position:
                checked_number(coordinate, "a coordinate")
        if not isinstance(state["notes"], list) or not all(isinstance(one, str) for one in state["notes"]):
            raise InvalidRecord("the notes are not strings")
        self.frames, self.pending, self.previous = frames, state["pending"], state["previous"]
        self.last = None if last is None else (last[0], last[1])
        self.reported, self.notes = state["reported"], state["notes"]


def _is_sound(record: FrameRecord) -> bool:
    named = is_integer(record.name) or isinstance(record.name, str)
    flags = isinstance(record.reported, bool) and isinstance(record.mirrored, bool)
    return named and flags and math.isfinite(checked_number(record.time, "a time"))

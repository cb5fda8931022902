"""A stream as one file, and back.

The clouds are kept as they came, with keys, times and measured motions, the map with its frame, and what is usual; the
sum of the clouds is made again from them.  Numbers are arrays, names and settings one JSON text; nothing is pickled.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Collection
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import FormatError
from ..io.archive import Arrays, read_arrays
from ..io.atomic import write_bytes
from ..io.model_file import estimator_of, settings_of
from ..io.records import (
    FileKind,
    Header,
    MapRecord,
    checked_dimension,
    clouds_from_arrays,
    clouds_to_arrays,
    on_seen_landmarks,
    require_saveable,
)
from ..io.validation import CheckedArrays, InvalidRecord, checked_names, checked_number, is_integer
from ..observations.cloud import Cloud
from ..spectrum.running_sum import RunningSum
from .estimator import REMEMBERED, StreamingGPA
from .motions import Deviations, Measured, checked
from .solved import StreamMap, reduced_of

CHECKPOINT = FileKind("stream", 2, "checkpoint of a stream", "expected a checkpoint of a stream", "start again")


def write(stream: StreamingGPA, path: str | os.PathLike[str], about: dict[str, Any]) -> None:
    """Write the stream to a path, atomically."""
    write_bytes(Path(path), to_bytes(stream, about))


def read(kind: type[StreamingGPA], path: str | os.PathLike[str]) -> tuple[StreamingGPA, dict[str, Any]]:
    """Return the stream, and the JSON that was saved with it."""
    try:
        data = Path(path).read_bytes()
    except FileNotFoundError:
        raise FormatError(Path(path), None, "there is no such file", CHECKPOINT.expected) from None
    except IsADirectoryError:
        raise FormatError(Path(path), None, "it is a folder", CHECKPOINT.expected) from None
    arrays = read_arrays(data, str(path))
    header = CHECKPOINT.header(arrays, str(path))
    with CHECKPOINT.checking(str(path)):
        if not isinstance(header["about"], dict):
            raise InvalidRecord("about is no object")
        return _restored(kind, header, CheckedArrays(arrays)), header["about"]


def to_bytes(stream: StreamingGPA, about: dict[str, Any]) -> bytes:
    running, solved = stream._running, stream._solved
    keys = list(stream._order)
    clouds = [] if running is None else [_cloud_of(stream, running, key) for key in keys]
    clouds, seen_landmarks = on_seen_landmarks(clouds, [] if running is None else running.names)
    require_saveable([*seen_landmarks, *([] if solved is None else solved.landmarks)])
    header = {
        "class": type(stream.estimator).__name__,
        "settings": settings_of(stream.estimator),
        "window": stream.window,
        "automatic": stream.automatic,
        "frozen": stream.frozen,
        "next": stream._next,
        "keys": keys,
        "seen_landmarks": seen_landmarks,
        "aside": list(stream._aside),
        "mirrored": sorted(stream._mirrored),
        "loose": sorted(stream._loose),
        "dimension": None if running is None else running.dimension,
        "measured": {str(key): [_plain(one) for one in several] for key, several in stream._measured.items()},
        "map_landmarks": None if solved is None else solved.landmarks,
        "map_keys": None if solved is None else list(solved.keys),
        "changed": stream._changed,
        "deviations": [[*pair, off] for pair, off in stream._deviations.items()],
        "about": about,
    }
    arrays: Arrays = {
        "times": np.array([stream._order[key] for key in keys], dtype=np.float64),
        "usual": np.array(stream._usual, dtype=np.float64),
        **clouds_to_arrays(clouds, 3 if running is None else running.dimension),
    }
    if solved is not None:
        arrays |= MapRecord(solved.map, solved.rotations, solved.translations).to_arrays()
        arrays |= {"scales": solved.scales, "eigenvalues": solved.eigenvalues}
    return CHECKPOINT.pack(header, arrays)


def _cloud_of(stream: StreamingGPA, running: RunningSum, key: int) -> Cloud:
    return stream._aside[key] if key in stream._aside else running.members[key].cloud


def _plain(one: Measured) -> dict[str, Any]:
    return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in asdict(one).items()}


def _restored(kind: type[StreamingGPA], header: Header, arrays: CheckedArrays) -> StreamingGPA:
    """Return the stream; everything is checked here, so that it can be used without further checks."""
    for name in ("automatic", "frozen", "changed"):
        if not isinstance(header[name], bool):
            raise InvalidRecord(f"{name} is {header[name]!r}")
    if not is_integer(header["next"], 0):
        raise InvalidRecord(f"next is {header['next']!r}")
    stream = kind(estimator_of(header), window=header["window"], automatic=header["automatic"])
    stream._next = header["next"]
    keys = _keys(header, "keys", range(stream._next))
    d = None if header["dimension"] is None else checked_dimension(header)
    if d is not None:
        _restore_clouds(stream, header, arrays, d)
        stream._measured = _measured_of(header, keys, d)
    if d is None and (keys or header["measured"] or header["map_landmarks"] is not None):
        raise InvalidRecord("there are clouds and no dimension")
    stream._mirrored = set(_keys(header, "mirrored", _keys(header, "aside", keys)))
    stream._usual = deque(arrays.floats("usual", None, least=0).tolist(), maxlen=REMEMBERED)
    if header["map_landmarks"] is not None and d is not None:
        stream._solved = _solved_of(header, arrays, stream._next, d)
        if stream.incremental and not np.isfinite(stream._solved.map).all():
            raise InvalidRecord("a landmark of the map has no place")
        stream._places = {name: i for i, name in enumerate(stream._solved.landmarks)}
    elif header["frozen"]:
        raise InvalidRecord("it is frozen and has no map")
    stream._loose = set(_keys(header, "loose", keys))
    stream._deviations = _deviations_of(header)
    stream.frozen, stream._changed = header["frozen"], header["changed"]
    _restore_warps(stream)
    return stream


def _keys(header: Header, name: str, among: Collection[int]) -> tuple[int, ...]:
    """Keys of clouds, none of them twice, all of them among others."""
    keys = checked_names(header[name], name)
    for key in keys:
        if not is_integer(key) or key not in among:
            raise InvalidRecord(f"{name} has the key {key!r}")
    return tuple(key for key in keys if isinstance(key, int))


def _measured_of(header: Header, keys: Collection[int], d: int) -> dict[int, list[Measured]]:
    """The motions; the cloud that one starts from may have left since."""
    before = range(header["next"])
    found = {
        int(key): [checked(Measured(**one), d, before) for one in some] for key, some in header["measured"].items()
    }
    if not set(found) <= set(keys):
        raise InvalidRecord("a motion was measured of a cloud that is not there")
    return found


def _deviations_of(header: Header) -> Deviations:
    for key, source, i, _ in header["deviations"]:
        if not is_integer(key) or not is_integer(i) or not (is_integer(source) or isinstance(source, str)):
            raise InvalidRecord(f"deviations have {key!r}, {source!r}, {i!r}")
    return {
        (key, source, i): checked_number(off, "a deviation", least=0) for key, source, i, off in header["deviations"]
    }


def _solved_of(header: Header, arrays: CheckedArrays, count: int, d: int) -> StreamMap:
    """The map as it was; clouds of it may have left since."""
    landmarks = checked_names(header["map_landmarks"], "map_landmarks")
    keys = _keys(header, "map_keys", range(count))
    positions, rotations, translations = MapRecord.from_arrays(arrays, len(landmarks), len(keys), d)
    return StreamMap(
        list(landmarks),
        positions,
        keys,
        rotations,
        translations,
        arrays.floats("scales", d, least=0),
        arrays.floats("eigenvalues", d + 1, allow_nan=True),
    )


def _restore_warps(stream: StreamingGPA) -> None:
    """The clouds in the sum again, and with them their warps."""
    running, solved = stream._running, stream._solved
    if running is None:
        return
    running.settle(stream._loose)
    if solved is None:
        return
    if stream.incremental:
        rows = np.array([stream._places.get(name, -1) for name in running.names], dtype=np.intp)
        # where clouds have come since that share more with another, that one is no longer what it was
        same = {key: one for key, one in reduced_of(running).items() if key in solved.keys and rows[one[1]].min() >= 0}
        stream._solved = replace(solved, reduced=same, rows=rows)
    elif not stream.frozen and not stream._changed:
        stream._keep(stream._solve(running))


def _restore_clouds(stream: StreamingGPA, header: Header, arrays: CheckedArrays, d: int) -> None:
    running = stream._running = RunningSum(stream._family(), d)
    keys, aside = header["keys"], set(_keys(header, "aside", header["keys"]))
    names = checked_names(header["seen_landmarks"], "seen_landmarks")
    times = arrays.floats("times", len(keys)).tolist()
    clouds = clouds_from_arrays(arrays, keys, len(names), d)
    if on_seen_landmarks(clouds, names)[1] != list(names):
        raise InvalidRecord("seen_landmarks has a landmark that no cloud sees")
    running.numbers_of(list(names))  # which are numbered in this order
    for key, cloud, time in zip(keys, clouds, times, strict=True):
        stream._require_sound(cloud, d)
        stream._order[key] = time
        if key in aside:
            stream._aside[key] = cloud
            running.keep_names(cloud)
        else:
            running.add(key, cloud)

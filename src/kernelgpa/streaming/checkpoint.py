"""A stream as one file, and back.

The file holds the clouds as they were added, with keys, times and measured motions, the map with its frame, and its
past motions; the sum of the clouds is computed again from them.  Numbers are arrays, names and settings one JSON text;
nothing is pickled.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import FormatError
from ..io import shape_file
from ..io.archive import Arrays, read_arrays
from ..io.atomic import write_bytes
from ..io.model_file import class_name, estimator_of, settings_of, used_estimator_of
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
from ..shape import ShapeModel
from ..typing import Name
from .estimator import StreamingGPA
from .odometry import Measured, MotionKey, validated
from .running_sum import RunningSum
from .solving import family_of, reduced_clouds
from .stream_map import MotionHistory, StreamMap

CHECKPOINT = FileKind("stream", 4, "checkpoint of a stream", "expected a checkpoint of a stream", "start again")


def write(stream: StreamingGPA, path: str | os.PathLike[str], about: dict[str, Any]) -> None:
    """Write the stream to a path, atomically."""
    write_bytes(Path(path), to_bytes(stream, about))


def read(kind: type[StreamingGPA], path: str | os.PathLike[str]) -> tuple[StreamingGPA, dict[str, Any]]:
    """The stream, and the JSON that was saved with it."""
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
            raise InvalidRecord("about is not an object")
        return _restored(kind, header, CheckedArrays(arrays)), header["about"]


def to_bytes(stream: StreamingGPA, about: dict[str, Any]) -> bytes:
    """The stream as the bytes of an NPZ file; ``about`` is saved with it."""
    names = [] if stream._running is None else stream._running.names
    clouds, seen_landmarks = on_seen_landmarks([stream._cloud(key) for key in stream._times], names)
    return CHECKPOINT.pack({**_header(stream, seen_landmarks), "about": about}, _arrays(stream, clouds))


def _header(stream: StreamingGPA, seen_landmarks: list[Name]) -> Header:
    """Names, settings and keys, as JSON."""
    running, stream_map = stream._running, stream._map
    require_saveable([*seen_landmarks, *([] if stream_map is None else stream_map.landmarks)])
    return {
        "class": class_name(stream.estimator),
        "settings": settings_of(stream._given),
        "used": settings_of(stream.estimator),
        "choice_due": stream._choice_due,
        "window": stream.window,
        "automatic": stream.automatic,
        "frozen": stream.frozen,
        "next_key": stream._next_key,
        "keys": list(stream._times),
        "seen_landmarks": seen_landmarks,
        "outside": list(stream._outside),
        "mirrored": sorted(stream._mirrored),
        "disconnected": sorted(stream._disconnected),
        "dimension": None if running is None else running.dimension,
        "motions": {str(key): [_plain(one) for one in several] for key, several in stream._motions.items()},
        "map_landmarks": None if stream_map is None else stream_map.landmarks,
        "map_keys": None if stream_map is None else list(stream_map.keys),
        "changed": stream._changed,
        "motion_residuals": [[*motion, value] for motion, value in stream._motion_residuals.items()],
        "shape_model": stream.shape_model is not None,
    }


def _arrays(stream: StreamingGPA, clouds: Sequence[Cloud]) -> Arrays:
    """The clouds one after another, and the map."""
    stream_map = stream._map
    arrays: Arrays = {
        "times": np.array(list(stream._times.values()), dtype=np.float64),
        "past_motions": np.array(stream._history.motions, dtype=np.float64),
        **clouds_to_arrays(clouds, 3 if stream._running is None else stream._running.dimension),
    }
    if stream_map is not None:
        arrays |= MapRecord(stream_map.map, stream_map.rotations, stream_map.translations).to_arrays()
        arrays |= {"scales": stream_map.scales, "eigenvalues": stream_map.eigenvalues()}
        arrays["gamma"] = np.array([stream_map.gamma])
    if stream.shape_model is not None:
        arrays["shape_model"] = np.frombuffer(shape_file.to_bytes(stream.shape_model), dtype=np.uint8)
    return arrays


def _plain(one: Measured) -> dict[str, Any]:
    return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in asdict(one).items()}


def _restored(kind: type[StreamingGPA], header: Header, arrays: CheckedArrays) -> StreamingGPA:
    """The stream; everything is checked here, so that the stream can be used without further checks."""
    for name in ("automatic", "frozen", "changed"):
        if not isinstance(header[name], bool):
            raise InvalidRecord(f"{name} is {header[name]!r}")
    if not is_integer(header["next_key"], 0):
        raise InvalidRecord(f"next_key is {header['next_key']!r}")
    settings = {"window": header["window"], "automatic": header["automatic"]}
    stream = kind(estimator_of(header), **settings, shape_model=_shape_model_of(header, arrays))
    if not is_integer(header["choice_due"], 0):
        raise InvalidRecord(f"choice_due is {header['choice_due']!r}")
    stream._next_key, stream._choice_due = header["next_key"], header["choice_due"]
    stream.estimator = used_estimator_of(header)
    d = None if header["dimension"] is None else checked_dimension(header)
    keys = _keys(header, "keys", range(stream._next_key))
    if d is not None:
        _restore_clouds(stream, header, arrays, d)
        stream._motions = _motions_of(header, keys, d)
    if d is None and (keys or header["motions"] or header["map_landmarks"] is not None):
        raise InvalidRecord("there are clouds and no dimension")
    stream._mirrored = set(_keys(header, "mirrored", keys))
    stream._history = MotionHistory(arrays.floats("past_motions", None, least=0).tolist())
    if header["map_landmarks"] is not None and d is not None:
        stream._map = _map_of(header, arrays, stream._next_key, d)
        if stream.incremental and not np.isfinite(stream._map.map).all():
            raise InvalidRecord("a landmark of the map has no position")
    elif header["frozen"]:
        raise InvalidRecord("it is frozen and has no map")
    stream._disconnected = set(_keys(header, "disconnected", keys))
    stream._motion_residuals = _motion_residuals_of(header)
    stream.frozen, stream._changed = header["frozen"], header["changed"]
    _restore_warps(stream)
    return stream


def _shape_model_of(header: Header, arrays: CheckedArrays) -> ShapeModel | None:
    if not header.get("shape_model", False):  # as in checkpoints of streams that knew of none
        return None
    data = arrays.integers("shape_model", None, most=255).astype(np.uint8).tobytes()
    return shape_file.from_bytes(data, "the shape model of the checkpoint")


def _keys(header: Header, name: str, among: Collection[int]) -> tuple[int, ...]:
    """Keys of clouds: distinct, and all of them among the given ones."""
    keys = checked_names(header[name], name)
    for key in keys:
        if not is_integer(key) or key not in among:
            raise InvalidRecord(f"{name} has the key {key!r}")
    return tuple(key for key in keys if isinstance(key, int))


def _motions_of(header: Header, keys: Collection[int], d: int) -> dict[int, list[Measured]]:
    """The measured motions; the cloud from which one starts may have left since."""
    earlier = range(header["next_key"])
    found = {
        int(key): [validated(Measured(**one), d, earlier) for one in some] for key, some in header["motions"].items()
    }
    if not set(found) <= set(keys):
        raise InvalidRecord("a motion was measured of a cloud that does not exist")
    return found


def _motion_residuals_of(header: Header) -> dict[MotionKey, float]:
    rows = header["motion_residuals"]
    for key, source, i, _ in rows:
        if not is_integer(key) or not is_integer(i) or not (is_integer(source) or isinstance(source, str)):
            raise InvalidRecord(f"motion_residuals has {key!r}, {source!r}, {i!r}")
    return {
        (key, source, i): checked_number(value, "a residual", least=0)
        for key, source, i, value in header["motion_residuals"]
    }


def _map_of(header: Header, arrays: CheckedArrays, count: int, d: int) -> StreamMap:
    """The map as it was; some of its clouds may have left since."""
    landmarks = checked_names(header["map_landmarks"], "map_landmarks")
    keys = _keys(header, "map_keys", range(count))
    positions, rotations, translations = MapRecord.from_arrays(arrays, len(landmarks), len(keys), d)
    eigenvalues = arrays.floats("eigenvalues", d + 1, allow_nan=True)
    return StreamMap(
        list(landmarks),
        positions,
        keys,
        rotations,
        translations,
        arrays.floats("scales", d, least=0),
        lambda: eigenvalues,
        float(arrays.floats("gamma", 1, least=0, allow_nan=True)[0]),
    )


def _restore_warps(stream: StreamingGPA) -> None:
    """Compute the sum of the clouds again, and with it their warps."""
    running, stream_map = stream._running, stream._map
    if running is None:
        return
    running.update_participation(stream._disconnected)
    if stream_map is None:
        return
    if stream.incremental:
        rows = np.array([stream_map.rows.get(name, -1) for name in running.names], dtype=np.intp)
        # A cloud that shares landmarks with clouds added since the map was solved has another reduced cloud now.
        same = {
            key: one
            for key, one in reduced_clouds(running).items()
            if key in stream_map.poses and rows[one[1]].min() >= 0
        }
        stream._map = replace(stream_map, reduced=same, rows_of_indices=rows)
    elif not stream.frozen and not stream._changed:
        stream._replace_map(stream._solve(running))


def _restore_clouds(stream: StreamingGPA, header: Header, arrays: CheckedArrays, d: int) -> None:
    running = stream._running = RunningSum(family_of(stream.estimator), d)
    keys, outside = header["keys"], set(_keys(header, "outside", header["keys"]))
    names = checked_names(header["seen_landmarks"], "seen_landmarks")
    times = arrays.floats("times", len(keys)).tolist()
    clouds = clouds_from_arrays(arrays, keys, len(names), d)
    if on_seen_landmarks(clouds, names)[1] != list(names):
        raise InvalidRecord("seen_landmarks has a landmark that no cloud sees")
    running.assign(list(names))  # indices follow this order
    for key, cloud, time in zip(keys, clouds, times, strict=True):
        stream._check_cloud(cloud, d)
        stream._times[key] = time
        if key in outside:
            stream._put_outside(key, cloud)
        else:
            running.add(key, cloud)

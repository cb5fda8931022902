"""A stream as one file, and back.

The file holds the clouds as they were added, with keys, times and measured motions, the map with its frame, and its
past motions; the sum of the clouds is computed again from them.  Numbers are arrays, names and settings one JSON text;
nothing is pickled.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import FormatError, InvalidSetting, KernelGPAError
from ..io.atomic import write_bytes
from ..io.checked import Numbers, Unsound, is_whole, names_of, number, split
from ..io.model_file import CLASSES, settings_of
from ..io.npz import arrays_in, packed
from ..observations.checks import LEAST_WEIGHT
from ..observations.cloud import Cloud
from ..version import __version__
from .estimator import StreamingGPA
from .odometry import Measured, MotionKey, validated
from .running_sum import RunningSum
from .solving import family_of, reduced_clouds
from .stream_map import MotionHistory, StreamMap

FORMAT = 1
Arrays = dict[str, np.ndarray[Any, np.dtype[Any]]]


def write(stream: StreamingGPA, path: str | os.PathLike[str], about: dict[str, Any]) -> None:
    """Write the stream to a path, atomically."""
    write_bytes(Path(path), to_bytes(stream, about))


def read(kind: type[StreamingGPA], path: str | os.PathLike[str]) -> tuple[StreamingGPA, dict[str, Any]]:
    """The stream, and the JSON that was saved with it."""
    try:
        data = Path(path).read_bytes()
    except FileNotFoundError:
        raise FormatError(Path(path), None, "there is no such file", "expected a checkpoint of a stream") from None
    except IsADirectoryError:
        raise FormatError(Path(path), None, "it is a folder", "expected a checkpoint of a stream") from None
    arrays = arrays_in(data, str(path))
    try:
        header = json.loads(str(arrays["header"]))
        if header["stream"] != FORMAT:
            raise FormatError(Path(path), None, f"its format is {header['stream']}", f"this release reads {FORMAT}")
        if not isinstance(header["about"], dict):
            raise Unsound("about is not an object")
        return _restored(kind, header, Numbers(arrays)), header["about"]
    except KernelGPAError:
        raise
    except Unsound as error:
        raise FormatError(Path(path), None, f"it is damaged ({error})", "start again") from error
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
        found = f"it is not a checkpoint of a stream, or is damaged ({type(error).__name__}: {error})"
        raise FormatError(Path(path), None, found, "start again") from error


def to_bytes(stream: StreamingGPA, about: dict[str, Any]) -> bytes:
    """The stream as the bytes of an NPZ file; ``about`` is saved with it."""
    clouds = [stream._cloud(key) for key in stream._times]
    try:
        header = json.dumps({**_header(stream, clouds), "about": about})
    except (TypeError, ValueError) as problem:
        raise InvalidSetting(
            f"about cannot be written as JSON ({problem}); give numbers, strings, lists and dictionaries"
        ) from None
    return packed({"header": np.array(header), **_arrays(stream, clouds)})


def _header(stream: StreamingGPA, clouds: Sequence[Cloud]) -> dict[str, Any]:
    """Names, settings and keys, as JSON."""
    running, stream_map = stream._running, stream._map
    ids = [[] if running is None else running.index.names_of(cloud.seen) for cloud in clouds]
    for name in {name for one in [*ids, [] if stream_map is None else stream_map.landmarks] for name in one}:
        if not isinstance(name, str | int) or isinstance(name, bool):
            raise InvalidSetting(f"landmark {name!r} cannot be saved; use strings or integers as landmark ids")
    return {
        "stream": FORMAT,
        "kernelgpa": __version__,
        "class": type(stream.estimator).__name__,
        "settings": settings_of(stream.estimator),
        "window": stream.window,
        "automatic": stream.automatic,
        "frozen": stream.frozen,
        "next_key": stream._next_key,
        "keys": list(stream._times),
        "ids": ids,
        "outside": list(stream._outside),
        "mirrored": sorted(stream._mirrored),
        "disconnected": sorted(stream._disconnected),
        "dimension": None if running is None else running.dimension,
        "motions": {str(key): [_plain(one) for one in several] for key, several in stream._motions.items()},
        "landmarks": None if stream_map is None else stream_map.landmarks,
        "map_keys": None if stream_map is None else list(stream_map.keys),
        "changed": stream._changed,
        "motion_residuals": [[*motion, value] for motion, value in stream._motion_residuals.items()],
    }


def _arrays(stream: StreamingGPA, clouds: Sequence[Cloud]) -> Arrays:
    """The clouds one after another, and the map."""
    stream_map, d = stream._map, 3 if stream._running is None else stream._running.dimension
    arrays: Arrays = {
        "times": np.array(list(stream._times.values()), dtype=np.float64),
        "sizes": np.array([len(cloud.seen) for cloud in clouds], dtype=np.int64),
        "points": np.concatenate([np.zeros((0, d)), *(cloud.points for cloud in clouds)]),
        "weights": np.concatenate([np.zeros(0), *(cloud.weights for cloud in clouds)]),
        "resolutions": np.array([cloud.resolution for cloud in clouds], dtype=np.float64),
        "past_motions": np.array(stream._history.motions, dtype=np.float64),
    }
    if stream_map is not None:
        arrays |= {
            "map": stream_map.map,
            "rotations": stream_map.rotations,
            "translations": stream_map.translations,
            "scales": stream_map.scales,
            "eigenvalues": stream_map.eigenvalues,
        }
    return arrays


def _plain(one: Measured) -> dict[str, Any]:
    return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in asdict(one).items()}


def _restored(kind: type[StreamingGPA], header: dict[str, Any], arrays: Numbers) -> StreamingGPA:
    """The stream; everything is checked here, so that the stream can be used without further checks."""
    estimator = CLASSES[header["class"]](**header["settings"])
    for name in ("automatic", "frozen", "changed"):
        if not isinstance(header[name], bool):
            raise Unsound(f"{name} is {header[name]!r}")
    if not is_whole(header["next_key"], 0):
        raise Unsound(f"next_key is {header['next_key']!r}")
    stream = kind(estimator, window=header["window"], automatic=header["automatic"])
    stream._next_key, d = header["next_key"], header["dimension"]
    keys = _keys(header, "keys", range(stream._next_key))
    if d is not None:
        if not is_whole(d, 2, 3):
            raise Unsound(f"the dimension is {d!r}")
        _restore_clouds(stream, header, arrays, d)
        stream._motions = _motions_of(header, keys, d)
    if d is None and (keys or header["motions"] or header["landmarks"] is not None):
        raise Unsound("there are clouds and no dimension")
    stream._mirrored = set(_keys(header, "mirrored", _keys(header, "outside", keys)))
    stream._history = MotionHistory(arrays.floats("past_motions", None, least=0).tolist())
    if header["landmarks"] is not None:
        stream._map = _map_of(header, arrays, stream._next_key, d)
        if stream.incremental and not np.isfinite(stream._map.map).all():
            raise Unsound("a landmark of the map has no position")
    elif header["frozen"]:
        raise Unsound("it is frozen and has no map")
    stream._disconnected = set(_keys(header, "disconnected", keys))
    stream._motion_residuals = _motion_residuals_of(header)
    stream.frozen, stream._changed = header["frozen"], header["changed"]
    _restore_warps(stream)
    return stream


def _keys(header: dict[str, Any], name: str, among: Collection[int]) -> tuple[int, ...]:
    """Keys of clouds: distinct, and all of them among the given ones."""
    keys = names_of(header[name], name)
    for key in keys:
        if not is_whole(key) or key not in among:
            raise Unsound(f"{name} has the key {key!r}")
    return tuple(key for key in keys if isinstance(key, int))


def _motions_of(header: dict[str, Any], keys: Collection[int], d: int) -> dict[int, list[Measured]]:
    """The measured motions; the cloud from which one starts may have left since."""
    earlier = range(header["next_key"])
    found = {
        int(key): [validated(Measured(**one), d, earlier) for one in some] for key, some in header["motions"].items()
    }
    if not set(found) <= set(keys):
        raise Unsound("a motion was measured of a cloud that does not exist")
    return found


def _motion_residuals_of(header: dict[str, Any]) -> dict[MotionKey, float]:
    rows = header["motion_residuals"]
    for key, source, i, _ in rows:
        if not is_whole(key) or not is_whole(i) or not (is_whole(source) or isinstance(source, str)):
            raise Unsound(f"motion_residuals has {key!r}, {source!r}, {i!r}")
    return {
        (key, source, i): number(value, "a residual", least=0) for key, source, i, value in header["motion_residuals"]
    }


def _map_of(header: dict[str, Any], arrays: Numbers, count: int, d: int) -> StreamMap:
    """The map as it was; some of its clouds may have left since."""
    landmarks = names_of(header["landmarks"], "landmarks")
    keys = _keys(header, "map_keys", range(count))
    n, m = len(keys), len(landmarks)
    return StreamMap(
        list(landmarks),
        arrays.floats("map", m, d, unknown=True),
        keys,
        arrays.rotations("rotations", n, d, d),
        arrays.floats("translations", n, d),
        arrays.floats("scales", d, least=0),
        arrays.floats("eigenvalues", d + 1, unknown=True),
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


def _restore_clouds(stream: StreamingGPA, header: dict[str, Any], arrays: Numbers, d: int) -> None:
    running = stream._running = RunningSum(family_of(stream.estimator), d)
    keys, outside = header["keys"], set(_keys(header, "outside", header["keys"]))
    n = len(keys)
    if not isinstance(header["ids"], list) or len(header["ids"]) != n:
        raise Unsound(f"there are {n} clouds, and ids of another number")
    sizes = arrays.whole("sizes", n)
    points = split(arrays.floats("points", None, d), sizes, "points")
    weights = split(arrays.floats("weights", None, least=LEAST_WEIGHT), sizes, "weights")
    resolutions, times = arrays.floats("resolutions", n, least=0), arrays.floats("times", n)
    for t, key in enumerate(keys):
        ids = names_of(header["ids"][t], "ids")
        if len(ids) != sizes[t]:
            raise Unsound(f"cloud {key} has {len(ids)} ids and {sizes[t]} points")
        indices = running.assign(list(ids))
        order = np.argsort(indices)
        cloud = Cloud(key, indices[order], points[t][order], weights[t][order], float(resolutions[t]))
        stream._check_cloud(cloud, d)
        stream._times[key] = float(times[t])
        if key in outside:
            stream._put_outside(key, cloud)
        else:
            running.add(key, cloud)

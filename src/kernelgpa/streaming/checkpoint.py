"""A stream as one file, and back.

The clouds are kept as they came, with keys, times and measured motions, the map with its frame, and what is usual; the
sum of the clouds is made again from them.  Numbers are arrays, names and settings one JSON text; nothing is pickled.
"""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Collection
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import FormatError, InvalidSetting, KernelGPAError
from ..io.archive import pack_arrays, read_arrays
from ..io.atomic import write_bytes
from ..io.model_file import CLASSES, settings_of
from ..io.validation import CheckedArrays, InvalidRecord, checked_names, checked_number, is_integer, split_rows
from ..observations.checks import LEAST_WEIGHT
from ..observations.cloud import Cloud
from ..spectrum.running_sum import RunningSum
from ..version import __version__
from .estimator import REMEMBERED, StreamingGPA
from .motions import Deviations, Measured, checked
from .solved import StreamMap, reduced_of

FORMAT = 1
Arrays = dict[str, np.ndarray[Any, np.dtype[Any]]]


def write(stream: StreamingGPA, path: str | os.PathLike[str], about: dict[str, Any]) -> None:
    """The stream at a path, whole or not at all."""
    write_bytes(Path(path), to_bytes(stream, about))


def read(kind: type[StreamingGPA], path: str | os.PathLike[str]) -> tuple[StreamingGPA, dict[str, Any]]:
    """The stream, and what was kept with it."""
    try:
        data = Path(path).read_bytes()
    except FileNotFoundError:
        raise FormatError(Path(path), None, "there is no such file", "expected a checkpoint of a stream") from None
    except IsADirectoryError:
        raise FormatError(Path(path), None, "it is a folder", "expected a checkpoint of a stream") from None
    arrays = read_arrays(data, str(path))
    try:
        header = json.loads(str(arrays["header"]))
        if header["stream"] != FORMAT:
            raise FormatError(Path(path), None, f"its format is {header['stream']}", f"this release reads {FORMAT}")
        if not isinstance(header["about"], dict):
            raise InvalidRecord("about is no object")
        return _restored(kind, header, CheckedArrays(arrays)), header["about"]
    except KernelGPAError:
        raise
    except InvalidRecord as error:
        raise FormatError(Path(path), None, f"it is broken ({error})", "start again") from error
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
        found = f"it is no checkpoint of a stream, or broken ({type(error).__name__}: {error})"
        raise FormatError(Path(path), None, found, "start again") from error


def to_bytes(stream: StreamingGPA, about: dict[str, Any]) -> bytes:
    running, solved = stream._running, stream._solved
    keys = list(stream._order)
    clouds = [] if running is None else [_cloud_of(stream, running, key) for key in keys]
    ids = [[] if running is None else [running.names[number] for number in cloud.seen.tolist()] for cloud in clouds]
    for name in {name for one in [*ids, [] if solved is None else solved.landmarks] for name in one}:
        if not isinstance(name, str | int) or isinstance(name, bool):
            raise InvalidSetting(f"landmark {name!r} cannot be saved; name landmarks by texts or whole numbers")
    header = {
        "stream": FORMAT,
        "kernelgpa": __version__,
        "class": type(stream.estimator).__name__,
        "settings": settings_of(stream.estimator),
        "window": stream.window,
        "automatic": stream.automatic,
        "frozen": stream.frozen,
        "next": stream._next,
        "keys": keys,
        "ids": ids,
        "aside": list(stream._aside),
        "mirrored": sorted(stream._mirrored),
        "loose": sorted(stream._loose),
        "dimension": None if running is None else running.dimension,
        "measured": {str(key): [_plain(one) for one in several] for key, several in stream._measured.items()},
        "landmarks": None if solved is None else solved.landmarks,
        "solved_keys": None if solved is None else list(solved.keys),
        "changed": stream._changed,
        "deviations": [[*pair, off] for pair, off in stream._deviations.items()],
        "about": about,
    }
    d = 3 if running is None else running.dimension
    arrays: Arrays = {
        "times": np.array([stream._order[key] for key in keys], dtype=np.float64),
        "sizes": np.array([len(cloud.seen) for cloud in clouds], dtype=np.int64),
        "points": np.concatenate([np.zeros((0, d)), *(cloud.points for cloud in clouds)]),
        "weights": np.concatenate([np.zeros(0), *(cloud.weights for cloud in clouds)]),
        "resolutions": np.array([cloud.resolution for cloud in clouds], dtype=np.float64),
        "usual": np.array(stream._usual, dtype=np.float64),
    }
    if solved is not None:
        arrays |= {name: getattr(solved, name) for name in SOLVED}
    try:
        text = json.dumps(header)
    except (TypeError, ValueError) as problem:
        raise InvalidSetting(f"what is to be kept beside the stream is no JSON ({problem})") from None
    return pack_arrays({"header": np.array(text), **arrays})


SOLVED = ("map", "rotations", "translations", "scales", "eigenvalues")


def _cloud_of(stream: StreamingGPA, running: RunningSum, key: int) -> Cloud:
    return stream._aside[key] if key in stream._aside else running.members[key].cloud


def _plain(one: Measured) -> dict[str, Any]:
    return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in asdict(one).items()}


def _restored(kind: type[StreamingGPA], header: dict[str, Any], arrays: CheckedArrays) -> StreamingGPA:
    """The stream; everything is checked on the way, so that what is returned can be used."""
    estimator = CLASSES[header["class"]](**header["settings"])
    for name in ("automatic", "frozen", "changed"):
        if not isinstance(header[name], bool):
            raise InvalidRecord(f"{name} is {header[name]!r}")
    if not is_integer(header["next"], 0):
        raise InvalidRecord(f"next is {header['next']!r}")
    stream = kind(estimator, window=header["window"], automatic=header["automatic"])
    stream._next, d = header["next"], header["dimension"]
    keys = _keys(header, "keys", range(stream._next))
    if d is not None:
        if not is_integer(d, 2, 3):
            raise InvalidRecord(f"the dimension is {d!r}")
        _restore_clouds(stream, header, arrays, d)
        stream._measured = _measured_of(header, keys, d)
    if d is None and (keys or header["measured"] or header["landmarks"] is not None):
        raise InvalidRecord("there are clouds and no dimension")
    stream._mirrored = set(_keys(header, "mirrored", _keys(header, "aside", keys)))
    stream._usual = deque(arrays.floats("usual", None, least=0).tolist(), maxlen=REMEMBERED)
    if header["landmarks"] is not None:
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


def _keys(header: dict[str, Any], name: str, among: Collection[int]) -> tuple[int, ...]:
    """Keys of clouds, none of them twice, all of them among others."""
    keys = checked_names(header[name], name)
    for key in keys:
        if not is_integer(key) or key not in among:
            raise InvalidRecord(f"{name} has the key {key!r}")
    return tuple(key for key in keys if isinstance(key, int))


def _measured_of(header: dict[str, Any], keys: Collection[int], d: int) -> dict[int, list[Measured]]:
    """The motions; the cloud that one starts from may have left since."""
    before = range(header["next"])
    found = {
        int(key): [checked(Measured(**one), d, before) for one in some] for key, some in header["measured"].items()
    }
    if not set(found) <= set(keys):
        raise InvalidRecord("a motion was measured of a cloud that is not there")
    return found


def _deviations_of(header: dict[str, Any]) -> Deviations:
    for key, source, i, _ in header["deviations"]:
        if not is_integer(key) or not is_integer(i) or not (is_integer(source) or isinstance(source, str)):
            raise InvalidRecord(f"deviations have {key!r}, {source!r}, {i!r}")
    return {
        (key, source, i): checked_number(off, "a deviation", least=0) for key, source, i, off in header["deviations"]
    }


def _solved_of(header: dict[str, Any], arrays: CheckedArrays, count: int, d: int) -> StreamMap:
    """The map as it was; clouds of it may have left since."""
    landmarks = checked_names(header["landmarks"], "landmarks")
    keys = _keys(header, "solved_keys", range(count))
    n, m = len(keys), len(landmarks)
    return StreamMap(
        list(landmarks),
        arrays.floats("map", m, d, allow_nan=True),
        keys,
        arrays.rotations("rotations", n, d, d),
        arrays.floats("translations", n, d),
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


def _restore_clouds(stream: StreamingGPA, header: dict[str, Any], arrays: CheckedArrays, d: int) -> None:
    running = stream._running = RunningSum(stream._family(), d)
    keys, aside = header["keys"], set(_keys(header, "aside", header["keys"]))
    n = len(keys)
    if not isinstance(header["ids"], list) or len(header["ids"]) != n:
        raise InvalidRecord("clouds and ids do not fit")
    sizes = arrays.integers("sizes", n)
    points = split_rows(arrays.floats("points", None, d), sizes, "points")
    weights = split_rows(arrays.floats("weights", None, least=LEAST_WEIGHT), sizes, "weights")
    resolutions, times = arrays.floats("resolutions", n, least=0), arrays.floats("times", n)
    for t, key in enumerate(keys):
        ids = checked_names(header["ids"][t], "ids")
        if len(ids) != sizes[t]:
            raise InvalidRecord(f"cloud {key} has {len(ids)} ids and {sizes[t]} points")
        numbers = running.numbers_of(list(ids))
        order = np.argsort(numbers)
        cloud = Cloud(key, numbers[order], points[t][order], weights[t][order], float(resolutions[t]))
        stream._require_sound(cloud, d)
        stream._order[key] = float(times[t])
        if key in aside:
            stream._aside[key] = cloud
            running.keep_names(cloud)
        else:
            running.add(key, cloud)

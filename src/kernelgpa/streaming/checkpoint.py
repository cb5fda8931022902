"""A stream as one file, and back.

The clouds are kept as they came, with keys, times and measured motions, the map with its frame, and what is usual; the
sum of the clouds is made again from them.  Numbers are arrays, names and settings one JSON text; nothing is pickled.
"""

from __future__ import annotations

import json
import os
from collections import deque
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import FormatError, InvalidSetting, KernelGPAError
from ..frames import Array
from ..io.npz import arrays_in, packed
from ..io.whole import write_bytes
from ..live import Live
from ..observations import Cloud
from ..saved import CLASSES, settings_of
from ..version import __version__
from .estimator import REMEMBERED, StreamingGPA
from .motions import Measured
from .solved import Solved, reduced_of

if TYPE_CHECKING:
    from collections.abc import Sequence

FORMAT = 1
Numbers = dict[str, np.ndarray[Any, np.dtype[Any]]]


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
    arrays = arrays_in(data, str(path))
    try:
        header = json.loads(str(arrays["header"]))
        if header["stream"] != FORMAT:
            raise FormatError(Path(path), None, f"its format is {header['stream']}", f"this release reads {FORMAT}")
        return _restored(kind, header, arrays), header["about"]
    except KernelGPAError:
        raise
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
        found = f"it is no checkpoint of a stream, or broken ({type(error).__name__}: {error})"
        raise FormatError(Path(path), None, found, "start again") from error


def to_bytes(stream: StreamingGPA, about: dict[str, Any]) -> bytes:
    live, solved = stream._live, stream._solved
    keys = list(stream._order)
    clouds = [] if live is None else [_cloud_of(stream, live, key) for key in keys]
    ids = [[] if live is None else [live.names[number] for number in cloud.seen.tolist()] for cloud in clouds]
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
        "dimension": None if live is None else live.dimension,
        "measured": {str(key): [_plain(one) for one in several] for key, several in stream._measured.items()},
        "landmarks": None if solved is None else solved.landmarks,
        "solved_keys": None if solved is None else list(solved.keys),
        "changed": stream._changed,
        "deviations": [[*pair, off] for pair, off in stream._deviations.items()],
        "about": about,
    }
    d = 3 if live is None else live.dimension
    arrays: Numbers = {
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
    return packed({"header": np.array(text), **arrays})


SOLVED = ("map", "rotations", "translations", "scales", "eigenvalues")


def _cloud_of(stream: StreamingGPA, live: Live, key: int) -> Cloud:
    return stream._aside[key] if key in stream._aside else live.members[key].cloud


def _plain(one: Measured) -> dict[str, Any]:
    return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in asdict(one).items()}


def _restored(kind: type[StreamingGPA], header: dict[str, Any], arrays: Numbers) -> StreamingGPA:
    estimator = CLASSES[header["class"]](**header["settings"])
    stream = kind(estimator, window=header["window"], automatic=header["automatic"])
    stream.frozen, stream._next = bool(header["frozen"]), int(header["next"])
    if header["dimension"] is not None:
        _restore_clouds(stream, header, arrays)
    stream._mirrored = set(header["mirrored"])
    stream._measured = {int(key): [Measured(**one) for one in several] for key, several in header["measured"].items()}
    stream._usual = deque(arrays["usual"].astype(np.float64).tolist(), maxlen=REMEMBERED)
    if header["landmarks"] is not None:
        places, rotations, translations, scales, values = (_floats(arrays[name]) for name in SOLVED)
        keys = tuple(header["solved_keys"])
        stream._solved = Solved(header["landmarks"], places, keys, rotations, translations, scales, values)
        stream._places = {name: i for i, name in enumerate(header["landmarks"])}
        _require_whole(stream._solved, int(header["dimension"]))
    stream._loose = set(header["loose"])
    stream._deviations = {(key, source, i): float(off) for key, source, i, off in header["deviations"]}
    stream._changed = bool(header["changed"])
    _restore_warps(stream)
    return stream


def _restore_warps(stream: StreamingGPA) -> None:
    """The clouds in the sum again, and with them their warps."""
    live, solved = stream._live, stream._solved
    if live is None:
        return
    live.settle(stream._loose)
    if solved is None:
        return
    if stream.incremental:
        rows = np.array([stream._places.get(name, -1) for name in live.names], dtype=np.intp)
        # where clouds have come since that share more with another, that one is no longer what it was
        same = {key: one for key, one in reduced_of(live).items() if key in solved.keys and rows[one[1]].min() >= 0}
        stream._solved = replace(solved, reduced=same, rows=rows)
    elif not stream.frozen and not stream._changed:
        stream._keep(stream._solve(live))


def _restore_clouds(stream: StreamingGPA, header: dict[str, Any], arrays: Numbers) -> None:
    live = stream._live = Live(stream._family(), int(header["dimension"]))
    if not len(header["keys"]) == len(header["ids"]) == len(arrays["sizes"]):
        raise ValueError("clouds and keys do not fit")
    ends = np.cumsum(arrays["sizes"].astype(np.intp))[:-1]
    points, weights = (np.split(_floats(arrays[name]), ends) for name in ("points", "weights"))
    resolutions, times = _floats(arrays["resolutions"]), _floats(arrays["times"])
    for t, key in enumerate(header["keys"]):
        numbers = live.numbers_of(header["ids"][t])
        order = np.argsort(numbers)
        cloud = Cloud(key, numbers[order], points[t][order], weights[t][order], float(resolutions[t]))
        if not np.isfinite(cloud.points).all() or not (cloud.weights > 0).all():
            raise ValueError("a cloud is not finite")
        stream._require_sound(cloud, live.dimension)
        stream._order[key] = float(times[t])
        if key in header["aside"]:
            stream._aside[key] = cloud
            live.keep_names(cloud)
        else:
            live.add(key, cloud)


def _require_whole(solved: Solved, d: int) -> None:
    m, n = len(solved.landmarks), len(solved.keys)
    shapes: Sequence[tuple[Array, tuple[int, ...]]] = (
        (solved.map, (m, d)),
        (solved.rotations, (n, d, d)),
        (solved.translations, (n, d)),
    )
    if any(array.shape != shape for array, shape in shapes):
        raise ValueError("the map and its poses do not fit")
    if not np.isfinite(solved.rotations).all() or not np.isfinite(solved.translations).all():
        raise ValueError("a pose is not finite")


def _floats(array: np.ndarray[Any, np.dtype[Any]]) -> Array:
    return array.astype(np.float64)

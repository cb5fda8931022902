"""Frames as lines of JSON: what a sensor sends, one cloud per line.

    {"frame": 7, "time": 0.7, "ids": ["a", "b", ...], "points": [[x, y, z], ...]}     a cloud; null: not seen
    {"drop": 7}                                                                       remove that cloud
    {"end": true}                                                                     the stream ends

A frame may also have ``weights``, one per point, and measured motions: ``odometry``, from the frame before or from the
frame that its ``from`` names, and ``pose``, in the frame of a tracker.  Ids are strings; a number becomes a string.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from ...errors import FormatError
from ...io.text import is_unicode, short_repr
from ...observations.arrays import finite_rows
from ...typing import Array
from ..odometry import TRACKER, Measured

FrameName = int | str
FRAME_KEYS = ("frame", "time", "ids", "points", "weights", "odometry", "pose")
MOTION_KEYS = ("rotation", "quaternion", "translation", "accuracy", "degrees", "from")
QUATERNION_TOLERANCE = 1e-3  # how far the length of a quaternion may be from 1


@dataclass(frozen=True)
class StatedMotion:
    """A measured motion as a line gives it; the cloud from which it starts is looked up later."""

    rotation: Array  # (d, d)
    translation: Array  # (d,)
    accuracy: float
    degrees: float
    start: FrameName | None = None  # None: the frame before

    def measured(self, source: int | str = TRACKER) -> Measured:
        return Measured(self.rotation, self.translation, self.accuracy, self.degrees, source)


@dataclass(frozen=True)
class FrameLine:
    """One cloud."""

    name: FrameName | None
    time: float | None
    ids: list[str]
    points: Array  # (s, d), NaN if not seen
    weights: Array | None = None  # (s,)
    odometry: StatedMotion | None = None
    pose: StatedMotion | None = None


@dataclass(frozen=True)
class Drop:
    """The request to remove a frame."""

    name: FrameName


@dataclass(frozen=True)
class End:
    """The end of the stream."""


class _Malformed(ValueError):
    """What was found and what was expected; :func:`parse` adds the line."""


def parse(line: bytes, source: str, number: int) -> FrameLine | Drop | End:
    """The content of one line; an error names the line."""
    try:
        return _interpreted(_decoded(line))
    except _Malformed as problem:
        raise FormatError(source, number, *problem.args) from None


def render(name: FrameName, time: float, ids: Iterable[FrameName], points: Array) -> str:
    """The line of a frame, with the points that were seen."""
    seen = finite_rows(points)
    names = [name for name, is_seen in zip(ids, seen, strict=True) if is_seen]
    return json.dumps({"frame": name, "time": time, "ids": names, "points": points[seen].tolist()}) + "\n"


def _decoded(line: bytes) -> dict[str, Any]:
    try:
        value = json.loads(line.decode("utf-8-sig"), parse_constant=_refuse_constant, object_pairs_hook=_object)
    except UnicodeDecodeError:
        raise _Malformed("the line is not UTF-8", "expected JSON in UTF-8") from None
    except json.JSONDecodeError as problem:
        raise _Malformed(
            f"the line is not JSON ({problem.msg} at column {problem.colno})", "expected one object"
        ) from None
    except RecursionError:
        raise _Malformed("brackets are nested too deeply", "expected a frame") from None
    except _Malformed:
        raise
    except ValueError:  # Python does not read integers of thousands of digits
        raise _Malformed("a number has too many digits", "expected numbers in double precision") from None
    if not isinstance(value, dict):
        raise _Malformed(f"found {_shown(value)}", 'expected an object such as {"ids": [...], "points": [...]}')
    return value


def _refuse_constant(text: str) -> None:
    raise _Malformed(f"found {text}, which is not JSON", "write null for a point that was not seen")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        repeated = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise _Malformed(f"the key {short_repr(repeated)} is repeated in one object", "keep one of them")
    return found


def _interpreted(value: dict[str, Any]) -> FrameLine | Drop | End:
    if "end" in value:
        _require_keys(value, ("end",), "the end")
        if value["end"] is not True:
            raise _Malformed(f"end is {_shown(value['end'])}", "expected true")
        return End()
    if "drop" in value:
        _require_keys(value, ("drop",), "a drop")
        return Drop(_name(value["drop"], "drop"))
    return _frame(value)


def _frame(value: dict[str, Any]) -> FrameLine:
    _require_keys(value, FRAME_KEYS, "a frame")
    ids = _ids(value.get("ids"))
    points = _points(value.get("points"), len(ids))
    d = points.shape[1]
    seen = int(np.sum(finite_rows(points)))
    if seen <= d:
        raise _Malformed(f"{seen} points are seen", f"expected at least {d + 1} in {d}D")
    name, time, weights = value.get("frame"), value.get("time"), value.get("weights")
    return FrameLine(
        None if name is None else _name(name, "frame"),
        None if time is None else _number(time, "time"),
        ids,
        points,
        None if weights is None else _weights(weights, len(ids)),
        _motion(value.get("odometry"), "odometry", d),
        _motion(value.get("pose"), "pose", d),
    )


def _ids(value: Any) -> list[str]:
    if not isinstance(value, list):
        raise _Malformed(f"ids is {_shown(value)}", "expected a list with one id per point")
    ids = [str(_name(one, "an id")) for one in value]
    if len(set(ids)) < len(ids):
        repeated = Counter(ids).most_common(1)[0][0]
        raise _Malformed(f"the id {short_repr(repeated)} is given more than once", "expected one point per id")
    return ids


def _points(value: Any, count: int) -> Array:
    if not isinstance(value, list) or len(value) != count:
        found = f"{len(value)} points" if isinstance(value, list) else f"points is {_shown(value)}"
        raise _Malformed(f"{found} for {count} ids", "expected one point per id")
    d = len(next((one for one in value if isinstance(one, list)), []))
    if d not in (2, 3):
        raise _Malformed(f"the first point has {d} coordinates", "expected 2 or 3")
    points = np.full((count, d), np.nan)
    for row, one in enumerate(value):
        if one is None or one == [None] * d:
            continue
        points[row] = _numbers(one, d, f"point {row + 1}")
    return points


def _weights(value: Any, count: int) -> Array:
    weights = _numbers(value, count, "weights")
    if np.any(weights < 0):
        raise _Malformed(f"a weight is {weights.min():g}", "expected 0 or more")
    return weights


def _motion(value: Any, what: str, d: int) -> StatedMotion | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise _Malformed(f"{what} is {_shown(value)}", "expected an object with rotation, translation, ...")
    _require_keys(value, MOTION_KEYS if what == "odometry" else MOTION_KEYS[:-1], what)
    start = value.get("from")
    accuracy, degrees = (_number(value.get(key), f"{key} of {what}") for key in ("accuracy", "degrees"))
    if accuracy <= 0 or degrees <= 0:
        raise _Malformed(f"{what} has accuracy {accuracy:g} and degrees {degrees:g}", "expected numbers above 0")
    return StatedMotion(
        _rotation(value, what, d),
        _numbers(value.get("translation"), d, f"translation of {what}"),
        accuracy,
        degrees,
        None if start is None else _name(start, f"from of {what}"),
    )


def _rotation(value: dict[str, Any], what: str, d: int) -> Array:
    if ("rotation" in value) == ("quaternion" in value):
        raise _Malformed(f"{what} has both or none of rotation and quaternion", "expected one of them")
    if "quaternion" in value:
        quaternion = _numbers(value["quaternion"], 4, f"quaternion of {what}")
        if d != 3 or abs(np.linalg.norm(quaternion) - 1) > QUATERNION_TOLERANCE:
            raise _Malformed(
                f"quaternion of {what} has length {np.linalg.norm(quaternion):.4g} in {d}D",
                "expected [x, y, z, w] of length 1, in 3D",
            )
        return Rotation.from_quat(quaternion).as_matrix()
    rows = value["rotation"]
    if not isinstance(rows, list) or len(rows) != d:
        raise _Malformed(f"rotation of {what} is {_shown(rows)}", f"expected {d} rows of {d} numbers")
    matrix = np.array([_numbers(row, d, f"rotation of {what}") for row in rows])
    if not np.allclose(matrix @ matrix.T, np.eye(d), rtol=0, atol=1e-6) or np.linalg.det(matrix) < 0:
        raise _Malformed(f"rotation of {what} is not a rotation", "expected orthonormal rows and determinant 1")
    return matrix


def _require_keys(value: dict[str, Any], keys: Sequence[str], what: str) -> None:
    unknown = [key for key in value if key not in keys]
    if unknown:
        raise _Malformed(f"{what} has the key {short_repr(unknown[0])}", f"expected {', '.join(keys)}")


def _name(value: Any, what: str) -> FrameName:
    integer = isinstance(value, int) and not isinstance(value, bool)
    if not integer and not (isinstance(value, str) and value and is_unicode(value)):
        raise _Malformed(f"{what} is {_shown(value)}", "expected an integer or a string")
    return value


def _number(value: Any, what: str) -> float:
    return float(_numbers([value], 1, what)[0])


def _numbers(values: Any, count: int, what: str) -> Array:
    """An array of ``count`` finite numbers."""
    if not isinstance(values, list) or len(values) != count:
        found = f"{what} has {len(values)} values" if isinstance(values, list) else f"{what} is {_shown(values)}"
        raise _Malformed(found, f"expected {count} numbers")
    for one in values:
        if not isinstance(one, int | float) or isinstance(one, bool) or not -1e300 < one < 1e300:
            raise _Malformed(f"{what} has {_shown(one)}", "expected a finite number")
    return np.array(values, dtype=np.float64)


def _shown(value: Any) -> str:
    return "missing" if value is None else short_repr(json.dumps(value))

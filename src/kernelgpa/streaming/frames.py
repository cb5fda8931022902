"""Frames as lines of JSON: what a sensor sends, one cloud a line.

    {"frame": 7, "time": 0.7, "ids": ["a", "b", ...], "points": [[x, y, z], ...]}     a cloud; null: not seen
    {"drop": 7}                                                                       without that cloud
    {"end": true}                                                                     nothing more will come

A frame may also have ``weights``, one a point, and motions that were measured: ``odometry``, from the frame before or
from the one that its ``from`` names, and ``pose``, in the frame of a tracker.  Ids are texts; a number is taken as its
text.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from ..errors import FormatError
from ..io.text import is_unicode, short_repr
from ..observations.arrays import finite_rows
from ..typing import Array
from .motions import TRACKER, Measured

FrameName = int | str
FRAME_KEYS = ("frame", "time", "ids", "points", "weights", "odometry", "pose")
MOTION_KEYS = ("rotation", "quaternion", "translation", "accuracy", "degrees", "from")
UNIT = 1e-3  # how far the length of a quaternion may be from 1


@dataclass(frozen=True)
class Motion:
    """A measured motion as a line gives it; the cloud that it starts from is looked up later."""

    rotation: Array  # (d, d)
    translation: Array  # (d,)
    accuracy: float
    degrees: float
    start: FrameName | None = None  # None: the frame before

    def measured(self, source: int | str = TRACKER) -> Measured:
        return Measured(self.rotation, self.translation, self.accuracy, self.degrees, source)


@dataclass(frozen=True)
class Frame:
    """One cloud."""

    name: FrameName | None
    time: float | None
    ids: list[str]
    points: Array  # (s, d), NaN where not seen
    weights: Array | None = None  # (s,)
    odometry: Motion | None = None
    pose: Motion | None = None


@dataclass(frozen=True)
class Drop:
    """The wish to be without a frame."""

    name: FrameName


@dataclass(frozen=True)
class End:
    """Nothing more will come."""


class _Wrong(ValueError):
    """What was found, and what was expected; the line is known to who reads it."""


def parse(line: bytes, source: str, number: int) -> Frame | Drop | End:
    """What one line says, or an error that names the line."""
    try:
        return _said(_decoded(line))
    except _Wrong as wrong:
        raise FormatError(source, number, *wrong.args) from None


def render(name: FrameName, time: float, ids: Iterable[FrameName], points: Array) -> str:
    """A line for the points that were seen."""
    seen = finite_rows(points)
    names = [one for one, here in zip(ids, seen, strict=True) if here]
    return json.dumps({"frame": name, "time": time, "ids": names, "points": points[seen].tolist()}) + "\n"


def _decoded(line: bytes) -> dict[str, Any]:
    try:
        value = json.loads(line.decode("utf-8-sig"), parse_constant=_no_number, object_pairs_hook=_object)
    except UnicodeDecodeError:
        raise _Wrong("the line is no UTF-8", "expected JSON in UTF-8") from None
    except json.JSONDecodeError as problem:
        raise _Wrong(f"the line is no JSON ({problem.msg} at column {problem.colno})", "expected one object") from None
    except RecursionError:
        raise _Wrong("brackets lie too deep within one another", "expected a frame") from None
    except _Wrong:
        raise
    except ValueError:  # Python reads no whole numbers of thousands of digits
        raise _Wrong("a number has too many digits", "expected numbers that double precision holds") from None
    if not isinstance(value, dict):
        raise _Wrong(f"found {_shown(value)}", 'expected an object such as {"ids": [...], "points": [...]}')
    return value


def _no_number(text: str) -> None:
    raise _Wrong(f"found {text}, which JSON does not have", "write null for a coordinate that was not seen")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise _Wrong(f"the key {short_repr(twice)} stands twice in one object", "keep one of the two")
    return found


def _said(value: dict[str, Any]) -> Frame | Drop | End:
    if "end" in value:
        _require_keys(value, ("end",), "the end")
        if value["end"] is not True:
            raise _Wrong(f"end is {_shown(value['end'])}", "expected true")
        return End()
    if "drop" in value:
        _require_keys(value, ("drop",), "a drop")
        return Drop(_name(value["drop"], "drop"))
    return _frame(value)


def _frame(value: dict[str, Any]) -> Frame:
    _require_keys(value, FRAME_KEYS, "a frame")
    ids = _ids(value.get("ids"))
    points = _points(value.get("points"), len(ids))
    d = points.shape[1]
    seen = int(np.sum(finite_rows(points)))
    if seen <= d:
        raise _Wrong(f"{seen} points are seen", f"expected at least {d + 1} in {d}D")
    name, time, weights = value.get("frame"), value.get("time"), value.get("weights")
    return Frame(
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
        raise _Wrong(f"ids is {_shown(value)}", "expected a list with one id a point")
    ids = [str(_name(one, "an id")) for one in value]
    if len(set(ids)) < len(ids):
        twice = Counter(ids).most_common(1)[0][0]
        raise _Wrong(f"the id {short_repr(twice)} is given more than once", "each id names one point of a frame")
    return ids


def _points(value: Any, count: int) -> Array:
    if not isinstance(value, list) or len(value) != count:
        found = f"{len(value)} points" if isinstance(value, list) else f"points is {_shown(value)}"
        raise _Wrong(f"{found} for {count} ids", "expected one point an id")
    d = len(next((one for one in value if isinstance(one, list)), []))
    if d not in (2, 3):
        raise _Wrong(f"the first point has {d} coordinates", "expected 2 or 3")
    points = np.full((count, d), np.nan)
    for row, one in enumerate(value):
        if one is None or one == [None] * d:
            continue
        points[row] = _numbers(one, d, f"point {row + 1}")
    return points


def _weights(value: Any, count: int) -> Array:
    weights = _numbers(value, count, "weights")
    if np.any(weights < 0):
        raise _Wrong(f"a weight is {weights.min():g}", "expected 0 or more")
    return weights


def _motion(value: Any, what: str, d: int) -> Motion | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise _Wrong(f"{what} is {_shown(value)}", "expected an object with rotation, translation, accuracy, degrees")
    _require_keys(value, MOTION_KEYS if what == "odometry" else MOTION_KEYS[:-1], what)
    start = value.get("from")
    accuracy, degrees = (_number(value.get(key), f"{key} of {what}") for key in ("accuracy", "degrees"))
    if accuracy <= 0 or degrees <= 0:
        raise _Wrong(f"{what} has accuracy {accuracy:g} and degrees {degrees:g}", "expected numbers above 0")
    return Motion(
        _rotation(value, what, d),
        _numbers(value.get("translation"), d, f"translation of {what}"),
        accuracy,
        degrees,
        None if start is None else _name(start, f"from of {what}"),
    )


def _rotation(value: dict[str, Any], what: str, d: int) -> Array:
    if ("rotation" in value) == ("quaternion" in value):
        raise _Wrong(f"{what} has both or none of rotation and quaternion", "expected one of them")
    if "quaternion" in value:
        quaternion = _numbers(value["quaternion"], 4, f"quaternion of {what}")
        if d != 3 or abs(np.linalg.norm(quaternion) - 1) > UNIT:
            raise _Wrong(
                f"quaternion of {what} has length {np.linalg.norm(quaternion):.4g} in {d}D",
                "expected [x, y, z, w] of length 1, in 3D",
            )
        return Rotation.from_quat(quaternion).as_matrix()
    rows = value["rotation"]
    if not isinstance(rows, list) or len(rows) != d:
        raise _Wrong(f"rotation of {what} is {_shown(rows)}", f"expected {d} rows of {d} numbers")
    matrix = np.array([_numbers(row, d, f"rotation of {what}") for row in rows])
    if not np.allclose(matrix @ matrix.T, np.eye(d), rtol=0, atol=1e-6) or np.linalg.det(matrix) < 0:
        raise _Wrong(f"rotation of {what} is no rotation", "expected orthonormal rows and determinant 1")
    return matrix


def _require_keys(value: dict[str, Any], keys: Sequence[str], what: str) -> None:
    odd = [key for key in value if key not in keys]
    if odd:
        raise _Wrong(f"{what} has the key {short_repr(odd[0])}", f"expected {', '.join(keys)}")


def _name(value: Any, what: str) -> FrameName:
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole and not (isinstance(value, str) and value and is_unicode(value)):
        raise _Wrong(f"{what} is {_shown(value)}", "expected a whole number or a text")
    return value


def _number(value: Any, what: str) -> float:
    return float(_numbers([value], 1, what)[0])


def _numbers(values: Any, count: int, what: str) -> Array:
    """So many finite numbers."""
    if not isinstance(values, list) or len(values) != count:
        found = f"{what} has {len(values)} values" if isinstance(values, list) else f"{what} is {_shown(values)}"
        raise _Wrong(found, f"expected {count} numbers")
    for one in values:
        if not isinstance(one, int | float) or isinstance(one, bool) or not -1e300 < one < 1e300:
            raise _Wrong(f"{what} has {_shown(one)}", "expected a finite number")
    return np.array(values, dtype=np.float64)


def _shown(value: Any) -> str:
    return "missing" if value is None else short_repr(json.dumps(value))

"""Slicer .mrk.json: one or more markups, each with a frame and control points.

Only a control point whose ``positionStatus`` is "defined" was seen; others may carry an obsolete position.  Points are
converted to LPS.
"""

from __future__ import annotations

import itertools
import json
import math
from typing import Any

import numpy as np

from ..errors import FormatError
from ..typing import Array
from . import json_document
from .capabilities import Capabilities
from .in_place import added_points, filled_points
from .json_document import Document, Number, Path
from .landmark_file import (
    SLICER_FRAMES,
    LabelledCloud,
    LandmarkFile,
    Missing,
    ReadOptions,
    labels_or_numbers,
    mark_unseen,
    numbered_labels,
    to_lps,
)
from .text import is_unicode, short_repr

HOLDS = Capabilities("Slicer markups", planar=False, frame=True, unit=True)
STATUSES = ("defined", "undefined", "preview", "missing")
SCHEMA = (
    "https://raw.githubusercontent.com/slicer/slicer/master/Modules/Loadable/Markups/Resources/Schema/"
    "markups-schema-v1.0.3.json#"
)


def parse(text: str, source: str, options: ReadOptions) -> LandmarkFile:
    document = json_document.read(text, source)
    markups = _list(document, (), "markups")
    if not markups:
        raise document.error(("markups",), "there are no markups", "expected at least one")
    paths: list[Path] = [("markups", i) for i in range(len(markups))]
    names = [_name(document, path, i, options) for i, path in enumerate(paths)]
    document.require_unique(names, paths, "markups")
    frames = [_frame(document, path) for path in paths]
    labels = [_labels(document, path) for path in paths]
    _, unlabelled = labels_or_numbers([label for one in labels for label in one])
    points, by_code = zip(
        *(_points(document, path, frame, options.missing) for path, frame in zip(paths, frames, strict=True)),
        strict=True,
    )
    clouds = tuple(
        LabelledCloud(name, part, numbered_labels(len(one)) if unlabelled else one)
        for name, part, one in zip(names, points, labels, strict=True)
    )
    if not unlabelled:
        for path, one in zip(paths, labels, strict=True):
            document.require_unique(one, [(*path, "controlPoints", i) for i in range(len(one))], "landmark")
    notes = (*_frame_notes(frames), *unlabelled, *_ignored(document))
    unit = _unit(document, paths)
    return LandmarkFile(clouds, not unlabelled, frame="LPS", unit=unit, notes=notes, marked_by_code=sum(by_code))


def _list(document: Document, path: Path, key: str) -> list[Any]:
    found = _member(document, path, key)
    if not isinstance(found, list):
        raise document.error((*path, key) if found is not None else path, f"there is no list {key!r}", "expected one")
    return found


def _member(document: Document, path: Path, key: str) -> Any:
    """Return a member of the object at ``path``, or None."""
    found = document.at(path)
    if not isinstance(found, dict):
        raise document.error(path, f"found {short_repr(str(found))}", f"expected an object {{...}} with {key!r}")
    return found.get(key)


def _text(document: Document, path: Path, key: str) -> str:
    """Return a member that is a text, or an empty text."""
    found = _member(document, path, key)
    if found is None:
        return ""
    if not _is_text(found):
        raise document.error((*path, key), f"{key} is {short_repr(str(found))}", "expected a text in quotes")
    return str(found)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and not isinstance(value, Number) and is_unicode(value)


def _name(document: Document, path: Path, index: int, options: ReadOptions) -> str:
    return _text(document, path, "name") or (f"{options.name}_{index + 1}" if index else options.name)


def _frame(document: Document, path: Path) -> str:
    found = _member(document, path, "coordinateSystem")
    if found is None:
        return "LPS"
    if not isinstance(found, str) or found not in SLICER_FRAMES:
        at = (*path, "coordinateSystem")
        raise document.error(at, f"the coordinate system is {short_repr(str(found))}", "expected LPS or RAS")
    return SLICER_FRAMES[found]


def _unit(document: Document, paths: list[Path]) -> str | None:
    units = {}
    for path in paths:
        found = _member(document, path, "coordinateUnits")
        if isinstance(found, list) and len(found) == 3:  # code, scheme and meaning, such as mm, UCUM, millimeter
            found = found[0]
        if found is not None and not _is_text(found):
            raise document.error((*path, "coordinateUnits"), f"the unit is {short_repr(str(found))}", "expected a text")
        units[found or None] = path
    if len(units) > 1:
        found = f"the markups have several units: {', '.join(str(unit) for unit in units)}"[:200]
        raise document.error(list(units.values())[-1], found, "write one file per unit")
    return next(iter(units))


def _labels(document: Document, path: Path) -> tuple[str, ...]:
    count = len(_list(document, path, "controlPoints"))
    return tuple(_text(document, (*path, "controlPoints", i), "label") for i in range(count))


def _points(document: Document, path: Path, frame: str, missing: Missing) -> tuple[Array, int]:  # (k, 3)
    """Return the points in LPS, and how many have the code ``missing``, which is in the frame of the file."""
    count = len(_list(document, path, "controlPoints"))
    rows = [_point(document, (*path, "controlPoints", i)) for i in range(count)]
    points, by_code = mark_unseen(np.array(rows, dtype=float).reshape(count, 3), missing)
    return to_lps(points, frame)[0], by_code


def _point(document: Document, path: Path) -> list[float]:
    status = _text(document, path, "positionStatus") or "defined"
    if status not in STATUSES:
        found = f"positionStatus is {short_repr(status)}"
        raise document.error((*path, "positionStatus"), found, f"expected one of {', '.join(STATUSES)}")
    if status != "defined":
        return [math.nan] * 3
    position = _member(document, path, "position")
    if not isinstance(position, list) or len(position) != 3:
        at = (*path, "position") if position is not None else path
        raise document.error(at, "a defined control point has no position", "expected three numbers")
    return [document.number((*path, "position", i)) for i in range(3)]


def _frame_notes(frames: list[str]) -> list[str]:
    if "RAS" not in frames:
        return []
    some = f"{frames.count('RAS')} of {len(frames)} markups: " if "LPS" in frames else ""
    return [f"{some}RAS converted to LPS"]


def _ignored(document: Document) -> list[str]:
    markups = document.value["markups"]
    described = sum(bool(point.get("description")) for one in markups for point in one["controlPoints"])
    kinds = {str(one.get("type")) for one in markups} - {"Fiducial", "None"}
    return [
        *([f"{described} descriptions ignored"] if described else []),
        *(f"the control points of a {short_repr(kind)} are read as landmarks" for kind in sorted(kinds)),
    ]


def fill_in(text: str, before: LandmarkFile, filled: LandmarkFile) -> str:
    """Control points keep their descriptions, markups their frame and display."""
    document = _decoded(text)
    given = zip(document["markups"], filled_points(before, filled), added_points(before, filled), strict=True)
    for markup, own, added in given:
        points, frame = markup["controlPoints"], SLICER_FRAMES[markup.get("coordinateSystem") or "LPS"]
        for j, point in own.items():
            points[j] |= {"position": _in_frame(point, frame), "positionStatus": "defined"}
        taken = {str(one.get("id")) for one in points}  # a point that was deleted leaves a gap
        free = (i for i in itertools.count(len(points)) if str(i + 1) not in taken)
        for label, point in added.items():
            points.append(_control_point(next(free), label, np.array(_in_frame(point, frame))))
    written = json.dumps(document, ensure_ascii=False, indent=4)
    return (written if is_unicode(written) else json.dumps(document, indent=4)) + "\n"


def _decoded(text: str) -> dict[str, Any]:
    """The document, all of whose numbers can be written again."""

    def finite(number: str) -> float:
        if math.isinf(float(number)):
            raise ValueError(number)
        return float(number)

    try:
        return dict(json.loads(text, parse_float=finite))
    except ValueError:  # also of an integer with more digits than Python converts
        found = "it has a number that double precision cannot hold"
        raise FormatError("", None, found, "correct the number") from None


def _in_frame(point: Array, frame: str) -> list[float]:  # (3,) in LPS
    return [float(x) for x in to_lps(point, frame)[0]]  # the conversion is its own inverse


def render(file: LandmarkFile) -> str:
    HOLDS.require(file)
    markups = [_rendered(one, file.unit) for one in file.clouds]
    return json.dumps({"@schema": SCHEMA, "markups": markups}, ensure_ascii=False, indent=1, allow_nan=False) + "\n"


def _rendered(one: LabelledCloud, unit: str | None) -> dict[str, Any]:
    units = {} if unit is None else {"coordinateUnits": unit}
    rows = enumerate(zip(one.labels, one.points, strict=True))
    points = [_control_point(i, label, point) for i, (label, point) in rows]
    return {"type": "Fiducial", "name": one.name, "coordinateSystem": "LPS", **units, "controlPoints": points}


def _control_point(index: int, label: str, point: Array) -> dict[str, Any]:
    head = {"id": str(index + 1), "label": label}
    if np.isnan(point).any():  # "missing" would be more exact, but schemas before 5.0 do not know it
        return {**head, "positionStatus": "undefined"}
    return {**head, "position": point.tolist(), "positionStatus": "defined"}

"""Slicer .mrk.json: one or more markups, each a frame and control points.

Only a control point whose ``positionStatus`` is "defined" was seen; others may carry the position of another time.
Points are read to LPS.
"""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

from ..typing import Array
from . import jsontext
from .base import (
    TO_LPS,
    Contents,
    Reading,
    Specimen,
    counted,
    is_unicode,
    kept_at,
    refuse_flat,
    refuse_unsound,
    refuse_weights,
    shortened,
)
from .jsontext import Document, Number, Path

FRAMES = {"0": "RAS", "RAS": "RAS", "1": "LPS", "LPS": "LPS"}
STATUSES = ("defined", "undefined", "preview", "missing")
SCHEMA = (
    "https://raw.githubusercontent.com/slicer/slicer/master/Modules/Loadable/Markups/Resources/Schema/"
    "markups-schema-v1.0.3.json#"
)
FORMAT = ".mrk.json"


def parse(text: str, source: str, reading: Reading) -> Contents:
    document = jsontext.read(text, source)
    markups = _list(document, (), "markups")
    if not markups:
        raise document.wrong(("markups",), "there are no markups", "expected one at least")
    paths: list[Path] = [("markups", i) for i in range(len(markups))]
    names = [_name(document, path, i, reading) for i, path in enumerate(paths)]
    document.refuse_repeats(names, paths, "markups")
    frames = [_frame(document, path) for path in paths]
    labels = [_labels(document, path) for path in paths]
    unnamed = sum(label == "" for one in labels for label in one)
    specimens = tuple(
        Specimen(name, _points(document, path, frame), counted(len(one)) if unnamed else one)
        for name, path, frame, one in zip(names, paths, frames, labels, strict=True)
    )
    if not unnamed:
        for path, one in zip(paths, labels, strict=True):
            document.refuse_repeats(one, [(*path, "controlPoints", i) for i in range(len(one))], "landmark")
    notes = _notes(document, frames, unnamed)
    notes += kept_at(specimens, reading.missing, "positionStatus is the sign of unseen points")
    return Contents(specimens, labelled=not unnamed, frame="LPS", unit=_unit(document, paths), notes=notes)


def _list(document: Document, path: Path, key: str) -> list[Any]:
    found = _member(document, path, key)
    if not isinstance(found, list):
        raise document.wrong((*path, key) if found is not None else path, f"there is no list {key!r}", "expected one")
    return found


def _member(document: Document, path: Path, key: str) -> Any:
    """A member of the object at ``path``; None where it has none."""
    found = document.at(path)
    if not isinstance(found, dict):
        raise document.wrong(path, f"found {shortened(str(found))}", f"expected an object {{...}} with {key!r}")
    return found.get(key)


def _text(document: Document, path: Path, key: str) -> str:
    """A member that is a text; empty where there is none."""
    found = _member(document, path, key)
    if found is None:
        return ""
    if not isinstance(found, str) or isinstance(found, Number) or not is_unicode(found):
        raise document.wrong((*path, key), f"{key} is {shortened(str(found))}", "expected a text in quotes")
    return found


def _name(document: Document, path: Path, index: int, reading: Reading) -> str:
    return _text(document, path, "name") or (f"{reading.name}_{index + 1}" if index else reading.name)


def _frame(document: Document, path: Path) -> str:
    found = _member(document, path, "coordinateSystem")
    if found is None:
        return "LPS"
    if not isinstance(found, str) or found not in FRAMES:
        expected = "expected LPS or RAS"
        raise document.wrong((*path, "coordinateSystem"), f"the coordinate system is {shortened(str(found))}", expected)
    return FRAMES[found]


def _unit(document: Document, paths: list[Path]) -> str | None:
    units = {}
    for path in paths:
        found = _member(document, path, "coordinateUnits")
        if isinstance(found, list) and len(found) == 3:  # code, scheme and meaning, such as mm, UCUM, millimeter
            found = found[0]
        if found is not None and (not isinstance(found, str) or isinstance(found, Number) or not is_unicode(found)):
            raise document.wrong((*path, "coordinateUnits"), f"the unit is {shortened(str(found))}", "expected a text")
        units[found or None] = path
    if len(units) > 1:
        shown = ", ".join(str(unit) for unit in units)
        raise document.wrong(
            list(units.values())[-1], f"markups of several units: {shown}"[:200], "write a file for each"
        )
    return next(iter(units))


def _labels(document: Document, path: Path) -> tuple[str, ...]:
    count = len(_list(document, path, "controlPoints"))
    return tuple(_text(document, (*path, "controlPoints", i), "label") for i in range(count))


def _points(document: Document, path: Path, frame: str) -> Array:  # (k, 3)
    count = len(_list(document, path, "controlPoints"))
    rows = [_point(document, (*path, "controlPoints", i)) for i in range(count)]
    points = np.array(rows, dtype=float).reshape(count, 3)
    return points * TO_LPS if frame == "RAS" else points


def _point(document: Document, path: Path) -> list[float]:
    status = _text(document, path, "positionStatus") or "defined"
    if status not in STATUSES:
        found = f"positionStatus is {shortened(status)}"
        raise document.wrong((*path, "positionStatus"), found, f"expected one of {', '.join(STATUSES)}")
    if status != "defined":
        return [math.nan] * 3
    position = _member(document, path, "position")
    if not isinstance(position, list) or len(position) != 3:
        place = (*path, "position") if position is not None else path
        raise document.wrong(place, "a defined control point has no position", "expected three numbers")
    return [document.number(path, "position", i) for i in range(3)]


def _notes(document: Document, frames: list[str], unnamed: int) -> tuple[str, ...]:
    notes = []
    if "RAS" in frames:
        some = f"{frames.count('RAS')} of {len(frames)} markups: " if "LPS" in frames else ""
        notes.append(f"{some}RAS converted to LPS")
    points = [point for one in document.value["markups"] for point in one["controlPoints"]]
    if unnamed:
        notes.append(f"{unnamed} of {len(points)} landmarks have no label, so all are counted")
    described = sum(bool(point.get("description")) for point in points)
    if described:
        notes.append(f"{described} descriptions left out")
    kinds = {str(one.get("type")) for one in document.value["markups"]} - {"Fiducial", "None"}
    notes += [f"the control points of a {shortened(kind)} are read as landmarks" for kind in sorted(kinds)]
    return tuple(notes)


def render(contents: Contents) -> str:
    refuse_unsound(contents, FORMAT)
    refuse_weights(contents, FORMAT)
    refuse_flat(contents, FORMAT)
    markups = [_rendered(one, contents.unit) for one in contents.specimens]
    return json.dumps({"@schema": SCHEMA, "markups": markups}, ensure_ascii=False, indent=1, allow_nan=False) + "\n"


def _rendered(one: Specimen, unit: str | None) -> dict[str, Any]:
    units = {} if unit is None else {"coordinateUnits": unit}
    rows = enumerate(zip(one.labels, one.points, strict=True))
    points = [_control_point(i, label, point) for i, (label, point) in rows]
    return {"type": "Fiducial", "name": one.name, "coordinateSystem": "LPS", **units, "controlPoints": points}


def _control_point(index: int, label: str, point: Array) -> dict[str, Any]:
    head = {"id": str(index + 1), "label": label}
    if np.isnan(point).any():  # "missing" would be the better word; schemas before 5.0 do not know it
        return {**head, "positionStatus": "undefined"}
    return {**head, "position": point.tolist(), "positionStatus": "defined"}

"""Slicer .fcsv: header lines that begin with #, then one row of fields a point.

Slicer 4 and 5 name their version, the frame and the columns; from 5.2 rows end with two fields more than the columns
that are announced, the first of which says whether the position is defined.  Slicer 3 names no version: its rows are
``label,x,y,z,sel,vis`` in RAS.  Points are read to LPS.
"""

from __future__ import annotations

import math

import numpy as np

from ..errors import FormatError
from .base import (
    TO_LPS,
    Contents,
    Lines,
    Reading,
    Specimen,
    counted,
    refuse_flat,
    refuse_missing,
    refuse_names,
    refuse_repeats,
    refuse_several,
    refuse_unsound,
    refuse_weights,
    shortened,
    text_of,
    unseen_at,
)
from .rows import line_of, rows_of

FRAMES = {"0": "RAS", "RAS": "RAS", "1": "LPS", "LPS": "LPS"}
SLICER3 = "label,x,y,z,sel,vis"
SLICER4 = "id,x,y,z,ow,ox,oy,oz,vis,sel,lock,label,desc,associatedNodeID"
NEEDED = ("x", "y", "z", "label")
DEFINED = {"0": False, "1": False, "2": True, "3": False}  # undefined, preview, defined, missing
FORMAT = ".fcsv"


def parse(text: str, source: str, reading: Reading) -> Contents:
    lines = Lines(source, text)
    facts = _header(lines)
    frame = _frame(facts, source)
    columns = _columns(facts, source)
    rows = _rows(lines, columns)
    _check_count(facts, len(rows), source)
    points = np.array([_point(lines, number, row, columns) for number, row in rows])
    points, notes = unseen_at(points, reading.missing)  # in the frame of the file, as the number is
    if frame == "RAS":
        points, notes = points * TO_LPS, (*notes, "RAS converted to LPS")
    given = [row[columns["label"]] for _, row in rows]
    unnamed = given.count("")
    if unnamed:
        notes += (f"{unnamed} of {len(given)} landmarks have no label, so all are counted",)
    else:
        refuse_repeats(source, given, [number for number, _ in rows], "landmark")
    described = sum(bool(row[columns["desc"]]) for _, row in rows) if "desc" in columns else 0
    notes += (f"{described} descriptions left out",) if described else ()
    specimen = Specimen(reading.name, points, counted(len(given)) if unnamed else tuple(given))
    return Contents((specimen,), labelled=not unnamed, frame="LPS", notes=notes)


def _header(lines: Lines) -> dict[str, tuple[int, str]]:
    """What the lines ``# key = value`` say, each with its line."""
    facts: dict[str, tuple[int, str]] = {}
    while lines.more() and (lines.peek().startswith("#") or not lines.peek().strip()):
        key, equals, value = lines.next("").lstrip("#").partition("=")
        key = key.strip().lower()
        if equals and key in facts:
            raise lines.wrong(f"{shortened(key)} is given again after line {facts[key][0]}", "expected it once")
        if equals:
            facts[key] = lines.number, value.strip()
    return facts


def _is_slicer4(facts: dict[str, tuple[int, str]]) -> bool:
    return "markups fiducial file version" in facts


def _frame(facts: dict[str, tuple[int, str]], source: str) -> str:
    if "coordinatesystem" not in facts:
        if _is_slicer4(facts):
            raise FormatError(
                source, 1, "the file does not name its frame", "add a line # CoordinateSystem = LPS or RAS"
            )
        return "RAS"
    number, value = facts["coordinatesystem"]
    if value.upper() not in FRAMES:
        raise FormatError(source, number, f"the coordinate system is {shortened(value)}", "expected LPS, RAS, 0 or 1")
    return FRAMES[value.upper()]


def _columns(facts: dict[str, tuple[int, str]], source: str) -> dict[str, int]:
    number, value = facts.get("columns", (1, SLICER4 if _is_slicer4(facts) else SLICER3))
    names = [name.strip() for name in value.split(",")]
    missing = [name for name in NEEDED if names.count(name) != 1]
    if missing:
        raise FormatError(source, number, f"{missing[0]!r} is not among the columns once", f"expected {SLICER4}")
    return {name: at for at, name in enumerate(names)}


def _check_count(facts: dict[str, tuple[int, str]], count: int, source: str) -> None:
    number, announced = facts.get("numpoints", (1, str(count)))  # Slicer 3
    if announced != str(count):
        raise FormatError(
            source, number, f"{shortened(announced)} points are announced", f"expected {count}, as follow"
        )


def _rows(lines: Lines, columns: dict[str, int]) -> list[tuple[int, list[str]]]:
    """The rows below the header; no field spans lines, since Slicer reads line by line."""
    width = max(columns.values()) + 1
    widths = (width, width + 2) if "associatedNodeID" in columns else (width,)
    rows = []
    while lines.more():
        line = lines.next("")
        if not line.strip():
            continue
        if line.startswith("#"):
            raise lines.wrong(f"found {shortened(line)} below the points", "expected header lines above all points")
        try:
            fields = rows_of(line, lines.source)[0][1]
        except FormatError as problem:
            raise lines.wrong(problem.found, problem.expected) from None
        if len(fields) not in widths:
            raise lines.wrong(f"found {len(fields)} fields", f"expected the {width} columns {','.join(columns)}"[:200])
        rows.append((lines.number, fields))
    if not rows:
        raise lines.wrong("there are no points", "expected one row a point")
    return rows


def _point(lines: Lines, number: int, row: list[str], columns: dict[str, int]) -> list[float]:
    lines.number = number
    if len(row) > max(columns.values()) + 1:
        status = row[-2].strip()
        if status not in DEFINED:
            raise lines.wrong(f"the status of the position is {shortened(status)}", f"expected {', '.join(DEFINED)}")
        if not DEFINED[status]:
            return [math.nan] * 3
    return lines.point_in([row[columns[axis]] for axis in "xyz"], 3)


def render(contents: Contents) -> str:
    refuse_unsound(contents, FORMAT)
    refuse_weights(contents, FORMAT)
    refuse_several(contents, FORMAT)
    refuse_flat(contents, FORMAT)
    refuse_missing(contents.specimens, FORMAT, "write .mrk.json or CSV instead")
    one = contents.specimens[0]
    refuse_names(one.labels, _fits, FORMAT, "has an end of line")
    head = f"# Markups fiducial file version = 4.13\n# CoordinateSystem = LPS\n# columns = {SLICER4}\n"
    rows = zip(one.labels, one.points, strict=True)
    return head + "".join(_rendered(i, label, point.tolist()) for i, (label, point) in enumerate(rows))


def _fits(label: str) -> bool:
    return "\n" not in label and "\r" not in label


def _rendered(index: int, label: str, point: list[float]) -> str:
    turned, shown = ("0", "0", "0", "1"), ("1", "1", "0")
    return line_of([str(index + 1), *map(text_of, point), *turned, *shown, label, "", ""])

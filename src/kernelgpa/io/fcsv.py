"""Slicer .fcsv: header lines that begin with #, then one row of fields per point.

Slicer 4 and 5 state their version, the frame and the columns; from 5.2 on rows end with two fields more than the
columns that are announced, the first of which states whether the position is defined.  Slicer 3 states no version: its
rows are ``label,x,y,z,sel,vis`` in RAS.  Points are converted to LPS.
"""

from __future__ import annotations

import math

import numpy as np

from ..errors import FormatError
from ..typing import Array
from .capabilities import Capabilities
from .csv_table import csv_line, read_rows
from .in_place import added_points, filled_points, split_lines, with_end_of
from .landmark_file import (
    SLICER_FRAMES,
    LabelledCloud,
    LandmarkFile,
    ReadOptions,
    labels_or_numbers,
    mark_unseen,
    require_unique,
    to_lps,
)
from .text import Lines, format_number, is_blank, short_repr

HOLDS = Capabilities("Slicer fiducials", several=False, names=False, planar=False, unseen=False, frame=True)
SLICER3 = "label,x,y,z,sel,vis"
SLICER4 = "id,x,y,z,ow,ox,oy,oz,vis,sel,lock,label,desc,associatedNodeID"
REQUIRED_FIELDS = ("x", "y", "z", "label")
IS_DEFINED = {"0": False, "1": False, "2": True, "3": False}  # undefined, preview, defined, missing

Header = dict[str, tuple[int, str]]  # key -> its line, its value


def parse(text: str, source: str, options: ReadOptions) -> LandmarkFile:
    lines = Lines(source, text)
    header = _header(lines)
    frame = _frame(header, source)
    columns = _columns(header, source)
    rows = _rows(lines, columns)
    _require_count(header, len(rows), source)
    points = np.array([_point(lines, number, row, columns) for number, row in rows])
    points, by_code = mark_unseen(points, options.missing)  # in the frame of the file, as the number is
    points, converted = to_lps(points, frame)
    labels, numbered = labels_or_numbers([row[columns["label"]] for _, row in rows])
    require_unique(source, labels, [number for number, _ in rows], "landmark")
    described = sum(bool(row[columns["desc"]]) for _, row in rows) if "desc" in columns else 0
    notes = (*converted, *numbered, *([f"{described} descriptions ignored"] if described else []))
    cloud = LabelledCloud(options.name, points, labels)
    return LandmarkFile((cloud,), labelled=not numbered, frame="LPS", notes=notes, marked_by_code=by_code)


def _header(lines: Lines) -> Header:
    """Return what the lines ``# key = value`` state."""
    header: Header = {}
    while lines.has_more() and (lines.peek().startswith("#") or is_blank(lines.peek())):
        key, equals, value = lines.next("").lstrip("#").partition("=")
        key = key.strip().lower()
        if equals and key in header:
            raise lines.error(f"{short_repr(key)} is also in line {header[key][0]}", "expected it once")
        if equals:
            header[key] = lines.line_number, value.strip()
    return header


def _is_slicer4(header: Header) -> bool:
    return "markups fiducial file version" in header


def _frame(header: Header, source: str) -> str:
    if "coordinatesystem" not in header:
        if _is_slicer4(header):
            found = "the file does not state its frame"
            raise FormatError(source, 1, found, "add a line # CoordinateSystem = LPS or RAS")
        return "RAS"
    line, value = header["coordinatesystem"]
    if value.upper() not in SLICER_FRAMES:
        raise FormatError(source, line, f"the coordinate system is {short_repr(value)}", "expected LPS, RAS, 0 or 1")
    return SLICER_FRAMES[value.upper()]


def _columns(header: Header, source: str) -> dict[str, int]:
    line, value = header.get("columns", (1, SLICER4 if _is_slicer4(header) else SLICER3))
    names = [name.strip() for name in value.split(",")]
    missing = [name for name in REQUIRED_FIELDS if names.count(name) != 1]
    if missing:
        raise FormatError(source, line, f"{missing[0]!r} is not exactly once among the columns", f"expected {SLICER4}")
    return {name: at for at, name in enumerate(names)}


def _require_count(header: Header, count: int, source: str) -> None:
    line, announced = header.get("numpoints", (1, str(count)))  # Slicer 3
    if announced != str(count):
        found = f"{short_repr(announced)} points are announced, but {count} follow"
        raise FormatError(source, line, found, "correct the number, or add the points")


def _rows(lines: Lines, columns: dict[str, int]) -> list[tuple[int, list[str]]]:
    """Return the rows below the header; no field spans lines, because Slicer reads line by line."""
    width = max(columns.values()) + 1
    widths = (width, width + 2) if "associatedNodeID" in columns else (width,)
    rows = []
    while lines.has_content():
        line = lines.next("")
        if line.startswith("#"):
            raise lines.error(f"found {short_repr(line)} below the points", "expected header lines above all points")
        try:
            fields = read_rows(line, lines.source)[0][1]
        except FormatError as problem:
            raise lines.error(problem.found, problem.expected) from None
        if len(fields) not in widths:
            raise lines.error(f"found {len(fields)} fields", f"expected the {width} columns {','.join(columns)}"[:200])
        rows.append((lines.line_number, fields))
    if not rows:
        raise lines.error("there are no points", "expected one row per point")
    return rows


def _point(lines: Lines, number: int, row: list[str], columns: dict[str, int]) -> list[float]:
    lines.line_number = number
    if len(row) > max(columns.values()) + 1:
        status = row[-2].strip()
        if status not in IS_DEFINED:
            found = f"the status of the position is {short_repr(status)}"
            raise lines.error(found, f"expected {', '.join(IS_DEFINED)}")
        if not IS_DEFINED[status]:
            return [math.nan] * 3
    return lines.parse_point([row[columns[axis]] for axis in "xyz"], 3)


def fill_in(text: str, before: LandmarkFile, filled: LandmarkFile) -> str | None:
    """Rows keep their other fields, and the file its frame; a landmark that is not listed becomes a row at the end."""
    header, lines = _header(Lines("", text)), split_lines(text)
    columns, frame = _columns(header, ""), _frame(header, "")
    rows = [i for i, line in enumerate(lines) if not line.startswith("#") and not is_blank(line)]
    (own,), (added,) = filled_points(before, filled), added_points(before, filled)
    if added and "numpoints" in header:
        return None
    for j, point in own.items():
        fields = _filled_fields(lines[rows[j]], columns, to_lps(point, frame)[0])
        lines[rows[j]] = with_end_of(lines[rows[j]], csv_line(fields).removesuffix("\n"))
    last = lines[rows[-1]].rstrip("\r\n") + "\n"
    lines[rows[-1]] = last if added else lines[rows[-1]]
    for j, (label, point) in enumerate(added.items(), start=len(rows)):
        fields = _filled_fields(last, columns, to_lps(point, frame)[0])
        for name, value in (("id", str(j + 1)), ("label", label), ("desc", "")):
            if name in columns:
                fields[columns[name]] = value
        lines.append(csv_line(fields))
    return "".join(lines)


def _filled_fields(line: str, columns: dict[str, int], point: Array) -> list[str]:  # (3,) in the frame of the file
    """The fields of a row with other coordinates, and with the status of a defined position if there is one."""
    fields = read_rows(line, "")[0][1]
    for axis, x in zip("xyz", point.tolist(), strict=True):
        fields[columns[axis]] = format_number(x)
    if len(fields) > max(columns.values()) + 1:
        fields[-2] = "2"
    return fields


def render(file: LandmarkFile) -> str:
    HOLDS.require(file)
    one = file.clouds[0]
    HOLDS.require_names(one.labels, _has_no_line_end, "contains a line end")
    head = f"# Markups fiducial file version = 4.13\n# CoordinateSystem = LPS\n# columns = {SLICER4}\n"
    rows = zip(one.labels, one.points, strict=True)
    return head + "".join(_rendered(i, label, point.tolist()) for i, (label, point) in enumerate(rows))


def _has_no_line_end(label: str) -> bool:
    return "\n" not in label and "\r" not in label


def _rendered(index: int, label: str, point: list[float]) -> str:
    orientation, visible_selected_locked = ("0", "0", "0", "1"), ("1", "1", "0")
    coordinates = map(format_number, point)
    return csv_line([str(index + 1), *coordinates, *orientation, *visible_selected_locked, label, "", ""])

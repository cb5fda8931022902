"""CSV, in two layouts that the header distinguishes.  Empty coordinates mean "not seen".

    long   one row per point: ``cloud,landmark,x,y[,z][,weight]``, columns in any order; specimen, individual, frame,
           name or id may stand for cloud, and marker or point for landmark
    wide   one row per cloud: its name, then ``lm1_x,lm1_y[,lm1_z][,lm1_weight],...``, or ``1.X,1.Y,...`` as
           two.d.array of geomorph names them, or ``X1,Y1,...``; clouds without a column of names are numbered

R's ``NA`` and ``NaN`` mean "not seen" too.  The writer uses the long layout, which can hold clouds with different
landmarks.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

import numpy as np

from ..errors import FormatError
from ..observations.tables import AXES, coordinate_column
from ..typing import Array
from .capabilities import Capabilities
from .csv_table import Row, csv_line, parse_point, parse_weight, point_fields, read_table
from .in_place import added_points, filled_points, split_lines, with_end_of
from .landmark_file import LabelledCloud, LandmarkFile, ReadOptions, numbered_names, require_unique
from .text import format_number, short_repr

HOLDS = Capabilities("CSV", weights=True)
REQUIRED_COLUMNS = ("cloud", "landmark", "x", "y")
KNOWN_COLUMNS = (*REQUIRED_COLUMNS, "z", "weight")
INSTEAD_OF = {  # other names of columns of the long layout, used if there is none of the first name
    "cloud": ("specimen", "individual", "frame", "name", "id"),
    "landmark": ("marker", "point"),
}
SPECIMEN_COLUMNS = ("specimen", "individual")
FIRST_COLUMN = ("cloud", "name", "id", "specimen", "individual", "")  # of the wide layout
GEOMORPH_COLUMN = re.compile(r"[XYZ][0-9]+|[0-9]+\.[XYZ]")

LINE_END = re.compile(r"\r\n|\r|\n")

WideColumns = dict[str, dict[str, int]]  # label -> axis or "weight" -> index of the column


def parse(text: str, source: str, options: ReadOptions) -> LandmarkFile:
    (line, header), rows = read_table(text, source, row_names=True)
    names = {name.lower() for name in header}
    is_long = not names.isdisjoint(("landmark", *INSTEAD_OF["landmark"])) or {"x", "y"} <= names
    unnamed = not is_long and coordinate_column(header[0]) is not None
    if unnamed:
        header, rows = ["", *header], _numbered(rows, options.name)
    clouds, ignored = (_long_clouds if is_long else _wide_clouds)(header, line, rows, source)
    notes = tuple(f"column {short_repr(name)} ignored" for name in ignored)
    notes += ("there is no column of names; clouds are numbered",) if unnamed else ()
    kind = _long_kind(names) if is_long else "specimen" if _is_morphometric(header) else "cloud"
    return LandmarkFile(tuple(clouds), labelled=True, notes=notes, kind=kind).marking(options.missing)


def _long_kind(names: set[str]) -> str:
    """What a long table calls a cloud; a sensor has frames too, but no markers."""
    if "cloud" in names:
        return "cloud"
    if not names.isdisjoint(SPECIMEN_COLUMNS):
        return "specimen"
    return "frame" if "marker" in names and "landmark" not in names else "cloud"


def _is_morphometric(header: list[str]) -> bool:
    """Whether the rows of a wide table are called specimens, or its columns are named as those of geomorph."""
    first = header[0].lower()
    geomorph = len(header) > 1 and GEOMORPH_COLUMN.fullmatch(header[1]) is not None
    return first in SPECIMEN_COLUMNS or (geomorph and first != "cloud")


def _numbered(rows: list[Row], name: str) -> list[Row]:
    """Return rows with a name in front, for tables without a column of names."""
    names = numbered_names(name, len(rows))
    return [(line, [own, *fields]) for own, (line, fields) in zip(names, rows, strict=True)]


# -- long --


@dataclass
class _RowsOfCloud:
    points: list[list[float]] = field(default_factory=list)
    lines: dict[str, int] = field(default_factory=dict)  # label -> its line
    weights: list[float] = field(default_factory=list)


def _long_clouds(
    header: list[str], header_line: int, rows: list[Row], source: str
) -> tuple[list[LabelledCloud], list[str]]:
    columns = _long_columns(header, source, header_line)
    clouds: dict[str, _RowsOfCloud] = {}
    for row in rows:
        _add_point(clouds, row, columns, source)
    known = _standard_names(header)
    ignored = [name for name, own in zip(header, known, strict=True) if own not in KNOWN_COLUMNS]
    return [_cloud(name, one.points, tuple(one.lines), one.weights) for name, one in clouds.items()], ignored


def _long_columns(header: list[str], source: str, line: int) -> dict[str, int]:
    names = _standard_names(header)
    for name in KNOWN_COLUMNS:
        if names.count(name) > 1:
            raise FormatError(source, line, f"there are {names.count(name)} columns {name!r}", "expected one")
    missing = [name for name in REQUIRED_COLUMNS if name not in names]
    if missing:
        found = f"there is no column {missing[0]!r} among {', '.join(map(short_repr, header[:20]))}"
        raise FormatError(source, line, found, "expected the columns cloud,landmark,x,y[,z][,weight]")
    return {name: names.index(name) for name in KNOWN_COLUMNS if name in names}


def _standard_names(header: list[str]) -> list[str]:
    """Return the names of the columns in small letters, with cloud and landmark for the names that replace these."""
    names = [name.lower() for name in header]
    for own, others in INSTEAD_OF.items():
        found = None if own in names else next((one for one in others if one in names), None)
        names = [own if name == found else name for name in names]
    return names


def _add_point(clouds: dict[str, _RowsOfCloud], row: Row, columns: dict[str, int], source: str) -> None:
    line, fields = row
    if not any(field.strip() for field in fields):  # spreadsheets write such rows below a table
        return
    value = {name: fields[at] for name, at in columns.items()}
    if not value["cloud"] or not value["landmark"]:
        raise FormatError(source, line, "a cloud or a landmark has no name", "give each a name")
    cloud, label = clouds.setdefault(value["cloud"], _RowsOfCloud()), value["landmark"]
    if label in cloud.lines:
        found = f"landmark {short_repr(label)} of cloud {short_repr(value['cloud'])} is also in line"
        raise FormatError(source, line, f"{found} {cloud.lines[label]}", "keep one of the two rows")
    axes = [axis for axis in AXES if axis in value]
    point = parse_point([value[axis] for axis in axes], source, line)
    cloud.lines[label] = line
    cloud.points.append(point or [math.nan] * len(axes))
    if "weight" in value:
        cloud.weights.append(parse_weight(value["weight"], point is not None, source, line))


def _cloud(name: str, points: list[list[float]], labels: tuple[str, ...], weights: list[float]) -> LabelledCloud:
    return LabelledCloud(name, np.array(points), labels, np.array(weights) if weights else None)


# -- wide --


def _wide_clouds(
    header: list[str], header_line: int, rows: list[Row], source: str
) -> tuple[list[LabelledCloud], list[str]]:
    columns, ignored = _wide_columns(header, source, header_line)
    axes = _require_same_columns(columns, source, header_line)
    for line, row in rows:
        if not row[0]:
            raise FormatError(source, line, "the cloud has no name", "give it one in the first column")
    require_unique(source, [row[0] for _, row in rows], [line for line, _ in rows], "cloud")
    return [_wide_cloud(row, columns, axes, source) for row in rows], ignored


def _wide_columns(header: list[str], source: str, line: int) -> tuple[WideColumns, list[str]]:
    """Return the columns of each landmark, and those that are no coordinates."""
    if header[0].lower() not in FIRST_COLUMN:
        found = f"the first column is {short_repr(header[0])}"
        raise FormatError(source, line, found, "expected cloud, name, id or specimen, or a coordinate such as X1")
    columns: WideColumns = {}
    ignored: list[str] = []
    for at, name in enumerate(header[1:], start=1):
        found_column = coordinate_column(name)
        if found_column is None:
            ignored.append(name)
            continue
        label, axis = found_column
        axes = columns.setdefault(label, {})
        if axis in axes:
            raise FormatError(source, line, f"column {short_repr(name)} occurs twice", "expected it once")
        axes[axis] = at
    return columns, ignored


def _require_same_columns(columns: WideColumns, source: str, line: int) -> str:
    """Return the axes, which every landmark must have."""
    if not columns:
        raise FormatError(source, line, "no column is a coordinate", "expected columns such as lm1_x,lm1_y")
    axes = "xyz" if any("z" in one for one in columns.values()) else "xy"
    weighted = any("weight" in one for one in columns.values())
    for label, one in columns.items():
        for required in (*axes, *(["weight"] if weighted else [])):
            if required not in one:
                found = f"landmark {short_repr(label)} has no column {short_repr(f'{label}_{required}')}"
                raise FormatError(source, line, found, "add it, because other landmarks have one")
    return axes


def _wide_cloud(row: Row, columns: WideColumns, axes: str, source: str) -> LabelledCloud:
    line, fields = row
    points, weights = [], []
    for at in columns.values():
        point = parse_point([fields[at[axis]] for axis in axes], source, line)
        points.append(point or [math.nan] * len(axes))
        if "weight" in at:
            weights.append(parse_weight(fields[at["weight"]], point is not None, source, line))
    return _cloud(fields[0], points, tuple(columns), weights)


# -- writing --


def fill_in(text: str, before: LandmarkFile, filled: LandmarkFile) -> str | None:
    """The table keeps its layout and its other columns."""
    (_, header), rows = read_table(text, "", row_names=True)
    names = {name.lower() for name in header}
    is_long = "landmark" in names or {"x", "y"} <= names
    changed = (_changed_long_rows if is_long else _changed_wide_rows)(header, rows, before, filled)
    added = _added_rows(header, before, filled) if is_long else []
    if not is_long and any(added_points(before, filled)):
        return None
    lines = split_lines(text)
    for line, fields in changed:
        last = line - 1 + sum(len(LINE_END.findall(field)) for field in fields)  # quoted fields hold line ends
        lines[last] = with_end_of(lines[last], csv_line(fields).removesuffix("\n"))
        lines[line - 1 : last] = [""] * (last - line + 1)
    if added and not lines[-1].endswith(("\n", "\r")):
        lines[-1] += "\n"
    return "".join([*lines, *added])


def _changed_long_rows(header: list[str], rows: list[Row], before: LandmarkFile, filled: LandmarkFile) -> list[Row]:
    columns, changed = _long_columns(header, "", 1), []
    positions = {
        (cloud.name, cloud.labels[j]): point
        for cloud, own in zip(before.clouds, filled_points(before, filled), strict=True)
        for j, point in own.items()
    }
    for line, row in rows:
        key = row[columns["cloud"]], row[columns["landmark"]]
        if key in positions:
            changed.append((line, _with_point(row, columns, positions[key])))
    return changed


def _changed_wide_rows(header: list[str], rows: list[Row], before: LandmarkFile, filled: LandmarkFile) -> list[Row]:
    unnamed = coordinate_column(header[0]) is not None
    columns, _ = _wide_columns(["", *header] if unnamed else header, "", 1)
    changed = []
    for (line, row), own, cloud in zip(rows, filled_points(before, filled), before.clouds, strict=True):
        fields = ["", *row] if unnamed else row
        for j, point in own.items():
            fields = _with_point(fields, columns[cloud.labels[j]], point)
        if own:
            changed.append((line, fields[1:] if unnamed else fields))
    return changed


def _added_rows(header: list[str], before: LandmarkFile, filled: LandmarkFile) -> list[str]:
    columns, added = _long_columns(header, "", 1), []
    for cloud, own in zip(before.clouds, added_points(before, filled), strict=True):
        for label, point in own.items():
            row = [""] * len(header)
            row[columns["cloud"]], row[columns["landmark"]] = cloud.name, label
            added.append(csv_line(_with_point(row, columns, point)))
    return added


def _with_point(row: list[str], columns: dict[str, int], point: Array) -> list[str]:
    """The fields of a row with the coordinates of a point, and with the weight 1 if that field is empty or 0."""
    fields = list(row)
    for axis, x in zip(AXES, point.tolist(), strict=False):
        fields[columns[axis]] = format_number(x)
    if "weight" in columns and not float(fields[columns["weight"]].strip() or 0):  # 0 would be read as not seen
        fields[columns["weight"]] = "1.0"
    return fields


def render(file: LandmarkFile) -> str:
    HOLDS.require(file)
    weighted = any(one.weights is not None for one in file.clouds)
    axes = AXES[: file.clouds[0].points.shape[1]]
    header = csv_line(["cloud", "landmark", *axes, *(["weight"] if weighted else [])])
    return header + "".join(_rendered(one, weighted) for one in file.clouds)


def _rendered(one: LabelledCloud, weighted: bool) -> str:
    weights = np.ones(len(one.labels)) if one.weights is None else one.weights  # without weights all are equal
    rows = zip(one.labels, one.points, weights, strict=True)
    return "".join(
        csv_line([one.name, label, *point_fields(point), *([format_number(weight)] if weighted else [])])
        for label, point, weight in rows
    )

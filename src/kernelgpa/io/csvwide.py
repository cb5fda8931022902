"""CSV with one row a cloud: its name, then ``lm1_x,lm1_y[,lm1_z][,lm1_weight],...``; empty coordinates are unseen.

A dot may stand for the underscore.  The first column is headed cloud, name or id, or not at all.
"""

from __future__ import annotations

import math
import re

import numpy as np

from ..errors import FormatError
from .base import (
    AXES,
    Contents,
    Reading,
    Specimen,
    kept_at,
    one_line,
    refuse_names,
    refuse_repeats,
    refuse_unsound,
    shortened,
    stacked,
    text_of,
)
from .rows import Row, cells_of, line_of, point_of, table_of, weight_of

FIRST = ("cloud", "name", "id", "")
FORMAT = "wide CSV"
_COLUMN = re.compile(r"(.+)[_.](x|y|z|weight)", re.IGNORECASE | re.DOTALL)

Columns = dict[str, dict[str, int]]  # label -> axis -> index of the column


def parse(text: str, source: str, reading: Reading) -> Contents:
    (begins, header), rows = table_of(text, source)
    columns, left_out = _columns(header, source, begins)
    axes = _axes(columns, source, begins)
    names = [row[0] for _, row in rows]
    for line, row in rows:
        if not row[0]:
            raise FormatError(source, line, "the cloud has no name", "give it one in the first column")
    refuse_repeats(source, names, [line for line, _ in rows], "cloud")
    specimens = tuple(_specimen(row, columns, axes, source) for row in rows)
    kept = kept_at(specimens, reading.missing, "empty fields are the sign of unseen points")
    return Contents(specimens, labelled=True, notes=(*left_out, *kept))


def _columns(header: list[str], source: str, line: int) -> tuple[Columns, list[str]]:
    """Where the coordinates of each landmark stand, and notes on columns that are none."""
    if header[0].lower() not in FIRST:
        raise FormatError(source, line, f"the first column is {shortened(header[0])}", "expected cloud, name or id")
    columns: Columns = {}
    left_out: list[str] = []
    for at, name in enumerate(header[1:], start=1):
        match = _COLUMN.fullmatch(name)
        if match is None:
            left_out.append(f"column {shortened(name)} left out")
            continue
        axes = columns.setdefault(match[1], {})
        if match[2].lower() in axes:
            raise FormatError(source, line, f"column {shortened(name)} is given again", "expected it once")
        axes[match[2].lower()] = at
    return columns, left_out


def _axes(columns: Columns, source: str, line: int) -> str:
    """The axes that every landmark must have."""
    if not columns:
        raise FormatError(source, line, "no column is a coordinate", "expected columns such as lm1_x,lm1_y")
    axes = "xyz" if any("z" in one for one in columns.values()) else "xy"
    weighted = any("weight" in one for one in columns.values())
    for label, one in columns.items():
        for need in (*axes, *(["weight"] if weighted else [])):
            if need not in one:
                found = f"landmark {shortened(label)} has no column {shortened(f'{label}_{need}')}"
                raise FormatError(source, line, found, f"it has {', '.join(one)}; the others have {need}")
    return axes


def _specimen(row: Row, columns: Columns, axes: str, source: str) -> Specimen:
    line, fields = row
    points, weights = [], []
    for at in columns.values():
        point = point_of([fields[at[axis]] for axis in axes], source, line)
        points.append(point or [math.nan] * len(axes))
        if "weight" in at:
            weights.append(weight_of(fields[at["weight"]], point is not None, source, line))
    return Specimen(fields[0], np.array(points), tuple(columns), np.array(weights) if weights else None)


def render(contents: Contents) -> str:
    refuse_unsound(contents, FORMAT)
    labels = contents.specimens[0].labels
    refuse_names(labels, one_line, FORMAT, "begins or ends with a space, or has an end of line")
    stacked(contents, FORMAT)
    weighted = any(one.weights is not None for one in contents.specimens)
    ends = [*AXES[: contents.specimens[0].points.shape[1]], *(["weight"] if weighted else [])]
    header = line_of(["cloud", *(f"{label}_{end}" for label in labels for end in ends)])
    return header + "".join(_rendered(one, weighted) for one in contents.specimens)


def _rendered(one: Specimen, weighted: bool) -> str:
    weights = np.ones(len(one.labels)) if one.weights is None else one.weights  # none given are all alike
    cells = [one.name]
    for point, weight in zip(one.points, weights, strict=True):
        cells += [*cells_of(point), *([text_of(weight)] if weighted else [])]
    return line_of(cells)

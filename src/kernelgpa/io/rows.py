"""Rows of comma-separated fields, each with the number of the line on which it begins."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

import numpy as np

from ..errors import FormatError
from ..typing import Array
from .base import number_in, shortened

Row = tuple[int, list[str]]


def rows_of(text: str, source: str) -> list[Row]:
    """All rows that are not blank; quotes may hold commas, quotes and ends of lines."""
    reader = csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""), strict=True)
    rows: list[Row] = []
    while True:
        begins = reader.line_num + 1
        try:
            fields = next(reader)
        except StopIteration:
            return rows
        except csv.Error as problem:
            raise FormatError(source, begins, f"the row is no CSV ({problem})", "check its quotes") from None
        if fields:
            rows.append((begins, fields))


def table_of(text: str, source: str) -> tuple[Row, list[Row]]:
    """The header, stripped, and the rows below it, which have as many fields."""
    begin = text.removeprefix("\ufeff").lstrip("\r\n").split("\n", 2)[:2]
    if max(_count(begin, ";"), _count(begin, "\t")) > _count(begin, ","):
        found = "the fields are separated by semicolons or tabs"
        raise FormatError(source, 1, found, "separate them by commas, and write numbers with a decimal point")
    rows = rows_of(text, source)
    if not rows:
        raise FormatError(source, 1, "the file is empty", "expected a header and rows")
    begins, fields = rows[0]
    header = [field.strip() for field in fields]
    for line, row in rows[1:]:
        if len(row) != len(header):
            expected = f"expected {len(header)} as in the header; numbers take a decimal point, not a comma"
            raise FormatError(source, line, f"found {len(row)} fields", expected)
    if len(rows) == 1:
        raise FormatError(source, begins, "there is no row below the header", "expected one at least")
    return (begins, header), rows[1:]


def _count(lines: Sequence[str], separator: str) -> int:
    """Fields of some lines, if that separates them."""
    try:
        return sum(len(fields) for fields in csv.reader(lines, delimiter=separator))
    except csv.Error:  # which whoever reads the rows will tell
        return 0


def quoted(field: str) -> str:
    """A field as it stands in a row."""
    return '"' + field.replace('"', '""') + '"' if any(c in field for c in ',"\r\n') else field


def line_of(fields: Sequence[str]) -> str:
    return ",".join(map(quoted, fields)) + "\n"


def point_of(fields: Sequence[str], source: str, line: int) -> list[float] | None:
    """The coordinates of a point; None where all fields are empty, which is how a table says "not seen"."""
    empty = [not field.strip() for field in fields]
    if all(empty):
        return None
    if any(empty):
        raise FormatError(source, line, "some coordinates are empty", "expected all (the point is unseen) or none")
    return [number_in(field, source, line, "a coordinate, or nothing where it was not seen") for field in fields]


def weight_of(field: str, seen: bool, source: str, line: int) -> float:
    """A weight; an unseen point needs none."""
    if not seen and not field.strip():
        return 0.0
    weight = number_in(field, source, line, "a weight")
    if weight < 0:
        raise FormatError(source, line, f"the weight is {shortened(field)}", "expected at least 0")
    return weight


def cells_of(point: Array) -> list[str]:  # (d,)
    """The coordinates of a point as fields, empty where it was not seen."""
    return ["" if np.isnan(x) else repr(float(x)) for x in point]

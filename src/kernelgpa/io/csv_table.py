"""Rows of comma-separated fields, each with the number of the line on which it begins."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

import numpy as np

from ..errors import FormatError
from ..typing import Array
from .text import format_number, parse_number, short_repr

NOT_SEEN = ("", "na", "nan")

Row = tuple[int, list[str]]  # the number of its first line, its fields


def read_rows(text: str, source: str) -> list[Row]:
    """Return all rows that are not blank; quoted fields may contain commas, quotes and line ends."""
    reader = csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""), strict=True)
    rows: list[Row] = []
    while True:
        first_line = reader.line_num + 1
        try:
            fields = next(reader)
        except StopIteration:
            return rows
        except csv.Error as problem:
            raise FormatError(source, first_line, f"the row is not valid CSV ({problem})", "check its quotes") from None
        if fields:
            rows.append((first_line, fields))


def read_table(text: str, source: str) -> tuple[Row, list[Row]]:
    """Return the header, stripped, and the rows below it, which have as many fields."""
    start = text.removeprefix("\ufeff").lstrip("\r\n").split("\n", 2)[:2]
    if max(_field_count(start, ";"), _field_count(start, "\t")) > _field_count(start, ","):
        found = "the fields are separated by semicolons or tabs"
        raise FormatError(source, 1, found, "separate them by commas, and write numbers with a decimal point")
    rows = read_rows(text, source)
    if not rows:
        raise FormatError(source, 1, "the file is empty", "expected a header and rows")
    header_line, fields = rows[0]
    header = [field.strip() for field in fields]
    if len(rows) > 1 and all(len(row) == len(header) + 1 for _, row in rows[1:]):
        header = ["", *header]  # R's write.table gives the column of row names no header
    for line, row in rows[1:]:
        if len(row) != len(header):
            expected = f"expected {len(header)} as in the header; write numbers with a decimal point, not a comma"
            raise FormatError(source, line, f"found {len(row)} fields", expected)
    if len(rows) == 1:
        raise FormatError(source, header_line, "there is no row below the header", "expected at least one")
    return (header_line, header), rows[1:]


def _field_count(lines: Sequence[str], separator: str) -> int:
    """Return the number of fields in some lines if they are separated by ``separator``."""
    try:
        return sum(len(fields) for fields in csv.reader(lines, delimiter=separator))
    except csv.Error:  # reading the rows reports it
        return 0


def csv_line(fields: Sequence[str]) -> str:
    return ",".join(map(_quote, fields)) + "\n"


def _quote(field: str) -> str:
    # csv.writer with the line end "\n" does not quote a carriage return before Python 3.13
    return '"' + field.replace('"', '""') + '"' if any(c in field for c in ',"\r\n') else field


def parse_point(fields: Sequence[str], source: str, line: int) -> list[float] | None:
    """Return the coordinates of a point; None if all fields are empty, NA or NaN, which means "not seen" in a table."""
    empty = [field.strip().lower() in NOT_SEEN for field in fields]
    if all(empty):
        return None
    if any(empty):
        raise FormatError(source, line, "some coordinates are empty", "leave all empty (the point is unseen) or none")
    return [parse_number(field, source, line, "a coordinate, or nothing for an unseen point") for field in fields]


def parse_weight(field: str, seen: bool, source: str, line: int) -> float:
    """Return a weight; an unseen point needs none."""
    if not seen and not field.strip():
        return 0.0
    weight = parse_number(field, source, line, "a weight")
    if weight < 0:
        raise FormatError(source, line, f"the weight is {short_repr(field)}", "expected at least 0")
    return weight


def point_fields(point: Array) -> list[str]:  # (d,)
    """Return the coordinates of a point as fields, which are empty if it was not seen."""
    return ["" if np.isnan(x) else format_number(x) for x in point]

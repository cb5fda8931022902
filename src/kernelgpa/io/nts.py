"""NTS, also .dta: one matrix of numbers under a header that describes it.

    1 n[L] c[L] flag [code] DIM=k

Each of n rows is a specimen of c = p k numbers; if c = k, all rows together are the landmarks of one specimen.  An L
announces names of rows, or of columns, before the numbers.  Flag 1 is followed by the code of missing numbers.  Lines
that begin with ' or " are comments.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from ..observations.tables import AXES
from ..typing import Array
from .capabilities import Capabilities
from .in_place import added_points, filled_points, split_lines
from .landmark_file import (
    LabelledCloud,
    LandmarkFile,
    ReadOptions,
    is_partly_seen,
    numbered_labels,
    numbered_names,
    require_unique,
)
from .text import Lines, format_number, format_numbers, is_blank, is_one_word, short_repr

HOLDS = Capabilities("NTS")
_HEADER = re.compile(
    r"1\s+([0-9]{1,12})(L?)\s+([0-9]{1,12})(L?)\s+(?:0|1\s+(\S+))\s+DIM\s*=\s*([23])", re.IGNORECASE | re.ASCII
)
_T = TypeVar("_T")


@dataclass(frozen=True)
class _Header:
    rows: int
    columns: int
    rows_named: bool
    columns_named: bool
    missing_code: float | None
    dimension: int


def parse(text: str, source: str, options: ReadOptions) -> LandmarkFile:
    lines = Lines(source, text)
    header = _header(lines)
    rows = _row_labels(lines, header.rows) if header.rows_named else None
    columns = tuple(_words(lines, header.columns, "column labels", str)) if header.columns_named else None
    values = _matrix(lines, header)  # (n, p, k)
    lines.require_end("compare the counts of the header", _is_skipped)
    names: tuple[str, ...] | None = (options.name,)
    notes: tuple[str, ...] = ()
    if header.columns == header.dimension:
        values, labels = values.reshape(1, header.rows, -1), rows
    else:
        names, (labels, notes) = rows, _landmark_labels(columns, header.dimension)
    n, p, _ = values.shape
    parts = zip(names or numbered_names(options.name, n), values, strict=True)
    clouds = tuple(LabelledCloud(name, part, labels or numbered_labels(p)) for name, part in parts)
    return LandmarkFile(clouds, labelled=labels is not None, notes=notes).marking(options.missing)


def _is_comment(line: str) -> bool:
    return line.lstrip()[:1] in ("'", '"')


def _is_skipped(line: str) -> bool:
    return is_blank(line) or _is_comment(line)


def _header(lines: Lines) -> _Header:
    line = lines.next_content("a header such as 1 10L 36 0 DIM=3", _is_skipped)
    match = _HEADER.fullmatch(line.strip())
    if match is None:
        expected = "expected a header such as 1 10L 36 0 DIM=3, or 1 10L 36 1 9999 DIM=3 with a code of missing numbers"
        raise lines.error(f"found {short_repr(line)}", expected)
    rows, row_names, columns, column_names, code, dimension = match.groups()
    header = _Header(
        rows=int(rows),
        columns=int(columns),
        rows_named=bool(row_names),
        columns_named=bool(column_names),
        missing_code=None if code is None else lines.parse_number(code, "the code of missing numbers"),
        dimension=int(dimension),
    )
    lines.require_lines(header.rows, "rows")
    if header.rows == 0 or header.columns == 0 or header.columns % header.dimension:
        found = f"found {header.rows} rows of {header.columns} numbers"
        raise lines.error(found, f"expected rows, each of a multiple of {header.dimension} numbers")
    return header


def _words(lines: Lines, count: int, what: str, convert: Callable[[str], _T]) -> list[_T]:
    """Read ``count`` words on one line or several; the last must end its line, so that no row runs into the next."""
    words: list[_T] = []
    while len(words) < count:
        found = lines.next_content(f"{count} {what}, of which {len(words)} were found", _is_skipped).split()
        if len(words) + len(found) > count:
            expected = f"expected {count}, the last at the end of a line; labels contain no spaces"
            raise lines.error(f"found {len(words) + len(found)} {what} up to here", expected)
        words += [convert(one) for one in found]
    return words


def _row_labels(lines: Lines, count: int) -> tuple[str, ...]:
    pairs = _words(lines, count, "row labels", lambda word: (word, lines.line_number))
    require_unique(lines.source, [word for word, _ in pairs], [line for _, line in pairs], "row label")
    return tuple(word for word, _ in pairs)


def _matrix(lines: Lines, header: _Header) -> Array:  # (n, p, k)
    def value(word: str) -> float:
        if word == "NA":  # as geomorph writes it
            return math.nan
        number = lines.parse_number(word)
        return math.nan if number == header.missing_code else number

    rows = []
    for _ in range(header.rows):
        row = np.array(_words(lines, header.columns, "numbers of a row", value)).reshape(-1, header.dimension)
        if is_partly_seen(row):
            raise lines.error("a point is missing in some coordinates only", "expected all or none")
        rows.append(row)
    return np.stack(rows)


def _landmark_labels(columns: tuple[str, ...] | None, dimension: int) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
    """Return landmark labels from column labels such as 1_x 1_y 1_z, or None and a note if they are of another kind."""
    if columns is None:
        return None, ()
    stems = [column[:-1].removesuffix("_") for column in columns]
    labels = tuple(stems[::dimension])
    expected = [(label, axis) for label in labels for axis in AXES[:dimension]]
    found = [(stem, column[-1].lower()) for stem, column in zip(stems, columns, strict=True)]
    if found == expected and all(labels) and len(set(labels)) == len(labels):
        return labels, ()
    return None, (f"column labels such as {short_repr(columns[0])} ignored: they name no landmarks",)


def fill_in(text: str, before: LandmarkFile, filled: LandmarkFile) -> str | None:
    """Header, labels and comments are kept."""
    lines, (k, d) = split_lines(text), before.clouds[0].points.shape
    if any(added_points(before, filled)):
        return None
    content = [i for i, line in enumerate(lines) if not _is_skipped(line)]
    words = [(i, match.span()) for i in content for match in re.finditer(r"\S+", lines[i])]
    first = len(words) - len(before.clouds) * k * d  # the numbers are the last words of the file
    for t, own in reversed(list(enumerate(filled_points(before, filled)))):
        for j, point in sorted(own.items(), reverse=True):  # from the end, so that the other spans stay valid
            for axis in reversed(range(d)):
                i, (begin, end) = words[first + (t * k + j) * d + axis]
                lines[i] = lines[i][:begin] + format_number(point[axis]) + lines[i][end:]
    return "".join(lines)


def render(file: LandmarkFile) -> str:
    HOLDS.require(file)
    points = HOLDS.stack_points(file)  # (n, p, k)
    names = [one.name for one in file.clouds]
    labels = file.clouds[0].labels if file.labelled else ()
    HOLDS.require_names([*names, *labels], _is_label, "contains spaces or begins with a quote, which labels cannot")
    n, p, k = points.shape
    if p == 1:  # c = k is read as one specimen, whose rows are its landmarks and which is named after the file
        if n > 1:
            raise HOLDS.error(f"{n} clouds of one landmark would be read as one cloud", "write CSV or NPZ instead")
        names, labels = list(labels), ()
    columns = [f"{label}_{axis}" for label in labels for axis in AXES[:k]]
    return _rendered(points.reshape(n, -1), names, columns, k)


def _is_label(text: str) -> bool:
    return is_one_word(text) and not _is_comment(text)


def _rendered(values: Array, names: list[str], columns: list[str], dimension: int) -> str:
    code = _unused_code(values)
    missing = f"1 {code}" if np.isnan(values).any() else "0"
    n, c = values.shape
    header = f"1 {n}{'L' if names else ''} {c}{'L' if columns else ''} {missing} DIM={dimension}"
    rows = [format_numbers(row, unseen=code) for row in values]
    return "\n".join([header, *names, *([" ".join(columns)] if columns else []), *rows]) + "\n"


def _unused_code(values: Array) -> str:
    """Return a code of missing numbers that is no coordinate."""
    code = 9999
    while (values == code).any():
        code = 10 * code + 9
    return str(code)

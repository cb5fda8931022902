"""NTS, also .dta: one matrix of numbers under a header that says what it is.

    1 n[L] c[L] flag [code] DIM=k

Each of n rows is a specimen of c = p k numbers; where c = k, all rows together are the landmarks of one specimen.  An L
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

from ..typing import Array
from .base import (
    AXES,
    Contents,
    Lines,
    Reading,
    Specimen,
    counted,
    one_word,
    refuse_names,
    refuse_repeats,
    refuse_several,
    refuse_unsound,
    refuse_weights,
    shortened,
    stacked,
    text_of,
    unseen_at,
)

FORMAT = "NTS"
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
    code: float | None
    dimension: int


def parse(text: str, source: str, reading: Reading) -> Contents:
    lines = Lines(source, text)
    header = _header(lines)
    rows = _row_labels(lines, header.rows) if header.rows_named else None
    columns = tuple(_taken(lines, header.columns, "column labels", str)) if header.columns_named else None
    values = _matrix(lines, header)  # (n, p, k)
    _refuse_more(lines)
    names: tuple[str, ...] | None = (reading.name,)
    notes: tuple[str, ...] = ()
    if header.columns == header.dimension:
        values, labels = values.reshape(1, header.rows, -1), rows
    else:
        names, (labels, notes) = rows, _landmarks(columns, header.dimension)
    n, p, k = values.shape
    points, more = unseen_at(values.reshape(-1, k), reading.missing if header.code is None else None)
    names = names or tuple(f"{reading.name}_{i + 1}" for i in range(n))
    parts = zip(names, points.reshape(n, p, k), strict=True)
    specimens = tuple(Specimen(name, part, labels or counted(p)) for name, part in parts)
    return Contents(specimens, labelled=labels is not None, notes=(*notes, *more))


def _content(lines: Lines, expected: str) -> str:
    """The next line that is neither a comment nor blank."""
    while True:
        line = lines.next(expected)
        if line.strip() and not _is_comment(line):
            return line


def _is_comment(line: str) -> bool:
    return line.lstrip()[:1] in ("'", '"')


def _header(lines: Lines) -> _Header:
    line = _content(lines, "a header such as 1 10L 36 0 DIM=3")
    match = _HEADER.fullmatch(line.strip())
    if match is None:
        expected = "expected a header such as 1 10L 36 0 DIM=3, or 1 10L 36 1 9999 DIM=3 with a code of missing numbers"
        raise lines.wrong(f"found {shortened(line)}", expected)
    rows, row_names, columns, column_names, code, dimension = match.groups()
    header = _Header(
        rows=int(rows),
        columns=int(columns),
        rows_named=bool(row_names),
        columns_named=bool(column_names),
        code=None if code is None else lines.number_in(code, "the code of missing numbers"),
        dimension=int(dimension),
    )
    lines.require(header.rows, "rows")
    if header.rows == 0 or header.columns == 0 or header.columns % header.dimension:
        found = f"{header.rows} rows of {header.columns} numbers"
        raise lines.wrong(found, f"expected rows, each of a multiple of {header.dimension} numbers")
    return header


def _taken(lines: Lines, count: int, what: str, convert: Callable[[str], _T]) -> list[_T]:
    """``count`` words on one line or several; the last must end its line, so that no row runs into the next."""
    words: list[_T] = []
    while len(words) < count:
        found = _content(lines, f"{count} {what}; there are {len(words)}").split()
        if len(words) + len(found) > count:
            expected = f"expected {count}, the last at the end of a line; a label has no spaces"
            raise lines.wrong(f"{len(words) + len(found)} {what} up to here", expected)
        words += [convert(one) for one in found]
    return words


def _row_labels(lines: Lines, count: int) -> tuple[str, ...]:
    pairs = _taken(lines, count, "row labels", lambda word: (word, lines.number))
    refuse_repeats(lines.source, [word for word, _ in pairs], [line for _, line in pairs], "row label")
    return tuple(word for word, _ in pairs)


def _matrix(lines: Lines, header: _Header) -> Array:  # (n, p, k)
    def value(word: str) -> float:
        if word == "NA":  # as geomorph writes it
            return math.nan
        number = lines.number_in(word)
        return math.nan if number == header.code else number

    rows = []
    for _ in range(header.rows):
        row = np.array(_taken(lines, header.columns, "numbers of a row", value)).reshape(-1, header.dimension)
        unseen = np.isnan(row)
        if (unseen.any(axis=1) != unseen.all(axis=1)).any():
            raise lines.wrong("a point is missing in some coordinates only", "expected all or none")
        rows.append(row)
    return np.stack(rows)


def _refuse_more(lines: Lines) -> None:
    while lines.more():
        line = lines.next("")
        if line.strip() and not _is_comment(line):
            raise lines.wrong(
                f"found {shortened(line)}", "expected the end of the file; compare the counts of the header"
            )


def _landmarks(columns: tuple[str, ...] | None, dimension: int) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
    """Landmark labels from column labels such as 1_x 1_y 1_z, or None, and a note where they are of another kind."""
    if columns is None:
        return None, ()
    stems = [column[:-1].removesuffix("_") for column in columns]
    labels = tuple(stems[::dimension])
    expected = [(label, axis) for label in labels for axis in AXES[:dimension]]
    found = [(stem, column[-1].lower()) for stem, column in zip(stems, columns, strict=True)]
    if found == expected and all(labels) and len(set(labels)) == len(labels):
        return labels, ()
    return None, (f"column labels such as {shortened(columns[0])} left out: they name no landmarks",)


def render(contents: Contents) -> str:
    refuse_unsound(contents, FORMAT)
    refuse_weights(contents, FORMAT)
    points = stacked(contents, FORMAT)  # (n, p, k)
    names = [one.name for one in contents.specimens]
    labels = contents.specimens[0].labels if contents.labelled else ()
    refuse_names([*names, *labels], _is_label, FORMAT, "has spaces or begins with a quote, which labels cannot")
    dimension = points.shape[2]
    if points.shape[1] == 1:  # c = k is read as one specimen: its rows are named, and it is named after the file
        refuse_several(contents, FORMAT)
        names, labels = list(labels), ()
    columns = [f"{label}_{axis}" for label in labels for axis in AXES[:dimension]]
    return _rendered(points.reshape(len(points), -1), names, columns, dimension)


def _is_label(text: str) -> bool:
    return one_word(text) and not _is_comment(text)


def _rendered(values: Array, names: list[str], columns: list[str], dimension: int) -> str:
    code = _free_code(values)
    missing = f"1 {code}" if np.isnan(values).any() else "0"
    n, c = values.shape
    header = f"1 {n}{'L' if names else ''} {c}{'L' if columns else ''} {missing} DIM={dimension}"
    rows = [" ".join(code if math.isnan(x) else text_of(x) for x in row) for row in values]
    return "\n".join([header, *names, *([" ".join(columns)] if columns else []), *rows]) + "\n"


def _free_code(values: Array) -> str:
    """A code of missing numbers that is no coordinate."""
    code = 9999
    while (values == code).any():
        code = 10 * code + 9
    return str(code)

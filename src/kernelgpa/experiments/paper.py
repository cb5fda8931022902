"""The paper's own numbers beside ours, where a user has them.

They are not part of this project.  Whoever has the paper types them into CSV files named like the tables that an
experiment writes, with the same words for rows and methods, and gives the folder; each row then stands below the one
that was found here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ..errors import FormatError
from ..io.csv_table import read_table
from ..io.text import parse_number
from .scoring import OURS
from .tables import Outcome, Table

NOT_PRINTED = ("", "-")
SAID = ", in the paper"
EXPECTED = "expected tables like liver.csv, with the paper's numbers"
CELL = "a number, or - where the paper prints none"

Numbers = dict[str, dict[str, dict[str, float]]]  # by the table's name, the row's label and the column


def numbers_in(folder: Path) -> Numbers:
    """The tables of a folder."""
    if not folder.is_dir():
        raise FormatError(folder, None, "there is no such folder", EXPECTED)
    files = sorted(folder.glob("*.csv"))
    if not files:
        raise FormatError(folder, None, "it holds no .csv file", EXPECTED)
    numbers = {file.stem: _read(file) for file in files}
    if not any(known for rows in numbers.values() for known in rows.values()):
        raise FormatError(folder, None, "its tables hold no number", EXPECTED)
    return numbers


def _read(file: Path) -> dict[str, dict[str, float]]:
    if not file.is_file():
        raise FormatError(file, None, "it is not a file", EXPECTED)
    try:
        text = file.read_text(encoding="utf-8")
    except ValueError:
        raise FormatError(file, None, "it is not text", "expected comma-separated values in UTF-8") from None
    (_, head), rows = read_table(text, str(file))
    _require_methods(head[1:], file)
    numbers: dict[str, dict[str, float]] = {}
    for line, (first, *cells) in rows:
        label = first.strip()
        if label.endswith(SAID):
            raise FormatError(file, line, f"found the row {label!r}", f"take it out, or name it without {SAID!r}")
        if label in numbers:
            raise FormatError(file, line, f"the row {label!r} is there twice", "expected each row once")
        printed = (
            (column, cell) for column, cell in zip(head[1:], cells, strict=True) if cell.strip() not in NOT_PRINTED
        )
        numbers[label] = {column: parse_number(cell, str(file), line, CELL) for column, cell in printed}
    return numbers


def _require_methods(columns: Sequence[str], file: Path) -> None:
    """Each method once, and none that the paper does not have: a copy of our own table is no table of the paper."""
    for column, count in Counter(columns).items():
        if column in OURS:
            raise FormatError(
                file, 1, f"found the column {column!r}", "it is this project's, not the paper's; take it out"
            )
        if count > 1:
            raise FormatError(file, 1, f"found the column {column!r} {count} times", "expected each method once")


def set_beside(outcomes: Sequence[Outcome], numbers: Numbers) -> list[Outcome]:
    """The same outcomes with the paper's rows below ours; numbers that belong to no row are named."""
    done = [
        replace(one, tables=[_beside(table, numbers.get(table.name, {})) for table in one.tables]) for one in outcomes
    ]
    ours = {table.name: table for one in outcomes for table in one.tables}
    lost = [
        f"nothing to set beside: {name}, {label}, {column}"
        for name, rows in numbers.items()
        for label, known in rows.items()
        for column in known
        if name not in ours or label not in dict(ours[name].rows) or column not in ours[name].columns
    ]
    about = "Numbers whose table, row or column was not among those of this run."
    return [*done, Outcome("paper", "The paper's numbers without a place", about, [], [], {}, lost)] if lost else done


def _beside(table: Table, rows: dict[str, dict[str, float]]) -> Table:
    both = replace(table, rows=[])
    for label, values in table.rows:
        both.add(label, values)
        known = rows.get(label, {})
        if any(column in known for column in table.columns):
            both.add(label + SAID, [known.get(column, float("nan")) for column in table.columns])
    return both

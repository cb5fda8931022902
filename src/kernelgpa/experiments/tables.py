"""Results of an experiment: tables, claims with the evidence for them, figures; and the paper's numbers beside ours.

The paper's numbers are not part of this project.  Whoever has the paper can type them into CSV files that are named
like the tables of an experiment and use the same labels for rows and methods; each typed row is then printed below
the row that was computed here.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from ..errors import FormatError
from ..io.csv_table import read_table
from ..io.text import parse_number
from .figures import CaptionedFigure

PAPER_METHODS = ("rigid", "affine", "thin-plate", "kernel")
OWN_METHODS = ("default", "tuned")
ALL_METHODS = (*PAPER_METHODS, *OWN_METHODS)  # the columns of most tables

NOT_PRINTED = ("", "-")
IN_PAPER = ", in the paper"
EXPECTED_TABLES = "expected tables like liver.csv, with the paper's numbers"
EXPECTED_CELL = "a number, or - where the paper prints none"


@dataclass(frozen=True)
class Table:
    """Numbers with a unit, one row per score and one column per method."""

    name: str  # of the files
    title: str
    unit: str
    columns: tuple[str, ...]
    rows: list[tuple[str, list[float]]] = field(default_factory=list)

    def add(self, label: str, values: Sequence[float]) -> None:
        self.rows.append((label, [float(value) for value in values]))

    def row(self, label: str) -> dict[str, float]:
        return dict(zip(self.columns, dict(self.rows)[label], strict=True))

    def to_csv(self) -> str:
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        writer.writerow([f"{self.title} ({self.unit})", *self.columns])
        for label, values in self.rows:
            writer.writerow([label, *(formatted(value) for value in values)])
        return buffer.getvalue()

    def to_markdown(self) -> str:
        lines = [f"| {self.title} ({self.unit}) | {' | '.join(self.columns)} |", "|---" * (len(self.columns) + 1) + "|"]
        for label, values in self.rows:
            lines.append(f"| {label} | {' | '.join(formatted(value) for value in values)} |")
        return "\n".join(lines) + "\n"


def formatted(value: float) -> str:
    """Return four significant digits, which rounding on another machine does not change."""
    return "-" if np.isnan(value) else f"{value:.4g}"


@dataclass(frozen=True)
class Claim:
    """A statement of the paper or of this project, and whether it holds here."""

    text: str  # begins with "paper: " or "here: "
    holds: bool
    found: str  # the numbers that decide
    why: str = ""  # it does not hold, if the reason is known

    def __str__(self) -> str:
        why = f"; {self.why}" if self.why and not self.holds else ""
        return f"{'holds' if self.holds else 'does not hold'}: {self.text} ({self.found}{why})"


@dataclass(frozen=True)
class Parameter:
    """A parameter of an experiment: the value that the paper states, and the value used here."""

    name: str
    paper: str
    here: str


@dataclass(frozen=True)
class Outcome:
    """The results of one experiment."""

    name: str
    title: str
    about: str
    tables: list[Table]
    claims: list[Claim]
    figures: dict[str, CaptionedFigure]
    notes: list[str] = field(default_factory=list)  # the tuned settings, files that could not be read
    parameters: list[Parameter] = field(default_factory=list)


# -- the paper's numbers --

Numbers = dict[str, dict[str, dict[str, float]]]  # by the table's name, the row's label and the column


def read_paper_numbers(folder: Path) -> Numbers:
    """Read the tables that somebody typed from the paper."""
    if not folder.is_dir():
        raise FormatError(folder, None, "there is no such folder", EXPECTED_TABLES)
    files = sorted(folder.glob("*.csv"))
    if not files:
        raise FormatError(folder, None, "it holds no .csv file", EXPECTED_TABLES)
    numbers = {file.stem: _read_table(file) for file in files}
    if not any(printed for rows in numbers.values() for printed in rows.values()):
        raise FormatError(folder, None, "its tables hold no number", EXPECTED_TABLES)
    return numbers


def _read_table(file: Path) -> dict[str, dict[str, float]]:
    if not file.is_file():
        raise FormatError(file, None, "it is not a file", EXPECTED_TABLES)
    try:
        text = file.read_text(encoding="utf-8")
    except ValueError:
        raise FormatError(file, None, "it is not text", "expected comma-separated values in UTF-8") from None
    (_, head), rows = read_table(text, str(file))
    columns = head[1:]
    _require_paper_methods(columns, file)
    numbers: dict[str, dict[str, float]] = {}
    for line, (first, *cells) in rows:
        label = first.strip()
        if label.endswith(IN_PAPER):
            raise FormatError(file, line, f"found the row {label!r}", f"remove it, or its ending {IN_PAPER!r}")
        if label in numbers:
            raise FormatError(file, line, f"the row {label!r} occurs twice", "expected each row once")
        printed = ((column, cell) for column, cell in zip(columns, cells, strict=True) if _is_printed(cell))
        numbers[label] = {column: parse_number(cell, str(file), line, EXPECTED_CELL) for column, cell in printed}
    return numbers


def _is_printed(cell: str) -> bool:
    return cell.strip() not in NOT_PRINTED


def _require_paper_methods(columns: Sequence[str], file: Path) -> None:
    """Require each method once, and only methods of the paper: a copy of our own table is no table of the paper."""
    for column, count in Counter(columns).items():
        if column in OWN_METHODS:
            raise FormatError(
                file, 1, f"found the column {column!r}", "it is a method of this project, not of the paper; remove it"
            )
        if count > 1:
            raise FormatError(file, 1, f"found the column {column!r} {count} times", "expected each method once")


def with_paper_numbers(outcomes: Sequence[Outcome], numbers: Numbers) -> list[Outcome]:
    """Return the outcomes with the paper's rows below ours; numbers without a matching cell are listed at the end."""
    merged = [
        replace(one, tables=[_with_paper_rows(table, numbers.get(table.name, {})) for table in one.tables])
        for one in outcomes
    ]
    ours = {table.name: table for one in outcomes for table in one.tables}
    unmatched = [
        f"no matching cell: {name}, {label}, {column}"
        for name, rows in numbers.items()
        for label, printed in rows.items()
        for column in printed
        if name not in ours or label not in dict(ours[name].rows) or column not in ours[name].columns
    ]
    if not unmatched:
        return merged
    about = "Numbers whose table, row or column is not among those of this run."
    return [*merged, Outcome("paper", "The paper's numbers without a matching cell", about, [], [], {}, unmatched)]


def _with_paper_rows(table: Table, rows: dict[str, dict[str, float]]) -> Table:
    merged = replace(table, rows=[])
    for label, values in table.rows:
        merged.add(label, values)
        printed = rows.get(label, {})
        if any(column in printed for column in table.columns):
            merged.add(label + IN_PAPER, [printed.get(column, float("nan")) for column in table.columns])
    return merged

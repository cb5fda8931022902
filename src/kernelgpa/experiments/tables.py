"""Results of an experiment: tables, claims with the evidence for them, figures; and the paper's numbers beside ours.

The paper's numbers are in ``paper_tables.csv``, by the names of our tables and rows.  Each of its rows is printed below
the row that was computed here on bodies that deform as the paper's do.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from itertools import pairwise

import numpy as np

from .figures import CaptionedFigure

PROGRAM_KERNEL = "kernel (program)"  # R_g = I, as in the authors' program
PAPER_KERNEL = "kernel (paper)"  # with R_g, as in the paper's formulation
KERNEL_METHODS = (PROGRAM_KERNEL, PAPER_KERNEL)
PAPER_METHODS = ("rigid", "affine", "thin-plate", *KERNEL_METHODS)
FAITHFUL = "kernel (faithful)"  # the faithful map, with the bandwidth and the smoothing of the paper
AUTOMATIC = "automatic"  # KernelGPA(), which chooses its settings from the data
TUNED = "tuned"
OWN_METHODS = (FAITHFUL, AUTOMATIC, TUNED)
ALL_METHODS = (*PAPER_METHODS, *OWN_METHODS)  # the columns of most tables

PAPER_FILE = "paper_tables.csv"
IN_PAPER = ", in the paper"
CALIBRATED_COLUMNS = ("rigid", "affine")
CALIBRATED_WITHIN = 0.1  # largest relative deviation from the paper's means
EQUAL_WITHIN = 0.01  # relative difference up to which two numbers of the paper count as equal


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
    minutes: float = 0.0  # that it took


# -- the paper's numbers --

Numbers = dict[str, dict[str, dict[str, float]]]  # by the table's name, the row's label and the column


def paper_numbers() -> Numbers:
    """Return the results that the paper prints; its kernel is that of the authors' program."""
    text = files(__package__).joinpath(PAPER_FILE).read_text(encoding="utf-8")
    numbers: Numbers = {}
    for row in csv.DictReader(line for line in text.splitlines() if not line.startswith("#")):
        table, label = row.pop("table"), row.pop("row")
        columns = {PROGRAM_KERNEL if column == "kernel" else column: float(cell) for column, cell in row.items()}
        numbers.setdefault(table, {})[label] = columns
    return numbers


def with_paper_numbers(outcome: Outcome, numbers: Numbers) -> Outcome:
    """Return the outcome with the paper's rows below ours."""
    tables = [_with_paper_rows(table, numbers.get(table.name, {})) for table in outcome.tables]
    return replace(outcome, tables=tables)


def _with_paper_rows(table: Table, rows: dict[str, dict[str, float]]) -> Table:
    merged = replace(table, rows=[])
    for label, values in table.rows:
        merged.add(label, values)
        if label in rows:
            merged.add(label + IN_PAPER, [rows[label].get(column, float("nan")) for column in table.columns])
    return merged


def paper_claims(table: Table, numbers: Numbers) -> list[Claim]:
    """State whether the calibration holds, and for each mean of the paper whether its order of the methods holds.

    Rows of the paper that the table does not have, because a plan leaves them out, are not compared.
    """
    present = {label for label, _ in table.rows if label.endswith(": mean")}
    rows = {label: row for label, row in numbers[table.name].items() if label in present}
    if not rows:
        return []
    ours = {label: table.row(label) for label in rows}
    deviations = {
        (label, column): ours[label][column] / rows[label][column] - 1
        for label in rows
        for column in CALIBRATED_COLUMNS
    }
    worst = max(deviations, key=lambda key: abs(deviations[key]))
    calibrated = Claim(
        f"here: {table.name}: rigid and affine within {CALIBRATED_WITHIN:.0%} of the paper's means",
        abs(deviations[worst]) <= CALIBRATED_WITHIN,
        f"at most {deviations[worst]:+.1%}, {' '.join(worst)}",
        "the constants are calibrated for the full plan and seed 0",
    )
    return [calibrated, *(_order_claim(label, ours[label], rows[label]) for label in rows)]


def _order_claim(label: str, ours: dict[str, float], printed: dict[str, float]) -> Claim:
    """State whether the methods have the same order; two that differ by at most 1 % in the paper count as equal."""
    order = sorted(printed, key=lambda column: printed[column])
    holds = all(
        ours[first] <= ours[second] * (1 if printed[second] > (1 + EQUAL_WITHIN) * printed[first] else 1 + EQUAL_WITHIN)
        for first, second in pairwise(order)
    )
    values = ", ".join(f"{column} {formatted(ours[column])} ({formatted(printed[column])})" for column in order)
    return Claim(f"paper: {label}: {' < '.join(order)}", holds, f"here and (in the paper): {values}")

"""What an experiment leaves: tables, claims with what was found, figures."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from matplotlib.figure import Figure


@dataclass(frozen=True)
class Table:
    """Numbers with a unit: a row a score, a column a method."""

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
            writer.writerow([label, *(shown(value) for value in values)])
        return buffer.getvalue()

    def to_markdown(self) -> str:
        lines = [f"| {self.title} ({self.unit}) | {' | '.join(self.columns)} |", "|---" * (len(self.columns) + 1) + "|"]
        for label, values in self.rows:
            lines.append(f"| {label} | {' | '.join(shown(value) for value in values)} |")
        return "\n".join(lines) + "\n"


def shown(value: float) -> str:
    """Four digits: what rounding on another machine may change is not among them."""
    return "-" if np.isnan(value) else f"{value:.4g}"


@dataclass(frozen=True)
class Claim:
    """Something that the paper or this project says, and whether it holds here."""

    text: str
    holds: bool
    found: str
    why: str = ""  # it does not hold, where that is known

    def __str__(self) -> str:
        why = f"; {self.why}" if self.why and not self.holds else ""
        return f"{'holds' if self.holds else 'does not hold'}: {self.text} ({self.found}{why})"


@dataclass(frozen=True)
class SetUp:
    """One thing that the paper states of its experiment, and what it is here."""

    what: str
    paper: str
    here: str


@dataclass(frozen=True)
class Picture:
    figure: Figure
    caption: str


@dataclass(frozen=True)
class Outcome:
    """What an experiment leaves."""

    name: str
    title: str
    about: str
    tables: list[Table]
    claims: list[Claim]
    figures: dict[str, Picture]
    notes: list[str] = field(default_factory=list)  # what tuning chose, what was not read
    setup: list[SetUp] = field(default_factory=list)

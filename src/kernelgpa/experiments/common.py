"""What the experiments share: the six columns of every table, scores, tables, claims.

The first four columns are the methods of the paper, in the paper's form (``modes="paper"``); the last two are this
project's: its default, the faithful map with the same settings; and what its tuning chooses, robust where that helps.
"""

from __future__ import annotations

import csv
import io
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from matplotlib.figure import Figure
from sklearn.base import clone

from .. import metrics, selection
from ..deformable import DeformableGPA
from ..errors import KernelGPAWarning
from ..estimators import TPSGPA, AffineGPA, KernelGPA, RigidGPA
from ..frames import Array
from ..registration import GPA

PAPER = ("rigid", "affine", "thin-plate", "kernel")
OURS = ("default", "tuned")
COLUMNS = (*PAPER, *OURS)
GRID = {"bandwidth": [0.15, 0.25, 0.5, 1.0], "smoothing": [1e-3, 1e-2, 1e-1, 1.0]}
THIN_PLATE = {"smoothing": [1e-2, 1.0, 1e2]}  # of bodies of 200 mm
FOLDS = 10


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
class Outcome:
    """What an experiment leaves."""

    name: str
    title: str
    about: str
    tables: list[Table]
    claims: list[Claim]
    figures: dict[str, Figure]
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Scores:
    """How a fitted registration does on test points that all clouds have."""

    consistency: Array  # (k,)
    sensor: Array  # (k,)
    map_error: float  # NaN where the truth is not known


def methods(bandwidth: float, smoothing: float, thin_plate: float = 0.01) -> dict[str, GPA]:
    """The five methods whose settings are given; the tuned one is found from the data."""
    return {
        "rigid": RigidGPA(),
        "affine": AffineGPA(modes="paper"),
        "thin-plate": TPSGPA(control_points=5, smoothing=thin_plate, modes="paper"),
        "kernel": KernelGPA(bandwidth=bandwidth, smoothing=smoothing, modes="paper"),
        "default": KernelGPA(bandwidth=bandwidth, smoothing=smoothing),
    }


def fitted(points: Array, bandwidth: float, smoothing: float, thin_plate: float = 0.01) -> dict[str, GPA]:
    """All six columns, fitted."""
    with quiet():
        models = {name: model.fit(points) for name, model in methods(bandwidth, smoothing, thin_plate).items()}
        models["tuned"] = tuned(points).fit(points)
    return models


def tuned(points: Array) -> DeformableGPA:
    """The family and the settings with the least held-out error, robust where that lowers the median of it.

    The median, because wrong matches make the mean of those that do not set them aside, and are left out of that of
    those that do.
    """
    best = selection.tune(points, grid=[(KernelGPA(), GRID), (TPSGPA(), THIN_PLATE)], folds=FOLDS, rounds=1).best
    plain = clone(best)
    robust = clone(best).set_params(robust="geman-mcclure")
    return min((plain, robust), key=lambda model: held_out(model, points))


def held_out(model: GPA, points: Array) -> float:
    """The median error on landmarks left out, in the clouds' own frames."""
    residuals = selection.cross_validate(model, points, folds=FOLDS).residuals
    return float(np.nanmedian(np.linalg.norm(residuals, axis=2)))


@contextmanager
def quiet() -> Iterator[None]:
    """Without the warnings of fits that are meant to be as hard as they are."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KernelGPAWarning)
        yield


def score(gpa: GPA, test: Array, truth: Array | None = None) -> Scores:  # (n, k, d), (m, d)
    warped = gpa.transform_clouds(test)
    error = np.nan if truth is None else metrics.map_error(gpa.map_, truth)
    shared = np.sum(~np.isnan(test[:, :, 0]), axis=0) >= 2  # one cloud alone agrees with itself
    apart = np.where(shared, metrics.consistency(warped), np.nan)
    return Scores(apart, metrics.sensor_error(warped, gpa.jacobians(test)), error)


def scored_table(name: str, title: str, settings: dict[str, dict[str, Scores]], unit: str = "mm") -> Table:
    """Six rows for each setting: min, max, mean, sensor-frame error, map error.

    The sensor-frame error is infinite where a warp folds, and one such point of thousands makes the mean; so the median
    stands beside it.
    """
    table = Table(name, title, unit, COLUMNS)
    readings: list[tuple[str, Callable[[Scores], float]]] = [
        ("min", lambda one: float(np.nanmin(one.consistency))),
        ("max", lambda one: float(np.nanmax(one.consistency))),
        ("mean", lambda one: float(np.nanmean(one.consistency))),
        ("sensor error, median", lambda one: float(np.nanmedian(one.sensor))),
        ("sensor error, mean", lambda one: float(np.nanmean(one.sensor))),
        ("map error", lambda one: one.map_error),
    ]
    for setting, scores in settings.items():
        for label, read in readings:
            values = [read(scores[column]) for column in COLUMNS]
            if not np.isnan(values).all():
                table.add(f"{setting}: {label}", values)
    return table


def _why(label: str, column: str, row: dict[str, float], best: float) -> str:
    """What is known of a sensor-frame error above the best of the four."""
    if "wrong" in label and column == "default":
        return "the default does not set wrong matches aside; robust fitting does"
    if row[column] <= 1.05 * best:
        return "within 5 %: the map is nearer to the truth, and the warps pay for it a little"
    if label.endswith("mean"):
        return "a few points at folds of the warps make the mean; compare the median"
    if row[column] <= 1.1 * row["kernel"]:
        return "another family of warps suits these data better than kernels with these settings"
    return "held-out landmarks did not foretell what suits the test points"


def claims_of_ours(table: Table) -> list[Claim]:
    """What this project says of its own two columns, in every row."""
    claims = []
    for label, values in table.rows:
        row = dict(zip(table.columns, values, strict=True))
        if "sensor error" in label:
            best = min(row[column] for column in PAPER)
            for column in OURS:
                claims.append(
                    Claim(
                        f"here: {table.name}, {label}: {column} at most the best of the four",
                        row[column] <= best * (1 + 5e-4),  # the printed digits
                        f"{shown(row[column])} against {shown(best)} {table.unit}",
                        _why(label, column, row, best),
                    )
                )
        elif label.endswith("map error"):
            for column in OURS:
                claims.append(
                    Claim(
                        f"here: {table.name}, {label}: {column} below the paper's kernel",
                        row[column] < row["kernel"],
                        f"{shown(row[column])} against {shown(row['kernel'])} {table.unit}",
                    )
                )
    return claims

"""The six columns of every table, their scores, and what this project says of its own two.

The first four columns are the methods of the paper, in the paper's form (``modes="paper"``); the last two are this
project's: its default, the faithful map with the same settings; and what its tuning chooses, robust where that helps.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from ..errors import KernelGPAWarning
from ..estimators import TPSGPA, AffineGPA, KernelGPA, RigidGPA
from ..estimators.base import GPA
from ..estimators.deformable import DeformableGPA
from ..trust import metrics, selection
from ..typing import Array
from .tables import Claim, Table, shown

PAPER = ("rigid", "affine", "thin-plate", "kernel")
OURS = ("default", "tuned")
COLUMNS = (*PAPER, *OURS)
GRID = {"bandwidth": [0.15, 0.25, 0.5, 1.0, 2.0], "smoothing": [1e-3, 1e-2, 1e-1, 1.0]}
THIN_PLATE = {"smoothing": [1e-2, 1.0, 1e2]}  # of bodies of 200 mm
QUICK_GRID = {"bandwidth": [0.25, 0.5, 1.0], "smoothing": [1e-2, 1e-1]}
ROBUST = "geman-mcclure"
FOLDS, QUICK_FOLDS = 10, 5


@dataclass(frozen=True)
class Scores:
    """How a fitted registration does on test points."""

    consistency: Array  # (k,)
    sensor: Array  # (k,)
    map_error: float  # NaN where the truth is not known
    folded: int  # test points, of all clouds, at which the warp turns space inside out


def methods(bandwidth: float, smoothing: float, thin_plate: float = 0.01) -> dict[str, GPA]:
    """The five methods whose settings are given; the tuned one is found from the data."""
    return {
        "rigid": RigidGPA(),
        "affine": AffineGPA(modes="paper"),
        "thin-plate": TPSGPA(control_points=5, smoothing=thin_plate, modes="paper"),
        "kernel": KernelGPA(bandwidth=bandwidth, smoothing=smoothing, modes="paper"),
        "default": KernelGPA(bandwidth=bandwidth, smoothing=smoothing),
    }


def fitted(
    points: Array, bandwidth: float, smoothing: float, thin_plate: float = 0.01, quick: bool = False
) -> dict[str, GPA]:
    """All six columns, fitted; ``quick`` tunes on fewer settings and folds."""
    with quiet():
        models = {name: model.fit(points) for name, model in methods(bandwidth, smoothing, thin_plate).items()}
        models["tuned"] = tuned(points, quick)
    return models


def tuned(points: Array, quick: bool = False) -> DeformableGPA:
    """The family and the settings with the least held-out error, robust where that lowers it; fitted."""
    folds = min(QUICK_FOLDS if quick else FOLDS, points.shape[1])
    settings, rounds = (QUICK_GRID, 0) if quick else (GRID, 1)
    best = []
    for robust in (None, ROBUST):
        grid = [(KernelGPA(robust=robust), settings), (TPSGPA(robust=robust), THIN_PLATE)]
        best.append(selection.tune(points, grid=grid, folds=folds, rounds=rounds, n_jobs=-1).best)
    return min(best, key=lambda model: held_out(model, points, folds))


def held_out(model: GPA, points: Array, folds: int = FOLDS) -> float:
    """The root mean square error on landmarks left out, in the clouds' own frames, without its largest tenth.

    Without that, because wrong matches are among it whatever the fit; with all the rest, because a robust fit of stiff
    warps sets aside what truly deforms, and the median would praise it for that.
    """
    residuals = np.linalg.norm(selection.cross_validate(model, points, folds=folds).residuals, axis=2)
    known = np.sort(residuals[~np.isnan(residuals)])
    return float(np.sqrt(np.mean(known[: len(known) - len(known) // 10] ** 2)))


def chosen(models: Mapping[str, GPA], where: str) -> str:
    """What tuning chose, so that anybody can fit it again."""
    return f"tuned, {where}: {' '.join(repr(models['tuned']).split())}"


@contextmanager
def quiet() -> Iterator[None]:
    """Without the warnings of fits that are meant to be as hard as they are."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KernelGPAWarning)
        yield


def score(gpa: GPA, test: Array, truth: Array | None = None) -> Scores:  # (n, k, d), (m, d)
    warped, jacobians = gpa.transform_clouds(test), gpa.jacobians(test)
    error = np.nan if truth is None else metrics.map_error(gpa.map_, truth)
    shared = np.sum(~np.isnan(test[:, :, 0]), axis=0) >= 2  # one cloud alone agrees with itself
    apart = np.where(shared, metrics.consistency(warped), np.nan)
    folded = int(np.sum(np.linalg.det(jacobians[~np.isnan(jacobians).any(axis=(2, 3))]) <= 0))
    return Scores(apart, metrics.sensor_error(warped, jacobians), error, folded)


def each_table(
    name: str, title: str, names: Sequence[str], models: Mapping[str, GPA], surfaces: Array, unit: str
) -> Table:
    """How far every surface lies from the mean of all, root mean square over its points."""
    apart = []
    for column in COLUMNS:
        warped = models[column].transform_clouds(surfaces)
        squares = np.sum((warped - metrics.mean_map(warped)) ** 2, axis=2)  # (n, k)
        apart.append(np.sqrt(squares.mean(axis=1)))
    table = Table(name, title, unit, COLUMNS)
    for one, values in zip(names, np.transpose(apart), strict=True):
        table.add(one, values)
    return table


def add_errors(table: Table, scores: Mapping[str, Scores], unit: str = "") -> None:
    """Below a table of other readings of the same fits: the sensor-frame error, and the map error where it is known."""
    table.add(f"sensor error, median{unit}", [float(np.nanmedian(scores[column].sensor)) for column in COLUMNS])
    if not np.isnan([scores[column].map_error for column in COLUMNS]).all():
        table.add(f"map error{unit}", [scores[column].map_error for column in COLUMNS])


def scored_table(name: str, title: str, settings: dict[str, dict[str, Scores]], unit: str = "mm") -> Table:
    """For each setting min, max and mean disagreement, median and mean sensor-frame error, map error where known.

    The sensor-frame error is huge near folds of the warps, and one such point of thousands makes the mean; so the
    median stands beside it, and points at folds are counted where there are any.
    """
    table = Table(name, title, unit, COLUMNS)
    readings: list[tuple[str, Callable[[Scores], float]]] = [
        ("min", lambda one: float(np.nanmin(one.consistency))),
        ("max", lambda one: float(np.nanmax(one.consistency))),
        ("mean", lambda one: float(np.nanmean(one.consistency))),
        ("sensor error, median", lambda one: float(np.nanmedian(one.sensor))),
        ("sensor error, mean", lambda one: float(np.nanmean(one.sensor))),
        ("map error", lambda one: one.map_error),
        ("points at folds (count)", lambda one: one.folded),
    ]
    for setting, scores in settings.items():
        for label, read in readings:
            values = [read(scores[column]) for column in COLUMNS]
            if not np.isnan(values).all() and not (label.endswith("(count)") and not any(values)):
                table.add(f"{setting}: {label}", values)
    return table


# -- what this project says of its own columns --


def claims_of_ours(table: Table) -> list[Claim]:
    """The default and the tuned column in every row of errors."""
    theirs = [column for column in table.columns if column not in OURS]
    claims = []
    for label, values in table.rows:
        row = dict(zip(table.columns, values, strict=True))
        for column in OURS:
            if "sensor error" in label:
                best = min(theirs, key=lambda other: row[other])
                text, limit = f"{column} at most the best of the others", row[best]
                holds = shown(row[column]) == shown(limit) or row[column] < limit  # as printed
            elif label.endswith("map error"):
                best = next(other for other in theirs if other.startswith("kernel"))
                text, limit = f"{column} below the paper's kernel", row[best]
                holds = row[column] < limit
            else:
                continue
            found = f"{shown(row[column])} against {shown(limit)} {table.unit} ({best})"
            claims.append(Claim(f"here: {table.name}, {label}: {text}", holds, found, _why(table, label, column, best)))
    return claims


def _why(table: Table, label: str, column: str, best: str) -> str:
    """What the table itself shows of an error above the best of the others; nothing where it does not show a reason."""
    setting, _, reading = label.rpartition(": ")
    row, rows = table.row(label), dict(table.rows)
    if "wrong" in setting and column == "default":
        return "the default does not set wrong matches aside; robust fitting does"
    folds = table.row(f"{setting}: points at folds (count)") if f"{setting}: points at folds (count)" in rows else {}
    median = f"{setting}: sensor error, median"
    if reading.endswith("mean") and folds.get(column) and table.row(median)[column] <= 1.05 * table.row(median)[best]:
        return f"{folds[column]:g} points at folds of the warps make the mean; compare the median"
    errors = table.row(f"{setting}: map error") if f"{setting}: map error" in rows else {}
    if "sensor" in reading and errors and errors[column] < errors[best] and row[column] <= 1.05 * row[best]:
        return "within 5 %, and the map is nearer to the truth"
    if column == "default" and "sensor" in reading and not best.startswith("kernel"):
        return f"{best} suits these data better than kernels of these settings, the paper's too"
    if column == "tuned" and "sensor" in reading:
        return "landmarks left out did not foretell what suits the test points"
    return ""

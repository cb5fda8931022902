"""The tables of a result folder, as CSV that R, pandas and spreadsheets read; a missing value is an empty field.

aligned.csv     one row per cloud, columns ``label.X, label.Y[, label.Z]`` as two.d.array of geomorph orders them:
                the clouds superimposed by their poses, never by warps that deform
clouds.csv      one row per cloud: sizes, Procrustes distances, errors, attributes
landmarks.csv   one row per landmark: errors
findings.csv    one row per finding of the diagnosis
suspicious.csv  one row per observation, by leave-one-out residual, largest first
tuning.csv      one row per trial, if settings were tuned
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from ..estimators.base import GPA
from ..io.csv_table import csv_line
from ..io.text import format_number
from ..observations import Observations
from ..trust.procrustes import procrustes_coordinates
from ..trust.selection import Trial, Tuning
from ..typing import Array
from .summary import ReportedFinding
from .tables import Column

LARGEST_WHOLE = 1e15  # numbers below are written without a decimal point if they are whole
ALIGNED, CLOUDS, LANDMARKS = "aligned.csv", "clouds.csv", "landmarks.csv"
FINDINGS, SUSPICIOUS, TUNING = "findings.csv", "suspicious.csv", "tuning.csv"
CSV_FILES = (ALIGNED, CLOUDS, LANDMARKS, FINDINGS, SUSPICIOUS, TUNING)


def csv_text(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table as text."""
    return csv_line(list(header)) + "".join(csv_line([_field(value) for value in row]) for row in rows)


def _field(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, float):  # a NumPy number of double precision is one too
        return "" if value is None else str(value)
    if math.isnan(value):
        return ""
    return str(int(value)) if value.is_integer() and abs(value) < LARGEST_WHOLE else format_number(value)


def aligned_table(gpa: GPA, convention: str) -> str:
    """The superimposed clouds, one row each."""
    aligned, _ = procrustes_coordinates(gpa, convention)
    return coordinate_table(gpa.observations_, aligned)


def coordinate_table(observations: Observations, points: Array) -> str:  # (n, m, d)
    """One row per cloud, one column per coordinate."""
    axes = "XYZ"[: points.shape[2]]
    header = ["cloud", *(f"{label}.{axis}" for label in observations.landmarks for axis in axes)]
    rows = ([str(name), *one.ravel().tolist()] for name, one in zip(observations.names, points, strict=True))
    return csv_text(header, rows)


def column_table(first: str, names: Sequence[object], columns: Sequence[Column]) -> str:
    """One row per name, with the columns of a table of the page."""
    values = [_column_values(column) for column in columns]
    return csv_text([first, *(column.name for column in columns)], zip(map(str, names), *values, strict=True))


def _column_values(column: Column) -> Sequence[object]:
    if column.kind in ("membership", "flag"):
        return [bool(value) for value in column.values]
    values: Sequence[str] | Array = column.values
    return list(values) if isinstance(values, list | tuple) else [float(value) for value in values]


def findings_table(findings: Sequence[ReportedFinding]) -> str:
    header = ("code", "finding", "severity", "note", "found", "action")
    rows = ((one.code, one.kind, round(one.severity, 4), one.note, one.found, one.action) for one in findings)
    return csv_text(header, rows)


def suspicious_table(gpa: GPA) -> str:
    """Residuals in the unit of the data, and weights as shares of the weights given."""
    rows = ((one.cloud, one.landmark, one.residual, one.weight) for one in gpa.suspicious_observations())
    return csv_text(("cloud", "landmark", "residual", "weight_share"), rows)


def tuning_table(tuning: Tuning) -> str:
    names = list(dict.fromkeys(name for trial in tuning.trials for name in trial.settings))
    rows = (
        (trial.model, *(trial.settings.get(name) for name in names), *_scores(trial), trial.seconds, trial.failure)
        for trial in tuning.trials
    )
    scores = ("score", "sensor_rms", "sensor_trimmed", "sensor_median")
    return csv_text(("model", *names, *scores, "seconds", "failure"), rows)


def _scores(trial: Trial) -> tuple[float, ...]:
    return trial.score, trial.sensor_rms, trial.sensor_trimmed, trial.sensor_median

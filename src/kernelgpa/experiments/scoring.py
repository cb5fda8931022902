"""The methods of every table, their scores on test points, and the claims about the three methods of this project.

The first five columns are the methods of the paper.  "kernel (program)", "affine" and "thin-plate" have the form of the
authors' program (``modes="program"``, R_g = I); "kernel (paper)" has the R_g of the paper's text (``modes="paper"``).
The last three are this project's: "kernel (faithful)" is the faithful map with the same settings; "automatic"
is ``KernelGPA()``, which chooses its settings from the data; "tuned" is the family and the settings with the least
cross-validation error, with robust weights if they lower it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from sklearn import config_context
from sklearn.base import clone

from .. import simulate
from ..errors import silenced_warnings
from ..estimators import TPSGPA, AffineGPA, KernelGPA, RigidGPA
from ..estimators.base import GPA
from ..estimators.deformable import DeformableGPA
from ..trust import metrics, selection
from ..typing import Array, BoolArray
from .tables import (
    ALL_METHODS,
    AUTOMATIC,
    FAITHFUL,
    KERNEL_METHODS,
    OWN_METHODS,
    PAPER_KERNEL,
    PAPER_METHODS,
    PROGRAM_KERNEL,
    TUNED,
    Claim,
    Table,
    formatted,
)

ROBUST_LOSS = "geman-mcclure"
TRIMMED_SHARE = 10  # one residual of this many is left out of the error that compares tuned models
CLOSE_RATIO = 1.05  # ratio up to which two errors count as close
FOLD_COUNT = "points at folds (count)"


@dataclass(frozen=True)
class ExperimentSettings:
    """The settings that the paper states for its methods in one experiment."""

    bandwidth: float
    smoothing: float
    thin_plate_smoothing: float = 0.01
    control_points: int = 5  # per axis

    @property
    def kernel(self) -> str:
        return f"{self.bandwidth}; {self.smoothing}"


@dataclass(frozen=True)
class TuningPlan:
    """The settings among which the method "tuned" is chosen, and the folds of the cross-validation that chooses."""

    kernel: Mapping[str, Sequence[float]]
    thin_plate: Mapping[str, Sequence[float]]
    folds: int
    rounds: int  # refinements of the grid around its best setting


THIN_PLATE_GRID = {"smoothing": [1e-2, 1.0, 1e2]}  # for bodies of 200 mm
FULL_TUNING = TuningPlan(
    kernel={"bandwidth": [0.15, 0.25, 0.5, 1.0, 2.0], "smoothing": [1e-3, 1e-2, 1e-1, 1.0]},
    thin_plate=THIN_PLATE_GRID,
    folds=10,
    rounds=1,
)
QUICK_TUNING = TuningPlan(
    kernel={"bandwidth": [0.25, 0.5, 1.0], "smoothing": [1e-2, 1e-1]},
    thin_plate=THIN_PLATE_GRID,
    folds=5,
    rounds=0,
)


# -- the methods --


def fit_methods(points: Array, settings: ExperimentSettings, tuning: TuningPlan) -> dict[str, GPA]:  # (n, m, d)
    """Return all methods, fitted."""
    with silenced_warnings():
        models = {name: model.fit(points) for name, model in untuned_methods(settings).items()}
        models[TUNED] = fit_tuned(points, tuning)
    return models


def untuned_methods(settings: ExperimentSettings) -> dict[str, GPA]:
    """Return the methods that need no tuning, not fitted: the paper's settings, and automatic ones."""
    bandwidth, smoothing = settings.bandwidth, settings.smoothing
    return {
        "rigid": RigidGPA(),
        "affine": AffineGPA(modes="program"),
        "thin-plate": TPSGPA(
            control_points=settings.control_points, smoothing=settings.thin_plate_smoothing, modes="program"
        ),
        PROGRAM_KERNEL: KernelGPA(bandwidth=bandwidth, smoothing=smoothing, modes="program", robust=None),
        PAPER_KERNEL: KernelGPA(bandwidth=bandwidth, smoothing=smoothing, modes="paper", robust=None),
        FAITHFUL: KernelGPA(bandwidth=bandwidth, smoothing=smoothing, robust=None),
        AUTOMATIC: KernelGPA(),
    }


def fit_tuned(points: Array, plan: TuningPlan) -> DeformableGPA:  # (n, m, d)
    """Return the family and the settings with the least cross-validation error, robust if that lowers it; fitted."""
    folds = min(plan.folds, points.shape[1])
    best = []
    for robust in (None, ROBUST_LOSS):
        grid = [(KernelGPA(robust=robust), plan.kernel), (TPSGPA(robust=robust), plan.thin_plate)]
        best.append(selection.tune(points, grid=grid, folds=folds, rounds=plan.rounds, n_jobs=-1).best)
    return min(best, key=lambda model: trimmed_error(model, points, folds))


def trimmed_error(model: GPA, points: Array, folds: int) -> float:
    """Return the root mean square cross-validation residual in sensor frames, without the largest tenth.

    The largest tenth is left out because it holds the wrong matches, whatever the fit.  All other residuals count,
    because a robust fit of stiff warps rejects observations that really deform, which a median would reward.
    """
    residuals = np.linalg.norm(selection.cross_validate(model, points, folds=folds).residuals, axis=2)
    ordered = np.sort(residuals[~np.isnan(residuals)])
    return float(np.sqrt(np.mean(ordered[: len(ordered) - len(ordered) // TRIMMED_SHARE] ** 2)))


def describe_settings(models: Mapping[str, GPA], scene: str) -> list[str]:
    """Return the settings that were chosen from the data as code, without relying on any default of the estimators."""
    automatic = models[AUTOMATIC]
    used = {name: getattr(automatic, f"{name}_") for name in ("bandwidth", "smoothing", "robust")}
    return [
        f"{AUTOMATIC}, {scene}: {as_code(clone(automatic).set_params(**used))}",
        f"{TUNED}, {scene}: {as_code(models[TUNED])}",
    ]


def as_code(model: GPA) -> str:
    """Return the call that makes the estimator, with all of its parameters."""
    with config_context(print_changed_only=False):
        return " ".join(repr(model).split())


# -- scores --


@dataclass(frozen=True)
class Scores:
    """The errors of a fitted registration on k test points."""

    consistency: Array  # (k,)
    sensor: Array  # (k,)
    map_error: float  # NaN if the truth is not known
    folded: int  # test points, of all clouds, at which the warp reverses orientation


def score_methods(
    models: Mapping[str, GPA],
    test: Array,  # (n, k, d)
    truth: Array | None = None,  # (m, d)
) -> dict[str, Scores]:
    return {method: _score(models[method], test, truth) for method in ALL_METHODS}


def _score(gpa: GPA, test: Array, truth: Array | None) -> Scores:
    warped, jacobians = gpa.transform_clouds(test), gpa.jacobians(test)
    error = np.nan if truth is None else metrics.map_error(gpa.map_, truth)
    shared = np.sum(~np.isnan(test[:, :, 0]), axis=0) >= 2  # a point of one cloud is always consistent with itself
    consistency = np.where(shared, metrics.consistency(warped), np.nan)
    folded = int(np.sum(np.linalg.det(jacobians[~np.isnan(jacobians).any(axis=(2, 3))]) <= 0))
    return Scores(consistency, metrics.sensor_error(warped, jacobians), error, folded)


def extrapolate(
    scene: simulate.Simulation,
    region: BoolArray,  # (v,) vertices
    settings: ExperimentSettings,
    tuning: TuningPlan,
) -> tuple[dict[str, GPA], dict[str, Scores]]:
    """Fit all methods without the landmarks of a region, and score them on the vertices of that region."""
    kept = ~region[scene.landmarks]
    models = fit_methods(scene.points[:, kept], settings, tuning)
    return models, score_methods(models, scene.surfaces[:, region], scene.template[kept])


def distance_table(
    name: str,
    title: str,
    labels: Sequence[str],  # (n,) one per surface
    models: Mapping[str, GPA],
    surfaces: Array,  # (n, k, d)
    unit: str,
) -> Table:
    """Tabulate the least, largest and mean distance of the points of each warped surface from the mean of all."""
    distances = [_distances_from_mean(models[method], surfaces) for method in ALL_METHODS]
    table = Table(name, title, unit, ALL_METHODS)
    for t, label in enumerate(labels):
        for statistic, of in (("min", np.nanmin), ("max", np.nanmax), ("mean", np.nanmean)):
            table.add(f"{label}: {statistic}", [float(of(one[t])) for one in distances])
    return table


def mean_distances(models: Mapping[str, GPA], surfaces: Array) -> Array:  # (n, k, d) -> (n, models)
    """Return the mean distance of each warped surface from the mean of all."""
    return np.transpose([np.nanmean(_distances_from_mean(model, surfaces), axis=1) for model in models.values()])


def _distances_from_mean(gpa: GPA, surfaces: Array) -> Array:  # (n, k, d) -> (n, k)
    warped = gpa.transform_clouds(surfaces)
    return np.asarray(np.linalg.norm(warped - metrics.mean_map(warped), axis=2))


STATISTICS: dict[str, Callable[[Scores], float]] = {
    "min": lambda scores: float(np.nanmin(scores.consistency)),
    "max": lambda scores: float(np.nanmax(scores.consistency)),
    "mean": lambda scores: float(np.nanmean(scores.consistency)),
    "sensor error, median": lambda scores: float(np.nanmedian(scores.sensor)),
    "sensor error, mean": lambda scores: float(np.nanmean(scores.sensor)),
    "map error": lambda scores: scores.map_error,
    FOLD_COUNT: lambda scores: scores.folded,
}


def score_table(name: str, title: str, by_scene: Mapping[str, Mapping[str, Scores]], unit: str = "mm") -> Table:
    """Tabulate for each scene the disagreement (min, max, mean), the sensor-frame error and, if known, the map error.

    The sensor-frame error is very large near folds of the warps, and one such point among thousands determines the
    mean.  Therefore the median is given too, and points at folds are counted if there are any.
    """
    table = Table(name, title, unit, ALL_METHODS)
    for scene, scores in by_scene.items():
        for label, statistic in STATISTICS.items():
            values = [statistic(scores[method]) for method in ALL_METHODS]
            if not np.isnan(values).all() and (label != FOLD_COUNT or any(values)):
                table.add(f"{scene}: {label}", values)
    return table


# -- claims --


def method_values(row: Mapping[str, float]) -> str:
    """Return the values of the paper's methods as text."""
    return ", ".join(f"{method} {formatted(row[method])}" for method in PAPER_METHODS)


def own_claims(table: Table) -> list[Claim]:
    """Compare the methods of this project with the paper's, in each row of sensor-frame or map errors."""
    others = [column for column in table.columns if column not in OWN_METHODS]
    claims = []
    for label, _ in table.rows:
        row = table.row(label)
        for method in OWN_METHODS:
            if "sensor error" in label:
                rival = min(others, key=lambda other: row[other])
                holds = formatted(row[method]) == formatted(row[rival]) or row[method] < row[rival]  # as printed
                claims.append(
                    _own_claim(table, label, method, rival, f"{method} at most the best of the others", holds)
                )
            elif label.endswith("map error"):
                for rival in _kernels(others):
                    holds = row[method] < row[rival]
                    claims.append(_own_claim(table, label, method, rival, f"{method} below the {rival}", holds))
    return claims


def _kernels(columns: Sequence[str]) -> list[str]:
    """Return the columns of the paper's kernel: that of the authors' program, and that with R_g."""
    return [column for column in columns if column.startswith(KERNEL_METHODS) and not column.endswith("pairwise")]


def _own_claim(table: Table, label: str, method: str, rival: str, text: str, holds: bool) -> Claim:
    row = table.row(label)
    found = f"{formatted(row[method])} against {formatted(row[rival])} {table.unit} ({rival})"
    return Claim(f"here: {table.name}, {label}: {text}", holds, found, _reason(table, label, method, rival))


def _reason(table: Table, label: str, method: str, rival: str) -> str:
    """Return why an error is above the rival's, if the table itself shows a reason; otherwise an empty text."""
    scene, _, statistic = label.rpartition(": ")
    row = table.row(label)
    if "wrong" in scene and method == FAITHFUL:
        return "without a robust loss wrong matches are not rejected"
    folded = _row_if_present(table, f"{scene}: {FOLD_COUNT}")
    if statistic.endswith("mean") and folded.get(method):
        median = table.row(f"{scene}: sensor error, median")
        if median[method] <= CLOSE_RATIO * median[rival]:
            return f"{folded[method]:g} points at folds of the warps determine the mean; compare the median"
    map_errors = _row_if_present(table, f"{scene}: map error")
    nearer = bool(map_errors) and map_errors[method] < map_errors[rival]
    if "sensor" in statistic and nearer and row[method] <= CLOSE_RATIO * row[rival]:
        return "within 5 %, and the map is nearer to the truth"
    if method == FAITHFUL and "sensor" in statistic and not rival.startswith("kernel"):
        return f"{rival} suits these data better than kernels with these settings, the paper's kernel included"
    if method != FAITHFUL and "sensor" in statistic:
        return "the error on left-out landmarks did not predict the error on the test points"
    return ""


def _row_if_present(table: Table, label: str) -> dict[str, float]:
    return table.row(label) if label in dict(table.rows) else {}

"""Global scales against pairwise scales as observations are removed.

155 landmarks in 8 views of a bending sheet; of the 1240 observations some are removed at random.  Each method is fitted
with globally refined scales and with the pairwise scales of 2022, and scored by the cross-validation error, leaving out
groups of landmarks and single landmarks.  The two differ only in the lengths of the map's axes: their sensor-frame
errors are equal, and the distance of the map from the flat sheet tells them apart.  The pairwise method here accounts
for visibility; the published program adds the translation at unseen points too.  The methods have the form of the
authors' program (R_g = I), in which the scales are the only unknowns; one more column has the kernel with R_g.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from matplotlib.figure import Figure
from sklearn.base import clone

from .. import simulate
from .._numerics.progress import with_progress
from ..errors import KernelGPAError
from ..estimators.deformable import DeformableGPA
from ..estimators.models import TPSGPA, AffineGPA, KernelGPA
from ..trust import selection
from ..trust.metrics import map_error
from ..typing import Array
from .figures import CaptionedFigure
from .scoring import FULL_TUNING, QUICK_TUNING, Settings, TuningPlan, as_code, fit_tuned, own_claims, without_warnings
from .tables import (
    AUTOMATIC,
    FAITHFUL,
    PAPER_KERNEL,
    PROGRAM_KERNEL,
    TUNED,
    Claim,
    Outcome,
    Parameter,
    Table,
    formatted,
)


@dataclass(frozen=True)
class Plan:
    removals: tuple[int, ...]  # how many observations are removed
    trials: int  # per number of removed observations
    folds: Mapping[str, int | str]  # of the cross-validation, by the name that tables and figures show
    noise: float  # mm
    tuning: TuningPlan


FOLDS: dict[str, int | str] = {"20 folds": 20, "leave one out": "leave-one-out"}
FULL = Plan(removals=tuple(range(50, 601, 50)), trials=20, folds=FOLDS, noise=1.0, tuning=FULL_TUNING)
QUICK = Plan(removals=(300, 600), trials=2, folds=FOLDS, noise=1.0, tuning=QUICK_TUNING)

ERRORS = ("cross-validation error", "sensor error, median", "map error")
COMPARED_SCALES = ("refined", "pairwise")
CONTROL_POINTS = (3, 5, 7)  # per axis
KERNEL_SETTINGS: dict[str, Any] = {"bandwidth": 0.25, "smoothing": 0.1, "robust": None}
MIN_VIEWS = 3  # of a landmark, which are never removed
MANY_REMOVED = 0.3  # of the observations, from which on the refined scales should be better
REASON = "the pairwise method here accounts for visibility, as the published program does not; the two then differ by"


def models(scale_method: str) -> dict[str, DeformableGPA]:
    thin_plate = {
        f"thin-plate {count}": TPSGPA(count, Settings.thin_plate_smoothing, modes="program", scale_method=scale_method)
        for count in CONTROL_POINTS
    }
    return {
        "affine": AffineGPA(modes="program", scale_method=scale_method),
        **thin_plate,
        PROGRAM_KERNEL: KernelGPA(**KERNEL_SETTINGS, modes="program", scale_method=scale_method),
    }


def run(plan: Plan, seed: int) -> Outcome:
    scene = simulate.sheet(noise=plan.noise, seed=seed)
    views, landmarks = scene.points.shape[:2]
    with without_warnings():
        tuned = {count: clone(fit_tuned(_thinned(scene, count, 0, seed), plan.tuning)) for count in plan.removals}
    errors = {name: _median_errors(scene, tuned, plan, name, seed) for name in plan.folds}
    tables = [_table(name, plan.removals, found) for name, found in errors.items()]
    caption = "Cross-validation error and map error as observations are removed."
    return Outcome(
        "scales",
        "Scales",
        f"{views} views of {landmarks} landmarks of a bending sheet, {plan.noise:g} mm noise, seed {seed}; median over "
        f"{plan.trials} trials. The map error is the distance from the flat sheet. The pairwise method accounts for "
        "visibility, as the published program does not.",
        tables,
        [claim for table in tables for claim in [*_claims(table, views * landmarks), *own_claims(table)]],
        {"removed": CaptionedFigure(_figure(errors, plan.removals), caption)},
        [f"{TUNED}, {count} removed: {as_code(model)}" for count, model in tuned.items()],
        [
            Parameter("views; landmarks", "8; 155", f"{views}; {landmarks}"),
            Parameter(
                "observations removed",
                "50 to 600 of 1240",
                f"{plan.removals[0]} to {plan.removals[-1]} of {views * landmarks}",
            ),
            Parameter("trials", "20", str(plan.trials)),
            Parameter("thin-plate: control points per axis", "3, 5, 7", ", ".join(map(str, CONTROL_POINTS))),
            Parameter("left out", "20 folds, leave one out", ", ".join(plan.folds)),
        ],
    )


Errors = dict[str, Array]  # by column: (numbers of removed observations, kinds of error)


def _median_errors(
    scene: simulate.Simulation, tuned: Mapping[int, DeformableGPA], plan: Plan, name: str, seed: int
) -> Errors:
    """Return the medians over the trials, without the trials in which a method fails, so that all stay comparable."""
    tasks = [(count, trial) for count in tuned for trial in range(plan.trials)]
    calls = (delayed(_trial)(scene, count, trial, tuned[count], plan.folds[name], seed) for count, trial in tasks)
    results = list(with_progress(Parallel(n_jobs=-1, return_as="generator")(calls), f"scales, {name}", len(tasks)))
    columns = list(results[0])
    values = np.array([[errors[column] for column in columns] for errors in results])
    values[np.isnan(values).any(axis=(1, 2))] = np.nan
    medians = np.nanmedian(values.reshape(len(tuned), plan.trials, len(columns), len(ERRORS)), axis=1)
    return {column: medians[:, i] for i, column in enumerate(columns)}


def _trial(
    scene: simulate.Simulation, count: int, trial: int, tuned: DeformableGPA, folds: int | str, seed: int
) -> dict[str, list[float]]:
    """Return the errors of each method with both kinds of scales, and of this project's three, on the same data."""
    thinned = _thinned(scene, count, trial, seed)
    columns = {f"{name}, {method}": model for method in COMPARED_SCALES for name, model in models(method).items()}
    columns[f"{PAPER_KERNEL}, refined"] = KernelGPA(**KERNEL_SETTINGS, modes="paper")
    columns |= {FAITHFUL: KernelGPA(**KERNEL_SETTINGS), AUTOMATIC: KernelGPA(), TUNED: tuned}
    return {column: _errors_of(model, thinned, scene.template, folds) for column, model in columns.items()}


def _errors_of(model: DeformableGPA, points: Array, truth: Array, folds: int | str) -> list[float]:
    try:
        with without_warnings():
            validation = selection.cross_validate(model, points, folds=folds)
            error = map_error(validation.fitted.map_, truth)
    except KernelGPAError:  # the observations of a fold may be too few to determine a warp
        return [np.nan] * len(ERRORS)
    return [validation.cve, float(np.nanmedian(np.linalg.norm(validation.residuals, axis=2))), error]


def _thinned(scene: simulate.Simulation, count: int, trial: int, seed: int) -> Array:
    return without_observations(scene.points, count, np.random.default_rng([seed, count, trial]))


def without_observations(points: Array, count: int, rng: np.random.Generator) -> Array:  # (n, m, d)
    """Return the points without ``count`` random observations; each landmark keeps at least ``MIN_VIEWS`` views."""
    thinned, order = points.copy(), rng.permutation(points.shape[0] * points.shape[1])
    views = np.sum(~np.isnan(points[:, :, 0]), axis=0)
    for flat in order:
        t, j = divmod(int(flat), points.shape[1])
        if count and views[j] > MIN_VIEWS:
            thinned[t, j] = np.nan
            views[j] -= 1
            count -= 1
    return thinned


def _table(name: str, removals: tuple[int, ...], errors: Errors) -> Table:
    table = Table(f"scales-{name.replace(' ', '-')}", f"as observations go missing, {name}", "mm", tuple(errors))
    for i, count in enumerate(removals):
        for k, error in enumerate(ERRORS):
            table.add(f"{count} removed: {error}", [values[i, k] for values in errors.values()])
    return table


def _claims(table: Table, observations: int) -> list[Claim]:
    claims = []
    for name in models("refined"):
        for error in ("cross-validation error", "map error"):
            late = [
                (row[f"{name}, refined"], row[f"{name}, pairwise"])
                for label, row in ((label, table.row(label)) for label, _ in table.rows)
                if label.endswith(error) and int(label.split()[0]) >= MANY_REMOVED * observations
            ]
            source = "paper" if error == ERRORS[0] else "here"
            found = "; ".join(f"{formatted(refined)} against {formatted(pairwise)}" for refined, pairwise in late)
            difference = max(abs(refined / pairwise - 1) for refined, pairwise in late)
            text = f"{source}: {table.name}, {name}, {error}: refined beats pairwise from {MANY_REMOVED:.0%} removed on"
            holds = all(refined < pairwise for refined, pairwise in late)
            claims.append(Claim(text, holds, found, f"{REASON} {difference:.1%} at most"))
    return claims


def _figure(errors: dict[str, Errors], removals: tuple[int, ...]) -> Figure:
    """Draw one row per kind of error and one panel per method."""
    names = list(models("refined"))
    rows = [(f"error, {name} (mm)", found, 0) for name, found in errors.items()]
    rows.append(("map error (mm)", next(iter(errors.values())), ERRORS.index("map error")))
    figure = Figure(figsize=(13, 8.5), layout="constrained")
    panels = figure.subplots(len(rows), len(names), sharex=True, sharey="row", squeeze=False)
    style = {"refined": ("o-", "tab:blue", 4), "pairwise": ("s--", "tab:orange", 8)}
    for row, (label, found, k) in zip(panels, rows, strict=True):
        for axes, name in zip(row, names, strict=True):
            for method, (line, colour, size) in style.items():
                values = found[f"{name}, {method}"][:, k]
                axes.plot(removals, values, line, color=colour, markerfacecolor="none", markersize=size, label=method)
        row[0].set_ylabel(label)
        row[0].set_ylim(0, 1.1 * max(float(np.nanmax(values[:, k])) for values in found.values()))
    for axes, name in zip(panels[0], names, strict=True):
        axes.set_title(name)
    for axes in panels[-1]:
        axes.set_xlabel("observations removed")
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=2)
    return figure

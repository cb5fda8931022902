"""Global scales against pairwise scales as observations are removed (Figure 3 of the paper).

155 landmarks in 8 views of a bending sheet; of the 1240 observations some are removed at random.  Each of five kinds of
warps is fitted with the scales of three methods, in the form of the authors' program (R_g = I), in which the scales are
the only unknowns:

    refined                the global method of the paper
    pairwise (published)   the method of 2022 as in the published program, with which the paper compares
    pairwise               the same, with translations at seen points only

All are scored by the cross-validation error, leaving out groups of landmarks and single landmarks.  They differ in the
lengths of the map's axes only: their sensor-frame errors are equal, and the distance of the map from the flat sheet
distinguishes them.  The published method depends on the origin of the coordinates, which is the corner of the views, as
in images.  A second table compares the maps of kernels with refined scales.
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
from ..errors import KernelGPAError, silenced_warnings
from ..estimators.deformable import DeformableGPA
from ..estimators.models import TPSGPA, AffineGPA, KernelGPA
from ..trust import selection
from ..trust.cross_validation import CrossValidation
from ..trust.folds import Folds
from ..trust.metrics import map_error
from ..typing import Array
from .figures import CaptionedFigure
from .gauges import cross_validate_gauges
from .scoring import FULL_TUNING, QUICK_TUNING, ExperimentSettings, TuningPlan, as_code, fit_tuned, own_claims
from .tables import (
    AUTOMATIC,
    FAITHFUL,
    OWN_METHODS,
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
class Validation:
    """How landmarks are left out."""

    folds: Folds
    trials: int  # per number of removed observations
    own: bool  # whether the methods of this project are compared too


@dataclass(frozen=True)
class Plan:
    removals: tuple[int, ...]  # how many observations are removed
    validations: Mapping[str, Validation]  # by the name that tables and figures show
    noise: float  # mm
    tuning: TuningPlan


BY_FOLDS, BY_LANDMARK = "20 folds", "leave one out"
FULL = Plan(
    removals=tuple(range(100, 601, 100)),
    # five trials of single landmarks, which take five times as long as groups; the page states it beside the paper's 20
    validations={BY_FOLDS: Validation(20, 20, own=True), BY_LANDMARK: Validation("leave-one-out", 5, own=False)},
    noise=1.0,
    tuning=FULL_TUNING,
)
QUICK = Plan(
    removals=(300, 600),
    validations={BY_FOLDS: Validation(20, 2, own=True), BY_LANDMARK: Validation("leave-one-out", 2, own=False)},
    noise=1.0,
    tuning=QUICK_TUNING,
)

CVE, SENSOR, MAP_ERROR = "cross-validation error", "sensor error, median", "map error"
ERRORS = (CVE, SENSOR, MAP_ERROR)
SCALES = {"refined": "refined", "pairwise": "pairwise", "pairwise (published)": "pairwise-published"}
CONTROL_POINTS = (3, 5, 7)  # per axis
KERNEL_SETTINGS: dict[str, Any] = {"bandwidth": 0.25, "smoothing": 0.1, "robust": None}
MIN_VIEWS = 3  # of a landmark, which are never removed
MANY_REMOVED = 0.3  # of the observations, from which on the refined scales should be better

Errors = dict[tuple[str, str], Array]  # by warps and scales, or by warps and method: (removals, kinds of error)


def models(scale_method: str) -> dict[str, DeformableGPA]:
    thin_plate = {
        f"thin-plate {count}": TPSGPA(
            count, ExperimentSettings.thin_plate_smoothing, modes="program", scale_method=scale_method
        )
        for count in CONTROL_POINTS
    }
    return {
        "affine": AffineGPA(modes="program", scale_method=scale_method),
        **thin_plate,
        PROGRAM_KERNEL: KernelGPA(**KERNEL_SETTINGS, modes="program", scale_method=scale_method),
    }


def run(plan: Plan, seed: int) -> Outcome:
    """Return the tables and the figure of the scale methods: Figure 3 of the paper."""
    scene = simulate.sheet(noise=plan.noise, seed=seed)
    views, landmarks = scene.points.shape[:2]
    points = in_image_coordinates(scene.points)
    with silenced_warnings():
        tuned = {count: clone(fit_tuned(_thinned(points, count, 0, seed), plan.tuning)) for count in plan.removals}
    errors = {name: _median_errors(points, scene.template, tuned, plan, name, seed) for name in plan.validations}
    scale_tables = [_scale_table(name, plan.removals, found) for name, found in errors.items()]
    kernel_tables = [
        _kernel_table(name, plan.removals, errors[name]) for name, one in plan.validations.items() if one.own
    ]
    claims = [claim for table in scale_tables for claim in _claims(table, views * landmarks)]
    caption = "Cross-validation error and map error as observations are removed."
    return Outcome(
        "scales",
        "Scales",
        _about(plan, views, landmarks, seed),
        [*scale_tables, *kernel_tables],
        [*claims, *(claim for table in kernel_tables for claim in own_claims(table))],
        {"removed": CaptionedFigure.of(_figure(errors, plan.removals), caption)},
        [f"{TUNED}, {count} removed: {as_code(model)}" for count, model in tuned.items()],
        _parameters(plan, views, landmarks),
    )


def _about(plan: Plan, views: int, landmarks: int, seed: int) -> str:
    trials = " and ".join(f"{one.trials} ({name})" for name, one in plan.validations.items())
    return (
        f"{views} views of {landmarks} landmarks of a bending sheet, {plan.noise:g} mm noise, seed {seed}; median over "
        f"trials: {trials}. The map error is the distance from the flat sheet. Pairwise (published) adds the "
        "translation at unseen points too, as the published program does; pairwise adds it at seen points only."
    )


def _parameters(plan: Plan, views: int, landmarks: int) -> list[Parameter]:
    removed = ", ".join(map(str, plan.removals))
    return [
        Parameter("views; landmarks", "8; 155", f"{views}; {landmarks}"),
        Parameter("observations removed", "gradually, of 1240", f"{removed} of {views * landmarks}"),
        Parameter("thin-plate: control points per axis", "3, 5, 7", ", ".join(map(str, CONTROL_POINTS))),
        *(Parameter(f"trials, {name}", "20", str(one.trials)) for name, one in plan.validations.items()),
    ]


def in_image_coordinates(points: Array) -> Array:  # (n, m, d)
    """Return the points with the origin in a corner, as in images."""
    return np.asarray(points - np.nanmin(points, axis=(0, 1)))


def _median_errors(
    points: Array, truth: Array, tuned: Mapping[int, DeformableGPA], plan: Plan, name: str, seed: int
) -> Errors:
    """Return the medians over the trials, without the trials in which a method fails, so that all stay comparable."""
    one = plan.validations[name]
    tasks = [(count, trial) for count in tuned for trial in range(one.trials)]
    calls = (delayed(_trial)(_thinned(points, count, k, seed), truth, tuned[count], one) for count, k in tasks)
    results = list(with_progress(Parallel(n_jobs=-1, return_as="generator")(calls), f"scales, {name}", len(tasks)))
    columns = list(results[0])
    values = np.array([[errors[column] for column in columns] for errors in results])
    values[np.isnan(values).any(axis=(1, 2))] = np.nan
    medians = np.nanmedian(values.reshape(len(tuned), one.trials, len(columns), len(ERRORS)), axis=1)
    return {column: medians[:, i] for i, column in enumerate(columns)}


def _trial(thinned: Array, truth: Array, tuned: DeformableGPA, one: Validation) -> dict[tuple[str, str], list[float]]:
    """Return the errors of each method on the same data."""
    by_scales = {name: models(method) for name, method in SCALES.items()}
    found: dict[tuple[str, str], list[float]] = {}
    for warps in models("refined"):
        gauges = {name: by_scales[name][warps] for name in SCALES}
        if warps == PROGRAM_KERNEL and one.own:
            gauges[PAPER_KERNEL] = KernelGPA(**KERNEL_SETTINGS, modes="paper")
        found |= {(warps, name): errors for name, errors in _errors_of_gauges(gauges, thinned, truth, one).items()}
    own = {FAITHFUL: KernelGPA(**KERNEL_SETTINGS), AUTOMATIC: KernelGPA(), TUNED: tuned} if one.own else {}
    for name, model in own.items():
        found[PROGRAM_KERNEL, name] = _errors_of_method(model, thinned, truth, one)
    return found


def _errors_of_gauges(
    gauges: Mapping[str, DeformableGPA], thinned: Array, truth: Array, one: Validation
) -> dict[str, list[float]]:
    try:
        with silenced_warnings():
            validations = cross_validate_gauges(gauges, thinned, one.folds)
    except KernelGPAError:  # the observations of a fold may be too few to determine a warp
        return {name: [np.nan] * len(ERRORS) for name in gauges}
    return {name: _errors_in(validation, truth) for name, validation in validations.items()}


def _errors_of_method(model: DeformableGPA, thinned: Array, truth: Array, one: Validation) -> list[float]:
    try:
        with silenced_warnings():
            return _errors_in(selection.cross_validate(model, thinned, folds=one.folds), truth)
    except KernelGPAError:
        return [np.nan] * len(ERRORS)


def _errors_in(validation: CrossValidation, truth: Array) -> list[float]:
    """Return the three errors in the order of ``ERRORS``."""
    sensor = float(np.nanmedian(np.linalg.norm(validation.residuals, axis=2)))
    return [validation.cve, sensor, map_error(validation.fitted.map_, truth)]


def _thinned(points: Array, count: int, trial: int, seed: int) -> Array:
    return without_observations(points, count, np.random.default_rng([seed, count, trial]))


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


def _scale_table(name: str, removals: tuple[int, ...], errors: Errors) -> Table:
    """Tabulate the errors that depend on the scales, one column per method for the scales."""
    table = Table(f"scales-{name.replace(' ', '-')}", f"scales as observations go missing, {name}", "mm", tuple(SCALES))
    for warps in models("refined"):
        for i, count in enumerate(removals):
            for error in (CVE, MAP_ERROR):
                values = [errors[warps, scales][i, ERRORS.index(error)] for scales in SCALES]
                table.add(f"{warps}, {count} removed: {error}", values)
    return table


def _kernel_table(name: str, removals: tuple[int, ...], errors: Errors) -> Table:
    """Tabulate the errors of the maps of kernels, all with refined scales."""
    columns = {PROGRAM_KERNEL: "refined", PAPER_KERNEL: PAPER_KERNEL} | {method: method for method in OWN_METHODS}
    title = f"kernels with refined scales as observations go missing, {name}"
    table = Table(f"scales-kernels-{name.replace(' ', '-')}", title, "mm", tuple(columns))
    for i, count in enumerate(removals):
        for k, error in enumerate(ERRORS):
            table.add(f"{count} removed: {error}", [errors[PROGRAM_KERNEL, key][i, k] for key in columns.values()])
    return table


def _claims(table: Table, observations: int) -> list[Claim]:
    """Compare refined scales with both kinds of pairwise ones if many observations are missing.

    The paper compares the cross-validation errors of refined and published pairwise scales.
    """
    claims = []
    for warps in models("refined"):
        for error, rival in ((CVE, "pairwise (published)"), (CVE, "pairwise"), (MAP_ERROR, "pairwise")):
            late = [
                (row["refined"], row[rival])
                for label, row in ((label, table.row(label)) for label, _ in table.rows)
                if label.startswith(f"{warps}, ")
                and label.endswith(error)
                and int(label.removeprefix(f"{warps}, ").split()[0]) >= MANY_REMOVED * observations
            ]
            claims.append(_claim(table, f"{warps}, {error}", rival, late))
    return claims


def _claim(table: Table, subject: str, rival: str, late: list[tuple[float, float]]) -> Claim:
    """State whether refined scales have the smaller error in all pairs (refined, rival)."""
    source = "paper" if rival == "pairwise (published)" else "here"
    found = "; ".join(f"{formatted(refined)} against {formatted(other)}" for refined, other in late)
    difference = max(abs(refined / other - 1) for refined, other in late)
    text = f"{source}: {table.name}, {subject}: refined below {rival} from {MANY_REMOVED:.0%} removed on"
    why = f"the two differ by {difference:.1%} at most"
    return Claim(text, all(refined < other for refined, other in late), found, why)


def _figure(errors: dict[str, Errors], removals: tuple[int, ...]) -> Figure:
    """Draw one row per kind of error and one panel per kind of warps."""
    names = list(models("refined"))
    rows = [(f"error, {name} (mm)", found, CVE) for name, found in errors.items()]
    rows.append(("map error (mm)", next(iter(errors.values())), MAP_ERROR))
    figure = Figure(figsize=(13, 8.5), layout="constrained")
    panels = figure.subplots(len(rows), len(names), sharex=True, sharey="row", squeeze=False)
    styles = dict(zip(SCALES, (("o-", "tab:blue", 4), ("s--", "tab:orange", 8), ("^:", "tab:red", 6)), strict=True))
    for row, (label, found, error) in zip(panels, rows, strict=True):
        k = ERRORS.index(error)
        for axes, warps in zip(row, names, strict=True):
            for scales, (line, colour, size) in styles.items():
                values = found[warps, scales][:, k]
                axes.plot(removals, values, line, color=colour, markerfacecolor="none", markersize=size, label=scales)
        row[0].set_ylabel(label)
        row[0].set_ylim(0, 1.1 * max(float(np.nanmax(found[warps, s][:, k])) for warps in names for s in SCALES))
    for axes, warps in zip(panels[0], names, strict=True):
        axes.set_title(warps)
    for axes in panels[-1]:
        axes.set_xlabel("observations removed")
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(SCALES))
    return figure

"""Global scales against pairwise ones as correspondences go missing.

155 landmarks in 8 views of a bending sheet; of the 1240 observations some are removed at random.  Each method is fitted
with the scales refined globally and with the pairwise method of 2022, and scored by the cross-validation error, leaving
out groups of landmarks and single ones.  The two differ by the lengths of the map's axes and by nothing else: their
sensor-frame errors are equal, and what tells them apart is how near the map is to the flat sheet.  The pairwise method
here heeds who saw what; the published program adds the translation at unseen points too.
"""

from __future__ import annotations

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
from .scoring import chosen, claims_of_ours, quiet, tuned
from .tables import Claim, Outcome, Picture, SetUp, Table, shown

NOISE = 1.0  # mm
HEEDED = "the pairwise method here heeds who saw what, which the published program does not; the two then differ by"
READINGS = ("cross-validation error", "sensor error, median", "map error")
HOW = ("refined", "pairwise")
LEAST = 3  # views of a landmark that are never removed
CONTROL_POINTS = (3, 5, 7)  # an axis
FULL = tuple(range(50, 601, 50))
QUICK = (300, 600)
FOLDS: dict[str, int | str] = {"20 folds": 20, "leave one out": "leave-one-out"}
MANY = 0.3  # of the observations removed, from which on the refined method should win


def models(scale_method: str) -> dict[str, DeformableGPA]:
    thin_plate = {
        f"thin-plate {count}": TPSGPA(control_points=count, modes="paper", scale_method=scale_method)
        for count in CONTROL_POINTS
    }
    return {
        "affine": AffineGPA(modes="paper", scale_method=scale_method),
        **thin_plate,
        "kernel": KernelGPA(modes="paper", scale_method=scale_method),
    }


def run(quick: bool, seed: int) -> Outcome:
    steps, trials = (QUICK, 2) if quick else (FULL, 20)
    scene = simulate.sheet(noise=NOISE, seed=seed)
    with quiet():
        best = {step: clone(tuned(_thinned(scene.points, step, 0, seed), quick)) for step in steps}
    errors = {way: _errors(scene, best, trials, way, seed) for way in FOLDS}
    tables = [_table(way, steps, found) for way, found in errors.items()]
    count = scene.points.shape[0] * scene.points.shape[1]
    return Outcome(
        "scales",
        "Scales",
        f"{scene.points.shape[0]} views of {scene.points.shape[1]} landmarks of a bending sheet, {NOISE:g} mm noise, "
        f"seed {seed}; median over {trials} trials. The map error is taken from the flat sheet. The pairwise method "
        "heeds who saw what, which the published program does not.",
        tables,
        [claim for table in tables for claim in [*_claims(table, count), *claims_of_ours(table)]],
        {
            "removed": Picture(
                _figure(errors, steps), "Cross-validation error and map error as observations go missing."
            )
        },
        [chosen({"tuned": model}, f"{step} removed") for step, model in best.items()],
        [
            SetUp("views; landmarks", "8; 155", f"{scene.points.shape[0]}; {scene.points.shape[1]}"),
            SetUp("observations removed", "50 to 600 of 1240", f"{steps[0]} to {steps[-1]} of {count}"),
            SetUp("trials", "20", str(trials)),
            SetUp("thin-plate: control points an axis", "3, 5, 7", ", ".join(str(one) for one in CONTROL_POINTS)),
            SetUp("left out", "20 folds, leave one out", ", ".join(FOLDS)),
        ],
    )


Errors = dict[str, Array]  # of a column (steps, readings)


def _errors(scene: simulate.Simulation, best: dict[int, DeformableGPA], trials: int, way: str, seed: int) -> Errors:
    """The medians over the trials.  A trial in which one method fails is left out of all, so that they stay equal."""
    tasks = [(step, trial) for step in best for trial in range(trials)]
    delayed_trials = (delayed(_trial)(scene, step, trial, best[step], FOLDS[way], seed) for step, trial in tasks)
    results = list(
        with_progress(Parallel(n_jobs=-1, return_as="generator")(delayed_trials), f"scales, {way}", len(tasks))
    )
    columns = list(results[0])
    values = np.array([[one[column] for column in columns] for one in results])
    values[np.isnan(values).any(axis=(1, 2))] = np.nan
    medians = np.nanmedian(values.reshape(len(best), trials, len(columns), len(READINGS)), axis=1)
    return {column: medians[:, i] for i, column in enumerate(columns)}


def _thinned(points: Array, step: int, trial: int, seed: int) -> Array:
    return removed(points, step, np.random.default_rng([seed, step, trial]))


def _trial(
    scene: simulate.Simulation, step: int, trial: int, best: DeformableGPA, folds: int | str, seed: int
) -> dict[str, list[float]]:
    """Every method with either kind of scales, and this project's two, on one and the same thinned data."""
    thinned = _thinned(scene.points, step, trial, seed)
    columns = {f"{name}, {how}": model for how in HOW for name, model in models(how).items()}
    columns |= {"default": KernelGPA(), "tuned": best}
    return {column: _readings(model, thinned, scene.template, folds) for column, model in columns.items()}


def _readings(model: DeformableGPA, points: Array, truth: Array, folds: int | str) -> list[float]:
    try:
        with quiet():
            found = selection.cross_validate(model, points, folds=folds)
            error = map_error(found.fitted.map_, truth)
    except KernelGPAError:  # what is left of a fold may not determine a warp
        return [np.nan] * len(READINGS)
    return [found.cve, float(np.nanmedian(np.linalg.norm(found.residuals, axis=2))), error]


def removed(points: Array, count: int, rng: np.random.Generator) -> Array:
    """Points without ``count`` observations at random; every landmark keeps a few views."""
    thinned, order = points.copy(), rng.permutation(points.shape[0] * points.shape[1])
    views = np.sum(~np.isnan(points[:, :, 0]), axis=0)
    for flat in order:
        t, j = divmod(int(flat), points.shape[1])
        if count and views[j] > LEAST:
            thinned[t, j] = np.nan
            views[j] -= 1
            count -= 1
    return thinned


def _table(way: str, steps: tuple[int, ...], errors: Errors) -> Table:
    table = Table(f"scales-{way.replace(' ', '-')}", f"as observations go missing, {way}", "mm", tuple(errors))
    for i, step in enumerate(steps):
        for k, reading in enumerate(READINGS):
            table.add(f"{step} removed: {reading}", [values[i, k] for values in errors.values()])
    return table


def _claims(table: Table, observations: int) -> list[Claim]:
    claims = []
    for name in models("refined"):
        for reading in ("cross-validation error", "map error"):
            late = [
                (row[f"{name}, refined"], row[f"{name}, pairwise"])
                for label, row in ((label, table.row(label)) for label, _ in table.rows)
                if label.endswith(reading) and int(label.split()[0]) >= MANY * observations
            ]
            whose = "paper" if reading == READINGS[0] else "here"
            found = "; ".join(f"{shown(refined)} against {shown(pairwise)}" for refined, pairwise in late)
            apart = max(abs(refined / pairwise - 1) for refined, pairwise in late)
            text = f"{whose}: {table.name}, {name}, {reading}: refined beats pairwise from {MANY:.0%} removed on"
            holds = all(refined < pairwise for refined, pairwise in late)
            claims.append(Claim(text, holds, found, f"{HEEDED} {apart:.1%} at most"))
    return claims


def _figure(errors: dict[str, Errors], steps: tuple[int, ...]) -> Figure:
    """A row a kind of error, a panel a method."""
    names = list(models("refined"))
    rows = [(f"error, {way} (mm)", found, 0) for way, found in errors.items()]
    rows.append(("map error (mm)", next(iter(errors.values())), READINGS.index("map error")))
    figure = Figure(figsize=(13, 8.5), layout="constrained")
    panels = figure.subplots(len(rows), len(names), sharex=True, sharey="row", squeeze=False)
    style = {"refined": ("o-", "tab:blue", 4), "pairwise": ("s--", "tab:orange", 8)}
    for row, (label, found, k) in zip(panels, rows, strict=True):
        for axes, name in zip(row, names, strict=True):
            for how, (line, colour, size) in style.items():
                values = found[f"{name}, {how}"][:, k]
                axes.plot(steps, values, line, color=colour, markerfacecolor="none", markersize=size, label=how)
        row[0].set_ylabel(label)
        row[0].set_ylim(0, 1.1 * max(float(np.nanmax(values[:, k])) for values in found.values()))
    for axes, name in zip(panels[0], names, strict=True):
        axes.set_title(name)
    for axes in panels[-1]:
        axes.set_xlabel("observations removed")
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=2)
    return figure

"""Global scales against pairwise ones as correspondences go missing.

155 landmarks in 8 views of a bending sheet; of the 1240 observations some are removed at random.  Each method is fitted
with the scales refined globally and with the pairwise method of 2022; both are scored by the cross-validation error,
leaving out groups of landmarks and single ones.  The pairwise method here heeds who saw what; the published program
adds the translation at unseen points too, which alone makes its error several times larger.
"""

from __future__ import annotations

import numpy as np
from joblib import Parallel, delayed
from matplotlib.figure import Figure

from .. import selection, simulate
from ..deformable import DeformableGPA
from ..errors import KernelGPAError
from ..estimators import TPSGPA, AffineGPA, KernelGPA
from ..frames import Array
from ..progress import tracked
from .common import Claim, Outcome, Table, quiet, shown

NOISE = 1.0  # mm
HEEDED = "once the pairwise method heeds who saw what, the two differ by a percent or less"
LEAST = 3  # views of a landmark that are never removed
FULL = tuple(range(50, 601, 50))
QUICK = (300, 600)
FOLDS: dict[str, int | str] = {"20 folds": 20, "leave one out": "leave-one-out"}
MANY = 0.3  # of the observations removed, from which on the refined method should win


def models(scale_method: str) -> dict[str, DeformableGPA]:
    return {
        "affine": AffineGPA(modes="paper", scale_method=scale_method),
        "thin-plate 3": TPSGPA(control_points=3, modes="paper", scale_method=scale_method),
        "thin-plate 5": TPSGPA(control_points=5, modes="paper", scale_method=scale_method),
        "thin-plate 7": TPSGPA(control_points=7, modes="paper", scale_method=scale_method),
        "kernel": KernelGPA(modes="paper", scale_method=scale_method),
    }


def run(quick: bool, seed: int) -> Outcome:
    steps, trials = (QUICK, 2) if quick else (FULL, 20)
    scene = simulate.sheet(noise=NOISE, seed=seed)
    errors = {
        way: _errors(scene.points, steps, trials if way == "20 folds" else max(1, trials // 10), way, seed)
        for way in FOLDS
    }
    tables = [_table(way, steps, found) for way, found in errors.items()]
    fewer = max(1, trials // 10)
    return Outcome(
        "scales",
        "Scales",
        f"{scene.points.shape[0]} views of {scene.points.shape[1]} landmarks of a bending sheet, {NOISE:g} mm noise, "
        f"seed {seed}; median over {trials} trials (leave one out: {fewer}). The pairwise method heeds who saw what, "
        "which the published program does not.",
        tables,
        [claim for table in tables for claim in _claims(table, scene.points.shape[0] * scene.points.shape[1])],
        {"removed": _figure(errors, steps)},
    )


def _errors(points: Array, steps: tuple[int, ...], trials: int, way: str, seed: int) -> dict[tuple[str, str], Array]:
    """For every method and scale method (steps,), the median cross-validation error over the trials."""
    tasks = [(step, trial) for step in steps for trial in range(trials)]
    jobs = (delayed(_trial)(points, step, FOLDS[way], [seed, step, trial]) for step, trial in tasks)
    results = list(tracked(Parallel(n_jobs=-1, return_as="generator")(jobs), f"scales, {way}", len(tasks)))
    keys = list(results[0])
    values = np.array([[one[key] for key in keys] for one in results]).reshape(len(steps), trials, len(keys))
    return {key: np.nanmedian(values[:, :, i], axis=1) for i, key in enumerate(keys)}


def _trial(points: Array, step: int, folds: int | str, seed: list[int]) -> dict[tuple[str, str], float]:
    """Every method with either kind of scales, on one and the same thinned data."""
    thinned = removed(points, step, np.random.default_rng(seed))
    return {
        (name, scale_method): _error(model, thinned, folds)
        for scale_method in ("refined", "pairwise")
        for name, model in models(scale_method).items()
    }


def _error(model: DeformableGPA, points: Array, folds: int | str) -> float:
    try:
        with quiet():
            return float(selection.cross_validate(model, points, folds=folds).cve)
    except KernelGPAError:  # what is left of a fold may not determine a warp
        return float("nan")


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


def _table(way: str, steps: tuple[int, ...], errors: dict[tuple[str, str], Array]) -> Table:
    columns = tuple(f"{name}, {scale}" for name, scale in errors)
    table = Table(f"scales-{way.replace(' ', '-')}", f"cross-validation error, {way}", "mm", columns)
    for i, step in enumerate(steps):
        table.add(f"{step} removed", [values[i] for values in errors.values()])
    return table


def _claims(table: Table, observations: int) -> list[Claim]:
    claims = []
    for name in models("refined"):
        rows = [(int(label.split()[0]), table.row(label)) for label, _ in table.rows]
        late = [
            (row[f"{name}, refined"], row[f"{name}, pairwise"]) for step, row in rows if step >= MANY * observations
        ]
        won = sum(refined < pairwise for refined, pairwise in late)
        found = "; ".join(f"{shown(refined)} against {shown(pairwise)}" for refined, pairwise in late)
        text = f"paper: {table.title}, {name}: refined scales beat pairwise ones from {MANY:.0%} removed on"
        claims.append(Claim(text, won == len(late), found, HEEDED))
    return claims


def _figure(errors: dict[str, dict[tuple[str, str], Array]], steps: tuple[int, ...]) -> Figure:
    figure = Figure(figsize=(13, 6), layout="constrained")
    names = list(models("refined"))
    panels = figure.subplots(len(errors), len(names), sharex=True, sharey="row", squeeze=False)
    for r, (way, found) in enumerate(errors.items()):
        for c, name in enumerate(names):
            axes = panels[r][c]
            axes.plot(steps, found[name, "refined"], "o-", color="tab:blue", label="refined")
            axes.plot(
                steps,
                found[name, "pairwise"],
                "s--",
                color="tab:orange",
                markerfacecolor="none",
                markersize=8,
                label="pairwise",
            )
            axes.set(title=f"{name}, {way}" if c == 0 else name)
            axes.set_xlabel("observations removed" if r == len(errors) - 1 else "")
            axes.set_ylabel("error (mm)" if c == 0 else "")
        panels[r][0].set_ylim(0, 1.1 * max(float(np.nanmax(values)) for values in found.values()))
    figure.axes[0].legend(loc="lower left")
    figure.suptitle("Cross-validation error as observations go missing")
    return figure

"""A liver that deforms while the sensor circles it: registration, extrapolation, trajectories.

Four measurements: complete and exact, with 1 mm noise, with 30 % of the observations hidden, and with both; of livers
that deform as the paper's do, and of livers that deform more.  As in the paper, the test points of the former are all
vertices, with the noise of the measurement; further rows have exact test points.  Then a region of the surface is
hidden in all clouds, and the test points are the exact vertices inside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from .. import simulate
from ..estimators.base import GPA
from ..gauge.rotations import motion_onto
from ..trust import metrics
from ..typing import Array, BoolArray
from . import scenes, scoring
from .figures import CaptionedFigure, panel_per_method, surface_per_method
from .scenes import LiverScene, Measurement
from .scoring import ExperimentSettings, Scores, TuningPlan
from .tables import ALL_METHODS, PROGRAM_KERNEL, Claim, Outcome, Parameter, Table, paper_claims, paper_numbers


@dataclass(frozen=True)
class Plan:
    clouds: int
    measurements: Mapping[str, Measurement]  # poses, extrapolation and the figures of them use the last
    harder: Mapping[str, Measurement]  # of the harder livers
    settings: ExperimentSettings
    tuning: TuningPlan


@dataclass(frozen=True)
class FittedLiver:
    """A scene, and all methods fitted to it."""

    measurement: Measurement
    scene: simulate.Simulation
    models: dict[str, GPA]


MEASUREMENTS = {
    "exact": Measurement(hidden=0.0, noise=0.0),
    "1 mm noise": Measurement(hidden=0.0, noise=1.0),
    "30 % hidden": Measurement(hidden=0.3, noise=0.0),
    "both": Measurement(hidden=0.3, noise=1.0),
}
HARDER = {name: MEASUREMENTS[name] for name in ("exact", "both")}
PAPER_SETTINGS = ExperimentSettings(bandwidth=0.25, smoothing=0.1)
FULL = Plan(60, MEASUREMENTS, HARDER, PAPER_SETTINGS, tuning=scoring.FULL_TUNING)
QUICK = Plan(15, MEASUREMENTS, HARDER, PAPER_SETTINGS, tuning=scoring.QUICK_TUNING)

EXACT_TEST = "exact test points"
ENLARGEMENT = 20  # of the deviations in the figure
REGION_RADIUS = 35.0  # mm, of the region that is hidden in all clouds
SHOWN_POSES = 12  # in the figure of the set-up
PYRAMID = 35.0  # mm, height of the drawn sensors
PANELS_IN_A_ROW = 4  # of the trajectories


def run(plan: Plan, seed: int) -> Outcome:
    """Return the tables and figures of the livers: Table 1 and Figures 4 to 8 of the paper."""
    calibrated = _fit(scenes.CALIBRATED_LIVER, plan.measurements, plan, seed)
    harder = _fit(scenes.HARDER_LIVER, plan.harder, plan, seed)
    table = scoring.score_table("liver", "disagreement on the surface", _as_in_the_paper(calibrated, seed))
    harder_scores = {f"harder, {name}": _with_exact_test(one, one.scene.template) for name, one in harder.items()}
    harder_table = scoring.score_table("liver-harder", "disagreement on the surface, harder livers", harder_scores)
    name, last = list(calibrated.items())[-1]
    first = next(iter(calibrated.values()))
    extrapolation, extrapolation_figure = _extrapolation({name: last, f"harder, {name}": harder[name]}, plan)
    tables = [table, harder_table, extrapolation, _pose_table(last.models, last.scene, name)]
    return Outcome(
        "liver",
        "Liver",
        _about(plan, seed),
        tables,
        [*_claims(table), *(claim for one in tables for claim in scoring.own_claims(one))],
        _figures(first, last, name) | {"extrapolation": extrapolation_figure},
        [
            note
            for prefix, fits in (("", calibrated), ("harder, ", harder))
            for label, one in fits.items()
            for note in scoring.describe_settings(one.models, f"{prefix}{label}")
        ],
        _parameters(plan, last.scene),
    )


def _fit(
    by_deformation: Mapping[str, LiverScene], measurements: Mapping[str, Measurement], plan: Plan, seed: int
) -> dict[str, FittedLiver]:
    """Return for each measurement the scene and the fitted methods."""
    deformation = scenes.available_deformation()
    fits = {}
    for name, measurement in measurements.items():
        scene = scenes.liver(by_deformation[deformation], deformation, plan.clouds, measurement, seed)
        fits[name] = FittedLiver(measurement, scene, scoring.fit_methods(scene.points, plan.settings, plan.tuning))
    return fits


def _as_in_the_paper(fits: Mapping[str, FittedLiver], seed: int) -> dict[str, dict[str, Scores]]:
    """Score on all vertices with the noise of the measurement; if there is noise, also on exact vertices."""
    scores = {}
    for name, one in fits.items():
        measured = scenes.noisy_vertices(one.scene, one.measurement.noise, seed)
        scores[name] = scoring.score_methods(one.models, measured, one.scene.template)
        if one.measurement.noise:
            scores[f"{name}, {EXACT_TEST}"] = _with_exact_test(one)
    return scores


def _with_exact_test(one: FittedLiver, truth: Array | None = None) -> dict[str, Scores]:
    """Score on the vertices that are not landmarks, without noise."""
    others = np.setdiff1d(np.arange(len(one.scene.vertices)), one.scene.landmarks)
    return scoring.score_methods(one.models, one.scene.surfaces[:, others], truth)


def _about(plan: Plan, seed: int) -> str:
    deformation = scenes.available_deformation()
    calibrated, harder = scenes.CALIBRATED_LIVER[deformation], scenes.HARDER_LIVER[deformation]
    text = (
        f"{plan.clouds} clouds of 201 landmarks on a surface of 2002 vertices, deformed ({deformation}), seed {seed}; "
        f"kernel ({plan.settings.bandwidth}, {plan.settings.smoothing}), thin-plate 5 x 5 x 5 (0.01). The livers of "
        f"the first table deform as the paper's do: bend {calibrated.bend:g} mm and stretch {calibrated.stretch:.2%}, "
        "with which the rigid and the affine column have the paper's means. Its test points are all vertices, with the "
        f"noise of the measurement, as in the paper; rows with {EXACT_TEST} use the vertices that are not landmarks, "
        f"without noise, as do the harder livers (bend {harder.bend:g} mm, no stretch)."
    )
    if deformation == "smooth":
        text += " libigl is not installed (the extra 'simulate'); therefore the bodies bend smoothly, which is easier."
    return text


def _parameters(plan: Plan, scene: simulate.Simulation) -> list[Parameter]:
    settings, measurement = plan.settings, list(plan.measurements.values())[-1]
    thin_plate = f"{' x '.join(3 * [str(settings.control_points)])}; {settings.thin_plate_smoothing:g}"
    return [
        Parameter("clouds", "60", str(plan.clouds)),
        Parameter("landmarks", "201", str(scene.points.shape[1])),
        Parameter("vertices", "2002", str(len(scene.vertices))),
        Parameter("hidden; noise", "30 %; 1 mm", str(measurement)),
        Parameter("thin-plate: control points; smoothing", "5 x 5 x 5; 0.01", thin_plate),
        Parameter("kernel: bandwidth; smoothing", "0.25; 0.1", settings.kernel),
    ]


def _region(scene: simulate.Simulation) -> BoolArray:  # (v,)
    """Return the vertices around the tip, which are hidden in all clouds for the extrapolation."""
    tip = scene.vertices[np.argmax(scene.vertices[:, 0])]
    return np.asarray(np.linalg.norm(scene.vertices - tip, axis=1) < REGION_RADIUS)


def _extrapolation(fits: Mapping[str, FittedLiver], plan: Plan) -> tuple[Table, CaptionedFigure]:
    """Score the region that is hidden in all clouds; the figure shows the first scene."""
    where = f"in a region of {REGION_RADIUS:g} mm that no cloud saw"
    scores = {}
    for name, one in fits.items():
        _, scores[name] = scoring.extrapolate(one.scene, _region(one.scene), plan.settings, plan.tuning)
    first, of_first = next(iter(fits.values())).scene, next(iter(scores.values()))
    positions = first.vertices[_region(first)][:, :2]
    values = {method: of_first[method].consistency for method in ALL_METHODS}
    figure = panel_per_method(positions, values, "The region that no cloud saw, from above", "disagreement (mm)")
    table = scoring.score_table("liver-extrapolation", f"disagreement {where}", scores)
    return table, CaptionedFigure.of(figure, f"Disagreement about {len(positions)} vertices {where}.")


def _claims(table: Table) -> list[Claim]:
    mean = table.row("exact: mean")
    found = scoring.method_values(mean)
    half = Claim(
        "paper: without noise, kernel at most half of thin-plate", mean[PROGRAM_KERNEL] <= mean["thin-plate"] / 2, found
    )
    return [*paper_claims(table, paper_numbers()), half]


# -- figures --


def _figures(exact: FittedLiver, last: FittedLiver, name: str) -> dict[str, CaptionedFigure]:
    return {
        "set-up": CaptionedFigure.of(
            _set_up(exact.scene), "The landmarks, some of the sensors, and in red the landmarks of the hidden region."
        ),
        "surface": CaptionedFigure.of(
            _surface(exact), "Disagreement on the surface, seen from above, without noise and with all landmarks."
        ),
        "trajectories": CaptionedFigure.of(
            _trajectories(last.models, last.scene),
            f"Sensor positions seen along z ({name}), with deviations enlarged {ENLARGEMENT} times; and the "
            "distance of each estimated position from the true one.",
        ),
    }


def _surface(one: FittedLiver) -> Figure:
    """Draw the disagreement of each method on the surface."""
    scores = scoring.score_methods(one.models, one.scene.surfaces)
    values = {method: scores[method].consistency for method in ALL_METHODS}
    return surface_per_method(one.scene.vertices, one.scene.faces, values, "disagreement (mm)")


def _set_up(scene: simulate.Simulation) -> Figure:
    """Draw the undeformed body with its landmarks, and some of the sensors as pyramids that point at it."""
    figure = Figure(figsize=(9, 5.4))
    # in the order in which they are drawn, so that the surface does not cover the landmarks
    axes = figure.add_subplot(projection="3d", computed_zorder=False)
    axes.set_position((0, 0, 1, 1))
    axes.plot_trisurf(*scene.vertices.T, triangles=scene.faces, color="0.85", alpha=0.5, linewidth=0)
    hidden = _region(scene)[scene.landmarks]
    for chosen, colour, size in ((~hidden, "0.25", 3), (hidden, "tab:red", 5)):
        axes.plot(*scene.template[chosen].T, ".", color=colour, markersize=size)
    step = max(1, len(scene.translations) // SHOWN_POSES)
    for rotation, position in zip(scene.rotations[::step], scene.translations[::step], strict=True):
        for ends in _pyramid() @ rotation.T + position:
            axes.plot(*ends.T, "-", color="tab:blue", linewidth=1)
    closed = np.vstack([scene.translations, scene.translations[:1]])
    axes.plot(*closed.T, "-", color="0.6", linewidth=0.7)
    axes.set(xlabel="x (mm)", ylabel="y (mm)", zticks=[-50, 0, 50])
    axes.set_box_aspect(np.ptp([axes.get_xlim(), axes.get_ylim(), axes.get_zlim()], axis=1), zoom=1.2)
    axes.view_init(elev=35, azim=-60)
    return figure


def _pyramid() -> Array:  # (8, 2, 3)
    """Return the edges of a pyramid whose apex is the sensor and whose base lies in front of it, along z."""
    half = PYRAMID / 2
    base = np.array([[x, y, PYRAMID] for x, y in ((-half, -half), (half, -half), (half, half), (-half, half))])
    return np.concatenate(
        [np.stack([np.zeros((4, 3)), base], axis=1), np.stack([base, np.roll(base, 1, axis=0)], axis=1)]
    )


def aligned_poses(gpa: GPA, template: Array) -> tuple[Array, Array]:  # (m, 3) -> (n, 3, 3), (n, 3)
    """Return the estimated poses after the rigid motion that brings the map onto the true template."""
    known = np.isfinite(gpa.map_).all(axis=1)
    rotation, translation = motion_onto(gpa.map_[known], template[known])
    return rotation @ gpa.rotations_, gpa.translations_ @ rotation.T + translation


def _pose_table(models: dict[str, GPA], scene: simulate.Simulation, name: str) -> Table:
    table = Table("liver-poses", f"errors of the poses, {name}, root mean square", "mm, degrees", ALL_METHODS)
    positions, angles = [], []
    for method in ALL_METHODS:
        rotations, translations = aligned_poses(models[method], scene.template)
        positions.append(np.sqrt(np.mean(np.sum((translations - scene.translations) ** 2, axis=1))))
        cosine = (np.einsum("nij,nij->n", rotations, scene.rotations) - 1) / 2
        angles.append(np.degrees(np.sqrt(np.mean(np.arccos(np.clip(cosine, -1, 1)) ** 2))))
    table.add("position (mm)", positions)
    table.add("direction (degrees)", angles)
    table.add("map error (mm)", [metrics.map_error(models[method].map_, scene.template) for method in ALL_METHODS])
    return table


def _trajectories(models: dict[str, GPA], scene: simulate.Simulation) -> Figure:
    """Draw the path in one panel per method, and the position errors of all methods below."""
    figure = Figure(figsize=(14, 10), layout="constrained")
    grid = figure.add_gridspec(3, PANELS_IN_A_ROW, height_ratios=(1, 1, 0.7))
    below = figure.add_subplot(grid[2, :])
    true = scene.translations
    for i, method in enumerate(ALL_METHODS):
        deviations = aligned_poses(models[method], scene.template)[1] - true
        axes = figure.add_subplot(grid[i // PANELS_IN_A_ROW, i % PANELS_IN_A_ROW])
        closed = np.vstack([true, true[:1]])
        enlarged = true + ENLARGEMENT * deviations
        (line,) = axes.plot(*closed[:, :2].T, "-", color="0.7", linewidth=3)
        (dots,) = axes.plot(*enlarged[:, :2].T, "o-", color="tab:blue", markersize=3, linewidth=1)
        axes.plot(*scene.template[:, :2].T, ".", color="0.8", markersize=2)
        axes.set(title=method, aspect="equal")
        axes.set_xlabel("x (mm)" if i >= PANELS_IN_A_ROW else "")
        axes.set_ylabel("y (mm)" if i % PANELS_IN_A_ROW == 0 else "")
        errors = np.linalg.norm(deviations, axis=1)
        below.plot(np.arange(1, len(errors) + 1), errors, ".-", label=method, linewidth=1)
    below.set(xlabel="cloud", ylabel="position error (mm)", ylim=(0, None))
    below.legend(ncols=len(ALL_METHODS), loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False)
    labels = ["true", f"estimated, deviations x {ENLARGEMENT}"]
    figure.legend([line, dots], labels, loc="outside upper center", ncols=2)
    return figure

"""A liver that deforms while the sensor circles it: registration, extrapolation, trajectories.

Four scenes: complete and exact, with 1 mm noise, with 30 % of the observations hidden, and with both.  Test points are
the vertices of the surface that are not landmarks, without noise.  Then a region of the surface is hidden in all
clouds, and the test points are the vertices inside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
from matplotlib.figure import Figure

from .. import simulate
from ..estimators.base import GPA
from ..gauge.rotations import motion_onto
from ..typing import Array
from . import scoring
from .figures import CaptionedFigure, panel_per_method
from .scoring import Scores, Settings, TuningPlan
from .tables import ALL_METHODS, Claim, Outcome, Parameter, Table


@dataclass(frozen=True)
class Measurement:
    """How a scene is observed."""

    hidden: float  # share of the observations
    noise: float  # mm

    def __str__(self) -> str:
        return f"{100 * self.hidden:g} %; {self.noise:g} mm"


@dataclass(frozen=True)
class Plan:
    clouds: int
    measurements: Mapping[str, Measurement]  # by scene; poses and extrapolation use the last
    settings: Settings
    tuning: TuningPlan


MEASUREMENTS = {
    "exact": Measurement(hidden=0.0, noise=0.0),
    "1 mm noise": Measurement(hidden=0.0, noise=1.0),
    "30 % hidden": Measurement(hidden=0.3, noise=0.0),
    "both": Measurement(hidden=0.3, noise=1.0),
}
PAPER_SETTINGS = Settings(bandwidth=0.25, smoothing=0.1)
FULL = Plan(clouds=60, measurements=MEASUREMENTS, settings=PAPER_SETTINGS, tuning=scoring.FULL_TUNING)
QUICK = Plan(clouds=15, measurements=MEASUREMENTS, settings=PAPER_SETTINGS, tuning=scoring.QUICK_TUNING)

BEND = {"arap": 25.0, "smooth": 12.0}  # mm: how far each of six handles is pulled; the root mean square displacement
ENLARGEMENT = 10  # of the deviations in the figure
REGION_RADIUS = 35.0  # mm, of the region that is hidden in all clouds


def run(plan: Plan, seed: int) -> Outcome:
    scores: dict[str, dict[str, Scores]] = {}
    notes = []
    for name, measurement in plan.measurements.items():
        scene = _scene(plan.clouds, measurement, seed)
        models = scoring.fit_methods(scene.points, plan.settings, plan.tuning)
        others = np.setdiff1d(np.arange(len(scene.vertices)), scene.landmarks)
        scores[name] = scoring.score_methods(models, scene.surfaces[:, others], scene.template)
        notes.append(scoring.describe_tuned(models["tuned"], name))
    table = scoring.score_table("liver", "disagreement on the surface", scores)
    poses = _pose_table(models, scene, name)
    scoring.add_error_rows(poses, scores[name], " (mm)")
    extrapolation, extrapolation_figure = _extrapolation(scene, plan)
    return Outcome(
        "liver",
        "Liver",
        _about(plan, seed),
        [table, extrapolation, poses],
        [*_claims(table), *scoring.own_claims(table), *scoring.own_claims(extrapolation)],
        {
            "trajectories": CaptionedFigure(
                _trajectories(models, scene),
                f"Sensor positions seen along z ({name}), with deviations enlarged {ENLARGEMENT} times; and the "
                "distance of each estimated position from the true one.",
            ),
            "extrapolation": extrapolation_figure,
        },
        notes,
        _parameters(plan, scene),
    )


def _about(plan: Plan, seed: int) -> str:
    deformation = available_deformation()
    text = (
        f"{plan.clouds} clouds of 201 landmarks on a surface of 2002 vertices, deformed ({deformation}), seed {seed}; "
        f"kernel ({plan.settings.bandwidth}, {plan.settings.smoothing}), thin-plate 5 x 5 x 5 (0.01). Test points are "
        "the vertices that are not landmarks, without noise."
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


def _scene(clouds: int, measurement: Measurement, seed: int) -> simulate.Simulation:
    deformation = available_deformation()
    return simulate.liver(
        clouds=clouds,
        bend=BEND[deformation],
        deformation=deformation,
        seed=seed,
        hidden=measurement.hidden,
        noise=measurement.noise,
    )


def available_deformation() -> str:
    """Return "arap" (as rigid as possible) if libigl is installed, otherwise "smooth"; the page says which."""
    return "smooth" if find_spec("igl") is None else "arap"


def _extrapolation(scene: simulate.Simulation, plan: Plan) -> tuple[Table, CaptionedFigure]:
    """Score the last scene around its tip, which is hidden in all clouds."""
    tip = scene.vertices[np.argmax(scene.vertices[:, 0])]
    region = np.linalg.norm(scene.vertices - tip, axis=1) < REGION_RADIUS
    _, scores = scoring.extrapolate(scene, region, plan.settings, plan.tuning)
    where = f"in a region of {REGION_RADIUS:g} mm that no cloud saw"
    positions = scene.vertices[region][:, :2]
    values = {method: scores[method].consistency for method in ALL_METHODS}
    figure = panel_per_method(positions, values, "The region that no cloud saw, from above", "disagreement (mm)")
    table = scoring.score_table("liver-extrapolation", f"disagreement {where}", {"both": scores})
    return table, CaptionedFigure(figure, f"Disagreement about {len(positions)} vertices {where}.")


def _claims(table: Table) -> list[Claim]:
    mean = table.row("exact: mean")
    ordered = mean["kernel"] < mean["thin-plate"] < mean["affine"] < mean["rigid"]
    found = scoring.method_values(mean)
    return [
        Claim("paper: without noise, in the mean, kernel < thin-plate < affine < rigid", ordered, found),
        Claim("paper: kernel at most half of thin-plate", mean["kernel"] <= mean["thin-plate"] / 2, found),
    ]


# -- trajectories --


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
    return table


def _trajectories(models: dict[str, GPA], scene: simulate.Simulation) -> Figure:
    """Draw the path in one panel per method, and the position errors of all methods below."""
    figure = Figure(figsize=(12, 11), layout="constrained")
    grid = figure.add_gridspec(3, 3, height_ratios=(1, 1, 0.7))
    below = figure.add_subplot(grid[2, :])
    true = scene.translations
    for i, method in enumerate(ALL_METHODS):
        deviations = aligned_poses(models[method], scene.template)[1] - true
        axes = figure.add_subplot(grid[i // 3, i % 3])
        closed = np.vstack([true, true[:1]])
        enlarged = true + ENLARGEMENT * deviations
        (line,) = axes.plot(*closed[:, :2].T, "-", color="0.7", linewidth=3)
        (dots,) = axes.plot(*enlarged[:, :2].T, "o-", color="tab:blue", markersize=3, linewidth=1)
        axes.plot(*scene.template[:, :2].T, ".", color="0.8", markersize=2)
        axes.set(title=method, aspect="equal", xlabel="x (mm)", ylabel="y (mm)")
        errors = np.linalg.norm(deviations, axis=1)
        below.plot(np.arange(1, len(errors) + 1), errors, ".-", label=method, linewidth=1)
    below.set(xlabel="cloud", ylabel="position error (mm)", ylim=(0, None))
    below.legend(ncols=6, loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False)
    labels = ["true", f"estimated, deviations x {ENLARGEMENT}"]
    figure.legend([line, dots], labels, loc="outside upper center", ncols=2)
    return figure

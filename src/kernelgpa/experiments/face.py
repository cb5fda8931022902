"""A face with five local expressions, one per cloud: registration, and extrapolation around the chin.

Expressions move the mouth, the cheeks and the jaw and nothing else, which is less smooth than organs are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from .. import simulate
from ..estimators.base import GPA
from ..gauge.rotations import motion_onto
from ..trust import metrics
from ..typing import BoolArray, IndexArray
from . import scoring
from .figures import CaptionedFigure, colour_limit, panel_per_method, scatter_values
from .scoring import Settings, TuningPlan
from .tables import ALL_METHODS, PAPER_METHODS, Claim, Outcome, Parameter, Table


@dataclass(frozen=True)
class Plan:
    vertices: int  # of the head
    noise: float  # mm
    settings: Settings
    tuning: TuningPlan


PAPER_SETTINGS = Settings(bandwidth=0.25, smoothing=0.2)
FULL = Plan(vertices=5118, noise=0.2, settings=PAPER_SETTINGS, tuning=scoring.FULL_TUNING)
QUICK = Plan(vertices=2000, noise=0.2, settings=PAPER_SETTINGS, tuning=scoring.QUICK_TUNING)

REASONS = {"mouth open": "the lips part along a crease that is narrower than the kernel"}  # why a claim fails
CHIN_CENTRE, CHIN_RADIUS = (0.0, -101.0), 30.0  # mm: x and y; the radius that no cloud sees
FRONT_DISTANCE = 12.0  # mm, the largest from a landmark to a vertex of the face side
DOT_SIZE = 6.0  # points squared, in the figure


def run(plan: Plan, seed: int) -> Outcome:
    scene = simulate.face(noise=plan.noise, seed=seed, vertices=plan.vertices)
    front = front_vertices(scene)
    models = scoring.fit_methods(scene.points, plan.settings, plan.tuning)
    distances = scoring.distance_table(
        "face-expressions",
        "distance of each expression from the mean map",
        scene.expressions,
        models,
        scene.surfaces[:, front],
        "mm",
    )
    scores = scoring.score_methods(models, scene.surfaces[:, front], scene.template)
    table = scoring.score_table("face", "disagreement on the face", {"all": scores})
    claims = _claims(distances)
    scoring.add_error_rows(distances, scores)
    chin, chin_models, chin_figure = _chin(scene, plan)
    return Outcome(
        "face",
        "Face",
        f"Five expressions of a head of {plan.vertices} vertices, 326 landmarks on the face side, {plan.noise:g} mm "
        f"noise, seed {seed}; kernel ({plan.settings.bandwidth}, {plan.settings.smoothing}). Test points are the "
        f"vertices of the face side that are not landmarks. The map error is the distance from the face at rest; the "
        f"mean of the true faces is itself {_mean_error(scene):.3g} mm from it.",
        [distances, table, chin],
        [*claims, *scoring.own_claims(table), *scoring.own_claims(chin)],
        {
            "discrepancies": CaptionedFigure(
                _figure(models, scene, front), "The mean map of each method, and the distance of each expression."
            ),
            "chin": chin_figure,
        },
        [scoring.describe_tuned(models["tuned"], "all"), scoring.describe_tuned(chin_models["tuned"], "chin")],
        [
            Parameter("expressions", "5", str(len(scene.expressions))),
            Parameter("vertices", "5118", str(plan.vertices)),
            Parameter("landmarks", "326", str(scene.points.shape[1])),
            Parameter("kernel: bandwidth; smoothing", "0.25; 0.2", plan.settings.kernel),
        ],
    )


def front_vertices(scene: simulate.Simulation) -> IndexArray:
    """Return the indices of the vertices between the landmarks: the face side."""
    distances = np.linalg.norm(scene.vertices[:, None] - scene.template[None], axis=2).min(axis=1)
    return np.setdiff1d(np.flatnonzero(distances < FRONT_DISTANCE), scene.landmarks)


def _mean_error(scene: simulate.Simulation) -> float:
    """Return the distance of the mean of the true bodies from the template, below which map errors mean little."""
    world = np.einsum("nij,nmj->nmi", scene.rotations, scene.surfaces[:, scene.landmarks])
    return metrics.map_error((world + scene.translations[:, None]).mean(axis=0), scene.template)


def chin_vertices(scene: simulate.Simulation) -> BoolArray:  # (v,)
    """Return which vertices lie around the chin."""
    front = np.flatnonzero(scene.vertices[:, 2] > 0)
    centre = front[np.argmin(np.linalg.norm(scene.vertices[front, :2] - CHIN_CENTRE, axis=1))]
    return np.asarray(np.linalg.norm(scene.vertices - scene.vertices[centre], axis=1) < CHIN_RADIUS)


def _chin(scene: simulate.Faces, plan: Plan) -> tuple[Table, dict[str, GPA], CaptionedFigure]:
    """Score the scene around the chin, which is hidden in all clouds."""
    region = chin_vertices(scene)
    models, scores = scoring.extrapolate(scene, region, plan.settings, plan.tuning)
    where = f"around the chin ({CHIN_RADIUS:g} mm), which no cloud saw"
    values = {method: scores[method].consistency for method in ALL_METHODS}
    positions = scene.vertices[region][:, :2]
    figure = panel_per_method(positions, values, "The chin, which no cloud saw", "disagreement (mm)")
    table = scoring.score_table("face-chin", f"disagreement {where}", {"chin": scores})
    return table, models, CaptionedFigure(figure, f"Disagreement {where}.")


def _claims(table: Table) -> list[Claim]:
    claims = []
    for label, _ in table.rows:
        row = table.row(label)
        others = min(row[method] for method in PAPER_METHODS if method != "kernel")
        text = f"paper: {label}: kernel at most a third of the others"
        claims.append(Claim(text, row["kernel"] <= others / 3, scoring.method_values(row), REASONS.get(label, "")))
    return claims


def _figure(models: dict[str, GPA], scene: simulate.Faces, front: IndexArray) -> Figure:
    """Draw one row per method: the mean map with the disagreement there, then each expression; one colour scale."""
    warped = {method: models[method].transform_clouds(scene.surfaces[:, front]) for method in ALL_METHODS}
    distances = {method: np.linalg.norm(own - metrics.mean_map(own), axis=2) for method, own in warped.items()}
    upper = colour_limit(distances["rigid"])
    figure = Figure(figsize=(9.5, 11.5), layout="constrained")
    # labels are cut off otherwise
    figure.get_layout_engine().set(rect=(0.02, 0, 0.98, 1))  # type: ignore[union-attr, call-arg]
    panels = figure.subplots(len(ALL_METHODS), 1 + len(scene.expressions))
    for row, method in zip(panels, ALL_METHODS, strict=True):
        mean = metrics.mean_map(warped[method])
        rotation, translation = motion_onto(mean, scene.vertices[front])
        upright = (mean @ rotation.T + translation)[:, :2]
        rms = np.sqrt(np.mean(distances[method] ** 2, axis=0))
        dots = scatter_values(row[0], upright, rms, upper, DOT_SIZE)
        row[0].set_ylabel(method, fontsize="large")
        for axes, values in zip(row[1:], distances[method], strict=True):
            scatter_values(axes, upright, values, upper, DOT_SIZE)
    for axes, name in zip(panels[0], ("mean map", *scene.expressions), strict=True):
        axes.set_title(name)
    figure.colorbar(dots, ax=panels.ravel().tolist(), label="distance from the mean map (mm)", shrink=0.5, extend="max")
    return figure

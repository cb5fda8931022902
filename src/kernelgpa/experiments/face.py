"""A face with five local expressions, one a cloud: registration and extrapolation around the chin.

Expressions move the mouth, the cheeks and the jaw and nothing else, which is less smooth than organs are.
"""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from .. import simulate
from ..estimators.base import GPA
from ..gauge.rotations import motion_onto
from ..trust import metrics
from ..typing import BoolArray, IndexArray
from .drawing import by_method, coloured, scale_top
from .scoring import COLUMNS, PAPER, add_errors, chosen, claims_of_ours, each_table, fitted, score, scored_table
from .tables import Claim, Outcome, Picture, SetUp, Table, shown

BANDWIDTH, SMOOTHING = 0.25, 0.2
NOISE = 0.2  # mm
CREASE = {"mouth open": "the lips part along a crease that is narrower than the kernel"}
CHIN_AT, CHIN = (0.0, -101.0), 30.0  # x and y of the chin's middle, and the radius that no cloud sees, mm
DOT = 6.0  # of the picture
AROUND = 12.0  # mm from a landmark: the face side


def run(quick: bool, seed: int) -> Outcome:
    vertices = 2000 if quick else 5118
    scene = simulate.face(noise=NOISE, seed=seed, vertices=vertices)
    front = front_of(scene)
    models = fitted(scene.points, BANDWIDTH, SMOOTHING, quick=quick)
    discrepancy = _discrepancies(models, scene, front)
    scores = {column: score(models[column], scene.surfaces[:, front], scene.template) for column in COLUMNS}
    table = scored_table("face", "disagreement on the face", {"all": scores})
    claims = _claims(discrepancy)
    add_errors(discrepancy, scores)
    chin, hidden, drawn = _chin(scene, quick)
    return Outcome(
        "face",
        "Face",
        f"Five expressions of a head of {vertices} vertices, 326 landmarks on the face side, {NOISE:g} mm noise, "
        f"seed {seed}; kernel ({BANDWIDTH}, {SMOOTHING}). Test points are the vertices of the face side that are no "
        f"landmarks. The mean of the true faces lies {_floor(scene):.3g} mm from the face at rest, from which the map "
        "error is taken.",
        [discrepancy, table, chin],
        [*claims, *claims_of_ours(table), *claims_of_ours(chin)],
        {
            "discrepancies": Picture(
                _figure(models, scene, front), "The mean map of each method, and where each expression lies from it."
            ),
            "chin": drawn,
        },
        [chosen(models, "all"), chosen(hidden, "chin")],
        [
            SetUp("expressions", "5", str(len(scene.expressions))),
            SetUp("vertices", "5118", str(vertices)),
            SetUp("landmarks", "326", str(scene.points.shape[1])),
            SetUp("kernel: bandwidth; smoothing", "0.25; 0.2", f"{BANDWIDTH}; {SMOOTHING}"),
        ],
    )


def front_of(scene: simulate.Simulation) -> IndexArray:
    """Indices of the vertices between the landmarks: the face side."""
    apart = np.linalg.norm(scene.vertices[:, None] - scene.template[None], axis=2).min(axis=1)
    return np.setdiff1d(np.flatnonzero(apart < AROUND), scene.landmarks)


def _floor(scene: simulate.Simulation) -> float:
    """How far the mean of the true bodies is from the template: no registration can know better than by chance."""
    world = np.einsum("nij,nmj->nmi", scene.rotations, scene.surfaces[:, scene.landmarks])
    return metrics.map_error((world + scene.translations[:, None]).mean(axis=0), scene.template)


def _discrepancies(models: dict[str, GPA], scene: simulate.Faces, front: IndexArray) -> Table:
    """For each expression, how far its surface lies from the mean of all, root mean square."""
    title = "distance of each expression from the mean map"
    return each_table("face-expressions", title, scene.expressions, models, scene.surfaces[:, front], "mm")


def chin_of(scene: simulate.Simulation) -> BoolArray:  # (v,)
    """The vertices around the chin."""
    front = np.flatnonzero(scene.vertices[:, 2] > 0)
    middle = front[np.argmin(np.linalg.norm(scene.vertices[front, :2] - CHIN_AT, axis=1))]
    return np.asarray(np.linalg.norm(scene.vertices - scene.vertices[middle], axis=1) < CHIN)


def _chin(scene: simulate.Faces, quick: bool) -> tuple[Table, dict[str, GPA], Picture]:
    """The same with the chin hidden in all clouds, scored inside."""
    inside = chin_of(scene)
    kept = ~inside[scene.landmarks]
    models = fitted(scene.points[:, kept], BANDWIDTH, SMOOTHING, quick=quick)
    truth = scene.template[kept]
    scores = {column: score(models[column], scene.surfaces[:, inside], truth) for column in COLUMNS}
    title = f"disagreement around the chin ({CHIN:g} mm), which no cloud saw"
    values = {column: scores[column].consistency for column in COLUMNS}
    figure = by_method(scene.vertices[inside][:, :2], values, "The chin, which no cloud saw", "disagreement (mm)")
    return (
        scored_table("face-chin", title, {"chin": scores}),
        models,
        Picture(figure, f"{title[0].upper()}{title[1:]}."),
    )


def _claims(table: Table) -> list[Claim]:
    claims = []
    for label, _ in table.rows:
        row = table.row(label)
        others = min(row[column] for column in PAPER if column != "kernel")
        found = ", ".join(f"{column} {shown(row[column])}" for column in PAPER)
        text = f"paper: {label}: kernel at most a third of the others"
        claims.append(Claim(text, row["kernel"] <= others / 3, found, CREASE.get(label, "")))
    return claims


def _figure(models: dict[str, GPA], scene: simulate.Faces, front: IndexArray) -> Figure:
    """A row a method: its mean map with the disagreement there, then the expressions; one colour scale for all."""
    warped = {column: models[column].transform_clouds(scene.surfaces[:, front]) for column in COLUMNS}
    apart = {column: np.linalg.norm(own - metrics.mean_map(own), axis=2) for column, own in warped.items()}
    top = scale_top(apart["rigid"])
    figure = Figure(figsize=(9.5, 11.5), layout="constrained")
    figure.get_layout_engine().set(rect=(0.02, 0, 0.98, 1))  # type: ignore[union-attr, call-arg]  # labels are cut off otherwise
    panels = figure.subplots(len(COLUMNS), 1 + len(scene.expressions))
    for row, column in zip(panels, COLUMNS, strict=True):
        mean = metrics.mean_map(warped[column])
        turn, shift = motion_onto(mean, scene.vertices[front])
        mean = mean @ turn.T + shift  # as the head stands
        dots = coloured(row[0], mean[:, :2], np.sqrt(np.mean(apart[column] ** 2, axis=0)), top, DOT)
        row[0].set_ylabel(column, fontsize="large")
        for axes, values in zip(row[1:], apart[column], strict=True):
            coloured(axes, mean[:, :2], values, top, DOT)
    for axes, name in zip(panels[0], ("mean map", *scene.expressions), strict=True):
        axes.set_title(name)
    figure.colorbar(dots, ax=panels.ravel().tolist(), label="distance from the mean map (mm)", shrink=0.5, extend="max")
    return figure

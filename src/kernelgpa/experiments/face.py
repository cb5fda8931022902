"""A face with five local expressions, one a cloud: registration and extrapolation around the chin.

Expressions move the mouth, the cheeks and the jaw and nothing else, which is less smooth than organs are.
"""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from .. import metrics, simulate
from ..frames import Array, IndexArray
from ..registration import GPA
from .common import COLUMNS, PAPER, Claim, Outcome, Table, claims_of_ours, fitted, score, scored_table, shown

BANDWIDTH, SMOOTHING = 0.25, 0.2
NOISE = 0.2  # mm
CREASE = "the lips part along a crease that is narrower than the kernel"
CHIN = 30.0  # mm, radius of the region that no cloud sees in the second table


def run(quick: bool, seed: int) -> Outcome:
    vertices = 2000 if quick else 5118
    scene = simulate.face(noise=NOISE, seed=seed, vertices=vertices)
    front = front_of(scene)
    models = fitted(scene.points, BANDWIDTH, SMOOTHING)
    discrepancy = _discrepancies(models, scene, front)
    scores = {column: score(models[column], scene.surfaces[:, front], scene.template) for column in COLUMNS}
    table = scored_table("face", "disagreement on the face", {"all": scores})
    chin = _chin(scene)
    return Outcome(
        "face",
        "Face",
        f"Five expressions of a head of {vertices} vertices, 326 landmarks on the face side, {NOISE:g} mm noise, "
        f"seed {seed}; kernel ({BANDWIDTH}, {SMOOTHING}). Test points are the vertices of the face side.",
        [discrepancy, table, chin],
        [*_claims(discrepancy), *claims_of_ours(table), *claims_of_ours(chin)],
        {"discrepancies": _figure(models, scene, front)},
    )


def front_of(scene: simulate.Simulation) -> IndexArray:
    """Indices of the vertices between the landmarks: the face side."""
    nearest = np.linalg.norm(scene.vertices[:, None] - scene.template[None], axis=2).min(axis=1)
    return np.flatnonzero(nearest < 12.0)


def _discrepancies(models: dict[str, GPA], scene: simulate.Faces, front: IndexArray) -> Table:
    """For each expression, how far its surface lies from the mean of all, root mean square."""
    table = Table("face-expressions", "distance of each expression from the mean map", "mm", COLUMNS)
    apart = {column: _apart(models[column], scene.surfaces[:, front]) for column in COLUMNS}
    for t, name in enumerate(scene.expressions):
        table.add(name, [float(np.sqrt(np.mean(apart[column][t] ** 2))) for column in COLUMNS])
    return table


def _apart(gpa: GPA, surfaces: Array) -> Array:  # (n, k)
    warped = gpa.transform_clouds(surfaces)
    return np.asarray(np.linalg.norm(warped - metrics.mean_map(warped), axis=2))


def _chin(scene: simulate.Faces) -> Table:
    """The same with the chin hidden in all clouds, scored inside."""
    lowest = scene.template[np.argmin(scene.template[:, 1])]
    kept = np.linalg.norm(scene.template - lowest, axis=1) > CHIN
    inside = np.linalg.norm(scene.vertices - lowest, axis=1) < CHIN
    models = fitted(scene.points[:, kept], BANDWIDTH, SMOOTHING)
    scores = {column: score(models[column], scene.surfaces[:, inside]) for column in COLUMNS}
    return scored_table(
        "face-chin", f"disagreement around the chin ({CHIN:g} mm), which no cloud saw", {"chin": scores}
    )


def _claims(table: Table) -> list[Claim]:
    claims = []
    for label, _ in table.rows:
        row = table.row(label)
        others = min(row[column] for column in PAPER if column != "kernel")
        found = ", ".join(f"{column} {shown(row[column])}" for column in PAPER)
        text = f"paper: {label}: kernel at most a third of the others"
        claims.append(Claim(text, row["kernel"] <= others / 3, found, CREASE))
    return claims


def _figure(models: dict[str, GPA], scene: simulate.Faces, front: IndexArray) -> Figure:
    """Where each expression lies from the mean map, one colour scale for all."""
    shown_columns = ("rigid", "thin-plate", "kernel", "default")
    apart = {column: _apart(models[column], scene.surfaces[:, front]) for column in shown_columns}
    top = float(np.percentile(apart["rigid"], 99))
    figure = Figure(figsize=(12, 10), layout="constrained")
    axes = figure.subplots(len(shown_columns), len(scene.expressions), squeeze=False)
    dots = None
    for r, column in enumerate(shown_columns):
        for t, name in enumerate(scene.expressions):
            one = axes[r][t]
            places = scene.vertices[front]
            dots = one.scatter(places[:, 0], places[:, 1], c=apart[column][t], s=3, vmin=0, vmax=top, cmap="viridis")
            one.set(aspect="equal", xticks=[], yticks=[])
            one.set_title(name if r == 0 else "")
            one.set_ylabel(column if t == 0 else "")
    if dots is not None:
        figure.colorbar(dots, ax=axes.ravel().tolist(), label="distance from the mean map (mm)", shrink=0.6)
    return figure

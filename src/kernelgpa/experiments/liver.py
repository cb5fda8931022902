"""A liver that deforms while the sensor circles it: registration, extrapolation, trajectories.

Four settings: complete and exact, with 1 mm noise, with 30 % hidden, and both.  Test points are all vertices of the
surface, without noise.  Then a region of the surface is hidden in all clouds, and the test points are those inside.
"""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from .. import simulate
from ..frames import Array
from ..metrics import map_error
from ..registration import GPA
from ..rotations import nearest
from .common import (
    COLUMNS,
    PAPER,
    Claim,
    Outcome,
    Scores,
    Table,
    claims_of_ours,
    fitted,
    score,
    scored_table,
    shown,
)

BANDWIDTH, SMOOTHING = 0.25, 0.1
SETTINGS = {
    "exact": (0.0, 0.0),
    "1 mm noise": (0.0, 1.0),
    "30 % hidden": (0.3, 0.0),
    "both": (0.3, 1.0),
}  # hidden, noise
PULL = 25.0  # mm, that each of six handles is pulled
REGION = 35.0  # mm, radius of what is hidden in all clouds


def run(quick: bool, seed: int) -> Outcome:
    clouds = 15 if quick else 60
    scores: dict[str, dict[str, Scores]] = {}
    for name, (hidden, noise) in SETTINGS.items():
        scene = simulate.liver(
            clouds=clouds, bend=PULL, deformation=deformation(), seed=seed, hidden=hidden, noise=noise
        )
        models = fitted(scene.points, BANDWIDTH, SMOOTHING)
        scores[name] = {column: score(models[column], scene.surfaces, scene.template) for column in COLUMNS}
    poses = _pose_table(models, scene)
    table = scored_table("liver", "disagreement on the surface", scores)
    outside = _extrapolation(clouds, seed)
    return Outcome(
        "liver",
        "Liver",
        f"{clouds} clouds of 201 landmarks on a surface of 2002 vertices, deformed ({deformation()}), seed {seed}; "
        f"kernel ({BANDWIDTH}, {SMOOTHING}), thin-plate 5 x 5 x 5 (0.01).",
        [table, outside, poses],
        [*_claims(table), *claims_of_ours(table), *claims_of_ours(outside)],
        {"trajectories": _trajectories(models, scene)},
    )


def deformation() -> str:
    """As rigid as possible where libigl is installed, smooth otherwise; the page says which."""
    try:
        import igl  # noqa: F401
    except ImportError:
        return "smooth"
    return "arap"


def _extrapolation(clouds: int, seed: int) -> Table:
    scene = simulate.liver(clouds=clouds, bend=PULL, deformation=deformation(), seed=seed, hidden=0.3, noise=1.0)
    tip = scene.vertices[np.argmax(scene.vertices[:, 0])]
    inside = np.linalg.norm(scene.vertices - tip, axis=1) < REGION
    kept = ~inside[scene.landmarks]
    models = fitted(scene.points[:, kept], BANDWIDTH, SMOOTHING)
    region = {column: score(models[column], scene.surfaces[:, inside]) for column in COLUMNS}
    return scored_table(
        "liver-extrapolation", f"disagreement in a region of {REGION:g} mm that no cloud saw", {"both": region}
    )


def _claims(table: Table) -> list[Claim]:
    mean = table.row("exact: mean")
    ordered = mean["kernel"] < mean["thin-plate"] < mean["affine"] < mean["rigid"]
    found = ", ".join(f"{column} {shown(mean[column])}" for column in PAPER)
    return [
        Claim("paper: without noise, in the mean, kernel < thin-plate < affine < rigid", ordered, found),
        Claim("paper: kernel at most half of thin-plate", mean["kernel"] <= mean["thin-plate"] / 2, found),
    ]


# -- trajectories --


def _aligned_poses(gpa: GPA, scene: simulate.Simulation) -> tuple[Array, Array]:
    """Estimated poses after the rigid motion that brings the map onto the true template."""
    known = np.isfinite(gpa.map_).all(axis=1)
    here, there = gpa.map_[known].mean(axis=0), scene.template[known].mean(axis=0)
    turn = nearest((scene.template[known] - there).T @ (gpa.map_[known] - here))
    rotations = np.einsum("ij,njk->nik", turn, gpa.rotations_)
    return rotations, (gpa.translations_ - here) @ turn.T + there


def _true_poses(scene: simulate.Simulation) -> tuple[Array, Array]:
    """The motions that bring each cloud's own surface nearest to the undeformed one.

    A deformation may turn the body as a whole, and nobody can tell that from a motion of the sensor.
    """
    here = scene.surfaces.mean(axis=1)
    there = scene.vertices.mean(axis=0)
    moments = np.einsum("vi,nvj->nij", scene.vertices - there, scene.surfaces - here[:, None])
    rotations = nearest(moments)
    return rotations, there - np.einsum("nij,nj->ni", rotations, here)


def _pose_table(models: dict[str, GPA], scene: simulate.Simulation) -> Table:
    table = Table("liver-poses", "errors of the poses, both noise and hidden", "mm, degrees", COLUMNS)
    true_rotations, true_translations = _true_poses(scene)
    positions, angles = [], []
    for column in COLUMNS:
        rotations, translations = _aligned_poses(models[column], scene)
        positions.append(np.sqrt(np.mean(np.sum((translations - true_translations) ** 2, axis=1))))
        cosine = (np.einsum("nij,nij->n", rotations, true_rotations) - 1) / 2
        angles.append(np.degrees(np.sqrt(np.mean(np.arccos(np.clip(cosine, -1, 1)) ** 2))))
    table.add("position (mm)", positions)
    table.add("direction (degrees)", angles)
    table.add("map (mm)", [map_error(models[column].map_, scene.template) for column in COLUMNS])
    return table


def _trajectories(models: dict[str, GPA], scene: simulate.Simulation) -> Figure:
    figure = Figure(figsize=(12, 7.5), layout="constrained")
    true = _true_poses(scene)[1]
    for i, column in enumerate(COLUMNS):
        axes = figure.add_subplot(2, 3, i + 1)
        translations = _aligned_poses(models[column], scene)[1]
        axes.plot(*true[:, :2].T, "o-", color="0.7", markersize=7, label="true")
        axes.plot(*translations[:, :2].T, "o-", color="tab:blue", markersize=3, label="estimated")
        axes.plot(*scene.template[:, :2].T, ".", color="0.8", markersize=2)
        axes.set(title=column, aspect="equal", xlabel="x (mm)", ylabel="y (mm)")
    figure.axes[0].legend(loc="center")
    figure.suptitle("Where the sensor was, seen along z")
    return figure

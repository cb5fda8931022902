"""A liver that deforms while the sensor circles it: registration, extrapolation, trajectories.

Four settings: complete and exact, with 1 mm noise, with 30 % hidden, and both.  Test points are the vertices of the
surface that are no landmarks, without noise.  Then a region of the surface is hidden in all clouds, and the test points
are those inside.
"""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
from matplotlib.figure import Figure

from .. import simulate
from ..estimators.base import GPA
from ..gauge.rotations import motion_onto
from ..typing import Array
from .drawing import by_method
from .scoring import COLUMNS, PAPER, Scores, add_errors, chosen, claims_of_ours, fitted, score, scored_table
from .tables import Claim, Outcome, Picture, SetUp, Table, shown

BANDWIDTH, SMOOTHING = 0.25, 0.1
SETTINGS = {
    "exact": (0.0, 0.0),
    "1 mm noise": (0.0, 1.0),
    "30 % hidden": (0.3, 0.0),
    "both": (0.3, 1.0),
}  # hidden, noise
BEND = {"arap": 25.0, "smooth": 12.0}  # mm: how far each of six handles is pulled; the root mean square displacement
ENLARGED = 10  # times, deviations in the picture
REGION = 35.0  # mm, radius of what is hidden in all clouds


def run(quick: bool, seed: int) -> Outcome:
    clouds = 15 if quick else 60
    scores: dict[str, dict[str, Scores]] = {}
    notes = []
    for name, (hidden, noise) in SETTINGS.items():
        scene = _scene(clouds, seed, hidden, noise)
        models = fitted(scene.points, BANDWIDTH, SMOOTHING, quick=quick)
        others = np.setdiff1d(np.arange(len(scene.vertices)), scene.landmarks)
        scores[name] = {column: score(models[column], scene.surfaces[:, others], scene.template) for column in COLUMNS}
        notes.append(chosen(models, name))
    table = scored_table("liver", "disagreement on the surface", scores)
    poses = _pose_table(models, scene, name)
    add_errors(poses, scores[name], " (mm)")
    outside, drawn = _extrapolation(scene, quick)
    return Outcome(
        "liver",
        "Liver",
        f"{clouds} clouds of 201 landmarks on a surface of 2002 vertices, deformed ({deformation()}), seed {seed}; "
        f"kernel ({BANDWIDTH}, {SMOOTHING}), thin-plate 5 x 5 x 5 (0.01). Test points are the vertices that are no "
        "landmarks, without noise." + _without_igl(),
        [table, outside, poses],
        [*_claims(table), *claims_of_ours(table), *claims_of_ours(outside)],
        {
            "trajectories": Picture(
                _trajectories(models, scene),
                f"Where the sensor was, seen along z ({name}), deviations drawn {ENLARGED} times; and how far each "
                "estimated position is from the true one.",
            ),
            "extrapolation": drawn,
        },
        notes,
        [
            SetUp("clouds", "60", str(clouds)),
            SetUp("landmarks", "201", str(scene.points.shape[1])),
            SetUp("vertices", "2002", str(len(scene.vertices))),
            SetUp("hidden; noise", "30 %; 1 mm", f"{100 * hidden:g} %; {noise:g} mm"),
            SetUp("thin-plate: control points; smoothing", "5 x 5 x 5; 0.01", _thin_plate(models)),
            SetUp("kernel: bandwidth; smoothing", "0.25; 0.1", f"{BANDWIDTH}; {SMOOTHING}"),
        ],
    )


def _thin_plate(models: dict[str, GPA]) -> str:
    settings = models["thin-plate"].get_params()
    return f"{' x '.join([str(settings['control_points'])] * 3)}; {settings['smoothing']:g}"


def _scene(clouds: int, seed: int, hidden: float, noise: float) -> simulate.Simulation:
    how = deformation()
    return simulate.liver(clouds=clouds, bend=BEND[how], deformation=how, seed=seed, hidden=hidden, noise=noise)


def deformation() -> str:
    """As rigid as possible where libigl is installed, smooth otherwise; the page says which."""
    return "smooth" if find_spec("igl") is None else "arap"


def _without_igl() -> str:
    if deformation() == "arap":
        return ""
    return " libigl is not installed (the extra 'simulate'), so the bodies bend smoothly, which is easier for all."


def _extrapolation(scene: simulate.Simulation, quick: bool) -> tuple[Table, Picture]:
    """The last scene again with its tip hidden in all clouds, scored there."""
    tip = scene.vertices[np.argmax(scene.vertices[:, 0])]
    inside = np.linalg.norm(scene.vertices - tip, axis=1) < REGION
    kept = ~inside[scene.landmarks]
    models = fitted(scene.points[:, kept], BANDWIDTH, SMOOTHING, quick=quick)
    truth = scene.template[kept]
    scores = {column: score(models[column], scene.surfaces[:, inside], truth) for column in COLUMNS}
    title = f"disagreement in a region of {REGION:g} mm that no cloud saw"
    places = scene.vertices[inside][:, :2]
    values = {column: scores[column].consistency for column in COLUMNS}
    figure = by_method(places, values, "The region that no cloud saw, from above", "disagreement (mm)")
    caption = f"Disagreement about {len(places)} vertices {title.removeprefix('disagreement ')}."
    return scored_table("liver-extrapolation", title, {"both": scores}), Picture(figure, caption)


def _claims(table: Table) -> list[Claim]:
    mean = table.row("exact: mean")
    ordered = mean["kernel"] < mean["thin-plate"] < mean["affine"] < mean["rigid"]
    found = ", ".join(f"{column} {shown(mean[column])}" for column in PAPER)
    return [
        Claim("paper: without noise, in the mean, kernel < thin-plate < affine < rigid", ordered, found),
        Claim("paper: kernel at most half of thin-plate", mean["kernel"] <= mean["thin-plate"] / 2, found),
    ]


# -- trajectories --


def aligned_poses(gpa: GPA, template: Array) -> tuple[Array, Array]:  # (m, 3) -> (n, 3, 3), (n, 3)
    """Estimated poses after the rigid motion that brings the map onto the true template."""
    known = np.isfinite(gpa.map_).all(axis=1)
    turn, shift = motion_onto(gpa.map_[known], template[known])
    return turn @ gpa.rotations_, gpa.translations_ @ turn.T + shift


def _pose_table(models: dict[str, GPA], scene: simulate.Simulation, setting: str) -> Table:
    table = Table("liver-poses", f"errors of the poses, {setting}, root mean square", "mm, degrees", COLUMNS)
    positions, angles = [], []
    for column in COLUMNS:
        rotations, translations = aligned_poses(models[column], scene.template)
        positions.append(np.sqrt(np.mean(np.sum((translations - scene.translations) ** 2, axis=1))))
        cosine = (np.einsum("nij,nij->n", rotations, scene.rotations) - 1) / 2
        angles.append(np.degrees(np.sqrt(np.mean(np.arccos(np.clip(cosine, -1, 1)) ** 2))))
    table.add("position (mm)", positions)
    table.add("direction (degrees)", angles)
    return table


def _trajectories(models: dict[str, GPA], scene: simulate.Simulation) -> Figure:
    """A panel of the path for each method, and one of the errors of all."""
    figure = Figure(figsize=(12, 11), layout="constrained")
    grid = figure.add_gridspec(3, 3, height_ratios=(1, 1, 0.7))
    below = figure.add_subplot(grid[2, :])
    true = scene.translations
    for i, column in enumerate(COLUMNS):
        off = aligned_poses(models[column], scene.template)[1] - true
        axes = figure.add_subplot(grid[i // 3, i % 3])
        circle = np.vstack([true, true[:1]])
        (line,) = axes.plot(*circle[:, :2].T, "-", color="0.7", linewidth=3)
        (dots,) = axes.plot(*(true + ENLARGED * off)[:, :2].T, "o-", color="tab:blue", markersize=3, linewidth=1)
        axes.plot(*scene.template[:, :2].T, ".", color="0.8", markersize=2)
        axes.set(title=column, aspect="equal", xlabel="x (mm)", ylabel="y (mm)")
        below.plot(np.arange(1, len(off) + 1), np.linalg.norm(off, axis=1), ".-", label=column, linewidth=1)
    below.set(xlabel="cloud", ylabel="error of position (mm)", ylim=(0, None))
    below.legend(ncols=6, loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False)
    figure.legend([line, dots], ["true", f"estimated, deviations x {ENLARGED}"], loc="outside upper center", ncols=2)
    return figure

"""Lungs of six people: landmarks that 3, 4, 5 or 6 of them share, each category against all others.

Each category in turn is what the registration is made from; the landmarks of the other categories are test points.
"""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from .. import simulate
from ..estimators.base import GPA
from ..typing import Array, IndexArray
from .scoring import COLUMNS, PAPER, Scores, chosen, claims_of_ours, fitted, score, scored_table
from .tables import Claim, Outcome, Picture, SetUp, Table, shown

BANDWIDTH, SMOOTHING = 0.20, 0.05
NOISE, WRONG = 0.5, 0.02  # mm, and a share of the matches
SMOOTH = "these bodies differ smoothly, which 125 control points follow better than kernels of width 0.2"
WRONG_MATCHES = "the more a warp can bend, the farther it follows a wrong match"
FEWER = {3: 120, 4: 120, 5: 80, 6: 60}


def run(quick: bool, seed: int) -> Outcome:
    scores: dict[str, dict[str, Scores]] = {}
    notes: list[str] = []
    for wrong in (0.0, WRONG):
        scene = simulate.ct(noise=NOISE, wrong=wrong, seed=seed, seen_in=FEWER if quick else simulate.SEEN_IN)
        exact = np.where(np.isnan(scene.points), np.nan, scene.surfaces[:, scene.landmarks])
        test = np.where(scene.wrong[:, :, None], np.nan, exact)  # neither noisy nor wrong
        after = f", {wrong:.0%} wrong" if wrong else ""
        for count, (found, models) in by_category(scene.points, scene.seen_in, test, scene.template, quick).items():
            scores[f"seen in {count}{after}"] = found
            notes.append(chosen(models, f"seen in {count}{after}"))
    table = scored_table("ct", "disagreement on the landmarks of the other categories", scores)
    return Outcome(
        "ct",
        "CT",
        f"Six lung-like clouds of different people, {len(scene.seen_in)} landmarks, {NOISE:g} mm noise, without and "
        f"with {WRONG:.0%} of the matches exchanged, seed {seed}; kernel ({BANDWIDTH}, {SMOOTHING}). Test points are "
        "landmarks of the other categories, right and without noise. The map error is taken from the body from which "
        "all were made; the mean of six differs from it by some mm, so it says little below that.",
        [table],
        [*claims(table), *claims_of_ours(table)],
        {"disagreement": Picture(_figure(scores), "Boxes hold half of the test points; outliers are not drawn.")},
        notes,
        [
            SetUp("clouds", "6", str(len(scene.points))),
            *(
                SetUp(f"landmarks seen in {count} clouds", paper, str(int(np.sum(scene.seen_in == count))))
                for count, paper in ((3, "480"), (4, "482"), (5, "211"), (6, "147"))
            ),
            SetUp("kernel: bandwidth; smoothing", "0.20; 0.05", f"{BANDWIDTH:.2f}; {SMOOTHING}"),
        ],
    )


def by_category(
    points: Array, seen_in: IndexArray, test: Array, truth: Array | None = None, quick: bool = False
) -> dict[int, tuple[dict[str, Scores], dict[str, GPA]]]:  # (n, m, d), (m,), (n, m, d), (m, d)
    """Scores on the test points of the other categories, and the models, for each number of clouds that see them."""
    scores = {}
    for count in sorted(set(seen_in.tolist())):
        own = seen_in == count
        models = fitted(points[:, own], BANDWIDTH, SMOOTHING, quick=quick)
        known = None if truth is None else truth[own]
        scores[count] = {column: score(models[column], test[:, ~own], known) for column in COLUMNS}, models
    return scores


def claims(table: Table) -> list[Claim]:
    made = []
    for label, _ in table.rows:
        if label.endswith(": mean"):
            row = table.row(label)
            ordered = row["kernel"] <= row["thin-plate"] < row["affine"] < row["rigid"]
            found = ", ".join(f"{column} {shown(row[column])}" for column in PAPER)
            made.append(
                Claim(
                    f"paper: {label}: kernel <= thin-plate < affine < rigid",
                    ordered,
                    found,
                    WRONG_MATCHES if "wrong" in label else SMOOTH,
                )
            )
    return made


def _figure(scores: dict[str, dict[str, Scores]]) -> Figure:
    figure = Figure(figsize=(12, 8.5), layout="constrained")
    axes = figure.subplots(2, len(scores) // 2, sharey="row", sharex=True).ravel()
    for one, (name, found) in zip(axes, scores.items(), strict=True):
        one.boxplot(
            [found[column].consistency[np.isfinite(found[column].consistency)] for column in COLUMNS], showfliers=False
        )
        one.set_xticks(range(1, len(COLUMNS) + 1), COLUMNS, rotation=60)
        one.set_title(name)
    for first in (axes[0], axes[len(axes) // 2]):
        first.set_ylabel("disagreement (mm)")
    return figure

"""Lungs of six people: landmarks that 3, 4, 5 or 6 of them share, each category against all others.

Each category in turn is what the registration is made from; the landmarks of the other categories are test points.
"""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from .. import simulate
from ..frames import Array, IndexArray
from .common import COLUMNS, PAPER, Claim, Outcome, Scores, Table, claims_of_ours, fitted, score, scored_table, shown

BANDWIDTH, SMOOTHING = 0.20, 0.05
NOISE, WRONG = 0.5, 0.02  # mm, and a share of the matches
SMOOTH = "these bodies differ smoothly, which 125 control points follow better than kernels of width 0.2"
WRONG_MATCHES = "the more a warp can bend, the farther it follows a wrong match"
ALL = {3: 480, 4: 482, 5: 211, 6: 147}  # landmarks that exactly so many clouds see
FEWER = {3: 120, 4: 120, 5: 80, 6: 60}


def run(quick: bool, seed: int) -> Outcome:
    scores: dict[str, dict[str, Scores]] = {}
    for wrong in (0.0, WRONG):
        scene = simulate.ct(noise=NOISE, wrong=wrong, seed=seed, seen_in=FEWER if quick else ALL)
        right = np.where(scene.wrong[:, :, None], np.nan, scene.points)  # test points are never wrong
        for count, found in by_category(scene.points, scene.seen_in, right, scene.template).items():
            scores[f"seen in {count}" + (f", {wrong:.0%} wrong" if wrong else "")] = found
    table = scored_table("ct", "disagreement on the landmarks of the other categories", scores)
    return Outcome(
        "ct",
        "CT",
        f"Six lung-like clouds of different people, {len(scene.seen_in)} landmarks, {NOISE:g} mm noise, without and "
        f"with {WRONG:.0%} of the matches exchanged, seed {seed}; kernel ({BANDWIDTH}, {SMOOTHING}).",
        [table],
        [*claims(table), *claims_of_ours(table)],
        {"disagreement": _figure(scores)},
    )


def by_category(
    points: Array, seen_in: IndexArray, test: Array, truth: Array | None = None
) -> dict[int, dict[str, Scores]]:  # (n, m, d), (m,), (n, m, d), (m, d)
    """Scores on the test points of the other categories, for each number of clouds that see a landmark."""
    scores = {}
    for count in sorted(set(seen_in.tolist())):
        chosen = seen_in == count
        models = fitted(points[:, chosen], BANDWIDTH, SMOOTHING)
        known = None if truth is None else truth[chosen]
        scores[count] = {column: score(models[column], test[:, ~chosen], known) for column in COLUMNS}
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

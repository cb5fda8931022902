"""Lungs of six people: landmarks that 3, 4, 5 or 6 of them share.

Each category of landmarks in turn is registered; the landmarks of the other categories are test points.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from .. import simulate
from ..estimators.base import GPA
from ..typing import Array, IndexArray
from . import scoring
from .figures import CaptionedFigure
from .scoring import Scores, Settings, TuningPlan
from .tables import ALL_METHODS, Claim, Outcome, Parameter, Table


@dataclass(frozen=True)
class Plan:
    seen_in: Mapping[int, int]  # how many landmarks are seen in exactly so many clouds
    noise: float  # mm
    wrong: float  # share of the matches that are exchanged in the second half of the experiment
    settings: Settings
    tuning: TuningPlan


PAPER_COUNTS = {3: 480, 4: 482, 5: 211, 6: 147}
PAPER_SETTINGS = Settings(bandwidth=0.20, smoothing=0.05)
FULL = Plan(seen_in=PAPER_COUNTS, noise=0.5, wrong=0.02, settings=PAPER_SETTINGS, tuning=scoring.FULL_TUNING)
QUICK = Plan(
    seen_in={3: 120, 4: 120, 5: 80, 6: 60}, noise=0.5, wrong=0.02, settings=PAPER_SETTINGS, tuning=scoring.QUICK_TUNING
)

# why a claim fails
SMOOTH_BODIES = "these bodies differ smoothly, which 125 control points follow better than kernels of width 0.2"
WRONG_MATCHES = "the more flexible a warp is, the closer it follows a wrong match"


def run(plan: Plan, seed: int) -> Outcome:
    scores: dict[str, dict[str, Scores]] = {}
    notes: list[str] = []
    for wrong in (0.0, plan.wrong):
        scene = simulate.ct(noise=plan.noise, wrong=wrong, seed=seed, seen_in=plan.seen_in)
        exact = np.where(np.isnan(scene.points), np.nan, scene.surfaces[:, scene.landmarks])
        test = np.where(scene.wrong[:, :, None], np.nan, exact)  # neither noisy nor wrong
        suffix = f", {wrong:.0%} wrong" if wrong else ""
        categories = fit_categories(scene.points, scene.seen_in, test, plan.settings, plan.tuning, scene.template)
        for count, (models, of_category) in categories.items():
            scores[f"seen in {count}{suffix}"] = of_category
            notes.append(scoring.describe_tuned(models["tuned"], f"seen in {count}{suffix}"))
    table = scoring.score_table("ct", "disagreement on the landmarks of the other categories", scores)
    return Outcome(
        "ct",
        "CT",
        f"Six lung-like clouds of different people, {len(scene.seen_in)} landmarks, {plan.noise:g} mm noise, without "
        f"and with {plan.wrong:.0%} of the matches exchanged, seed {seed}; kernel ({plan.settings.bandwidth}, "
        f"{plan.settings.smoothing}). Test points are landmarks of the other categories, correctly matched and without "
        "noise. The map error is the distance from the body of which all six are deformations; their mean differs "
        "from it by some mm, and smaller map errors say little.",
        [table],
        [*claims(table), *scoring.own_claims(table)],
        {"disagreement": CaptionedFigure(_figure(scores), "Boxes hold half of the test points; outliers are omitted.")},
        notes,
        _parameters(plan, scene),
    )


def _parameters(plan: Plan, scene: simulate.Scans) -> list[Parameter]:
    settings = plan.settings
    return [
        Parameter("clouds", "6", str(len(scene.points))),
        *(
            Parameter(f"landmarks seen in {count} clouds", str(paper), str(int(np.sum(scene.seen_in == count))))
            for count, paper in PAPER_COUNTS.items()
        ),
        Parameter("kernel: bandwidth; smoothing", "0.20; 0.05", f"{settings.bandwidth:.2f}; {settings.smoothing}"),
    ]


def fit_categories(
    points: Array,  # (n, m, d)
    seen_in: IndexArray,  # (m,)
    test: Array,  # (n, m, d)
    settings: Settings,
    tuning: TuningPlan,
    truth: Array | None = None,  # (m, d)
) -> dict[int, tuple[dict[str, GPA], dict[str, Scores]]]:
    """Return for each category the fitted models and their scores on the test points of the other categories.

    A category is the set of landmarks that are seen by the same number of clouds, which is the key of the result.
    """
    categories = {}
    for count in sorted(set(seen_in.tolist())):
        own = seen_in == count
        models = scoring.fit_methods(points[:, own], settings, tuning)
        categories[count] = models, scoring.score_methods(models, test[:, ~own], None if truth is None else truth[own])
    return categories


def claims(table: Table) -> list[Claim]:
    found = []
    for label, _ in table.rows:
        if label.endswith(": mean"):
            row = table.row(label)
            ordered = row["kernel"] <= row["thin-plate"] < row["affine"] < row["rigid"]
            text = f"paper: {label}: kernel <= thin-plate < affine < rigid"
            reason = WRONG_MATCHES if "wrong" in label else SMOOTH_BODIES
            found.append(Claim(text, ordered, scoring.method_values(row), reason))
    return found


def _figure(scores: dict[str, dict[str, Scores]]) -> Figure:
    figure = Figure(figsize=(12, 8.5), layout="constrained")
    panels = figure.subplots(2, len(scores) // 2, sharey="row", sharex=True).ravel()
    for axes, (name, by_method) in zip(panels, scores.items(), strict=True):
        consistency = [by_method[method].consistency for method in ALL_METHODS]
        axes.boxplot([values[np.isfinite(values)] for values in consistency], showfliers=False)
        axes.set_xticks(range(1, len(ALL_METHODS) + 1), ALL_METHODS, rotation=60)
        axes.set_title(name)
    for first in (panels[0], panels[len(panels) // 2]):
        first.set_ylabel("disagreement (mm)")
    return figure

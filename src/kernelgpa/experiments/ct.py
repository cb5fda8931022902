"""Lungs of six people: landmarks that 3, 4, 5 or 6 of them share.

Each category of landmarks in turn is registered; the landmarks of the other categories are test points.  The bodies of
the first set differ as the paper's do.  As in the paper, their test points are matches, some of which are wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from matplotlib.figure import Figure

from .. import simulate
from ..errors import silenced_warnings
from ..estimators.base import GPA
from ..trust import metrics
from ..typing import Array, IndexArray
from . import scenes, scoring
from .figures import CaptionedFigure, panel_per_method
from .scoring import ExperimentSettings, Scores, TuningPlan
from .tables import ALL_METHODS, PROGRAM_KERNEL, TUNED, Claim, Outcome, Parameter, Table, paper_claims, paper_numbers


@dataclass(frozen=True)
class Plan:
    seen_in: Mapping[int, int]  # how many landmarks are seen in exactly this many clouds
    settings: ExperimentSettings
    tuning: TuningPlan


PAPER_COUNTS = {3: 480, 4: 482, 5: 211, 6: 147}
PAPER_SETTINGS = ExperimentSettings(bandwidth=0.20, smoothing=0.05)
FULL = Plan(seen_in=PAPER_COUNTS, settings=PAPER_SETTINGS, tuning=scoring.FULL_TUNING)
QUICK = Plan(seen_in={3: 120, 4: 120, 5: 80, 6: 60}, settings=PAPER_SETTINGS, tuning=scoring.QUICK_TUNING)

FEWER_WRONG = (0.0, 0.02, 0.05)  # shares of wrong matches, below that of the calibration
# why a claim fails
SMOOTH_BODIES = "these bodies differ smoothly, which 125 control points follow better than kernels of width 0.2"
FOLLOWS_WRONG_MATCHES = "the more flexible a warp is, the closer it follows a wrong match"

Categories = dict[int, tuple[dict[str, GPA], dict[str, Scores]]]


def run(plan: Plan, seed: int) -> Outcome:
    """Return the tables and figures of the lungs: Table 3 and Figures 13 and 14 of the paper."""
    scene = scenes.ct(scenes.CALIBRATED_CT, plan.seen_in, seed)
    categories = fit_categories(scene.points, scene.seen_in, scene.points, plan.settings, plan.tuning, scene.template)
    scores = _scores(categories, "")
    chosen = notes(categories, "")
    harder_scores: dict[str, dict[str, Scores]] = {}
    for name, constants in scenes.HARDER_CT.items():
        harder = scenes.ct(constants, plan.seen_in, seed)
        exact = np.where(np.isnan(harder.points), np.nan, harder.surfaces[:, harder.landmarks])
        test = np.where(harder.wrong[:, :, None], np.nan, exact)  # neither noisy nor wrong
        fits = fit_categories(harder.points, harder.seen_in, test, plan.settings, plan.tuning, harder.template)
        harder_scores |= _scores(fits, f", {name}")
        chosen += notes(fits, f", {name}")
    title = "disagreement on the landmarks of the other categories"
    table = scoring.score_table("ct", title, scores)
    harder_table = scoring.score_table("ct-harder", f"{title}, second set", harder_scores)
    by_share, share_claims = _by_share(plan, seed)
    return Outcome(
        "ct",
        "CT",
        _about(plan, len(scene.seen_in), seed),
        [table, by_share, harder_table],
        [
            *_claims(table),
            *share_claims,
            *claims(harder_table),
            *scoring.own_claims(table),
            *scoring.own_claims(harder_table),
        ],
        _figures(scene, scores, harder_scores),
        chosen,
        _parameters(plan, scene),
    )


def _scores(categories: Categories, suffix: str) -> dict[str, dict[str, Scores]]:
    return {f"seen in {count}{suffix}": scores for count, (_, scores) in categories.items()}


def notes(categories: Categories, suffix: str) -> list[str]:
    return [
        note
        for count, (models, _) in categories.items()
        for note in scoring.describe_settings(models, f"seen in {count}{suffix}")
    ]


def _by_share(plan: Plan, seed: int) -> tuple[Table, list[Claim]]:
    """Tabulate the mean disagreement on the calibrated bodies with fewer wrong matches than the calibration finds."""
    columns = tuple(method for method in ALL_METHODS if method != TUNED)
    table = Table("ct-wrong", "mean disagreement by the share of wrong matches", "mm", columns)
    claims = []
    for share in (*FEWER_WRONG, scenes.CALIBRATED_CT.wrong):
        scene = scenes.ct(replace(scenes.CALIBRATED_CT, wrong=share), plan.seen_in, seed)
        for count in sorted(plan.seen_in):
            own = scene.seen_in == count
            with silenced_warnings():
                models = {
                    method: model.fit(scene.points[:, own])
                    for method, model in scoring.untuned_methods(plan.settings).items()
                }
            warped = [models[method].transform_clouds(scene.points[:, ~own]) for method in columns]
            table.add(
                f"{share:.1%} wrong, seen in {count}", [float(np.nanmean(metrics.consistency(one))) for one in warped]
            )
    for label, _ in table.rows[: len(plan.seen_in)]:
        row = table.row(label)
        text = (
            f"here: the paper's order on CT holds without wrong matches, {label}: kernel < thin-plate < affine < rigid"
        )
        holds = row[PROGRAM_KERNEL] < row["thin-plate"] < row["affine"] < row["rigid"]
        claims.append(Claim(text, holds, scoring.method_values(row)))
    return table, claims


def _about(plan: Plan, landmarks: int, seed: int) -> str:
    own = scenes.CALIBRATED_CT
    return (
        f"Six lung-like clouds of different people, {landmarks} landmarks, {own.noise:g} mm noise, seed {seed}; kernel "
        f"({plan.settings.bandwidth}, {plan.settings.smoothing}). In the first table the people differ as those of the "
        f"paper do: {own.wrong:.1%} of the matches are exchanged with others within {own.wrong_within:g} mm, and the "
        "rigid and the affine column have the paper's means. Its test points are the landmarks of the other categories "
        "as measured, with noise and wrong matches, as in the paper. The second set has nearly affine differences, "
        "without and with 2% of the matches exchanged with any other, and test points that are correctly matched and "
        "without noise. The map error is the distance from the body of which all six are deformations; their mean "
        "differs from it by some mm, and differences of less than that show little."
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
    settings: ExperimentSettings,
    tuning: TuningPlan,
    truth: Array | None = None,  # (m, d)
) -> Categories:
    """Return for each category the fitted models and their scores on the test points of the other categories.

    A category is the set of landmarks that are seen by the same number of clouds, which is the key of the result.
    """
    categories = {}
    for count in sorted(set(seen_in.tolist())):
        own = seen_in == count
        models = scoring.fit_methods(points[:, own], settings, tuning)
        categories[count] = models, scoring.score_methods(models, test[:, ~own], None if truth is None else truth[own])
    return categories


def _claims(table: Table) -> list[Claim]:
    """State the paper's order of the methods in its own rows."""
    found = paper_claims(table, paper_numbers())
    return [one if one.why else replace(one, why=FOLLOWS_WRONG_MATCHES) for one in found]


def claims(table: Table) -> list[Claim]:
    """State the paper's order of the methods for data of another origin."""
    found = []
    for label, _ in table.rows:
        if label.endswith(": mean"):
            row = table.row(label)
            ordered = row[PROGRAM_KERNEL] <= row["thin-plate"] < row["affine"] < row["rigid"]
            text = f"paper: {label}: kernel <= thin-plate < affine < rigid"
            reason = FOLLOWS_WRONG_MATCHES if "wrong" in label else SMOOTH_BODIES
            found.append(Claim(text, ordered, scoring.method_values(row), reason))
    return found


# -- figures --


def _figures(
    scene: simulate.Scans, scores: dict[str, dict[str, Scores]], harder: dict[str, dict[str, Scores]]
) -> dict[str, CaptionedFigure]:
    return {
        "sample": CaptionedFigure.of(
            _sample(scene), "One cloud: its landmarks by the number of clouds that see them, and all of its points."
        ),
        "registered": CaptionedFigure.of(
            _registered(scene, next(iter(scores.values()))),
            "Disagreement on the test points after registration of the landmarks that three clouds see.",
        ),
        "disagreement": CaptionedFigure.of(
            _boxes(scores | harder), "Boxes hold half of the test points; outliers are omitted."
        ),
    }


def _sample(scene: simulate.Scans) -> Figure:
    """Draw the points of the first cloud, and its landmarks coloured by the number of clouds that see them."""
    figure = Figure(figsize=(10, 5.5), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    cloud, seen = scene.surfaces[0], ~np.isnan(scene.points[0, :, 0])
    world = cloud @ scene.rotations[0].T + scene.translations[0]
    landmarks = scene.points[0] @ scene.rotations[0].T + scene.translations[0]
    for axes, (across, name) in zip(panels, ((0, "x"), (2, "z")), strict=True):
        axes.plot(world[:, across], world[:, 1], ".", color="0.85", markersize=2)
        for count in sorted(set(scene.seen_in.tolist())):
            chosen = seen & (scene.seen_in == count)
            label = f"seen in {count}: {int(np.sum(scene.seen_in == count))}"
            axes.plot(landmarks[chosen, across], landmarks[chosen, 1], ".", markersize=5, label=label)
        axes.set(aspect="equal", xlabel=f"{name} (mm)", ylabel="y (mm)")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=4)
    return figure


def _registered(scene: simulate.Scans, scores: Mapping[str, Scores]) -> Figure:
    """Draw the test points of the first category, where they lie in the template, coloured by the disagreement."""
    own = scene.seen_in == scene.seen_in.min()
    values = {method: scores[method].consistency for method in ALL_METHODS}
    return panel_per_method(
        scene.template[~own][:, :2], values, "Landmarks seen in more clouds", "disagreement (mm)", 12
    )


def _boxes(scores: dict[str, dict[str, Scores]]) -> Figure:
    figure = Figure(figsize=(13, 12), layout="constrained")
    panels = figure.subplots(3, len(scores) // 3, sharey="row", sharex=True)
    for axes, (name, by_method) in zip(panels.ravel(), scores.items(), strict=True):
        consistency = [by_method[method].consistency for method in ALL_METHODS]
        axes.boxplot([values[np.isfinite(values)] for values in consistency], showfliers=False)
        axes.set_xticks(range(1, len(ALL_METHODS) + 1), ALL_METHODS, rotation=60, ha="right", rotation_mode="anchor")
        axes.set_title(name)
    for row in panels:
        row[0].set_yscale("log")  # of the whole row; errors of the methods differ by factors up to 50
        row[0].set_ylabel("disagreement (mm)")
    return figure

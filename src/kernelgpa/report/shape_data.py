"""What the page shows of a shape model: the mean shape, its first modes, and the scores of the clouds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..plotting.shapes import null_shares
from ..shape import ShapeModel
from ..typing import Array, IndexArray
from .packing import PackedArray, packed

MOST_MODES = 8  # with a slider
MOST_SHARES = 20  # bars of the scree plot
MOST_NULL = 2_000_000  # coordinates of all clouds for which the null model is computed
AXIS_DEVIATIONS = 3.0  # standard deviations on each side that the axes make room for
SHAPES_PADDING = 0.05  # of the extent, on each side of the axes


@dataclass(frozen=True)
class ShapeData:
    """k landmarks are drawn; q modes have a slider."""

    mean: PackedArray  # (k, d)
    modes: PackedArray  # (q, k, d) displacements by one standard deviation
    shares: list[float]  # of the variance, of the first modes
    null_shares: list[float] | None  # what modes of unrelated coordinates would have; None: too many coordinates
    count: int  # of all modes
    scores: PackedArray  # (n, q) in standard deviations of the mode
    score_deviations: PackedArray  # (n, q)
    axis_ranges: list[tuple[float, float]]
    drawn: list[int]  # (k,) landmarks
    expected_error: float  # mean
    badly_predicted: list[str]  # clouds
    rejected: list[tuple[str, str]]  # (cloud, landmark)


def shape_data(model: ShapeModel, most_points: int) -> ShapeData:
    """Collect what the page shows of a shape model; of many landmarks some are drawn, evenly chosen."""
    mean, count = model.mean_, min(MOST_MODES, len(model.variances_))
    drawn = np.arange(len(mean)) if len(mean) <= most_points else _evenly(len(mean), most_points)
    deviations = np.sqrt(model.variances_[:count])
    steps = deviations[:, None, None] * model.modes_[:count, drawn]
    return ShapeData(
        mean=packed(mean[drawn]),
        modes=packed(steps),
        shares=model.explained_variance_ratio_[:MOST_SHARES].tolist(),
        null_shares=null_shares(model)[:MOST_SHARES].tolist() if model.aligned_.size <= MOST_NULL else None,
        count=len(model.variances_),
        scores=packed(model.scores_[:, :count] / deviations),
        score_deviations=packed(model.score_deviations_[:, :count] / deviations),
        axis_ranges=_axis_ranges(mean[drawn], steps),
        drawn=drawn.tolist(),
        expected_error=model.expected_error_.mean,
        badly_predicted=[str(name) for name in model.badly_predicted_],
        rejected=[(str(one.cloud), str(one.landmark)) for one in model.suspicious_observations() if one.rejected],
    )


def _evenly(count: int, most: int) -> IndexArray:
    return np.linspace(0, count - 1, most).astype(np.intp)


def _axis_ranges(mean: Array, steps: Array) -> list[tuple[float, float]]:  # (k, d), (q, k, d)
    """Room for every mode, so that the mean shape stays where it is as a slider moves."""
    reach = AXIS_DEVIATIONS * np.abs(steps).max(axis=0)
    low, high = (mean - reach).min(axis=0), (mean + reach).max(axis=0)
    padding = SHAPES_PADDING * float((high - low).max())
    return [(float(a - padding), float(b + padding)) for a, b in zip(low, high, strict=True)]

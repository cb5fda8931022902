"""How far the clouds of a fitted registration disagree: the figures that every face of the library shows.

Counted are observations that took part: not those of mirrored clouds, not those that a robust fit set aside, and only
landmarks that two clouds or more are left with, because one alone agrees with itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypedDict

import numpy as np

from ..estimators.base import GPA
from ..typing import Array, BoolArray
from . import metrics
from .diagnosis import HEEDED


@dataclass(frozen=True)
class Disagreement:
    """Root mean square distances, one per landmark or one per cloud; NaN where nothing is counted."""

    in_map: Array
    in_sensor_frame: Array


@dataclass(frozen=True)
class Agreement:
    """How far the clouds disagree, by landmark and by cloud."""

    gpa: GPA

    @cached_property
    def visible(self) -> BoolArray:  # (n, m)
        return self.gpa.observations_.visible

    @cached_property
    def shares(self) -> Array | None:  # (n, m)
        """The weight that a robust fit left each observation, as a share of the one given; NaN where unseen."""
        if getattr(self.gpa, "robust", None) is None:
            return None
        given = self.gpa.observations_.weights
        used: Array = getattr(self.gpa, "weights_", given)
        return np.divide(used, given, out=np.full_like(given, np.nan), where=given > 0)

    @cached_property
    def heeded(self) -> BoolArray:  # (n, m)
        """Observations that the figures count."""
        heeded = self.visible.copy()
        heeded[self.gpa.problem_.mirrored] = False
        if self.shares is not None:
            heeded &= self.shares > HEEDED
        return heeded

    @cached_property
    def warped(self) -> Array:  # (n, m, d)
        """Every observation where its cloud's warp takes it, NaN where unseen."""
        return self.gpa.transform_clouds(self.gpa.observations_.points)

    @cached_property
    def apart(self) -> Array:  # (n, m)
        """Distance of each counted observation from the mean of its landmark; NaN where nothing can be compared."""
        counted = np.where(self._comparable[:, :, None], self.warped, np.nan)
        return np.linalg.norm(counted - metrics.mean_map(counted), axis=2)

    @cached_property
    def sensed(self) -> Array:  # (n, m)
        """Distance from the mean of the others, in the cloud's own frame."""
        counted = np.where(self._comparable[:, :, None], self.warped, np.nan)
        jacobians = self.gpa.jacobians(self.gpa.observations_.points)
        return np.linalg.norm(metrics.sensor_residuals(counted, jacobians), axis=2)

    @cached_property
    def residuals(self) -> Array | None:  # (n, m)
        return self.gpa.residuals_ if self.gpa.bends else None

    @cached_property
    def of_landmarks(self) -> dict[str, Array]:  # (m,) each
        return {"apart": root_mean_square(self.apart, 0), "sensed": root_mean_square(self.sensed, 0)}

    @cached_property
    def of_clouds(self) -> dict[str, Array]:  # (n,) each
        return {"apart": root_mean_square(self.apart, 1), "sensed": root_mean_square(self.sensed, 1)}

    @property
    def weight_shares(self) -> Array | None:
        return self.shares

    @property
    def inliers(self) -> BoolArray:
        return self.visible if self.shares is None else self.visible & (self.shares > HEEDED)

    @property
    def counted(self) -> BoolArray:
        return self.heeded

    @property
    def per_landmark(self) -> Disagreement:
        return Disagreement(self.of_landmarks["apart"], self.of_landmarks["sensed"])

    @property
    def per_cloud(self) -> Disagreement:
        return Disagreement(self.of_clouds["apart"], self.of_clouds["sensed"])

    @property
    def _comparable(self) -> BoolArray:  # (n, m)
        return self.heeded & (self.heeded.sum(axis=0) >= 2)


def root_mean_square(lengths: Array, axis: int) -> Array:
    """Over what is known; NaN where nothing is."""
    known = ~np.isnan(lengths)
    total, count = np.where(known, lengths**2, 0.0).sum(axis=axis), known.sum(axis=axis)
    return np.sqrt(np.divide(total, count, out=np.full(len(count), np.nan), where=count > 0))


def number(value: float) -> float | str | None:
    """JSON knows neither NaN nor infinity."""
    return float(value) if np.isfinite(value) else None if np.isnan(value) else "infinite"


json_number = number


class Distribution(TypedDict):
    """Statistics of an array, as JSON can hold them."""

    count: int
    median: float | str | None
    mean: float | str | None
    worst: float | str | None
    at: int | None


def distribution(values: Array) -> Any:
    """Median, mean, worst and where that is, over what is known."""
    known = values[~np.isnan(values)]
    if not len(known):
        return {"count": 0, "median": None, "mean": None, "worst": None, "at": None}
    return {
        "count": len(known),
        "median": number(float(np.median(known))),
        "mean": number(float(known.mean())),
        "worst": number(float(known.max())),
        "at": int(np.nanargmax(values)),
    }

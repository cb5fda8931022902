"""How far the clouds of a fitted registration disagree, for summaries, reports and plots.

Counted are the observations of clouds that take part in the map and, if the fit was robust, the inliers among them.
Landmarks with fewer than two counted observations have no disagreement: a single one always agrees with itself.

The error in the frame of a cloud is the leave-one-out residual of the warp from the map into the cloud (eq. 21): where
the other clouds and the other landmarks predict an observation.  It needs no Jacobian, and stays finite where a warp
into the map folds.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypedDict

import numpy as np

from ..estimators.base import GPA
from ..typing import Array, BoolArray
from .diagnosis import INLIER_SHARE, weight_shares
from .metrics import mean_map, root_mean


@dataclass(frozen=True)
class Disagreement:
    """Root mean square distances, one per landmark or one per cloud; NaN where nothing is counted.

    Attributes
    ----------
    in_map : ndarray of shape (m,) or (n,)
        Distances of the images from the mean image of their landmark, as :func:`metrics.consistency`.
    in_sensor_frame : ndarray of shape (m,) or (n,)
        Leave-one-out residuals of the warps from the map, in the frame of each cloud.
    """

    in_map: Array
    in_sensor_frame: Array


@dataclass(frozen=True)
class Agreement:
    """How far the clouds of a fitted registration disagree, for each observation, landmark and cloud.

    Parameters
    ----------
    gpa : GPA
        A fitted estimator.

    Attributes
    ----------
    visible : ndarray of bool, shape (n, m)
        Which observations there are.
    weight_shares : ndarray of shape (n, m), or None
        Weight of each observation in a robust fit as a share of the weight given; None if the fit was not robust.
    inliers : ndarray of bool, shape (n, m)
        Observations that a robust fit did not reject; all that are visible if the fit was not robust.
    counted : ndarray of bool, shape (n, m)
        Inliers of the clouds that take part in the map.
    warped : ndarray of shape (n, m, d)
        Images of all observations in the map, NaN where unseen.
    map_distances, sensor_distances : ndarray of shape (n, m)
        Distance from the mean image of the landmark, and leave-one-out residual in the cloud's own frame.
    residuals : ndarray of shape (n, m)
        Leave-one-out residuals in the map.
    per_landmark, per_cloud : Disagreement
        Root mean squares of the distances.

    Examples
    --------
    >>> from kernelgpa import KernelGPA, simulate
    >>> from kernelgpa.trust.agreement import Agreement
    >>> scene = simulate.liver(clouds=5, landmarks=60, vertices=202)
    >>> agreement = Agreement(KernelGPA().fit(scene.points))
    >>> agreement.per_landmark.in_map.shape, agreement.per_cloud.in_map.shape
    ((60,), (5,))
    """

    gpa: GPA

    @cached_property
    def visible(self) -> BoolArray:
        return self.gpa.observations_.visible

    @cached_property
    def weight_shares(self) -> Array | None:
        return None if self.gpa.robust_ is None else weight_shares(self.gpa)

    @cached_property
    def inliers(self) -> BoolArray:
        return self.visible if self.weight_shares is None else self.visible & (self.weight_shares > INLIER_SHARE)

    @cached_property
    def counted(self) -> BoolArray:
        counted = self.inliers.copy()
        counted[self.gpa.registration_.problem.left_out] = False
        return counted

    @cached_property
    def warped(self) -> Array:
        return self.gpa.transform_clouds(self.gpa.observations_.points)

    @cached_property
    def map_distances(self) -> Array:
        return np.linalg.norm(self._compared - mean_map(self._compared), axis=2)

    @cached_property
    def sensor_distances(self) -> Array:
        return np.where(np.isnan(self._compared[:, :, 0]), np.nan, self.gpa.sensor_residuals_)

    @property
    def residuals(self) -> Array:
        return self.gpa.residuals_

    @cached_property
    def per_landmark(self) -> Disagreement:
        return self._disagreement(axis=0)

    @cached_property
    def per_cloud(self) -> Disagreement:
        return self._disagreement(axis=1)

    @cached_property
    def _compared(self) -> Array:  # (n, m, d)
        """Images of the counted observations of landmarks that have at least two of them."""
        compared = self.counted & (self.counted.sum(axis=0) >= 2)
        return np.where(compared[:, :, None], self.warped, np.nan)

    def _disagreement(self, axis: int) -> Disagreement:
        return Disagreement(root_mean(self.map_distances**2, axis), root_mean(self.sensor_distances**2, axis))


class Distribution(TypedDict):
    """Statistics of an array, as JSON can hold them; None where nothing is known."""

    count: int
    median: float | str | None
    mean: float | str | None
    worst: float | str | None
    at: int | None  # index of the worst


def distribution(values: Array) -> Distribution:
    """Return the median, the mean and the worst of the values that are not NaN."""
    known = values[~np.isnan(values)]
    if not len(known):
        return {"count": 0, "median": None, "mean": None, "worst": None, "at": None}
    return {
        "count": len(known),
        "median": json_number(float(np.median(known))),
        "mean": json_number(float(known.mean())),
        "worst": json_number(float(known.max())),
        "at": int(np.nanargmax(values)),
    }


def json_number(value: float) -> float | str | None:
    """Return a number as JSON can hold it: None for NaN, "infinite" for infinity."""
    return float(value) if np.isfinite(value) else None if np.isnan(value) else "infinite"

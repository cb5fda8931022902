"""What every registration delivers, and how its warps are used."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator

from .._numerics.threads import limit_threads, one_blas_thread
from ..errors import InvalidObservations, InvalidSetting, NotFitted, warn
from ..gauge.faithful import Faithful
from ..gauge.poses import pose_onto
from ..gauge.principal_axes import Gauge
from ..gauge.rotations import Ending
from ..observations.arrays import masked_as_nan
from ..observations.collection import Observations, as_observations
from ..spectrum.eigenpairs import Spectrum
from ..spectrum.operators import CostOperator
from ..trust.diagnosis import Finding, diagnose
from ..typing import Array, IndexArray, Name
from ..warps import Family, PreparedCloud, ReducedCloud, Warp
from ..warps.inverse import inverse
from .screening import Problem, screen


@dataclass(frozen=True)
class Solution:
    """The map and poses of the clouds that took part, and where they come from."""

    gauge: Gauge
    spectrum: Spectrum | None = None  # None: rigid
    faithful: Faithful | None = None  # None: not the faithful map
    factors: Array | None = None  # (n,) sizes; None: all 1


@dataclass(frozen=True)
class Prepared:
    """What the clouds compute once for all values of smoothing and all weights."""

    family: Family | None  # None for rigid warps
    clouds: Sequence[PreparedCloud]


@dataclass(frozen=True)
class Work:
    """What the last solve of a fit was made of, ready to be solved again without some landmarks."""

    core: Observations  # the clouds and landmarks that took part, with their last weights
    reduced: Sequence[ReducedCloud]  # one a cloud; nothing for rigid warps
    cost: CostOperator  # their sum


@dataclass(frozen=True)
class Prediction:
    """What a solve without some landmarks makes of them: n clouds, k landmarks left out."""

    map: Array  # (m, d) of the landmarks kept, NaN for those left out
    points: Array  # (n, k, d) where the warps take what was left out, NaN where unseen
    jacobians: Array  # (n, k, d, d) of the warps there
    spreads: Array  # (n, k) variance expected of them, in units of a cloud's noise variance; NaN for rigid warps

    @classmethod
    def empty(cls, places: Array, clouds: int, left_out: int) -> Prediction:
        d = places.shape[1]
        shape = (clouds, left_out)
        return cls(places, *(np.full((*shape, *more), np.nan) for more in ((d,), (d, d), ())))


class GPA(BaseEstimator, ABC):
    """What every registration delivers, and how its warps are used."""

    problem_: Problem
    observations_: Observations
    gauge_: Gauge
    warps_: list[Warp]
    map_: Array  # (m, d)
    scales_: Array  # (d,)
    rotations_: Array  # (n, d, d)
    translations_: Array  # (n, d)
    eigenvalues_: Array  # (d + 1,)
    mirrored_: list[Name]

    bends = True  # whether the warps are more than rigid motions or similarities
    robust: str | None = None
    size_factors_: Array  # (n,)
    spectrum_: Spectrum
    sizes_differ = False  # whether clouds of any size are sound

    def fit(self, points: Any, weights: Any = None) -> Self:
        """Register the clouds: (n, m, d) with NaN, a list of (points, ids), or Observations.

        weights : one number a landmark (m,) or an observation (n, m); 0 means not seen.  A known standard
            deviation s is the weight 1 / s^2, up to a common factor that ``smoothing`` answers to.
        """
        self.check_settings()
        observations = as_observations(points, weights)
        with one_blas_thread(), limit_threads(getattr(self, "n_jobs", None)):
            problem = screen(observations, self.sizes_differ)
            self.fit_problem(problem, self.prepare(problem))
        return self

    @abstractmethod
    def check_settings(self) -> None:
        """An error unless every setting has a value that the method is defined for."""

    def transform(self, points: npt.ArrayLike, cloud: Name) -> Array:  # (k, d) -> (k, d)
        """Points of one cloud (index or name), landmarks or not, taken into the map."""
        return self._warp_of(cloud)(points)

    def inverse_transform(self, points: npt.ArrayLike, cloud: Name) -> Array:  # (k, d) -> (k, d)
        """Points of the map taken back into one cloud; NaN, with a warning, where there is no one answer."""
        warp = self._warp_of(cloud)
        targets = warp.checked(points)
        found = inverse(warp, targets)
        lost = int(np.sum(np.isnan(found).any(axis=1) & np.isfinite(targets).all(axis=1)))
        if lost:
            warn(
                f"cloud {cloud!r}: {lost} of {len(found)} points cannot be taken back, because the warp folds or does "
                "not reach them; they are NaN"
            )
        return found

    def transform_clouds(self, points: npt.ArrayLike) -> Array:  # (n, k, d) -> (n, k, d)
        """The same k points as each cloud has them, all taken into the map; NaN stays NaN."""
        return np.stack([warp(one) for warp, one in self._each(points)])

    def jacobians(self, points: npt.ArrayLike) -> Array:  # (n, k, d) -> (n, k, d, d)
        """The Jacobian of each cloud's warp at its own points, as :func:`metrics.sensor_error` takes them.

        A cloud that is a sheet says nothing of how space stretches across it: there they go on like a rotation.
        """
        return np.stack([warp.sensor_jacobian(one) for warp, one in self._each(points)])

    def _each(self, points: npt.ArrayLike) -> list[tuple[Warp, Array]]:
        self._require_fitted()
        array = masked_as_nan(points)
        if array.ndim != 3 or len(array) != len(self.warps_):
            raise InvalidObservations(
                f"points have shape {array.shape}; expected ({len(self.warps_)}, points, dimension)"
            )
        return list(zip(self.warps_, array, strict=True))

    def diagnose(self, points: npt.ArrayLike | None = None, cloud: Name | None = None) -> list[Finding]:
        """What may be wrong, worst first: what was found, how bad, what to do.

        With ``points`` of a ``cloud`` also whether they lie too far from its landmarks to be warped.
        """
        self._require_fitted()
        if (points is None) != (cloud is None):
            raise InvalidSetting("diagnose takes points together with the cloud they belong to; one of them is missing")
        return diagnose(self, points, cloud)

    @abstractmethod
    def prepare(self, problem: Problem) -> Prepared:
        """What the clouds compute once for all values of smoothing and all weights."""

    @abstractmethod
    def fit_problem(self, problem: Problem, prepared: Prepared) -> Work:
        """Register the clouds of a scene."""

    @abstractmethod
    def predict_left_out(self, work: Work, folds: Sequence[IndexArray], n_jobs: int | None) -> list[Prediction]:
        """Solve without each fold of landmarks in turn, with the settings and widths of this fit."""

    def _keep(self, fitted: dict[str, Any]) -> None:
        """All results at once: whoever interrupts a fit finds the old ones, whole."""
        self.__dict__.update(fitted)

    def _warp_of(self, cloud: Name) -> Warp:
        self._require_fitted()
        return self.warps_[self.observations_.cloud_index(cloud)]

    def _require_fitted(self) -> None:
        if not hasattr(self, "warps_"):
            raise NotFitted(f"this {type(self).__name__} is not fitted; call fit(points) first")


def results(problem: Problem, solution: Solution, warps: list[Warp]) -> dict[str, Any]:
    """Everything a user reads of any registration, in the order of all clouds and landmarks."""
    observations, gauge = problem.observations, solution.gauge
    if gauge.ending is Ending.LIMIT:
        warn(gauge.ending.value)
    rotations, translations = all_poses(problem, gauge)
    spectrum = problem.initial.spectrum if solution.spectrum is None else solution.spectrum
    return {
        "problem_": problem,
        "observations_": observations,
        "gauge_": gauge,
        "warps_": warps,
        "map_": _whole_map(problem, gauge, warps),
        "scales_": gauge.scales,
        "rotations_": rotations,
        "translations_": translations,
        "eigenvalues_": padded(spectrum.values, observations.dimension + 1),
        "mirrored_": [observations.names[t] for t in problem.mirrored],
    }


def _whole_map(problem: Problem, gauge: Gauge, warps: list[Warp]) -> Array:
    """The map with the landmarks that one cloud saw, where that cloud's warp takes them."""
    observations = problem.observations
    places = np.full((len(observations.landmarks), observations.dimension), np.nan)
    places[problem.landmarks] = gauge.map
    alone = problem.counts == 1
    for t in problem.part if alone.any() else ():
        cloud = observations.clouds[t]
        once = alone[cloud.seen]
        places[cloud.seen[once]] = warps[t](cloud.points[once])
    return places


def all_poses(problem: Problem, gauge: Gauge) -> tuple[Array, Array]:
    """Poses of all clouds; those left out of the map are laid onto it."""
    n, d = len(problem.observations.clouds), problem.observations.dimension
    rotations, translations = np.empty((n, d, d)), np.empty((n, d))
    rotations[problem.part], translations[problem.part] = gauge.rotations, gauge.translations
    for t in problem.mirrored:
        cloud = problem.restricted.clouds[t]
        rotations[t], translations[t] = pose_onto(cloud, gauge.map[cloud.seen])
    return rotations, translations


def padded(values: Array, count: int) -> Array:
    """The first ``count`` values, NaN for those that do not exist."""
    return np.concatenate([values[:count], np.full(max(0, count - len(values)), np.nan)])

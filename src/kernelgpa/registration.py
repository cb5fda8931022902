"""What every registration delivers, and how its warps are used."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator

from .diagnosis import Finding, diagnose
from .errors import InvalidObservations, KernelGPAWarning, NotFitted
from .faithful import Faithful
from .frames import Array, IndexArray, masked_as_nan
from .gauge import Gauge
from .names import Name
from .observations import Observations
from .rigid import pose_onto
from .rotations import Ending
from .scene import Scene
from .spectral import Spectrum
from .warps import ReducedCloud, Warp
from .warps.inverse import inverse


@dataclass(frozen=True)
class Solution:
    """The map and poses of the clouds that took part, and where they come from."""

    gauge: Gauge
    spectrum: Spectrum | None = None  # None: rigid
    faithful: Faithful | None = None  # None: not the faithful map
    factors: Array | None = None  # (n,) sizes; None: all 1


@dataclass(frozen=True)
class Prepared:
    """A fitted scene, ready to be solved again without some landmarks."""

    core: Observations  # the clouds and landmarks that took part, with their last weights
    landmarks: IndexArray  # the places of its landmarks among all
    part: IndexArray  # the places of its clouds among all
    reduced: list[ReducedCloud]  # nothing for rigid warps
    start: Array  # (n, d, d) the rotations of the fit


@dataclass(frozen=True)
class Refit:
    """A solve without some landmarks."""

    gauge: Gauge
    warps: list[Warp]
    spreads: list[Array]  # a cloud: variance of its points left out, in units of its noise; NaN for rigid warps


class GPA(BaseEstimator, ABC):
    """What every registration delivers, and how its warps are used."""

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
            warnings.warn(
                f"cloud {cloud!r}: {lost} of {len(found)} points cannot be taken back, because the warp folds or does "
                "not reach them; they are NaN",
                KernelGPAWarning,
                stacklevel=2,
            )
        return found

    def transform_clouds(self, points: npt.ArrayLike) -> Array:  # (n, k, d) -> (n, k, d)
        """The same k points as each cloud has them, all taken into the map; NaN stays NaN."""
        return np.stack([warp(one) for warp, one in self._each(points)])

    def jacobians(self, points: npt.ArrayLike) -> Array:  # (n, k, d) -> (n, k, d, d)
        """The Jacobian of each cloud's warp at its own points, as :func:`metrics.sensor_error` takes them."""
        return np.stack([warp.jacobian(one) for warp, one in self._each(points)])

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
        return diagnose(self, points, cloud)

    @abstractmethod
    def prepared(self, scene: Scene) -> Prepared:
        """What refitting without some landmarks shares with this fit."""

    @abstractmethod
    def refit(self, prepared: Prepared, kept: IndexArray) -> Refit:
        """Map, poses and warps from the landmarks ``kept`` alone, with the settings and widths of this fit."""

    def _deliver(self, scene: Scene, solution: Solution, warps: list[Warp]) -> None:
        """Everything a user reads, in the order of all clouds and landmarks."""
        observations, gauge = scene.observations, solution.gauge
        if gauge.ending is Ending.LIMIT:
            warnings.warn(gauge.ending.value, KernelGPAWarning, stacklevel=3)
        self.scene_, self.observations_, self.gauge_, self.warps_ = scene, observations, gauge, warps
        self.scales_ = gauge.scales
        self.mirrored_ = [observations.names[t] for t in scene.mirrored]
        self.rotations_, self.translations_ = all_poses(scene, gauge)
        spectrum = scene.start.spectrum if solution.spectrum is None else solution.spectrum
        self.eigenvalues_ = padded(spectrum.values, observations.dimension + 1)
        self.map_ = np.full((len(observations.landmarks), observations.dimension), np.nan)
        self.map_[scene.landmarks] = gauge.map
        alone = scene.counts == 1
        for t in scene.part:
            cloud = observations.clouds[t]
            once = alone[cloud.seen]
            self.map_[cloud.seen[once]] = warps[t](cloud.points[once])

    def _warp_of(self, cloud: Name) -> Warp:
        self._require_fitted()
        return self.warps_[self.observations_.cloud_index(cloud)]

    def _require_fitted(self) -> None:
        if not hasattr(self, "warps_"):
            raise NotFitted(f"this {type(self).__name__} is not fitted; call fit(points) first")


def all_poses(scene: Scene, gauge: Gauge) -> tuple[Array, Array]:
    """Poses of all clouds; those left out of the map are laid onto it."""
    n, d = len(scene.observations.clouds), scene.observations.dimension
    rotations, translations = np.empty((n, d, d)), np.empty((n, d))
    rotations[scene.part], translations[scene.part] = gauge.rotations, gauge.translations
    for t in scene.mirrored:
        cloud = scene.restricted.clouds[t]
        rotations[t], translations[t] = pose_onto(cloud, gauge.map[cloud.seen])
    return rotations, translations


def padded(values: Array, count: int) -> Array:
    """The first ``count`` values, NaN for those that do not exist."""
    return np.concatenate([values[:count], np.full(max(0, count - len(values)), np.nan)])

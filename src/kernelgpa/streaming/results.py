"""Results of a stream: the map, the poses and warps of its clouds, and findings about what may be wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Integral, Real

import numpy as np
import numpy.typing as npt

from ..errors import InvalidObservations, InvalidSetting, NotFitted
from ..estimators.base import GPA
from ..gauge.poses import pose_onto
from ..observations.cloud import Cloud
from ..observations.identifiers import in_order
from ..shape import ShapeModel
from ..trust.diagnosis import Finding
from ..typing import Array, Name
from ..warps import Warp, reduce
from ..warps.affine import affine_warp
from ..warps.inverse import inverse
from .odometry import MotionKey, contradictions
from .running_sum import CloudKey, RunningSum
from .stream_map import StreamMap


@dataclass(frozen=True)
class Update:
    """The outcome of an update.

    Attributes
    ----------
    clouds, landmarks : int
        How many clouds participate, and how many landmarks the map has.
    moved : float
        Root mean square motion of the landmarks that the last map had too, after alignment; NaN if there are none.
    events : tuple of str
        What happened to the map that its users should know.
    """

    clouds: int
    landmarks: int
    moved: float
    events: tuple[str, ...] = ()


def fitted_or_none(shape_model: ShapeModel | None) -> ShapeModel | None:
    """The shape model of a stream, or an error if it is not one that was fitted."""
    if shape_model is not None and not (isinstance(shape_model, ShapeModel) and shape_model.__sklearn_is_fitted__()):
        raise InvalidSetting(f"shape_model is {shape_model!r}; expected a ShapeModel that was fitted, or None")
    return shape_model


def _known(seen: dict[Name | None, Array], model: ShapeModel | None) -> Iterator[tuple[Name | None, Array, Array]]:
    """Landmarks of one cloud with their covariances: those that it saw, and others as a shape model predicts them."""
    d = len(next(iter(seen.values())))
    yield from ((name, position, np.zeros((d, d))) for name, position in seen.items())
    landmarks = () if model is None else model.observations_.landmarks
    own = np.array([seen.get(name, np.full(d, np.nan)) for name in landmarks])
    if model is None or np.isfinite(own).sum() < d * d:
        return  # fewer than d landmarks have no pose
    completed, covariances = model.impute(own[None], return_cov=True)
    yield from (one for one in zip(landmarks, completed[0], covariances[0], strict=True) if one[0] not in seen)


class StreamResults:
    """The results of the last update, also for clouds that did not participate in it."""

    estimator: GPA
    window: int | None  # how many clouds are kept; None: all

    def __init__(self, shape_model: ShapeModel | None = None) -> None:
        self.shape_model = shape_model
        self._running: RunningSum | None = None
        self._outside: dict[CloudKey, Cloud] = {}  # over landmark indices: mirror images, clouds added while frozen
        self._times: dict[CloudKey, float] = {}  # of all clouds
        self._mirrored: set[CloudKey] = set()
        self._motion_residuals: dict[MotionKey, float] = {}  # standardised
        self._map: StreamMap | None = None
        self._warps: dict[CloudKey, Warp] = {}

    @property
    def map_(self) -> Array:  # (m, d)
        """Landmark positions, in the order of ``landmarks_``."""
        stream_map = self._require_map()
        return stream_map.map[[stream_map.rows[name] for name in self.landmarks_]]

    @property
    def landmarks_(self) -> tuple[Name, ...]:  # (m,)
        """Ids of the landmarks, sorted if they can be sorted."""
        return in_order([self._require_map().landmarks])

    def time_of(self, time: float | None) -> float:
        """The time of a cloud that is added now; None follows the latest cloud.

        A cloud older than all of a full window would leave at once, and is an error.
        """
        if time is None:
            return max(self._times.values(), default=-1.0) + 1.0
        if not isinstance(time, Real) or isinstance(time, bool) or not abs(time) < np.inf:
            raise InvalidObservations(f"time is {time!r}; expected a number")
        if self.window is not None and len(self._times) >= self.window and time < min(self._times.values()):
            raise InvalidObservations(
                f"time {time:g} is before the window, which is full and begins at {min(self._times.values()):g}; add "
                "clouds in time, or use a wider window"
            )
        return float(time)

    @property
    def keys_(self) -> tuple[CloudKey, ...]:  # (n,)
        """Keys of all clouds, oldest first."""
        return tuple(sorted(self._times, key=lambda key: (self._times[key], key)))

    @property
    def times_(self) -> Array:  # (n,)
        """Times of all clouds."""
        return np.array([self._times[key] for key in self.keys_])

    @property
    def rotations_(self) -> Array:  # (n, d, d)
        """Rotations of all clouds; NaN for a cloud that shares too few landmarks with the map."""
        return np.array([self.pose(key)[0] for key in self.keys_])

    @property
    def translations_(self) -> Array:  # (n, d)
        """Translations of all clouds; NaN for a cloud that shares too few landmarks with the map."""
        return np.array([self.pose(key)[1] for key in self.keys_])

    @property
    def scales_(self) -> Array:  # (d,)
        """Global scales of the map."""
        return self._require_map().scales

    @property
    def eigenvalues_(self) -> Array:  # (d + 1,)
        """Bottom eigenvalues of the summed cost."""
        return self._require_map().eigenvalues()

    @property
    def gamma_(self) -> float:
        """gamma of the faithful map (eq. 16); NaN if the map is not of this kind, or is fitted again at each update."""
        return self._require_map().gamma

    @property
    def warps_(self) -> list[Warp | None]:  # (n,)
        """Warps of all clouds; None for a cloud that shares too few landmarks with the map."""
        return [self._warp_or_none(key) for key in self.keys_]

    @property
    def waiting_(self) -> list[CloudKey]:
        """Keys of the clouds that share too few landmarks with the others so far."""
        return [] if self._running is None else self._running.waiting

    @property
    def mirrored_(self) -> list[CloudKey]:
        """Keys of the clouds that are mirror images of the others; they participate only with ``mirrored="keep"``."""
        return sorted(self._mirrored)

    def pose(self, key: CloudKey) -> tuple[Array, Array]:  # (d, d), (d,)
        """R and t such that R p + t lies near the map for the points p of a cloud.

        A cloud outside the map, such as a mirror image, gets the best proper rotation onto it; NaN if it shares fewer
        than d + 1 landmarks with the map.
        """
        stream_map, running = self._require_map(), self._require_running()
        self._require_key(key)
        if key in stream_map.poses:
            return stream_map.poses[key]
        overlap = self._overlap(self._cloud(key))
        if overlap is None:
            return np.full((running.dimension,) * 2, np.nan), np.full(running.dimension, np.nan)
        return pose_onto(*overlap)

    def points_of(self, key: CloudKey) -> Array:  # (s, d)
        """The points of a cloud as they were added."""
        self._require_key(key)
        return self._cloud(key).points.copy()

    def transform(self, points: npt.ArrayLike, cloud: CloudKey) -> Array:  # (k, d) -> (k, d)
        """Warp points of one cloud into the map."""
        return self.warp(cloud)(points)

    def inverse_transform(self, points: npt.ArrayLike, cloud: CloudKey) -> Array:  # (k, d) -> (k, d)
        """Take points of the map back into one cloud; NaN if there is no unique answer near its landmarks."""
        warp = self.warp(cloud)
        return inverse(warp, warp.checked(points), self._cloud(cloud).points)

    def predict(self, points: npt.ArrayLike, cloud: CloudKey) -> Array:  # (k, d) -> (k, d)
        """Where points of the map lie in one cloud, such as the landmarks that it did not see.

        The cloud is regressed on the map (docs/theory.md, equation 21) with the settings of the stream, which automatic
        ones are chosen for.  Unlike :meth:`inverse_transform` it has an answer everywhere.

        Parameters
        ----------
        points : array (k, d)
            Points of the map, landmarks or not.
        cloud : int
            The key of the cloud.

        Returns
        -------
        predictions : array (k, d)
            In the frame and the unit of the cloud; NaN only where ``points`` is.
        """
        self._require_key(cloud)
        overlap = self._overlap(self._cloud(cloud))
        if overlap is None:
            raise InvalidObservations(
                f"cloud {cloud} shares too few landmarks with the map; add more, or call update()"
            )
        seen, positions = overlap
        if self.estimator._deforms:
            on_map = Cloud(seen.name, seen.seen, positions, seen.weights, seen.resolution)
            warp = reduce(self._require_running().family, on_map).fit_all([seen.points])[0]
        else:
            rotation, translation = pose_onto(seen, positions)
            warp = affine_warp(seen, rotation.T, -rotation.T @ translation)
        return warp(warp.checked(points))

    def impute(self, cloud: CloudKey, return_cov: bool = False) -> Array | tuple[Array, Array]:
        """All landmarks of the map in the frame of one cloud: seen ones as they were seen, unseen ones predicted.

        Landmarks of ``shape_model`` are predicted by it, all others by :meth:`predict`.

        Parameters
        ----------
        cloud : int
            The key of the cloud.
        return_cov : bool, default=False
            Also return the covariances of the predictions by the shape model; 0 where seen, NaN without that model.

        Returns
        -------
        points : array (m, d)
            In the order of ``landmarks_``.
        covariances : array (m, d, d)
        """
        self._require_key(cloud)
        own, row = self._cloud(cloud), {name: j for j, name in enumerate(self.landmarks_)}
        d = own.points.shape[1]
        points, covariances = np.full((len(row), d), np.nan), np.full((len(row), d, d), np.nan)
        seen = dict(zip(self._require_running().index.names_of(own.seen), own.points, strict=True))
        for name, position, covariance in _known(seen, self.shape_model):
            if name in row:
                points[row[name]], covariances[row[name]] = position, covariance
        unknown = np.isnan(points[:, 0])
        if unknown.any():
            points[unknown] = self.predict(self.map_[unknown], cloud)
        return (points, covariances) if return_cov else points

    def warp(self, key: CloudKey) -> Warp:
        """The warp of a cloud, fitted when it is first asked for."""
        found = self._warp_or_none(key)
        if found is None:
            raise InvalidObservations(f"cloud {key} shares too few landmarks with the map; add more, or call update()")
        return found

    def _warp_or_none(self, key: CloudKey) -> Warp | None:
        stream_map = self._require_map()
        self._require_key(key)
        if key not in self._warps:
            if key in stream_map.reduced:
                self._warps[key] = stream_map.fit_warp(key)
            else:
                overlap = self._overlap(self._cloud(key))
                if overlap is None:
                    return None
                self._warps[key] = self._warp_onto(*overlap)
        return self._warps[key]

    def _warp_onto(self, cloud: Cloud, targets: Array) -> Warp:
        """The warp of a cloud that does not participate, onto its landmarks in the map."""
        if self.estimator._deforms:
            return reduce(self._require_running().family, cloud).fit_all([targets])[0]
        return affine_warp(cloud, *pose_onto(cloud, targets))

    # -- diagnosis --

    def diagnose(self) -> list[Finding]:
        """Findings about what may be wrong, the most severe first."""
        findings = contradictions(self._motion_residuals)
        if self.waiting_:
            found = (
                f"{len(self.waiting_)} clouds share too few landmarks with the others, the first is cloud "
                f"{self.waiting_[0]}"
            )
            findings.append(Finding("waiting", 0.3, found, "add clouds that share landmarks with them, or drop them"))
        for key, reason in (self._running.failures if self._running is not None else {}).items():
            findings.append(Finding("cloud left out", 0.5, f"cloud {key} cannot be reduced: {reason}", "drop it"))
        if self._mirrored:
            found = (
                f"{len(self._mirrored)} clouds are mirror images of the others, the first is cloud "
                f"{min(self._mirrored)}"
            )
            findings.append(Finding("mirror image", 0.7, found, "negate one of their coordinates, or drop them"))
        return sorted(findings, key=lambda one: -one.severity)

    # -- lookups --

    def _cloud(self, key: CloudKey) -> Cloud:
        """A cloud over landmark indices."""
        return self._outside[key] if key in self._outside else self._require_running().records[key].cloud

    def _overlap(self, cloud: Cloud) -> tuple[Cloud, Array] | None:
        """The observations of a cloud whose landmarks the map has, and their positions there; None if too few."""
        return None if self._map is None else self._map.overlap(cloud, self._require_running().names)

    def _require_running(self) -> RunningSum:
        if self._running is None:
            raise NotFitted("no cloud was added; call add(points, ids) first")
        return self._running

    def _require_map(self) -> StreamMap:
        if self._map is None:
            raise NotFitted("there is no map yet; call update() once two clouds share landmarks")
        return self._map

    def _require_key(self, key: CloudKey) -> None:
        if not isinstance(key, Integral) or key not in self._times:
            raise InvalidObservations(
                f"there is no cloud with key {key!r}; use a key that add() returned and that was not dropped"
            )

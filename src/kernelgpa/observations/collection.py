"""What all clouds saw, checked once and read-only from then on.

n clouds, m landmarks, s seen by one cloud, d dimension.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Sized
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import DegenerateCloud, InvalidObservations
from ..typing import Array, BoolArray, IndexArray, Name
from .arrays import finite_rows, frozen
from .checks import (
    LEAST_SIZE,
    MOST_RATIO,
    MOST_SIZE,
    MOST_WEIGHT,
    check_counts,
    check_points,
    dense_weights,
    real_array,
)
from .cloud import Cloud, cloud_of, compute_frames, frozen_cloud, mean_thinness
from .identifiers import checked_names, in_order, index_of, landmark_ids, listed, refuse_repeats
from .stacked import StackedClouds
from .tables import is_table, table_parts


@dataclass(frozen=True, eq=False, repr=False)
class Observations:
    """n clouds of m landmarks in d dimensions.

    Create them with :meth:`from_array`, :meth:`from_clouds` or :meth:`from_frame`, which check the data.

    Attributes
    ----------
    points : array (n, m, d)
        Positions; NaN for landmarks that a cloud did not see.
    weights : array (n, m)
        Weights of the observations; 0 for landmarks that a cloud did not see.
    visible : bool array (n, m)
        Whether each cloud sees each landmark.
    counts : int array (m,)
        The number of clouds that see each landmark.
    names, landmarks : tuples of lengths n and m
        Names of the clouds and of the landmarks.
    dimension : int
        d.
    clouds : tuple of n Cloud
        What each cloud saw.
    stacked : StackedClouds
        All clouds in arrays over all landmarks, as the solvers take them.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelgpa import Observations
    >>> points = np.random.default_rng(0).standard_normal((4, 10, 3))
    >>> points[1, 7] = np.nan
    >>> observations = Observations.from_array(points, clouds=["a", "b", "c", "d"])
    >>> observations
    Observations(4 clouds, 10 landmarks, 3D, 39 points seen)
    >>> observations.without(["b"]).names
    ('a', 'c', 'd')
    """

    clouds: tuple[Cloud, ...]
    landmarks: tuple[Name, ...]
    dimension: int

    @classmethod
    def from_array(
        cls,
        points: npt.ArrayLike,  # (n, m, d), NaN for what was not seen
        weights: npt.ArrayLike | None = None,  # (m,) or (n, m); 0 means not seen
        clouds: Iterable[Name] | None = None,
        landmarks: Iterable[Name] | None = None,
    ) -> Observations:
        """Observations from an array with NaN for what was not seen."""
        array, resolution = real_array(points, "points")
        if array.ndim != 3:
            raise InvalidObservations(
                f"points have shape {array.shape}; expected (clouds, landmarks, dimension), "
                "or a list with one (points, ids) pair per cloud"
            )
        n, m, d = array.shape
        check_counts(n, d)
        names = checked_names(clouds, n, "cloud")
        ids = checked_names(landmarks, m, "landmark")
        check_points(array, names, ids)
        visible = finite_rows(array)
        weight = dense_weights(weights, visible, names, ids)
        visible &= weight > 0
        made = []
        for t in range(n):
            seen = np.flatnonzero(visible[t])
            made.append(frozen_cloud(names[t], seen, array[t, seen], weight[t, seen], resolution))
        return cls(tuple(made), ids, d)._checked()._with_comparable_weights()

    @classmethod
    def from_clouds(
        cls,
        clouds: Sequence[tuple[npt.ArrayLike, Iterable[Name]]],
        weights: Sequence[npt.ArrayLike] | None = None,  # (s,) for each cloud
        names: Iterable[Name] | None = None,
    ) -> Observations:
        """Observations from one (points, ids) pair per cloud.

        Landmarks are sorted if their ids can be compared, otherwise they keep the order in which they first appear.
        """
        cloud_names = checked_names(names, len(clouds), "cloud")
        if weights is not None and (not isinstance(weights, Sized) or len(weights) != len(clouds)):
            found = len(weights) if isinstance(weights, Sized) else weights
            raise InvalidObservations(f"weights: found {found} for {len(clouds)} clouds; give one vector per cloud")
        ids = [_cloud_ids(pair, name) for pair, name in zip(clouds, cloud_names, strict=True)]
        landmarks = in_order(ids)
        position = {landmark: j for j, landmark in enumerate(landmarks)}
        made, dimensions = [], []
        for t, (pair, name) in enumerate(zip(clouds, cloud_names, strict=True)):
            indices = np.array([position[j] for j in ids[t]], dtype=np.intp)
            made.append(cloud_of(pair[0], ids[t], name, None if weights is None else weights[t], indices))
            dimensions.append(made[-1].points.shape[1])
        check_counts(len(made), *dimensions[:1])
        if len(set(dimensions)) > 1:
            t = next(t for t, d in enumerate(dimensions) if d != dimensions[0])
            raise InvalidObservations(
                f"cloud {cloud_names[t]!r} has dimension {dimensions[t]}, cloud {cloud_names[0]!r} has "
                f"{dimensions[0]}; give all clouds in the same dimension"
            )
        return cls(tuple(made), landmarks, dimensions[0])._checked()._with_comparable_weights()

    @classmethod
    def from_frame(cls, table: Any, weights: npt.ArrayLike | None = None) -> Observations:
        """Observations from a pandas DataFrame (long or wide) or an xarray DataArray (cloud, landmark, axis).

        A long table has the columns cloud, landmark, x, y and perhaps z and weight; a wide one has one row per cloud
        and columns such as ``nose_x, nose_y``, ``1.X, 1.Y`` or ``X1, Y1``.  NaN means not seen.
        """
        if not is_table(table):
            raise InvalidObservations(
                f"found {type(table).__name__}; expected a DataFrame or a DataArray, or use from_array, from_clouds"
            )
        points, own_weights, clouds, landmarks = table_parts(table)
        return cls.from_array(points, own_weights if weights is None else weights, clouds, landmarks)

    def _checked(self) -> Observations:
        compute_frames(self.clouds)
        for cloud in self.clouds:
            if len(cloud.seen) < self.dimension + 1:
                raise DegenerateCloud(
                    f"cloud {cloud.name!r} sees {len(cloud.seen)} landmarks, and at least {self.dimension + 1} are "
                    f"needed in {self.dimension}D; drop the cloud or give it more landmarks"
                )
            if cloud.frame.rank == 0:
                raise DegenerateCloud(
                    f"cloud {cloud.name!r}: all its {len(cloud.seen)} points coincide at {cloud.points[0]}; "
                    "drop the cloud"
                )
            if not LEAST_SIZE < cloud.frame.size < MOST_SIZE or np.abs(cloud.points).max() > MOST_SIZE:
                raise InvalidObservations(
                    f"cloud {cloud.name!r} has size {cloud.frame.size:.3g} about {cloud.frame.centre}, outside of the "
                    f"range from {LEAST_SIZE:g} to {MOST_SIZE:g} of double precision; use another unit"
                )
        return self

    def _with_comparable_weights(self) -> Observations:
        smallest = min(float(cloud.weights.min()) for cloud in self.clouds)
        largest = max(float(cloud.weights.max()) for cloud in self.clouds)
        if largest > MOST_RATIO * smallest or largest > MOST_WEIGHT:
            raise InvalidObservations(
                f"weights range from {smallest:.3g} to {largest:.3g}; double precision carries ratios up to "
                f"{MOST_RATIO:g} and weights up to {MOST_WEIGHT:g}. Use weight 0 for observations that should not count"
            )
        return self

    def __repr__(self) -> str:
        seen = sum(len(cloud.seen) for cloud in self.clouds)
        return (
            f"Observations({len(self.clouds)} clouds, {len(self.landmarks)} landmarks, {self.dimension}D, "
            f"{seen} points seen)"
        )

    # -- as arrays --

    @cached_property
    def stacked(self) -> StackedClouds:
        """All clouds stacked in arrays over all landmarks."""
        m, n = len(self.landmarks), len(self.clouds)
        weights, centred = np.zeros((m, n)), np.zeros((n, m, self.dimension))
        for t, cloud in enumerate(self.clouds):
            weights[cloud.seen, t] = cloud.weights
            centred[t, cloud.seen] = cloud.centred
        means = np.array([cloud.mean for cloud in self.clouds])
        ranks = np.array([cloud.frame.rank for cloud in self.clouds])
        resolution = max(cloud.resolution for cloud in self.clouds)
        return StackedClouds(weights, centred, means, ranks, resolution, mean_thinness(self.clouds))

    @property
    def names(self) -> tuple[Name, ...]:
        """The names of the clouds."""
        return tuple(cloud.name for cloud in self.clouds)

    @property
    def counts(self) -> IndexArray:  # (m,)
        """The number of clouds that see each landmark."""
        counts = np.zeros(len(self.landmarks), dtype=np.intp)
        for cloud in self.clouds:
            counts[cloud.seen] += 1
        return counts

    @property
    def visible(self) -> BoolArray:  # (n, m)
        """Whether each cloud sees each landmark."""
        visible = np.zeros((len(self.clouds), len(self.landmarks)), dtype=bool)
        for t, cloud in enumerate(self.clouds):
            visible[t, cloud.seen] = True
        return visible

    @property
    def points(self) -> Array:  # (n, m, d)
        """The positions of the landmarks, NaN for those that a cloud did not see."""
        points = np.full((len(self.clouds), len(self.landmarks), self.dimension), np.nan)
        for t, cloud in enumerate(self.clouds):
            points[t, cloud.seen] = cloud.points
        return points

    @property
    def weights(self) -> Array:  # (n, m)
        """The weights of the observations, 0 for landmarks that a cloud did not see."""
        weights = np.zeros((len(self.clouds), len(self.landmarks)))
        for t, cloud in enumerate(self.clouds):
            weights[t, cloud.seen] = cloud.weights
        return weights

    # -- fewer observations --

    def hide(self, mask: npt.ArrayLike) -> Observations:
        """Without the observations for which ``mask`` (n, m) is true."""
        hidden = np.asarray(mask)
        shape = (len(self.clouds), len(self.landmarks))
        if hidden.shape != shape or hidden.dtype != bool:
            raise InvalidObservations(
                f"mask has shape {hidden.shape} and type {hidden.dtype}; expected {shape} and bool"
            )
        same = np.arange(len(self.landmarks))
        clouds = tuple(c.only(~hidden[t, c.seen], same) for t, c in enumerate(self.clouds))
        return Observations(clouds, self.landmarks, self.dimension)._checked()

    def subset(self, landmarks: Iterable[Name]) -> Observations:
        """Only the given landmarks (names, indices or a boolean mask), in the order given."""
        return self.select(self.landmark_indices(landmarks))._checked()

    def without(self, clouds: Iterable[Name]) -> Observations:
        """Without the given clouds (names or indices)."""
        dropped = {self.cloud_index(cloud) for cloud in listed(clouds)}
        kept = tuple(c for t, c in enumerate(self.clouds) if t not in dropped)
        check_counts(len(kept), self.dimension)
        return Observations(kept, self.landmarks, self.dimension)

    def select(self, indices: IndexArray) -> Observations:
        """Like :meth:`subset` by index, but clouds may have too few landmarks afterwards."""
        if np.array_equal(indices, np.arange(len(self.landmarks))):
            return self  # the same object, because its clouds cache their frames
        renumbered = np.full(len(self.landmarks), -1, dtype=np.intp)
        renumbered[indices] = np.arange(len(indices))
        clouds = tuple(c.only(renumbered[c.seen] >= 0, renumbered) for c in self.clouds)
        return Observations(clouds, tuple(self.landmarks[j] for j in indices), self.dimension)

    def at(self, clouds: IndexArray) -> Observations:
        """Only the clouds with the given indices; a single one is enough."""
        if len(clouds) == len(self.clouds):
            return self
        return Observations(tuple(self.clouds[t] for t in clouds), self.landmarks, self.dimension)

    # -- names to indices --

    def cloud_index(self, cloud: Name) -> int:
        """The index of a cloud that is given by its name or, if no name is equal to it, by its index."""
        return index_of(cloud, {name: t for t, name in enumerate(self.names)}, "cloud")

    def landmark_indices(self, landmarks: Iterable[Name]) -> IndexArray:
        """Indices of landmarks that are given by name, by index or as a boolean mask."""
        given = listed(landmarks)
        if given and all(isinstance(one, bool) for one in given):
            if len(given) != len(self.landmarks):
                raise InvalidObservations(
                    f"the landmark mask has {len(given)} entries; expected one per landmark, {len(self.landmarks)}"
                )
            return np.flatnonzero(given)
        position = {landmark: j for j, landmark in enumerate(self.landmarks)}
        indices = np.array([index_of(j, position, "landmark") for j in given], dtype=np.intp)
        refuse_repeats([self.landmarks[j] for j in indices], "landmark")
        return indices


def as_observations(points: Any, weights: Any = None) -> Observations:
    """Observations from any kind of data that ``fit`` accepts."""
    if isinstance(points, Observations):
        return points if weights is None else reweighted(points, weights)._with_comparable_weights()
    if is_table(points):
        return Observations.from_frame(points, weights)
    if _is_list_of_pairs(points):
        return Observations.from_clouds(points, weights)
    return Observations.from_array(points, weights)


def reweighted(observations: Observations, weights: npt.ArrayLike) -> Observations:
    """The same observations with other weights, (m,) or (n, m)."""
    weight = dense_weights(weights, observations.visible, observations.names, observations.landmarks)
    same = np.arange(len(observations.landmarks))
    clouds = []
    for t, cloud in enumerate(observations.clouds):
        kept = cloud.only(weight[t, cloud.seen] > 0, same)
        clouds.append(replace(kept, weights=frozen(weight[t, kept.seen])))
    return Observations(tuple(clouds), observations.landmarks, observations.dimension)._checked()


def _is_list_of_pairs(points: Any) -> bool:
    return (
        isinstance(points, (list, tuple))
        and len(points) > 0
        and all(isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in points)
        and all(_dimensions(pair[0]) not in (0, 1) for pair in points)
    )


def _dimensions(values: Any) -> int:
    try:
        return np.ndim(values)
    except ValueError:  # rows of unequal length
        return -1


def _cloud_ids(pair: Sequence[Any], name: Name) -> list[Name]:
    if not isinstance(pair, Sequence) or isinstance(pair, str) or len(pair) != 2:
        found = f"{len(pair)} items" if isinstance(pair, Sized) else type(pair).__name__
        raise InvalidObservations(f"cloud {name!r}: found {found}; expected a (points, ids) pair")
    return landmark_ids(pair[1], name)

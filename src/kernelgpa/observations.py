"""What the clouds saw: ragged inside, checked once, then read-only.

n clouds, m landmarks, s seen by one cloud, d dimension.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set, Sized
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from .errors import DegenerateCloud, InvalidObservations
from .frames import Array, BoolArray, Frame, IndexArray, finite_rows, frame_of, frozen
from .names import Name, checked_names, in_order, index_of, listed, refuse_repeats
from .together import Together

LEAST_WEIGHT, MOST_WEIGHT = 1e-100, 1e100  # beyond them squares and quotients leave double precision
LEAST_SIZE, MOST_SIZE = 1e-120, 1e120  # of a cloud, likewise
MOST_RATIO = 1e10  # between the heaviest and the lightest weight


@dataclass(frozen=True)
class Cloud:
    """One cloud: which landmarks it saw, where, and with which weight."""

    name: Name
    seen: IndexArray  # (s,) ascending landmark indices
    points: Array  # (s, d)
    weights: Array  # (s,) positive
    resolution: float = 0.0  # spacing of the numbers the points were given in

    @cached_property
    def frame(self) -> Frame:
        return frame_of(self.points, self.resolution)

    @cached_property
    def mean(self) -> Array:  # (d,)
        """The centre of weight."""
        return self.weights @ self.points / self.weights.sum()

    @cached_property
    def centred(self) -> Array:  # (s, d)
        return self.points - self.mean

    def only(self, keep: BoolArray, renumbered: IndexArray) -> Cloud:
        """The cloud with the observations in ``keep`` (s,), landmark j becoming ``renumbered[j]``."""
        seen = renumbered[self.seen[keep]]
        order = np.argsort(seen, kind="stable")
        return Cloud(
            self.name,
            frozen(seen[order], np.intp),
            frozen(self.points[keep][order]),
            frozen(self.weights[keep][order]),
            self.resolution,
        )


@dataclass(frozen=True, eq=False, repr=False)
class Observations:
    """n clouds of m landmarks in d dimensions.

    Make one with :meth:`from_array` or :meth:`from_clouds`; both check the data.
    """

    clouds: tuple[Cloud, ...]
    landmarks: tuple[Name, ...]
    dimension: int

    @classmethod
    def from_array(
        cls,
        points: npt.ArrayLike,  # (n, m, d), NaN where unseen
        weights: npt.ArrayLike | None = None,  # (m,) or (n, m); 0 means unseen
        clouds: Iterable[Name] | None = None,
        landmarks: Iterable[Name] | None = None,
    ) -> Observations:
        """Observations from an array with NaN for what was not seen."""
        array, resolution = _real(points, "points")
        if array.ndim != 3:
            raise InvalidObservations(
                f"points have shape {array.shape}; expected (clouds, landmarks, dimension), "
                "or a list with one (points, ids) pair a cloud"
            )
        n, m, d = array.shape
        _check_counts(n, d)
        names = checked_names(clouds, n, "cloud")
        ids = checked_names(landmarks, m, "landmark")
        _check_points(array, names, ids)
        visible = finite_rows(array)
        weight = _dense_weights(weights, visible, names, ids)
        visible &= weight > 0
        made = []
        for t in range(n):
            seen = np.flatnonzero(visible[t])
            made.append(_cloud(names[t], seen, array[t, seen], weight[t, seen], resolution))
        return cls(tuple(made), ids, d)._checked()._with_comparable_weights()

    @classmethod
    def from_clouds(
        cls,
        clouds: Sequence[tuple[npt.ArrayLike, Iterable[Name]]],
        weights: Sequence[npt.ArrayLike] | None = None,  # one (s,) a cloud
        names: Iterable[Name] | None = None,
    ) -> Observations:
        """Observations from one (points, ids) pair a cloud.

        Landmarks are sorted where their ids can be sorted, otherwise they keep the order
        in which they first appear.
        """
        cloud_names = checked_names(names, len(clouds), "cloud")
        if weights is not None and (not isinstance(weights, Sized) or len(weights) != len(clouds)):
            found = len(weights) if isinstance(weights, Sized) else weights
            raise InvalidObservations(f"weights: found {found} for {len(clouds)} clouds; give one vector a cloud")
        ids = [_cloud_ids(pair, name) for pair, name in zip(clouds, cloud_names, strict=True)]
        landmarks = in_order(ids)
        position = {landmark: j for j, landmark in enumerate(landmarks)}
        made, dimensions = [], []
        for t, (pair, name) in enumerate(zip(clouds, cloud_names, strict=True)):
            places = np.array([position[j] for j in ids[t]], dtype=np.intp)
            made.append(cloud_of(pair[0], ids[t], name, None if weights is None else weights[t], places))
            dimensions.append(made[-1].points.shape[1])
        _check_counts(len(made), *dimensions[:1])
        if len(set(dimensions)) > 1:
            t = next(t for t, d in enumerate(dimensions) if d != dimensions[0])
            raise InvalidObservations(
                f"cloud {cloud_names[t]!r} has dimension {dimensions[t]}, cloud {cloud_names[0]!r} has "
                f"{dimensions[0]}; all clouds need the same"
            )
        return cls(tuple(made), landmarks, dimensions[0])._checked()._with_comparable_weights()

    def _checked(self) -> Observations:
        for cloud in self.clouds:
            if len(cloud.seen) < self.dimension + 1:
                raise DegenerateCloud(
                    f"cloud {cloud.name!r} sees {len(cloud.seen)} landmarks; at least {self.dimension + 1} are "
                    f"needed in {self.dimension}D; drop the cloud or give it more landmarks"
                )
            if cloud.frame.rank == 0:
                raise DegenerateCloud(
                    f"cloud {cloud.name!r}: all its {len(cloud.seen)} points coincide at {cloud.points[0]}; "
                    "drop the cloud"
                )
            if not LEAST_SIZE < cloud.frame.size < MOST_SIZE or np.abs(cloud.points).max() > MOST_SIZE:
                raise InvalidObservations(
                    f"cloud {cloud.name!r} has size {cloud.frame.size:.3g} about {cloud.frame.centre}; sizes and "
                    f"coordinates lie between {LEAST_SIZE:g} and {MOST_SIZE:g}; use another unit"
                )
        return self

    def _with_comparable_weights(self) -> Observations:
        lightest = min(float(cloud.weights.min()) for cloud in self.clouds)
        heaviest = max(float(cloud.weights.max()) for cloud in self.clouds)
        if heaviest > MOST_RATIO * lightest or heaviest > MOST_WEIGHT:
            raise InvalidObservations(
                f"weights range from {lightest:.3g} to {heaviest:.3g}; double precision carries a ratio of "
                f"{MOST_RATIO:g}; give 0 to what should not count"
            )
        return self

    def __repr__(self) -> str:
        seen = sum(len(cloud.seen) for cloud in self.clouds)
        return (
            f"Observations({len(self.clouds)} clouds, {len(self.landmarks)} landmarks, {self.dimension}D, "
            f"{seen} points seen)"
        )

    # -- what it holds, as arrays --

    @cached_property
    def together(self) -> Together:
        """All clouds in arrays over all landmarks, for algebra on all of them at once."""
        m, n = len(self.landmarks), len(self.clouds)
        weights, centred = np.zeros((m, n)), np.zeros((n, m, self.dimension))
        for t, cloud in enumerate(self.clouds):
            weights[cloud.seen, t] = cloud.weights
            centred[t, cloud.seen] = cloud.centred
        means = np.array([cloud.mean for cloud in self.clouds])
        ranks = np.array([cloud.frame.rank for cloud in self.clouds])
        resolution = max(cloud.resolution for cloud in self.clouds)
        return Together(weights, centred, means, ranks, resolution, mean_thinness(self.clouds))

    @property
    def names(self) -> tuple[Name, ...]:
        return tuple(cloud.name for cloud in self.clouds)

    @property
    def counts(self) -> IndexArray:  # (m,) clouds that see each landmark
        counts = np.zeros(len(self.landmarks), dtype=np.intp)
        for cloud in self.clouds:
            counts[cloud.seen] += 1
        return counts

    @property
    def visible(self) -> BoolArray:  # (n, m)
        visible = np.zeros((len(self.clouds), len(self.landmarks)), dtype=bool)
        for t, cloud in enumerate(self.clouds):
            visible[t, cloud.seen] = True
        return visible

    @property
    def points(self) -> Array:  # (n, m, d), NaN where unseen
        points = np.full((len(self.clouds), len(self.landmarks), self.dimension), np.nan)
        for t, cloud in enumerate(self.clouds):
            points[t, cloud.seen] = cloud.points
        return points

    @property
    def weights(self) -> Array:  # (n, m), 0 where unseen
        weights = np.zeros((len(self.clouds), len(self.landmarks)))
        for t, cloud in enumerate(self.clouds):
            weights[t, cloud.seen] = cloud.weights
        return weights

    # -- the same observations, fewer of them --

    def hide(self, mask: npt.ArrayLike) -> Observations:
        """Without the observations where ``mask`` (n, m) is true."""
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
        _check_counts(len(kept), self.dimension)
        return Observations(kept, self.landmarks, self.dimension)

    def select(self, indices: IndexArray) -> Observations:
        """Like :meth:`subset`, by index, and clouds may be left with too few landmarks."""
        if np.array_equal(indices, np.arange(len(self.landmarks))):
            return self  # with all that its clouds have computed
        renumbered = np.full(len(self.landmarks), -1, dtype=np.intp)
        renumbered[indices] = np.arange(len(indices))
        clouds = tuple(c.only(renumbered[c.seen] >= 0, renumbered) for c in self.clouds)
        return Observations(clouds, tuple(self.landmarks[j] for j in indices), self.dimension)

    def at(self, clouds: IndexArray) -> Observations:
        """Only the clouds at the given indices; there may be as few as one."""
        if len(clouds) == len(self.clouds):
            return self
        return Observations(tuple(self.clouds[t] for t in clouds), self.landmarks, self.dimension)

    # -- names to indices --

    def cloud_index(self, cloud: Name) -> int:
        """The index of a cloud given by name or, where no name is equal to it, by index."""
        return index_of(cloud, {name: t for t, name in enumerate(self.names)}, "cloud")

    def landmark_indices(self, landmarks: Iterable[Name]) -> IndexArray:
        """Indices of landmarks given by name, by index or as a boolean mask."""
        given = listed(landmarks)
        if given and all(isinstance(one, bool) for one in given):
            if len(given) != len(self.landmarks):
                raise InvalidObservations(
                    f"the landmark mask has {len(given)} entries; expected one a landmark, {len(self.landmarks)}"
                )
            return np.flatnonzero(given)
        position = {landmark: j for j, landmark in enumerate(self.landmarks)}
        indices = np.array([index_of(j, position, "landmark") for j in given], dtype=np.intp)
        refuse_repeats([self.landmarks[j] for j in indices], "landmark")
        return indices


def mean_thinness(clouds: Sequence[Cloud]) -> float:
    """The harmonic mean: rounding grows with one over the thinness of each cloud."""
    return len(clouds) / sum(1 / cloud.frame.thinness for cloud in clouds)


def cloud_of(
    points: npt.ArrayLike,  # (s, d)
    ids: Sequence[Name],
    name: Name,
    weights: npt.ArrayLike | None = None,  # (s,)
    places: IndexArray | None = None,  # (s,) of the landmarks; None: in the order given
) -> Cloud:
    """One cloud, its points and weights checked; NaN and weight 0 are what it did not see."""
    array, resolution = _real(points, f"cloud {name!r}")
    if array.ndim != 2 or len(array) != len(ids):
        raise InvalidObservations(
            f"cloud {name!r}: points have shape {array.shape} and there are {len(ids)} ids; "
            "expected (landmarks, dimension) with one id a row"
        )
    _check_points(array[None], (name,), tuple(ids))
    visible = finite_rows(array)
    weight = _dense_weights(weights, visible[None], (name,), tuple(ids), f"cloud {name!r}: weights")[0]
    keep = visible & (weight > 0)
    seen = np.arange(len(ids), dtype=np.intp) if places is None else places
    return _cloud(name, seen[keep], array[keep], weight[keep], resolution)


def as_observations(points: Any, weights: Any = None) -> Observations:
    """The observations in whatever ``fit`` was given."""
    if isinstance(points, Observations):
        return points if weights is None else reweighted(points, weights)._with_comparable_weights()
    if _is_list_of_pairs(points):
        return Observations.from_clouds(points, weights)
    return Observations.from_array(points, weights)


def reweighted(observations: Observations, weights: npt.ArrayLike) -> Observations:
    """The same observations with other weights, (m,) or (n, m)."""
    weight = _dense_weights(weights, observations.visible, observations.names, observations.landmarks)
    same = np.arange(len(observations.landmarks))
    clouds = []
    for t, cloud in enumerate(observations.clouds):
        kept = cloud.only(weight[t, cloud.seen] > 0, same)
        clouds.append(replace(kept, weights=frozen(weight[t, kept.seen])))
    return Observations(tuple(clouds), observations.landmarks, observations.dimension)._checked()


def _cloud(name: Name, seen: IndexArray, points: Array, weights: Array, epsilon: float) -> Cloud:
    order = np.argsort(seen, kind="stable")
    spacing = epsilon * float(np.abs(points).max(initial=0.0))
    return Cloud(name, frozen(seen[order], np.intp), frozen(points[order]), frozen(weights[order]), spacing)


def _real(values: Any, what: str) -> tuple[Array, float]:
    """Values as float64, masked entries as NaN, and the relative spacing of the type they came in."""
    try:
        array = np.ma.asarray(values)  # masked also where only the rows of a list are
    except ValueError as error:  # rows of unequal length
        raise InvalidObservations(
            f"{what}: not a rectangular array ({error}); clouds that saw different landmarks go in as "
            "one array with NaN, or as a list of (points, ids) pairs"
        ) from None
    if array.dtype.kind not in "fiub":
        raise InvalidObservations(f"{what}: the type is {array.dtype}; expected real numbers")
    epsilon = np.finfo(array.dtype if array.dtype.kind == "f" else np.float64).eps
    real = array.astype(np.float64)
    return np.asarray(np.ma.filled(real, np.nan)), float(max(epsilon, np.finfo(np.float64).eps))


def _check_counts(clouds: int, dimension: int = 2) -> None:
    if clouds < 2:
        raise InvalidObservations(f"clouds: found {clouds}; at least 2 are needed to register")
    if dimension not in (2, 3):
        raise InvalidObservations(
            f"points have dimension {dimension}; expected 2 or 3 as the last of (clouds, landmarks, dimension)"
        )


def _check_points(array: Array, names: tuple[Name, ...], ids: tuple[Name, ...]) -> None:
    """No infinities, and NaN for a whole point or not at all."""
    if np.isinf(array).any():
        t, j = np.argwhere(np.isinf(array).any(axis=2))[0]
        raise InvalidObservations(
            f"cloud {names[t]!r}, landmark {ids[j]!r}: coordinates {array[t, j]} are not finite; "
            "give NaN in every coordinate if it was not seen"
        )
    unknown = np.isnan(array)
    partly = np.argwhere(unknown.any(axis=2) & ~unknown.all(axis=2))
    if len(partly):
        t, j = partly[0]
        raise InvalidObservations(
            f"cloud {names[t]!r}, landmark {ids[j]!r}: NaN in some coordinates only, {array[t, j]} "
            f"({len(partly)} such points); give all coordinates, or NaN in every one if it was not seen"
        )


def _dense_weights(
    weights: npt.ArrayLike | None,
    visible: BoolArray,  # (n, m)
    names: tuple[Name, ...],
    ids: tuple[Name, ...],
    what: str = "weights",
) -> Array:  # (n, m), 0 where unseen
    if weights is None:
        return visible.astype(np.float64)
    given, _ = _real(weights, what)
    if given.shape not in (visible.shape, visible.shape[1:]):
        raise InvalidObservations(
            f"{what} have shape {given.shape}; expected {visible.shape[1:]}, one a landmark, "
            f"or {visible.shape}, one an observation"
        )
    dense = np.broadcast_to(given, visible.shape)
    bad = np.argwhere(visible & ~(np.isfinite(dense) & ((dense == 0) | (dense >= LEAST_WEIGHT))))
    if len(bad):
        t, j = bad[0]
        raise InvalidObservations(
            f"cloud {names[t]!r}, landmark {ids[j]!r}: weight {dense[t, j]}; weights are finite and "
            f"not negative (0 means not seen, anything else is at least {LEAST_WEIGHT:g})"
        )
    return np.where(visible, dense, 0.0)


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
    if isinstance(pair[1], Set):
        raise InvalidObservations(f"cloud {name!r}: its ids are a set, which has no order; give a list")
    ids = listed(pair[1])
    refuse_repeats(ids, f"cloud {name!r}: landmark id")
    return ids

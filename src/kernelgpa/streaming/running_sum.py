"""Clouds that come and go, and the sum of their costs, kept current.

Q = sum_t Q_t (theory, section 16): a cloud changes only the entries of the landmarks that it observes.

A landmark participates while two clouds or more observe it.  When that begins or ends, the one cloud that observed it
alone is reduced again.  A cloud participates while it shares enough landmarks with the others; until then it waits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import InvalidObservations, KernelGPAError, TooLarge
from ..observations.checks import MOST_RATIO, MOST_WEIGHT
from ..observations.cloud import Cloud
from ..observations.collection import Observations
from ..observations.connectivity import SureConnections
from ..observations.identifiers import in_order
from ..observations.stacked import StackedClouds
from ..spectrum.dense import DenseCost
from ..typing import Array, IndexArray, Name
from ..warps import Family, ReducedCloud, reduce
from .landmark_index import LandmarkIndex
from .running_arrays import ABSENT, CloudKey, RunningArrays

__all__ = ["CloudKey", "CloudRecord", "RunningSum", "WeightRange", "weight_range"]

WeightRange = tuple[float, float]  # least and largest weight of a cloud


@dataclass
class CloudRecord:
    """A cloud over landmark indices, its observations that participate, and these with the warp eliminated."""

    cloud: Cloud
    participating: Cloud | None = None  # None: the cloud waits
    reduced: ReducedCloud | None = None


class RunningSum:
    """Clouds by key, and the sum of the costs of those that participate."""

    def __init__(self, family: Family, dimension: int) -> None:
        self.family, self.dimension = family, dimension
        self.index = LandmarkIndex()
        self.records: dict[CloudKey, CloudRecord] = {}
        self._observed: dict[CloudKey, int] = {}  # number of landmarks of each cloud
        self.failures: dict[CloudKey, str] = {}  # clouds that could not be reduced, and why
        self._arrays = RunningArrays(dimension)
        self._connections = SureConnections()
        self._observers: list[set[CloudKey]] = []  # by landmark index: the participating clouds that observe it
        self._counts = np.zeros(0, dtype=np.intp)  # by landmark index: how many these are

    # -- results --

    @property
    def participating(self) -> tuple[CloudKey, ...]:
        """The clouds in the sum, in the order of their columns."""
        return tuple(self._arrays.keys)

    @property
    def waiting(self) -> list[CloudKey]:
        """Clouds that share too few landmarks with the others so far."""
        return [key for key, record in self.records.items() if record.participating is None]

    @property
    def names(self) -> list[Name | None]:
        """Names of landmarks, by index."""
        return self.index.names

    @property
    def landmarks(self) -> list[int]:
        """Indices of the landmarks that participate, in the order of their rows."""
        return self._arrays.landmarks

    @property
    def rows(self) -> IndexArray:
        """Rows of landmarks in the sum, by index; -1 for those that do not participate."""
        return self._arrays.rows

    def cost(self) -> DenseCost:
        """The summed cost over the landmarks that participate."""
        return self._arrays.cost()

    def stacked(self) -> StackedClouds:
        """The participating clouds over the landmarks that participate."""
        return self._arrays.stacked()

    def spreads(self) -> Array:  # (n, d)
        """The spreads of the participating clouds along their principal axes, in the order of their columns."""
        return np.array([part.frame.spread for _, part, _ in self.parts()])

    def parts(self) -> list[tuple[CloudKey, Cloud, ReducedCloud]]:
        """Key, observations that participate, and reduced cloud, for each cloud in the sum."""
        records = ((key, self.records[key]) for key in self._arrays.keys)
        return [
            (key, record.participating, record.reduced)
            for key, record in records
            if record.participating is not None and record.reduced is not None
        ]

    def observations(self) -> Observations:
        """The participating clouds as the input of a batch estimator, in the order of their keys."""
        clouds = [self.records[key].cloud for key in sorted(self._arrays.keys)]
        ids = in_order([self.index.names_of(cloud.seen) for cloud in clouds])
        renumbered = np.full(len(self.names), ABSENT, dtype=np.intp)
        renumbered[self.index.lookup(ids)] = np.arange(len(ids))
        everything = tuple(cloud.only(np.ones(len(cloud.seen), dtype=bool), renumbered) for cloud in clouds)
        return Observations(everything, ids, self.dimension)

    @property
    def has_unshared_landmarks(self) -> bool:
        """Whether some landmarks are observed by a single participating cloud."""
        return bool(np.any(self._counts == 1))

    def surely_connected(self) -> bool:
        """A fast sufficient condition that the participating clouds are connected."""
        return self._connections.hold_for({key: self.records[key].cloud for key in sorted(self._arrays.keys)})

    # -- sizes, from which memory is forecast --

    @property
    def sizes(self) -> IndexArray:  # (n,)
        """Number of participating landmarks in each participating cloud."""
        return self._arrays.sizes

    @property
    def nbytes(self) -> int:
        """Bytes of the sum."""
        return self._arrays.nbytes

    def size_bounds_with(self, names: Sequence[Name]) -> tuple[list[int], int]:
        """Upper bounds of :meth:`sizes_with` for all clouds, which take no time to find."""
        sizes = list(self._observed.values())
        return [*sizes, len(names)] if names else sizes, len(self.index) + self.index.unknown(names)

    def sizes_with(self, names: Sequence[Name], without: Collection[CloudKey]) -> tuple[list[int], int]:
        """Number of shared landmarks in each cloud and in all, with one more cloud and without some others."""
        clouds = [self.index.names_of(record.cloud.seen) for key, record in self.records.items() if key not in without]
        clouds += [list(names)] if names else []
        counts = Counter(name for one in clouds for name in one)
        return [sum(counts[name] > 1 for name in one) for one in clouds], sum(n > 1 for n in counts.values())

    # -- clouds come and go --

    def assign(self, ids: Sequence[Name]) -> IndexArray:
        """Indices of landmarks; one that no cloud has observed before gets a new index."""
        indices = self.index.assign(ids)
        known = len(self.names)
        self._arrays.reserve(known)
        self._observers += [set() for _ in range(known - len(self._observers))]
        if (more := known - len(self._counts)) > 0:
            self._counts = np.append(self._counts, np.zeros(more + 64, dtype=np.intp))
        return indices

    def add(self, key: CloudKey, cloud: Cloud) -> None:
        """Add a cloud over landmark indices; :meth:`update_participation` decides whether it participates."""
        self.records[key], self._observed[key] = CloudRecord(cloud), len(cloud.seen)
        self.index.hold(cloud.seen)

    def drop(self, key: CloudKey) -> None:
        """Remove a cloud and everything that it contributed."""
        if self.records[key].participating is not None:
            self._withdraw(key)
        del self._observed[key]
        self.index.release(self.records.pop(key).cloud.seen)

    def reset(self) -> None:
        """Clear the sum, as if every cloud had just been added; :meth:`update_participation` makes it again."""
        for record in self.records.values():
            record.participating = record.reduced = None
        self._observers = [set() for _ in self.names]
        self._counts[:] = 0
        self._arrays.clear()

    # -- participation --

    def update_participation(self, excluded: Collection[CloudKey] = ()) -> None:
        """Let exactly those clouds participate that share enough landmarks with others and are not excluded."""
        for key in [key for key in self._arrays.keys if key in excluded]:
            self._withdraw(key)
        refused: set[CloudKey] = set()
        self.failures = {}
        while True:
            for key in [key for key in self._sharing(self.waiting, excluded) if key not in refused]:
                try:
                    self._insert(key)
                except TooLarge:  # the cause is the memory, not the cloud
                    raise
                except KernelGPAError as problem:
                    self.failures[key] = str(problem)
                    refused.add(key)
            insufficient = [key for key in self._arrays.keys if self.records[key].reduced is None]
            for key in insufficient:
                self._withdraw(key)
            refused |= set(insufficient)
            if not insufficient:
                return

    def _sharing(self, waiting: list[CloudKey], excluded: Collection[CloudKey]) -> list[CloudKey]:
        """The waiting clouds that share enough landmarks with each other and with the participating clouds."""
        chosen = [key for key in waiting if key not in excluded]
        while chosen:
            counts = self._counts.copy()
            for key in chosen:
                counts[self.records[key].cloud.seen] += 1
            kept = [key for key in chosen if np.sum(counts[self.records[key].cloud.seen] >= 2) > self.dimension]
            if len(kept) == len(chosen):
                return kept
            chosen = kept
        return []

    def _insert(self, key: CloudKey) -> None:
        """Let a cloud participate; nothing changes if it, or a cloud that it meets, cannot be reduced."""
        seen = self.records[key].cloud.seen
        others = self._sole_observers(seen[self._counts[seen] == 1])
        self._count(key, 1)
        try:
            parts = {one: self._participating_part(one) for one in (key, *others)}
        except KernelGPAError:
            self._count(key, -1)
            raise
        for one, part in parts.items():
            self._replace(one, *part)

    def _withdraw(self, key: CloudKey) -> None:
        """Take a cloud out of the sum; a cloud that cannot be reduced without it stays without cost, and goes next."""
        seen = self.records[key].cloud.seen
        self._subtract(key)
        self._count(key, -1)
        for other in self._sole_observers(seen[self._counts[seen] == 1]):
            try:
                part = self._participating_part(other)
            except TooLarge:
                raise
            except KernelGPAError:
                part = self.records[other].cloud, None
            self._replace(other, *part)
        for index in seen[(self._counts[seen] < 2) & (self.rows[seen] != ABSENT)].tolist():
            self._arrays.remove_landmark(index)

    def _count(self, key: CloudKey, change: int) -> None:
        """Enter a cloud among the observers of its landmarks (1), or remove it (-1)."""
        seen = self.records[key].cloud.seen
        self._counts[seen] += change
        for index in seen.tolist():
            if change > 0:
                self._observers[index].add(key)
            else:
                self._observers[index].discard(key)

    def _sole_observers(self, indices: IndexArray) -> set[CloudKey]:
        """The observers of landmarks that have one each."""
        return set().union(*(self._observers[index] for index in indices.tolist()))

    def _participating_part(self, key: CloudKey) -> tuple[Cloud, ReducedCloud | None]:
        """The observations of a cloud that participate now, and these reduced; None if they are too few."""
        cloud = self.records[key].cloud
        shared = self._counts[cloud.seen] >= 2
        part = cloud if shared.all() else cloud.only(shared, np.arange(len(self.names)))
        if len(part.seen) <= self.dimension or part.frame.rank == 0:
            return part, None
        return part, reduce(self.family, part)

    def _replace(self, key: CloudKey, part: Cloud, reduced: ReducedCloud | None) -> None:
        """Enter a cloud with these observations, instead of those that it had in the sum before."""
        record = self.records[key]
        if record.participating is not None:
            self._subtract(key)
        record.participating, record.reduced = part, reduced
        self._arrays.add_cloud(key, part, None if reduced is None else reduced.cost_matrix())

    def _subtract(self, key: CloudKey) -> None:
        """Take the observations of a cloud out of the sum."""
        record = self.records[key]
        if record.participating is not None:
            cost = None if record.reduced is None else record.reduced.cost_matrix()
            self._arrays.remove_cloud(key, record.participating, cost)
        record.participating = record.reduced = None


def weight_range(cloud: Cloud, dimension: int, others: Iterable[WeightRange]) -> WeightRange:
    """The weights of a cloud; an error if the cloud is not valid or its weights do not compare with the others."""
    d = cloud.points.shape[1]
    if d not in (2, 3) or d != dimension:
        raise InvalidObservations(f"cloud {cloud.name}: its points are in {d}D; expected {dimension}D")
    Observations((cloud,), tuple(range(len(cloud.seen))), d)._checked()
    own = float(cloud.weights.min()), float(cloud.weights.max())
    ranges = [own, *others]
    lightest, heaviest = min(low for low, _ in ranges), max(high for _, high in ranges)
    if heaviest > MOST_RATIO * lightest or heaviest > MOST_WEIGHT:
        raise InvalidObservations(
            f"cloud {cloud.name}: with it the weights range from {lightest:.3g} to {heaviest:.3g}, a ratio above "
            f"the {MOST_RATIO:g} that double precision carries; give weight 0 to observations that should not count"
        )
    return own

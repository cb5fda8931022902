"""Clouds that come and go, and the sum of what they leave of the cost, kept current.

Q = sum_t Q_t, so a cloud touches only the landmarks that it saw.  The sum is kept as two matrices, ``high`` and
``low``: every entry, and what rounding took from it.  So clouds that were added and dropped again leave nothing behind.

A landmark takes part while two clouds or more see it.  When that begins or ends, the cloud that saw it alone is reduced
again.  A cloud takes part while it shares enough landmarks with the others; until then it waits.

Landmarks have numbers, which they keep, and those that take part also places 0 ... m - 1 in the arrays, which change:
where one goes, the last takes its place.  Clouds likewise have columns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import KernelGPAError, TooLarge
from ..observations.cloud import Cloud, mean_thinness
from ..observations.collection import Observations
from ..observations.identifiers import in_order
from ..observations.stacked import StackedClouds, WeightedProducts
from ..typing import Array, IndexArray, Name
from ..warps import Family, ReducedCloud
from .dense import DenseCost

Key = int
NOWHERE = -1
DENSE = 3  # a cloud that sees a third of the landmarks is added by whole rows


@dataclass
class Member:
    """A cloud, what of it takes part, and that with its warp eliminated."""

    cloud: Cloud  # over numbers
    used: Cloud | None = None  # None: it waits
    reduced: ReducedCloud | None = None


class RunningSum:
    """The clouds, by key, and their sum."""

    def __init__(self, family: Family, dimension: int) -> None:
        self.family, self.dimension = family, dimension
        self.members: dict[Key, Member] = {}
        self.failures: dict[Key, str] = {}  # clouds that could not be reduced, and why
        self.names: list[Name | None] = []  # of numbers
        self._number: dict[Name, int] = {}
        self._free: list[int] = []  # numbers
        self._seers: list[set[Key]] = []  # of numbers: the clouds that take part and see it
        self._known: list[int] = []  # of numbers: how many clouds see it, waiting or not
        self._place = np.zeros(0, dtype=np.intp)  # of numbers
        self._counts = np.zeros(0, dtype=np.intp)  # of numbers: the clouds that take part and see it
        self._at: list[int] = []  # of places, numbers
        self._keys: list[Key] = []  # of columns
        self._column: dict[Key, int] = {}
        self._clear()

    def _clear(self) -> None:
        """Arrays of no landmarks and no clouds."""
        d = self.dimension
        self._high, self._low = np.zeros((0, 0)), np.zeros((0, 0))
        self._weights, self._pull = np.zeros((0, 0)), np.zeros((0, 0))
        self._centred, self._means = np.zeros((0, 0, d)), np.zeros((0, d))
        self._own = np.zeros(0)

    # -- what others ask --

    @property
    def keys(self) -> tuple[Key, ...]:
        """The clouds that take part, in the order of their columns."""
        return tuple(self._keys)

    @property
    def waiting(self) -> list[Key]:
        """Clouds that share too few landmarks with the others as yet."""
        return [key for key, member in self.members.items() if member.used is None]

    @property
    def landmarks(self) -> list[Name | None]:
        """The landmarks that take part, in the order of their places."""
        return [self.names[number] for number in self._at]

    @property
    def numbers(self) -> list[int]:
        """The same by number."""
        return self._at

    def places_of(self, key: Key) -> IndexArray:  # (s,)
        """Where the landmarks of a cloud that takes part stand in the map."""
        used = self.members[key].used
        return self._place[used.seen] if used is not None else np.zeros(0, dtype=np.intp)

    @property
    def places(self) -> IndexArray:
        """Where landmarks stand in the map, by number; -1 for those that do not take part."""
        return self._place

    def cost(self) -> DenseCost:
        self._resize(len(self._at), len(self._keys))
        return DenseCost(self._high)

    def arrays(self) -> StackedClouds:
        """The clouds that take part, over the landmarks in the order of their places."""
        self._resize(len(self._at), len(self._keys))
        used = [one for key in self._keys if (one := self.members[key].used) is not None]
        ranks, resolution = np.array([one.frame.rank for one in used]), max(one.resolution for one in used)
        products = WeightedProducts(self._pull, self._own)
        thinness = mean_thinness(used)
        return StackedClouds(self._weights, self._centred, self._means, ranks, resolution, thinness, products)

    def batch(self) -> Observations:
        """The clouds that take part as anybody would give them to a batch estimator, in the order of their keys."""
        clouds = [self.members[key].cloud for key in sorted(self._keys)]
        ids = in_order([[self.names[number] for number in cloud.seen.tolist()] for cloud in clouds])
        renumbered = np.full(len(self.names), NOWHERE, dtype=np.intp)
        renumbered[[self._number[name] for name in ids]] = np.arange(len(ids))
        everything = tuple(cloud.only(np.ones(len(cloud.seen), dtype=bool), renumbered) for cloud in clouds)
        return Observations(everything, ids, self.dimension)

    # -- how much there is of it --

    @property
    def sizes(self) -> list[int]:
        """Of the clouds that take part, the landmarks that do."""
        return [len(used.seen) for key in self._keys if (used := self.members[key].used) is not None]

    @property
    def held(self) -> int:
        """Bytes of the sum."""
        return self._high.nbytes + self._low.nbytes

    def most_with(self, names: Sequence[Name]) -> tuple[list[int], int]:
        """Upper bounds of :meth:`sizes_with`, found at once."""
        clouds = [len(member.cloud.seen) for member in self.members.values()]
        return [*clouds, len(names)] if names else clouds, len(self.names) - len(self._free) + len(names)

    def sizes_with(self, names: Sequence[Name], without: Collection[Key]) -> tuple[list[int], int]:
        """Landmarks of each cloud that others see too, and their number, with a cloud more and some clouds fewer."""
        clouds = [
            [self.names[number] for number in member.cloud.seen.tolist()]
            for key, member in self.members.items()
            if key not in without
        ]
        clouds += [list(names)] if names else []
        counts = Counter(name for one in clouds for name in one)
        return [sum(counts[name] > 1 for name in one) for one in clouds], sum(n > 1 for n in counts.values())

    # -- landmarks and their numbers --

    def numbers_of(self, ids: list[Name]) -> IndexArray:
        """Numbers of landmarks; one that nobody saw before gets a new one."""
        numbers = np.empty(len(ids), dtype=np.intp)
        for i, name in enumerate(ids):
            number = self._number.get(name)
            if number is None:
                number = self._free.pop() if self._free else len(self.names)
                if number == len(self.names):
                    self.names.append(name)
                    self._seers.append(set())
                    self._known.append(0)
                else:
                    self.names[number] = name
                self._number[name] = number
            numbers[i] = number
        if (more := len(self.names) - len(self._place)) > 0:
            self._place = np.append(self._place, np.full(more + 64, NOWHERE, dtype=np.intp))
            self._counts = np.append(self._counts, np.zeros(more + 64, dtype=np.intp))
        return numbers

    def keep_names(self, cloud: Cloud) -> None:
        """The landmarks of a cloud that is kept elsewhere keep their numbers too."""
        for number in cloud.seen.tolist():
            self._known[number] += 1

    def release_names(self, cloud: Cloud) -> None:
        """Numbers of landmarks that no cloud sees any more are free."""
        for number in cloud.seen.tolist():
            self._known[number] -= 1
            if self._known[number] == 0:
                del self._number[self.names[number]]
                self.names[number] = None
                self._free.append(number)

    # -- clouds --

    def add(self, key: Key, cloud: Cloud) -> None:
        """A cloud over numbers; ``settle`` decides whether it takes part."""
        self.members[key] = Member(cloud)
        self.keep_names(cloud)

    def drop(self, key: Key) -> None:
        if self.members[key].used is not None:
            self._withdraw(key)
        self.release_names(self.members.pop(key).cloud)

    def forget_sum(self) -> None:
        """As if every cloud had just been added; ``settle`` makes the sum again."""
        for member in self.members.values():
            member.used = member.reduced = None
        self._seers = [set() for _ in self.names]
        self._place[:], self._counts[:] = NOWHERE, 0
        self._at, self._keys, self._column = [], [], {}
        self._clear()

    def settle(self, loose: Collection[Key] = ()) -> None:
        """Every cloud that shares enough landmarks with others takes part, and no other does; nor do the loose ones."""
        for key in [key for key in self._keys if key in loose]:
            self._withdraw(key)
        refused: set[Key] = set()
        self.failures = {}
        while True:
            for key in [key for key in self._sharing(self.waiting, loose) if key not in refused]:
                try:
                    self._insert(key)
                except TooLarge:  # nothing that the cloud itself is to blame for
                    raise
                except KernelGPAError as problem:
                    self.failures[key] = str(problem)
                    refused.add(key)
            short = [key for key in self._keys if self._short(key)]
            for key in short:
                self._withdraw(key)
            refused |= set(short)
            if not short:
                return

    def _short(self, key: Key) -> bool:
        return self.members[key].reduced is None

    def _sharing(self, waiting: list[Key], loose: Collection[Key]) -> list[Key]:
        """Of the clouds that wait those that share enough with each other and with the clouds that take part."""
        chosen = [key for key in waiting if key not in loose]
        while chosen:
            stacked = self._counts.copy()
            for key in chosen:
                stacked[self.members[key].cloud.seen] += 1
            kept = [key for key in chosen if np.sum(stacked[self.members[key].cloud.seen] >= 2) > self.dimension]
            if len(kept) == len(chosen):
                return kept
            chosen = kept
        return []

    def _insert(self, key: Key) -> None:
        """Let a cloud take part; where it, or one that it meets, cannot be reduced, nothing has changed."""
        seen = self.members[key].cloud.seen
        others = self._alone_at(seen[self._counts[seen] == 1])
        self._count(key, 1)
        try:
            parts = {one: self._part(one) for one in (key, *others)}
        except KernelGPAError:
            self._count(key, -1)
            raise
        for one, part in parts.items():
            self._replace(one, *part)

    def _withdraw(self, key: Key) -> None:
        """Take a cloud out; one that cannot be reduced without it has nothing more to say, and will go too."""
        seen = self.members[key].cloud.seen
        self._subtract(key)
        self._count(key, -1)
        for other in self._alone_at(seen[self._counts[seen] == 1]):
            try:
                part = self._part(other)
            except TooLarge:
                raise
            except KernelGPAError:
                part = self.members[other].cloud, None
            self._replace(other, *part)
        for number in seen[(self._counts[seen] < 2) & (self._place[seen] != NOWHERE)].tolist():
            self._leave(number)

    def _count(self, key: Key, change: int) -> None:
        """Enter a cloud among those that see its landmarks, or take it out."""
        seen = self.members[key].cloud.seen
        self._counts[seen] += change
        for number in seen.tolist():
            if change > 0:
                self._seers[number].add(key)
            else:
                self._seers[number].discard(key)

    def _alone_at(self, numbers: IndexArray) -> set[Key]:
        """The clouds that alone see some landmarks."""
        return set().union(*(self._seers[number] for number in numbers.tolist()))

    def _part(self, key: Key) -> tuple[Cloud, ReducedCloud | None]:
        """What of a cloud takes part now, and that reduced; None where it is too little."""
        cloud = self.members[key].cloud
        shared = self._counts[cloud.seen] >= 2
        used = cloud if shared.all() else cloud.only(shared, np.arange(len(self.names)))
        if len(used.seen) <= self.dimension or used.frame.rank == 0:
            return used, None
        return used, self.family.prepare(used).reduce(self.family.smoothing, used.weights)

    def _replace(self, key: Key, used: Cloud, reduced: ReducedCloud | None) -> None:
        """A cloud with other landmarks in place of what it was before."""
        member = self.members[key]
        if member.used is not None:
            self._subtract(key)
        if reduced is not None:
            for number in used.seen[self._place[used.seen] == NOWHERE].tolist():
                self._enter(number)
        member.used, member.reduced = used, reduced
        self._column[key] = len(self._keys)
        self._keys.append(key)
        self._fill(key)

    # -- arrays --

    def _fill(self, key: Key) -> None:
        """Enter a cloud into its column and into the sum."""
        member, column, d = self.members[key], self._column[key], self.dimension
        used = member.used
        self._make_room()
        if used is None or member.reduced is None:  # too few landmarks: it waits, or will
            return
        places = self._place[used.seen]
        self._weights[places, column] = used.weights
        self._centred[column, places] = used.centred
        self._means[column] = used.mean
        self._own[column] = float(used.weights @ np.einsum("sd,sd->s", used.centred, used.centred))
        self._pull[places, column * d : (column + 1) * d] = used.weights[:, None] * used.centred
        self._accumulate(places, member.reduced.cost_matrix())

    def _subtract(self, key: Key) -> None:
        """Take a cloud out of its column and out of the sum."""
        member, column, d = self.members[key], self._column.pop(key), self.dimension
        if member.used is not None and member.reduced is not None:
            self._accumulate(self._place[member.used.seen], -member.reduced.cost_matrix())
        member.used = member.reduced = None
        last = len(self._keys) - 1
        mine, its = slice(column * d, (column + 1) * d), slice(last * d, (last + 1) * d)
        if column != last:
            moved = self._keys[last]
            self._weights[:, column], self._centred[column] = self._weights[:, last], self._centred[last]
            self._means[column], self._own[column] = self._means[last], self._own[last]
            self._pull[:, mine] = self._pull[:, its]
            self._keys[column], self._column[moved] = moved, column
        self._weights[:, last], self._centred[last], self._pull[:, its] = 0.0, 0.0, 0.0
        self._keys.pop()

    def _accumulate(self, places: IndexArray, block: Array) -> None:
        """high + low + block, with what rounding takes from high kept in low."""
        if DENSE * len(places) > len(self._at):  # whole rows, which is faster than single entries
            wide = np.zeros((len(places), self._high.shape[1]))
            wide[:, places] = block
            self._high[places], self._low[places] = _summed(self._high[places], self._low[places], wide)
        else:
            where = np.ix_(places, places)
            self._high[where], self._low[where] = _summed(self._high[where], self._low[where], block)

    def _enter(self, number: int) -> None:
        self._place[number] = len(self._at)
        self._at.append(number)
        self._make_room()

    def _leave(self, number: int) -> None:
        """The last landmark takes the place of one that goes."""
        place, last = int(self._place[number]), len(self._at) - 1
        moved = self._at[last]
        for matrix in (self._high, self._low):
            matrix[place], matrix[:, place] = matrix[last], matrix[:, last]
            matrix[place, place] = matrix[last, last]
            matrix[last], matrix[:, last] = 0.0, 0.0
        for rows in (self._weights, self._pull):
            rows[place] = rows[last]
            rows[last] = 0.0
        self._centred[:, place] = self._centred[:, last]
        self._centred[:, last] = 0.0
        self._at[place], self._place[moved] = moved, place
        self._at.pop()
        self._place[number] = NOWHERE

    def _make_room(self) -> None:
        m, n = len(self._at), len(self._keys)
        rows, columns = self._weights.shape
        if m <= rows and n <= columns:
            return
        self._resize(*(have if want <= have else want + want // 4 + 8 for have, want in ((rows, m), (columns, n))))

    def _resize(self, rows: int, columns: int) -> None:
        """Arrays for so many landmarks and clouds; at a solve they have no more, so that they lie in one piece."""
        if self._weights.shape == (rows, columns):
            return
        d = self.dimension
        self._high, self._low = _resized(self._high, rows, rows), _resized(self._low, rows, rows)
        self._weights, self._pull = _resized(self._weights, rows, columns), _resized(self._pull, rows, columns * d)
        self._centred, self._means = _resized(self._centred, columns, rows, d), _resized(self._means, columns, d)
        self._own = _resized(self._own, columns)


def _summed(high: Array, low: Array, block: Array) -> tuple[Array, Array]:
    """high + low + block as two arrays again; ``high`` and ``low`` are overwritten."""
    total = high + block
    seen = total - high
    high -= total - seen
    high += block - seen  # what rounding took
    low += high
    renewed = total + low
    low -= renewed - total
    return renewed, low


def _resized(array: Array, *shape: int) -> Array:
    if array.shape == shape:
        return array
    other = np.zeros(shape)
    part = tuple(slice(0, min(one, another)) for one, another in zip(array.shape, shape, strict=True))
    other[part] = array[part]
    return other

"""Which clouds are tied into one frame by the landmarks they share.

Two groups of clouds are tied when the landmarks that both saw span as many dimensions as one of
the groups does: then an affine map carries that group onto the other.  In a body four shared
landmarks not in one plane do it, for a flat group three not on a line.  Several groups can also be tied
only all together, in a ring: then the maps that agree on every shared landmark are one.  Untied groups
give the cost extra null directions and a wrong map without any other sign.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..errors import WeaklyConnected
from ..typing import Array, BoolArray, IndexArray
from .collection import Observations
from .geometry import FLAT, ROUNDING, THIN, Frame, frame_of, orthonormal_affine


@dataclass(frozen=True)
class Group:
    """Clouds that are tied, and their landmarks in the frame of one of them."""

    members: tuple[int, ...]
    landmarks: IndexArray  # (g,) ascending
    points: Array  # (g, d)
    resolution: float  # spacing of the numbers the points were given in
    frame: Frame

    def keeps_its_rank(self, rows: IndexArray) -> bool:
        """Whether the given points span as many dimensions as all."""
        if len(rows) == len(self.points):
            return True
        return frame_of(self.points[rows], self.resolution).rank == self.frame.rank


def require_connected(observations: Observations) -> None:
    """An error that lists the groups unless all clouds are tied."""
    if surely_connected(observations, [np.arange(len(observations.landmarks))])[0]:
        return
    groups = connected_groups(observations)
    if len(groups) == 1 or _connected_as_a_whole(groups):
        return
    names = [[observations.names[t] for t in group.members] for group in groups]
    shared = np.intersect1d(groups[0].landmarks, groups[1].landmarks)
    common = [observations.landmarks[j] for j in shared[:8]]
    listed = "; ".join(f"group {g}: {_short(group)}" for g, group in enumerate(names, start=1))
    raise WeaklyConnected(
        f"the clouds fall into {len(groups)} groups that share too few landmarks to determine an affine "
        f"map between them ({listed}); groups 1 and 2 share {len(shared)} landmarks, {common}; they need "
        f"{observations.dimension + 1} that do not lie in one {'plane' if observations.dimension == 3 else 'line'} "
        "(one fewer if the clouds are flat); register the groups apart or add common landmarks",
        names,
    )


def surely_connected(observations: Observations, parts: Sequence[IndexArray]) -> BoolArray:  # (len(parts),)
    """Whether the landmarks of each part tie all clouds, found fast; False where that takes a closer look.

    It is sure if those that each cloud shares with the one that sees most are d + 2 or more, and a body.
    """
    stacked = observations.stacked
    n, m, d = stacked.centred.shape
    seen = stacked.weights > 0
    shared = seen & seen[:, [int(np.argmax(seen.sum(axis=0)))]]  # (m, n)
    among = np.zeros((len(parts), m))
    for i, part in enumerate(parts):
        among[i, part] = 1.0
    values = np.concatenate([np.ones((n, m, 1)), stacked.centred], axis=2)
    products = (values[:, :, :, None] * values[:, :, None, :]).reshape(n, m, -1) * shared.T[:, :, None]
    sums = (among @ np.swapaxes(products, 0, 1).reshape(m, -1)).reshape(len(parts), n, d + 1, d + 1)
    counts = sums[:, :, 0, 0]
    enough = counts >= d + 2
    means = sums[:, :, 0, 1:] / np.maximum(counts, 1)[:, :, None]
    spread = sums[:, :, 1:, 1:] - counts[:, :, None, None] * means[:, :, :, None] * means[:, :, None, :]
    squares = np.linalg.eigvalsh(spread)
    return np.asarray(np.all(enough & (squares[:, :, 0] > THIN**2 * squares[:, :, -1]), axis=1))


def connected_groups(observations: Observations) -> list[Group]:
    """The groups of clouds that are tied, largest first."""
    groups = [Group((t,), c.seen, c.points, c.resolution, c.frame) for t, c in enumerate(observations.clouds)]
    while len(merged := _merged(groups)) < len(groups):  # two groups may tie a third only together
        groups = merged
    return sorted(groups, key=lambda group: (-len(group.members), group.members))


def _merged(groups: list[Group]) -> list[Group]:
    """Each group in turn grown by all that are tied to it."""
    tied: list[Group] = []
    while groups:
        grown, *others = groups
        waiting: list[Group] = []
        for other in others:
            merged = _merge(grown, other)
            if merged is None:
                waiting.append(other)
            else:
                grown = merged
        if len(waiting) < len(others):  # it grew: what was refused before may fit now
            groups = [grown, *waiting]
        else:
            tied.append(grown)
            groups = waiting
    return tied


def _merge(first: Group, second: Group) -> Group | None:
    in_first, in_second = _shared(first.landmarks, second.landmarks)
    if len(in_first) == 0:
        return None
    # members stay in the order of the clouds whichever side is carried over
    members = tuple(sorted(first.members + second.members))
    if second.keeps_its_rank(in_second):
        return _carried(members, second, in_second, first, in_first)
    if first.keeps_its_rank(in_first):
        return _carried(members, first, in_first, second, in_second)
    return None


def _shared(first: IndexArray, second: IndexArray) -> tuple[IndexArray, IndexArray]:
    """Where the common entries of two ascending arrays stand in each."""
    places = np.searchsorted(first, second)
    places[places == len(first)] = 0
    common = first[places] == second
    return places[common], np.flatnonzero(common)


def _carried(
    members: tuple[int, ...], moving: Group, in_moving: IndexArray, fixed: Group, in_fixed: IndexArray
) -> Group:
    """``moving`` taken into the frame of ``fixed`` by the affine map of the shared landmarks."""
    if len(in_moving) == len(moving.landmarks):
        return replace(fixed, members=members)
    functions = np.column_stack([moving.frame.to_unit(moving.points), np.ones(len(moving.points))])
    affine = np.linalg.lstsq(functions[in_moving], fixed.points[in_fixed], rcond=None)[0]
    new = np.delete(np.arange(len(moving.landmarks)), in_moving)
    landmarks = np.concatenate([fixed.landmarks, moving.landmarks[new]])
    points = np.vstack([fixed.points, functions[new] @ affine])
    order = np.argsort(landmarks)
    carried_resolution = moving.resolution * float(np.linalg.norm(affine[:-1], 2)) / moving.frame.size
    resolution = max(fixed.resolution, carried_resolution)
    return Group(members, landmarks[order], points[order], resolution, frame_of(points, resolution))


def _connected_as_a_whole(groups: list[Group]) -> bool:
    """Whether affine maps of the groups that agree on every shared landmark must agree everywhere.

    With the map of the fullest group held at zero, those of the others solve a homogeneous system, one row
    for each time that a landmark is seen again; they are tied if it has no solution but zero.
    """
    fullest = max(range(len(groups)), key=lambda g: groups[g].frame.rank)
    values = [_affine_functions(group) for group in groups]
    values[fullest] = values[fullest][:, :0]
    ends = np.cumsum([value.shape[1] for value in values])
    seen = np.concatenate([group.landmarks for group in groups])
    system = np.zeros((len(seen) - len(np.unique(seen)), ends[-1]))
    if len(system) < ends[-1]:
        return False
    rows, latest = iter(system), dict[int, tuple[slice, Array]]()
    for group, value, end in zip(groups, values, ends, strict=True):
        own = slice(end - value.shape[1], end)
        for landmark, entries in zip(group.landmarks.tolist(), value, strict=True):
            if landmark in latest:
                other, before = latest[landmark]
                row = next(rows)
                row[own], row[other] = entries, -before
            latest[landmark] = own, entries
    spread = np.linalg.svd(system, compute_uv=False)
    rounding = max(group.resolution / group.frame.size for group in groups)
    return bool(spread[-1] > (FLAT + ROUNDING * np.sqrt(len(system)) * rounding) * spread[0])


def _affine_functions(group: Group) -> Array:  # (g, rank + 1), orthonormal
    unit = group.frame.to_unit(group.points)
    return orthonormal_affine(unit, np.ones(len(unit)), group.frame.rank).columns


def _short(names: list[object]) -> str:
    return ", ".join(repr(name) for name in names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")

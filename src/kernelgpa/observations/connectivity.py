"""Whether the landmarks that clouds share connect all clouds into one frame (theory, section 12).

Two groups of clouds are connected if the landmarks seen by both span as many dimensions as one of the groups does,
because then an affine map takes that group to the other.  In 3D four shared landmarks that are not in one plane are
enough; for a flat group three that are not on one line.  Several groups can also be connected only as a whole, in a
ring, if the affine maps that agree on every shared landmark are unique.  Groups that are not connected give the cost
additional null directions and a wrong map, without any other sign.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..errors import WeaklyConnected
from ..typing import Array, BoolArray, IndexArray, Name
from .cloud import Cloud
from .collection import Observations
from .geometry import FLAT, RESOLUTION_MARGIN, THIN, Frame, frame_of, orthonormal_affine
from .identifiers import abbreviated

LISTED_CLOUDS, LISTED_LANDMARKS = 6, 8  # in a message


@dataclass(frozen=True)
class Group:
    """Connected clouds, and their landmarks in the frame of one of them."""

    members: tuple[int, ...]
    landmarks: IndexArray  # (g,), ascending
    points: Array  # (g, d)
    resolution: float  # spacing of the numbers in which the points were given
    frame: Frame

    def keeps_its_rank(self, rows: IndexArray) -> bool:
        """Whether the given points span as many dimensions as all points."""
        if len(rows) == len(self.points):
            return True
        return frame_of(self.points[rows], self.resolution).rank == self.frame.rank


def require_connected(observations: Observations) -> None:
    """An error that lists the groups if the clouds are not connected."""
    if surely_connected(observations, [np.arange(len(observations.landmarks))])[0]:
        return
    groups = connected_groups(observations)
    if len(groups) > 1 and not _connected_as_a_whole(groups):
        raise _not_connected(observations, groups)


def _not_connected(observations: Observations, groups: list[Group]) -> WeaklyConnected:
    names = [[observations.names[t] for t in group.members] for group in groups]
    shared = np.intersect1d(groups[0].landmarks, groups[1].landmarks)
    common = [observations.landmarks[j] for j in shared[:LISTED_LANDMARKS]]
    counted = f"{len(shared)} landmarks, {common}," if common else "no landmark"
    listed = "; ".join(f"group {g}: {abbreviated(group, LISTED_CLOUDS)}" for g, group in enumerate(names, start=1))
    d = observations.dimension
    return WeaklyConnected(
        f"the clouds fall into {len(groups)} groups that share too few landmarks to determine an affine map between "
        f"them ({listed}); groups 1 and 2 share {counted} and need {d + 1} that are not in "
        f"one {'plane' if d == 3 else 'line'} ({d} if the clouds are flat). Register the groups separately, or add "
        "common landmarks",
        names,
    )


def surely_connected(observations: Observations, parts: Sequence[IndexArray]) -> BoolArray:  # (len(parts),)
    """A fast sufficient condition, for each set of landmarks in ``parts``: True means that it connects all clouds.

    The condition is that every cloud shares at least d + 2 of these landmarks with the cloud that sees most
    landmarks, and that they are not close to one plane (in 2D, to one line).
    """
    stacked = observations.stacked
    n, m, d = stacked.centred.shape
    seen = stacked.weights > 0
    shared = seen & seen[:, [int(np.argmax(seen.sum(axis=0)))]]  # (m, n)
    values = np.concatenate([np.ones((n, m, 1)), stacked.centred], axis=2) * shared.T[:, :, None]
    sums = np.array([np.swapaxes(some, 1, 2) @ some for some in (values[:, part] for part in parts)])
    counts = sums[:, :, 0, 0]
    means = sums[:, :, 0, 1:] / np.maximum(counts, 1)[:, :, None]
    moments = sums[:, :, 1:, 1:] - counts[:, :, None, None] * means[:, :, :, None] * means[:, :, None, :]
    squares = np.linalg.eigvalsh(moments)
    thick = squares[:, :, 0] > THIN**2 * squares[:, :, -1]
    return np.asarray(np.all((counts >= d + 2) & thick, axis=1))


class SureConnections:
    """The condition of :func:`surely_connected` for clouds that come and go: each cloud is compared once."""

    def __init__(self) -> None:
        self._reference: Name = None
        self._sure: set[Name] = set()  # clouds that share enough landmarks with the reference

    def hold_for(self, clouds: Mapping[Name, Cloud]) -> bool:
        """Whether all clouds are surely connected; each name always stands for the same cloud."""
        if self._reference not in clouds:
            self._reference, self._sure = next(reversed(clouds)), set()
        self._sure &= clouds.keys()
        for name in clouds.keys() - self._sure:
            if not _shares_a_body(clouds[name], clouds[self._reference]):
                return False
            self._sure.add(name)
        return True


def _shares_a_body(cloud: Cloud, reference: Cloud) -> bool:
    """Whether a cloud shares d + 2 landmarks with another one, not close to one plane (in 2D, to one line)."""
    points = cloud.points[_shared(cloud.seen, reference.seen)[0]]
    if len(points) < points.shape[1] + 2:
        return False
    centred = points - points.mean(axis=0)
    squares = np.linalg.eigvalsh(centred.T @ centred)
    return bool(squares[0] > THIN**2 * squares[-1])


def connected_groups(observations: Observations) -> list[Group]:
    """The groups of connected clouds, largest first."""
    groups = [Group((t,), c.seen, c.points, c.resolution, c.frame) for t, c in enumerate(observations.clouds)]
    while len(merged := _merged(groups)) < len(groups):  # a third group may connect only to the union of two
        groups = merged
    return sorted(groups, key=lambda group: (-len(group.members), group.members))


def _merged(groups: list[Group]) -> list[Group]:
    """Each group in turn, merged with all groups that are connected to it."""
    complete: list[Group] = []
    while groups:
        grown, *others = groups
        separate: list[Group] = []
        for other in others:
            merged = _merge(grown, other)
            if merged is None:
                separate.append(other)
            else:
                grown = merged
        if len(separate) < len(others):  # it grew, and groups that were separate before may be connected now
            groups = [grown, *separate]
        else:
            complete.append(grown)
            groups = separate
    return complete


def _merge(first: Group, second: Group) -> Group | None:
    """The union of two groups; None if they are not connected."""
    in_first, in_second = _shared(first.landmarks, second.landmarks)
    if len(in_first) == 0:
        return None
    members = tuple(sorted(first.members + second.members))
    if second.keeps_its_rank(in_second):
        return _transferred(members, second, in_second, first, in_first)
    if first.keeps_its_rank(in_first):
        return _transferred(members, first, in_first, second, in_second)
    return None


def _shared(first: IndexArray, second: IndexArray) -> tuple[IndexArray, IndexArray]:
    """The positions of the common entries in each of two ascending arrays."""
    positions = np.searchsorted(first, second)
    positions[positions == len(first)] = 0
    common = first[positions] == second
    return positions[common], np.flatnonzero(common)


def _transferred(
    members: tuple[int, ...], moving: Group, in_moving: IndexArray, fixed: Group, in_fixed: IndexArray
) -> Group:
    """``moving`` in the frame of ``fixed``, by the affine map of the shared landmarks."""
    if len(in_moving) == len(moving.landmarks):
        return replace(fixed, members=members)
    functions = np.column_stack([moving.frame.to_unit(moving.points), np.ones(len(moving.points))])
    affine = np.linalg.lstsq(functions[in_moving], fixed.points[in_fixed], rcond=None)[0]
    new = np.delete(np.arange(len(moving.landmarks)), in_moving)
    landmarks = np.concatenate([fixed.landmarks, moving.landmarks[new]])
    points = np.vstack([fixed.points, functions[new] @ affine])
    order = np.argsort(landmarks)
    transferred_resolution = moving.resolution * float(np.linalg.norm(affine[:-1], 2)) / moving.frame.size
    resolution = max(fixed.resolution, transferred_resolution)
    return Group(members, landmarks[order], points[order], resolution, frame_of(points, resolution))


def _connected_as_a_whole(groups: list[Group]) -> bool:
    """Whether affine maps of the groups that agree on every shared landmark must agree everywhere.

    If the map of the group of largest rank is fixed at zero, those of the others solve a homogeneous system, with
    one equation for each repeated observation of a landmark.  The groups are connected if its only solution is zero.
    """
    reference = max(range(len(groups)), key=lambda g: groups[g].frame.rank)
    values = [_affine_functions(group) for group in groups]
    values[reference] = values[reference][:, :0]
    system = _agreement(groups, values)
    if len(system) < system.shape[1]:
        return False
    spread = np.linalg.svd(system, compute_uv=False)
    rounding = max(group.resolution / group.frame.size for group in groups)
    return bool(spread[-1] > (FLAT + RESOLUTION_MARGIN * np.sqrt(len(system)) * rounding) * spread[0])


def _agreement(groups: list[Group], values: list[Array]) -> Array:
    """The equations that maps with the given functions (g, q) of each group agree on every shared landmark."""
    ends = np.cumsum([value.shape[1] for value in values])
    seen = np.concatenate([group.landmarks for group in groups])
    system = np.zeros((len(seen) - len(np.unique(seen)), ends[-1]))
    rows, latest = iter(system), dict[int, tuple[slice, Array]]()
    for group, value, end in zip(groups, values, ends, strict=True):
        own = slice(end - value.shape[1], end)
        for landmark, entries in zip(group.landmarks.tolist(), value, strict=True):
            if landmark in latest:
                other, before = latest[landmark]
                row = next(rows)
                row[own], row[other] = entries, -before
            latest[landmark] = own, entries
    return system


def _affine_functions(group: Group) -> Array:  # (g, rank + 1), orthonormal
    unit = group.frame.to_unit(group.points)
    return orthonormal_affine(unit, np.ones(len(unit)), group.frame.rank).columns

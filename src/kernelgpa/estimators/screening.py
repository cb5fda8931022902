"""Who takes part in the solve, and the start that it begins from.

A landmark that fewer than two clouds saw ties nothing and would only add free directions; a mirror-image
cloud would be folded into the map by an affine map of negative determinant.  Both are left out of
the solve, with a warning that names them; the result still places them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import DegenerateCloud, InvalidObservations, warn
from ..gauge.initial import InitialEstimate, initial_estimate
from ..gauge.mirror import MirrorImages, find_mirror_images
from ..observations.cloud import Cloud
from ..observations.collection import Observations
from ..observations.connectivity import require_connected
from ..observations.geometry import ROUNDING
from ..typing import Array, IndexArray, Name

HEAP = 4  # landmarks of a cloud in exactly one place that are too many for chance
HARDLY_TIED = 0.6  # gap of the affine registration below which its ties are as weak as the noise
LOOSE = 0.1  # of the observations of a landmark: tearing clouds apart that costs less shows few or thin ties
ODD_SIZE = 3.0  # a cloud so many times larger or smaller than the others is suspected of another unit


@dataclass(frozen=True)
class Problem:
    """The observations, and the part of them that the map is solved from."""

    observations: Observations
    landmarks: IndexArray  # those that two or more sound clouds saw
    restricted: Observations  # all clouds on those landmarks
    part: IndexArray  # the clouds that take part
    initial: InitialEstimate

    @property
    def core(self) -> Observations:
        """The clouds and landmarks that take part."""
        return self.restricted.at(self.part)

    @property
    def counts(self) -> IndexArray:  # (m,) clouds that take part and see each landmark of all
        return self.observations.at(self.part).counts

    @property
    def weakly_connected(self) -> bool:
        """Whether an affine map between some clouds and the rest is fixed hardly better than noise blurs it.

        Tearing clouds apart that see every landmark costs each of their observations; here it costs few of them,
        and little more than the d dimensions of the map do.
        """
        spectrum = self.initial.spectrum
        if len(spectrum.values) <= spectrum.dimension:
            return False
        tearing = spectrum.values[spectrum.dimension]
        return spectrum.gap < HARDLY_TIED and bool(tearing < LOOSE * self.core.counts.mean())

    @property
    def shape(self) -> tuple[int, int]:
        """n clouds and m landmarks, all of them."""
        return len(self.observations.clouds), len(self.observations.landmarks)

    @property
    def unit_sizes(self) -> Array:  # (n,)
        """The size factors of clouds that keep their size."""
        return np.ones(len(self.observations.clouds))

    @property
    def mirrored(self) -> IndexArray:
        return np.setdiff1d(np.arange(len(self.observations.clouds)), self.part)


def screen(observations: Observations, sizes_differ: bool = False) -> Problem:
    """Check that the clouds can be registered, and find what takes part.

    ``sizes_differ`` says that the clouds may be of any size, so that none is odd.
    """
    everyone = np.arange(len(observations.clouds))
    problem = problem_of(observations, everyone)
    found = find_mirror_images(problem.initial.spectrum, problem.restricted)
    if problem.weakly_connected:  # the affine registration does not tell one group's hand from the other's
        found = MirrorImages(found.mirrored[:0], np.union1d(found.mirrored, found.doubtful))
    if len(found.mirrored):
        warn(_mirror_message([observations.names[t] for t in found.mirrored]))
        problem = problem_of(observations, np.setdiff1d(everyone, found.mirrored))
    if len(found.doubtful):
        names = [observations.names[t] for t in found.doubtful]
        warn(f"{_listed('cloud', names)} thin or weakly tied and would fit better mirrored; kept: check the hand")
    oddities = _unshared_messages(problem) + _heap_messages(observations)
    for message in oddities if sizes_differ else oddities + _size_messages(problem):
        warn(message)
    return problem


def problem_of(observations: Observations, part: IndexArray) -> Problem:
    """The scene of clouds of which those that take part are known."""
    if len(part) < 2:
        raise InvalidObservations("only one cloud is left once mirror images are taken out; check the data's hand")
    sound = observations.at(part)
    landmarks = np.flatnonzero(sound.counts >= 2)
    restricted = observations.select(landmarks)
    _require_points(restricted, part)
    core = restricted.at(part)
    require_connected(core)
    return Problem(observations, landmarks, restricted, part, initial_estimate(core))


def _require_points(restricted: Observations, part: IndexArray) -> None:
    """Every cloud must share points, and not all in one place, with the clouds that make the map."""
    for t, cloud in enumerate(restricted.clouds):
        if len(cloud.seen) < restricted.dimension + 1 and t not in part:
            raise DegenerateCloud(
                f"cloud {cloud.name!r} fits the others as a mirror image only, and shares {len(cloud.seen)} landmarks "
                f"with a map without it; at least {restricted.dimension + 1} are needed to place it; negate one of its "
                "coordinates if it changed hands, check its matches, or drop it"
            )
        if len(cloud.seen) < restricted.dimension + 1:
            raise DegenerateCloud(
                f"cloud {cloud.name!r} shares {len(cloud.seen)} landmarks with other clouds; at least "
                f"{restricted.dimension + 1} are needed in {restricted.dimension}D; drop the cloud or add landmarks"
            )
        if cloud.frame.rank == 0:
            raise DegenerateCloud(
                f"cloud {cloud.name!r}: the {len(cloud.seen)} landmarks it shares with other clouds coincide at "
                f"{cloud.points[0]}; drop the cloud or give it more landmarks"
            )


def _mirror_message(names: Sequence[Name]) -> str:
    image = "a mirror image" if len(names) == 1 else "mirror images"
    return (
        f"{_listed('cloud', names)} {image} of the others; left out of the map. If the data changed hands, "
        "negate one coordinate there"
    )


def _unshared_messages(problem: Problem) -> list[str]:
    names = problem.observations.landmarks
    never = [names[j] for j in np.flatnonzero(problem.counts == 0)]
    once = [names[j] for j in np.flatnonzero(problem.counts == 1)]
    messages = []
    if never:
        messages.append(f"{_listed('landmark', never)} seen by no cloud that takes part; NaN in the map")
    if once:
        messages.append(
            f"{_listed('landmark', once)} seen by one cloud only; placed by that cloud's warp, without a say in the map"
        )
    return messages


def _heap_messages(observations: Observations) -> list[str]:
    """Unseen points that were written as zeros or as -9999 lie in one place."""
    messages = []
    for cloud in observations.clouds:
        heap = _largest_heap(cloud)
        if len(heap):
            messages.append(
                f"cloud {cloud.name!r}: {len(heap)} landmarks lie in one place, {cloud.points[heap[0]]}; if they "
                "were not seen, give NaN"
            )
    return messages


def _largest_heap(cloud: Cloud) -> IndexArray:
    """The points, if HEAP or more, that lie in one place up to what turning the data may have rounded."""
    apart = ROUNDING * cloud.points.shape[1] * cloud.resolution
    along = np.sort(cloud.points[:, 0])
    if not np.any(along[HEAP - 1 :] - along[: len(along) - HEAP + 1] <= apart):  # nothing in one place, found fast
        return np.zeros(0, dtype=np.intp)
    heaps = [np.arange(len(cloud.points))]
    for along in cloud.points.T:
        orders = [some[np.argsort(along[some], kind="stable")] for some in heaps]
        runs = [run for order in orders for run in _within(order, along[order], apart)]
        heaps = [run for run in runs if len(run) >= HEAP]
    return np.sort(max(heaps, key=len)) if heaps else np.zeros(0, dtype=np.intp)


def _within(order: IndexArray, ascending: Array, apart: float) -> list[IndexArray]:
    """Consecutive items in runs, none of which is longer than ``apart`` from its first to its last."""
    starts = [0]
    for i, value in enumerate(ascending.tolist()):
        if value - ascending[starts[-1]] > apart:
            starts.append(i)
    return np.split(order, starts[1:])


def _size_messages(problem: Problem) -> list[str]:
    """A cloud in another unit than the others."""
    clouds, stacked, M = problem.core.clouds, problem.core.stacked, problem.initial.gauge.map
    means = (stacked.weights.T @ M) / stacked.total_weights[:, None]
    placed = stacked.weights.T @ np.sum(M**2, axis=1) - stacked.total_weights * np.sum(means**2, axis=1)
    own = np.trace(stacked.moments, axis1=1, axis2=2)
    ratios = np.sqrt(own / np.maximum(placed, np.finfo(np.float64).tiny))
    return [
        f"cloud {cloud.name!r} is {ratio:.3g} times as large as the others are on its landmarks; check its unit"
        for cloud, ratio in zip(clouds, ratios / np.median(ratios), strict=True)
        if not 1 / ODD_SIZE < ratio < ODD_SIZE
    ]


def _listed(what: str, names: Sequence[Name]) -> str:
    shown = ", ".join(repr(name) for name in names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
    return f"{what} {shown} is" if len(names) == 1 else f"{what}s {shown} are"

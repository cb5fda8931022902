"""``Problem``: the observations, the part of them that the map is solved from, and its initial estimate.

A landmark that fewer than two clouds saw connects nothing and would only add free directions.  A mirror image would be
folded into the map by an affine map of negative determinant.  Both are left out of the solve, the mirror image unless
``mirrored="keep"``; the result still gives them a position and a pose.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...errors import DegenerateCloud, InvalidObservations
from ...gauge.initial import InitialEstimate, initial_estimate
from ...observations import Observations
from ...observations.cloud import compute_frames
from ...observations.connectivity import require_connected
from ...spectrum.eigenpairs import Spectrum
from ...typing import Array, IndexArray

WEAK_GAP = 0.6  # gap of the affine registration below which noise hides how the clouds are connected
LINE = 0.01  # width of landmarks as a share of their length below which they lie on one line
CHEAP_SEPARATION = 0.1  # cost per observation below which separating clouds shows that few landmarks connect them


@dataclass(frozen=True)
class Problem:
    """n clouds of m landmarks, and the part of them that the map is solved from."""

    observations: Observations
    landmarks: IndexArray  # those that two or more participating clouds saw
    restricted: Observations  # all clouds on those landmarks
    participating: IndexArray  # indices of the clouds that the map is solved from
    initial: InitialEstimate
    mirrored: IndexArray  # indices of the clouds that are judged to be mirror images, whether they participate or not

    @property
    def shape(self) -> tuple[int, int]:
        """n and m."""
        return len(self.observations.clouds), len(self.observations.landmarks)

    @property
    def participants(self) -> Observations:
        """The participating clouds on the shared landmarks."""
        return self.restricted.at(self.participating)

    @property
    def counts(self) -> IndexArray:  # (m,)
        """The number of participating clouds that see each landmark."""
        return self.observations.at(self.participating).counts

    @property
    def left_out(self) -> IndexArray:
        """The clouds that do not participate, because they are mirror images."""
        return np.setdiff1d(np.arange(len(self.observations.clouds)), self.participating)

    @property
    def on_lines(self) -> IndexArray:
        """The clouds in 3D whose shared landmarks lie on one line, about which they can turn at no cost."""
        clouds = self.restricted.clouds if self.restricted.dimension == 3 else ()
        return np.flatnonzero([one.frame.spread[1] < LINE * one.frame.spread[0] for one in clouds])

    @property
    def unit_sizes(self) -> Array:  # (n,)
        """The size factors of clouds that keep their size."""
        return np.ones(len(self.observations.clouds))

    @property
    def weakly_connected(self) -> bool:
        """Whether noise hides the affine map between some clouds and the rest."""
        return weakly_connected(self.initial.spectrum, self.participants.counts)


def weakly_connected(spectrum: Spectrum, counts: IndexArray) -> bool:  # counts (m,), clouds that see each landmark
    """Whether noise hides the affine map between some clouds and the rest, by the spectrum of the affine cost.

    Separating clouds that see every landmark costs each of their observations.  Weakly connected clouds are separated
    at the cost of few observations, which is little more than the d dimensions of the map cost.
    """
    if len(spectrum.values) <= spectrum.dimension:
        return False
    separation = spectrum.values[spectrum.dimension]
    return spectrum.gap < WEAK_GAP and bool(separation < CHEAP_SEPARATION * counts.mean())


def problem_of(observations: Observations, participating: IndexArray, mirrored: IndexArray | None = None) -> Problem:
    """The problem of given participating clouds, which must be connected."""
    judged = np.zeros(0, dtype=np.intp) if mirrored is None else mirrored
    if len(participating) < 2:
        raise InvalidObservations(
            "only one cloud remains after mirror images are left out; check the handedness of the data"
        )
    landmarks = np.flatnonzero(observations.at(participating).counts >= 2)
    restricted = observations.select(landmarks)
    _require_points(restricted)
    participants = restricted.at(participating)
    require_connected(participants)
    return Problem(observations, landmarks, restricted, participating, initial_estimate(participants), judged)


def _require_points(restricted: Observations) -> None:
    """Every cloud must share enough landmarks, which do not all coincide, with the participating clouds."""
    needed = restricted.dimension + 1
    compute_frames(restricted.clouds)
    for cloud in restricted.clouds:
        if len(cloud.seen) < needed:
            raise DegenerateCloud(
                f"cloud {cloud.name!r} shares {len(cloud.seen)} landmarks with other clouds; at least "
                f"{needed} are needed in {restricted.dimension}D; drop the cloud or add landmarks"
            )
        if cloud.frame.rank == 0:
            raise DegenerateCloud(
                f"cloud {cloud.name!r}: the {len(cloud.seen)} landmarks it shares with other clouds coincide at "
                f"{cloud.points[0]}; drop the cloud or give it more landmarks"
            )

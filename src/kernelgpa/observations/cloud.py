"""One cloud: the landmarks that it saw, their positions and their weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ..errors import InvalidObservations
from ..typing import Array, BoolArray, IndexArray, Name
from .arrays import finite_rows, frozen
from .checks import check_points, dense_weights, real_array
from .geometry import Frame, frame_of, frames_of

STACKED_POINTS = 1 << 15  # points of the clouds whose frames are computed in one call, 1 MB


@dataclass(frozen=True)
class Cloud:
    """The landmarks that one cloud saw, their positions and their weights.

    Attributes
    ----------
    name : hashable
        The name of the cloud.
    seen : int array (s,)
        Indices of the landmarks that it saw, ascending.
    points : array (s, d)
        Their positions.
    weights : array (s,)
        Their weights, which are positive.
    resolution : float
        Spacing of the numbers in which the points were given.
    frame : Frame
        Centre, size and principal axes (theory, eq. 4).
    mean : array (d,)
        The weighted mean of the points.
    centred : array (s, d)
        The points minus this mean.
    """

    name: Name
    seen: IndexArray
    points: Array
    weights: Array
    resolution: float = 0.0

    @cached_property
    def frame(self) -> Frame:
        return frame_of(self.points, self.resolution)

    @cached_property
    def mean(self) -> Array:  # (d,)
        return self.weights @ self.points / self.weights.sum()

    @cached_property
    def centred(self) -> Array:  # (s, d)
        return self.points - self.mean

    def only(self, keep: BoolArray, renumbered: IndexArray) -> Cloud:
        """Only the observations for which ``keep`` (s,) is true; landmark j gets the index ``renumbered[j]``."""
        seen = renumbered[self.seen[keep]]
        order = np.argsort(seen, kind="stable")
        return Cloud(
            self.name,
            frozen(seen[order], np.intp),
            frozen(self.points[keep][order]),
            frozen(self.weights[keep][order]),
            self.resolution,
        )


def compute_frames(clouds: Sequence[Cloud]) -> None:
    """Compute the frames of all clouds, those of nearly equal size in one call."""
    remaining = [one for one in clouds if "frame" not in vars(one) and len(one.seen)]
    remaining.sort(key=lambda cloud: -len(cloud.seen))
    while remaining:
        count = max(1, STACKED_POINTS // len(remaining[0].seen))
        some, remaining = remaining[:count], remaining[count:]
        frames = frames_of([one.points for one in some], np.array([one.resolution for one in some]))
        for one, frame in zip(some, frames, strict=True):
            vars(one)["frame"] = frame  # where the cached property stores it


def mean_thinness(clouds: Sequence[Cloud]) -> float:
    """The harmonic mean, because rounding errors are inversely proportional to the thinness of each cloud."""
    return len(clouds) / sum(1 / cloud.frame.thinness for cloud in clouds)


def cloud_of(
    points: npt.ArrayLike,  # (s, d)
    ids: Sequence[Name],
    name: Name,
    weights: npt.ArrayLike | None = None,  # (s,)
    indices: IndexArray | None = None,  # (s,), of the landmarks; None: in the order given
) -> Cloud:
    """A cloud from checked points and weights.  NaN and weight 0 mean that a landmark was not seen."""
    array, resolution = real_array(points, f"cloud {name!r}")
    if array.ndim != 2 or len(array) != len(ids):
        raise InvalidObservations(
            f"cloud {name!r}: points have shape {array.shape} and there are {len(ids)} ids; "
            "expected (landmarks, dimension) with one id per row"
        )
    check_points(array[None], (name,), tuple(ids))
    visible = finite_rows(array)
    weight = dense_weights(weights, visible[None], (name,), tuple(ids), f"cloud {name!r}: weights")[0]
    keep = visible & (weight > 0)
    seen = np.arange(len(ids), dtype=np.intp) if indices is None else indices
    return frozen_cloud(name, seen[keep], array[keep], weight[keep], resolution)


def frozen_cloud(name: Name, seen: IndexArray, points: Array, weights: Array, epsilon: float) -> Cloud:
    """A cloud of read-only arrays; ``epsilon`` is the relative spacing of the numbers."""
    order = np.argsort(seen, kind="stable")
    spacing = epsilon * float(np.abs(points).max(initial=0.0))
    return Cloud(name, frozen(seen[order], np.intp), frozen(points[order]), frozen(weights[order]), spacing)

"""Thin-plate warps with control points on a grid (DefGPA, IJCV 2022; Example 3 of the paper).

The control points lie on an N^d grid inside the box of the cloud's principal axes, at
min + span i / (N + 1), i = 1 .. N.  The penalty is 8 pi * smoothing * m_t * (bending energy).

Bending energy has the unit length^(d - 4).  ``smoothing`` is stated in the unit of the data, as in the publication;
therefore a change of the unit by a factor a multiplies it by a^(4 - d).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..observations.cloud import Cloud
from ..typing import Array
from .kernels import ThinPlate
from .low_rank import PreparedLowRank, energy_features
from .protocols import Smoothing


@dataclass(frozen=True)
class ThinPlateFamily:
    """Smooth interpolation of the images of N^d control points."""

    control_points: int  # per axis
    smoothing: Smoothing

    def features(self, dimension: int) -> int:
        return int(self.control_points**dimension)

    def neighbours(self, cloud: Cloud) -> None:
        return None

    def kernel_of_warps(self, dimension: int) -> ThinPlate:
        return ThinPlate(dimension)

    def prepare(self, cloud: Cloud) -> PreparedLowRank:
        d = cloud.points.shape[1]
        features = energy_features(ThinPlate(d), control_grid(cloud, self.control_points), 1.0)
        return PreparedLowRank(cloud, features, 8 * np.pi * len(cloud.seen) * cloud.frame.size ** (d - 4))


def control_grid(cloud: Cloud, per_axis: int) -> Array:  # (l, d), unit frame
    """Grid points in the box of the principal axes; a flat cloud has a single layer of them."""
    frame = cloud.frame
    along = frame.to_unit(cloud.points) @ frame.axes.T
    low, span = along.min(axis=0), np.ptp(along, axis=0)
    shares = np.arange(1, per_axis + 1) / (per_axis + 1)
    ticks = [low[i] + span[i] * (shares if i < frame.rank else np.array([0.5])) for i in range(len(low))]
    return np.stack(np.meshgrid(*ticks, indexing="ij"), axis=-1).reshape(-1, len(low)) @ frame.axes

"""Affine warps: the low-rank form without features.  Similarities are written as affine warps too."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..observations.cloud import Cloud
from ..typing import Array
from .low_rank import PreparedLowRank
from .warp import Warp


@dataclass(frozen=True)
class AffineFamily:
    """y(p) = A p + a"""

    smoothing: float = 0.0  # without effect, because there is nothing to penalise

    def features(self, dimension: int) -> int:
        return 0

    def neighbours(self, cloud: Cloud) -> None:
        return None

    def kernel_of_warps(self, dimension: int) -> None:
        return None

    def prepare(self, cloud: Cloud) -> PreparedLowRank:
        return PreparedLowRank(cloud, None)


def affine_warp(cloud: Cloud, matrix: Array, offset: Array) -> Warp:
    """The warp  p -> matrix p + offset  of a cloud."""
    frame = cloud.frame
    return Warp(frame, np.vstack([frame.size * matrix.T, matrix @ frame.centre + offset]))

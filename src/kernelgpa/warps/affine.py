"""Affine warps: the thin form with no features at all.  Similarities are written as affine warps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..observations.cloud import Cloud
from ..typing import Array
from .low_rank import PreparedThin
from .warp import Warp


@dataclass(frozen=True)
class AffineFamily:
    """y(p) = A p + a"""

    smoothing: float = 0.0  # nothing to smooth

    def features(self, dimension: int) -> int:
        return 0

    def neighbours(self, cloud: Cloud) -> None:
        return None

    def prepare(self, cloud: Cloud) -> PreparedThin:
        return PreparedThin(cloud, None)


def affine_warp(cloud: Cloud, matrix: Array, offset: Array) -> Warp:
    """The warp  p -> matrix p + offset  in the frame of a cloud."""
    frame = cloud.frame
    return Warp(frame, np.vstack([frame.size * matrix.T, matrix @ frame.centre + offset]))

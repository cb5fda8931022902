"""Kernel warps (KernelGPA, IJRR 2023): exact in dual form, or thin at inducing points.

The width of the kernel is ``bandwidth`` times the mean distance between the cloud's points.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..errors import InvalidSetting
from ..observations.cloud import Cloud
from ..observations.sampling import farthest_points, mean_pairwise_distance, outermost_point
from ..typing import Array
from .exact import PreparedDense, PreparedSparse
from .kernels import KERNELS, Kernel, gram, neighbours
from .low_rank import PreparedThin, energy_features
from .protocols import PreparedCloud
from .warp import KernelPart

MOST_TESTED = 1000  # points on which a kernel that somebody brought must be positive


@dataclass(frozen=True)
class KernelFamily:
    """An affine part plus a smooth displacement of finite kernel energy."""

    kernel: Kernel
    bandwidth: float
    smoothing: float
    inducing: int | None = None  # centres at so many farthest points; None: at every point

    def features(self, dimension: int) -> int | None:
        return self.inducing

    def neighbours(self, cloud: Cloud) -> float | None:
        if self.inducing is not None:
            return None
        unit = cloud.frame.to_unit(cloud.points)
        return neighbours(self.kernel, unit, self.bandwidth * mean_pairwise_distance(unit))

    def prepare(self, cloud: Cloud) -> PreparedCloud:
        unit = cloud.frame.to_unit(cloud.points)
        sigma = self.bandwidth * mean_pairwise_distance(unit)
        if self.inducing is None:
            part = KernelPart(self.kernel, unit, sigma, np.zeros((0, unit.shape[1])))
            if self.kernel not in KERNELS.values():
                some = unit[:: -(-len(unit) // MOST_TESTED)]
                _require_positive(self.kernel, gram(self.kernel, some, some, sigma), cloud)
            sparse = neighbours(self.kernel, unit, sigma) is not None
            return PreparedSparse(cloud, part) if sparse else PreparedDense(cloud, part)
        centres = unit[farthest_points(unit, self.inducing, outermost_point(unit))]
        if not self.kernel.against and self.kernel not in KERNELS.values():
            _require_positive(self.kernel, gram(self.kernel, centres, centres, sigma), cloud)
        return PreparedThin(cloud, energy_features(self.kernel, centres, sigma))


def _require_positive(kernel: Kernel, K: Array, cloud: Cloud) -> None:
    """A kernel that somebody brought must be positive definite, or the cost has no minimum."""
    if not np.isfinite(K).all():
        raise InvalidSetting(f"kernel: on cloud {cloud.name!r} {np.sum(~np.isfinite(K))} of its values are not finite")
    values = np.linalg.eigvalsh(0.5 * (K + K.T))
    if values[0] < -1e-10 * abs(values[-1]):
        raise InvalidSetting(
            f"kernel: on cloud {cloud.name!r} the kernel matrix has eigenvalue {values[0]:.3g} "
            f"(largest {values[-1]:.3g}); use a positive definite function of distance / sigma"
        )

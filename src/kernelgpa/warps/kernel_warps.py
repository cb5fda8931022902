"""Kernel warps (KernelGPA, IJRR 2023): exact in dual form, or with few features at inducing points.

The width of the kernel is ``bandwidth`` times the mean distance between the cloud's points (section 9.2 of the paper).
The kernel is positive definite (Assumption 1); one of a user's is tested.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..errors import InvalidSetting
from ..observations.cloud import Cloud
from ..observations.sampling import farthest_points, mean_pairwise_distance, outermost_point
from ..typing import Array
from .exact import PreparedDense, PreparedSparse
from .gram import DEFAULT_SPARSE_LIMITS, SparseLimits, gram
from .kernels import KERNELS, Kernel
from .low_rank import PreparedLowRank, energy_features
from .protocols import PreparedCloud, Smoothing
from .warp import KernelPart

TESTED_POINTS = 1000  # points of a cloud on which a user's kernel is tested to be positive definite
NEGATIVE_EIGENVALUE = 1e-10  # of the largest one: a kernel matrix with a more negative one is not positive definite


@dataclass(frozen=True)
class KernelFamily:
    """An affine part plus a smooth displacement of finite kernel energy."""

    kernel: Kernel
    bandwidth: float
    smoothing: Smoothing
    inducing: int | None = None  # the number of kernels, at farthest points; None: one at every point
    sparse_limits: SparseLimits = DEFAULT_SPARSE_LIMITS

    def features(self, dimension: int) -> int | None:
        return self.inducing

    def neighbours(self, cloud: Cloud) -> float | None:
        return None if self.inducing is not None else self._exact_part(cloud).neighbours

    def kernel_of_warps(self, dimension: int) -> Kernel:
        return self.kernel

    def prepare(self, cloud: Cloud) -> PreparedCloud:
        part = self._exact_part(cloud)
        if self.inducing is not None:
            return self._prepare_inducing(cloud, part.centres, part.sigma)
        self._require_positive_definite(part.centres[:: -(-len(part.centres) // TESTED_POINTS)], part.sigma, cloud)
        return PreparedDense(cloud, part) if part.neighbours is None else PreparedSparse(cloud, part)

    def _exact_part(self, cloud: Cloud) -> KernelPart:
        """Kernels at all points of the cloud, without weights."""
        unit = cloud.frame.to_unit(cloud.points)
        sigma = self.bandwidth * mean_pairwise_distance(unit)
        return KernelPart(self.kernel, unit, sigma, np.zeros((0, unit.shape[1])), self.sparse_limits)

    def _prepare_inducing(self, cloud: Cloud, unit: Array, sigma: float) -> PreparedLowRank:
        centres = unit[farthest_points(unit, self.inducing or 0, outermost_point(unit))]
        if not self.kernel.order:
            self._require_positive_definite(centres, sigma, cloud)
        return PreparedLowRank(cloud, energy_features(self.kernel, centres, sigma, self.sparse_limits))

    def _require_positive_definite(self, unit: Array, sigma: float, cloud: Cloud) -> None:
        """A user's kernel must be positive definite; otherwise the cost has no minimum."""
        if self.kernel in KERNELS.values():
            return
        K = gram(self.kernel, unit, unit, sigma)
        if not np.isfinite(K).all():
            raise InvalidSetting(
                f"kernel: on cloud {cloud.name!r} {np.sum(~np.isfinite(K))} of its {K.size} values are not finite; "
                "use a function that is finite for every distance"
            )
        values = np.linalg.eigvalsh(0.5 * (K + K.T))
        if values[0] < -NEGATIVE_EIGENVALUE * abs(values[-1]):
            raise InvalidSetting(
                f"kernel: on cloud {cloud.name!r} the kernel matrix has the eigenvalue {values[0]:.3g} "
                f"(largest {values[-1]:.3g}); use a positive definite function of distance / sigma"
            )

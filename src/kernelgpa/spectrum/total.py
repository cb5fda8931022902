"""The sum of the clouds' costs (section 6.2 of the paper), in the representation that is cheapest for them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .._numerics.allocation import zeros
from ..typing import Array
from ..warps import ReducedCloud
from .dense import DenseCost
from .low_rank import Block, LowRankCost, TotalFeatures
from .matrix_free import MatrixFreeCost
from .operator import LIMITS, CostOperator, OperatorLimits

FEW_FEATURES = 0.1  # features per cloud, as a share of the landmarks, that are added up by one product


def total_cost(clouds: Sequence[ReducedCloud], landmarks: int, limits: OperatorLimits = LIMITS) -> CostOperator:
    """Q = sum_t Q_t: matrix-free if kernels are sparse, low-rank if all clouds are and that is cheaper, else dense."""
    if any(cloud.sparse_kernel() is not None for cloud in clouds):
        return MatrixFreeCost.of_clouds(clouds, landmarks)
    factors = [cloud.low_rank_factor() for cloud in clouds]
    widths = [factor.basis.shape[1] for factor in factors if factor is not None]
    all_low_rank = len(widths) == len(clouds)
    if all_low_rank and not limits.prefers_dense(landmarks, sum(widths)):
        return LowRankCost(TotalFeatures.of_clouds(clouds, landmarks, limits))
    if all_low_rank and max(widths) < FEW_FEATURES * landmarks:
        return DenseCost(TotalFeatures.of_clouds(clouds, landmarks, limits).dense_matrix(), limits)
    return DenseCost(_dense_sum(clouds, landmarks), limits)


def low_rank_cost(weights: Array, basis: Array, limits: OperatorLimits = LIMITS) -> CostOperator:
    """diag(weights) - basis basis', dense if that is cheaper."""
    features = TotalFeatures(weights, (Block(np.arange(len(weights)), weights, basis),), limits)
    if limits.prefers_dense(len(weights), basis.shape[1]):
        return DenseCost(features.dense_matrix(), limits)
    return LowRankCost(features)


def _dense_sum(clouds: Sequence[ReducedCloud], landmarks: int) -> Array:  # (m, m)
    total = zeros(landmarks, landmarks)
    for cloud in clouds:
        if len(cloud.seen) == landmarks:  # all of them, in their order
            total += cloud.cost_matrix()
        else:  # faster than indexing rows and columns at once
            wide = np.zeros((len(cloud.seen), landmarks))
            wide[:, cloud.seen] = cloud.cost_matrix()
            total[cloud.seen] += wide
    return total

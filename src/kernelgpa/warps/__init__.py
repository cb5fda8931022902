"""One cloud: families of warps (affine, thin-plate, kernel), reduced clouds and fitted warps.

In:   a ``Cloud`` and a family of warps with its settings.
Out:  a ``ReducedCloud``: the cost that remains once the warp is eliminated, the warp that attains it, and the variance
      of its predictions.  A fitted ``Warp`` takes points of the cloud into the map; ``inverse`` takes them back.
Equations of docs/theory.md: 5 (warp), 6 and 7 (dual form), 8 and 9 (low-rank form), 17 (leave-out), 18 (variance),
20 (automatic settings).
"""

from .affine import AffineFamily
from .kernel_warps import KernelFamily
from .protocols import (
    CloudCost,
    Family,
    LowRankFactor,
    PreparedCloud,
    ReducedCloud,
    Smoothing,
    WarpFit,
    WarpPrediction,
    common_smoothing,
    reduce,
    smoothing_per_cloud,
)
from .thin_plate import ThinPlateFamily
from .warp import KernelPart, Warp

__all__ = [
    "AffineFamily",
    "CloudCost",
    "Family",
    "KernelFamily",
    "KernelPart",
    "LowRankFactor",
    "PreparedCloud",
    "ReducedCloud",
    "Smoothing",
    "ThinPlateFamily",
    "Warp",
    "WarpFit",
    "WarpPrediction",
    "common_smoothing",
    "reduce",
    "smoothing_per_cloud",
]

"""One cloud: families of warps, and what is left of the cost once a warp is eliminated."""

from .affine import AffineFamily
from .kernel_warps import KernelFamily
from .protocols import (
    CloudCost,
    Family,
    LowRankFactor,
    PreparedCloud,
    ReducedCloud,
    WarpFit,
    WarpPrediction,
    reduce,
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
    "ThinPlateFamily",
    "Warp",
    "WarpFit",
    "WarpPrediction",
    "reduce",
]

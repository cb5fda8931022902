"""One cloud: families of warps, and what is left of the cost once a warp is eliminated."""

from .affine import AffineFamily
from .base import Factor, Family, KernelPart, PreparedCloud, ReducedCloud, Warp, reduce
from .kernel import KernelFamily
from .thinplate import ThinPlateFamily

__all__ = [
    "AffineFamily",
    "Factor",
    "Family",
    "KernelFamily",
    "KernelPart",
    "PreparedCloud",
    "ReducedCloud",
    "ThinPlateFamily",
    "Warp",
    "reduce",
]

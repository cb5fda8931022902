"""One cloud: families of warps, and what is left of the cost once a warp is eliminated."""

from .affine import AffineFamily
from .base import Factor, Family, KernelPart, ReducedCloud, Warp
from .kernel import KernelFamily
from .thinplate import ThinPlateFamily

__all__ = [
    "AffineFamily",
    "Factor",
    "Family",
    "KernelFamily",
    "KernelPart",
    "ReducedCloud",
    "ThinPlateFamily",
    "Warp",
]

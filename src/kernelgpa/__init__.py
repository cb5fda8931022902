"""Register many deformed, partly seen point clouds at once, in closed form."""

from . import io, metrics, selection, simulate
from .diagnosis import Finding, Suspicion
from .errors import (
    DegenerateCloud,
    FormatError,
    InvalidObservations,
    InvalidSetting,
    KernelGPAError,
    KernelGPAWarning,
    NotFitted,
    NumericalFailure,
    TooLarge,
    WeaklyTied,
)
from .estimators import TPSGPA, AffineGPA, KernelGPA, RigidGPA
from .folder import load, save
from .forecast import Forecast, forecast
from .observations import Observations
from .streaming import Measured, StreamingGPA
from .uncertainty import Uncertainty, uncertainty
from .version import __version__
from .warps import Warp

__all__ = [
    "TPSGPA",
    "AffineGPA",
    "DegenerateCloud",
    "Finding",
    "Forecast",
    "FormatError",
    "InvalidObservations",
    "InvalidSetting",
    "KernelGPA",
    "KernelGPAError",
    "KernelGPAWarning",
    "Measured",
    "NotFitted",
    "NumericalFailure",
    "Observations",
    "RigidGPA",
    "StreamingGPA",
    "Suspicion",
    "TooLarge",
    "Uncertainty",
    "Warp",
    "WeaklyTied",
    "__version__",
    "forecast",
    "io",
    "load",
    "metrics",
    "save",
    "selection",
    "simulate",
    "uncertainty",
]

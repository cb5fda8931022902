"""Register many deformed, partly seen point clouds at once, in closed form."""

from . import metrics, selection, simulate
from .diagnosis import Finding, Suspicion
from .errors import (
    DegenerateCloud,
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
from .forecast import Forecast, forecast
from .observations import Observations
from .uncertainty import Uncertainty, uncertainty
from .warps import Warp

__version__ = "0.1.0"

__all__ = [
    "TPSGPA",
    "AffineGPA",
    "DegenerateCloud",
    "Finding",
    "Forecast",
    "InvalidObservations",
    "InvalidSetting",
    "KernelGPA",
    "KernelGPAError",
    "KernelGPAWarning",
    "NotFitted",
    "NumericalFailure",
    "Observations",
    "RigidGPA",
    "Suspicion",
    "TooLarge",
    "Uncertainty",
    "Warp",
    "WeaklyTied",
    "__version__",
    "forecast",
    "metrics",
    "selection",
    "simulate",
    "uncertainty",
]

"""Register many deformed, partly seen point clouds at once, without a template and without an initial guess.

What users import is loaded when it is first asked for, so that ``import kernelgpa`` takes no time and the command can
answer Ctrl-C before NumPy and the rest are there.
"""

from __future__ import annotations

from importlib import import_module

__version__ = "0.2.0"

TYPE_CHECKING = False  # type checkers take it for true; typing itself is not imported, which would take time
if TYPE_CHECKING:
    from typing import Any

    from . import io, plotting, simulate
    from .errors import (
        DegenerateCloud,
        Disconnected,
        FormatError,
        InvalidObservations,
        InvalidSetting,
        KernelGPAError,
        KernelGPAWarning,
        NotFitted,
        NumericalFailure,
        TooLarge,
        WeaklyConnected,
    )
    from .estimators import TPSGPA, AffineGPA, KernelGPA, RigidGPA, distributed
    from .observations import Observations
    from .report.result_folder import load, save
    from .shape import ShapeModel
    from .spectrum.forecast import Forecast, forecast
    from .streaming import Measured, StreamingGPA
    from .trust import metrics, selection
    from .trust.diagnosis import Finding, SuspiciousObservation
    from .trust.uncertainty import Uncertainty, uncertainty
    from .warps import Warp, kernels

__all__ = [
    "TPSGPA",
    "AffineGPA",
    "DegenerateCloud",
    "Disconnected",
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
    "ShapeModel",
    "StreamingGPA",
    "SuspiciousObservation",
    "TooLarge",
    "Uncertainty",
    "Warp",
    "WeaklyConnected",
    "__version__",
    "distributed",
    "forecast",
    "io",
    "kernels",
    "load",
    "metrics",
    "plotting",
    "save",
    "selection",
    "simulate",
    "uncertainty",
]

_HOME_OF_NAME = {
    **dict.fromkeys(["DegenerateCloud", "FormatError", "InvalidObservations", "InvalidSetting"], "errors"),
    **dict.fromkeys(["KernelGPAError", "KernelGPAWarning", "NotFitted", "NumericalFailure"], "errors"),
    **dict.fromkeys(["Disconnected", "TooLarge", "WeaklyConnected"], "errors"),
    **dict.fromkeys(["TPSGPA", "AffineGPA", "KernelGPA", "RigidGPA"], "estimators"),
    "Observations": "observations",
    **dict.fromkeys(["load", "save"], "report.result_folder"),
    "ShapeModel": "shape",
    **dict.fromkeys(["Forecast", "forecast"], "spectrum.forecast"),
    **dict.fromkeys(["Measured", "StreamingGPA"], "streaming"),
    **dict.fromkeys(["Finding", "SuspiciousObservation"], "trust.diagnosis"),
    **dict.fromkeys(["Uncertainty", "uncertainty"], "trust.uncertainty"),
    "Warp": "warps",
}
_HOME_OF_MODULE = {
    "distributed": "estimators.distributed",
    "io": "io",
    "kernels": "warps.kernels",
    "metrics": "trust.metrics",
    "plotting": "plotting",
    "selection": "trust.selection",
    "simulate": "simulate",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name in _HOME_OF_NAME:
            value = getattr(import_module(f".{_HOME_OF_NAME[name]}", __name__), name)
        elif name in _HOME_OF_MODULE:
            value = import_module(f".{_HOME_OF_MODULE[name]}", __name__)
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

"""Register many deformed, partly seen point clouds at once, in closed form.

What users import is loaded when it is first asked for, so that ``import kernelgpa`` takes no time and the command can
answer Ctrl-C before NumPy and the rest are there.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType

TYPE_CHECKING = False  # type checkers take it for true; typing itself is not imported, which would take time
if TYPE_CHECKING:
    from typing import Any

    from . import io, metrics, selection, simulate
    from .diagnosis import Finding, Suspicion
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

_MODULE_OF = {
    **dict.fromkeys(["Finding", "Suspicion"], "diagnosis"),
    **dict.fromkeys(["DegenerateCloud", "FormatError", "InvalidObservations", "InvalidSetting"], "errors"),
    **dict.fromkeys(["KernelGPAError", "KernelGPAWarning", "NotFitted", "NumericalFailure"], "errors"),
    **dict.fromkeys(["Disconnected", "TooLarge", "WeaklyTied"], "errors"),
    **dict.fromkeys(["TPSGPA", "AffineGPA", "KernelGPA", "RigidGPA"], "estimators"),
    **dict.fromkeys(["load", "save"], "folder"),
    **dict.fromkeys(["Forecast", "forecast"], "forecast"),
    "Observations": "observations",
    **dict.fromkeys(["Measured", "StreamingGPA"], "streaming"),
    **dict.fromkeys(["Uncertainty", "uncertainty"], "uncertainty"),
    "__version__": "version",
    "Warp": "warps",
}


class _Package(ModuleType):
    """Python binds a module to its package once it is loaded; a function of the same name takes precedence here."""

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, ModuleType) and _MODULE_OF.get(name) == name:
            value = getattr(value, name)
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name in _MODULE_OF:
            value = getattr(import_module(f".{_MODULE_OF[name]}", __name__), name)
            globals()[name] = value
            return value
        if name.startswith("_"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        try:
            return import_module(f".{name}", __name__)  # a module
        except ModuleNotFoundError as error:
            if error.name != f"{__name__}.{name}":  # something that the module needs is not installed
                raise
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

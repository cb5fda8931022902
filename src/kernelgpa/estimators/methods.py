"""The table of methods: the estimators that have a name on the command line, in settings files and in saved models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..errors import InvalidSetting
from .base import GPA
from .models import TPSGPA, AffineGPA, KernelGPA
from .rigid import RigidGPA


@dataclass(frozen=True)
class Method:
    """An estimator, and what the faces of the library need to know about it."""

    estimator: type[GPA]
    description: str  # of its warps, for people
    grid: Mapping[str, list[float]] = field(default_factory=dict)  # what ``--tune`` tries first; empty: nothing


METHODS: dict[str, Method] = {
    "rigid": Method(RigidGPA, "rigid motions"),
    "affine": Method(AffineGPA, "affine warps"),
    "tps": Method(TPSGPA, "thin-plate warps", {"smoothing": [1e-3, 1e-2, 1e-1, 1.0, 10.0]}),
    "kernel": Method(
        KernelGPA, "kernel warps", {"bandwidth": [0.15, 0.25, 0.5, 1.0], "smoothing": [1e-3, 1e-2, 1e-1, 1.0]}
    ),
}


def method_name(gpa: GPA) -> str:
    """The name of the method of an estimator; an error if it is of another class."""
    for name, method in METHODS.items():
        if type(gpa) is method.estimator:
            return name
    raise InvalidSetting(
        f"{type(gpa).__name__} is not in the table of methods and cannot be saved; enter it in METHODS of "
        "kernelgpa.estimators.methods, or fit one of its base classes"
    )


def estimator_class(name: str) -> type[GPA]:
    """The class of the method of a name."""
    if name not in METHODS:
        raise InvalidSetting(f"method {name!r} is unknown; use one of {', '.join(METHODS)}")
    return METHODS[name].estimator

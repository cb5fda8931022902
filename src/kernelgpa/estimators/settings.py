"""Checks of the settings that users give to an estimator."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np

from ..errors import InvalidSetting
from ..warps import Smoothing

AUTO = "auto"  # a setting that the fit chooses
MIRRORED = ("leave-out", "keep", "error")  # what happens to clouds that are mirror images of the others
LEAST_BANDWIDTH, MOST_BANDWIDTH = 1e-12, 1e100


def is_automatic(value: Any) -> bool:
    return isinstance(value, str) and value == AUTO


def require_mirrored(value: Any) -> None:
    if not isinstance(value, str) or value not in MIRRORED:
        raise InvalidSetting(f"mirrored is {value!r}; expected one of {', '.join(MIRRORED)}")


def positive_number(name: str, value: Any) -> float:
    try:
        number = float(value) if isinstance(value, Real) and not isinstance(value, bool) else np.nan
    except OverflowError:  # a whole number beyond double precision
        number = np.inf
    if not 0 < number < np.inf:
        raise InvalidSetting(f"{name} is {value!r}; expected a positive number{_or_auto(name)}")
    return number


def _or_auto(name: str) -> str:
    return f" or {AUTO!r}" if name in ("bandwidth", "smoothing") else ""


def smoothing_values(value: Any) -> Smoothing:
    """One smoothing for all clouds, or one for each of them."""
    if isinstance(value, list | tuple | np.ndarray) and np.ndim(value) == 1 and len(value):
        return tuple(positive_number("smoothing", one) for one in value)
    return positive_number("smoothing", value)


def whole_number(name: str, value: Any, least: int) -> int:
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise InvalidSetting(f"{name} is {value!r}; expected a whole number of at least {least}")
    return int(value)


def bandwidth_number(value: Any) -> float:
    """A bandwidth as a multiple of a cloud's mean distance between points."""
    bandwidth = positive_number("bandwidth", value)
    if bandwidth < LEAST_BANDWIDTH:
        raise InvalidSetting(
            f"bandwidth is {value!r}; below {LEAST_BANDWIDTH:g} of a cloud's size a kernel is 0 at all other points"
        )
    if bandwidth > MOST_BANDWIDTH:
        raise InvalidSetting(f"bandwidth is {value!r}; above {MOST_BANDWIDTH:g} its square leaves double precision")
    return bandwidth

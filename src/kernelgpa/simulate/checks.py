"""What the arguments of every scene must be."""

from __future__ import annotations

from numbers import Integral, Real

import numpy as np

from ..errors import InvalidSetting

LARGEST = 1e100  # beyond which squares overflow


def require_share(name: str, value: float) -> None:
    if not (isinstance(value, Real) and 0 <= value < 1):
        raise InvalidSetting(f"{name} is {value!r}; expected a share of the observations, 0 <= {name} < 1")


def require_amount(name: str, value: float, unit: str = "mm", most: float = np.inf) -> None:
    if not (isinstance(value, Real) and 0 <= value <= min(most, LARGEST)):
        limit = "0 or more" if most == np.inf else f"from 0 to {most:g}"
        raise InvalidSetting(f"{name} is {value!r}; expected {limit}{unit and ' ' + unit}")


def require_whole(name: str, value: int, least: int = 0) -> None:
    if not (isinstance(value, Integral) and value >= least):
        raise InvalidSetting(f"{name} is {value!r}; expected a whole number, {least} or more")


def require_counts(clouds: int, landmarks: int, places: int, of: str = "vertices") -> None:
    """At least two clouds, and landmarks enough to span space but not more than there are places for them."""
    for name, value in (("clouds", clouds), ("landmarks", landmarks)):
        require_whole(name, value)
    if not (clouds >= 2 and 4 <= landmarks <= places):
        raise InvalidSetting(
            f"{clouds} clouds of {landmarks} landmarks on {places} {of}; expected at least 2 clouds, and "
            "from 4 landmarks up to one a vertex"
        )

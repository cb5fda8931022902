"""Checks of the arguments that scenes have in common."""

from __future__ import annotations

from numbers import Integral, Real

import numpy as np

from ..errors import InvalidSetting

LARGEST_LENGTH = 1e100  # mm, beyond which squares overflow


def require_share(name: str, value: float) -> None:
    if not (isinstance(value, Real) and 0 <= value < 1):
        raise InvalidSetting(f"{name} is {value!r}; expected a share of the observations, 0 <= {name} < 1")


def require_amount(name: str, value: float, unit: str = "mm", most: float = np.inf) -> None:
    if not (isinstance(value, Real) and 0 <= value <= min(most, LARGEST_LENGTH)):
        limit = "0 or more" if most == np.inf else f"from 0 to {most:g}"
        raise InvalidSetting(f"{name} is {value!r}; expected {limit}{unit and ' ' + unit}")


def require_integer(name: str, value: int, least: int = 0) -> None:
    if not (isinstance(value, Integral) and value >= least):
        raise InvalidSetting(f"{name} is {value!r}; expected a whole number, {least} or more")


def require_bump_width(value: float) -> None:
    if not (isinstance(value, Real) and 0.05 <= value <= 1):
        raise InvalidSetting(f"bump_width is {value!r}; expected a share of the body's length, from 0.05 to 1")


def require_observation_settings(hidden: float, noise: float, seed: int) -> None:
    require_share("hidden", hidden)
    require_amount("noise", noise)
    require_integer("seed", seed)


def require_counts(clouds: int, landmarks: int, available: int, kind: str = "vertices") -> None:
    """Require two clouds, and enough landmarks to span space but no more than the vertices that can be landmarks."""
    for name, value in (("clouds", clouds), ("landmarks", landmarks)):
        require_integer(name, value)
    if not (clouds >= 2 and 4 <= landmarks <= available):
        raise InvalidSetting(
            f"{clouds} clouds of {landmarks} landmarks on {available} {kind}; expected at least 2 clouds, and "
            f"from 4 landmarks to one per vertex"
        )

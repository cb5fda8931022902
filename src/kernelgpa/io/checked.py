"""What an archive holds, checked as it is taken out: shapes, types and ranges.

A file may have been damaged, or made by somebody else.  What passes here can be used without a second look.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..typing import Array, IndexArray, Name
from .base import is_unicode, shortened

MOST = 1e150  # beyond it squares leave double precision
ROTATION = 1e-6  # how far the rows of a rotation may be from orthonormal

Shape = Sequence[int | None]  # None: any number


class Unsound(ValueError):
    """Something in an archive is not what it must be."""


@dataclass(frozen=True)
class Numbers:
    """The arrays of an archive."""

    arrays: Mapping[str, npt.NDArray[np.generic]]

    def floats(self, name: str, *shape: int | None, least: float = -MOST, unknown: bool = False) -> Array:
        """Numbers of such a shape, not below ``least``; NaN only if they may be ``unknown``."""
        array = self._array(name, shape, "fiu").astype(np.float64)
        known = ~np.isnan(array) if unknown else np.ones(array.shape, dtype=bool)
        if not np.all((array[known] >= least) & (array[known] < MOST)):
            wrong = array[known][~((array[known] >= least) & (array[known] < MOST))][0]
            raise Unsound(f"{name} holds {wrong:g}")
        return array

    def whole(self, name: str, *shape: int | None, least: int = 0, most: int = 2**53) -> IndexArray:
        """Whole numbers from ``least`` to ``most``."""
        array = self._array(name, shape, "iu")
        if array.size and (int(array.min()) < least or int(array.max()) > most):
            wrong = array.min() if int(array.min()) < least else array.max()
            raise Unsound(f"{name} holds {wrong}, and must lie between {least} and {most}")
        return array.astype(np.intp)

    def rotations(self, name: str, *shape: int | None) -> Array:
        """Orthonormal matrices without reflection."""
        turns = self.orthonormal(name, *shape)
        if np.any(np.linalg.det(turns) < 0):
            raise Unsound(f"{name} holds a reflection")
        return turns

    def orthonormal(self, name: str, *shape: int | None) -> Array:
        turns = self.floats(name, *shape)
        products = turns @ np.swapaxes(turns, -1, -2)
        if np.any(np.abs(products - np.eye(turns.shape[-1])) > ROTATION):
            raise Unsound(f"{name} holds a matrix that is not orthonormal")
        return turns

    def _array(self, name: str, shape: Shape, kinds: str) -> npt.NDArray[Any]:
        if name not in self.arrays:
            raise Unsound(f"there is no {name}")
        array = self.arrays[name]
        if array.dtype.kind not in kinds:
            raise Unsound(f"{name} is of type {array.dtype}")
        same = len(array.shape) == len(shape)
        if not same or any(b is not None and a != b for a, b in zip(array.shape, shape, strict=True)):
            wanted = ", ".join("any" if one is None else str(one) for one in shape)
            raise Unsound(f"{name} has shape {array.shape}, and must have ({wanted})")
        return array


def split(array: npt.NDArray[Any], sizes: IndexArray, what: str) -> list[npt.NDArray[Any]]:
    """An array in pieces of such sizes, which must add up to it."""
    if len(array) != int(sizes.sum()):
        raise Unsound(f"{what} has {len(array)} rows, and its sizes add up to {int(sizes.sum())}")
    return np.split(array, np.cumsum(sizes)[:-1]) if len(sizes) else []


def names_of(values: Any, what: str) -> tuple[Name, ...]:
    """Names of clouds or landmarks: texts or whole numbers, none of them twice."""
    if not isinstance(values, list):
        raise Unsound(f"{what} is no list")
    for one in values:
        if not is_whole(one) and not (isinstance(one, str) and is_unicode(one)):
            raise Unsound(f"{what} has the name {shortened(repr(one))}")
    if len(set(values)) < len(values):
        raise Unsound(f"{what} has a name twice")
    return tuple(values)


def is_whole(value: Any, least: float = -np.inf, most: float = np.inf) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def number(value: Any, what: str, least: float = -MOST, unknown: bool = False) -> float:
    """A number not below ``least``; NaN only if it may be ``unknown``."""
    numeric = isinstance(value, float | int) and not isinstance(value, bool)
    if not numeric or not (least <= value < MOST or (unknown and value != value)):
        raise Unsound(f"{what} is {shortened(repr(value))}")
    return float(value)

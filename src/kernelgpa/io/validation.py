"""Checks of what an archive contains, made as it is read: shapes, types and ranges.

A file may be corrupt, or made by somebody else.  What passes here can be used without further checks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..typing import Array, IndexArray, Name
from .text import is_unicode, short_repr

LARGEST_NUMBER = 1e150  # squares of larger numbers leave double precision
ORTHONORMAL_TOLERANCE = 1e-6  # on the entries of R R' - I

Shape = Sequence[int | None]  # None: any number


class InvalidRecord(ValueError):
    """Something in an archive has a value that it cannot have."""


@dataclass(frozen=True)
class CheckedArrays:
    """The arrays of an archive, each checked when it is read."""

    arrays: Mapping[str, npt.NDArray[np.generic]]

    def floats(self, name: str, *shape: int | None, least: float = -LARGEST_NUMBER, allow_nan: bool = False) -> Array:
        """Return numbers of a given shape that are at least ``least``."""
        array = self._array(name, shape, "fiu").astype(np.float64)
        known = array[~np.isnan(array)] if allow_nan else array
        valid = (known >= least) & (known < LARGEST_NUMBER)
        if not np.all(valid):
            raise InvalidRecord(f"{name} holds {known[~valid][0]:g}")
        return array

    def integers(self, name: str, *shape: int | None, least: int = 0, most: int = 2**53) -> IndexArray:
        """Return integers from ``least`` to ``most``."""
        array = self._array(name, shape, "iu")
        if array.size and (int(array.min()) < least or int(array.max()) > most):
            wrong = array.min() if int(array.min()) < least else array.max()
            raise InvalidRecord(f"{name} holds {wrong}, and must lie between {least} and {most}")
        return array.astype(np.intp)

    def increasing(self, name: str, most: int) -> IndexArray:
        """Return indices from 0 to ``most``, each larger than the one before."""
        array = self.integers(name, None, most=most)
        if np.any(np.diff(array) <= 0):
            raise InvalidRecord(f"{name} is not in ascending order")
        return array

    def rotations(self, name: str, *shape: int | None) -> Array:
        """Return orthonormal matrices without reflection."""
        matrices = self.orthonormal(name, *shape)
        if np.any(np.linalg.det(matrices) < 0):
            raise InvalidRecord(f"{name} holds a reflection")
        return matrices

    def orthonormal(self, name: str, *shape: int | None) -> Array:
        matrices = self.floats(name, *shape)
        products = matrices @ np.swapaxes(matrices, -1, -2)
        if np.any(np.abs(products - np.eye(matrices.shape[-1])) > ORTHONORMAL_TOLERANCE):
            raise InvalidRecord(f"{name} holds a matrix that is not orthonormal")
        return matrices

    def _array(self, name: str, shape: Shape, kinds: str) -> npt.NDArray[Any]:
        if name not in self.arrays:
            raise InvalidRecord(f"there is no {name}")
        array = self.arrays[name]
        if array.dtype.kind not in kinds:
            raise InvalidRecord(f"{name} is of type {array.dtype}")
        same = len(array.shape) == len(shape)
        if not same or any(b is not None and a != b for a, b in zip(array.shape, shape, strict=True)):
            wanted = ", ".join("any" if one is None else str(one) for one in shape)
            raise InvalidRecord(f"{name} has shape {array.shape}, and must have ({wanted})")
        return array


def split_rows(array: npt.NDArray[Any], sizes: IndexArray, what: str) -> list[npt.NDArray[Any]]:
    """Split an array into pieces of given sizes, which must add up to its length."""
    if len(array) != int(sizes.sum()):
        raise InvalidRecord(f"{what} has {len(array)} rows, and its sizes add up to {int(sizes.sum())}")
    return np.split(array, np.cumsum(sizes)[:-1]) if len(sizes) else []


def checked_names(values: Any, what: str) -> tuple[Name, ...]:
    """Return names of clouds or landmarks: texts or integers, none of them twice."""
    if not isinstance(values, list):
        raise InvalidRecord(f"{what} is no list")
    for one in values:
        if not is_integer(one) and not (isinstance(one, str) and is_unicode(one)):
            raise InvalidRecord(f"{what} has the name {short_repr(repr(one))}")
    if len(set(values)) < len(values):
        raise InvalidRecord(f"{what} has a name twice")
    return tuple(values)


def is_integer(value: Any, least: float = -np.inf, most: float = np.inf) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def checked_number(value: Any, what: str, least: float = -LARGEST_NUMBER, allow_nan: bool = False) -> float:
    """Return a number that is at least ``least``."""
    numeric = isinstance(value, float | int) and not isinstance(value, bool)
    if not numeric or not (least <= value < LARGEST_NUMBER or (allow_nan and value != value)):
        raise InvalidRecord(f"{what} is {short_repr(repr(value))}")
    return float(value)

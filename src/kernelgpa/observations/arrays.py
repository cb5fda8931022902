"""Small questions about arrays, and conversions: real numbers, masks to NaN, finite rows, read-only copies."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..typing import Array, BoolArray


def is_real(array: npt.NDArray[Any]) -> bool:
    """Whether the array holds floating-point numbers, integers or booleans."""
    return array.dtype.kind in "fiub"


def masked_as_nan(values: npt.ArrayLike) -> npt.NDArray[Any]:
    """An array whose masked entries are NaN; an array without a mask is returned as it is."""
    array: Any = np.ma.asarray(values)
    if not np.ma.is_masked(array) or not is_real(array):
        return np.asarray(array)
    return np.asarray(np.ma.filled(array.astype(np.float64), np.nan))


def finite_rows(points: Array) -> BoolArray:  # (..., d) -> (...)
    """Whether all coordinates of a point are finite, for each point."""
    return np.asarray(np.isfinite(points).all(axis=-1), dtype=np.bool_)


def frozen(array: npt.ArrayLike, dtype: Any = np.float64) -> npt.NDArray[Any]:
    """A read-only copy."""
    copy = np.array(array, dtype=dtype)
    copy.flags.writeable = False
    return copy

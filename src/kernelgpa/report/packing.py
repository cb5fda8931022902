"""Arrays as text, for the JSON of the page."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

LARGEST_PLAIN = 1e15  # arrays beyond this, or below its inverse, are divided by their largest entry to fit into float32


@dataclass(frozen=True)
class PackedArray:
    """An array as base64 of little-endian float32, to be multiplied by ``factor``."""

    shape: tuple[int, ...]
    factor: float
    data: str


def packed(values: npt.ArrayLike) -> PackedArray:
    array = np.asarray(values, dtype=np.float64)
    finite = np.abs(array[np.isfinite(array)])
    largest = float(finite.max(initial=0.0))
    factor = 1.0 if largest == 0 or 1 / LARGEST_PLAIN < largest < LARGEST_PLAIN else largest
    return PackedArray(array.shape, factor, base64_of((array / factor).astype("<f4")))


def base64_of(array: npt.NDArray[Any]) -> str:
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode("ascii")

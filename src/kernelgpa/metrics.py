"""Arrays to numbers.

``clouds`` is (n, k, d): the same k points as every cloud's warp places them in the map, NaN where
a cloud did not see a point.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .errors import InvalidObservations
from .frames import Array, finite_rows


def mean_map(clouds: npt.ArrayLike) -> Array:  # (n, k, d) -> (k, d)
    """The mean of each point over the clouds that saw it; NaN for a point that none saw."""
    total, count = _sums(_checked(clouds))
    return np.divide(total, count[:, None], out=np.full_like(total, np.nan), where=count[:, None] > 0)


def consistency(clouds: npt.ArrayLike) -> Array:  # (n, k, d) -> (k,)
    """The paper's delta: root mean square distance of each point's images from their mean.

    0 for a point that one cloud saw, NaN for a point that none saw.  It is measured in the map, so a
    map that shrinks scores better: read it beside the sensor-frame error.
    """
    array = _checked(clouds)
    square = np.nansum((array - mean_map(array)) ** 2, axis=(0, 2))
    count = _sums(array)[1]
    mean = np.divide(square, count, out=np.full(len(count), np.nan), where=count > 0)
    return np.sqrt(mean)


def _sums(array: Array) -> tuple[Array, Array]:
    seen = finite_rows(array)
    return np.where(seen[:, :, None], array, 0.0).sum(axis=0), seen.sum(axis=0).astype(np.float64)


def _checked(clouds: npt.ArrayLike) -> Array:
    array = np.asarray(clouds, dtype=np.float64)
    if array.ndim != 3:
        raise InvalidObservations(f"clouds have shape {array.shape}; expected (clouds, points, dimension)")
    return array

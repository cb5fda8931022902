"""Arrays to numbers.

``clouds`` is (n, k, d): the same k points as every cloud's warp places them in the map, NaN where
a cloud did not see a point.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..errors import InvalidObservations
from ..gauge.rotations import motion_onto
from ..observations.arrays import finite_rows, masked_as_nan
from ..typing import Array, BoolArray


def mean_map(clouds: npt.ArrayLike) -> Array:  # (n, k, d) -> (k, d)
    """The mean of each point over the clouds that saw it; NaN for a point that none saw."""
    total, count = _sums(_checked(clouds))
    return np.divide(total, count[:, None], out=np.full_like(total, np.nan), where=count[:, None] > 0)


def consistency(clouds: npt.ArrayLike) -> Array:  # (n, k, d) -> (k,)
    """The paper's delta: root mean square distance of each point's images from their mean.

    0 for a point that one cloud saw, NaN for a point that none saw.  It is measured in the map, so a
    map that shrinks scores better: read it beside :func:`sensor_error`.
    """
    array = _checked(clouds)
    return _root_mean_square(array - mean_map(array))


def mean_of_others(
    clouds: npt.ArrayLike,  # (n, k, d)
    weights: npt.ArrayLike | None = None,  # (n, k), how much each counts; None: all alike
) -> Array:  # (n, k, d)
    """Where the other clouds place each point; NaN where none of them saw it."""
    array = _checked(clouds)
    seen = finite_rows(array)
    counted = np.where(seen, _checked_weights(weights, seen), 0.0)
    others = (seen.sum(axis=0) - seen)[:, :, None] > 0
    weighted = counted[:, :, None] * np.where(seen[:, :, None], array, 0.0)
    rest, weight = _sum_of_others(weighted), _sum_of_others(counted)[:, :, None]
    return np.divide(rest, weight, out=np.full_like(array, np.nan), where=others & (weight > 0))


def _sum_of_others(values: Array) -> Array:  # (n, ...) -> (n, ...)
    """Sums over all clouds but one, without subtracting: a wrong match of no weight leaves no rounding behind."""
    none = np.zeros_like(values[:1])
    before = np.cumsum(np.concatenate([none, values[:-1]]), axis=0)
    after = np.cumsum(np.concatenate([none, values[:0:-1]]), axis=0)[::-1]
    return np.asarray(before + after)


def sensor_residuals(
    clouds: npt.ArrayLike,  # (n, k, d)
    jacobians: npt.ArrayLike,  # (n, k, d, d) of the warps, at the points where the clouds have them
    weights: npt.ArrayLike | None = None,  # (n, k), how much each counts among the others
) -> Array:  # (n, k, d)
    """Disagreement with the other clouds, taken back into each cloud's own frame: J^-1 (y - mean of others)."""
    array = _checked(clouds)
    matrices = np.asarray(jacobians, dtype=np.float64)
    if matrices.shape != (*array.shape, array.shape[2]):
        raise InvalidObservations(
            f"jacobians have shape {matrices.shape}; expected {(*array.shape, array.shape[2])}, one a point"
        )
    off = array - mean_of_others(array, weights)
    known = finite_rows(off) & np.isfinite(matrices).all(axis=(2, 3))
    residuals = np.full_like(array, np.nan)
    harmless = np.where(known[:, :, None, None], matrices, np.eye(array.shape[2]))
    size = np.abs(harmless).max(axis=(2, 3), keepdims=True)  # a determinant of small entries underflows
    singular = known & (np.linalg.det(harmless / np.where(size > 0, size, 1.0)) == 0)
    good = known & ~singular
    residuals[good] = np.linalg.solve(matrices[good], off[good][:, :, None])[:, :, 0]
    residuals[singular] = np.inf  # a warp that flattens space there cannot be taken back
    return residuals


def sensor_error(clouds: npt.ArrayLike, jacobians: npt.ArrayLike) -> Array:  # -> (k,)
    """Consistency as the sensors see it: root mean square of :func:`sensor_residuals` for each point.

    A map that shrinks or folds scores worse, not better.  NaN for a point that fewer than two clouds saw.
    """
    return _root_mean_square(sensor_residuals(clouds, jacobians))


def map_error(places: npt.ArrayLike, truth: npt.ArrayLike) -> float:  # (m, d), (m, d)
    """Root mean square distance of a map from the true one after the best rotation and translation.

    Landmarks that either map does not know (NaN) are left out.
    """
    found, true = (np.asarray(one, dtype=np.float64) for one in (places, truth))
    if found.shape != true.shape or found.ndim != 2:
        raise InvalidObservations(
            f"the maps have shapes {found.shape} and {true.shape}; expected two of (landmarks, d)"
        )
    both = finite_rows(found) & finite_rows(true)
    if both.sum() < found.shape[1]:
        raise InvalidObservations(f"{both.sum()} landmarks are known in both maps; {found.shape[1]} are needed")
    found, true = found[both] - found[both].mean(axis=0), true[both] - true[both].mean(axis=0)  # maps far away too
    off = found @ motion_onto(found, true)[0].T - true
    return float(np.sqrt(np.mean(np.sum(off**2, axis=1))))


def _root_mean_square(off: Array) -> Array:  # (n, k, d) -> (k,)
    known = ~np.isnan(off).any(axis=2)
    square = np.where(known, np.sum(off**2, axis=2), 0.0).sum(axis=0)
    count = known.sum(axis=0)
    return np.sqrt(np.divide(square, count, out=np.full(len(count), np.nan), where=count > 0))


def _sums(array: Array) -> tuple[Array, Array]:
    seen = finite_rows(array)
    return np.where(seen[:, :, None], array, 0.0).sum(axis=0), seen.sum(axis=0).astype(np.float64)


def _checked_weights(weights: npt.ArrayLike | None, seen: BoolArray) -> Array:
    if weights is None:
        return np.ones(seen.shape)
    array = np.asarray(weights, dtype=np.float64)
    if array.shape != seen.shape or not np.all(array[seen] >= 0):
        raise InvalidObservations(
            f"weights have shape {array.shape}; expected {seen.shape}, none of them negative or NaN where seen"
        )
    return array


def _checked(clouds: npt.ArrayLike) -> Array:
    array = masked_as_nan(clouds).astype(np.float64)
    if array.ndim != 3:
        raise InvalidObservations(f"clouds have shape {array.shape}; expected (clouds, points, dimension)")
    return array

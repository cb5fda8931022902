"""Checks of coordinates and weights, made once when observations are created.  All other code trusts the data."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InvalidObservations
from ..typing import Array, BoolArray, Name
from .arrays import is_real

LEAST_WEIGHT, MOST_WEIGHT = 1e-100, 1e100  # beyond them, squares and quotients overflow or underflow
LEAST_SIZE, MOST_SIZE = 1e-120, 1e120  # the same for the size of a cloud
MOST_RATIO = 1e10  # of the largest weight to the smallest one


def real_array(values: Any, what: str) -> tuple[Array, float]:
    """Values as float64 with masked entries as NaN, and the relative spacing of the type in which they were given."""
    try:
        array = np.ma.asarray(values)  # a list of masked rows is masked too
    except ValueError:  # rows of unequal length
        raise InvalidObservations(
            f"{what}: not a rectangular array; give clouds that saw different landmarks as "
            "one array with NaN, or as a list of (points, ids) pairs"
        ) from None
    if array.dtype == object and array.ndim == 0:
        remedy = "its observations" if hasattr(type(values), "observations") else "an array of real numbers"
        raise InvalidObservations(f"{what}: found a value of type {type(values).__name__}; give {remedy}")
    if not is_real(array):
        raise InvalidObservations(f"{what}: the type is {array.dtype}; expected real numbers")
    epsilon = np.finfo(array.dtype if array.dtype.kind == "f" else np.float64).eps
    real = array.astype(np.float64)
    return np.asarray(np.ma.filled(real, np.nan)), float(max(epsilon, np.finfo(np.float64).eps))


def check_counts(clouds: int, dimension: int = 2) -> None:
    if clouds < 2:
        raise InvalidObservations(f"clouds: found {clouds}; at least 2 are needed for a registration")
    if dimension not in (2, 3):
        raise InvalidObservations(
            f"points have dimension {dimension}; expected 2 or 3 as the last of (clouds, landmarks, dimension)"
        )


def check_points(array: Array, names: tuple[Name, ...], ids: tuple[Name, ...]) -> None:
    """Coordinates must be finite, or NaN in every coordinate of a point."""
    if np.isinf(array).any():
        t, j = np.argwhere(np.isinf(array).any(axis=2))[0]
        raise InvalidObservations(
            f"cloud {names[t]!r}, landmark {ids[j]!r}: coordinates {array[t, j]} are not finite; "
            "use NaN in every coordinate of a landmark that was not seen"
        )
    unknown = np.isnan(array)
    partly = np.argwhere(unknown.any(axis=2) & ~unknown.all(axis=2))
    if len(partly):
        t, j = partly[0]
        raise InvalidObservations(
            f"cloud {names[t]!r}, landmark {ids[j]!r}: NaN in some coordinates only, {array[t, j]} "
            f"({len(partly)} such points); give all coordinates, or NaN in every one if the landmark was not seen"
        )


def dense_weights(
    weights: npt.ArrayLike | None,
    visible: BoolArray,  # (n, m)
    names: tuple[Name, ...],
    ids: tuple[Name, ...],
    what: str = "weights",
) -> Array:  # (n, m)
    """Weights of all observations, 0 for what was not seen."""
    if weights is None:
        return visible.astype(np.float64)
    given, _ = real_array(weights, what)
    if given.shape not in (visible.shape, visible.shape[1:]):
        raise InvalidObservations(
            f"{what} have shape {given.shape}; expected {visible.shape[1:]}, one per landmark, "
            f"or {visible.shape}, one per observation"
        )
    dense = np.broadcast_to(given, visible.shape)
    bad = np.argwhere(visible & ~(np.isfinite(dense) & ((dense == 0) | (dense >= LEAST_WEIGHT))))
    if len(bad):
        t, j = bad[0]
        raise InvalidObservations(
            f"cloud {names[t]!r}, landmark {ids[j]!r}: weight {dense[t, j]}; weights are finite and not "
            f"negative: use 0 for what was not seen, otherwise at least {LEAST_WEIGHT:g}"
        )
    return np.where(visible, dense, 0.0)

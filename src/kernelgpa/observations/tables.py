"""Data frames and labelled arrays as observations: pandas and xarray objects, without importing either library.

long    one row per point: columns cloud, landmark, x, y[, z][, weight]; cloud and landmark may be levels of the index
wide    one row per cloud, named by the index or by a column cloud: columns ``nose_x, nose_y[, nose_z]``, ``1.X, 1.Y``
        (two.d.array of geomorph) or ``X1, Y1``, or two levels of columns, the landmark and its axis
array   a DataArray with three dimensions: clouds, landmarks, axes, recognised by their names, otherwise in this order
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from ..errors import InvalidObservations
from ..typing import Array, IndexArray, Name
from .identifiers import listed, refuse_repeats

AXES = ("x", "y", "z")
CLOUD_COLUMNS = ("cloud", "name", "id", "specimen", "frame")
INDEX_COLUMNS = ("index", "unnamed: 0")  # what pandas calls the names of rows after reset_index and read_csv
LANDMARK_COLUMNS = ("landmark", "marker", "point")
DIMENSION_NAMES = {  # names of the dimensions of a DataArray
    0: (*CLOUD_COLUMNS, "time", "scan"),
    1: (*LANDMARK_COLUMNS, "channel", "label"),
    2: ("axis", "axes", "coordinate", "coord", "dimension", "xyz"),
}
_AFTER = re.compile(r"(.+)[_.](x|y|z|weight)", re.IGNORECASE | re.DOTALL)
_BEFORE = re.compile(r"(x|y|z)[_.]?([0-9]+)", re.IGNORECASE)

Parts = tuple[Array, Array | None, list[Name], list[Name]]  # points (n, m, d), weights (n, m), clouds, landmarks


def is_table(points: Any) -> bool:
    """Whether this is a DataFrame of pandas or a DataArray of xarray."""
    if _is_a(points, "xarray", "Dataset"):
        raise InvalidObservations(
            f"found a Dataset with {', '.join(map(str, points.data_vars))}; give one DataArray of it, such as "
            f"dataset[{str(next(iter(points.data_vars), 'points'))!r}]"
        )
    return _is_a(points, "pandas", "DataFrame") or _is_a(points, "xarray", "DataArray")


def _is_a(points: Any, library: str, name: str) -> bool:
    """Whether the class of an object, or one that it derives from, has this name and belongs to this library."""
    return any(kind.__module__.partition(".")[0] == library and kind.__name__ == name for kind in type(points).__mro__)


def coordinate_column(name: str) -> tuple[str, str] | None:
    """The landmark and the axis of a column such as ``nose_x``, ``1.X`` or ``X1``; None if it is no coordinate."""
    after, before = _AFTER.fullmatch(name), _BEFORE.fullmatch(name)
    if after is not None:
        return after[1], after[2].lower()
    return (before[2], before[1].lower()) if before is not None else None


def table_parts(table: Any) -> Parts:
    """The points, weights and names of a DataFrame or a DataArray."""
    if _is_a(table, "xarray", "DataArray"):
        return _labelled_array(table)
    frame = table.reset_index() if _named_levels(table) else table
    columns = {str(name).lower(): name for name in frame.columns}
    landmark = next((columns[name] for name in LANDMARK_COLUMNS if name in columns), None)
    if landmark is not None:
        return _long(frame, columns, landmark)
    return _wide(frame, columns)


def _named_levels(table: Any) -> bool:
    """Whether clouds and landmarks are levels of the index of a long table."""
    names = [str(name).lower() for name in table.index.names if name is not None]
    return any(name in LANDMARK_COLUMNS for name in names)


def _long(frame: Any, columns: dict[str, Any], landmark: Hashable) -> Parts:
    cloud = next((columns[name] for name in CLOUD_COLUMNS if name in columns), None)
    axes = [columns[axis] for axis in AXES if axis in columns]
    if cloud is None or not {"x", "y"} <= columns.keys():
        found = ", ".join(map(str, list(frame.columns)[:10]))
        raise InvalidObservations(f"the columns are {found}; expected cloud, landmark, x, y and perhaps z, weight")
    clouds, landmarks = listed(frame[cloud].tolist()), listed(frame[landmark].tolist())
    names, labels = list(dict.fromkeys(clouds)), list(dict.fromkeys(landmarks))
    refuse_repeats(list(zip(clouds, landmarks, strict=True)), "cloud and landmark")
    at = _positions(clouds, names), _positions(landmarks, labels)
    points = np.full((len(names), len(labels), len(axes)), np.nan)
    points[at] = _numbers(frame[axes], "x, y, z")
    if "weight" not in columns:
        return points, None, names, labels
    weights = np.zeros(points.shape[:2])
    weights[at] = np.nan_to_num(_numbers(frame[[columns["weight"]]], "weight")[:, 0])
    return points, weights, names, labels


def _positions(values: Sequence[Name], order: Sequence[Name]) -> IndexArray:
    position = {value: i for i, value in enumerate(order)}
    return np.array([position[value] for value in values], dtype=np.intp)


def _wide(frame: Any, columns: dict[str, Any]) -> Parts:
    key = next((columns[name] for name in (*CLOUD_COLUMNS, *INDEX_COLUMNS) if name in columns), None)
    names = listed((frame.index if key is None else frame[key]).tolist())
    found: dict[Name, dict[str, Any]] = {}
    for column in frame.columns:
        one = _two_levels(column) if isinstance(column, tuple) else coordinate_column(str(column))
        if one is not None:
            found.setdefault(one[0], {})[one[1]] = column
    axes = [axis for axis in AXES if any(axis in own for own in found.values())]
    if not {"x", "y"} <= set(axes):
        shown = ", ".join(map(str, list(frame.columns)[:10]))
        long = {"x", "y"} <= columns.keys()
        expected = "a column landmark" if long else "coordinates such as nose_x, nose_y or X1, Y1"
        raise InvalidObservations(f"the columns are {shown}; expected {expected}")
    for label, own in found.items():
        lacking = [axis for axis in axes if axis not in own]
        if lacking:
            raise InvalidObservations(f"landmark {label!r} has no column for {lacking[0]}; add it, as others have one")
    values = [_numbers(frame[[own[axis] for axis in axes]], str(label)) for label, own in found.items()]
    weighted = all("weight" in own for own in found.values())
    weights = _numbers(frame[[own["weight"] for own in found.values()]], "weight") if weighted else None
    return np.stack(values, axis=1), None if weights is None else np.nan_to_num(weights), names, list(found)


def _two_levels(column: tuple[Any, ...]) -> tuple[Name, str] | None:
    return (column[0], str(column[1]).lower()) if len(column) == 2 and str(column[1]).lower() in AXES else None


def _numbers(frame: Any, what: str) -> Array:
    try:
        return np.asarray(frame.to_numpy(dtype=np.float64, na_value=np.nan))
    except (TypeError, ValueError) as error:
        raise InvalidObservations(f"column {what}: {error}; expected numbers, and NaN for what was not seen") from None


def _labelled_array(array: Any) -> Parts:
    if len(array.dims) != 3:
        raise InvalidObservations(
            f"the dimensions are {', '.join(map(str, array.dims))}; expected three: cloud, landmark, axis"
        )
    order = _dimension_order([str(name).lower() for name in array.dims])
    dims = [array.dims[i] for i in order]
    ordered = array.transpose(*dims)
    names: list[list[Name]] = []
    for i, dim in enumerate(dims):
        known = dim in ordered.coords and ordered.coords[dim].ndim == 1
        names.append(listed(ordered.coords[dim].values.tolist()) if known else list(range(ordered.shape[i])))
    points = np.asarray(ordered.values, dtype=np.float64)
    axes = [str(name).lower() for name in names[2]]
    if set(axes) >= set(AXES[:2]) and set(axes) <= {*AXES, "ones"}:  # pyomeca appends a row of ones
        kept = [axes.index(axis) for axis in AXES if axis in axes]
        points = points[:, :, kept]
    return points, None, names[0], names[1]


def _dimension_order(names: Sequence[str]) -> list[int]:
    """The positions of clouds, landmarks and axes; the order given if the names do not determine all three."""
    found = {kind: [i for i, name in enumerate(names) if name in known] for kind, known in DIMENSION_NAMES.items()}
    if all(len(own) == 1 for own in found.values()):
        return [found[kind][0] for kind in range(3)]
    return [0, 1, 2]

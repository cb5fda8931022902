"""NPZ: ``points`` (n, m, d) with NaN for unseen points, optionally ``names``, ``landmarks`` and ``weights``."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..errors import FormatError
from ..typing import Array
from .archive import Arrays, pack_arrays, read_arrays, replace_array
from .capabilities import Capabilities
from .in_place import added_points
from .landmark_file import (
    LabelledCloud,
    LandmarkFile,
    ReadOptions,
    as_doubles,
    numbered_labels,
    numbered_names,
    require_complete_points,
    require_unique,
)
from .text import is_unicode

HOLDS = Capabilities("NPZ", weights=True)
MEMBERS = ("points", "names", "landmarks", "weights")


def parse(data: bytes, source: str, options: ReadOptions) -> LandmarkFile:
    arrays = read_arrays(data, source, MEMBERS)
    if "points" not in arrays:
        found = ", ".join(sorted(read_arrays(data, source)))[:80] or "nothing"
        raise FormatError(source, None, f"found {found}", "expected an array 'points' (clouds, landmarks, 2 or 3)")
    points = _numbers(arrays["points"], "points", source)
    if points.ndim != 3 or points.shape[2] not in (2, 3) or 0 in points.shape:
        raise FormatError(source, None, f"'points' has shape {points.shape}", "expected (clouds, landmarks, 2 or 3)")
    require_complete_points(points, "'points'", source)
    n, m, _ = points.shape
    names = _names(arrays.get("names"), n, "names", source)
    names = names or ((options.name,) if n == 1 else numbered_names(options.name, n))
    given = _names(arrays.get("landmarks"), m, "landmarks", source)
    labels = given or numbered_labels(m)
    weights = _weights(arrays["weights"], (n, m), source) if "weights" in arrays else [None] * n
    clouds = (LabelledCloud(*one) for one in zip(names, points, [labels] * n, weights, strict=True))
    return LandmarkFile(tuple(clouds), labelled=given is not None).marking(options.missing)


def _numbers(array: npt.NDArray[np.generic], name: str, source: str) -> Array:
    if array.dtype.kind not in "fiu":
        raise FormatError(source, None, f"{name!r} is of type {array.dtype}", "expected numbers")
    return as_doubles(array)


def _names(array: npt.NDArray[np.generic] | None, count: int, name: str, source: str) -> tuple[str, ...] | None:
    if array is None:
        return None
    if array.shape != (count,) or array.dtype.kind not in "Uiu":
        found = f"{name!r} is of type {array.dtype} and shape {array.shape}"
        raise FormatError(source, None, found, f"expected {count} texts")
    try:
        names = tuple(str(one) for one in array.tolist())
    except (SystemError, ValueError):  # bytes that are no text
        raise FormatError(source, None, f"{name!r} holds invalid text", "write it with numpy.savez") from None
    if "" in names or not all(map(is_unicode, names)):
        raise FormatError(source, None, f"{name!r} has an empty name, or one that is not valid Unicode", "rename it")
    require_unique(source, names, None, name)
    return names


def _weights(array: npt.NDArray[np.generic], shape: tuple[int, int], source: str) -> Array:
    weights = _numbers(array, "weights", source)
    if weights.shape == shape[1:]:
        weights = np.tile(weights, (shape[0], 1))
    if weights.shape != shape:
        raise FormatError(source, None, f"'weights' has shape {weights.shape}", f"expected {shape}")
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise FormatError(
            source, None, "'weights' holds negative or infinite numbers", "expected numbers of at least 0"
        )
    return weights


def fill_in(data: bytes, before: LandmarkFile, filled: LandmarkFile) -> bytes | None:
    """Other arrays of the archive, and the type of the numbers, are kept."""
    if any(added_points(before, filled)):
        return None
    own, points = read_arrays(data, "", ["points"])["points"], HOLDS.stack_points(filled)
    if own.dtype.kind == "f":
        points = np.where(np.isnan(HOLDS.stack_points(before)), points, own).astype(own.dtype)
    return replace_array(data, "points", points)


def render(file: LandmarkFile) -> bytes:
    HOLDS.require(file)
    labels = file.clouds[0].labels
    names = [one.name for one in file.clouds]
    HOLDS.require_names([*names, *labels], _is_kept, "ends in a zero character, which NumPy strips")
    arrays: Arrays = {"points": HOLDS.stack_points(file), "names": np.array(names, dtype=np.str_)}
    if file.labelled:
        arrays["landmarks"] = np.array(labels, dtype=np.str_)
    if any(one.weights is not None for one in file.clouds):
        arrays["weights"] = np.stack(
            [np.ones(len(one.points)) if one.weights is None else one.weights for one in file.clouds]
        )
    return pack_arrays(arrays)


def _is_kept(text: str) -> bool:
    return not text.endswith("\0")

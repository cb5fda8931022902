"""NPZ: ``points`` (n, m, d) with NaN for unseen, optional ``names``, ``landmarks``, ``weights``.  Never pickled.

What an archive claims is read from its headers and checked before memory is taken for it.
"""

from __future__ import annotations

import io
import lzma
import zipfile
import zlib
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from ..errors import FormatError
from ..typing import Array
from .base import (
    Contents,
    Reading,
    Specimen,
    as_numbers,
    counted,
    is_unicode,
    refuse_repeats,
    refuse_unsound,
    require_whole_points,
    stacked,
)

SMALL = 1_000_000  # bytes that any file may grow to
MEMBERS = ("points", "names", "landmarks", "weights")
MOST_EXPANSION = 200  # times that what is read may be larger than the file: real clouds shrink to a tenth at best


def parse(data: bytes, source: str, reading: Reading) -> Contents:
    arrays = arrays_in(data, source, MEMBERS)
    if "points" not in arrays:
        found = ", ".join(sorted(arrays_in(data, source)))[:80] or "nothing"
        raise FormatError(source, None, f"found {found}", "expected an array 'points' (clouds, landmarks, 2 or 3)")
    points = _numbers(arrays["points"], "points", source)
    if points.ndim != 3 or points.shape[2] not in (2, 3) or 0 in points.shape:
        raise FormatError(source, None, f"points have shape {points.shape}", "expected (clouds, landmarks, 2 or 3)")
    require_whole_points(points, "'points'", source)
    n, m, _ = points.shape
    names = _names(arrays.get("names"), n, "names", source) or tuple(
        reading.name if n == 1 else f"{reading.name}_{t + 1}" for t in range(n)
    )
    labels = _names(arrays.get("landmarks"), m, "landmarks", source)
    weights = None if "weights" not in arrays else _weights(arrays["weights"], (n, m), source)
    return Contents(
        tuple(
            Specimen(names[t], points[t], labels or counted(m), None if weights is None else weights[t])
            for t in range(n)
        ),
        labels is not None,
    )


def render(contents: Contents) -> bytes:
    refuse_unsound(contents, "NPZ")
    arrays: dict[str, npt.NDArray[np.generic]] = {
        "points": stacked(contents, "NPZ"),
        "names": np.array([one.name for one in contents.specimens], dtype=np.str_),
    }
    for text in (*arrays["names"], *contents.specimens[0].labels):
        if str(text).endswith("\0"):
            raise FormatError("NPZ", None, f"the name {str(text)!r} ends in a zero character", "rename it")
    if contents.labelled:
        arrays["landmarks"] = np.array(contents.specimens[0].labels, dtype=np.str_)
    if any(one.weights is not None for one in contents.specimens):
        arrays["weights"] = np.stack(
            [np.ones(len(one.points)) if one.weights is None else one.weights for one in contents.specimens]
        )
    return packed(arrays)


def packed(arrays: dict[str, npt.NDArray[np.generic]]) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()


def arrays_in(data: bytes, source: str, wanted: Iterable[str] | None = None) -> dict[str, npt.NDArray[np.generic]]:
    """The arrays of an archive (those wanted); nothing is unpickled, and nothing is taken on trust."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            listed = archive.infolist()
            entries = {entry.filename.removesuffix(".npy"): entry for entry in listed}
            if len(entries) < len(listed):
                raise FormatError(source, None, "an array is in it twice", "the archive is broken")
            names = list(entries) if wanted is None else [name for name in wanted if name in entries]
            _require_plausible([entries[name] for name in names], len(data), source)
            return {name: _array(archive, entries[name], name, source) for name in names}
    except FormatError:
        raise
    except (
        zipfile.BadZipFile, zlib.error, lzma.LZMAError, ValueError, OSError, EOFError, NotImplementedError,
        RuntimeError, KeyError, SyntaxError, TypeError, IndexError, OverflowError, MemoryError, RecursionError,
    ) as error:  # whatever a broken archive makes of the standard library  # fmt: skip
        raise FormatError(source, None, f"not a readable NPZ file ({error})", "write it with numpy.savez") from error


def _require_plausible(entries: list[zipfile.ZipInfo], size: int, source: str) -> None:
    claimed = sum(entry.file_size for entry in entries)
    if claimed > MOST_EXPANSION * size + SMALL:
        raise FormatError(source, None, f"it claims {claimed:,} bytes in a file of {size:,}", "the archive is broken")


def _array(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, name: str, source: str) -> npt.NDArray[np.generic]:
    with archive.open(entry) as stream:
        version = np.lib.format.read_magic(stream)
        reader = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        if version not in reader:
            raise FormatError(source, None, f"{name!r} is of NPY version {version}", "expected 1.0 or 2.0")
        shape, _, dtype = reader[version](stream)
        if dtype.hasobject:
            raise FormatError(source, None, f"{name!r} holds Python objects", "expected numbers or text; save those")
        if dtype.kind not in "fiubU":
            raise FormatError(source, None, f"{name!r} is of type {dtype}", "expected numbers or text")
        needed = dtype.itemsize
        for extent in shape:
            needed *= int(extent)
        if needed < 0 or needed > entry.file_size:
            raise FormatError(
                source, None, f"{name!r} claims shape {shape} in {entry.file_size:,} bytes", "the archive is broken"
            )
    with archive.open(entry) as stream:
        return np.lib.format.read_array(stream, allow_pickle=False)


def _numbers(array: npt.NDArray[np.generic], name: str, source: str) -> Array:
    if array.dtype.kind not in "fiu":
        raise FormatError(source, None, f"{name!r} is of type {array.dtype}", "expected numbers")
    return as_numbers(array)


def _names(array: npt.NDArray[np.generic] | None, count: int, name: str, source: str) -> tuple[str, ...] | None:
    if array is None:
        return None
    if array.shape != (count,) or array.dtype.kind not in "Uiu":
        raise FormatError(
            source, None, f"{name!r} is of type {array.dtype} and shape {array.shape}", f"expected {count} texts"
        )
    try:
        names = tuple(str(one) for one in array.tolist())
    except (SystemError, ValueError):  # bytes that are no text
        raise FormatError(source, None, f"{name!r} holds no valid text", "write it with numpy.savez") from None
    if "" in names or not all(map(is_unicode, names)):
        raise FormatError(source, None, f"{name!r} has an empty name, or one that is no Unicode", "rename it")
    refuse_repeats(source, names, None, name)
    return names


def _weights(array: npt.NDArray[np.generic], shape: tuple[int, int], source: str) -> Array:
    weights = _numbers(array, "weights", source)
    if weights.shape == shape[1:]:
        weights = np.tile(weights, (shape[0], 1))
    if weights.shape != shape or not np.isfinite(weights).all() or (weights < 0).any():
        raise FormatError(
            source, None, f"'weights' have shape {weights.shape}", f"expected {shape}, each a number of at least 0"
        )
    return weights

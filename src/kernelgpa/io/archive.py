"""NPZ archives: arrays to bytes and back, without trust in what the bytes claim.

``numpy.load`` allocates the shape that a header claims before it reads the data, and unpacks an archive whatever its
size; here every claim is compared with the size of the file first.  Nothing is pickled or unpickled.
"""

from __future__ import annotations

import io
import math
import shutil
import zipfile
from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from ..errors import FormatError

ALWAYS_ALLOWED_BYTES = 1_000_000  # that any file may expand to
MOST_EXPANSION = 200  # factor by which a file may expand: real clouds are compressed to a tenth at best
HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}

Arrays = dict[str, npt.NDArray[np.generic]]


def most_expanded(size: int) -> int:
    """Return the bytes that a compressed file of ``size`` bytes may expand to."""
    return MOST_EXPANSION * size + ALWAYS_ALLOWED_BYTES


def pack_arrays(arrays: Mapping[str, npt.NDArray[np.generic]]) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()


def replace_array(data: bytes, name: str, array: npt.NDArray[np.generic]) -> bytes:
    """Return an archive with another array of a name; the others, of whatever type, are copied without being read."""
    buffer = io.BytesIO()
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive, zipfile.ZipFile(buffer, "w") as copy:
            for entry in archive.infolist():
                named = zipfile.ZipInfo(entry.filename, entry.date_time)
                named.compress_type = entry.compress_type
                with archive.open(entry) as source, copy.open(named, "w", force_zip64=True) as target:
                    if entry.filename.removesuffix(".npy") == name:
                        np.lib.format.write_array(target, array, allow_pickle=False)
                    else:
                        shutil.copyfileobj(source, target)  # in small parts
    except Exception as error:  # a corrupt archive can end in any exception of zipfile, zlib and lzma
        raise FormatError("", None, f"an array cannot be copied ({error})", "write it with numpy.savez") from error
    return buffer.getvalue()


def read_arrays(data: bytes, source: str, wanted: Iterable[str] | None = None) -> Arrays:
    """Return the arrays of an archive, or those of them that are wanted."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            listed = archive.infolist()
            entries = {entry.filename.removesuffix(".npy"): entry for entry in listed}
            if len(entries) < len(listed):
                raise FormatError(source, None, "an array occurs twice", "write the archive with numpy.savez")
            names = list(entries) if wanted is None else [name for name in wanted if name in entries]
            claimed = sum(entries[name].file_size for name in names)
            if claimed > most_expanded(len(data)):
                found = f"it claims {claimed:,} bytes in a file of {len(data):,} bytes"
                raise FormatError(source, None, found, "the archive is corrupt")
            return {name: _array(archive, entries[name], name, source) for name in names}
    except FormatError:
        raise
    except Exception as error:  # a corrupt archive can end in any exception of zipfile, zlib, lzma and numpy
        raise FormatError(source, None, f"not a readable NPZ file ({error})", "write it with numpy.savez") from error


def _array(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, name: str, source: str) -> npt.NDArray[np.generic]:
    with archive.open(entry) as stream:
        version = np.lib.format.read_magic(stream)
        if version not in HEADERS:
            raise FormatError(source, None, f"{name!r} is of NPY version {version}", "expected 1.0 or 2.0")
        shape, _, dtype = HEADERS[version](stream)
    if dtype.kind not in "fiubU":
        found = "holds Python objects" if dtype.hasobject else f"is of type {dtype}"
        raise FormatError(source, None, f"{name!r} {found}", "expected numbers or text")
    if not 0 <= dtype.itemsize * math.prod(map(int, shape)) <= entry.file_size:
        found = f"{name!r} claims shape {shape} in {entry.file_size:,} bytes"
        raise FormatError(source, None, found, "the archive is corrupt")
    with archive.open(entry) as stream:
        return np.lib.format.read_array(stream, allow_pickle=False)

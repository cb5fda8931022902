"""MATLAB cells: ``DataCell`` (1 x n, each d x m) and ``VisVecCell`` (1 x n, each 1 x m), of version 5 to 7.

Points in images, published as ``Corresp.ptsImg`` (1 x n, each 3 x m, homogeneous), are read too: their first two rows.
A file is a header of 128 bytes and elements; an element is a type, a length and the bytes, and may be compressed.
The reader is our own because SciPy's crashes on some corrupt files: it reads only cells, one struct around them and
real, full matrices, and checks every length.
"""

from __future__ import annotations

import io
import zlib
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

import numpy as np
from scipy.io import savemat

from ..errors import FormatError
from ..observations.arrays import finite_rows
from ..typing import Array
from .archive import most_expanded
from .capabilities import Capabilities
from .landmark_file import (
    LabelledCloud,
    LandmarkFile,
    ReadOptions,
    as_doubles,
    numbered_labels,
    numbered_names,
    require_complete_points,
)

HOLDS = Capabilities("MATLAB cells", names=False, labels=False)
HEADER_LENGTH = 128  # bytes
MOST_AXES = 32
MAT_TYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
MATRIX_TYPE, COMPRESSED_TYPE, CELL_CLASS, STRUCT_CLASS, COMPLEX_FLAG = 14, 15, 1, 2, 0x0800
NUMERIC_CLASSES = range(6, 16)  # classes of full matrices, double to uint64
SAVE_AS_V7 = "save it with save(..., '-v7')"


class Element(NamedTuple):
    type: int
    data: bytes


class Matrix(NamedTuple):
    """A variable: its cells (None for those that are not read), or its numbers, or its fields."""

    name: str
    shape: tuple[int, ...]
    cells: list[Matrix | None] | None = None
    numbers: Array | None = None  # flat, column by column
    fields: dict[str, Matrix] | None = None


@dataclass
class Stream:
    data: bytes
    source: str
    order: str = "<"
    at: int = 0

    def error(self, found: str) -> FormatError:
        return FormatError(self.source, None, found, SAVE_AS_V7)

    def take(self, count: int) -> bytes:
        if self.at + count > len(self.data):
            raise self.error("the file is truncated")
        self.at += count
        return self.data[self.at - count : self.at]

    def word(self) -> int:
        return int.from_bytes(self.take(4), "little" if self.order == "<" else "big")

    def element(self) -> Element:
        first = self.word()
        if first >> 16:  # a small one: its length in the upper half, its data in the next four bytes
            if first >> 16 > 4:
                raise self.error("an element has an invalid length")
            return Element(first & 0xFFFF, self.take(4)[: first >> 16])
        data = self.take(self.word())
        if first != COMPRESSED_TYPE:
            self.at = min(self.at + -len(data) % 8, len(self.data))
        return Element(first, data)

    def inside(self, data: bytes) -> Stream:
        return Stream(data, self.source, self.order)

    def numbers(self, element: Element) -> Array:
        kind = MAT_TYPES.get(element.type)
        if kind is None or len(element.data) % np.dtype(kind).itemsize:
            raise self.error(f"numbers of type {element.type} in {len(element.data)} bytes")
        return as_doubles(np.frombuffer(element.data, self.order + kind))


def parse(data: bytes, source: str, options: ReadOptions) -> LandmarkFile:
    variables = _variables(data, source)
    clouds = _clouds(variables, source)
    visible = _cells(variables["VisVecCell"], source) if "VisVecCell" in variables else None
    if visible is not None and len(visible) != len(clouds):
        found = f"{len(clouds)} cells of DataCell and {len(visible)} of VisVecCell"
        raise FormatError(source, None, found, "expected equally many")
    for t, points in enumerate(clouds):
        if visible is not None:
            points[~_seen(visible[t], len(points), f"VisVecCell{{{t + 1}}}", source)] = np.nan
    pairs = zip(numbered_names(options.name, len(clouds)), clouds, strict=True)
    made = tuple(LabelledCloud(*pair, numbered_labels(len(pair[1]))) for pair in pairs)
    return LandmarkFile(made, labelled=False).marking(options.missing)


def hidden_points(data: bytes, source: str) -> list[Array] | None:  # each (k, d)
    """Return the test points beside the clouds, ``LostDataCell`` (1 x n, each d x k), or None."""
    variables = _variables(data, source)
    return _points_of(variables["LostDataCell"], "LostDataCell", source) if "LostDataCell" in variables else None


def _clouds(variables: dict[str, Matrix], source: str) -> list[Array]:  # each (m, d)
    if "DataCell" in variables:
        return _points_of(variables["DataCell"], "DataCell", source)
    images = (variables["Corresp"].fields or {}).get("ptsImg") if "Corresp" in variables else None
    if images is not None:
        return [points[:, :2] for points in _points_of(images, "ptsImg", source)]
    found = f"there is no DataCell, only {', '.join(sorted(variables))[:80] or 'nothing'}"
    raise FormatError(source, None, found, "expected a cell array, 1 x n, of d x m matrices")


def _points_of(matrix: Matrix, name: str, source: str) -> list[Array]:
    return [_points(cell, f"{name}{{{t + 1}}}", source) for t, cell in enumerate(_cells(matrix, source))]


def _variables(data: bytes, source: str) -> dict[str, Matrix]:
    byte_order = data[126:128]
    if data.startswith(b"MATLAB 7.3"):
        raise FormatError(source, None, "the file is of version 7.3", SAVE_AS_V7)
    if len(data) < HEADER_LENGTH or byte_order not in (b"IM", b"MI"):
        raise FormatError(source, None, "the file is no MAT file of version 5 to 7", SAVE_AS_V7)
    stream = Stream(data, source, "<" if byte_order == b"IM" else ">", HEADER_LENGTH)
    variables = {}
    while stream.at < len(data):
        element = stream.element()
        if element.type == COMPRESSED_TYPE:
            element = stream.inside(_inflated(element.data, source)).element()
        if element.type == MATRIX_TYPE and element.data:
            matrix = _matrix(stream.inside(element.data), depth=0)
            if matrix is not None:
                variables[matrix.name] = matrix
    return variables


def _inflated(data: bytes, source: str) -> bytes:
    try:
        stream = zlib.decompressobj()
        inflated = stream.decompress(data, most_expanded(len(data)))  # a bomb ends here
    except zlib.error as error:
        raise FormatError(source, None, f"a compressed element is corrupt ({error})", SAVE_AS_V7) from None
    if stream.unconsumed_tail or not stream.eof:
        raise FormatError(source, None, "a compressed element is truncated, or expands too much", SAVE_AS_V7)
    return inflated


def _matrix(stream: Stream, depth: int) -> Matrix | None:
    """Return a variable, or None if it is neither cells nor a full real matrix."""
    flags = stream.numbers(stream.element())
    extents = stream.numbers(stream.element())
    if len(extents) > MOST_AXES or not (np.isfinite(extents).all() and np.isfinite(flags).all()):
        raise stream.error("a matrix has no valid size")
    shape = tuple(int(extent) for extent in extents)
    name = stream.element().data.decode("latin-1")
    if len(flags) != 2 or len(shape) < 2 or min(shape) < 0:
        raise stream.error("a matrix has no valid flags or size")
    kind, word = int(flags[0]) & 0xFF, int(flags[0])
    if kind == CELL_CLASS and depth < 2:
        if prod(shape) > len(stream.data):
            raise stream.error(f"{prod(shape)} cells in {len(stream.data)} bytes")
        cells = [_matrix(stream.inside(stream.element().data), depth + 1) for _ in range(prod(shape))]
        return Matrix(name, shape, cells=cells)
    if kind == STRUCT_CLASS and depth == 0 and prod(shape) == 1:
        return Matrix(name, shape, fields=_fields(stream))
    if kind not in NUMERIC_CLASSES or word & COMPLEX_FLAG:
        return None
    numbers = stream.numbers(stream.element())
    if len(numbers) != prod(shape):
        raise stream.error(f"{len(numbers)} numbers in a matrix of {' x '.join(map(str, shape))}")
    return Matrix(name, shape, numbers=numbers)


def _fields(stream: Stream) -> dict[str, Matrix]:
    length = stream.numbers(stream.element())
    names = stream.element().data
    if len(length) != 1 or not 0 < length[0] <= max(len(names), 1) or len(names) % int(length[0]):
        raise stream.error("a struct has no names of its fields")
    fields = {}
    for at in range(0, len(names), int(length[0])):
        field = _matrix(stream.inside(stream.element().data), depth=1)
        if field is not None:
            fields[names[at : at + int(length[0])].split(b"\0")[0].decode("latin-1")] = field
    return fields


def _cells(matrix: Matrix, source: str) -> list[Matrix | None]:
    if matrix.cells is None or len(matrix.shape) != 2 or 1 not in matrix.shape:
        raise FormatError(source, None, f"{matrix.name} is not a row of cells", "expected a cell array, 1 x n")
    return matrix.cells


def _points(cell: Matrix | None, name: str, source: str) -> Array:  # (m, d)
    if cell is None:
        raise FormatError(source, None, f"{name} is not a full, real matrix", "expected a matrix, 2 x m or 3 x m")
    size = " x ".join(map(str, cell.shape))
    if cell.numbers is None or len(cell.shape) != 2 or cell.shape[0] not in (2, 3):
        raise FormatError(source, None, f"{name} is {size}", "expected a matrix, 2 x m or 3 x m")
    points = cell.numbers.reshape(cell.shape, order="F").T.copy()
    require_complete_points(points, name, source)
    return points


def _seen(cell: Matrix | None, count: int, name: str, source: str) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    if cell is None or cell.numbers is None or len(cell.numbers) != count or not np.isin(cell.numbers, (0, 1)).all():
        raise FormatError(source, None, f"{name} does not match its cloud", f"expected {count} numbers, 0 or 1")
    return cell.numbers == 1


def render(file: LandmarkFile) -> bytes:
    HOLDS.require(file)
    data, visible = (np.empty((1, len(file.clouds)), dtype=object) for _ in range(2))
    for t, one in enumerate(file.clouds):
        seen = finite_rows(one.points)
        data[0, t], visible[0, t] = np.where(seen[:, None], one.points, 0.0).T, seen[None].astype(np.float64)
    buffer = io.BytesIO()
    savemat(buffer, {"DataCell": data, "VisVecCell": visible}, do_compression=True)
    return buffer.getvalue()

"""MATLAB cells: ``DataCell`` (1 x n, each d x m) and ``VisVecCell`` (1 x n, each 1 x m), of version 5 to 7.

Points in images, published as ``Corresp.ptsImg`` (1 x n, each 3 x m, homogeneous), are read too: their first two rows.
A file is a header of 128 bytes and elements; an element is a type, a length and so many bytes, and may be compressed.
Only cells, one struct around them and real, full matrices are read, with every length checked: SciPy's reader crashes
on some broken files.
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
from .base import (
    Contents,
    Reading,
    Specimen,
    as_numbers,
    counted,
    refuse_labels,
    refuse_unsound,
    refuse_weights,
    require_whole_points,
)
from .npz import MOST_EXPANSION, SMALL

HEADER = 128
MOST_AXES = 32
TYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
MATRIX, COMPRESSED, CELL, STRUCT, COMPLEX = 14, 15, 1, 2, 0x0800
NUMERIC = range(6, 16)  # classes of full matrices, double to uint64
REMEDY = "save it with save(..., '-v7')"


class Element(NamedTuple):
    type: int
    data: bytes


class Matrix(NamedTuple):
    """A variable: its cells (None for what is not read), or its numbers, or its fields."""

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

    def broken(self, found: str) -> FormatError:
        return FormatError(self.source, None, found, REMEDY)

    def take(self, count: int) -> bytes:
        if self.at + count > len(self.data):
            raise self.broken("the file is cut off")
        self.at += count
        return self.data[self.at - count : self.at]

    def word(self) -> int:
        return int.from_bytes(self.take(4), "little" if self.order == "<" else "big")

    def element(self) -> Element:
        first = self.word()
        if first >> 16:  # a small one: its length in the upper half, its data in the next four bytes
            if first >> 16 > 4:
                raise self.broken("an element of a wrong length")
            return Element(first & 0xFFFF, self.take(4)[: first >> 16])
        data = self.take(self.word())
        if first != COMPRESSED:
            self.at = min(self.at + -len(data) % 8, len(self.data))
        return Element(first, data)

    def inside(self, data: bytes) -> Stream:
        return Stream(data, self.source, self.order)

    def numbers(self, element: Element) -> Array:
        kind = TYPES.get(element.type)
        if kind is None or len(element.data) % np.dtype(kind).itemsize:
            raise self.broken(f"numbers of type {element.type} in {len(element.data)} bytes")
        return as_numbers(np.frombuffer(element.data, self.order + kind))


def parse(data: bytes, source: str, reading: Reading) -> Contents:
    variables = _variables(data, source)
    clouds = _clouds(variables, source)
    visible = _cells(variables["VisVecCell"], source) if "VisVecCell" in variables else None
    if visible is not None and len(visible) != len(clouds):
        raise FormatError(source, None, f"{len(clouds)} clouds and {len(visible)} visibilities", "expected as many")
    specimens = []
    for t, points in enumerate(clouds):
        if visible is not None:
            points[~_seen(visible[t], len(points), f"VisVecCell{{{t + 1}}}", source)] = np.nan
        specimens.append(Specimen(f"{reading.name}_{t + 1}", points, counted(len(points))))
    return Contents(tuple(specimens), labelled=False)


def hidden_points(data: bytes, source: str) -> list[Array] | None:  # each (k, d)
    """Points to test on, beside the clouds: ``LostDataCell`` (1 x n, each d x k); None where there are none."""
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
    mark = data[126:128]
    if data.startswith(b"MATLAB 7.3"):
        raise FormatError(source, None, "it is of version 7.3", REMEDY)
    if len(data) < HEADER or mark not in (b"IM", b"MI"):
        raise FormatError(source, None, "it is no MAT file of version 5 to 7", REMEDY)
    stream = Stream(data, source, "<" if mark == b"IM" else ">", HEADER)
    variables = {}
    while stream.at < len(data):
        element = stream.element()
        if element.type == COMPRESSED:
            element = stream.inside(_inflated(element.data, source)).element()
        if element.type == MATRIX and element.data:
            matrix = _matrix(stream.inside(element.data), depth=0)
            if matrix is not None:
                variables[matrix.name] = matrix
    return variables


def _inflated(data: bytes, source: str) -> bytes:
    most = MOST_EXPANSION * len(data) + SMALL
    try:
        stream = zlib.decompressobj()
        inflated = stream.decompress(data, most)
    except zlib.error as error:
        raise FormatError(source, None, f"a compressed element is broken ({error})", REMEDY) from None
    if stream.unconsumed_tail or not stream.eof:
        raise FormatError(source, None, "a compressed element is cut off, or grows beyond all measure", REMEDY)
    return inflated


def _matrix(stream: Stream, depth: int) -> Matrix | None:
    """None for what is neither cells nor a full real matrix."""
    flags = stream.numbers(stream.element())
    extents = stream.numbers(stream.element())
    if len(extents) > MOST_AXES or not (np.isfinite(extents).all() and np.isfinite(flags).all()):
        raise stream.broken("a matrix without a size")
    shape = tuple(int(extent) for extent in extents)
    name = stream.element().data.decode("latin-1")
    if len(flags) != 2 or len(shape) < 2 or min(shape) < 0:
        raise stream.broken("a matrix without flags or size")
    kind, word = int(flags[0]) & 0xFF, int(flags[0])
    if kind == CELL and depth < 2:
        if prod(shape) > len(stream.data):
            raise stream.broken(f"{prod(shape)} cells in {len(stream.data)} bytes")
        cells = [_matrix(stream.inside(stream.element().data), depth + 1) for _ in range(prod(shape))]
        return Matrix(name, shape, cells=cells)
    if kind == STRUCT and depth == 0 and prod(shape) == 1:
        return Matrix(name, shape, fields=_fields(stream))
    if kind not in NUMERIC or word & COMPLEX:
        return None
    numbers = stream.numbers(stream.element())
    if len(numbers) != prod(shape):
        raise stream.broken(f"{len(numbers)} numbers in a matrix of {' x '.join(map(str, shape))}")
    return Matrix(name, shape, numbers=numbers)


def _fields(stream: Stream) -> dict[str, Matrix]:
    length = stream.numbers(stream.element())
    names = stream.element().data
    if len(length) != 1 or not 0 < length[0] <= max(len(names), 1) or len(names) % int(length[0]):
        raise stream.broken("a struct without names of its fields")
    fields = {}
    for at in range(0, len(names), int(length[0])):
        field = _matrix(stream.inside(stream.element().data), depth=1)
        if field is not None:
            fields[names[at : at + int(length[0])].split(b"\0")[0].decode("latin-1")] = field
    return fields


def _cells(matrix: Matrix, source: str) -> list[Matrix | None]:
    if matrix.cells is None or len(matrix.shape) != 2 or 1 not in matrix.shape:
        raise FormatError(source, None, f"{matrix.name} is no row of cells", "expected a cell array, 1 x n")
    return matrix.cells


def _points(cell: Matrix | None, name: str, source: str) -> Array:  # (m, d)
    if cell is None:
        raise FormatError(source, None, f"{name} is no full, real matrix", "expected a matrix, 2 x m or 3 x m")
    size = " x ".join(map(str, cell.shape))
    if cell.numbers is None or len(cell.shape) != 2 or cell.shape[0] not in (2, 3):
        raise FormatError(source, None, f"{name} is {size}", "expected a matrix, 2 x m or 3 x m")
    points = cell.numbers.reshape(cell.shape, order="F").T.copy()
    require_whole_points(points, name, source)
    return points


def _seen(cell: Matrix | None, count: int, name: str, source: str) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    if cell is None or cell.numbers is None or len(cell.numbers) != count or not np.isin(cell.numbers, (0, 1)).all():
        raise FormatError(source, None, f"{name} does not fit its cloud", f"expected {count} numbers, 0 or 1")
    return cell.numbers == 1


def render(contents: Contents) -> bytes:
    refuse_unsound(contents, "MAT")
    refuse_weights(contents, "MAT")
    refuse_labels(contents, "MAT")
    data, visible = (np.empty((1, len(contents.specimens)), dtype=object) for _ in range(2))
    for t, one in enumerate(contents.specimens):
        seen = finite_rows(one.points)
        data[0, t], visible[0, t] = np.where(seen[:, None], one.points, 0.0).T, seen[None].astype(np.float64)
    buffer = io.BytesIO()
    savemat(buffer, {"DataCell": data, "VisVecCell": visible}, do_compression=True)
    return buffer.getvalue()

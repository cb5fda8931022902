"""Legacy VTK files, text and binary: the points and polygons of POLYDATA, the points and faces of UNSTRUCTURED_GRID.

The reader is our own: every count is compared with the size of the file, and no vertex is lost; see ``meshes``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from ..errors import FormatError
from ..typing import Array, IndexArray
from .landmark_file import LandmarkFile, ReadOptions, as_doubles
from .meshes import mesh_capabilities, mesh_file, single_mesh, to_stated_frame, triangulate
from .text import format_numbers, parse_number

HOLDS = mesh_capabilities("VTK")
VTK_TYPES = {
    "char": "i1", "unsigned_char": "u1", "short": "i2", "unsigned_short": "u2", "int": "i4", "unsigned_int": "u4",
    "long": "i8", "unsigned_long": "u8", "vtktypeint64": "i8", "vtkidtype": "i8", "float": "f4", "double": "f8",
}  # fmt: skip
DATASETS = ("POLYDATA", "UNSTRUCTURED_GRID")
CELL_SECTIONS = ("VERTICES", "LINES", "POLYGONS", "TRIANGLE_STRIPS", "CELLS")
SURFACE_CELLS = (5, 7, 9)  # triangle, polygon, quad
DATA_SECTIONS = ("POINT_DATA", "CELL_DATA")
LARGEST_INDEX = 1e12
VTK_WORD = re.compile(rb"\S+")
NumberArray = npt.NDArray[np.generic]


@dataclass
class Cursor:
    """A position in the file."""

    data: bytes
    source: str
    at: int = 0
    text: bool = True

    def error(self, found: str, expected: str) -> FormatError:
        return FormatError(self.source, self.data.count(b"\n", 0, self.at) + 1, found, expected)

    def line(self) -> str:
        end = self.data.find(b"\n", self.at)
        end = len(self.data) if end < 0 else end
        line = self.data[self.at : end].decode("latin-1").strip()
        self.at = min(end + 1, len(self.data))
        return line

    def words(self) -> list[str]:
        """Return the words of the next line that has any; none at the end of the file."""
        while self.at < len(self.data):
            words = self.line().split()
            if words:
                return words
        return []

    def count(self, word: str) -> int:
        if not word.isascii() or not word.isdigit() or len(word) > 12 or int(word) > len(self.data):
            raise self.error(f"found the count {word[:20]!r}", f"a file of {len(self.data)} bytes cannot hold that")
        return int(word)

    def numbers(self, count: int, type_: str) -> NumberArray:
        kind = VTK_TYPES.get(type_.lower())
        if kind is None:
            raise self.error(f"found the type {type_[:20]!r}", f"expected one of {', '.join(VTK_TYPES)}")
        return self._text_numbers(count, kind) if self.text else self._binary_numbers(count, ">" + kind)

    def _binary_numbers(self, count: int, kind: str) -> NumberArray:
        size = np.dtype(kind).itemsize * count
        if self.at + size > len(self.data):
            raise self.error(f"{count} numbers are announced", "the file is truncated")
        numbers = np.frombuffer(self.data, kind, count, self.at)
        self.at += size
        return numbers

    def _text_numbers(self, count: int, kind: str) -> NumberArray:
        words = list[bytes]()
        for found in VTK_WORD.finditer(self.data, self.at):
            if len(words) == count:
                break
            words.append(found.group())
            self.at = found.end()
        line = self.data.count(b"\n", 0, self.at) + 1  # of the last of them
        numbers = np.array([parse_number(word.decode("latin-1"), self.source, line) for word in words], dtype=float)
        integers = np.array_equal(numbers, np.rint(numbers)) and np.all(np.abs(numbers) < LARGEST_INDEX)
        if len(numbers) < count or (kind[0] in "iu" and not integers):
            raise self.error(f"found {len(numbers)} numbers", f"expected {count}, and integers for cells")
        return numbers


@dataclass
class _Dataset:
    points: Array = field(default_factory=lambda: np.zeros((0, 3)))
    polygons: list[list[int]] = field(default_factory=list)
    cells: list[list[int]] = field(default_factory=list)  # of an unstructured grid
    types: IndexArray | None = None  # of the cells
    notes: list[str] = field(default_factory=list)


def parse(data: bytes, source: str, options: ReadOptions) -> LandmarkFile:
    cursor = Cursor(data, source)
    if not cursor.line().startswith("# vtk DataFile Version"):
        raise FormatError(source, 1, "the first line is not that of a VTK file", "expected # vtk DataFile Version")
    title = cursor.line()  # in which Slicer writes the frame
    kind = cursor.line().upper()
    if kind not in ("ASCII", "BINARY"):
        raise cursor.error(f"found {kind[:20]!r}", "expected ASCII or BINARY")
    cursor.text = kind == "ASCII"
    words = cursor.words()
    if len(words) != 2 or words[0] != "DATASET" or words[1] not in DATASETS:
        raise cursor.error(f"found {' '.join(words)[:40]!r}", f"expected DATASET {' or '.join(DATASETS)}")
    dataset = _Dataset()
    while (words := cursor.words()) and words[0] not in DATA_SECTIONS:
        _read_section(cursor, words, dataset)
    _add_surface_cells(dataset, source)
    points, frame, converted = to_stated_frame(dataset.points, title)
    triangles = triangulate(dataset.polygons)
    return mesh_file(points, triangles, source, options, frame, (*converted, *dataset.notes))


def _read_section(cursor: Cursor, words: list[str], dataset: _Dataset) -> None:
    keyword = words[0]
    if keyword == "POINTS" and len(words) == 3:
        dataset.points = as_doubles(cursor.numbers(3 * cursor.count(words[1]), words[2])).reshape(-1, 3)
    elif keyword in CELL_SECTIONS and len(words) == 3:
        found = _cells(cursor, words)
        if keyword == "POLYGONS":
            dataset.polygons += found
        elif keyword == "TRIANGLE_STRIPS":
            dataset.polygons += [corners for strip in found for corners in _strip(strip)]
        elif keyword == "CELLS":
            dataset.cells = found
        else:
            dataset.notes.append(f"{len(found)} {keyword.lower()} ignored")
    elif keyword == "METADATA":
        while cursor.line():  # up to an empty line
            pass
    elif keyword == "CELL_TYPES" and len(words) == 2:
        dataset.types = cursor.numbers(cursor.count(words[1]), "int").astype(np.intp)
    elif keyword == "FIELD":
        raise cursor.error("fields precede the points", "save the mesh without field data")
    else:
        raise cursor.error(f"found {keyword[:20]!r}", f"expected POINTS, {', '.join(CELL_SECTIONS)} or CELL_TYPES")


def _add_surface_cells(dataset: _Dataset, source: str) -> None:
    """Add those cells of an unstructured grid that are faces to the polygons."""
    if dataset.types is None:
        return
    cells, types = dataset.cells, dataset.types
    if len(types) != len(cells):
        raise FormatError(source, None, f"{len(cells)} cells and {len(types)} types", "the file is corrupt")
    faces = [cell for cell, type_ in zip(cells, types, strict=True) if type_ in SURFACE_CELLS]
    if len(faces) < len(cells):
        dataset.notes.append(f"{len(cells) - len(faces)} cells ignored because they are no faces")
    dataset.polygons += faces


def _strip(strip: list[int]) -> list[list[int]]:
    """Return the triangles of a strip, every second one reversed so that all have the same orientation."""
    corners = [strip[i : i + 3] for i in range(len(strip) - 2)]
    return [one if i % 2 == 0 else [one[1], one[0], one[2]] for i, one in enumerate(corners)]


def _cells(cursor: Cursor, words: list[str]) -> list[list[int]]:
    first, second = cursor.count(words[1]), cursor.count(words[2])
    start = cursor.at
    following = cursor.words()
    if following[:1] == ["OFFSETS"] and len(following) == 2:  # version 5
        return _cells_by_offsets(cursor, first, second, following[1])
    cursor.at = start
    numbers, cells, at = cursor.numbers(second, "int").astype(np.intp), list[list[int]](), 0
    for _ in range(first):
        if at >= len(numbers) or not 0 <= numbers[at] < len(numbers) - at:
            raise cursor.error("the cells do not fill their list", "the file is corrupt")
        cells.append(numbers[at + 1 : at + 1 + numbers[at]].tolist())
        at += 1 + int(numbers[at])
    return cells


def _cells_by_offsets(cursor: Cursor, count: int, corner_count: int, type_: str) -> list[list[int]]:
    """Read where each cell begins, then the corners of all cells."""
    offsets = cursor.numbers(count, type_).astype(np.intp)
    words = cursor.words()
    if words[:1] != ["CONNECTIVITY"] or len(words) != 2:
        raise cursor.error("there is no CONNECTIVITY", "expected it after OFFSETS")
    corners = cursor.numbers(corner_count, words[1]).astype(np.intp)
    if len(offsets) and (np.any(np.diff(offsets) < 0) or offsets[0] != 0 or offsets[-1] > len(corners)):
        raise cursor.error("the offsets are not in order", "the file is corrupt")
    return [corners[begin:end].tolist() for begin, end in pairwise(offsets)]


def render(file: LandmarkFile) -> bytes:
    vertices, faces = single_mesh(file, HOLDS)
    title = f"kernelgpa SPACE={file.frame}" if file.frame else "kernelgpa"
    rows = ["# vtk DataFile Version 3.0", title, "ASCII", "DATASET POLYDATA", f"POINTS {len(vertices)} double"]
    rows += map(format_numbers, vertices)
    if len(faces):
        rows.append(f"POLYGONS {len(faces)} {4 * len(faces)}")
        rows += [f"3 {' '.join(map(str, face))}" for face in faces]
    return ("\n".join(rows) + "\n").encode()

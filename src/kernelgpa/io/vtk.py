"""Legacy VTK files, text and binary: the points and polygons of POLYDATA, the points and faces of UNSTRUCTURED_GRID."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from ..errors import FormatError
from ..typing import IndexArray
from .base import Contents, Reading, as_numbers, number_in, text_of
from .surfaces import fans, in_lps, one_mesh, surface

TYPES = {
    "char": "i1", "unsigned_char": "u1", "short": "i2", "unsigned_short": "u2", "int": "i4", "unsigned_int": "u4",
    "long": "i8", "unsigned_long": "u8", "vtktypeint64": "i8", "vtkidtype": "i8", "float": "f4", "double": "f8",
}  # fmt: skip
DATASETS = ("POLYDATA", "UNSTRUCTURED_GRID")
CELLS = ("VERTICES", "LINES", "POLYGONS", "TRIANGLE_STRIPS", "CELLS")
SURFACE_CELLS = (5, 7, 9)  # triangle, polygon, quad
END = ("POINT_DATA", "CELL_DATA")
MOST = 1e12  # a number of a vertex beyond is none
WORD = re.compile(rb"\S+")
Numbers = npt.NDArray[np.generic]


@dataclass
class Cursor:
    """A place in the file."""

    data: bytes
    source: str
    at: int = 0
    text: bool = True

    def wrong(self, found: str, expected: str) -> FormatError:
        return FormatError(self.source, self.data.count(b"\n", 0, self.at) + 1, found, expected)

    def line(self) -> str:
        end = self.data.find(b"\n", self.at)
        end = len(self.data) if end < 0 else end
        line = self.data[self.at : end].decode("latin-1").strip()
        self.at = min(end + 1, len(self.data))
        return line

    def words(self) -> list[str]:
        """Those of the next line that has any; none at the end of the file."""
        while self.at < len(self.data):
            words = self.line().split()
            if words:
                return words
        return []

    def count(self, word: str) -> int:
        if not word.isascii() or not word.isdigit() or len(word) > 12 or int(word) > len(self.data):
            raise self.wrong(f"found the count {word[:20]!r}", f"a file of {len(self.data)} bytes cannot hold that")
        return int(word)

    def numbers(self, count: int, type_: str) -> Numbers:
        kind = TYPES.get(type_.lower())
        if kind is None:
            raise self.wrong(f"found the type {type_[:20]!r}", f"expected one of {', '.join(TYPES)}")
        return self._text_numbers(count, kind) if self.text else self._binary_numbers(count, ">" + kind)

    def _binary_numbers(self, count: int, kind: str) -> Numbers:
        size = np.dtype(kind).itemsize * count
        if self.at + size > len(self.data):
            raise self.wrong(f"{count} numbers are announced", "the file is cut off")
        numbers = np.frombuffer(self.data, kind, count, self.at)
        self.at += size
        return numbers

    def _text_numbers(self, count: int, kind: str) -> Numbers:
        words = list[bytes]()
        for found in WORD.finditer(self.data, self.at):
            if len(words) == count:
                break
            words.append(found.group())
            self.at = found.end()
        line = self.data.count(b"\n", 0, self.at) + 1  # of the last of them
        numbers = np.array([number_in(word.decode("latin-1"), self.source, line) for word in words], dtype=np.float64)
        whole = np.array_equal(numbers, np.rint(numbers)) and np.all(np.abs(numbers) < MOST)
        if len(numbers) < count or (kind[0] in "iu" and not whole):
            raise self.wrong(f"{len(numbers)} numbers", f"expected {count}, whole ones for cells")
        return numbers


def parse(data: bytes, source: str, reading: Reading) -> Contents:
    cursor = Cursor(data, source)
    if not cursor.line().startswith("# vtk DataFile Version"):
        raise FormatError(source, 1, "the first line is not that of a VTK file", "expected # vtk DataFile Version")
    title = cursor.line()  # in which Slicer writes the frame
    kind = cursor.line().upper()
    if kind not in ("ASCII", "BINARY"):
        raise cursor.wrong(f"found {kind[:20]!r}", "expected ASCII or BINARY")
    cursor.text = kind == "ASCII"
    dataset = cursor.words()
    if len(dataset) != 2 or dataset[0] != "DATASET" or dataset[1] not in DATASETS:
        raise cursor.wrong(f"found {' '.join(dataset)[:40]!r}", f"expected DATASET {' or '.join(DATASETS)}")
    points, polygons, cells, types = np.zeros((0, 3)), list[list[int]](), list[list[int]](), None
    notes: list[str] = []
    while (words := cursor.words()) and words[0] not in END:
        if words[0] == "POINTS" and len(words) == 3:
            points = as_numbers(cursor.numbers(3 * cursor.count(words[1]), words[2])).reshape(-1, 3)
        elif words[0] in CELLS and len(words) == 3:
            found = _cells(cursor, words)
            if words[0] == "POLYGONS":
                polygons += found
            elif words[0] == "TRIANGLE_STRIPS":
                polygons += [corners for strip in found for corners in _strip(strip)]
            elif words[0] == "CELLS":
                cells = found
            else:
                notes.append(f"{len(found)} {words[0].lower()} left out")
        elif words[0] == "METADATA":
            while cursor.line():  # up to an empty line
                pass
        elif words[0] == "CELL_TYPES" and len(words) == 2:
            types = cursor.numbers(cursor.count(words[1]), "int").astype(np.intp)
        elif words[0] == "FIELD":
            raise cursor.wrong("fields before the points", "save the mesh without field data")
        else:
            raise cursor.wrong(f"found {words[0][:20]!r}", f"expected POINTS, {', '.join(CELLS)} or CELL_TYPES")
    if types is not None:
        if len(types) != len(cells):
            raise FormatError(source, None, f"{len(cells)} cells and {len(types)} types", "the file is broken")
        flat = [cell for cell, type_ in zip(cells, types, strict=True) if type_ in SURFACE_CELLS]
        notes += [f"{len(cells) - len(flat)} cells that are no faces left out"] if len(flat) < len(cells) else []
        polygons += flat
    points, frame, converted = in_lps(points, title)
    return surface(points, _triangles(polygons), source, reading, frame, (*converted, *notes))


def _strip(strip: list[int]) -> list[list[int]]:
    """Triangles of a strip, every second one turned so that all face one way."""
    corners = [strip[i : i + 3] for i in range(len(strip) - 2)]
    return [one if i % 2 == 0 else [one[1], one[0], one[2]] for i, one in enumerate(corners)]


def _triangles(polygons: list[list[int]]) -> IndexArray:
    return fans([one for one in polygons if len(one) >= 3])


def _cells(cursor: Cursor, words: list[str]) -> list[list[int]]:
    first, second = cursor.count(words[1]), cursor.count(words[2])
    here = cursor.at
    following = cursor.words()
    if following[:1] == ["OFFSETS"] and len(following) == 2:  # version 5: where each cell begins, then all corners
        offsets = cursor.numbers(first, following[1]).astype(np.intp)
        following = cursor.words()
        if following[:1] != ["CONNECTIVITY"] or len(following) != 2:
            raise cursor.wrong("no CONNECTIVITY", "expected it after OFFSETS")
        corners = cursor.numbers(second, following[1]).astype(np.intp)
        if len(offsets) and (np.any(np.diff(offsets) < 0) or offsets[0] != 0 or offsets[-1] > len(corners)):
            raise cursor.wrong("offsets out of order", "the file is broken")
        return [corners[begin:end].tolist() for begin, end in pairwise(offsets)]
    cursor.at = here
    numbers, cells, at = cursor.numbers(second, "int").astype(np.intp), list[list[int]](), 0
    for _ in range(first):
        if at >= len(numbers) or not 0 <= numbers[at] < len(numbers) - at:
            raise cursor.wrong("cells that do not fill their list", "the file is broken")
        cells.append(numbers[at + 1 : at + 1 + numbers[at]].tolist())
        at += 1 + int(numbers[at])
    return cells


def render(contents: Contents) -> bytes:
    vertices, faces = one_mesh(contents, "VTK")
    title = f"kernelgpa SPACE={contents.frame}" if contents.frame else "kernelgpa"
    rows = ["# vtk DataFile Version 3.0", title, "ASCII", "DATASET POLYDATA", f"POINTS {len(vertices)} double"]
    rows += [" ".join(map(text_of, vertex)) for vertex in vertices]
    if len(faces):
        rows.append(f"POLYGONS {len(faces)} {4 * len(faces)}")
        rows += [f"3 {' '.join(map(str, face))}" for face in faces]
    return ("\n".join(rows) + "\n").encode()

"""PLY, text and binary: vertices with x, y, z, and faces.  A comment ``SPACE=LPS`` or ``RAS`` states the frame.

The reader is our own: every count is compared with the size of the file, and no vertex is lost; see ``meshes``.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ..errors import FormatError
from ..observations.tables import AXES
from ..typing import Array, IndexArray
from .landmark_file import LandmarkFile, ReadOptions, as_doubles
from .meshes import mesh_capabilities, mesh_file, single_mesh, to_stated_frame, triangulate
from .text import Lines, short_repr

HOLDS = mesh_capabilities("PLY")
PLY_TYPES = {
    "char": "i1", "uchar": "u1", "short": "i2", "ushort": "u2", "int": "i4", "uint": "u4", "float": "f4",
    "int8": "i1", "uint8": "u1", "int16": "i2", "uint16": "u2", "int32": "i4", "uint32": "u4", "float32": "f4",
    "double": "f8", "float64": "f8",
}  # fmt: skip
BYTE_ORDERS = {"ascii": "=", "binary_little_endian": "<", "binary_big_endian": ">"}
CORNER_LISTS = ("vertex_indices", "vertex_index")


@dataclass
class PlyElement:
    """Rows with the same properties; ``lists`` holds the type of the count and of the entries of each list."""

    name: str
    count: int
    scalars: dict[str, str] = field(default_factory=dict)
    lists: dict[str, tuple[str, str]] = field(default_factory=dict)


@dataclass
class Header:
    order: str = ""
    elements: list[PlyElement] = field(default_factory=list)
    comments: list[str] = field(default_factory=list)


def parse(data: bytes, source: str, options: ReadOptions) -> LandmarkFile:
    end = data.find(b"end_header")
    after = data.find(b"\n", end)
    if not data.startswith(b"ply") or end < 0 or after < 0:
        raise FormatError(source, 1, "the file has no PLY header", "expected ply ... end_header")
    header = _header(Lines(source, data[:end].decode("latin-1")))
    body = data[after + 1 :]
    if header.order == "ascii":
        vertices, faces = _text_rows(body, header, data[:after].count(b"\n") + 1, source)
    else:
        vertices, faces = _binary(body, header, source)
    vertices, frame, notes = to_stated_frame(vertices, "\n".join(header.comments))
    return mesh_file(vertices, faces, source, options, frame, notes)


def _header(lines: Lines) -> Header:
    header = Header()
    while lines.has_more():
        line = lines.next("a line of the header")
        words = line.split()
        if words[:1] == ["format"] and len(words) == 3 and words[1] in BYTE_ORDERS:
            header.order = words[1]
        elif words[:1] == ["element"] and len(words) == 3:
            header.elements.append(PlyElement(words[1], lines.parse_count(words[2], "rows")))
        elif words[:1] == ["property"]:
            _add_property(words, header, lines)
        elif words[:1] == ["comment"]:
            header.comments.append(line)
        elif words[:1] not in (["ply"], ["obj_info"], []):
            raise lines.error(f"found {short_repr(line)}", "expected format, element, property or comment")
    names = [element.name for element in header.elements]
    if not header.order or names.count("vertex") != 1:
        raise lines.error("the header has no format, or not exactly one element vertex", "the header is corrupt")
    vertex = header.elements[names.index("vertex")]
    if vertex.lists or not set(AXES) <= set(vertex.scalars):
        raise lines.error(
            f"vertices have {', '.join(vertex.scalars) or 'nothing'}", "expected x, y and z, and no lists"
        )
    return header


def _add_property(words: list[str], header: Header, lines: Lines) -> None:
    element = header.elements[-1] if header.elements else None
    if element is not None and words[-1] not in {**element.scalars, **element.lists}:
        if len(words) == 3 and words[1] in PLY_TYPES:
            element.scalars[words[2]] = PLY_TYPES[words[1]]
            return
        if len(words) == 5 and words[1] == "list" and words[2] in PLY_TYPES and words[3] in PLY_TYPES:
            element.lists[words[4]] = (PLY_TYPES[words[2]], PLY_TYPES[words[3]])
            return
    raise lines.error(f"found {short_repr(' '.join(words))}", "expected property TYPE NAME, once, after its element")


Mesh = tuple[Array, IndexArray]


def _text_rows(body: bytes, header: Header, before: int, source: str) -> Mesh:
    lines = Lines(source, "\n" * before + body.decode("latin-1"), before)
    vertices, polygons = np.zeros((0, 3)), list[list[int]]()
    for element in header.elements:
        lines.require_lines(element.count, f"rows of {element.name}")
        rows = []
        for _ in range(element.count):
            words = lines.next(f"a row of {element.name}").split()
            if element.name == "vertex":
                rows.append(_text_vertex(words, element, lines))
            elif element.name == "face":
                polygons.append(_text_face(words, element, lines))
        if element.name == "vertex":
            vertices = np.array(rows).reshape(-1, 3)
    return vertices, triangulate(polygons)


def _text_vertex(words: list[str], element: PlyElement, lines: Lines) -> list[float]:
    if len(words) != len(element.scalars):
        raise lines.error(f"found {len(words)} numbers", f"expected {len(element.scalars)}")
    row = dict(zip(element.scalars, words, strict=True))
    return [lines.parse_number(row[axis]) for axis in AXES]


def _text_face(words: list[str], element: PlyElement, lines: Lines) -> list[int]:
    if list(element.lists)[:1] not in ([name] for name in CORNER_LISTS) or element.scalars:
        raise lines.error("faces have other properties before their corners", "expected a list vertex_indices alone")
    count = lines.parse_count(words[0], "corners") if words else 0
    if not 3 <= count <= len(words) - 1:
        raise lines.error(f"a face of {count} corners", "expected three or more, all of them in the line")
    return [lines.parse_count(word, "the vertex") for word in words[1 : count + 1]]


def _binary(body: bytes, header: Header, source: str) -> Mesh:
    order, at = BYTE_ORDERS[header.order], 0
    vertices, faces = np.zeros((0, 3)), np.zeros((0, 3), dtype=np.intp)
    for element in header.elements:
        if element.lists:
            polygons, at = _binary_lists(body, at, element, order, source)
            if element.name == "face":
                faces = polygons
            continue
        kind = np.dtype([(name, order + type_) for name, type_ in element.scalars.items()])
        rows = _rows_at(body, at, kind, element.count, source)
        at += rows.nbytes
        if element.name == "vertex":
            vertices = np.column_stack([as_doubles(rows[axis]) for axis in AXES])
    return vertices, faces


def _rows_at(body: bytes, at: int, kind: np.dtype[np.void], count: int, source: str) -> npt.NDArray[np.void]:
    if not kind.itemsize or at + kind.itemsize * count > len(body):
        raise FormatError(source, None, f"{count} rows do not fit into the {len(body)} bytes", "the file is truncated")
    return np.frombuffer(body, kind, count, at)


def _binary_lists(body: bytes, at: int, element: PlyElement, order: str, source: str) -> tuple[IndexArray, int]:
    """Read faces: triangles all at once, other polygons one by one."""
    if len(element.lists) > 1 or (element.name == "face" and next(iter(element.lists)) not in CORNER_LISTS):
        raise FormatError(
            source, None, f"{element.name} has lists {', '.join(element.lists)}", "expected one list, of corners"
        )
    (name, (counts, entries)) = next(iter(element.lists.items()))
    named = {**element.scalars, name: ""}  # scalars may precede the list, but not follow it
    if list(named)[-1] != name:
        raise FormatError(source, None, f"{element.name} has properties after its list", "expected the list last")
    before = [(key, order + type_) for key, type_ in element.scalars.items()]
    head = np.dtype([*before, ("count", order + counts)])
    three = np.dtype([*before, ("count", order + counts), ("corners", order + entries, (3,))])
    if at + three.itemsize * element.count <= len(body):
        rows = np.frombuffer(body, three, element.count, at)
        if np.all(rows["count"] == 3):
            return rows["corners"].astype(np.intp).reshape(-1, 3), at + rows.nbytes
    polygons: list[list[int]] = []
    size = np.dtype(entries).itemsize
    for _ in range(element.count):
        count = int(_rows_at(body, at, head, 1, source)["count"][0])
        at += head.itemsize
        if count < 0 or at + count * size > len(body):
            raise FormatError(source, None, f"a list of {count} entries", "the file is truncated")
        polygons.append(np.frombuffer(body, order + entries, count, at).astype(np.intp).tolist())
        at += count * size
    return triangulate(polygons), at


def render(file: LandmarkFile) -> bytes:
    vertices, faces = single_mesh(file, HOLDS)
    space = f"comment SPACE={file.frame}\n" if file.frame else ""
    properties = "".join(f"property double {axis}\n" for axis in AXES)
    header = (
        f"ply\nformat binary_little_endian 1.0\n{space}element vertex {len(vertices)}\n{properties}"
        f"element face {len(faces)}\nproperty list uchar int vertex_indices\nend_header\n"
    )
    rows = np.zeros(len(faces), np.dtype([("count", "u1"), ("corners", "<i4", (3,))]))
    rows["count"], rows["corners"] = 3, faces
    return header.encode() + vertices.astype("<f8").tobytes() + rows.tobytes()

"""STL: triangles with the coordinates of their corners, binary or text.

The format has no vertices.  Corners with equal coordinates become one vertex, numbered in the order in which they first
appear; therefore files with the same triangles in the same order are in correspondence.

The reader is our own because the order of the vertices must not depend on a library; see ``meshes``.
"""

from __future__ import annotations

import numpy as np

from ..errors import FormatError
from ..typing import Array
from .landmark_file import LandmarkFile, ReadOptions, as_doubles
from .meshes import mesh_capabilities, mesh_file, single_mesh, to_stated_frame
from .text import Lines, decode_utf8

HOLDS = mesh_capabilities(
    "STL", precision="double precision, nor vertices in another order than that of their first appearance"
)
HEADER_BYTES, TRIANGLE_BYTES = 84, 50
NOTE = "an STL file holds corners, not vertices; equal corners became one vertex, in the order of their appearance"
BINARY = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])


def parse(data: bytes, source: str, options: ReadOptions) -> LandmarkFile:
    count = int.from_bytes(data[80:84], "little")
    binary = (
        len(data) >= HEADER_BYTES and len(data) == HEADER_BYTES + TRIANGLE_BYTES * count
    )  # may begin with "solid" too
    if binary:
        corners = as_doubles(np.frombuffer(data, BINARY, count, HEADER_BYTES)["corners"])
    elif data[:512].lstrip()[:5].lower() == b"solid":
        corners = _text_corners(Lines(source, decode_utf8(data, source)))
    else:
        raise FormatError(
            source, None, f"{count} triangles in {len(data)} bytes", "the file is truncated, or is no STL file"
        )
    header = data[:80].decode("latin-1") if binary else data[:512].decode("latin-1").split("\n")[0]
    flat, frame, converted = to_stated_frame(corners.reshape(-1, 3), header)
    if not np.isfinite(flat).all():
        raise FormatError(source, None, "some corners are not finite", "expected numbers")
    _, first, which = np.unique(flat, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    renumbered = np.empty(len(order), dtype=np.intp)
    renumbered[order] = np.arange(len(order))
    faces = renumbered[which.ravel()].reshape(-1, 3)
    return mesh_file(flat[np.sort(first)], faces, source, options, frame, (*converted, NOTE))


def _text_corners(lines: Lines) -> Array:  # (f, 3, 3)
    corners: list[list[float]] = []
    while lines.has_more():
        words = lines.next("a line").split()
        if words and words[0].lower() == "vertex":
            if len(words) != 4:
                raise lines.error(f"found {len(words) - 1} numbers", "expected vertex x y z")
            corners.append([lines.parse_number(word) for word in words[1:]])
        elif words and words[0].lower() == "endfacet" and len(corners) % 3:
            raise lines.error("a facet without three corners", "expected a triangle")
    if len(corners) % 3:
        raise lines.error("the last facet does not have three corners", "the file is truncated")
    return np.array(corners).reshape(-1, 3, 3)


def render(file: LandmarkFile) -> bytes:
    vertices, faces = single_mesh(file, HOLDS)
    if not len(faces):
        raise HOLDS.error("there are no faces", "write points alone to PLY or CSV")
    if len(np.unique(faces)) < len(vertices):
        raise HOLDS.error("some vertices are in no face, and the format holds faces only", "write PLY instead")
    triangles = np.zeros(len(faces), BINARY)
    triangles["corners"] = vertices[faces]
    first, second = (vertices[faces[:, i]] - vertices[faces[:, 0]] for i in (1, 2))
    normals = np.cross(first, second)
    lengths = np.linalg.norm(normals, axis=1, keepdims=True)
    triangles["normal"] = np.divide(normals, lengths, out=np.zeros_like(normals), where=lengths > 0)
    title = f"kernelgpa SPACE={file.frame}" if file.frame else "kernelgpa"
    return title.encode().ljust(80, b" ") + len(faces).to_bytes(4, "little") + triangles.tobytes()

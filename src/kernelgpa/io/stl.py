"""STL: triangles with their corners written out, binary or text.

The format knows no vertices.  Corners with equal coordinates are one vertex, counted in the order in which they first
appear, so files with the same triangles in the same order are in correspondence.
"""

from __future__ import annotations

import numpy as np

from ..errors import FormatError
from ..typing import Array
from .base import Contents, Lines, Reading, as_numbers
from .surfaces import decoded, in_lps, one_mesh, surface

HEADER, TRIANGLE = 84, 50  # bytes
NOTE = "an STL file holds corners, not vertices; equal corners were made one, in the order of their appearance"
BINARY = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])


def parse(data: bytes, source: str, reading: Reading) -> Contents:
    count = int.from_bytes(data[80:84], "little")
    binary = len(data) >= HEADER and len(data) == HEADER + TRIANGLE * count  # which may begin with "solid" too
    if binary:
        corners = as_numbers(np.frombuffer(data, BINARY, count, HEADER)["corners"])
    elif data[:512].lstrip()[:5].lower() == b"solid":
        corners = _text_corners(Lines(source, decoded(data, source)))
    else:
        raise FormatError(source, None, f"{count} triangles in {len(data)} bytes", "the file is cut off or no STL")
    header = data[:80].decode("latin-1") if binary else data[:512].decode("latin-1").split("\n")[0]
    flat, frame, converted = in_lps(corners.reshape(-1, 3), header)
    if not np.isfinite(flat).all():
        raise FormatError(source, None, "some corners are not finite", "expected numbers")
    _, first, which = np.unique(flat, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    renumbered = np.empty(len(order), dtype=np.intp)
    renumbered[order] = np.arange(len(order))
    faces = renumbered[which.ravel()].reshape(-1, 3)
    return surface(flat[np.sort(first)], faces, source, reading, frame, (*converted, NOTE))


def _text_corners(lines: Lines) -> Array:  # (f, 3, 3)
    corners: list[list[float]] = []
    while lines.more():
        words = lines.next("a line").split()
        if words and words[0].lower() == "vertex":
            if len(words) != 4:
                raise lines.wrong(f"{len(words) - 1} numbers", "expected vertex x y z")
            corners.append([lines.number_in(word) for word in words[1:]])
        elif words and words[0].lower() == "endfacet" and len(corners) % 3:
            raise lines.wrong("a facet without three corners", "expected a triangle")
    if len(corners) % 3:
        raise lines.wrong("the last facet has no three corners", "the file is cut off")
    return np.array(corners).reshape(-1, 3, 3)


def render(contents: Contents) -> bytes:
    vertices, faces = one_mesh(contents, "STL")
    if not len(faces):
        raise FormatError("STL", None, "there are no faces", "points alone are written to PLY or CSV")
    if len(np.unique(faces)) < len(vertices):
        raise FormatError(
            "STL", None, "some vertices are in no face, and the format knows faces only", "write PLY instead"
        )
    triangles = np.zeros(len(faces), BINARY)
    triangles["corners"] = vertices[faces]
    along = [vertices[faces[:, i]] - vertices[faces[:, 0]] for i in (1, 2)]
    across = np.cross(along[0], along[1])
    lengths = np.linalg.norm(across, axis=1, keepdims=True)
    triangles["normal"] = np.divide(across, lengths, out=np.zeros_like(across), where=lengths > 0)
    title = f"kernelgpa SPACE={contents.frame}" if contents.frame else "kernelgpa"
    return title.encode().ljust(80, b" ") + len(faces).to_bytes(4, "little") + triangles.tobytes()

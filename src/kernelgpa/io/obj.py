"""Wavefront OBJ: lines ``v x y z`` and ``f i j k ...``, numbered from 1; other lines are ignored.

The reader is our own because no vertex may be merged or dropped; see ``meshes``.
"""

from __future__ import annotations

import numpy as np

from .landmark_file import LandmarkFile, ReadOptions
from .meshes import mesh_capabilities, mesh_file, single_mesh, to_stated_frame, triangulate
from .text import Lines, decode_utf8, format_numbers, short_repr

HOLDS = mesh_capabilities("OBJ")


def parse(data: bytes, source: str, options: ReadOptions) -> LandmarkFile:
    lines = Lines(source, decode_utf8(data, source))
    vertices: list[list[float]] = []
    polygons: list[list[int]] = []
    comments: list[str] = []
    while lines.has_more():
        words = lines.next("a line").split()
        if words[:1] == ["v"]:
            if len(words) not in (4, 5, 7, 8):  # with a fourth coordinate or a colour
                raise lines.error(f"found {len(words) - 1} numbers", "expected v x y z")
            vertices.append([lines.parse_number(word) for word in words[1:4]])
        elif words[:1] == ["f"]:
            if len(words) < 4:
                raise lines.error(f"a face of {len(words) - 1} corners", "expected three or more")
            polygons.append([_corner(word, len(vertices), lines) for word in words[1:]])
        elif words[:1] and words[0].startswith("#"):
            comments.append(" ".join(words))
    points, frame, notes = to_stated_frame(np.array(vertices).reshape(-1, 3), "\n".join(comments))
    return mesh_file(points, triangulate(polygons), source, options, frame, notes)


def _corner(word: str, count: int, lines: Lines) -> int:
    """Return a vertex index from 0; negative numbers count back from the last vertex so far."""
    text = word.split("/")[0]
    try:
        number = int(text) if len(text) <= 12 and text.isascii() and "_" not in text else 0
    except ValueError:
        number = 0
    if number == 0 or number < -count:
        raise lines.error(f"found {short_repr(word)}", "expected the number of a vertex")
    return number - 1 if number > 0 else count + number


def render(file: LandmarkFile) -> bytes:
    vertices, faces = single_mesh(file, HOLDS)
    rows = [f"# SPACE={file.frame}"] if file.frame else []
    rows += [f"v {format_numbers(vertex)}" for vertex in vertices]
    rows += [f"f {' '.join(str(i + 1) for i in face)}" for face in faces]
    return ("\n".join(rows) + "\n").encode()

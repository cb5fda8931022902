"""OFF: the word OFF, the numbers of vertices, faces and edges, then the vertices, then ``count i j k ...`` from 0.

The reader is our own because no vertex may be merged or dropped; see ``meshes``.
"""

from __future__ import annotations

import numpy as np

from .landmark_file import LandmarkFile, ReadOptions
from .meshes import mesh_capabilities, mesh_file, single_mesh, triangulate
from .text import Lines, decode_utf8, format_numbers, is_blank, short_repr

HOLDS = mesh_capabilities("OFF", frame=False)


def parse(data: bytes, source: str, options: ReadOptions) -> LandmarkFile:
    lines = Lines(source, decode_utf8(data, source))
    first = _words(lines, "OFF")
    if first[0] != "OFF":
        raise lines.error(f"found {short_repr(first[0])}", "expected OFF")
    counts = first[1:] or _words(lines, "the numbers of vertices and faces")
    if len(counts) not in (2, 3):
        raise lines.error(f"found {len(counts)} numbers", "expected the numbers of vertices, faces and edges")
    points, polygons = lines.parse_count(counts[0], "vertices"), lines.parse_count(counts[1], "faces")
    lines.require_lines(points + polygons, "vertices and faces")
    vertices = np.array([_vertex(lines) for _ in range(points)]).reshape(-1, 3)
    faces = triangulate([_face(lines) for _ in range(polygons)])
    return mesh_file(vertices, faces, source, options)


def _words(lines: Lines, expected: str) -> list[str]:
    """Return the words of the next line that is neither empty nor a comment."""
    return lines.next_content(expected, _is_skipped).split("#")[0].split()


def _is_skipped(line: str) -> bool:
    return is_blank(line.split("#")[0])


def _vertex(lines: Lines) -> list[float]:
    words = _words(lines, "a vertex")
    if len(words) < 3:
        raise lines.error(f"found {len(words)} numbers", "expected x y z")
    return [lines.parse_number(word) for word in words[:3]]


def _face(lines: Lines) -> list[int]:
    words = _words(lines, "a face")
    count = lines.parse_count(words[0], "corners")
    if count < 3 or len(words) < count + 1:
        raise lines.error(f"a face of {count} corners with {len(words) - 1} numbers", "expected three or more")
    return [lines.parse_count(word, "the vertex") for word in words[1 : count + 1]]


def render(file: LandmarkFile) -> bytes:
    vertices, faces = single_mesh(file, HOLDS)
    rows = ["OFF", f"{len(vertices)} {len(faces)} 0", *map(format_numbers, vertices)]
    rows += [f"3 {' '.join(map(str, face))}" for face in faces]
    return ("\n".join(rows) + "\n").encode()

"""OFF: the word OFF, the numbers of vertices, faces and edges, then the vertices, then ``count i j k ...`` from 0."""

from __future__ import annotations

import numpy as np

from .base import Contents, Lines, Reading, text_of
from .surfaces import decoded, fans, one_mesh, surface


def parse(data: bytes, source: str, reading: Reading) -> Contents:
    lines = Lines(source, decoded(data, source))
    first = _words(lines, "OFF")
    if first[0] != "OFF":
        raise lines.wrong(f"found {first[0][:20]!r}", "expected OFF")
    counts = first[1:] or _words(lines, "the numbers of vertices and faces")
    if len(counts) not in (2, 3):
        raise lines.wrong(f"{len(counts)} numbers", "expected the numbers of vertices, faces and edges")
    points, polygons = lines.count_in(counts[0], "vertices"), lines.count_in(counts[1], "faces")
    lines.require(points + polygons, "vertices and faces")
    vertices = np.array([_vertex(lines) for _ in range(points)]).reshape(-1, 3)
    faces = fans([_face(lines) for _ in range(polygons)])
    return surface(vertices, faces, source, reading)


def _words(lines: Lines, expected: str) -> list[str]:
    """The next line that is neither empty nor a comment."""
    while True:
        words = lines.next(expected).split("#")[0].split()
        if words:
            return words


def _vertex(lines: Lines) -> list[float]:
    words = _words(lines, "a vertex")
    if len(words) < 3:
        raise lines.wrong(f"{len(words)} numbers", "expected x y z")
    return [lines.number_in(word) for word in words[:3]]


def _face(lines: Lines) -> list[int]:
    words = _words(lines, "a face")
    count = lines.count_in(words[0], "corners")
    if count < 3 or len(words) < count + 1:
        raise lines.wrong(f"a face of {count} corners with {len(words) - 1} numbers", "expected three or more")
    return [lines.count_in(word, "the vertex") for word in words[1 : count + 1]]


def render(contents: Contents) -> bytes:
    vertices, faces = one_mesh(contents, "OFF")
    rows = ["OFF", f"{len(vertices)} {len(faces)} 0"]
    rows += [" ".join(map(text_of, vertex)) for vertex in vertices]
    rows += [f"3 {' '.join(map(str, face))}" for face in faces]
    return ("\n".join(rows) + "\n").encode()

"""Wavefront OBJ: lines ``v x y z`` and ``f i j k ...``, numbered from 1; what other lines say is not needed here."""

from __future__ import annotations

import numpy as np

from .base import Contents, Lines, Reading, shortened, text_of
from .surfaces import decoded, fans, in_lps, one_mesh, surface


def parse(data: bytes, source: str, reading: Reading) -> Contents:
    lines = Lines(source, decoded(data, source))
    vertices: list[list[float]] = []
    polygons: list[list[int]] = []
    comments: list[str] = []
    while lines.more():
        words = lines.next("a line").split()
        if words[:1] == ["v"]:
            if len(words) not in (4, 5, 7, 8):  # with a fourth coordinate or a colour
                raise lines.wrong(f"{len(words) - 1} numbers", "expected v x y z")
            vertices.append([lines.number_in(word) for word in words[1:4]])
        elif words[:1] == ["f"]:
            if len(words) < 4:
                raise lines.wrong(f"a face of {len(words) - 1} corners", "expected three or more")
            polygons.append([_corner(word, len(vertices), lines) for word in words[1:]])
        elif words[:1] and words[0].startswith("#"):
            comments.append(" ".join(words))
    places, frame, notes = in_lps(np.array(vertices).reshape(-1, 3), "\n".join(comments))
    return surface(places, fans(polygons), source, reading, frame, notes)


def _corner(word: str, count: int, lines: Lines) -> int:
    """A vertex from 0; negative numbers count back from the last one so far."""
    text = word.split("/")[0]
    try:
        number = int(text) if len(text) <= 12 and text.isascii() and "_" not in text else 0
    except ValueError:
        number = 0
    if number == 0 or number < -count:
        raise lines.wrong(f"found {shortened(word)}", "expected the number of a vertex")
    return number - 1 if number > 0 else count + number


def render(contents: Contents) -> bytes:
    vertices, faces = one_mesh(contents, "OBJ")
    rows = [f"# SPACE={contents.frame}"] if contents.frame else []
    rows += [f"v {' '.join(map(text_of, vertex))}" for vertex in vertices]
    rows += [f"f {' '.join(str(i + 1) for i in face)}" for face in faces]
    return ("\n".join(rows) + "\n").encode()

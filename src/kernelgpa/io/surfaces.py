"""What mesh formats have in common: vertices become landmarks by their place in the file, polygons become triangles."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..errors import FormatError
from ..typing import Array, IndexArray
from .base import (
    TO_LPS,
    Contents,
    Reading,
    Specimen,
    counted,
    refuse_flat,
    refuse_labels,
    refuse_missing,
    refuse_several,
    refuse_unsound,
    refuse_weights,
)

SPACE = re.compile(r"\bSPACE\s*=\s*(LPS|RAS)\b", re.IGNORECASE)


def surface(
    vertices: Array,  # (k, 3)
    triangles: IndexArray,  # (f, 3)
    source: str,
    reading: Reading,
    frame: str | None = None,
    notes: tuple[str, ...] = (),
) -> Contents:
    if not len(vertices):
        raise FormatError(source, None, "there are no vertices", "expected a mesh or points")
    if not np.isfinite(vertices).all():
        raise FormatError(source, None, "some vertices are not finite", "expected numbers")
    if len(triangles) and (triangles.min() < 0 or triangles.max() >= len(vertices)):
        raise FormatError(
            source, None, f"a face names vertex {triangles.max()} of {len(vertices)}", "the mesh is broken"
        )
    specimen = Specimen(reading.name, vertices, counted(len(vertices)))
    return Contents((specimen,), labelled=False, frame=frame, faces=triangles if len(triangles) else None, notes=notes)


def in_lps(vertices: Array, text: str) -> tuple[Array, str | None, tuple[str, ...]]:
    """Vertices in the frame that a comment ``SPACE=LPS`` or ``SPACE=RAS`` speaks of, brought to LPS."""
    space = SPACE.search(text)
    if space is None:
        return vertices, None, ()
    if space.group(1).upper() == "LPS":
        return vertices, "LPS", ()
    return vertices * TO_LPS, "LPS", ("RAS converted to LPS",)


def fans(polygons: Sequence[Sequence[int]]) -> IndexArray:  # (f, 3)
    """Polygons cut into triangles around their first corner."""
    cut = [(one[0], one[i], one[i + 1]) for one in polygons for i in range(1, len(one) - 1)]
    return np.array(cut, dtype=np.intp).reshape(-1, 3)


def one_mesh(contents: Contents, format_: str) -> tuple[Array, IndexArray]:
    """The vertices in space and the triangles of contents that a mesh file can hold."""
    refuse_unsound(replace(contents, faces=None), format_)
    refuse_weights(contents, format_)
    refuse_labels(contents, format_)
    refuse_several(contents, format_)
    refuse_missing(contents.specimens, format_, "write CSV, or give its place")
    vertices = contents.specimens[0].points
    refuse_flat(contents, format_)
    faces = np.zeros((0, 3), dtype=np.intp) if contents.faces is None else contents.faces
    return vertices, faces


def decoded(data: bytes, source: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise FormatError(source, line, "the text is not UTF-8", "save it as UTF-8") from None

"""What mesh formats have in common: vertices become landmarks by their order in the file, polygons become triangles.

The readers are our own: mesh libraries may merge equal vertices or drop those in no face, which destroys the
correspondence between files, and they trust the counts that a corrupt file claims.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from ..errors import FormatError
from ..typing import Array, IndexArray
from .capabilities import Capabilities
from .landmark_file import (
    RAS_CONVERTED,
    RAS_TO_LPS,
    LabelledCloud,
    LandmarkFile,
    ReadOptions,
    mark_unseen,
    numbered_labels,
    to_lps,
)

STATED_FRAME = re.compile(r"\bSPACE\s*=\s*(LPS|RAS)\b", re.IGNORECASE)


def mesh_capabilities(name: str, frame: bool = True, precision: str = "") -> Capabilities:
    return Capabilities(
        name,
        several=False,
        names=False,
        labels=False,
        planar=False,
        unseen=False,
        faces=True,
        frame=frame,
        precision=precision,
    )


def mesh_file(
    vertices: Array,  # (k, 3)
    triangles: IndexArray,  # (f, 3)
    source: str,
    options: ReadOptions,
    frame: str | None = None,
    notes: tuple[str, ...] = (),
) -> LandmarkFile:
    if not len(vertices):
        raise FormatError(source, None, "there are no vertices", "expected a mesh or points")
    if not np.isfinite(vertices).all():
        raise FormatError(source, None, "some vertices are not finite", "expected numbers")
    if len(triangles) and (triangles.min() < 0 or triangles.max() >= len(vertices)):
        found = f"a face refers to vertex {triangles.max()} of {len(vertices)}"
        raise FormatError(source, None, found, "the mesh is corrupt")
    sign = RAS_TO_LPS if RAS_CONVERTED in notes else 1.0  # the code is in the frame of the file
    vertices, by_code = mark_unseen(vertices * sign, options.missing)
    cloud = LabelledCloud(options.name, vertices * sign, numbered_labels(len(vertices)))
    faces = triangles if len(triangles) else None
    return LandmarkFile((cloud,), labelled=False, frame=frame, faces=faces, notes=notes, marked_by_code=by_code)


def to_stated_frame(vertices: Array, text: str) -> tuple[Array, str | None, tuple[str, ...]]:
    """Return vertices in LPS if a comment ``SPACE=LPS`` or ``SPACE=RAS`` states their frame, the frame and notes."""
    space = STATED_FRAME.search(text)
    if space is None:
        return vertices, None, ()
    vertices, notes = to_lps(vertices, space.group(1).upper())
    return vertices, "LPS", notes


def triangulate(polygons: Sequence[Sequence[int]]) -> IndexArray:  # (f, 3)
    """Divide polygons into triangles around their first corner."""
    triangles = [(one[0], one[i], one[i + 1]) for one in polygons for i in range(1, len(one) - 1)]
    return np.array(triangles, dtype=np.intp).reshape(-1, 3)


def single_mesh(file: LandmarkFile, holds: Capabilities) -> tuple[Array, IndexArray]:
    """Return the vertices and triangles of a file that a mesh format can hold."""
    holds.require(file)
    return file.clouds[0].points, np.zeros((0, 3), dtype=np.intp) if file.faces is None else file.faces

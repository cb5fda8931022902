"""Closed surfaces: spheres of evenly spread points to make them from, and the check that a mesh is closed."""

from __future__ import annotations

import numpy as np
from scipy.spatial import ConvexHull

from ..errors import InvalidSetting
from ..typing import Array, IndexArray


def even_sphere(count: int) -> Array:  # (count, 3)
    """Return points spread evenly over the unit sphere by the golden angle."""
    i = np.arange(count) + 0.5
    z = 1 - 2 * i / count
    longitude = np.pi * (1 + np.sqrt(5)) * i
    ring = np.sqrt(1 - z**2)
    return np.column_stack([ring * np.cos(longitude), ring * np.sin(longitude), z])


def concentrated(
    sphere: Array,  # (v, 3)
    direction: Array,  # (3,)
    strength: float,
) -> Array:  # (v, 3)
    """Return a unit sphere whose points are 1 / (1 - strength) times as close to each other around a direction.

    A point at the angle a from the direction moves to the angle a - strength sin a.
    """
    pole = direction / np.linalg.norm(direction)
    cosine = sphere @ pole
    across = sphere - cosine[:, None] * pole
    across /= np.maximum(np.linalg.norm(across, axis=1, keepdims=True), np.finfo(float).tiny)
    angle = np.arccos(np.clip(cosine, -1, 1))
    angle -= strength * np.sin(angle)
    return np.cos(angle)[:, None] * pole + np.sin(angle)[:, None] * across


def sphere_faces(sphere: Array) -> IndexArray:  # (f, 3)
    """Return triangles between points on the unit sphere, counter-clockwise seen from outside."""
    faces = ConvexHull(sphere).simplices.astype(np.intp)
    a, b, c = (sphere[faces[:, i]] for i in range(3))
    inward = np.einsum("fi,fi->f", np.cross(b - a, c - a), a) < 0
    faces[inward] = faces[inward][:, ::-1]
    return faces


def require_closed(vertices: Array, faces: IndexArray) -> None:
    """Require a mesh in 3D in which each edge lies in two faces and each vertex in at least one."""
    if vertices.ndim != 2 or vertices.shape[1] != 3 or not np.isfinite(vertices).all():
        raise InvalidSetting(
            f"mesh: vertices of shape {vertices.shape}; expected finite coordinates in mm of shape (v, 3)"
        )
    if faces.ndim != 2 or faces.shape[1] != 3 or not len(faces) or faces.dtype.kind not in "iu":
        raise InvalidSetting(
            f"mesh: faces of shape {faces.shape} and type {faces.dtype}; expected indices of vertices of shape (f, 3)"
        )
    if faces.min() < 0 or faces.max() >= len(vertices):
        raise InvalidSetting(
            f"mesh: faces use vertices {faces.min()} to {faces.max()}; expected 0 to {len(vertices) - 1}"
        )
    unused = len(vertices) - len(np.unique(faces))
    if unused:
        raise InvalidSetting(f"mesh: {unused} of {len(vertices)} vertices lie in no face; remove them")
    edges = np.sort(np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]]), axis=1)
    unique, counts = np.unique(edges, axis=0, return_counts=True)
    if (counts != 2).any():
        first = unique[np.argmax(counts != 2)]
        raise InvalidSetting(
            f"mesh: {np.sum(counts != 2)} of {len(unique)} edges do not lie in two faces, first between vertices "
            f"{first[0]} and {first[1]}; expected a closed surface, with coinciding vertices merged"
        )

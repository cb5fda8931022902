"""A liver-like organ that bends while a sensor circles it.

The template is a closed surface of about 200 mm made from formulas.  In every cloud it is deformed
by a smooth random field, looked at from its own place on a circle, hidden in part and measured with
noise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial import ConvexHull

from ..errors import InvalidSetting
from ..frames import Array, IndexArray, farthest_points

LENGTH = 200.0  # mm


@dataclass(frozen=True)
class Simulation:
    """Clouds as a sensor has them, and the truth.  Lengths in mm.

    R_t p + t_t, with R_t = ``rotations[t]`` and t_t = ``translations[t]``, takes cloud t's points back
    to the deformed organ in the world.
    """

    points: Array  # (n, m, d) landmarks, NaN where hidden
    template: Array  # (m, d) landmarks of the undeformed organ
    landmarks: IndexArray  # (m,) vertices that are landmarks
    vertices: Array  # (v, d) the undeformed organ
    faces: IndexArray  # (f, 3)
    surfaces: Array  # (n, v, d) all vertices as each cloud has them, complete and without noise
    rotations: Array  # (n, d, d)
    translations: Array  # (n, d)


def liver_mesh(vertices: int = 2002) -> tuple[Array, IndexArray]:  # (v, 3), (f, 3)
    """A closed liver-like surface: thick right lobe, thin left lobe, hollow underside."""
    sphere = _even_sphere(vertices)
    x, y, z = sphere.T
    thickness = 0.62 - 0.34 * x  # the right lobe (x < 0) is the thick one
    body = np.column_stack(
        [
            x + 0.12 * y**2,
            0.62 * y * (1 - 0.25 * x) + 0.18 * x**2,
            0.55 * z * thickness + 0.22 * np.exp(-2.5 * (x**2 + y**2)) * (z < 0) * z**2 + 0.12 * x * y,
        ]
    )
    body -= body.mean(axis=0)
    faces = ConvexHull(sphere).simplices.astype(np.intp)
    return body * LENGTH / np.ptp(body[:, 0]), _outward(sphere, faces)


def liver(
    clouds: int = 60,
    landmarks: int = 201,
    bend: float = 12.0,  # mm, root mean square displacement
    hidden: float = 0.0,  # share of the observations
    noise: float = 0.0,  # mm
    seed: int = 0,
    vertices: int = 2002,
) -> Simulation:
    """Clouds of a liver that deforms smoothly while the sensor moves on a circle around it."""
    if not 0 <= hidden < 1:
        raise InvalidSetting(f"hidden is {hidden}; expected a share of the observations, 0 <= hidden < 1")
    rng = np.random.default_rng(seed)
    template, faces = liver_mesh(vertices)
    chosen = farthest_points(template, landmarks)
    deformed = np.stack([template + _smooth_field(template, bend, rng) for _ in range(clouds)])
    rotations, translations = _circle(clouds, radius=1.5 * LENGTH)
    surfaces = (deformed - translations[:, None]) @ rotations  # rows: R' (p - t)
    points = surfaces[:, chosen] + noise * rng.standard_normal((clouds, landmarks, 3))
    points[rng.random((clouds, landmarks)) < hidden] = np.nan
    return Simulation(points, template[chosen], chosen, template, faces, surfaces, rotations, translations)


def _even_sphere(count: int) -> Array:  # (count, 3)
    """Points spread evenly over the unit sphere by the golden angle."""
    i = np.arange(count) + 0.5
    z = 1 - 2 * i / count
    turn = np.pi * (1 + np.sqrt(5)) * i
    ring = np.sqrt(1 - z**2)
    return np.column_stack([ring * np.cos(turn), ring * np.sin(turn), z])


def _outward(sphere: Array, faces: IndexArray) -> IndexArray:
    """Faces whose corners run counter-clockwise seen from outside."""
    a, b, c = (sphere[faces[:, i]] for i in range(3))
    inward = np.einsum("fi,fi->f", np.cross(b - a, c - a), a) < 0
    turned = faces.copy()
    turned[inward] = turned[inward][:, ::-1]
    return turned


def _smooth_field(points: Array, size: float, rng: np.random.Generator) -> Array:
    """A displacement of the given root mean square size: a few wide bumps."""
    centres = points[rng.integers(len(points), size=4)]
    pushes = rng.standard_normal((4, 3))
    width = 0.35 * LENGTH
    bumps = np.exp(-np.sum((points[:, None] - centres) ** 2, axis=2) / (2 * width**2))
    field = bumps @ pushes
    return field * size / np.sqrt(np.mean(np.sum(field**2, axis=1)))


def _circle(count: int, radius: float) -> tuple[Array, Array]:  # (n, 3, 3), (n, 3)
    """Poses on a circle that look at its centre: z forwards, x along the circle."""
    angle = 2 * np.pi * np.arange(count) / count
    out = np.column_stack([np.cos(angle), np.sin(angle), np.zeros(count)])
    along = np.column_stack([-np.sin(angle), np.cos(angle), np.zeros(count)])
    forwards = -out
    return np.stack([along, np.cross(forwards, along), forwards], axis=2), radius * out

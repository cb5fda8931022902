"""What a simulated scene holds, and how its landmarks are measured."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..errors import InvalidSetting
from ..gauge.rotations import nearest_rotation
from ..typing import Array, IndexArray


@dataclass(frozen=True)
class Simulation:
    """Clouds as a sensor has them, and the truth.  Lengths in mm.

    R_t p + t_t, with R_t = ``rotations[t]`` and t_t = ``translations[t]``, takes cloud t's points back
    to the deformed body in the world.
    """

    points: Array  # (n, m, d) landmarks, NaN where hidden
    template: Array  # (m, d) landmarks of the undeformed body
    landmarks: IndexArray  # (m,) vertices that are landmarks
    vertices: Array  # (v, d) the undeformed body
    faces: IndexArray  # (f, 3)
    surfaces: Array  # (n, v, d) all vertices as each cloud has them, complete and without noise
    rotations: Array  # (n, d, d)
    translations: Array  # (n, d)


def at_rest(bodies: Array, template: Array) -> Array:  # (n, v, d), (v, d) -> (n, v, d)
    """The bodies moved rigidly to where they lie nearest to the template.

    A deformation may turn and shift the body as a whole, which nobody can tell from a motion of the sensor; without
    that the sensors' poses are the truth.
    """
    here, there = bodies.mean(axis=1, keepdims=True), template.mean(axis=0)
    turns = nearest_rotation(np.einsum("vi,nvj->nij", template - there, bodies - here))
    return (bodies - here) @ turns.transpose(0, 2, 1) + there


def seen_from(
    bodies: Array,  # (n, v, d) in the world
    rotations: Array,  # (n, d, d)
    translations: Array,  # (n, d)
) -> Array:  # (n, v, d)
    """The bodies in their sensors' frames."""
    return (bodies - translations[:, None]) @ rotations  # rows: R' (p - t)


def measured(
    landmarks: Array,  # (n, m, d)
    noise: float,
    hidden: float,
    rng: np.random.Generator,
) -> Array:  # (n, m, d)
    """The landmarks with noise, and NaN where they are hidden."""
    if not np.isfinite(landmarks).all():
        raise InvalidSetting("the scene has points that are no numbers; check the mesh, and how far it is bent")
    points = landmarks + noise * rng.standard_normal(landmarks.shape)
    points[rng.random(landmarks.shape[:2]) < hidden] = np.nan
    return points

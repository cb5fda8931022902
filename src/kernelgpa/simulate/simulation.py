"""The record of a simulated scene, and how its landmarks are observed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..errors import InvalidSetting
from ..gauge.rotations import nearest_rotation
from ..typing import Array, IndexArray


@dataclass(frozen=True)
class Simulation:
    """Clouds as a sensor measures them, and the truth.  Lengths are in mm.

    ``rotations[t] @ p + translations[t]`` takes a point p of cloud t back to the deformed body in the world.

    Attributes
    ----------
    points : array of shape (n, m, d)
        The landmarks as each cloud measured them, NaN if hidden.
    template : array of shape (m, d)
        The landmarks on the undeformed body.
    landmarks : int array of shape (m,)
        Which vertices are landmarks.
    vertices : array of shape (v, d)
        The undeformed body.
    faces : int array of shape (f, 3)
        Its triangles.
    surfaces : array of shape (n, v, d)
        All vertices in each cloud's frame, complete and without noise.
    rotations : array of shape (n, d, d)
        The orientation of each sensor.
    translations : array of shape (n, d)
        The position of each sensor.
    """

    points: Array
    template: Array
    landmarks: IndexArray
    vertices: Array
    faces: IndexArray
    surfaces: Array
    rotations: Array
    translations: Array


def align_to_template(bodies: Array, template: Array) -> Array:  # (n, v, d), (v, d) -> (n, v, d)
    """Return the bodies after the rigid motions that bring them nearest to the template.

    A deformation may also rotate and shift the body as a whole, which cannot be distinguished from a motion of the
    sensor.  Without that common motion the poses of the sensors are the truth.
    """
    centroids, centroid = bodies.mean(axis=1, keepdims=True), template.mean(axis=0)
    rotations = nearest_rotation(np.einsum("vi,nvj->nij", template - centroid, bodies - centroids))
    return (bodies - centroids) @ rotations.transpose(0, 2, 1) + centroid


def to_sensor_frames(
    bodies: Array,  # (n, v, d) in the world
    rotations: Array,  # (n, d, d)
    translations: Array,  # (n, d)
) -> Array:  # (n, v, d)
    """Return the bodies in the frames of their sensors: R' (p - t)."""
    return (bodies - translations[:, None]) @ rotations


def observe(
    landmarks: Array,  # (n, m, d)
    noise: float,  # mm, standard deviation of each coordinate
    hidden: float,  # share of the observations
    rng: np.random.Generator,
) -> Array:  # (n, m, d)
    """Return the landmarks with noise, and NaN if they are hidden."""
    if not np.isfinite(landmarks).all():
        raise InvalidSetting("the scene has coordinates that are not finite; check the mesh and the size of the bend")
    points = landmarks + noise * rng.standard_normal(landmarks.shape)
    points[rng.random(landmarks.shape[:2]) < hidden] = np.nan
    return points

"""A sheet bent like paper: photographed from the front (2D views of a 3D bending), or measured in space.

The flat sheet lies in the plane, 300 mm x 200 mm about the origin.  In view t it is rolled on a cylinder whose axis
lies in its plane, at right angles to the unit vector n, with the curvature k.  A point p at the distance  s = p . n
from the axis moves to

    p + (sin(k s) / k - s) n     in the plane,      (1 - cos(k s)) / k     out of it                       (1)

which changes no length on the sheet, as paper does not stretch.  Over the views the axis turns through half a circle,
and the curvature has a random size and sign.  The camera looks at the sheet nearly from the front: a view is the first
two coordinates of  R_t' (b - t_t)  (orthographic), where b is the bent sheet in the world.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real

import numpy as np
from scipy.spatial.transform import Rotation

from ..errors import InvalidSetting
from ..observations.sampling import farthest_points
from ..typing import Array, IndexArray
from .checks import require_amount, require_counts, require_observation_settings
from .poses import random_poses
from .simulation import Simulation, align_to_template, observe, to_sensor_frames

SHEET_WIDTH, SHEET_HEIGHT = 300.0, 200.0  # mm
MIN_CURVATURE = 0.3  # as a share of the largest
MAX_ANGLE = 80.0  # degrees between the camera axis and the normal of the sheet
MAX_ROLL, MAX_SHIFT = 20.0, 50.0  # degrees and mm, of the camera in its own plane
LEAST_RADIUS = SHEET_WIDTH / np.pi  # mm: the width of the sheet is half a turn
CAMERA_ROTATION, CAMERA_SHIFT = 30.0, 100.0  # degrees and mm, of the camera that measures in space


@dataclass(frozen=True)
class Views(Simulation):
    """A simulated sheet: a :class:`Simulation` in the plane with the bent sheets in space.

    ``points``, ``template``, ``vertices`` and ``surfaces`` have d = 2.  The cameras are in space: ``rotations`` has the
    shape (n, 3, 3), ``translations`` (n, 3), and ``surfaces[t]`` are the first two columns of
    ``(bent[t] - translations[t]) @ rotations[t]``.

    Attributes
    ----------
    bent : array of shape (n, v, 3)
        The bent sheet in the world, for each view.
    """

    bent: Array


def sheet_mesh(spacing: float = 5.0) -> tuple[Array, IndexArray]:  # (v, 2), (f, 3)
    """Return vertices (mm) and faces of the flat sheet, a regular grid."""
    columns, rows = (round(length / spacing) + 1 for length in (SHEET_WIDTH, SHEET_HEIGHT))
    x, y = np.meshgrid(
        np.linspace(-SHEET_WIDTH / 2, SHEET_WIDTH / 2, columns), np.linspace(-SHEET_HEIGHT / 2, SHEET_HEIGHT / 2, rows)
    )
    corner = np.arange(rows * columns).reshape(rows, columns)
    a, b, c, d = (v.ravel() for v in (corner[:-1, :-1], corner[:-1, 1:], corner[1:, 1:], corner[1:, :-1]))
    faces = np.concatenate([np.column_stack([a, b, c]), np.column_stack([a, c, d])])
    return np.column_stack([x.ravel(), y.ravel()]), faces


def sheet(
    clouds: int = 8,
    landmarks: int = 155,
    radius: float = 200.0,
    tilt: float = 12.0,
    hidden: float = 0.0,
    noise: float = 0.0,
    seed: int = 0,
    spacing: float = 5.0,
) -> Views:
    """Simulate 2D views of a sheet that bends like paper; the truth is the flat sheet.

    Parameters
    ----------
    clouds, landmarks : int
        The numbers n of views and m of landmarks, which are spread over the sheet.
    radius : float
        Radius in mm of the narrowest cylinder.
    tilt : float
        Largest angle in degrees between the camera axis and the normal of the flat sheet.
    hidden : float
        Share of the observations that are missing, 0 <= hidden < 1.
    noise : float
        Standard deviation of each coordinate in mm.
    seed : int
        The same seed gives the same scene.
    spacing : float
        Distance in mm between neighbouring vertices, from 0.5 to 50.

    Returns
    -------
    Views
        The observations (n, m, 2) and the truth, in mm.

    Examples
    --------
    >>> from kernelgpa import simulate
    >>> scene = simulate.sheet(clouds=4, landmarks=40, spacing=10.0)
    >>> scene.points.shape, scene.bent.shape
    ((4, 40, 2), (4, 651, 3))
    """
    require_observation_settings(hidden, noise, seed)
    _require_visible(radius, tilt)
    if not (isinstance(spacing, Real) and 0.5 <= spacing <= 50):
        raise InvalidSetting(f"spacing is {spacing!r}; expected from 0.5 to 50 mm")
    template, faces = sheet_mesh(spacing)
    require_counts(clouds, landmarks, len(template))
    rng = np.random.default_rng(seed)
    chosen = farthest_points(template, landmarks, first=int(rng.integers(len(template))))
    axes = rng.uniform(0, np.pi) + np.pi * np.arange(clouds) / clouds
    curvatures = rng.choice([-1, 1], clouds) * rng.uniform(MIN_CURVATURE, 1, clouds) / radius
    bent = np.stack([roll(template, axis, curvature) for axis, curvature in zip(axes, curvatures, strict=True)])
    rotations, translations = _cameras(clouds, tilt, rng)
    surfaces = to_sensor_frames(bent, rotations, translations)[:, :, :2]
    points = observe(surfaces[:, chosen], noise, hidden, rng)
    return Views(points, template[chosen], chosen, template, faces, surfaces, rotations, translations, bent)


def bending_sheet(
    clouds: int = 10,
    landmarks: int = 90,
    radius: float = 150.0,
    hidden: float = 0.0,
    noise: float = 0.0,
    seed: int = 0,
) -> Simulation:
    """Simulate a sheet that bends both ways, measured in space by a depth camera.

    Every second cloud is bent to the other side, which makes it nearly a mirror image; no cloud is reflected.

    Parameters
    ----------
    clouds, landmarks : int
        The numbers n of clouds and m of landmarks, which are spread over the sheet.
    radius : float
        Radius in mm of the narrowest cylinder, 96 or more.
    hidden : float
        Share of the observations that are missing, 0 <= hidden < 1.
    noise : float
        Standard deviation of each coordinate in mm.
    seed : int
        The same seed gives the same scene.

    Returns
    -------
    Simulation
        The observations (n, m, 3) and the truth, in mm; the template is flat.

    Examples
    --------
    >>> from kernelgpa import simulate
    >>> simulate.bending_sheet(clouds=4, landmarks=40).points.shape
    (4, 40, 3)
    """
    require_observation_settings(hidden, noise, seed)
    if not (isinstance(radius, Real) and radius >= LEAST_RADIUS):
        raise InvalidSetting(f"radius is {radius!r}; expected {LEAST_RADIUS:.0f} mm or more")
    flat, faces = sheet_mesh(10.0)
    require_counts(clouds, landmarks, len(flat))
    rng = np.random.default_rng(seed)
    chosen = farthest_points(flat, landmarks, first=int(rng.integers(len(flat))))
    axes = rng.uniform(0, np.pi) + np.pi * np.arange(clouds) / clouds
    sides = rng.permutation(np.where(np.arange(clouds) % 2, -1, 1))
    curvatures = sides * rng.uniform(MIN_CURVATURE, 1, clouds) / radius
    vertices = np.column_stack([flat, np.zeros(len(flat))])
    bent = np.stack([roll(flat, axis, curvature) for axis, curvature in zip(axes, curvatures, strict=True)])
    rotations, translations = random_poses(clouds, CAMERA_ROTATION, CAMERA_SHIFT, rng)
    surfaces = to_sensor_frames(align_to_template(bent, vertices), rotations, translations)
    points = observe(surfaces[:, chosen], noise, hidden, rng)
    return Simulation(points, vertices[chosen], chosen, vertices, faces, surfaces, rotations, translations)


def roll(flat: Array, axis: float, curvature: float) -> Array:  # (v, 2) -> (v, 3)
    """Return the sheet on a cylinder, by (1); ``axis`` is the angle of n in radians."""
    n = np.array([np.cos(axis), np.sin(axis)])
    s = flat @ n
    half = curvature * s / 2
    chord = s * np.sinc(half / np.pi)  # 2 sin(k s / 2) / k, also for k = 0
    return np.column_stack([flat + (chord * np.cos(half) - s)[:, None] * n, chord * np.sin(half)])


def _require_visible(radius: float, tilt: float) -> None:
    """Require that the camera sees no part of the sheet from behind."""
    if not (isinstance(radius, Real) and radius > 0):
        raise InvalidSetting(f"radius is {radius!r}; expected more than 0 mm")
    require_amount("tilt", tilt, unit="degrees")
    largest = np.degrees(np.hypot(SHEET_WIDTH, SHEET_HEIGHT) / 2 / float(radius)) + tilt
    if largest > MAX_ANGLE:
        raise InvalidSetting(
            f"radius {radius} mm and tilt {tilt} degrees turn parts of the sheet {largest:.0f} degrees away from the "
            f"camera; at most {MAX_ANGLE:.0f} are possible: use a larger radius or less tilt"
        )


def _cameras(count: int, tilt: float, rng: np.random.Generator) -> tuple[Array, Array]:  # (n, 3, 3), (n, 3)
    """Return cameras that look along z, tilted in any direction, rolled and shifted in their own plane."""
    direction, angle = rng.uniform(0, 2 * np.pi, count), tilt * np.sqrt(rng.random(count))
    axes = np.column_stack([np.cos(direction), np.sin(direction), np.zeros(count)])
    tilts = Rotation.from_rotvec(np.radians(angle)[:, None] * axes)
    rolls = Rotation.from_rotvec(np.radians(rng.uniform(-MAX_ROLL, MAX_ROLL, count))[:, None] * np.array([0, 0, 1]))
    shifts = np.column_stack([rng.uniform(-MAX_SHIFT, MAX_SHIFT, (count, 2)), np.zeros(count)])
    return (tilts * rolls).as_matrix(), shifts

"""A sheet bent like paper and photographed from the front: 2D views of a 3D bending.

The flat sheet lies in the plane, 300 mm x 200 mm about the origin.  In view t it is rolled on a cylinder whose axis
lies in its plane, at right angles to the unit vector n, with the curvature k.  A point p is  s = p . n  away from
the axis; rolled up, it goes to

    p + (sin(k s) / k - s) n     in the plane,      (1 - cos(k s)) / k     out of it                       (1)

which changes no length on the sheet, as paper does not stretch.  Over the views the axis turns through half a circle
and the curvature changes at random, sign and all.  The camera looks at the sheet from nearly in front: a view is the
first two coordinates of  R_t' (b - t_t)  (orthographic), b being the bent sheet in the world.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real

import numpy as np
from scipy.spatial.transform import Rotation

from ..errors import InvalidSetting
from ..observations.sampling import farthest_points
from ..typing import Array, IndexArray
from .checks import require_amount, require_counts, require_share, require_whole
from .simulation import Simulation, measured, seen_from

WIDTH, HEIGHT = 300.0, 200.0  # mm
FLATTEST = 0.3  # the smallest curvature as a share of the largest
STEEPEST = 80.0  # degrees between the camera and a piece of the sheet it can still see
ROLL, SHIFT = 20.0, 50.0  # degrees and mm: how the camera is turned and shifted in its own plane, at most


@dataclass(frozen=True)
class Views(Simulation):
    """A simulated sheet, which lies in the plane, as do its views: points, template, vertices, surfaces have d = 2.

    The cameras stand in space: ``rotations`` is (n, 3, 3), ``translations`` is (n, 3), and ``surfaces[t]`` is what
    the first two columns of R_t make of  bent[t] - t_t .
    """

    bent: Array  # (n, v, 3) the bent sheet in the world


def sheet_mesh(spacing: float = 5.0) -> tuple[Array, IndexArray]:  # (v, 2), (f, 3)
    """The flat sheet as a grid."""
    columns, rows = (round(length / spacing) + 1 for length in (WIDTH, HEIGHT))
    x, y = np.meshgrid(np.linspace(-WIDTH / 2, WIDTH / 2, columns), np.linspace(-HEIGHT / 2, HEIGHT / 2, rows))
    corner = np.arange(rows * columns).reshape(rows, columns)
    a, b, c, d = (v.ravel() for v in (corner[:-1, :-1], corner[:-1, 1:], corner[1:, 1:], corner[1:, :-1]))
    faces = np.concatenate([np.column_stack([a, b, c]), np.column_stack([a, c, d])])
    return np.column_stack([x.ravel(), y.ravel()]), faces


def sheet(
    clouds: int = 8,
    landmarks: int = 155,
    radius: float = 200.0,  # mm, of the tightest cylinder
    tilt: float = 12.0,  # degrees between the camera and the front, at most
    hidden: float = 0.0,  # share of the observations
    noise: float = 0.0,  # mm
    seed: int = 0,
    spacing: float = 5.0,  # mm between the vertices
) -> Views:
    """2D views of a sheet that bends like paper; the truth is the flat sheet."""
    require_share("hidden", hidden)
    require_amount("noise", noise)
    require_whole("seed", seed)
    _require_open(radius, tilt)
    if not (isinstance(spacing, Real) and 0.5 <= spacing <= 50):
        raise InvalidSetting(f"spacing is {spacing!r}; expected from 0.5 to 50 mm")
    template, faces = sheet_mesh(spacing)
    require_counts(clouds, landmarks, len(template))
    rng = np.random.default_rng(seed)
    chosen = farthest_points(template, landmarks, first=int(rng.integers(len(template))))
    axes = rng.uniform(0, np.pi) + np.pi * np.arange(clouds) / clouds
    curvatures = rng.choice([-1, 1], clouds) * rng.uniform(FLATTEST, 1, clouds) / radius
    bent = np.stack([rolled(template, axis, curvature) for axis, curvature in zip(axes, curvatures, strict=True)])
    rotations, translations = _cameras(clouds, tilt, rng)
    surfaces = seen_from(bent, rotations, translations)[:, :, :2]
    points = measured(surfaces[:, chosen], noise, hidden, rng)
    return Views(points, template[chosen], chosen, template, faces, surfaces, rotations, translations, bent)


def rolled(flat: Array, axis: float, curvature: float) -> Array:  # (v, 2) -> (v, 3)
    """The sheet on a cylinder, by (1); ``axis`` is the angle of n."""
    n = np.array([np.cos(axis), np.sin(axis)])
    s = flat @ n
    half = curvature * s / 2
    chord = s * np.sinc(half / np.pi)  # 2 sin(k s / 2) / k, also for k = 0
    return np.column_stack([flat + (chord * np.cos(half) - s)[:, None] * n, chord * np.sin(half)])


def _require_open(radius: float, tilt: float) -> None:
    """No part of the sheet turns away from the camera."""
    if not (isinstance(radius, Real) and radius > 0):
        raise InvalidSetting(f"radius is {radius!r}; expected more than 0 mm")
    require_amount("tilt", tilt, unit="degrees")
    steepest = np.degrees(np.hypot(WIDTH, HEIGHT) / 2 / float(radius)) + tilt
    if steepest > STEEPEST:
        raise InvalidSetting(
            f"radius {radius} mm and tilt {tilt} degrees turn parts of the sheet {steepest:.0f} degrees away from the "
            f"camera; expected at most {STEEPEST:.0f}, by a larger radius or less tilt"
        )


def _cameras(count: int, tilt: float, rng: np.random.Generator) -> tuple[Array, Array]:  # (n, 3, 3), (n, 3)
    """Cameras that look along z, tilted in any direction, rolled and shifted in their own plane."""
    towards, lean = rng.uniform(0, 2 * np.pi, count), tilt * np.sqrt(rng.random(count))
    leaning = Rotation.from_rotvec(
        np.radians(lean)[:, None] * np.column_stack([np.cos(towards), np.sin(towards), np.zeros(count)])
    )
    rolling = Rotation.from_rotvec(np.radians(rng.uniform(-ROLL, ROLL, count))[:, None] * np.array([0, 0, 1]))
    shifts = np.column_stack([rng.uniform(-SHIFT, SHIFT, (count, 2)), np.zeros(count)])
    return (leaning * rolling).as_matrix(), shifts

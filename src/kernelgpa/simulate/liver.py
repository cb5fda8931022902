"""A liver-like organ that bends while a sensor circles it.

The template is a closed surface of about 200 mm made from formulas, or any other that is given.  For each cloud it is
deformed, by a smooth random field or as rigidly as possible with a few vertices or regions pulled, stretched along
random directions, observed from another position on a circle, partly hidden, and measured with noise.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import numpy.typing as npt

from ..errors import InvalidSetting
from ..observations.sampling import farthest_points
from ..typing import Array, IndexArray
from .checks import (
    LARGEST_LENGTH,
    require_amount,
    require_bump_width,
    require_counts,
    require_integer,
    require_observation_settings,
)
from .closed_surfaces import even_sphere, require_closed, sphere_faces
from .displacements import BUMP_WIDTH, body_length, random_stretch, smooth_field
from .poses import circular_poses
from .simulation import Simulation, align_to_template, observe, to_sensor_frames

LIVER_LENGTH = 200.0  # mm
CIRCLE_RADIUS = 1.5  # of the sensor's path, in body lengths
HANDLES = 6  # vertices or regions that are pulled
SEPARATION = 3.0  # least distance between the centres of two regions, in radii
ARAP_ITERATIONS = 20


def liver_mesh(vertices: int = 2002) -> tuple[Array, IndexArray]:  # (v, 3), (f, 3)
    """Return vertices (mm) and faces of a closed liver-like surface: thick right lobe, thin left lobe, hollow below."""
    sphere = even_sphere(vertices)
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
    return body * LIVER_LENGTH / np.ptp(body[:, 0]), sphere_faces(sphere)


def liver(
    clouds: int = 60,
    landmarks: int = 201,
    bend: float = 12.0,
    hidden: float = 0.0,
    noise: float = 0.0,
    seed: int = 0,
    vertices: int = 2002,
    deformation: str = "smooth",
    mesh: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
    handle_radius: float = 0.0,
    stretch: float = 0.0,
    bump_width: float = BUMP_WIDTH,
) -> Simulation:
    """Simulate a liver that deforms while the sensor moves on a circle around it.

    Parameters
    ----------
    clouds, landmarks : int
        The numbers n of clouds and m of landmarks, which are spread over the surface.
    bend : float
        Size of the deformation in mm: the root mean square displacement ("smooth"), or how far each of six handles
        is pulled ("arap").
    hidden : float
        Share of the observations that are missing, 0 <= hidden < 1.
    noise : float
        Standard deviation of each coordinate in mm.
    seed : int
        The same seed gives the same scene.
    vertices : int
        Number of vertices of the surface.
    deformation : {"smooth", "arap"}
        A few wide bumps; or as rigid as possible, which needs libigl (the extra ``simulate``).
    mesh : pair of arrays of shapes (v, 3) and (f, 3), optional
        Vertices in mm and faces of another closed surface instead of ``liver_mesh(vertices)``.
    handle_radius : float
        Radius in mm of the regions that "arap" pulls.  With 0 each handle is a single vertex, around which the surface
        is drawn out into a spike.
    stretch : float
        Standard deviation of a random symmetric stretch of each cloud's body, as a share of its length, from 0 to 0.2.
    bump_width : float
        Standard deviation of the bumps of "smooth", as a share of the body's length, from 0.05 to 1.

    Returns
    -------
    Simulation
        The observations (n, m, 3) and the truth, in mm.

    Examples
    --------
    >>> from kernelgpa import simulate
    >>> scene = simulate.liver(clouds=5, landmarks=60, noise=0.5, vertices=202)
    >>> scene.points.shape, scene.surfaces.shape
    ((5, 60, 3), (5, 202, 3))
    """
    if not isinstance(deformation, str) or deformation not in DEFORMATIONS:
        raise InvalidSetting(f"deformation is {deformation!r}; expected one of {', '.join(DEFORMATIONS)}")
    require_observation_settings(hidden, noise, seed)
    require_amount("bend", bend)
    require_amount("handle_radius", handle_radius)
    require_amount("stretch", stretch, unit="", most=0.2)
    require_bump_width(bump_width)
    given = None if mesh is None else _as_mesh(mesh)
    require_integer("vertices", vertices)
    require_counts(clouds, landmarks, vertices if given is None else len(given[0]))
    template, faces = liver_mesh(vertices) if given is None else given
    rng = np.random.default_rng(seed)
    chosen = farthest_points(template, landmarks)
    bend_body = {
        "smooth": partial(_bend_smoothly, width=bump_width),
        "arap": partial(_bend_as_rigidly_as_possible, radius=handle_radius),
    }[deformation]
    bodies = np.stack([bend_body(template, faces, bend, rng) @ random_stretch(stretch, rng) for _ in range(clouds)])
    rotations, positions = circular_poses(clouds, radius=CIRCLE_RADIUS * body_length(template))
    translations = positions + (0.0 if given is None else template.mean(axis=0))
    surfaces = to_sensor_frames(align_to_template(bodies, template), rotations, translations)
    points = observe(surfaces[:, chosen], noise, hidden, rng)
    return Simulation(points, template[chosen], chosen, template, faces, surfaces, rotations, translations)


def _as_mesh(mesh: tuple[npt.ArrayLike, npt.ArrayLike]) -> tuple[Array, IndexArray]:
    try:
        vertices, faces = mesh
        points, corners = np.array(vertices, dtype=np.float64), np.array(faces)
    except (TypeError, ValueError) as error:
        raise InvalidSetting(f"mesh is not a pair of vertices (v, 3) and faces (f, 3): {error}") from None
    require_closed(points, corners)
    with np.errstate(over="ignore"):
        extent = float(np.linalg.norm(np.ptp(points, axis=0)))
    if not np.abs(points).max() * np.finfo(float).eps * 1e3 < np.ptp(points, axis=0).min() <= extent < LARGEST_LENGTH:
        raise InvalidSetting(
            f"mesh spans {np.ptp(points, axis=0)} mm; expected a body of finite thickness, near the origin"
        )
    return points, corners.astype(np.intp)


def _bend_smoothly(points: Array, faces: IndexArray, size: float, rng: np.random.Generator, width: float) -> Array:
    """Return the surface after a smooth displacement of the given root mean square size."""
    return points + smooth_field(points, size, rng, width=width)


def _bend_as_rigidly_as_possible(
    points: Array, faces: IndexArray, pull: float, rng: np.random.Generator, radius: float
) -> Array:
    """Return the surface with six of its vertices or regions pulled, each by the same length in a random direction."""
    try:
        import igl
    except ImportError:
        raise InvalidSetting("deformation='arap' needs libigl; install kernelgpa[simulate]") from None
    if len(points) <= HANDLES:
        raise InvalidSetting(f"the mesh has {len(points)} vertices; deformation='arap' needs more than {HANDLES}")
    regions = _handles(points, radius, rng)
    pulls = rng.standard_normal((HANDLES, 3))
    pulls *= pull / np.linalg.norm(pulls, axis=1, keepdims=True)
    handles = np.concatenate(regions)
    targets = points[handles] + np.repeat(pulls, [len(region) for region in regions], axis=0)
    data = igl.ARAPData()
    data.max_iter = ARAP_ITERATIONS
    try:
        igl.arap_precomputation(points, faces.astype(np.int64), 3, handles.astype(np.int32), data)
    except RuntimeError as error:
        raise InvalidSetting(f"libigl cannot deform this mesh ({error}); expected one connected piece") from None
    return np.asarray(igl.arap_solve(targets, data, points.copy()), dtype=np.float64)


def _handles(points: Array, radius: float, rng: np.random.Generator) -> list[IndexArray]:
    """Return the vertices of six handles: single vertices, or all vertices within the radius of a random one.

    The regions do not touch: their centres lie more than three radii apart.
    """
    if radius == 0:
        return list(rng.choice(len(points), (HANDLES, 1), replace=False))
    regions: list[IndexArray] = []
    free = np.ones(len(points), dtype=bool)
    while len(regions) < HANDLES:
        if not free.any():
            raise InvalidSetting(
                f"handle_radius is {radius:g} mm, which leaves no room for {HANDLES} separate regions; use less"
            )
        distances = np.linalg.norm(points - points[rng.choice(np.flatnonzero(free))], axis=1)
        regions.append(np.flatnonzero(distances <= radius))
        free &= distances > SEPARATION * radius
    return regions


DEFORMATIONS = ("smooth", "arap")

"""A liver-like organ that bends while a sensor circles it.

The template is a closed surface of about 200 mm made from formulas, or any other that is given.  In every
cloud it is deformed, by a smooth random field or as rigidly as possible about a few handles that are pulled,
looked at from its own place on a circle, hidden in part and measured with noise.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from ..errors import InvalidSetting
from ..observations.sampling import farthest_points
from ..typing import Array, IndexArray
from .checks import LARGEST, require_amount, require_counts, require_share, require_whole
from .closed import even_sphere, require_closed, sphere_faces
from .fields import length_of, smooth_field
from .poses import circle
from .simulation import Simulation, at_rest, measured, seen_from

LENGTH = 200.0  # mm
HANDLES = 6
ARAP_ITERATIONS = 20


def liver_mesh(vertices: int = 2002) -> tuple[Array, IndexArray]:  # (v, 3), (f, 3)
    """A closed liver-like surface: thick right lobe, thin left lobe, hollow underside."""
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
    return body * LENGTH / np.ptp(body[:, 0]), sphere_faces(sphere)


def liver(
    clouds: int = 60,
    landmarks: int = 201,
    bend: float = 12.0,  # mm: root mean square displacement, or how far each handle is pulled
    hidden: float = 0.0,  # share of the observations
    noise: float = 0.0,  # mm
    seed: int = 0,
    vertices: int = 2002,
    deformation: str = "smooth",
    mesh: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,  # (v, 3) in mm, (f, 3)
) -> Simulation:
    """Clouds of a liver that deforms while the sensor moves on a circle around it.

    deformation : "smooth", a few wide bumps; or "arap", as rigid as possible with six handles pulled, which
        needs libigl (the extra ``simulate``).
    mesh : the vertices, in mm, and faces of another closed surface to take instead of ``liver_mesh(vertices)``.
    """
    if not isinstance(deformation, str) or deformation not in DEFORMATIONS:
        raise InvalidSetting(f"deformation is {deformation!r}; expected one of {', '.join(DEFORMATIONS)}")
    require_share("hidden", hidden)
    require_amount("bend", bend)
    require_amount("noise", noise)
    require_whole("seed", seed)
    given = None if mesh is None else _as_mesh(mesh)
    require_whole("vertices", vertices)
    require_counts(clouds, landmarks, vertices if given is None else len(given[0]))
    template, faces = liver_mesh(vertices) if given is None else given
    rng = np.random.default_rng(seed)
    chosen = farthest_points(template, landmarks)
    deformed = at_rest(
        np.stack([DEFORMATIONS[deformation](template, faces, bend, rng) for _ in range(clouds)]), template
    )
    rotations, places = circle(clouds, radius=1.5 * length_of(template))
    translations = places + (0.0 if given is None else template.mean(axis=0))
    surfaces = seen_from(deformed, rotations, translations)
    points = measured(surfaces[:, chosen], noise, hidden, rng)
    return Simulation(points, template[chosen], chosen, template, faces, surfaces, rotations, translations)


def _as_mesh(mesh: tuple[npt.ArrayLike, npt.ArrayLike]) -> tuple[Array, IndexArray]:
    try:
        vertices, faces = mesh
        points, corners = np.array(vertices, dtype=np.float64), np.array(faces)
    except (TypeError, ValueError) as error:
        raise InvalidSetting(f"mesh is no pair of vertices (v, 3) and faces (f, 3): {error}") from None
    require_closed(points, corners)
    with np.errstate(over="ignore"):
        extent = float(np.linalg.norm(np.ptp(points, axis=0)))
    if not np.abs(points).max() * np.finfo(float).eps * 1e3 < np.ptp(points, axis=0).min() <= extent < LARGEST:
        raise InvalidSetting(f"mesh spans {np.ptp(points, axis=0)} mm; expected a body, about where the origin is")
    return points, corners.astype(np.intp)


def _smoothly(points: Array, faces: IndexArray, size: float, rng: np.random.Generator) -> Array:
    """Moved by a displacement of the given root mean square size: a few wide bumps."""
    return points + smooth_field(points, size, rng)


def _as_rigidly_as_possible(points: Array, faces: IndexArray, pull: float, rng: np.random.Generator) -> Array:
    """The surface with six of its vertices pulled, each by the same length in a random direction."""
    try:
        import igl
    except ImportError:
        raise InvalidSetting("deformation='arap' needs libigl; install kernelgpa[simulate]") from None
    if len(points) <= HANDLES:
        raise InvalidSetting(f"{len(points)} vertices; deformation='arap' pulls {HANDLES} and needs more")
    handles = rng.choice(len(points), HANDLES, replace=False)
    pulls = rng.standard_normal((HANDLES, 3))
    pulls *= pull / np.linalg.norm(pulls, axis=1, keepdims=True)
    data = igl.ARAPData()
    data.max_iter = ARAP_ITERATIONS
    try:
        igl.arap_precomputation(points, faces.astype(np.int64), 3, handles.astype(np.int32), data)
    except RuntimeError as error:
        raise InvalidSetting(f"libigl cannot deform this mesh ({error}); expected one closed piece") from None
    return np.asarray(igl.arap_solve(points[handles] + pulls, data, points.copy()), dtype=np.float64)


DEFORMATIONS: dict[str, Callable[[Array, IndexArray, float, np.random.Generator], Array]] = {
    "smooth": _smoothly,
    "arap": _as_rigidly_as_possible,
}

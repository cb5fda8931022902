"""A liver-like organ that bends while a sensor circles it.

The template is a closed surface of about 200 mm made from formulas.  In every cloud it is deformed, by a
smooth random field or as rigidly as possible about a few handles that are pulled, looked at from its own
place on a circle, hidden in part and measured with noise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.spatial import ConvexHull

from ..errors import InvalidSetting
from ..frames import Array, IndexArray, farthest_points

LENGTH = 200.0  # mm
HANDLES = 6
ARAP_ITERATIONS = 20


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
    bend: float = 12.0,  # mm: root mean square displacement, or how far each handle is pulled
    hidden: float = 0.0,  # share of the observations
    noise: float = 0.0,  # mm
    seed: int = 0,
    vertices: int = 2002,
    deformation: str = "smooth",
) -> Simulation:
    """Clouds of a liver that deforms while the sensor moves on a circle around it.

    deformation : "smooth", a few wide bumps; or "arap", as rigid as possible with six handles pulled, which
        needs libigl (the extra ``simulate``).
    """
    if deformation not in DEFORMATIONS:
        raise InvalidSetting(f"deformation is {deformation!r}; expected one of {', '.join(DEFORMATIONS)}")
    if not 0 <= hidden < 1:
        raise InvalidSetting(f"hidden is {hidden}; expected a share of the observations, 0 <= hidden < 1")
    if not (clouds >= 2 and 4 <= landmarks <= vertices):
        raise InvalidSetting(
            f"{clouds} clouds of {landmarks} landmarks on {vertices} vertices; expected at least 2 clouds, and "
            "from 4 landmarks up to one a vertex"
        )
    rng = np.random.default_rng(seed)
    template, faces = liver_mesh(vertices)
    chosen = farthest_points(template, landmarks)
    deformed = np.stack([DEFORMATIONS[deformation](template, faces, bend, rng) for _ in range(clouds)])
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


def _smoothly(points: Array, faces: IndexArray, size: float, rng: np.random.Generator) -> Array:
    """Moved by a displacement of the given root mean square size: a few wide bumps."""
    centres = points[rng.integers(len(points), size=4)]
    pushes = rng.standard_normal((4, 3))
    width = 0.35 * LENGTH
    bumps = np.exp(-np.sum((points[:, None] - centres) ** 2, axis=2) / (2 * width**2))
    field = bumps @ pushes
    return points + field * size / np.sqrt(np.mean(np.sum(field**2, axis=1)))


def _as_rigidly_as_possible(points: Array, faces: IndexArray, pull: float, rng: np.random.Generator) -> Array:
    """The surface with six of its vertices pulled, each by the same length in a random direction."""
    try:
        import igl
    except ImportError:
        raise InvalidSetting("deformation='arap' needs libigl; install kernelgpa[simulate]") from None
    handles = rng.choice(len(points), HANDLES, replace=False)
    pulls = rng.standard_normal((HANDLES, 3))
    pulls *= pull / np.linalg.norm(pulls, axis=1, keepdims=True)
    data = igl.ARAPData()
    data.max_iter = ARAP_ITERATIONS
    igl.arap_precomputation(points, faces.astype(np.int64), 3, handles.astype(np.int32), data)
    return np.asarray(igl.arap_solve(points[handles] + pulls, data, points.copy()), dtype=np.float64)


DEFORMATIONS: dict[str, Callable[[Array, IndexArray, float, np.random.Generator], Array]] = {
    "smooth": _smoothly,
    "arap": _as_rigidly_as_possible,
}


def _circle(count: int, radius: float) -> tuple[Array, Array]:  # (n, 3, 3), (n, 3)
    """Poses on a circle that look at its centre: z forwards, x along the circle."""
    angle = 2 * np.pi * np.arange(count) / count
    out = np.column_stack([np.cos(angle), np.sin(angle), np.zeros(count)])
    along = np.column_stack([-np.sin(angle), np.cos(angle), np.zeros(count)])
    forwards = -out
    return np.stack([along, np.cross(forwards, along), forwards], axis=2), radius * out

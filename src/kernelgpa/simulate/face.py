"""A head whose face makes one expression per cloud, each observed from another pose.

x points to the head's left, y up, z forwards; the origin lies between the ears.  Along the direction u from there, an
ellipsoid with centre c and half-axes s ends at the larger root r of

    |(r u - c) / s|^2 = 1                                                                                   (1)

and the bare head, made of skull, jaw and neck, ends at  (sum_i r_i^p)^(1/p),  their smooth union.  Bumps and hollows
make it a face; they shift the bare head along z as functions of (x, y):

    h exp(-((|x| - x0) / a)^2 / 2 - ((y - y0) / b)^2 / 2)                                                   (2)

with one row of FEATURES each; features beside the middle plane occur in pairs.  The nose is a ridge whose height and
width grow towards its tip; ears stand out along x.

An expression is a sum of pulls: the skin at c moves by the vector q, and a point p around it by

    q (1 - |p - c|^2 / radius^2)_+^2                                                                        (3)

which is zero beyond the radius.  Its second derivatives are discontinuous there; therefore no wide smooth warp has this
form.  An open mouth rotates the jaw about the ears and parts the lips, which are a few mm apart on the surface.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import InvalidSetting
from ..observations.sampling import farthest_points
from ..typing import Array, BoolArray, IndexArray
from .checks import require_amount, require_counts, require_integer, require_observation_settings
from .closed_surfaces import concentrated, even_sphere, sphere_faces
from .displacements import random_stretch, smooth_field, smoothstep
from .poses import random_poses
from .simulation import Simulation, observe, to_sensor_frames

CONCENTRATION = 0.6  # on the face the vertices are 2.5 times as close as evenly spread ones
SHARPNESS = 10.0  # p of the smooth union
ELLIPSOIDS = (  # centre, half-axes
    ((0, 32, -12), (73, 83, 94)),  # skull
    ((0, -42, 28), (59, 70, 55)),  # jaw
    ((0, -42, -24), (46, 84, 44)),  # neck
)
FEATURES = (  # x0, y0, a, b, h, name
    (22, 17, 15, 5, 6.0, "brow"),
    (31, 0, 12, 9, -15.0, "eye hollow"),
    (31, -1, 8, 5, 10.0, "eye"),
    (47, -24, 13, 11, 5.0, "cheekbone"),
    (11, -41, 4.5, 5, 7.0, "wing of the nose"),
    (0, -54, 3, 4, -1.5, "groove under the nose"),
    (0, -63, 12, 4.2, 6.0, "upper lip"),
    (0, -69, 15, 2.5, -3.5, "line between the lips"),
    (0, -75.5, 10, 4.5, 6.5, "lower lip"),
    (25, -69, 5, 5, -2.5, "corner of the mouth"),
    (0, -86, 16, 5, -4.0, "hollow under the lip"),
    (0, -101, 14, 8, 9.0, "chin"),
)
BRIDGE, TIP = 14.0, -40.0  # mm, y of the upper and the lower end of the nose
MOUTH = (0.0, -69.0, 84.0)  # mm
HINGE = (-10.0, -10.0)  # mm, y and z of the axis about which the jaw rotates
OPENING = 0.1  # radians, rotation of the jaw
MAX_ROTATION, MAX_SHIFT = 30.0, 150.0  # degrees and mm, between a sensor and the world
BEND_BUMPS, BEND_WIDTH = 20, 0.12  # of the smooth displacement; the width is a share of the head's length
STRENGTH_RANGE = 0.1  # largest relative deviation of the strength of an expression


@dataclass(frozen=True)
class Faces(Simulation):
    """A simulated face: a :class:`Simulation` with the expression of each cloud.

    Attributes
    ----------
    expressions : tuple of n str
        The expression of each cloud.
    """

    expressions: tuple[str, ...]


def head_mesh(vertices: int = 5118) -> tuple[Array, IndexArray]:  # (v, 3), (f, 3)
    """Return vertices (mm) and faces of a closed head of about 240 mm: skull, brow, eyes, nose, lips, chin and ears."""
    sphere = concentrated(even_sphere(vertices), np.array([0.0, -0.7, 1.0]), CONCENTRATION)
    bare = sphere * _bare_radius(sphere)[:, None]
    head = bare.copy()
    head[:, 2] += smoothstep(bare[:, 2], 0, 45) * _features(bare)
    head[:, 0] += np.sign(bare[:, 0]) * _ears(bare)
    return head, sphere_faces(sphere)


def face_side(vertices: Array) -> BoolArray:  # (v, 3) -> (v,)
    """Return which vertices of a head lie on its face: below the hair-line and in front of the ears."""
    return (vertices[:, 2] > 25) & (vertices[:, 1] < 75)


def face(
    expressions: Sequence[str] = ("smile", "lip left", "lip right", "cheeks blown", "mouth open"),
    landmarks: int = 326,
    hidden: float = 0.0,
    noise: float = 0.0,
    seed: int = 0,
    vertices: int = 5118,
    strength: float | Sequence[float] = 1.0,
    bend: float | Sequence[float] = 0.0,
    stretch: float | Sequence[float] = 0.0,
) -> Faces:
    """Simulate a face that makes one expression per cloud.

    The expressions move the mouth, the cheeks and the jaw by up to 15 mm, and nothing above them.

    Parameters
    ----------
    expressions : sequence of str
        The expression of each cloud.
    landmarks : int
        The number m of landmarks, which are spread over the face side of the head.
    hidden : float
        Share of the observations that are missing, 0 <= hidden < 1.
    noise : float
        Standard deviation of each coordinate in mm.
    seed : int
        The same seed gives the same scene.
    vertices : int
        Number of vertices of the head.
    strength : float or one per cloud
        Strength of the expressions, from 0 to 3.
    bend : float or one per cloud
        Root mean square size in mm of a further smooth displacement of the whole head: reconstructions of a head from
        different pictures differ also outside of the expression.
    stretch : float or one per cloud
        Standard deviation of a random symmetric stretch of the head, as a share of its length, from 0 to 0.2.

    Returns
    -------
    Faces
        The observations (n, m, 3) and the truth, in mm.

    Examples
    --------
    >>> from kernelgpa import simulate
    >>> scene = simulate.face(["smile", "mouth open"], landmarks=60, vertices=1000)
    >>> scene.points.shape, scene.expressions
    ((2, 60, 3), ('smile', 'mouth open'))
    """
    names = _as_names(expressions)
    strengths = _per_cloud("strength", strength, len(names), unit="", most=3)
    bends = _per_cloud("bend", bend, len(names))
    stretches = _per_cloud("stretch", stretch, len(names), unit="", most=0.2)
    require_observation_settings(hidden, noise, seed)
    require_integer("vertices", vertices, least=200)
    template, faces = head_mesh(vertices)
    front = np.flatnonzero(face_side(template))
    require_counts(len(names), landmarks, len(front), "vertices of the face side")
    rng = np.random.default_rng(seed)
    first = int(np.argmax(template[front, 2]))  # the tip of the nose
    chosen = front[farthest_points(template[front], landmarks, first)]
    variation = rng.uniform(1 - STRENGTH_RANGE, 1 + STRENGTH_RANGE, len(names))
    bodies = [
        template + s * v * EXPRESSIONS[name](template) for name, s, v in zip(names, strengths, variation, strict=True)
    ]
    rotations, translations = random_poses(len(names), MAX_ROTATION, MAX_SHIFT, rng)
    heads = np.stack([_reconstructed(*each, rng) for each in zip(bodies, bends, stretches, strict=True)])
    surfaces = to_sensor_frames(heads, rotations, translations)
    points = observe(surfaces[:, chosen], noise, hidden, rng)
    return Faces(points, template[chosen], chosen, template, faces, surfaces, rotations, translations, names)


def _as_names(expressions: Sequence[str]) -> tuple[str, ...]:
    names = (expressions,) if isinstance(expressions, str) else tuple(expressions)
    unknown = [name for name in names if name not in EXPRESSIONS]
    if unknown:
        raise InvalidSetting(f"expression {unknown[0]!r} is unknown; expected some of {', '.join(EXPRESSIONS)}")
    return names


def _per_cloud(
    name: str, values: float | Sequence[float], clouds: int, unit: str = "mm", most: float = np.inf
) -> list[float]:
    """Return one value per cloud."""
    listed = list(values) if isinstance(values, Sequence) else [values] * clouds
    if len(listed) != clouds:
        raise InvalidSetting(f"{name} has {len(listed)} values; expected one, or one for each of {clouds} clouds")
    for value in listed:
        require_amount(name, value, unit, most)
    return [float(value) for value in listed]


def _reconstructed(head: Array, bend: float, stretch: float, rng: np.random.Generator) -> Array:  # (v, 3) -> (v, 3)
    """Return the head as reconstructed from one picture: displaced smoothly and stretched."""
    if bend:
        head = head + smooth_field(head, bend, rng, bumps=BEND_BUMPS, width=BEND_WIDTH)
    return head @ random_stretch(stretch, rng)


# -- the head --


def _bare_radius(directions: Array) -> Array:  # (v, 3) -> (v,)
    """Return the distance from the origin to the smooth union of the ellipsoids."""
    ends = [_ellipsoid_radius(directions, np.array(c, dtype=float), np.array(s, dtype=float)) for c, s in ELLIPSOIDS]
    return np.sum(np.stack(ends) ** SHARPNESS, axis=0) ** (1 / SHARPNESS)


def _ellipsoid_radius(directions: Array, centre: Array, half_axes: Array) -> Array:
    """Return the distance from the origin, which lies inside, to an ellipsoid: the larger root of (1)."""
    u, c = directions / half_axes, centre / half_axes
    square, middle = np.sum(u**2, axis=1), u @ c
    return (middle + np.sqrt(middle**2 + square * (1 - c @ c))) / square


def _features(bare: Array) -> Array:  # (v, 3) -> (v,) mm forwards
    x, y, _ = bare.T
    forwards = _nose(x, y)
    for x0, y0, a, b, height, _ in FEATURES:
        forwards += height * np.exp(-(((np.abs(x) - x0) / a) ** 2) / 2 - ((y - y0) / b) ** 2 / 2)
    return forwards


def _nose(x: Array, y: Array) -> Array:
    along = np.clip((BRIDGE - y) / (BRIDGE - TIP), 0, 1)
    below = np.exp(-((np.minimum(y - TIP, 0) / 6) ** 2) / 2)
    return 22 * along**1.3 * below * np.exp(-((x / (5 + 4 * along)) ** 2) / 2)


def _ears(bare: Array) -> Array:  # (v, 3) -> (v,) mm sideways
    x, y, z = bare.T
    shell = 15 * np.exp(-(((y + 6) / 18) ** 2) / 2 - ((z + 16) / 9) ** 2 / 2)
    hollow = 10 * np.exp(-(((y + 6) / 9) ** 2) / 2 - ((z + 11) / 5) ** 2 / 2)
    return smoothstep(np.abs(x), 30, 55) * (shell - hollow)


# -- the expressions: (v, 3) -> (v, 3) displacements --

Pull = tuple[tuple[float, float, float], float, tuple[float, float, float]]  # centre, radius, vector, in mm


def _pull(points: Array, pulls: Sequence[Pull]) -> Array:
    """Return the sum of the displacements (3)."""
    moved = np.zeros_like(points)
    for centre, radius, vector in pulls:
        moved += _bump(points, centre, radius)[:, None] * np.array(vector)
    return moved


def _bump(points: Array, centre: tuple[float, float, float], radius: float) -> Array:  # (v, 3) -> (v,)
    return np.clip(1 - np.sum((points - centre) ** 2, axis=1) / radius**2, 0, None) ** 2


def _both_sides(pulls: Sequence[Pull]) -> list[Pull]:
    return [*pulls, *(((-x, y, z), radius, (-u, v, w)) for (x, y, z), radius, (u, v, w) in pulls)]


def _smile(points: Array) -> Array:
    corner: Pull = ((25, -69, 76), 34, (8, 8, -5))
    cheek: Pull = ((43, -42, 65), 30, (2, 3, 5))
    return _pull(points, _both_sides([corner, cheek]))


def _lip_left(points: Array) -> Array:
    return _pull(points, [(MOUTH, 34, (11, 1, -1)), ((28, -66, 76), 30, (4, 4, -3))])


def _lip_right(points: Array) -> Array:
    return _pull(points, [(MOUTH, 34, (-11, 1, -1)), ((-28, -66, 76), 30, (-4, 4, -3))])


def _cheeks_blown(points: Array) -> Array:
    return _pull(points, [*_both_sides([((42, -62, 60), 36, (10, 0, 8))]), (MOUTH, 24, (0, 0, 3))])


def _mouth_open(points: Array) -> Array:
    """Rotate the jaw about the ears; between the lips the skin moves inwards."""
    x, y, z = points.T
    wide = np.clip(1 - (x / 34) ** 2, 0, None) ** 2
    share = smoothstep(MOUTH[1] - y, -5, 28 - 20 * wide)  # the lips part abruptly, the cheeks stretch
    jaw = share * smoothstep(_bump(points, (0, -92, 68), 75), 0, 0.6)
    inwards = 36 * share * (1 - share) * wide * smoothstep(z, 30, 60)
    return np.column_stack(
        [np.zeros_like(x), -OPENING * jaw * (z - HINGE[1]), OPENING * jaw * (y - HINGE[0]) - inwards]
    )


EXPRESSIONS: dict[str, Callable[[Array], Array]] = {
    "smile": _smile,
    "lip left": _lip_left,
    "lip right": _lip_right,
    "cheeks blown": _cheeks_blown,
    "mouth open": _mouth_open,
}

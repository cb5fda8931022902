"""Lungs of several people in CT scans: landmarks inside the lungs, most of them found in some scans only.

x points to the body's left, y up, z forwards.  A lung is made from the unit sphere, a point of which has the height b
and, around the vertical axis, the directions (a, c), a outwards from the spine:

    radius  (1 - b^2)^0.6 above b = 0 and (1 - b^4)^(1/4) below, which tapers to the apex and is full at the base
    height  150 b above and 340 (b + 0.85 b^2) below, which rises again: the dome of the diaphragm                (1)

This upright body is then bent: its base is lower at the back and at the outer side, its inner side is flattened and
hollowed by the heart, more on the left, and its apex leans inwards.  Each of these displacements keeps the order of
points along its axis; therefore the inside of the upright body becomes the inside of the lung.

A person differs from the template by width, length and thickness, by a shear that moves the shoulders sideways and
forwards, by the breath, which moves a point at the share e of the height below the apex down by  q e^2, and by a few
wide bumps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from ..errors import InvalidSetting
from ..observations.sampling import farthest_points
from ..typing import Array, BoolArray, IndexArray
from .checks import require_amount, require_bump_width, require_counts, require_integer, require_share
from .closed_surfaces import even_sphere, sphere_faces
from .displacements import BUMP_WIDTH, smooth_field, smoothstep
from .mismatches import exchanged
from .poses import random_poses
from .simulation import Simulation, observe, to_sensor_frames

LUNG_AXIS = 73.0  # mm from the middle of the body to the axis of a lung
OUTER, INNER, DEPTH = 67.0, 50.0, 84.0  # mm from that axis: outwards, inwards, and forwards or backwards
FLARE = 0.14  # relative increase of the width per 100 mm further down
HEART = {-1: 0.3, 1: 0.8}  # share by which the heart makes the right and the left lung thinner inwards
APEX = 150.0  # mm above the widest level
SIZE_SD, SHEAR_SD, BREATH_SD = 0.08, 0.08, 14.0  # between people: shares, slopes, mm
MAX_ROTATION, MAX_SHIFT = 20.0, 100.0  # degrees and mm, between a scanner and the world
SURFACE_SHARE = 1 / 3  # of the vertices, which lie on the surface
SEEN_IN: Mapping[int, int] = MappingProxyType({3: 480, 4: 482, 5: 211, 6: 147})  # clouds: landmarks


@dataclass(frozen=True)
class Scans(Simulation):
    """Simulated lungs: a :class:`Simulation` with the number of views and the wrong matches.

    The faces are those of the two lungs; vertices with larger indices than those of the faces lie inside.

    Attributes
    ----------
    seen_in : int array of shape (m,)
        How many clouds see each landmark.
    wrong : bool array of shape (n, m)
        Which observations are wrong matches.
    """

    seen_in: IndexArray
    wrong: BoolArray


def lungs_mesh(vertices: int = 2000) -> tuple[Array, IndexArray]:  # (v, 3), (f, 3)
    """Return vertices (mm) and faces of two closed lungs in a thorax about 300 mm wide, the left one first."""
    sphere = even_sphere(vertices // 2)[:, [0, 2, 1]] * (1, 1, -1)  # upright, and not a mirror image
    faces = sphere_faces(sphere)
    upright = _upright(sphere)
    both = np.concatenate([_bent(upright, 1), _bent(upright, -1)])
    return both, np.concatenate([faces, faces[:, ::-1] + len(sphere)])


def ct(
    clouds: int = 6,
    seen_in: Mapping[int, int] = SEEN_IN,
    differ: float = 1.0,
    bend: float = 5.0,
    wrong: float = 0.0,
    noise: float = 0.0,
    seed: int = 0,
    vertices: int = 6000,
    wrong_within: float | None = None,
    bump_width: float = BUMP_WIDTH,
) -> Scans:
    """Simulate landmarks inside the lungs of different people, each seen in some of the scans.

    Parameters
    ----------
    clouds : int
        The number n of people, one scan each.
    seen_in : mapping from int to int
        How many landmarks are seen in exactly the given number of clouds: ``{3: 480, 6: 147}`` are 627 landmarks, 480
        of which are seen in three clouds each.
    differ : float
        Differences between people in size, shear and breath, relative to natural ones, from 0 to 2.
    bend : float
        Root mean square size in mm of the further deformation of each person.
    wrong : float
        Share of the observations that are wrong matches, 0 <= wrong < 1.
    noise : float
        Standard deviation of each coordinate in mm.
    seed : int
        The same seed gives the same scene.
    vertices : int
        Number of vertices, a third of them on the surface and the others inside.
    wrong_within : float, optional
        The largest distance in mm of a wrong match; by default they may lie anywhere in the lungs.
    bump_width : float
        Standard deviation of the bumps of the further deformation, as a share of the body's length, from 0.05 to 1.

    Returns
    -------
    Scans
        The observations (n, m, 3) and the truth, in mm.

    Examples
    --------
    >>> from kernelgpa import simulate
    >>> scene = simulate.ct(clouds=4, seen_in={3: 30, 4: 10}, vertices=600)
    >>> scene.points.shape, sorted(set(scene.seen_in.tolist()))
    ((4, 40, 3), [3, 4])
    """
    require_amount("differ", differ, unit="", most=2)
    require_amount("bend", bend)
    require_amount("noise", noise)
    require_bump_width(bump_width)
    require_share("wrong", wrong)
    require_integer("seed", seed)
    require_integer("vertices", vertices, least=100)
    require_integer("clouds", clouds, least=2)
    _require_seen_in(seen_in, clouds)
    on_surface = 2 * round(SURFACE_SHARE * vertices / 2)
    landmarks = sum(seen_in.values())
    require_counts(clouds, landmarks, vertices - on_surface, "vertices inside the lungs")
    rng = np.random.default_rng(seed)
    surface, faces = lungs_mesh(on_surface)
    template = np.concatenate([surface, _inside(vertices - on_surface, rng)])
    chosen = on_surface + farthest_points(template[on_surface:], landmarks)
    people = np.stack([_person(template, differ, bend, bump_width, rng) for _ in range(clouds)])
    rotations, translations = random_poses(clouds, MAX_ROTATION, MAX_SHIFT, rng)
    scans = to_sensor_frames(people, rotations, translations)
    views = rng.permutation(np.repeat(list(seen_in), list(seen_in.values())))
    points = observe(scans[:, chosen], noise, 0.0, rng)
    points[~_visibility(views, clouds, rng)] = np.nan
    points, mismatches = exchanged(points, wrong, int(rng.integers(2**31)), wrong_within)
    truth = (template[chosen], chosen, template, faces, scans, rotations, translations)
    return Scans(points, *truth, views.astype(np.intp), mismatches)


def _require_seen_in(seen_in: Mapping[int, int], clouds: int) -> None:
    if not isinstance(seen_in, Mapping):
        raise InvalidSetting(
            f"seen_in is {seen_in!r}; expected numbers of landmarks by numbers of clouds, like {{3: 480, 6: 147}}"
        )
    for views, count in seen_in.items():
        require_integer(f"seen_in: the number of landmarks seen in {views!r} clouds", count)
        require_integer("seen_in: a number of clouds", views, least=1)
        if views > clouds:
            raise InvalidSetting(
                f"seen_in asks for {count} landmarks seen in {views} clouds of {clouds}; pass another seen_in"
            )


# -- the lungs --


def _upright(sphere: Array) -> Array:  # (v, 3) -> (v, 3)
    """Return the surface (1): a and c relative to the largest radius, the height in mm."""
    a, b, c = sphere.T
    radius = np.where(b > 0, np.clip(1 - b**2, 0, None) ** 0.6, np.clip(1 - b**4, 0, None) ** 0.25)
    wider = radius / np.maximum(np.hypot(a, c), np.finfo(float).tiny)
    return np.column_stack([a * wider, np.where(b > 0, APEX * b, _base_height(b)), c * wider])


def _base_height(b: Array) -> Array:
    return 340 * (b + 0.85 * b**2)


def _inside(count: int, rng: np.random.Generator) -> Array:  # (count, 3)
    """Return points inside the lungs, half of them in each."""
    upright = _upright_inside(count, rng)
    return np.concatenate([_bent(upright[: count // 2], 1), _bent(upright[count // 2 :], -1)])


def _upright_inside(count: int, rng: np.random.Generator) -> Array:  # (count, 3)
    """Return points spread evenly in the volume of the upright body: more of them where it is higher."""
    radius, angle = 0.95 * np.sqrt(rng.random(10 * count)), rng.uniform(0, 2 * np.pi, 10 * count)
    top = APEX * np.sqrt(1 - radius ** (1 / 0.6))
    bottom = _base_height(-((1 - radius**4) ** 0.25))
    height = top - bottom
    kept = rng.choice(len(radius), count, replace=False, p=height / height.sum())
    level = bottom + rng.uniform(0.04, 0.96, len(radius)) * height
    return np.column_stack([radius * np.cos(angle), level, radius * np.sin(angle)])[kept]


def _bent(upright: Array, side: int) -> Array:  # (v, 3) -> (v, 3)
    """Return a lung: the left one if the side is 1, the right one if it is -1."""
    a, level, c = upright.T
    y = level + (20 * c - 24 * a) * smoothstep(-level, 0, 90)
    up = np.clip(level / APEX, 0, None)
    z = DEPTH * c - 10 * up
    heart = HEART[side] * np.exp(-(((y + 50) / 42) ** 2) / 2 - ((z - 30) / 60) ** 2 / 2)
    x = np.where(a > 0, OUTER * (1 - FLARE * y / 100), INNER * (1 - heart)) * a - 26 * up**2
    return np.column_stack([side * (LUNG_AXIS + x), y, z])


def _person(template: Array, differ: float, bend: float, bump_width: float, rng: np.random.Generator) -> Array:
    """Return the template deformed as one person differs from it."""
    sizes = 1 + differ * SIZE_SD * np.clip(rng.standard_normal(3), -2, 2)
    sideways, forwards = differ * SHEAR_SD * rng.standard_normal(2)
    breath = differ * BREATH_SD * rng.standard_normal()
    height = template[:, 1]
    below = (height.max() - height) / np.ptp(height)
    body = template * sizes + height[:, None] * np.array([sideways, 0, forwards])
    body[:, 1] -= breath * below**2
    return body + smooth_field(template, bend, rng, width=bump_width)


# -- visibility --


def _visibility(views: IndexArray, clouds: int, rng: np.random.Generator) -> BoolArray:  # (m,) -> (n, m)
    """Return which clouds see each landmark: the given numbers of them, drawn at random."""
    rank = np.argsort(rng.random((clouds, len(views))), axis=0)
    return rank < views

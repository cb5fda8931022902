"""Lungs of several people in CT scans: landmarks inside them, most of them found in some scans only.

x goes to the body's left, y up, z forwards.  A lung is made from the unit sphere, a point of which has the height b
and, around the vertical axis, the directions (a, c), a outwards from the spine:

    radius  (1 - b^2)^0.6 above b = 0 and (1 - b^4)^(1/4) below, which tapers to the apex and is full at the base
    height  150 b above and 340 (b + 0.85 b^2) below, which turns upwards again: the dome of the diaphragm        (1)

This upright body is then bent in space: its base hangs lower at the back and at the outer side, its inner side is
flattened and hollowed where the heart lies, more on the left, and its apex leans inwards.  As each of these moves keeps
the order of points along its axis, the inside of the upright body becomes the inside of the lung.

One person differs from the template by width, length and thickness, by a shear that moves the shoulders sideways and
forwards, by the breath, which moves a point at the share e of the height below the apex down by  q e^2, and by a few
wide bumps of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from ..errors import InvalidSetting
from ..observations.sampling import farthest_points
from ..typing import Array, BoolArray, IndexArray
from .checks import require_amount, require_counts, require_share, require_whole
from .closed import even_sphere, sphere_faces
from .fields import rising, smooth_field
from .mismatch import exchanged
from .poses import scattered
from .simulation import Simulation, measured, seen_from

SPINE = 73.0  # mm from the middle of the body to the axis of a lung
OUTER, INNER, DEPTH = 67.0, 50.0, 84.0  # mm from that axis: outwards, inwards, and forwards or backwards
FLARE = 0.14  # by which a lung is wider 100 mm further down, as a share
HEART = {-1: 0.3, 1: 0.8}  # by which it makes the right and the left lung thinner inwards, as a share
APEX = 150.0  # mm above the widest place
SIZES, SHEAR, BREATH = 0.08, 0.08, 14.0  # standard deviations between people: shares, slopes, mm
TURN, SHIFT = 20.0, 100.0  # degrees and mm: the largest between a scanner and the world
SURFACE = 1 / 3  # share of the vertices that lie on the surface
SEEN_IN: Mapping[int, int] = MappingProxyType({3: 480, 4: 482, 5: 211, 6: 147})


@dataclass(frozen=True)
class Scans(Simulation):
    """Simulated lungs.  The faces are those of the two lungs; vertices after the last that they name lie inside."""

    seen_in: IndexArray  # (m,) how many clouds see a landmark
    wrong: BoolArray  # (n, m) which observations are mismatches


def lungs_mesh(vertices: int = 2000) -> tuple[Array, IndexArray]:  # (v, 3), (f, 3)
    """Two closed lung-like surfaces in a thorax about 300 mm wide; first the left one."""
    sphere = even_sphere(vertices // 2)[:, [0, 2, 1]] * (1, 1, -1)  # the axis upright, and not mirrored
    faces = sphere_faces(sphere)
    upright = _upright(sphere)
    both = np.concatenate([_bent(upright, 1), _bent(upright, -1)])
    return both, np.concatenate([faces, faces[:, ::-1] + len(sphere)])


def ct(
    clouds: int = 6,
    seen_in: Mapping[int, int] = SEEN_IN,
    differ: float = 1.0,  # how much people differ in size, shear and breath, as a share of how much they do
    bend: float = 5.0,  # mm: root mean square of a person's own deformation
    wrong: float = 0.0,  # share of the observations
    noise: float = 0.0,  # mm
    seed: int = 0,
    vertices: int = 6000,
) -> Scans:
    """Clouds of landmarks inside the lungs of different people.

    seen_in : how many landmarks are seen in exactly so many clouds; ``{3: 480, 6: 147}`` are 627 landmarks, 480 of
        them in three clouds each.
    """
    require_amount("differ", differ, unit="", most=2)
    require_amount("bend", bend)
    require_amount("noise", noise)
    require_share("wrong", wrong)
    require_whole("seed", seed)
    require_whole("vertices", vertices, least=100)
    require_whole("clouds", clouds, least=2)
    _require_seen_in(seen_in, clouds)
    on = 2 * round(SURFACE * vertices / 2)
    landmarks = sum(seen_in.values())
    require_counts(clouds, landmarks, vertices - on, "vertices inside the lungs")
    rng = np.random.default_rng(seed)
    surface, faces = lungs_mesh(on)
    template = np.concatenate([surface, _inside(vertices - on, rng)])
    chosen = on + farthest_points(template[on:], landmarks)
    people = np.stack([_person(template, differ, bend, rng) for _ in range(clouds)])
    rotations, translations = scattered(clouds, TURN, SHIFT, rng)
    scans = seen_from(people, rotations, translations)
    times = rng.permutation(np.repeat(list(seen_in), list(seen_in.values())))
    points = measured(scans[:, chosen], noise, 0.0, rng)
    points[~_sights(times, clouds, rng)] = np.nan
    points, mistaken = exchanged(points, wrong, int(rng.integers(2**31)))
    truth = (template[chosen], chosen, template, faces, scans, rotations, translations)
    return Scans(points, *truth, times.astype(np.intp), mistaken)


def _require_seen_in(seen_in: Mapping[int, int], clouds: int) -> None:
    if not isinstance(seen_in, Mapping):
        raise InvalidSetting(
            f"seen_in is {seen_in!r}; expected how many landmarks are seen in how many clouds, like {{3: 480, 6: 147}}"
        )
    for times, count in seen_in.items():
        require_whole(f"seen_in: the number of landmarks seen in {times!r} clouds", count)
        require_whole("seen_in: a number of clouds", times, least=1)
        if times > clouds:
            raise InvalidSetting(
                f"seen_in asks for {count} landmarks seen in {times} clouds; there are {clouds}; pass another seen_in"
            )


# -- the lungs --


def _upright(sphere: Array) -> Array:  # (v, 3) -> (v, 3)
    """The surface (1): a and c as shares of the widest, the height in mm."""
    a, b, c = sphere.T
    radius = np.where(b > 0, np.clip(1 - b**2, 0, None) ** 0.6, np.clip(1 - b**4, 0, None) ** 0.25)
    wider = radius / np.maximum(np.hypot(a, c), np.finfo(float).tiny)
    return np.column_stack([a * wider, np.where(b > 0, APEX * b, _base(b)), c * wider])


def _base(b: Array) -> Array:
    return 340 * (b + 0.85 * b**2)


def _inside(count: int, rng: np.random.Generator) -> Array:  # (count, 3)
    """Points inside the lungs, half of them in each."""
    upright = _upright_inside(count, rng)
    return np.concatenate([_bent(upright[: count // 2], 1), _bent(upright[count // 2 :], -1)])


def _upright_inside(count: int, rng: np.random.Generator) -> Array:  # (count, 3)
    """Points inside the same body, evenly in its volume: more of them where it is higher."""
    radius, turn = 0.95 * np.sqrt(rng.random(10 * count)), rng.uniform(0, 2 * np.pi, 10 * count)
    top = APEX * np.sqrt(1 - radius ** (1 / 0.6))
    bottom = _base(-((1 - radius**4) ** 0.25))
    height = top - bottom
    kept = rng.choice(len(radius), count, replace=False, p=height / height.sum())
    level = bottom + rng.uniform(0.04, 0.96, len(radius)) * height
    return np.column_stack([radius * np.cos(turn), level, radius * np.sin(turn)])[kept]


def _bent(upright: Array, side: int) -> Array:  # (v, 3) -> (v, 3), side 1 the left lung, -1 the right one
    a, level, c = upright.T
    y = level + (20 * c - 24 * a) * rising(-level, 0, 90)
    up = np.clip(level / APEX, 0, None)
    z = DEPTH * c - 10 * up
    heart = HEART[side] * np.exp(-(((y + 50) / 42) ** 2) / 2 - ((z - 30) / 60) ** 2 / 2)
    x = np.where(a > 0, OUTER * (1 - FLARE * y / 100), INNER * (1 - heart)) * a - 26 * up**2
    return np.column_stack([side * (SPINE + x), y, z])


def _person(template: Array, differ: float, bend: float, rng: np.random.Generator) -> Array:
    """The template as one person has it."""
    sizes = 1 + differ * SIZES * np.clip(rng.standard_normal(3), -2, 2)
    sideways, forwards = differ * SHEAR * rng.standard_normal(2)
    breath = differ * BREATH * rng.standard_normal()
    height = template[:, 1]
    below = (height.max() - height) / np.ptp(height)
    body = template * sizes + height[:, None] * np.array([sideways, 0, forwards])
    body[:, 1] -= breath * below**2
    return body + smooth_field(template, bend, rng)


# -- who sees what --


def _sights(times: IndexArray, clouds: int, rng: np.random.Generator) -> BoolArray:  # (m,) -> (n, m)
    """Each landmark in so many clouds, drawn at random."""
    rank = np.argsort(rng.random((clouds, len(times))), axis=0)
    return rank < times

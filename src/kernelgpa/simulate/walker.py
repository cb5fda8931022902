"""A walking person with optical markers: limbs that turn about joints, markers that disappear for some time.

The body is a tree of rigid segments.  Segment i has a parent, and a joint at the position o_i of the standing body.  At
time t it has turned about its joint by R_i(t), a rotation about the transverse axis (x) and a smaller one about the
direction of walking (y), both sinusoids of time.  A marker p of the segment moves to

    g_i(p) = g_parent(o_i + R_i(t) (p - o_i)),      g_torso(p) = p                                          (1)

The two sides swing in turn.  A marker is hidden in gaps of several consecutive frames, as if a limb covered it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.spatial.transform import Rotation

from ..typing import Array, BoolArray, IndexArray
from .checks import require_amount, require_integer, require_observation_settings
from .poses import random_poses
from .simulation import Simulation, observe, to_sensor_frames

MARKERS = 5  # of each segment
THICKNESS = 45.0  # mm, distance of the markers from the axis of a segment
FRAMES_PER_STEP = 40.0
SIDEWAYS = 0.25  # size of the rotation about y, as a share of that about x
LARGEST_SWING = 60.0  # degrees
MAX_ROTATION, MAX_SHIFT = 180.0, 1000.0  # degrees and mm, of the frames


class Segment(NamedTuple):
    """A part of the body, in mm on the standing body, x to the left and z up."""

    parent: int  # index; -1: none
    joint: tuple[float, float, float]
    end: tuple[float, float, float]
    swing: float  # degrees at swing 1 of the body
    phase: float  # in steps


SEGMENTS = (
    Segment(-1, (0, 0, 1000), (0, 0, 1450), 0.0, 0.0),  # torso
    Segment(0, (0, 0, 1500), (0, 0, 1750), 0.3, 0.0),  # head
    Segment(0, (200, 0, 1430), (220, 0, 1130), 0.8, 0.5),  # upper arms
    Segment(0, (-200, 0, 1430), (-220, 0, 1130), 0.8, 0.0),
    Segment(2, (220, 0, 1130), (230, 0, 850), 0.6, 0.6),  # forearms
    Segment(3, (-220, 0, 1130), (-230, 0, 850), 0.6, 0.1),
    Segment(0, (100, 0, 980), (110, 0, 530), 1.0, 0.0),  # thighs
    Segment(0, (-100, 0, 980), (-110, 0, 530), 1.0, 0.5),
    Segment(6, (110, 0, 530), (115, 0, 90), 0.9, 0.2),  # shanks
    Segment(7, (-110, 0, 530), (-115, 0, 90), 0.9, 0.7),
)


def walker(
    clouds: int = 40,
    swing: float = 30.0,
    gap: int = 6,
    hidden: float = 0.1,
    noise: float = 0.0,
    seed: int = 0,
) -> Simulation:
    """Simulate the markers of a walking person, each hidden in gaps.

    Parameters
    ----------
    clouds : int
        The number n of frames.
    swing : float
        Largest angle in degrees by which the thighs turn, from 0 to 60; the other joints follow.
    gap : int
        The number of consecutive frames in which a marker is hidden at a time.
    hidden : float
        Share of the observations that are missing, about, 0 <= hidden < 1.
    noise : float
        Standard deviation of each coordinate in mm.
    seed : int
        The same seed gives the same scene.

    Returns
    -------
    Simulation
        The observations (n, 50, 3) and the truth, in mm.  The vertices are the markers; there are no faces.

    Examples
    --------
    >>> from kernelgpa import simulate
    >>> simulate.walker(clouds=20).points.shape
    (20, 50, 3)
    """
    require_observation_settings(hidden, noise, seed)
    require_amount("swing", swing, unit="degrees", most=LARGEST_SWING)
    require_integer("gap", gap, least=1)
    require_integer("clouds", clouds, least=2)
    rng = np.random.default_rng(seed)
    standing, owners = _markers(rng)
    start = rng.uniform(0, 1)
    bodies = np.stack([_posture(standing, owners, swing, start + t / FRAMES_PER_STEP) for t in range(clouds)])
    rotations, translations = random_poses(clouds, MAX_ROTATION, MAX_SHIFT, rng)
    surfaces = to_sensor_frames(bodies, rotations, translations)
    points = observe(surfaces, noise, 0.0, rng)
    points[_gaps(clouds, len(standing), gap, hidden, rng)] = np.nan
    landmarks = np.arange(len(standing))
    faces = np.zeros((0, 3), dtype=np.intp)
    return Simulation(points, standing, landmarks, standing, faces, surfaces, rotations, translations)


def _markers(rng: np.random.Generator) -> tuple[Array, IndexArray]:  # (m, 3), (m,)
    """The markers of the standing body around the axes of their segments, and the segments they belong to."""
    markers = []
    for segment in SEGMENTS:
        joint, end = np.array(segment.joint), np.array(segment.end)
        along = (np.arange(MARKERS) + rng.uniform(0.2, 0.8, MARKERS)) / MARKERS
        angle = 2 * np.pi * (np.arange(MARKERS) * 2 / MARKERS + rng.uniform(-0.1, 0.1, MARKERS))
        around = THICKNESS * np.column_stack([np.cos(angle), np.sin(angle), np.zeros(MARKERS)])
        markers.append(joint + along[:, None] * (end - joint) + around)
    return np.concatenate(markers), np.repeat(np.arange(len(SEGMENTS)), MARKERS)


def _posture(standing: Array, owners: IndexArray, swing: float, steps: float) -> Array:  # (m, 3) -> (m, 3)
    """Return the body at a time in steps, by (1): children turn before their parents."""
    body = standing.copy()
    for i in reversed(range(len(SEGMENTS))):
        segment = SEGMENTS[i]
        angle = swing * segment.swing * np.sin(2 * np.pi * (steps + segment.phase))
        rotation = Rotation.from_euler("xy", [angle, SIDEWAYS * angle], degrees=True)
        moved = np.isin(owners, _with_descendants(i))
        body[moved] = rotation.apply(body[moved] - segment.joint) + segment.joint
    return body


def _with_descendants(i: int) -> list[int]:
    """A segment and all that hang on it; parents precede their children."""
    found = [i]
    for k, segment in enumerate(SEGMENTS):
        if segment.parent in found:
            found.append(k)
    return found


def _gaps(clouds: int, markers: int, gap: int, hidden: float, rng: np.random.Generator) -> BoolArray:  # (n, m)
    """Return which observations are hidden: runs of ``gap`` frames, until the share is reached."""
    chosen = np.zeros((clouds, markers), dtype=bool)
    while chosen.mean() < hidden:
        first, marker = rng.integers(1 - gap, clouds), rng.integers(markers)
        chosen[max(first, 0) : first + gap, marker] = True
    return chosen

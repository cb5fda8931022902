"""The way back: where in a cloud does a point of the map come from?

Damped Newton on y(p) = q with the warp's own Jacobian, for all points at once:

    p <- p + s J(p)^-1 (q - y(p)),      s halved until the distance |q - y(p)| falls.

It starts from the kernel centre whose image is nearest and from the inverse of the affine part.  A warp that turns
over anywhere near its centres may reach a point from several places: there it also starts from the other
centres, and places between them, whose images are near.  Of all places found the answer is the one among the
landmarks; where two of them lie among the landmarks, or none does and they differ, or the warp turns over there,
there is no one answer, and none is given.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial import KDTree

from ..observations.arrays import finite_rows
from ..observations.sampling import farthest_points
from ..typing import Array, BoolArray
from .warp import Warp

STEPS = 50
HALVINGS = 12
ARRIVED = 1e-12  # of the size of the cloud's image, or of the distance of a far target
SAME = 1e-6  # of the size of the cloud: answers that differ by less are one
AMONG = 3.0  # times the usual distance between neighbours: a point so near to a centre is among them
NEAREST = 4  # starts of either orientation
SHELLS = (0.5, 1.0)  # distances from a centre, in widths of the kernel, where turning over is looked for
SURROUNDED = 300  # centres that get shells
BATCH = 20_000


def inverse(warp: Warp, targets: Array) -> Array:  # (k, d) -> (k, d), NaN where there is no one answer
    """The points that the warp takes to the targets."""
    found = np.full_like(targets, np.nan)
    matrix, offset = warp.affine
    if np.linalg.matrix_rank(matrix) < targets.shape[1]:
        return found
    if not len(warp.centres):
        return _solved(matrix, targets - offset)
    places = _Places.of(warp)
    for first in range(0, len(targets), BATCH):
        part = first + np.flatnonzero(finite_rows(targets[first : first + BATCH]))
        found[part] = _inverse_batch(warp, places, targets[part])
    return found


def oriented(warp: Warp, points: Array) -> Array:  # (k, d) -> (k,)
    """The determinant of the Jacobian against that of the affine part: 1 far away, not positive in a fold."""
    return np.linalg.det(warp.jacobian(points)) / np.linalg.det(warp.affine[0])


@dataclass(frozen=True)
class _Places:
    """Where a warp is known, and where it keeps its orientation."""

    hand: float  # the sign of the determinant at most centres
    upright: Array  # (a, d) places with it
    turned: Array  # (b, d) places without
    landmarks: KDTree
    reach: float  # a point so near to a centre is among them

    @staticmethod
    def of(warp: Warp) -> _Places:
        centres = warp.centres
        hand = float(np.sign(np.median(np.sign(np.linalg.det(warp.jacobian(centres)))))) or 1.0
        around = np.vstack([centres, _shells(warp)])
        upright = hand * np.linalg.det(warp.jacobian(around)) > 0
        landmarks = KDTree(centres)
        usual = np.median(landmarks.query(centres, k=2)[0][:, 1]) if len(centres) > 1 else warp.sigma
        return _Places(hand, around[upright], around[~upright], landmarks, AMONG * float(usual))


def _shells(warp: Warp) -> Array:  # (k, d)
    d = warp.centres.shape[1]
    some = warp.centres[farthest_points(warp.centres, SURROUNDED)]
    ways = np.vstack([np.eye(d), -np.eye(d)])
    return np.vstack([some + share * warp.sigma * way for share in SHELLS for way in ways])


def _inverse_batch(warp: Warp, places: _Places, targets: Array) -> Array:
    best = np.full_like(targets, np.nan)
    away, rival = np.full(len(targets), np.inf), np.full(len(targets), np.inf)  # distances from the landmarks
    for start in _starts(warp, places, targets):
        points, arrived = _newton(warp, targets, start)
        distance = np.where(arrived, places.landmarks.query(points)[0], np.inf)
        same = np.linalg.norm(points - best, axis=1) <= SAME * warp.frame.size
        nearer = distance < away
        rival = np.where(same, rival, np.minimum(rival, np.where(nearer, away, distance)))
        best[nearer], away[nearer] = points[nearer], distance[nearer]
    alone = np.where(away <= places.reach, rival > places.reach, np.isinf(rival))
    answered = np.isfinite(away) & alone
    answered[answered] = places.hand * np.linalg.det(warp.jacobian(best[answered])) > 0
    best[~answered] = np.nan
    return best


def _starts(warp: Warp, places: _Places, targets: Array) -> list[Array]:
    matrix, offset = warp.affine
    starts = [warp.centres[KDTree(warp(warp.centres)).query(targets)[1] % len(warp.centres)]]
    starts.append(_solved(matrix, targets - offset))
    if len(places.turned):
        for some in (places.upright, places.turned):
            nearest = KDTree(warp(some)).query(targets, k=min(NEAREST, len(some)))[1].reshape(len(targets), -1)
            starts += [some[column % len(some)] for column in nearest.T]  # a target beyond all numbers has no neighbour
    return starts


def _newton(warp: Warp, targets: Array, start: Array) -> tuple[Array, BoolArray]:
    points = start.copy()
    distance = _distance(warp, points, targets)
    close = ARRIVED * np.maximum(warp.image_size, np.linalg.norm(targets - warp.coefficients[-1], axis=1))
    for _ in range(STEPS):
        active = np.flatnonzero(distance > close)
        if not len(active):
            break
        step = _newton_step(warp, points[active], targets[active])
        moved, closer = _damped(warp, points[active], step, targets[active], distance[active])
        improved = closer < distance[active]
        points[active[improved]], distance[active[improved]] = moved[improved], closer[improved]
        if not improved.any():
            break
    return points, distance <= 1e3 * close  # a few units in the last place may be out of reach


def _newton_step(warp: Warp, points: Array, targets: Array) -> Array:
    jacobian = warp.jacobian(points)
    singular = np.abs(np.linalg.det(jacobian)) < 1e-12 * abs(np.linalg.det(warp.affine[0]))
    jacobian[singular] = warp.affine[0]  # on a fold the affine part still knows a way
    return _solved(jacobian, targets - warp(points))


def _solved(matrices: Array, rows: Array) -> Array:  # (..., d, d), (k, d) -> (k, d)
    return np.asarray(np.linalg.solve(matrices, rows[:, :, None])[:, :, 0], dtype=np.float64)


def _damped(warp: Warp, points: Array, step: Array, targets: Array, distance: Array) -> tuple[Array, Array]:
    """The longest of the steps s, s/2, s/4, ... that comes closer, point by point."""
    moved = points + step
    closer = _distance(warp, moved, targets)
    share = 1.0
    for _ in range(HALVINGS):
        worse = np.flatnonzero(~(closer < distance))
        if not len(worse):
            break
        share /= 2
        moved[worse] = points[worse] + share * step[worse]
        closer[worse] = _distance(warp, moved[worse], targets[worse])
    return moved, closer


def _distance(warp: Warp, points: Array, targets: Array) -> Array:
    return np.linalg.norm(warp(points) - targets, axis=1)

"""The way back: where in a cloud does a point of the map come from?

Damped Newton on y(p) = q with the warp's own Jacobian, for all points at once:

    p <- p + s J(p)^-1 (q - y(p)),      s halved until the distance |q - y(p)| falls.

It starts from the inverse of the affine part; what does not arrive starts once more from the kernel centre
whose image is nearest.  A point counts as inverted only if the residual is at rounding and the warp keeps its
orientation there.  A warp that turns over at any of its centres may reach a point from several places: there
both starts are tried for every point, and where they do not agree there is no one answer, and none is given.
"""

from __future__ import annotations

import numpy as np
from scipy.spatial import KDTree

from ..frames import Array, BoolArray, finite_rows
from .base import Warp

STEPS = 50
HALVINGS = 12
ARRIVED = 1e-12  # of the size of the cloud's image
SAME = 1e-6  # of the size of the cloud: answers that differ by less are one
BATCH = 20_000


def inverse(warp: Warp, targets: Array) -> Array:  # (k, d) -> (k, d), NaN where there is no one answer
    """The points that the warp takes to the targets."""
    found = np.full_like(targets, np.nan)
    for first in range(0, len(targets), BATCH):
        part = slice(first, first + BATCH)
        found[part] = _inverse_batch(warp, targets[part])
    return found


def oriented(warp: Warp, points: Array) -> Array:  # (k, d) -> (k,)
    """The determinant of the Jacobian against that of the affine part: 1 far away, not positive in a fold."""
    return np.linalg.det(warp.jacobian(points)) / np.linalg.det(warp.affine[0])


def _inverse_batch(warp: Warp, targets: Array) -> Array:
    asked = finite_rows(targets)
    found = np.full_like(targets, np.nan)
    if not asked.any() or np.linalg.matrix_rank(warp.affine[0]) < targets.shape[1]:
        return found  # a flat cloud has no inverse off its plane
    wanted = targets[asked]
    points, done = _newton(warp, wanted, _affine_start(warp, wanted))
    if len(warp.centres):
        folds = bool((oriented(warp, warp.centres) <= 0).any())
        again = np.full(len(wanted), True) if folds else ~done
        others, arrived = _newton(warp, wanted[again], _nearest_centre(warp, wanted[again]))
        agree = np.linalg.norm(others - points[again], axis=1) <= SAME * warp.frame.size
        accepted = arrived & (agree | ~done[again]) | done[again] & ~arrived
        points[again] = np.where(arrived[:, None], others, points[again])
        done[again] = accepted
    points[~done] = np.nan
    found[asked] = points
    return found


def _affine_start(warp: Warp, targets: Array) -> Array:
    matrix, offset = warp.affine
    return _solved(matrix, targets - offset)


def _nearest_centre(warp: Warp, targets: Array) -> Array:
    return warp.centres[KDTree(warp(warp.centres)).query(targets)[1]]


def _newton(warp: Warp, targets: Array, start: Array) -> tuple[Array, BoolArray]:
    points = start.copy()
    distance = _distance(warp, points, targets)
    close = ARRIVED * warp.image_size
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
    arrived = distance <= 1e3 * close  # a few units in the last place may be out of reach
    arrived[arrived] = oriented(warp, points[arrived]) > 0
    return points, arrived


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

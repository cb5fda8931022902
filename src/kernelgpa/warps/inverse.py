"""The inverse of a warp: the point of a cloud that it takes to a given point of the map.

Damped Newton on y(p) = q with the warp's own Jacobian, for all points at once:

    p <- p + s J(p)^-1 (q - y(p)),      s halved until the distance |q - y(p)| decreases.

The initial estimates are the kernel centre with the nearest image and the inverse of the affine part.  A warp that
reverses orientation somewhere near its centres may reach one target from several points.  In that case Newton also
starts from the other points (centres, and points around them) whose images are near the target.

Of all solutions the answer is the one among the landmarks.  There is no unique answer, and NaN is returned, if two
solutions lie among the landmarks, if none does and they differ, or if the orientation is reversed at the solution.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial import KDTree

from ..observations.arrays import finite_rows
from ..observations.sampling import farthest_points
from ..typing import Array, BoolArray
from .warp import Warp

NEWTON_STEPS = 50
HALVINGS = 12
NEWTON_CONVERGED = 1e-12  # distance to the target, relative to the cloud's image or to the distance of a far target
CONVERGENCE_MARGIN = 1e3  # times NEWTON_CONVERGED is accepted too: the last digits may be unattainable
SAME_SOLUTION = 1e-6  # solutions closer than this share of the cloud's size are one
AMONG_LANDMARKS = 3.0  # times the median distance between neighbours: a point this near to a landmark is among them
NEAREST_STARTS = 4  # initial estimates of either orientation
SHELL_RADII = (0.5, 1.0)  # distances from a centre, in kernel widths, at which the orientation is sampled
SHELL_CENTRES = 300  # centres around which it is sampled
SINGULAR = 1e-12  # a determinant below this share of that of the affine part counts as 0
BATCH_TARGETS = 20_000


def inverse(warp: Warp, targets: Array) -> Array:  # (k, d) -> (k, d), NaN if there is no unique answer
    """The points that the warp takes to the targets."""
    solutions = np.full_like(targets, np.nan)
    matrix, offset = warp.affine
    if np.linalg.matrix_rank(matrix) < targets.shape[1]:
        return solutions
    if not len(warp.centres):
        return _solve(matrix, targets - offset)
    samples = _Samples.of(warp)
    for first in range(0, len(targets), BATCH_TARGETS):
        batch = first + np.flatnonzero(finite_rows(targets[first : first + BATCH_TARGETS]))
        solutions[batch] = _inverse_batch(warp, samples, targets[batch])
    return solutions


def relative_determinant(warp: Warp, points: Array) -> Array:  # (k, d) -> (k,)
    """det J(p) / det A with A the affine part: 1 far from the centres, not positive where the warp folds over."""
    return np.linalg.det(warp.jacobian(points)) / np.linalg.det(warp.affine[0])


@dataclass(frozen=True)
class _Samples:
    """Points at and around the centres of a warp, divided by the orientation of the warp there."""

    orientation: float  # the sign of the determinant at most centres
    upright: Array  # (a, d), points with this orientation
    reversed: Array  # (b, d), points with the opposite one
    landmarks: KDTree
    radius: float  # a point this near to a centre is among the landmarks

    @staticmethod
    def of(warp: Warp) -> _Samples:
        centres = warp.centres
        orientation = float(np.sign(np.median(np.sign(np.linalg.det(warp.jacobian(centres)))))) or 1.0
        samples = np.vstack([centres, _shells(warp)])
        upright = orientation * np.linalg.det(warp.jacobian(samples)) > 0
        landmarks = KDTree(centres)
        spacing = np.median(landmarks.query(centres, k=2)[0][:, 1]) if len(centres) > 1 else warp.sigma
        return _Samples(orientation, samples[upright], samples[~upright], landmarks, AMONG_LANDMARKS * float(spacing))


def _shells(warp: Warp) -> Array:  # (k, d)
    """Points around the centres, at some distances along the coordinate axes."""
    d = warp.centres.shape[1]
    some = warp.centres[farthest_points(warp.centres, SHELL_CENTRES)]
    directions = np.vstack([np.eye(d), -np.eye(d)])
    return np.vstack([some + radius * warp.sigma * one for radius in SHELL_RADII for one in directions])


def _inverse_batch(warp: Warp, samples: _Samples, targets: Array) -> Array:
    best = np.full_like(targets, np.nan)
    nearest, second = np.full(len(targets), np.inf), np.full(len(targets), np.inf)  # distances from the landmarks
    for start in _initial_estimates(warp, samples, targets):
        points, converged = _newton(warp, targets, start)
        distance = np.where(converged, samples.landmarks.query(points)[0], np.inf)
        same = np.linalg.norm(points - best, axis=1) <= SAME_SOLUTION * warp.frame.size
        nearer = distance < nearest
        second = np.where(same, second, np.minimum(second, np.where(nearer, nearest, distance)))
        best[nearer], nearest[nearer] = points[nearer], distance[nearer]
    unique = np.where(nearest <= samples.radius, second > samples.radius, np.isinf(second))
    answered = np.isfinite(nearest) & unique
    answered[answered] = samples.orientation * np.linalg.det(warp.jacobian(best[answered])) > 0
    best[~answered] = np.nan
    return best


def _initial_estimates(warp: Warp, samples: _Samples, targets: Array) -> list[Array]:
    matrix, offset = warp.affine
    estimates = [warp.centres[KDTree(warp(warp.centres)).query(targets)[1] % len(warp.centres)]]
    estimates.append(_solve(matrix, targets - offset))
    if len(samples.reversed):
        for some in (samples.upright, samples.reversed):
            count = min(NEAREST_STARTS, len(some))
            nearest = KDTree(warp(some)).query(targets, k=count)[1].reshape(len(targets), -1)
            # the remainder, because the tree answers len(some) for a target whose distances overflow
            estimates += [some[column % len(some)] for column in nearest.T]
    return estimates


def _newton(warp: Warp, targets: Array, start: Array) -> tuple[Array, BoolArray]:
    """The solutions from the given initial estimates, and whether the iteration converged to them."""
    points = start.copy()
    distance = _distance(warp, points, targets)
    tolerance = NEWTON_CONVERGED * np.maximum(warp.image_size, np.linalg.norm(targets - warp.coefficients[-1], axis=1))
    for _ in range(NEWTON_STEPS):
        active = np.flatnonzero(distance > tolerance)
        if not len(active):
            break
        step = _newton_step(warp, points[active], targets[active])
        moved, closer = _damped(warp, points[active], step, targets[active], distance[active])
        improved = closer < distance[active]
        points[active[improved]], distance[active[improved]] = moved[improved], closer[improved]
        if not improved.any():
            break
    return points, distance <= CONVERGENCE_MARGIN * tolerance


def _newton_step(warp: Warp, points: Array, targets: Array) -> Array:
    jacobian = warp.jacobian(points)
    singular = np.abs(np.linalg.det(jacobian)) < SINGULAR * abs(np.linalg.det(warp.affine[0]))
    jacobian[singular] = warp.affine[0]  # on a fold the affine part still gives a direction
    return _solve(jacobian, targets - warp(points))


def _solve(matrices: Array, rows: Array) -> Array:  # (..., d, d), (k, d) -> (k, d)
    return np.asarray(np.linalg.solve(matrices, rows[:, :, None])[:, :, 0], dtype=np.float64)


def _damped(warp: Warp, points: Array, step: Array, targets: Array, distance: Array) -> tuple[Array, Array]:
    """For each point the longest of the steps s, s/2, s/4, ... that comes closer to its target."""
    moved = points + step
    closer = _distance(warp, moved, targets)
    factor = 1.0
    for _ in range(HALVINGS):
        worse = np.flatnonzero(~(closer < distance))
        if not len(worse):
            break
        factor /= 2
        moved[worse] = points[worse] + factor * step[worse]
        closer[worse] = _distance(warp, moved[worse], targets[worse])
    return moved, closer


def _distance(warp: Warp, points: Array, targets: Array) -> Array:
    return np.linalg.norm(warp(points) - targets, axis=1)

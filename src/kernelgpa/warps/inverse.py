"""The inverse of a warp: the point of a cloud that it takes to a given point of the map.

Damped Newton on y(p) = q with the warp's own Jacobian, for all points at once:

    p <- p + s J(p)^-1 (q - y(p)),      s halved until the distance |q - y(p)| decreases.

The initial estimates are the kernel centre with the nearest image and the inverse of the affine part.  A warp that
reverses orientation somewhere near its centres may reach one target from several points.  In that case Newton also
starts from the other points (centres, and points around them) whose images are near the target.  A point that comes no
closer or leaves the neighbourhood of the landmarks is given up, and so is a target with several solutions; this bounds
the work.

The answer is the solution near the landmarks, at most NEAR times the median distance between neighbours away from one
of them; farther away nothing is known about the warp.  If the landmarks lie on a surface, the warp follows its bending
and may fold across it.  There the answer is the solution on the surface, if there is exactly one.  NaN is returned if
no solution or several solutions are near, and if the orientation of space is reversed at the solution of a solid cloud.
An affine warp has one solution everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial import KDTree

from ..observations.arrays import finite_rows
from ..observations.geometry import SHEET
from ..observations.sampling import farthest_points
from ..typing import Array, BoolArray, IndexArray
from .warp import Warp

NEWTON_STEPS = 25
FREE_STEPS = 3  # after which points far from the landmarks are given up
HALVINGS = 6
NEWTON_CONVERGED = 1e-12  # distance to the target, relative to the cloud's image or to the distance of a far target
CONVERGENCE_MARGIN = 1e3  # times NEWTON_CONVERGED is accepted too: the last digits may be unattainable
SAME_SOLUTION = 1e-6  # solutions closer than this share of the cloud's size are one
NEAR = 3.0  # times the median distance between neighbours: a point this near to a landmark is answered
ON_SURFACE = 0.5  # times the same distance: a point this near to the tangent plane at a landmark is on the surface
NEAREST_STARTS = 4  # initial estimates of either orientation
SHELL_RADII = (0.5, 1.0)  # distances from a centre, in kernel widths, at which the orientation is sampled
SHELL_CENTRES = 300  # centres around which it is sampled
SINGULAR = 1e-12  # a determinant below this share of that of the affine part counts as 0
BATCH_TARGETS = 20_000


def inverse(warp: Warp, targets: Array, landmarks: Array | None = None) -> Array:  # (k, d), (s, d) -> (k, d)
    """The points near the landmarks that the warp takes to the targets; NaN if there is no unique answer.

    Without ``landmarks``, those of the cloud in its own frame, they are the kernel centres.
    """
    solutions = np.full_like(targets, np.nan)
    matrix, offset = warp.affine
    if np.linalg.matrix_rank(matrix) < targets.shape[1]:
        return solutions
    if not len(warp.centres):
        return _solve(matrix, targets - offset)
    samples = _Samples.of(warp, warp.centres if landmarks is None else landmarks)
    for first in range(0, len(targets), BATCH_TARGETS):
        batch = first + np.flatnonzero(finite_rows(targets[first : first + BATCH_TARGETS]))
        solutions[batch] = _inverse_batch(warp, samples, targets[batch])
    return solutions


def returning(warp: Warp, points: Array, rows: IndexArray | None = None) -> BoolArray:  # (s, d), (k,) -> (k,)
    """Whether the warp and its inverse take landmarks of a cloud, all or those in some rows, back to where they were.

    A landmark does not come back where the warp folds: there its image has several points near the landmarks.
    """
    some = points if rows is None else points[rows]
    differences = inverse(warp, warp(some), points) - some
    return np.asarray(np.linalg.norm(differences, axis=1) <= SAME_SOLUTION * warp.frame.size)  # false for NaN


@dataclass(frozen=True)
class _Samples:
    """Points at and around the centres of a warp, divided by the orientation of the warp there."""

    orientation: float  # the sign of the determinant at most centres
    upright: Array  # (a, d), points with this orientation
    reversed: Array  # (b, d), points with the opposite one
    neighbourhood: _Neighbourhood

    @staticmethod
    def of(warp: Warp, landmarks: Array) -> _Samples:
        centres = warp.centres
        orientation = float(np.sign(np.median(np.sign(np.linalg.det(warp.jacobian(centres)))))) or 1.0
        samples = np.vstack([centres, _shells(warp)])
        upright = orientation * np.linalg.det(warp.jacobian(samples)) > 0
        return _Samples(orientation, samples[upright], samples[~upright], _Neighbourhood.of(landmarks, warp.sigma))


@dataclass(frozen=True)
class _Neighbourhood:
    """Where a warp is known: near the landmarks of its cloud."""

    landmarks: KDTree
    spacing: float  # median distance between neighbours
    normals: Array | None  # (s, d) unit vectors across the surface on which the landmarks lie; None: on no surface

    @staticmethod
    def of(landmarks: Array, width: float) -> _Neighbourhood:
        tree, (count, d) = KDTree(landmarks), landmarks.shape
        if count < 2:
            return _Neighbourhood(tree, width, None)
        spacing = float(np.median(tree.query(landmarks, k=2)[0][:, 1]))
        neighbours = landmarks[tree.query(landmarks, k=min(count, 2 * d + 2))[1]]  # (s, k, d)
        _, spread, axes = np.linalg.svd(neighbours - neighbours.mean(axis=1, keepdims=True), full_matrices=False)
        surface = spread.shape[1] == d and bool(np.median(spread[:, -1] - SHEET * spread[:, -2]) < 0)
        return _Neighbourhood(tree, spacing, axes[:, -1] if surface else None)

    def distances(self, points: Array) -> tuple[Array, Array]:  # (k, d) -> (k,), (k,)
        """Distances from the nearest landmark, and across the surface there; the latter are 0 without a surface."""
        distance, nearest = self.landmarks.query(points)
        if self.normals is None:
            return distance, np.zeros(len(points))
        nearest = nearest % len(self.normals)  # the tree answers s for a point whose distances overflow
        across = np.einsum("kd,kd->k", points - self.landmarks.data[nearest], self.normals[nearest])
        return distance, np.abs(across)


def _shells(warp: Warp) -> Array:  # (k, d)
    """Points around the centres, at some distances along the principal axes of the cloud, which turn with it."""
    some = warp.centres[farthest_points(warp.centres, SHELL_CENTRES)]
    directions = np.vstack([warp.frame.axes, -warp.frame.axes])
    return np.vstack([some + radius * warp.sigma * one for radius in SHELL_RADII for one in directions])


def _inverse_batch(warp: Warp, samples: _Samples, targets: Array) -> Array:
    near, on_surface = _Unique(warp, targets), _Unique(warp, targets)
    around = samples.neighbourhood
    estimates = _initial_estimates(warp, samples, targets)
    for number, start in enumerate(estimates):
        # no further start changes the answer for a target with several solutions; none is repeated
        open_ = near.count < 2 if around.normals is None else on_surface.count < 2
        repeated = [np.all(start == other, axis=1) for other in estimates[:number]]
        rows = np.flatnonzero(open_ & ~np.any(repeated, axis=0))
        points, converged = _newton(warp, targets[rows], start[rows], around)
        distance, across = around.distances(points)
        answers = converged & (distance <= NEAR * around.spacing)
        near.add(rows, points, answers)
        on_surface.add(rows, points, answers & (across <= ON_SURFACE * around.spacing))
    if around.normals is not None:
        found = np.where((near.count == 1)[:, None], near.points, on_surface.points)
        found[(near.count != 1) & (on_surface.count != 1)] = np.nan
        return found
    found = near.points
    answered = np.flatnonzero(near.count == 1)
    upright = samples.orientation * np.linalg.det(warp.jacobian(found[answered])) > 0
    found[np.setdiff1d(np.arange(len(found)), answered[upright])] = np.nan
    return found


class _Unique:
    """The first solution for each target, and how many different ones there are (2: two or more)."""

    def __init__(self, warp: Warp, targets: Array) -> None:
        self.points = np.full_like(targets, np.nan)
        self.count = np.zeros(len(targets), dtype=np.intp)
        self._same = SAME_SOLUTION * warp.frame.size

    def add(self, rows: IndexArray, points: Array, valid: BoolArray) -> None:
        """Solutions (k, d) for the targets in the given rows (k,), of which some are valid."""
        first = valid & (self.count[rows] == 0)
        other = valid & (self.count[rows] == 1) & (np.linalg.norm(points - self.points[rows], axis=1) > self._same)
        self.points[rows[first]] = points[first]
        self.count[rows[first | other]] += 1


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


def _newton(warp: Warp, targets: Array, start: Array, around: _Neighbourhood) -> tuple[Array, BoolArray]:
    """The solutions from the given initial estimates, and whether the iteration converged to them."""
    points = start.copy()
    missing = targets - warp(points)
    distance = np.linalg.norm(missing, axis=1)
    tolerance = NEWTON_CONVERGED * np.maximum(warp.image_size, np.linalg.norm(targets - warp.coefficients[-1], axis=1))
    active = np.flatnonzero(distance > tolerance)
    for number in range(NEWTON_STEPS):
        if not len(active):
            break
        step = _newton_step(warp, points[active], missing[active])
        moved, remaining = _damped(warp, points[active], step, targets[active], distance[active])
        closer = np.linalg.norm(remaining, axis=1)
        improved = closer < distance[active]
        active = active[improved]  # a point that comes no closer is at a fold, or has converged to the last digit
        points[active], distance[active], missing[active] = moved[improved], closer[improved], remaining[improved]
        goes_on = distance[active] > tolerance[active]
        if number >= FREE_STEPS:
            goes_on &= around.landmarks.query(points[active])[0] <= 2 * NEAR * around.spacing
        active = active[goes_on]
    return points, distance <= CONVERGENCE_MARGIN * tolerance


def _newton_step(warp: Warp, points: Array, missing: Array) -> Array:
    jacobian = warp.jacobian(points)
    singular = np.abs(np.linalg.det(jacobian)) < SINGULAR * abs(np.linalg.det(warp.affine[0]))
    jacobian[singular] = warp.affine[0]  # on a fold the affine part still gives a direction
    return _solve(jacobian, missing)


def _solve(matrices: Array, rows: Array) -> Array:  # (..., d, d), (k, d) -> (k, d)
    return np.asarray(np.linalg.solve(matrices, rows[:, :, None])[:, :, 0], dtype=np.float64)


def _damped(warp: Warp, points: Array, step: Array, targets: Array, distance: Array) -> tuple[Array, Array]:
    """For each point the longest of the steps s, s/2, s/4, ... that comes closer to its target, and what remains."""
    moved = points + step
    remaining = targets - warp(moved)
    factor = 1.0
    for _ in range(HALVINGS):
        worse = np.flatnonzero(~(np.linalg.norm(remaining, axis=1) < distance))
        if not len(worse):
            break
        factor /= 2
        moved[worse] = points[worse] + factor * step[worse]
        remaining[worse] = targets[worse] - warp(moved[worse])
    return moved, remaining

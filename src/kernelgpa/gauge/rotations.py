"""Rotations in batches: the nearest rotation, the exponential map, and quadratic forms over many rotations.

``maximise_over_rotations`` maximises

    f(R) = <R, G(R)>,   R = (R_1, ..., R_n) in SO(d)^n,   G linear, symmetric, positive semidefinite.

Every rigid least-squares problem of this package has this form once the translations and the map, or its scales, are
eliminated (theory, eq. 12).  G is given as a function of an (n, d, d) array.  Because f is convex in R, the step
R <- nearest_rotation(G(R)) never lowers f; this is the classical alternation.  If it converges slowly, Newton steps on
SO(d)^n take over.  The ascent is local: it ends at a stationary point, which depends on the start.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

import numpy as np
from scipy.spatial.transform import Rotation

from ..typing import Array

Operator = Callable[[Array], Array]  # (n, d, d) -> (n, d, d)

CONVERGED_GRADIENT = 1e-13  # largest entry of the gradient, relative to that of G(R), at which rounding dominates
STALLED_GRADIENT = 1e-9  # the same, below which an iteration that makes no progress counts as converged
SLOW_REDUCTION = 0.3  # an iteration that leaves more of the gradient than this is followed by a Newton step
STEP_LENGTHS = (1.0, 1 / 4, 1 / 16, 1 / 64)  # of a Newton step, tried until one does not lower f
MAX_CONJUGATE_GRADIENTS = 200
POLAR_BATCH = 16  # number of 3 x 3 matrices from which on Newton's iteration for the polar factor is faster than SVDs
POLAR_DETERMINANT = 1e-4  # of a matrix of norm 1: above it the polar factor is a well-conditioned rotation
MAX_POLAR_ITERATIONS = 30


class Termination(Enum):
    """How the iteration over the rotations ended."""

    CONVERGED = "converged: no rotation of any cloud improves the fit beyond rounding error"
    LIMIT = (
        "the rotations of the clouds did not converge within the limit of iterations; the clouds are probably weakly "
        "connected: see diagnose(), and give them more landmarks in common"
    )


@dataclass(frozen=True)
class RotationOptimum:
    """Rotations that maximise f, the value f(R), how the iteration ended, and G."""

    rotations: Array  # (n, d, d)
    value: float
    iterations: int
    termination: Termination
    operator: Operator


def nearest_rotation(matrices: Array) -> Array:  # (..., d, d) -> (..., d, d)
    """The proper rotations R (det R = +1) that maximise tr(R' C) for each matrix C."""
    if matrices.shape[-1] == 2:
        return _nearest_in_plane(matrices)
    if matrices.ndim == 3 and matrices.shape[1] == 3 and len(matrices) >= POLAR_BATCH:
        return _nearest_by_polar_factor(matrices)
    return _nearest_by_svd(matrices)


def nearest_reflection(matrices: Array) -> Array:  # (..., d, d) -> (..., d, d)
    """The reflections R (R' R = I, det R = -1) that maximise tr(R' C) for each matrix C."""
    mirror = np.append(np.ones(matrices.shape[-1] - 1), -1.0)[:, None]
    return np.asarray(mirror * nearest_rotation(mirror * matrices))


def motion_onto(points: Array, targets: Array) -> tuple[Array, Array]:  # (k, d), (k, d) -> (d, d), (d,)
    """R and t of the rigid motion  R p + t  that brings the points nearest to the targets."""
    centre, target_centre = points.mean(axis=0), targets.mean(axis=0)
    rotation = nearest_rotation((targets - target_centre).T @ (points - centre))
    return rotation, target_centre - rotation @ centre


def _nearest_in_plane(matrices: Array) -> Array:  # (..., 2, 2) -> (..., 2, 2)
    """The maximiser of  tr(R' C) = cos (c11 + c22) + sin (c21 - c12)."""
    cosine = matrices[..., 0, 0] + matrices[..., 1, 1]
    sine = matrices[..., 1, 0] - matrices[..., 0, 1]
    length = np.hypot(cosine, sine)
    # every rotation is as good as any other if both vanish: choose the identity
    cosine, length = np.where(length == 0, 1.0, cosine), np.where(length == 0, 1.0, length)
    rotations = np.empty(matrices.shape)
    rotations[..., 0, 0] = rotations[..., 1, 1] = cosine / length
    rotations[..., 1, 0] = sine / length
    rotations[..., 0, 1] = -rotations[..., 1, 0]
    return rotations


def _nearest_by_svd(matrices: Array) -> Array:
    left, _, right = np.linalg.svd(matrices)
    left[..., :, -1] *= np.sign(np.linalg.det(left @ right))[..., None]
    return np.asarray(left @ right)


def _nearest_by_polar_factor(matrices: Array) -> Array:  # (n, 3, 3) -> (n, 3, 3)
    """The same for many matrices at once, by Newton's iteration  X <- (g X + X^-T / g) / 2  for the polar factor.

    X^-T is the matrix of cofactors divided by the determinant, hence all operations are elementwise.  If the
    determinant is not clearly positive, the nearest rotation is not the polar factor, and the SVD is used.
    """
    norm = np.sqrt(np.einsum("nij,nij->n", matrices, matrices))
    X = np.moveaxis(matrices / np.maximum(norm, np.finfo(np.float64).tiny)[:, None, None], 0, 2)  # (3, 3, n)
    cofactors, determinant = _cofactors(X)
    regular = determinant > POLAR_DETERMINANT
    if not regular.all():
        rotations = _nearest_by_svd(matrices)
        if regular.any():
            rotations[regular] = _nearest_by_polar_factor(matrices[regular])
        return rotations
    for _ in range(MAX_POLAR_ITERATIONS):
        inverse = cofactors / determinant
        g = np.sqrt(np.sqrt(np.sum(inverse**2, axis=(0, 1)) / np.sum(X**2, axis=(0, 1))))
        previous, X = X, 0.5 * (g * X + inverse / g)
        if np.abs(X - previous).max() < 1e-9:  # convergence is quadratic: the next change is the square of this one
            break
        cofactors, determinant = _cofactors(X)
    return np.ascontiguousarray(np.moveaxis(X, 2, 0))


def _cofactors(X: Array) -> tuple[Array, Array]:  # (3, 3, n) -> (3, 3, n), (n,)
    """The cofactors and the determinant of each matrix."""
    cofactors = np.empty_like(X)
    for i in range(3):
        a, b = X[(i + 1) % 3], X[(i + 2) % 3]
        for j in range(3):
            k, m = (j + 1) % 3, (j + 2) % 3
            cofactors[i, j] = a[k] * b[m] - a[m] * b[k]
    return cofactors, X[0, 0] * cofactors[0, 0] + X[0, 1] * cofactors[0, 1] + X[0, 2] * cofactors[0, 2]


def exponential(tangents: Array) -> Array:  # (..., d, d) skew -> (..., d, d)
    """The matrix exponential of skew-symmetric matrices by the closed forms for d = 2 and d = 3."""
    d = tangents.shape[-1]
    angle = np.linalg.norm(tangents, axis=(-2, -1)) / np.sqrt(2)
    first = np.sinc(angle / np.pi)[..., None, None]
    half = np.sinc(angle / (2 * np.pi))[..., None, None]
    return np.eye(d) + first * tangents + 0.5 * half**2 * (tangents @ tangents)


def skew(matrices: Array) -> Array:
    """The skew-symmetric part of each matrix."""
    return 0.5 * (matrices - np.swapaxes(matrices, -1, -2))


def rotation_vector(rotation: Array) -> Array:  # (d, d) -> (1,) or (3,)
    """The rotation as an angle (2D) or as an axis times an angle (3D), in radians."""
    if len(rotation) == 2:
        return np.array([np.arctan2(rotation[1, 0], rotation[0, 0])])
    return np.asarray(Rotation.from_matrix(rotation).as_rotvec(), dtype=np.float64)


def maximise_over_rotations(
    operator: Operator,  # G
    start: Array,  # (n, d, d)
    *,
    max_iterations: int = 2000,
    patience: int = 5,  # iterations without a smaller gradient after which only rounding error is left
    newton: bool = True,  # False: alternation only
    callback: Callable[[Array, float], None] | None = None,  # called with R and f(R) after each iteration
) -> RotationOptimum:
    """Maximise f(R) = <R, G(R)> from ``start``; no iteration lowers f by more than rounding error."""
    rotations, image = start, operator(start)
    smallest, stalled, previous = np.inf, 0, np.inf
    for iteration in range(max_iterations):
        gradient = skew(np.swapaxes(rotations, 1, 2) @ image)
        size = float(np.abs(gradient).max() / max(np.abs(image).max(), np.finfo(float).tiny))
        smallest, stalled = (size, 0) if size < smallest else (smallest, stalled + 1)
        if size <= CONVERGED_GRADIENT or (stalled >= patience and smallest < STALLED_GRADIENT):
            value = float(np.vdot(rotations, image))
            return RotationOptimum(rotations, value, iteration, Termination.CONVERGED, operator)
        slow = newton and size > SLOW_REDUCTION * previous
        step = _newton_step(operator, rotations, image, gradient) if slow else None
        rotations, image = step if step is not None else _alternation_step(operator, image)
        previous = size
        if callback is not None:
            callback(rotations, float(np.vdot(rotations, image)))
    value = float(np.vdot(rotations, image))
    return RotationOptimum(rotations, value, max_iterations, Termination.LIMIT, operator)


def _alternation_step(operator: Operator, image: Array) -> tuple[Array, Array]:
    rotations = nearest_rotation(image)
    return rotations, operator(rotations)


def _newton_step(operator: Operator, rotations: Array, image: Array, gradient: Array) -> tuple[Array, Array] | None:
    """R exp(X), with X the maximiser of the second-order model or a fraction of it; None if all of them lower f.

    X is an ascent direction, therefore a sufficiently small fraction does not lower f.  Far from the maximum, or along
    directions with little curvature, the full step often does.
    """
    direction = _newton_direction(operator, rotations, image, gradient)
    value = float(np.vdot(rotations, image))
    rounding = 4 * np.finfo(np.float64).eps * np.sqrt(image.size) * abs(value)  # of a sum of that many products
    for length in STEP_LENGTHS if direction.any() else ():
        moved = nearest_rotation(rotations @ exponential(length * direction))
        moved_image = operator(moved)
        if np.vdot(moved, moved_image) >= value - rounding:
            return moved, moved_image
    return None


def _newton_direction(operator: Operator, rotations: Array, image: Array, gradient: Array) -> Array:
    """Solve  -A X = gradient  by preconditioned conjugate gradients, where

        f(R exp(X)) = f + 2 <X, gradient> + <X, A X> + ...,  A X = skew(R' G(R X)) - (X S + S X) / 2,
        S = sym(R' G(R)).

    The iteration stops at a direction of positive curvature of f; the result is 0 if the first direction is one.
    """
    transposed = np.swapaxes(rotations, 1, 2)
    product = transposed @ image
    symmetric = 0.5 * (product + np.swapaxes(product, 1, 2))
    trace = np.abs(np.trace(symmetric, axis1=1, axis2=2))[:, None, None]
    preconditioner = np.maximum(trace, 1e-12 * trace.max()) / rotations.shape[1]

    def minus_hessian(x: Array) -> Array:
        return 0.5 * (x @ symmetric + symmetric @ x) - skew(transposed @ operator(rotations @ x))

    solution = np.zeros_like(gradient)
    residual = gradient
    preconditioned = residual / preconditioner
    direction, energy = preconditioned, float(np.vdot(residual, preconditioned))
    target = 1e-10 * energy
    for _ in range(min(MAX_CONJUGATE_GRADIENTS, 3 * len(rotations) + 10)):
        image_of_direction = minus_hessian(direction)
        curvature = float(np.vdot(direction, image_of_direction))
        if curvature <= 1e-14 * float(np.vdot(direction, preconditioner * direction)):
            break
        solution = solution + energy / curvature * direction
        residual = residual - energy / curvature * image_of_direction
        preconditioned = residual / preconditioner
        new_energy = float(np.vdot(residual, preconditioned))
        if new_energy <= target:
            break
        direction, energy = preconditioned + new_energy / energy * direction, new_energy
    return solution

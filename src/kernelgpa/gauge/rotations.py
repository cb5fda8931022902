"""SO(d), batched: nearest rotations, the exponential, and quadratic forms over many rotations.

``climb`` maximises

    f(R) = <R, G(R)>,   R = (R_1, ..., R_n) in SO(d)^n,   G linear, symmetric, positive semidefinite,

which is what remains of every rigid least-squares problem here once translations and the map, or
its scales, are eliminated (theory, eq. 12).  G is known only by what it does to an (n, d, d) array.
Because f is convex in R, the step  R <- nearest(G(R))  never lowers f: it is the classical
alternation.  Where it slows down, Newton steps on SO(d)^n finish.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

import numpy as np
from scipy.spatial.transform import Rotation

from ..typing import Array

Operator = Callable[[Array], Array]  # (n, d, d) -> (n, d, d)


CONVERGED_SLOPE = 1e-13  # gradient as a share of the form's pull, where rounding begins
SLOW = 0.3  # an alternation step that leaves more of the gradient than this calls for Newton
SHARES = (1.0, 1 / 4, 1 / 16, 1 / 64)  # of a Newton step, until one does not lower f
MANY = 16  # matrices of which the polar factor is found for all at once
PLAIN = 1e-4  # determinant of a matrix of norm 1, above which its polar factor is a rotation, well determined
MOST_NEWTON = 30
PATIENCE = 5  # steps without a smaller gradient before rounding is taken to have the word


class Ending(Enum):
    """How an iteration ended."""

    CONVERGED = "converged: no rotation of any cloud improves the fit beyond rounding"
    LIMIT = "stopped at the limit of iterations: the fit improves so slowly that the clouds are hardly tied"


@dataclass(frozen=True)
class Climb:
    rotations: Array  # (n, d, d)
    value: float
    iterations: int
    ending: Ending


def nearest(matrices: Array) -> Array:  # (..., d, d) -> (..., d, d)
    """The rotations R that maximise tr(R' C); they are proper, det = +1."""
    if matrices.shape[-1] == 2:
        return _planar(matrices)
    if matrices.ndim == 3 and matrices.shape[1] == 3 and len(matrices) >= MANY:
        return _polar(matrices)
    return _decomposed(matrices)


def motion_onto(points: Array, places: Array) -> tuple[Array, Array]:  # (k, d), (k, d) -> (d, d), (d,)
    """R and t of the rigid motion  R p + t  that brings points nearest to places."""
    here, there = points.mean(axis=0), places.mean(axis=0)
    turn = nearest((places - there).T @ (points - here))
    return turn, there - turn @ here


def _planar(matrices: Array) -> Array:  # (..., 2, 2) -> (..., 2, 2)
    """tr(R' C) = cos (c11 + c22) + sin (c21 - c12)."""
    along = matrices[..., 0, 0] + matrices[..., 1, 1]
    across = matrices[..., 1, 0] - matrices[..., 0, 1]
    length = np.hypot(along, across)
    along, length = np.where(length == 0, 1.0, along), np.where(length == 0, 1.0, length)  # where any turn is best
    turns = np.empty(matrices.shape)
    turns[..., 0, 0] = turns[..., 1, 1] = along / length
    turns[..., 1, 0] = across / length
    turns[..., 0, 1] = -turns[..., 1, 0]
    return turns


def _decomposed(matrices: Array) -> Array:
    left, _, right = np.linalg.svd(matrices)
    left[..., :, -1] *= np.sign(np.linalg.det(left @ right))[..., None]
    return np.asarray(left @ right)


def _polar(matrices: Array) -> Array:  # (n, 3, 3) -> (n, 3, 3)
    """The same for many matrices at once, by Newton's iteration  X <- (g X + X^-T / g) / 2  for the polar factor.

    X^-T is the matrix of cofactors over the determinant, so that all is elementwise.  Where the determinant is not
    clearly positive the nearest rotation is another matrix than the polar factor, and the decomposition is used.
    """
    size = np.sqrt(np.einsum("nij,nij->n", matrices, matrices))
    X = np.moveaxis(matrices / np.maximum(size, np.finfo(np.float64).tiny)[:, None, None], 0, 2)  # (3, 3, n)
    cofactors, determinant = _cofactors(X)
    plain = determinant > PLAIN
    if not plain.all():
        found = _decomposed(matrices)
        if plain.any():
            found[plain] = _polar(matrices[plain])
        return found
    for _ in range(MOST_NEWTON):
        inverse = cofactors / determinant
        g = np.sqrt(np.sqrt(np.sum(inverse**2, axis=(0, 1)) / np.sum(X**2, axis=(0, 1))))
        renewed = 0.5 * (g * X + inverse / g)
        change = np.abs(renewed - X).max()
        X = renewed
        if change < 1e-9:  # the next change is its square
            break
        cofactors, determinant = _cofactors(X)
    return np.ascontiguousarray(np.moveaxis(X, 2, 0))


def _cofactors(X: Array) -> tuple[Array, Array]:  # (3, 3, n) -> (3, 3, n), (n,)
    cofactors = np.empty_like(X)
    for i in range(3):
        a, b = X[(i + 1) % 3], X[(i + 2) % 3]
        for j in range(3):
            k, m = (j + 1) % 3, (j + 2) % 3
            cofactors[i, j] = a[k] * b[m] - a[m] * b[k]
    return cofactors, X[0, 0] * cofactors[0, 0] + X[0, 1] * cofactors[0, 1] + X[0, 2] * cofactors[0, 2]


def exponential(tangents: Array) -> Array:  # (..., d, d) skew -> (..., d, d)
    """exp of skew matrices, by the closed forms in the plane and in space."""
    d = tangents.shape[-1]
    angle = np.linalg.norm(tangents, axis=(-2, -1)) / np.sqrt(2)
    first = np.sinc(angle / np.pi)[..., None, None]
    half = np.sinc(angle / (2 * np.pi))[..., None, None]
    return np.eye(d) + first * tangents + 0.5 * half**2 * (tangents @ tangents)


def skew(matrices: Array) -> Array:
    return 0.5 * (matrices - np.swapaxes(matrices, -1, -2))


def maximise_over_rotations(operator: Operator, start: Array, max_iterations: int = 2000) -> Climb:
    """Maximise f from ``start``; f never falls by more than rounding."""
    rotations, image = start, operator(start)
    best, waited, previous = np.inf, 0, np.inf
    for iteration in range(max_iterations):
        gradient = skew(np.swapaxes(rotations, 1, 2) @ image)
        slope = float(np.abs(gradient).max() / max(np.abs(image).max(), np.finfo(float).tiny))
        best, waited = (slope, 0) if slope < best else (best, waited + 1)
        if slope <= CONVERGED_SLOPE or (waited >= PATIENCE and best < 1e-9):
            return Climb(rotations, float(np.vdot(rotations, image)), iteration, Ending.CONVERGED)
        newton = _newton_step(operator, rotations, image, gradient) if slope > SLOW * previous else None
        rotations, image = newton if newton is not None else _alternation_step(operator, image)
        previous = slope
    return Climb(rotations, float(np.vdot(rotations, image)), max_iterations, Ending.LIMIT)


def _alternation_step(operator: Operator, image: Array) -> tuple[Array, Array]:
    rotations = nearest(image)
    return rotations, operator(rotations)


def _newton_step(operator: Operator, rotations: Array, image: Array, gradient: Array) -> tuple[Array, Array] | None:
    """R exp(X) with X the maximiser of the second-order model or a share of it, or None if all lower f.

    Every X points uphill, so a share that is small enough does not lower f; far from the top, or along
    directions that hardly curve, the whole X often does.
    """
    step = _newton_direction(operator, rotations, image, gradient)
    value = float(np.vdot(rotations, image))
    rounding = 4 * np.finfo(np.float64).eps * np.sqrt(image.size) * abs(value)  # of a sum of so many products
    for share in SHARES if step.any() else ():
        moved = nearest(rotations @ exponential(share * step))
        moved_image = operator(moved)
        if np.vdot(moved, moved_image) >= value - rounding:
            return moved, moved_image
    return None


def _newton_direction(operator: Operator, rotations: Array, image: Array, gradient: Array) -> Array:
    """Conjugate gradients on  -A X = gradient,  where

    f(R exp(X)) = f + 2 <X, gradient> + <X, A X> + ...,  A X = skew(R' G(R X)) - (X S + S X) / 2,
    S = sym(R' G(R)).  Stops where the model curves upwards; 0 where it does so from the first.
    """
    back = np.swapaxes(rotations, 1, 2)
    pull = back @ image
    symmetric = 0.5 * (pull + np.swapaxes(pull, 1, 2))
    strength = np.abs(np.trace(symmetric, axis1=1, axis2=2))[:, None, None]
    scale = np.maximum(strength, 1e-12 * strength.max()) / rotations.shape[1]

    def curvature(x: Array) -> Array:
        return 0.5 * (x @ symmetric + symmetric @ x) - skew(back @ operator(rotations @ x))

    step = np.zeros_like(gradient)
    residual = gradient
    preconditioned = residual / scale
    direction, energy = preconditioned, float(np.vdot(residual, preconditioned))
    target = 1e-10 * energy
    for _ in range(min(200, 3 * len(rotations) + 10)):
        bent = curvature(direction)
        bend = float(np.vdot(direction, bent))
        if bend <= 1e-14 * float(np.vdot(direction, scale * direction)):
            break
        step = step + energy / bend * direction
        residual = residual - energy / bend * bent
        preconditioned = residual / scale
        renewed = float(np.vdot(residual, preconditioned))
        if renewed <= target:
            break
        direction, energy = preconditioned + renewed / energy * direction, renewed
    return step


def rotation_vector(rotation: Array) -> Array:  # (d, d) -> (1,) or (3,)
    """The turn as an angle (2D) or as an axis times an angle (3D), in radians."""
    if len(rotation) == 2:
        return np.array([np.arctan2(rotation[1, 0], rotation[0, 0])])
    return np.asarray(Rotation.from_matrix(rotation).as_rotvec(), dtype=np.float64)

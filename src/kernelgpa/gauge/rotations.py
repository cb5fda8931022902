"""Rotations in batches: the nearest rotation, the exponential map, and quadratic forms over many rotations.

``maximise_over_rotations`` maximises

    f(R) = <R, G(R)>,   R = (R_1, ..., R_n) in SO(d)^n,   G linear, symmetric, positive semidefinite.

Every rigid least-squares problem of this package has this form once the translations and the map, or its scales, are
eliminated (theory, eq. 12).  G is given as a function of an (n, d, d) array.  Because f is convex in R, the step
R <- nearest_rotation(G(R)) never lowers f; this is the classical alternation.  Close to the maximum, and wherever it
converges slowly, Newton steps on SO(d)^n take over, with conjugate gradients preconditioned by the curvature of each
cloud alone.  The ascent is local: it ends at a stationary point, which depends on the start.
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
CLOSE_GRADIENT = 0.1  # gradient of each cloud, relative to its entries of G(R), below which Newton steps are made
LEAST_PRECISION = 1e-2  # of a Newton direction, relative to the gradient; it becomes the gradient itself if smaller
STEP_LENGTHS = (1.0, 1 / 4, 1 / 16, 1 / 64)  # of a Newton step, tried until one does not lower f
MAX_CONJUGATE_GRADIENTS = 200
LEAST_BLOCK = 1e-9  # least minors of a matrix of trace 1 that counts as positive definite
# bases of the skew-symmetric matrices, as rows; the coordinates in 3D are those of the cross product
SKEW_BASES = {
    2: np.array([[0.0, -1.0, 1.0, 0.0]]),
    3: np.array(
        [[0, 0, 0, 0, 0, -1, 0, 1, 0], [0, 0, 1, 0, 0, 0, -1, 0, 0], [0, -1, 0, 1, 0, 0, 0, 0, 0]], dtype=float
    ),
}
POLAR_BATCH = 16  # number of 3 x 3 matrices from which on Newton's iteration for the polar factor is faster than SVDs
POLAR_DETERMINANT = 1e-4  # of a matrix of norm 1: above it the polar factor is a well-conditioned rotation
MAX_POLAR_ITERATIONS = 30
# the cofactor of entry 3 i + j of a 3 x 3 matrix is the product of the first two entries minus that of the last two
_CYCLE = [
    (3 * ((i + r) % 3) + (j + c) % 3) for r, c in ((1, 1), (2, 2), (1, 2), (2, 1)) for i in range(3) for j in range(3)
]
MINORS = np.array(_CYCLE).reshape(4, 9)


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
    entries = X.reshape(9, -1)
    a, b, c, d = (entries.take(index, axis=0) for index in MINORS)
    a *= b
    c *= d
    a -= c
    return a.reshape(X.shape), np.einsum("in,in->n", entries[:3], a[:3])


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
    converged: float = CONVERGED_GRADIENT,  # relative gradient at which the iteration ends
    callback: Callable[[Array, float], None] | None = None,  # called with R and f(R) after each iteration
) -> RotationOptimum:
    """Maximise f(R) = <R, G(R)> from ``start``; no iteration lowers f by more than rounding error."""
    rotations, image = start, operator(start)
    smallest, stalled, previous = np.inf, 0, np.inf
    for iteration in range(max_iterations):
        product = np.swapaxes(rotations, 1, 2) @ image
        gradient = np.abs(skew(product)).max(axis=(1, 2))  # (n,)
        largest = np.abs(image).max(axis=(1, 2))
        size = float(gradient.max() / max(largest.max(), np.finfo(float).tiny))
        smallest, stalled = (size, 0) if size < smallest else (smallest, stalled + 1)
        if size <= converged or (stalled >= patience and smallest < STALLED_GRADIENT):
            value = float(np.vdot(rotations, image))
            return RotationOptimum(rotations, value, iteration, Termination.CONVERGED, operator)
        model = _SecondOrderModel(operator, rotations, product) if newton else None
        slow = size > SLOW_REDUCTION * previous
        close = model is not None and model.separately_concave and (gradient <= CLOSE_GRADIENT * largest).all()
        step = _newton_step(model, image, size) if model is not None and (slow or close) else None
        rotations, image = step if step is not None else _alternation_step(operator, image)
        previous = size
        if callback is not None:
            callback(rotations, float(np.vdot(rotations, image)))
    value = float(np.vdot(rotations, image))
    return RotationOptimum(rotations, value, max_iterations, Termination.LIMIT, operator)


def _alternation_step(operator: Operator, image: Array) -> tuple[Array, Array]:
    rotations = nearest_rotation(image)
    return rotations, operator(rotations)


def _newton_step(model: _SecondOrderModel, image: Array, size: float) -> tuple[Array, Array] | None:
    """R exp(X), with X the maximiser of the second-order model or a fraction of it; None if all of them lower f.

    X is an ascent direction, therefore a sufficiently small fraction does not lower f.  Far from the maximum, or along
    directions with little curvature, the full step often does.  ``size`` is the relative gradient.
    """
    direction = model.maximiser(max(min(LEAST_PRECISION, size), 0.1 * CONVERGED_GRADIENT / size))
    value = float(np.vdot(model.rotations, image))
    rounding = 4 * np.finfo(np.float64).eps * np.sqrt(image.size) * abs(value)  # of a sum of that many products
    for length in STEP_LENGTHS if direction.any() else ():
        moved = _orthonormalised(model.rotations @ exponential(length * direction))
        moved_image = model.operator(moved)
        if np.vdot(moved, moved_image) >= value - rounding:
            return moved, moved_image
    return None


def _orthonormalised(nearly: Array) -> Array:  # (n, d, d)
    """Rotations without the rounding errors of a product of rotations: one Newton-Schulz step."""
    d = nearly.shape[-1]
    return np.asarray(nearly @ (1.5 * np.eye(d) - 0.5 * np.swapaxes(nearly, 1, 2) @ nearly))


class _SecondOrderModel:
    """f near R, in coordinates x (n, k) of the skew-symmetric matrices X, k = d (d - 1) / 2:

        f(R exp(X)) = f + 2 <X, skew(P)> + <X, A X> + ...,   P = R' G(R),   S = sym(P),
        -A X = (X S + S X) / 2 - skew(R' G(R X)).

    The first term of -A is one k x k matrix per cloud, (tr S) I - S over 2 in 3D and tr S over 2 in 2D.
    """

    def __init__(self, operator: Operator, rotations: Array, product: Array) -> None:
        self.operator, self.rotations = operator, rotations
        self._basis = SKEW_BASES[rotations.shape[1]]
        self._gradient = self._coordinates(product)
        symmetric = 0.5 * (product + np.swapaxes(product, 1, 2))
        half_trace = 0.5 * np.trace(symmetric, axis1=1, axis2=2)[:, None, None]
        self._blocks = half_trace * np.eye(len(self._basis))
        if rotations.shape[1] == 3:
            self._blocks -= 0.5 * symmetric
        inverses = _inverses_of_positive(self._blocks)
        self.separately_concave = inverses is not None  # f as a function of each rotation alone
        if inverses is None:
            trace = np.abs(half_trace)
            inverses = np.eye(len(self._basis)) / np.maximum(trace, max(1e-12 * trace.max(), np.finfo(float).tiny))
        self._inverses = inverses

    def maximiser(self, precision: float) -> Array:  # (n, d, d)
        """Solve  -A X = skew(P)  by preconditioned conjugate gradients, to a residual of this share of skew(P).

        The iteration stops at a direction of positive curvature of f; the result is 0 if the first direction is one.
        """
        solution, residual = np.zeros_like(self._gradient), self._gradient
        preconditioned = self._per_cloud(self._inverses, residual)
        direction, energy = preconditioned, float(np.vdot(residual, preconditioned))
        target = precision**2 * energy
        for _ in range(min(MAX_CONJUGATE_GRADIENTS, 3 * len(solution) + 10)):
            own = self._per_cloud(self._blocks, direction)
            image = own - self._coupling(direction)
            curvature = float(np.vdot(direction, image))
            if curvature <= 1e-14 * abs(float(np.vdot(direction, own))):
                break
            solution = solution + energy / curvature * direction
            residual = residual - energy / curvature * image
            preconditioned = self._per_cloud(self._inverses, residual)
            new_energy = float(np.vdot(residual, preconditioned))
            if new_energy <= target:
                break
            direction, energy = preconditioned + new_energy / energy * direction, new_energy
        return self._matrices(solution)

    def _coupling(self, x: Array) -> Array:  # (n, k) -> (n, k)
        """skew(R' G(R X))"""
        return self._coordinates(np.swapaxes(self.rotations, 1, 2) @ self.operator(self.rotations @ self._matrices(x)))

    def _matrices(self, x: Array) -> Array:  # (n, k) -> (n, d, d)
        return np.asarray(x @ self._basis).reshape(self.rotations.shape)

    def _coordinates(self, matrices: Array) -> Array:  # (n, d, d) -> (n, k)
        return np.asarray(matrices.reshape(len(matrices), -1) @ (0.5 * self._basis.T))

    @staticmethod
    def _per_cloud(blocks: Array, x: Array) -> Array:  # (n, k, k), (n, k) -> (n, k)
        return np.asarray(np.einsum("nij,nj->ni", blocks, x))


def _inverses_of_positive(blocks: Array) -> Array | None:  # (n, k, k) symmetric, k = 1 or 3
    """The inverse of each matrix; None unless all are clearly positive definite."""
    trace = np.trace(blocks, axis1=1, axis2=2)
    if not trace.min() > 0:
        return None
    if blocks.shape[1] == 1:
        return 1 / blocks
    X = np.moveaxis(blocks / trace[:, None, None], 0, 2)
    cofactors, determinant = _cofactors(X)
    if not min(X[0, 0].min(), cofactors[2, 2].min(), determinant.min()) > LEAST_BLOCK:
        return None
    return np.moveaxis(cofactors / (determinant * trace), 2, 0)

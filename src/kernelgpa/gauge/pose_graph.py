"""Poses from two sources: the registration of the clouds, and motions that a sensor measured.

If a cloud deforms, its registration determines its pose only to the extent that deformation and motion differ; odometry
or a tracker may be more accurate.  The poses T_t = (R_t, t_t) minimise

    sum_t |log(T_t0^-1 T_t)|^2_(C_t)  +  sum_(s,u) |log(Z_su^-1 T_s^-1 T_u)|^2_(C_su)                 (theory, eq. 19)

with T_t0 the poses of the registration, C_t their covariances, Z_su measured motions and C_su the covariances of these.
Poses measured in the frame of a tracker are motions from one more pose, that of the tracker.  Gauss-Newton iteration in
the frames of the sensors:  T <- T exp(x),  x = (translation, rotation vector).  The logarithm is split into translation
and rotation, which is exact for small residuals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.linalg import splu

from ..errors import NumericalFailure
from ..typing import Array
from .rotations import exponential, rotation_vector

MAX_POSE_ITERATIONS = 50
CONVERGED_STEP = 1e-12  # relative to the extent of the trajectory, and in radians


@dataclass(frozen=True)
class Motion:
    """The measured pose of ``target`` in the frame of ``source``; both are indices of poses."""

    source: int
    target: int
    rotation: Array  # (d, d)
    translation: Array  # (d,)
    translation_deviation: float  # standard deviation of each coordinate
    rotation_deviation: float  # of each angle, in radians

    @property
    def deviations(self) -> Array:  # (q,), q = d + d (d - 1) / 2
        d = len(self.translation)
        angles = np.full(d * (d - 1) // 2, self.rotation_deviation)
        return np.concatenate([np.full(d, self.translation_deviation), angles])


class Poses(NamedTuple):
    rotations: Array  # (n, d, d)
    translations: Array  # (n, d)


class _Term(NamedTuple):
    """One term of eq. 19: its residual, and the derivative by each pose that it depends on."""

    residual: Array  # (q,)
    derivatives: tuple[tuple[int, Array], ...]  # (index of the pose, (q, q))

    def whitened(self, root: Array) -> _Term:
        return _Term(root @ self.residual, tuple((pose, root @ derivative) for pose, derivative in self.derivatives))


def motion_errors(
    rotations: Array,  # (n, d, d)
    translations: Array,  # (n, d)
    covariances: Array,  # (n, q, q) as for :func:`refine_poses`; an infinite one counts as zero
    motions: Sequence[Motion],
) -> Array:  # (k,)
    """The residual of each motion under the given poses, divided by its standard deviation: root mean squares."""
    covariances = np.where(np.isfinite(covariances), covariances, 0.0)
    errors = []
    for motion in motions:
        residual, derivatives = _motion_term(motion, Poses(rotations, translations))
        expected = sum((J @ covariances[pose] @ J.T for pose, J in derivatives), np.diag(motion.deviations**2))
        errors.append(np.sqrt(residual @ np.linalg.solve(expected, residual) / len(residual)))
    return np.array(errors)


def refine_poses(
    rotations: Array,  # (n, d, d)
    translations: Array,  # (n, d)
    covariances: Array,  # (n, q, q) of (translation, rotation) in the frame of each sensor; infinite: pose unknown
    motions: Sequence[Motion],
) -> Poses:
    """The poses that minimise eq. 19."""
    registered = poses = Poses(rotations, translations)
    known = np.isfinite(covariances).all(axis=(1, 2))
    roots = np.zeros_like(covariances)
    roots[known] = _inverse_roots(covariances[known])
    d = rotations.shape[1]
    for _ in range(MAX_POSE_ITERATIONS):
        terms = [_pose_term(t, poses, registered).whitened(roots[t]) for t in range(len(roots))]
        terms += [_motion_term(motion, poses).whitened(np.diag(1 / motion.deviations)) for motion in motions]
        step = _gauss_newton_step(terms, len(roots))
        poses = _moved(poses, step)
        extent = max(float(np.abs(poses.translations).max()), 1e-300)
        if max(np.abs(step[:, :d]).max(initial=0.0) / extent, np.abs(step[:, d:]).max(initial=0.0)) < CONVERGED_STEP:
            break
    return poses


def _inverse_roots(covariances: Array) -> Array:  # (n, q, q), positive definite
    """W with W' W = C^-1 for each C.

    Lengths and angles can differ by many orders of magnitude, therefore the eigenvalues are those of the correlations.
    Eigenvalues below the rounding error of the largest one are raised to it.
    """
    deviations = np.sqrt(np.diagonal(covariances, axis1=1, axis2=2))
    values, vectors = np.linalg.eigh(covariances / (deviations[:, :, None] * deviations[:, None, :]))
    values = np.maximum(values, len(values[0]) * np.finfo(np.float64).eps * values[:, -1:])
    return np.asarray(np.swapaxes(vectors, 1, 2) / np.sqrt(values)[:, :, None] / deviations[:, None, :])


def _moved(poses: Poses, step: Array) -> Poses:  # step (n, q)
    """T exp(x) for each pose."""
    d = poses.translations.shape[1]
    translations = poses.translations + np.einsum("nij,nj->ni", poses.rotations, step[:, :d])
    return Poses(poses.rotations @ exponential(np.stack([_cross_matrix(x) for x in step[:, d:]])), translations)


def _gauss_newton_step(terms: Sequence[_Term], n: int) -> Array:  # (n, q)
    """The least-squares step from the sparse normal equations of all terms."""
    q = len(terms[0].residual)
    blocks = [(i, pose, derivative) for i, term in enumerate(terms) for pose, derivative in term.derivatives]
    row, column = np.indices((q, q))
    rows = q * np.array([i for i, _, _ in blocks])[:, None, None] + row
    columns = q * np.array([pose for _, pose, _ in blocks])[:, None, None] + column
    values = np.stack([derivative for _, _, derivative in blocks])
    J = coo_array((values.ravel(), (rows.ravel(), columns.ravel())), shape=(len(terms) * q, n * q)).tocsc()
    try:
        step = splu((J.T @ J).tocsc()).solve(J.T @ np.concatenate([term.residual for term in terms]))
    except RuntimeError as problem:  # a singular matrix
        raise NumericalFailure(
            f"the poses are not determined by the clouds and the measured motions ({problem}); leave out the motions "
            "or correct their accuracies"
        ) from None
    return -step.reshape(n, q)


def _pose_term(t: int, poses: Poses, registered: Poses) -> _Term:
    """log(T_t0^-1 T_t)"""
    back = registered.rotations[t].T
    relative = back @ poses.rotations[t]
    offset = back @ (poses.translations[t] - registered.translations[t])
    angles = rotation_vector(relative)
    return _Term(np.concatenate([offset, angles]), ((t, _block_diagonal(relative, np.eye(len(angles)))),))


def _motion_term(motion: Motion, poses: Poses) -> _Term:
    """log(Z_su^-1 T_s^-1 T_u)"""
    s, u = motion.source, motion.target
    back = poses.rotations[s].T
    relative = back @ poses.rotations[u]
    offset = back @ (poses.translations[u] - poses.translations[s])
    angles = rotation_vector(motion.rotation.T @ relative)
    d, q = len(offset), len(offset) + len(angles)
    by_source = _block_diagonal(-np.eye(d), -relative.T if d == 3 else -np.eye(1))
    by_source[:d, d:] = _turning_velocity(offset)
    by_target = _block_diagonal(relative, np.eye(q - d))
    return _Term(np.concatenate([offset - motion.translation, angles]), ((s, by_source), (u, by_target)))


def _block_diagonal(first: Array, second: Array) -> Array:
    d = len(first)
    matrix = np.zeros((d + len(second), d + len(second)))
    matrix[:d, :d], matrix[d:, d:] = first, second
    return matrix


def _turning_velocity(x: Array) -> Array:  # (d,) -> (d, angles)
    """The derivative of the coordinates of a point by the rotation vector of the frame."""
    return np.array([[x[1]], [-x[0]]]) if len(x) == 2 else _cross_matrix(x)


def _cross_matrix(angles: Array) -> Array:  # (1,) or (3,) -> (d, d)
    """The skew-symmetric matrix of a rotation vector."""
    if len(angles) == 1:
        return np.array([[0.0, -angles[0]], [angles[0], 0.0]])
    x, y, z = angles
    return np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])

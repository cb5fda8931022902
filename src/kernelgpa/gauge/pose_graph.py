"""Poses from two sources: what the clouds say, and what a sensor measured of its own motion.

A cloud that deforms tells its pose only as well as deformation and motion can be told apart.  Odometry or a tracker
may know better.  The poses T_t = (R_t, t_t) minimise

    sum_t |log(T_t0^-1 T_t)|^2 / C_t  +  sum_(s,u) |log(Z_su^-1 T_s^-1 T_u)|^2 / C_su                 (theory, eq. 19)

with T_t0 the poses of the registration, C_t how far these can be trusted, Z_su measured motions.  Poses measured in
the frame of a tracker are motions from one more pose, that of the tracker.  Gauss-Newton in the sensors' own frames:
T <- T exp(x), x = (shift, turn), with log split into shift and turn, which is exact where the residual is small.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.linalg import splu

from ..errors import NumericalFailure
from ..typing import Array
from .rotations import exponential, rotation_vector

ITERATIONS = 50
SETTLED = 1e-12  # step, as a share of the trajectory and in radians, that ends the iteration


@dataclass(frozen=True)
class Motion:
    """The pose of ``target`` as seen from ``source``, measured; both are indices of poses."""

    source: int
    target: int
    rotation: Array  # (d, d)
    translation: Array  # (d,)
    shift: float  # accuracy, standard deviation of each coordinate
    turn: float  # radians, of each angle


def motion_errors(
    rotations: Array,  # (n, d, d)
    translations: Array,  # (n, d)
    trust: Array,  # (n, q, q) as for :func:`refine_poses`; a pose of which nothing is known counts as known
    motions: Sequence[Motion],
) -> Array:  # (k,)
    """How far each motion is from the poses as they are: root mean square, in units of what both leave open."""
    trust = np.where(np.isfinite(trust), trust, 0.0)
    found = []
    for one in motions:
        residual, of_source, of_target = _motion_residual(one, rotations, translations)
        open_ = of_source @ trust[one.source] @ of_source.T + of_target @ trust[one.target] @ of_target.T
        open_ += np.diag(_accuracy(one) ** 2)
        found.append(np.sqrt(residual @ np.linalg.solve(open_, residual) / len(residual)))
    return np.array(found)


def refine_poses(
    rotations: Array,  # (n, d, d)
    translations: Array,  # (n, d)
    trust: Array,  # (n, q, q) covariance of (shift, turn) in each sensor's own frame; infinite: nothing is known
    motions: Sequence[Motion],
) -> tuple[Array, Array]:
    """The poses that answer to both: rotations and translations."""
    turned, moved = rotations.copy(), translations.copy()
    known = np.isfinite(trust).all(axis=(1, 2))
    roots = np.zeros_like(trust)
    roots[known] = np.swapaxes(np.linalg.cholesky(np.linalg.inv(trust[known])), 1, 2)  # L' with L L' = C^-1
    for _ in range(ITERATIONS):
        step = _step(turned, moved, rotations, translations, roots, motions)
        d = rotations.shape[1]
        moved = moved + np.einsum("nij,nj->ni", turned, step[:, :d])
        turned = turned @ np.stack([_exp(x) for x in step[:, d:]])
        size = np.array([1 / max(float(np.abs(moved).max()), 1e-300)] * d + [1.0] * (step.shape[1] - d))
        if np.abs(step * size).max(initial=0.0) < SETTLED:
            break
    return turned, moved


def _step(
    turned: Array, moved: Array, rotations: Array, translations: Array, roots: Array, motions: Sequence[Motion]
) -> Array:  # (n, q)
    n, q = len(turned), roots.shape[1]
    rows, columns, values, off = list[Array](), list[Array](), list[Array](), list[Array]()

    def enter(at: int, blocks: Sequence[tuple[int, Array]], residual: Array) -> None:
        for pose, block in blocks:
            r, c = np.meshgrid(np.arange(len(residual)) + at, np.arange(q) + pose * q, indexing="ij")
            rows.append(r.ravel())
            columns.append(c.ravel())
            values.append(block.ravel())
        off.append(residual)

    at = 0
    for t in range(n):
        residual, jacobian = _own_residual(turned[t], moved[t], rotations[t], translations[t])
        enter(at, [(t, roots[t] @ jacobian)], roots[t] @ residual)
        at += q
    for one in motions:
        residual, of_source, of_target = _motion_residual(one, turned, moved)
        scale = 1 / _accuracy(one)
        enter(
            at, [(one.source, scale[:, None] * of_source), (one.target, scale[:, None] * of_target)], scale * residual
        )
        at += q
    places = np.concatenate(rows), np.concatenate(columns)
    J = coo_array((np.concatenate(values), places), shape=(at, n * q)).tocsc()
    try:
        step = splu((J.T @ J).tocsc()).solve(J.T @ np.concatenate(off))
    except RuntimeError as problem:  # a singular matrix
        raise NumericalFailure(f"the measured motions cannot be weighed against the clouds ({problem})") from None
    return -step.reshape(n, q)


def _accuracy(one: Motion) -> Array:  # (q,)
    d = len(one.translation)
    return np.concatenate([np.full(d, one.shift), np.full(_angles(d), one.turn)])


def _angles(d: int) -> int:
    return d * (d - 1) // 2


def _own_residual(turned: Array, moved: Array, rotation: Array, translation: Array) -> tuple[Array, Array]:
    """(shift, turn) from the pose of the registration, in its frame, and its derivative."""
    between = rotation.T @ turned
    residual = np.concatenate([rotation.T @ (moved - translation), rotation_vector(between)])
    jacobian = np.eye(len(residual))
    d = len(moved)
    jacobian[:d, :d] = between
    return residual, jacobian


def _motion_residual(one: Motion, turned: Array, moved: Array) -> tuple[Array, Array, Array]:
    """(shift, turn) from the measured motion, and its derivatives by both poses."""
    back = turned[one.source].T
    between, apart = back @ turned[one.target], back @ (moved[one.target] - moved[one.source])
    residual = np.concatenate([apart - one.translation, rotation_vector(one.rotation.T @ between)])
    d, q = len(apart), len(residual)
    of_source, of_target = np.zeros((q, q)), np.eye(q)
    of_target[:d, :d] = between
    of_source[:d, :d] = -np.eye(d)
    of_source[:d, d:] = _cross(apart)
    of_source[d:, d:] = -between.T if d == 3 else -np.eye(q - d)
    return residual, of_source, of_target


def _cross(x: Array) -> Array:  # (d,) -> (d, angles): how a point moves as the frame turns
    if len(x) == 2:
        return np.array([[x[1]], [-x[0]]])
    return np.array([[0.0, -x[2], x[1]], [x[2], 0.0, -x[0]], [-x[1], x[0], 0.0]])


def _exp(turn: Array) -> Array:  # (1,) or (3,) -> (d, d)
    if len(turn) == 1:
        return np.asarray(exponential(np.array([[0.0, -turn[0]], [turn[0], 0.0]])))
    x, y, z = turn
    return np.asarray(exponential(np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])))

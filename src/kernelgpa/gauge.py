"""From eigenvectors to a map: scales, axes, reflections, and maps from more modes.

The eigenvalue problem fixes the map up to a matrix:  M = X A,  X (m, k) the k bottom eigenvectors.
A and the rotations R_t make the map as rigidly like all clouds as it can be:

    min over A, R_t, t_t of   sum_t |W_t^(1/2) (P_t R_t' + 1 t_t' - X_t A)|^2          (theory, eq. 11)

    modes = "paper"   k = d, A = diag(scales): the paper's map.  Where bottom eigenvalues coincide to
                      rounding their eigenvectors are arbitrary, and A is free inside that block (R_g).
    modes = k         A (k, d) is free.

Translations go by centring.  With C_t = centred P_t' W X_t and S = sum_t centred X_t' W X_t the best A
in a block is  S^-1 sum_t C_t' R_t',  and what is left depends on the rotations alone (eq. 12).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import sqrtm

from .errors import InvalidSetting
from .frames import Array, IndexArray
from .observations import Cloud
from .rotations import Ending, Operator, climb, nearest
from .spectral import Spectrum

SCALE_METHODS = ("refined", "closed-form", "pairwise")


@dataclass(frozen=True)
class Moments:
    """Second moments of every cloud with its rows of X, after weighted centring."""

    cross: Array  # (n, d, k)  P_t' W X_t
    modes: Array  # (n, k, k)  X_t' W X_t
    energy: float  # sum_t |W^(1/2) P_t|^2


@dataclass(frozen=True)
class Gauge:
    """A map in its principal axes with the pose of every cloud, R_t p + t_t near the map."""

    map: Array  # (m, d)
    scales: Array  # (d,), descending
    rotations: Array  # (n, d, d)
    translations: Array  # (n, d)
    cost: float  # eq. 11
    iterations: int
    ending: Ending | None  # None: a closed form, nothing iterated


Block = tuple[IndexArray, IndexArray]  # rows and columns of A that are free together


def fix_gauge(
    spectrum: Spectrum,
    clouds: Sequence[Cloud],
    rank: int,  # dimensions of the map: fewer than d when every cloud is flat
    modes: int | None = None,  # None: the paper's map
    scale_method: str = "refined",
    start: Array | None = None,  # (n, d, d) rotations to start from
) -> Gauge:
    """The map from the bottom eigenvectors, and the poses."""
    dimension = clouds[0].points.shape[1]
    count = rank if modes is None else modes
    X = spectrum.vectors[:, :count]
    moments = moments_of(clouds, X)
    blocks = coinciding(spectrum, rank) if modes is None else [(np.arange(count), np.arange(rank))]
    if scale_method == "refined":
        operator = eliminated(moments, blocks)
        starts = [start] if start is not None else _closed_form_starts(moments, blocks, dimension)
        best = max((climb(operator, first) for first in starts), key=lambda end: end.value)
        A = best_matrix(moments, blocks, best.rotations)
        return deliver(X @ A, clouds, best.rotations, best.iterations, best.ending)
    if modes is not None:
        raise InvalidSetting(f"scale_method {scale_method!r} belongs to modes='paper'; with more modes use 'refined'")
    if scale_method == "closed-form":
        A = closed_form_matrix(moments, blocks, dimension)
    elif scale_method == "pairwise":
        A = principal_mix(moments, blocks, dimension) * pairwise_scales(clouds, len(X))
    else:
        raise InvalidSetting(f"scale_method {scale_method!r} is unknown; use one of {SCALE_METHODS}")
    A, rotations = _right_handed(moments, A)
    return deliver(X @ A, clouds, rotations, 0, None)


def moments_of(clouds: Sequence[Cloud], X: Array) -> Moments:
    cross, modes, energy = [], [], 0.0
    for cloud in clouds:
        share = cloud.weights / cloud.weights.sum()
        P = cloud.points - share @ cloud.points
        G = X[cloud.seen] - share @ X[cloud.seen]
        weighted = cloud.weights[:, None] * G
        cross.append(P.T @ weighted)
        modes.append(G.T @ weighted)
        energy += float(np.sum(cloud.weights[:, None] * P**2))
    return Moments(np.array(cross), np.array(modes), energy)


def coinciding(spectrum: Spectrum, rank: int) -> list[Block]:
    """The d bottom modes in blocks of eigenvalues that cannot be told apart."""
    apart = np.flatnonzero(np.diff(spectrum.values[:rank]) > spectrum.rounding) + 1
    return [(block, block) for block in np.split(np.arange(rank), apart)]


def best_matrix(moments: Moments, blocks: list[Block], rotations: Array) -> Array:  # (k, d)
    """A for given rotations."""
    pull = np.einsum("tdk,ted->ke", moments.cross, rotations)
    S = moments.modes.sum(axis=0)
    A = np.zeros_like(pull)
    for rows, columns in blocks:
        A[np.ix_(rows, columns)] = np.linalg.solve(S[np.ix_(rows, rows)], pull[np.ix_(rows, columns)])
    return A


def eliminated(moments: Moments, blocks: list[Block]) -> Operator:
    """G of eq. 12: the pull of the best A on every rotation."""

    def operator(rotations: Array) -> Array:
        A = best_matrix(moments, blocks, rotations)
        return np.swapaxes(moments.cross @ A, 1, 2)

    return operator


def closed_form_matrix(moments: Moments, blocks: list[Block], dimension: int) -> Array:  # (k, d)
    """sqrt(Lambda) R_g from the mean of (P_t X_t^+)'(P_t X_t^+)  (theory, eq. 13)."""
    mean = _mean_square_ratio(moments)
    A = np.zeros((mean.shape[0], dimension))
    for rows, columns in blocks:
        A[np.ix_(rows, columns)] = np.real(sqrtm(mean[np.ix_(rows, rows)]))
    return A


def principal_mix(moments: Moments, blocks: list[Block], dimension: int) -> Array:  # (k, d)
    """R_g alone: inside a block of coinciding eigenvalues the axes of the closed form, widest first."""
    mean = _mean_square_ratio(moments)
    mix = np.zeros((mean.shape[0], dimension))
    for rows, columns in blocks:
        mix[np.ix_(rows, columns)] = np.linalg.eigh(mean[np.ix_(rows, rows)])[1][:, ::-1]
    return mix


def _mean_square_ratio(moments: Moments) -> Array:  # (k, k)
    """The mean of (P_t X_t^+)'(P_t X_t^+)."""
    ratio = np.swapaxes(np.linalg.pinv(moments.modes, hermitian=True) @ np.swapaxes(moments.cross, 1, 2), 1, 2)
    ranks = np.linalg.matrix_rank(ratio)
    whole = ratio[ranks == ranks.max()]  # a flat cloud among bodies says nothing of the third scale
    return np.mean(np.swapaxes(whole, 1, 2) @ whole, axis=0)


def pairwise_scales(clouds: Sequence[Cloud], m: int) -> Array:  # (d,), descending
    """The scales of 2022: complete each cloud by all others, moved rigidly onto it one at a time."""
    scales = []
    for fixed in clouds:
        total, count = np.zeros((m, fixed.points.shape[1])), np.zeros(m)
        for moving in clouds:
            pose = _pairwise_pose(moving, fixed)
            if pose is not None:
                rotation, translation = pose
                total[moving.seen] += moving.points @ rotation.T + translation
                count[moving.seen] += 1
        completed = total[count > 0] / count[count > 0, None]
        scales.append(np.linalg.svd(completed - completed.mean(axis=0), compute_uv=False))
    return np.mean(scales, axis=0)


def _pairwise_pose(moving: Cloud, fixed: Cloud) -> tuple[Array, Array] | None:
    """The rigid motion onto another cloud, if they share enough landmarks."""
    _, a, b = np.intersect1d(moving.seen, fixed.seen, assume_unique=True, return_indices=True)
    if len(a) < moving.points.shape[1]:
        return None
    share = (w := np.sqrt(moving.weights[a] * fixed.weights[b])) / w.sum()
    p, q = moving.points[a], fixed.points[b]
    p0, q0 = share @ p, share @ q
    rotation = nearest((q - q0).T @ (share[:, None] * (p - p0)))
    return rotation, q0 - rotation @ p0


def _closed_form_starts(moments: Moments, blocks: list[Block], dimension: int) -> list[Array]:
    """Rotations from the closed-form scales, for both hands of the last axis."""
    A = closed_form_matrix(moments, blocks, dimension)
    mirrored = A.copy()
    mirrored[:, -1] *= -1
    return [_rotations_to(moments, A), _rotations_to(moments, mirrored)]


def _rotations_to(moments: Moments, A: Array) -> Array:
    return nearest(np.swapaxes(moments.cross @ A, 1, 2))


def _right_handed(moments: Moments, A: Array) -> tuple[Array, Array]:
    """A, its last axis turned over if the clouds fit that hand better, and the rotations."""
    flipped = A.copy()
    flipped[:, -1] *= -1
    options = [(one, _rotations_to(moments, one)) for one in (A, flipped)]
    return max(options, key=lambda o: float(np.einsum("tdk,ke,ted->", moments.cross, o[0], o[1])))


def deliver(M: Array, clouds: Sequence[Cloud], rotations: Array, iterations: int, ending: Ending | None) -> Gauge:
    """The map zero-centred in its principal axes, poses moved along, signs by rule (eq. 14).

    Axes are turned so that the third moment of the landmarks along each is positive; where it
    vanishes by symmetry, so that the first landmark off the axis is.  The last axis of a body has
    no choice: it keeps the hand of the clouds.
    """
    M = M - M.mean(axis=0)
    _, scales, axes = np.linalg.svd(M, full_matrices=False)
    signs = np.array([_sign(M @ axis) for axis in axes])
    signs[-1] = np.sign(np.linalg.det(axes)) * np.prod(signs[:-1])
    turn = signs[:, None] * axes
    M = M @ turn.T
    rotations = turn @ rotations
    translations, cost = [], 0.0
    for cloud, rotation in zip(clouds, rotations, strict=True):
        share = cloud.weights / cloud.weights.sum()
        here, there = share @ cloud.points, share @ M[cloud.seen]
        translations.append(there - rotation @ here)
        off = (cloud.points - here) @ rotation.T - (M[cloud.seen] - there)
        cost += float(np.sum(cloud.weights[:, None] * off**2))
    return Gauge(M, scales, rotations, np.array(translations), cost, iterations, ending)


def _sign(along: Array) -> float:
    size = np.abs(along).max()
    if size == 0:
        return 1.0
    third = np.mean((along / size) ** 3)
    if abs(third) > 1e-6:
        return float(np.sign(third))
    return float(np.sign(along[np.flatnonzero(np.abs(along) > 1e-6 * size)[0]]))

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
from .observations import Cloud, Observations
from .rotations import Ending, climb, nearest
from .spectral import Spectrum
from .threads import product
from .together import Together

CANCELLED = 1e-5  # of the squares that a cost is the difference of: a smaller one has lost too many digits
SCALE_METHODS = ("refined", "closed-form", "pairwise")


@dataclass(frozen=True)
class Moments:
    """Second moments of every cloud with its rows of X, after weighted centring."""

    cross: Array  # (n, d, k)  P_t' W X_t
    modes: Array  # (n, k, k)  X_t' W X_t
    ranks: IndexArray  # (n,) dimensions that each cloud spans


@dataclass(frozen=True)
class Gauge:
    """A map in its principal axes with the pose of every cloud, R_t p + t_t near the map."""

    map: Array  # (m, d)
    scales: Array  # (d,), descending
    rotations: Array  # (n, d, d)
    translations: Array  # (n, d)
    cost: float  # eq. 11; NaN where nobody asked for it
    iterations: int
    ending: Ending | None  # None: a closed form, nothing iterated


Block = tuple[IndexArray, IndexArray]  # rows and columns of A that are free together


def fix_gauge(
    spectrum: Spectrum,
    observations: Observations,
    rank: int,  # dimensions of the map: fewer than d when every cloud is flat
    modes: int | None = None,  # None: the paper's map
    scale_method: str = "refined",
    start: Array | None = None,  # (n, d, d) rotations to start from
    costed: bool = True,
) -> Gauge:
    """The map from the bottom eigenvectors, and the poses."""
    dimension = observations.dimension
    count = rank if modes is None else modes
    X = spectrum.vectors[:, :count]
    moments = moments_of(observations, X)
    blocks = coinciding(spectrum, rank) if modes is None else [(np.arange(count), np.arange(rank))]
    if scale_method == "refined":
        mix = Mix(moments, blocks)
        starts = [start] if start is not None else _closed_form_starts(spectrum, observations, rank)
        best = max((climb(mix.operator, first) for first in starts), key=lambda end: end.value)
        M, together = X @ mix.matrix(best.rotations), observations.together
        return deliver(M, together, best.rotations, best.iterations, best.ending, costed=costed)
    if modes is not None:
        raise InvalidSetting(f"scale_method {scale_method!r} belongs to modes='paper'; with more modes use 'refined'")
    if scale_method == "closed-form":
        A = closed_form_matrix(moments, blocks, dimension)
    elif scale_method == "pairwise":
        A = principal_mix(moments, blocks, dimension) * pairwise_scales(observations.clouds, len(X))
    else:
        raise InvalidSetting(f"scale_method {scale_method!r} is unknown; use one of {SCALE_METHODS}")
    A, rotations = _right_handed(moments, A)
    return deliver(X @ A, observations.together, rotations, 0, None)


def moments_of(observations: Observations, X: Array) -> Moments:
    together = observations.together
    n, d, k = len(observations.clouds), observations.dimension, X.shape[1]
    cross = (together.pull.T @ X).reshape(n, d, k)  # centred points need no centred X
    means = (together.weights.T @ X) / together.mass[:, None]
    products = (X[:, :, None] * X[:, None, :]).reshape(len(X), k * k)
    modes = (together.weights.T @ products).reshape(n, k, k)
    modes -= together.mass[:, None, None] * means[:, :, None] * means[:, None, :]
    return Moments(cross, modes, np.array([cloud.frame.rank for cloud in observations.clouds]))


def coinciding(spectrum: Spectrum, rank: int) -> list[Block]:
    """The d bottom modes in blocks of eigenvalues that cannot be told apart."""
    apart = np.flatnonzero(np.abs(np.diff(spectrum.values[:rank])) > spectrum.rounding) + 1
    return [(block, block) for block in np.split(np.arange(rank), apart)]


class Mix:
    """The best A for given rotations, and its pull on them (G of eq. 12); S is inverted once."""

    def __init__(self, moments: Moments, blocks: list[Block]) -> None:
        n, d, k = moments.cross.shape
        self._cross, self._shape = moments.cross.reshape(n * d, k), (n, d, d)
        S = moments.modes.sum(axis=0)
        self._solve = np.zeros((k, k))
        self._free = np.zeros((k, d))  # 1 where A is free
        for rows, columns in blocks:
            self._solve[np.ix_(rows, rows)] = np.linalg.inv(S[np.ix_(rows, rows)])
            self._free[np.ix_(rows, columns)] = 1.0

    def matrix(self, rotations: Array) -> Array:  # (n, d, d) -> (k, d)
        pull = self._cross.T @ np.swapaxes(rotations, 1, 2).reshape(len(self._cross), -1)
        return self._free * (self._solve @ (self._free * pull))

    def operator(self, rotations: Array) -> Array:
        pulled = self._cross @ self.matrix(rotations)
        return np.swapaxes(pulled.reshape(self._shape), 1, 2)


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
    whole = ratio[moments.ranks == moments.ranks.max()]  # a flat cloud among bodies is silent on the third scale
    return np.mean(np.swapaxes(whole, 1, 2) @ whole, axis=0)


def pairwise_scales(clouds: Sequence[Cloud], m: int) -> Array:  # (d,), descending
    """The scales of 2022, from clouds completed one pair at a time; unseen points stay unseen.

    Each cloud is completed by the others, moved onto it by similarities: where it saw a landmark its
    own point stands, elsewhere the mean of those that did.  The common direction of the completed clouds'
    scales is their top singular vector, the size their mean size.
    """
    scales = np.array([np.linalg.svd(_completed(fixed, clouds, m), compute_uv=False) for fixed in clouds])
    sizes = np.linalg.norm(scales, axis=1)
    direction = np.abs(np.linalg.svd(scales / sizes[:, None])[2][0])
    return direction * sizes.mean()


def _completed(fixed: Cloud, clouds: Sequence[Cloud], m: int) -> Array:  # (landmarks that anybody placed, d)
    total, count = np.zeros((m, fixed.points.shape[1])), np.zeros(m)
    for moving in clouds:
        moved = _moved_onto(moving, fixed)
        if moved is not None:
            total[moving.seen] += moved
            count[moving.seen] += 1
    total[fixed.seen], count[fixed.seen] = fixed.points, 1
    completed = total[count > 0] / count[count > 0, None]
    return completed - completed.mean(axis=0)


def _moved_onto(moving: Cloud, fixed: Cloud) -> Array | None:  # (s, d)
    """A cloud's points under the similarity that the landmarks it shares determine, if there are enough."""
    shared, a, b = np.intersect1d(moving.seen, fixed.seen, assume_unique=True, return_indices=True)
    if len(shared) < moving.points.shape[1]:
        return None
    p0, q0 = moving.points[a].mean(axis=0), fixed.points[b].mean(axis=0)
    p, q = moving.points[a] - p0, fixed.points[b] - q0
    rotation = nearest(q.T @ p)
    factor = np.vdot(rotation, q.T @ p) / np.vdot(p, p)
    return factor * (moving.points - p0) @ rotation.T + q0


def _closed_form_starts(spectrum: Spectrum, observations: Observations, rank: int) -> list[Array]:
    """Rotations from the closed-form scales of the bottom modes, for both hands of the last axis."""
    moments = moments_of(observations, spectrum.vectors[:, :rank])
    A = closed_form_matrix(moments, coinciding(spectrum, rank), observations.dimension)
    return [_rotations_to(moments, A), _rotations_to(moments, _flipped(A))]


def _rotations_to(moments: Moments, A: Array) -> Array:
    return nearest(np.swapaxes(moments.cross @ A, 1, 2))


def _flipped(A: Array) -> Array:
    return A * np.append(np.ones(A.shape[1] - 1), -1.0)


def _right_handed(moments: Moments, A: Array) -> tuple[Array, Array]:
    """A, its last axis turned over if the clouds fit that hand better, and the rotations."""
    options = [(one, _rotations_to(moments, one)) for one in (A, _flipped(A))]
    return max(options, key=lambda o: float(np.einsum("tdk,ke,ted->", moments.cross, o[0], o[1])))


def deliver(
    M: Array,
    together: Together,
    rotations: Array,
    iterations: int,
    ending: Ending | None,
    factors: Array | None = None,
    costed: bool = True,
) -> Gauge:
    """The map zero-centred in its principal axes, poses moved along, signs by rule (eq. 14).

    Axes are turned so that the third moment of the landmarks along each is positive; where it
    vanishes by symmetry, so that the first landmark off the axis is.  The last axis of a body has
    no choice: it keeps the hand of the clouds.  ``factors`` are the clouds' sizes, where they are free.
    """
    M = M - M.mean(axis=0)
    _, scales, axes = np.linalg.svd(M, full_matrices=False)
    signs = np.array([_sign(M @ axis) for axis in axes])
    signs[-1] = np.sign(np.linalg.det(axes)) * np.prod(signs[:-1])
    turn = signs[:, None] * axes
    M = M @ turn.T
    rotations = turn @ rotations
    motions = rotations if factors is None else factors[:, None, None] * rotations
    there = (together.weights.T @ M) / together.mass[:, None]  # (n, d)
    translations = there - np.einsum("ted,td->te", motions, together.means)
    cost = _cost(M, together, motions, there) if costed else np.nan
    return Gauge(M, scales, rotations, translations, cost, iterations, ending)


def _cost(M: Array, together: Together, motions: Array, there: Array) -> float:
    """Eq. 11 by the moments of the clouds; where nearly nothing is left of them, by what is left of every point."""
    n, _, d = together.centred.shape
    own = together.own * np.einsum("nij,nij->n", motions, motions) / d  # a motion is a rotation times a size
    pulled = product(together.pull.T, M).reshape(n, d, d)
    placed = float(together.weights.sum(axis=1) @ np.einsum("md,md->m", M, M))
    placed -= float(together.mass @ np.einsum("nd,nd->n", there, there))
    cost = float(own.sum()) + placed - 2 * float(np.einsum("nij,nji->", pulled, motions))
    if cost > CANCELLED * (float(own.sum()) + placed):
        return cost
    off = together.centred @ np.swapaxes(motions, 1, 2)
    off -= M
    off += there[:, None]
    return float(np.vdot(together.weights.T, np.einsum("nmd,nmd->nm", off, off)))


def _sign(along: Array) -> float:
    size = np.abs(along).max()
    if size == 0:
        return 1.0
    third = np.mean((along / size) ** 3)
    if abs(third) > 1e-6:
        return float(np.sign(third))
    return float(np.sign(along[np.flatnonzero(np.abs(along) > 1e-6 * size)[0]]))

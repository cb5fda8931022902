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

from dataclasses import dataclass

import numpy as np
from scipy.linalg import sqrtm

from .errors import InvalidSetting
from .frames import CLEARLY_OFF, COINCIDING, Array, IndexArray, axes_by_rule
from .rotations import Ending, climb, nearest
from .spectral import Spectrum
from .together import Together

TOGETHER = 1e-10  # spread of shared landmarks, as a share of their squared distances from the centre: they say nothing
SYMMETRIC = 1e-6  # a mean cube, as a share of the largest, below which the landmarks lie alike on both sides of an axis
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
    together: Together,
    modes: int | None = None,  # None: the paper's map
    scale_method: str = "refined",
    start: Array | None = None,  # (n, d, d) rotations to start from
    costed: bool = True,
) -> Gauge:
    """The map from the bottom eigenvectors, and the poses."""
    dimension, rank = together.means.shape[1], together.rank  # fewer than d when every cloud is flat
    count = rank if modes is None else modes
    X = spectrum.vectors[:, :count]
    moments = moments_of(together, X)
    blocks = coinciding(spectrum, rank) if modes is None else [(np.arange(count), np.arange(rank))]
    if scale_method == "refined":
        mix = Mix(moments, blocks)
        starts = [start] if start is not None else _closed_form_starts(spectrum, moments, rank)
        best = max((climb(mix.operator, first) for first in starts), key=lambda end: end.value)
        M = X @ mix.matrix(best.rotations)
        return deliver(M, together, best.rotations, best.iterations, best.ending, costed=costed)
    if modes is not None:
        raise InvalidSetting(f"scale_method {scale_method!r} belongs to modes='paper'; with more modes use 'refined'")
    if scale_method == "closed-form":
        A = closed_form_matrix(moments, blocks, dimension)
    elif scale_method == "pairwise":
        A = principal_mix(moments, blocks, dimension) * pairwise_scales(together)
    else:
        raise InvalidSetting(f"scale_method {scale_method!r} is unknown; use one of {SCALE_METHODS}")
    A, rotations = _right_handed(moments, A)
    return deliver(X @ A, together, rotations, 0, None)


def moments_of(together: Together, X: Array) -> Moments:
    (n, d), k = together.means.shape, X.shape[1]
    cross = (together.pull.T @ X).reshape(n, d, k)  # centred points need no centred X
    means = (together.weights.T @ X) / together.mass[:, None]
    products = (X[:, :, None] * X[:, None, :]).reshape(len(X), k * k)
    modes = (together.weights.T @ products).reshape(n, k, k)
    modes -= together.mass[:, None, None] * means[:, :, None] * means[:, None, :]
    return Moments(cross, modes, together.ranks)


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
        block = mean[np.ix_(rows, rows)]
        A[np.ix_(rows, columns)] = np.sqrt(block) if len(rows) == 1 else np.real(sqrtm(block))
    return A


def principal_mix(moments: Moments, blocks: list[Block], dimension: int) -> Array:  # (k, d)
    """R_g alone: inside a block of coinciding eigenvalues the axes of the closed form, widest first."""
    mix = np.eye(moments.cross.shape[2], dimension)
    if all(len(rows) == 1 for rows, _ in blocks):
        return mix
    mean = _mean_square_ratio(moments)
    for rows, columns in blocks:
        mix[np.ix_(rows, columns)] = np.linalg.eigh(mean[np.ix_(rows, rows)])[1][:, ::-1]
    return mix


def _mean_square_ratio(moments: Moments) -> Array:  # (k, k)
    """The mean of (P_t X_t^+)'(P_t X_t^+)."""
    ratio = np.swapaxes(np.linalg.pinv(moments.modes, hermitian=True) @ np.swapaxes(moments.cross, 1, 2), 1, 2)
    whole = ratio[moments.ranks == moments.ranks.max()]  # a flat cloud among bodies is silent on the third scale
    return np.mean(np.swapaxes(whole, 1, 2) @ whole, axis=0)


def pairwise_scales(together: Together) -> Array:  # (d,), descending
    """The scales of 2022, from clouds completed one pair at a time; unseen points stay unseen.

    Each cloud is completed by the others, moved onto it by similarities: where it saw a landmark its
    own point stands, elsewhere the mean of those that did.  The common direction of the completed clouds'
    scales is their top singular vector, the size their mean size.  Weights do not count.
    """
    scales = np.linalg.svd(_completed(together), compute_uv=False)  # (n, d)
    sizes = np.linalg.norm(scales, axis=1)
    direction = np.abs(np.linalg.svd(scales / sizes[:, None])[2][0])
    return direction * sizes.mean()


def _completed(together: Together) -> Array:  # (n, m, d) centred, zeros where nobody placed a landmark
    """Every cloud with the others' points where it saw none."""
    n, m, d = together.centred.shape
    seen = (together.weights > 0).astype(np.float64)  # (m, n)
    points = np.swapaxes(together.centred, 0, 1).reshape(m, n * d)
    motions, shifts, enough = _onto_each_other(points, seen)
    moved = points @ motions.transpose(1, 3, 0, 2).reshape(n * d, n * d)
    moved += seen @ np.swapaxes(shifts, 0, 1).reshape(n, n * d)
    count = np.repeat(seen @ enough.T, d, axis=1)
    moved /= np.maximum(count, 1.0)
    completed = np.where(np.repeat(seen, d, axis=1) > 0, points, moved)
    completed -= np.where(count > 0, completed.sum(axis=0) / (count > 0).sum(axis=0), 0.0)
    return np.swapaxes(completed.reshape(m, n, d), 0, 1)


def _onto_each_other(points: Array, seen: Array) -> tuple[Array, Array, Array]:  # (m, n d), (m, n)
    """The similarities q = B p + b that take every cloud onto every other, from the landmarks that they share.

    B (n, n, d, d) and b (n, n, d) stand at [fixed, moving], with zeros where too few are shared, or these too near each
    other, to determine them.
    """
    n, d = seen.shape[1], points.shape[1] // seen.shape[1]
    shared = seen.T @ seen
    centres = (seen.T @ points).reshape(n, n, d) / np.maximum(shared, 1.0)[:, :, None]  # of the moving cloud's points
    there = np.swapaxes(centres, 0, 1)
    pull = (points.T @ points).reshape(n, d, n, d).transpose(0, 2, 1, 3)
    pull = pull - (shared[:, :, None] * there)[:, :, :, None] * centres[:, :, None, :]
    squares = seen.T @ (points**2).reshape(-1, n, d).sum(axis=2)
    spread = squares - shared * np.sum(centres**2, axis=2)
    enough = (shared >= d) & (spread > TOGETHER * squares)
    turns = nearest(pull.reshape(n * n, d, d)).reshape(n, n, d, d)
    factors = np.sum(turns * pull, axis=(2, 3)) / np.where(enough, spread, np.inf)
    motions = factors[:, :, None, None] * turns
    shifts = there - (motions @ centres[:, :, :, None])[:, :, :, 0]
    return motions, np.where(enough[:, :, None], shifts, 0.0), enough.astype(np.float64)


def _closed_form_starts(spectrum: Spectrum, moments: Moments, rank: int) -> list[Array]:
    """Rotations from the closed-form scales of the bottom modes, for both hands of the last axis."""
    moments = Moments(moments.cross[:, :, :rank], moments.modes[:, :rank, :rank], moments.ranks)
    A = closed_form_matrix(moments, coinciding(spectrum, rank), moments.cross.shape[1])
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
    no choice: it keeps the hand of the clouds.  Axes of coinciding scales are chosen by the landmarks
    (:func:`axes_by_rule`).  ``factors`` are the clouds' sizes, where they are free.
    """
    M = M - M.mean(axis=0)
    _, scales, axes = np.linalg.svd(M, full_matrices=False)
    axes = axes_by_rule(M, scales, axes, COINCIDING * scales[0])
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
    pulled = (together.pull.T @ M).reshape(n, d, d)
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
    if abs(third) > SYMMETRIC:
        return float(np.sign(third))
    return float(np.sign(along[np.argmax(np.abs(along) > CLEARLY_OFF * size)]))

"""From eigenvectors to a map: scales, axes, reflections, and maps from more modes.

The eigenvalue problem fixes the map up to a matrix:  M = X A,  X (m, k) the k bottom eigenvectors.
A and the rotations R_t make the map as rigidly like all clouds as it can be:

    min over A, R_t, t_t of   sum_t |W_t^(1/2) (P_t R_t' + 1 t_t' - X_t A)|^2          (theory, eq. 11)

    modes = "paper"   k = d, A = diag(scales): the paper's map.  Where bottom eigenvalues coincide to
                      rounding their eigenvectors are arbitrary, and A is free inside that block (R_g).
    modes = k         A (k, d) is free.

Translations are eliminated by centring.  With C_t = centred P_t' W X_t and S = sum_t centred X_t' W X_t the best A
in a block is  S^-1 sum_t C_t' R_t',  and the remaining cost depends on the rotations alone (eq. 12).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import sqrtm

from ..errors import InvalidSetting
from ..observations.stacked import StackedClouds
from ..spectrum.eigenpairs import Spectrum
from ..typing import Array, IndexArray
from .baselines import pairwise_scales
from .principal_axes import Gauge, to_principal_axes
from .rotations import maximise_over_rotations, nearest

SCALE_METHODS = ("refined", "closed-form", "pairwise")


@dataclass(frozen=True)
class Moments:
    """Second moments of every cloud with its rows of X, after weighted centring."""

    cross: Array  # (n, d, k)  P_t' W X_t
    modes: Array  # (n, k, k)  X_t' W X_t
    ranks: IndexArray  # (n,) dimensions that each cloud spans


Block = tuple[IndexArray, IndexArray]  # rows and columns of A that are free together


def fix_gauge(
    spectrum: Spectrum,
    stacked: StackedClouds,
    modes: int | None = None,  # None: the paper's map
    scale_method: str = "refined",
    start: Array | None = None,  # (n, d, d) rotations to start from
    costed: bool = True,
) -> Gauge:
    """The map from the bottom eigenvectors, and the poses."""
    dimension, rank = stacked.means.shape[1], stacked.rank  # fewer than d when every cloud is flat
    count = rank if modes is None else modes
    X = spectrum.vectors[:, :count]
    moments = moments_of(stacked, X)
    blocks = coinciding(spectrum, rank) if modes is None else [(np.arange(count), np.arange(rank))]
    if scale_method == "refined":
        mix = Mix(moments, blocks)
        starts = [start] if start is not None else _closed_form_starts(spectrum, moments, rank)
        best = max((maximise_over_rotations(mix.operator, first) for first in starts), key=lambda end: end.value)
        M = X @ mix.matrix(best.rotations)
        return to_principal_axes(M, stacked, best.rotations, best.iterations, best.ending, costed=costed)
    if modes is not None:
        raise InvalidSetting(f"scale_method {scale_method!r} belongs to modes='paper'; with more modes use 'refined'")
    if scale_method == "closed-form":
        A = closed_form_matrix(moments, blocks, dimension)
    elif scale_method == "pairwise":
        A = principal_mix(moments, blocks, dimension) * pairwise_scales(stacked)
    else:
        raise InvalidSetting(f"scale_method {scale_method!r} is unknown; use one of {SCALE_METHODS}")
    A, rotations = _right_handed(moments, A)
    return to_principal_axes(X @ A, stacked, rotations, 0, None)


def moments_of(stacked: StackedClouds, X: Array) -> Moments:
    (n, d), k = stacked.means.shape, X.shape[1]
    cross = (stacked.weighted_points.T @ X).reshape(n, d, k)  # centred points need no centred X
    means = (stacked.weights.T @ X) / stacked.total_weights[:, None]
    products = (X[:, :, None] * X[:, None, :]).reshape(len(X), k * k)
    modes = (stacked.weights.T @ products).reshape(n, k, k)
    modes -= stacked.total_weights[:, None, None] * means[:, :, None] * means[:, None, :]
    return Moments(cross, modes, stacked.ranks)


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

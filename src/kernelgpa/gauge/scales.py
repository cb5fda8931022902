"""From eigenvectors to a map: the matrix A of  M = X A  and the rotations of the clouds.

X (m, k) holds the k bottom eigenvectors.  A and the rotations R_t minimise

    sum_t |W_t^(1/2) (P_t R_t' + 1 t_t' - X_t A)|^2                                         (theory, eq. 11)

    modes = "paper"   k = d, A diagonal: its entries are the scales sqrt(Lambda_ii), up to sign.  A is full inside a
                      block of eigenvalues that coincide to rounding (it contains R_g).
    modes = k         A (k, d) is free.

The best translations make the weighted means agree.  With C_t, S_t the moments of :mod:`.closed_form` and
S = sum_t S_t, the best A for given rotations is, block by block,

    A(R) = S^-1 sum_t C_t' R_t',    and    G(R)_t = A(R)' C_t'                              (theory, eq. 12)

is the operator of the quadratic form in the rotations that remains to be maximised.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..errors import InvalidSetting
from ..observations.stacked import StackedClouds
from ..spectrum.eigenpairs import Spectrum
from ..typing import Array
from .baselines import pairwise_scales
from .closed_form import (
    Block,
    ModeMoments,
    ScaleProblem,
    ScaleSolution,
    closed_form_matrix,
    closed_form_scales,
    coinciding_blocks,
    mode_moments,
    reflected,
    rotations_onto,
)
from .principal_axes import Gauge, to_principal_axes
from .rotations import maximise_over_rotations


def fix_gauge(
    spectrum: Spectrum,
    stacked: StackedClouds,
    modes: int | None = None,  # None: the paper's map
    scale_method: str = "refined",
    start: Array
    | None = None,  # (n, d, d) rotations to start from; None, for the paper's map: those of the closed form
) -> Gauge:
    """The map from the bottom eigenvectors, and the poses."""
    if scale_method not in SCALE_METHODS:
        raise InvalidSetting(f"scale_method is {scale_method!r}; expected one of {', '.join(SCALE_METHODS)}")
    if modes is not None and scale_method != "refined":
        raise InvalidSetting(f"scale_method {scale_method!r} belongs to modes='paper'; with more modes use 'refined'")
    rank = stacked.rank  # less than d if every cloud is flat
    count = rank if modes is None else modes
    X = spectrum.vectors[:, :count]
    blocks = coinciding_blocks(spectrum, rank) if modes is None else [(np.arange(count), np.arange(rank))]
    found = SCALE_METHODS[scale_method](ScaleProblem(stacked, mode_moments(stacked, X), blocks, start))
    return to_principal_axes(X @ found.matrix, stacked, found.rotations, found.iterations, found.termination)


def refined_scales(problem: ScaleProblem) -> ScaleSolution:
    """The maximum of eq. 12, from the given rotations or from the closed form of either handedness."""
    moments, least_squares = problem.moments, ModeLeastSquares(problem.moments, problem.blocks)
    if problem.start is not None:
        starts = [problem.start]
    else:
        A = closed_form_matrix(moments, problem.blocks)
        starts = [rotations_onto(moments, A), rotations_onto(moments, reflected(A))]
    optima = [maximise_over_rotations(least_squares.operator, start) for start in starts]
    best = max(optima, key=lambda optimum: optimum.value)
    return ScaleSolution(least_squares.matrix(best.rotations), best.rotations, best.iterations, best.termination)


SCALE_METHODS: dict[str, Callable[[ScaleProblem], ScaleSolution]] = {
    "refined": refined_scales,
    "closed-form": closed_form_scales,
    "pairwise": pairwise_scales,
}


class ModeLeastSquares:
    """The least-squares matrix A(R) for given rotations, and the operator G of eq. 12; S is inverted once."""

    def __init__(self, moments: ModeMoments, blocks: list[Block]) -> None:
        n, d, k = moments.cross.shape
        self._cross, self._shape = moments.cross.reshape(n * d, k), (n, d, d)
        S = moments.modes.sum(axis=0)
        self._inverse = np.zeros((k, k))
        self._pattern = np.zeros((k, d))  # 1 for the entries of A that are free, else 0
        for rows, columns in blocks:
            self._inverse[np.ix_(rows, rows)] = np.linalg.inv(S[np.ix_(rows, rows)])
            self._pattern[np.ix_(rows, columns)] = 1.0

    def matrix(self, rotations: Array) -> Array:  # (n, d, d) -> (k, d)
        """A(R)"""
        moments = self._cross.T @ np.swapaxes(rotations, 1, 2).reshape(len(self._cross), -1)  # sum_t C_t' R_t'
        return self._pattern * (self._inverse @ (self._pattern * moments))

    def operator(self, rotations: Array) -> Array:
        """G(R)"""
        products = self._cross @ self.matrix(rotations)
        return np.swapaxes(products.reshape(self._shape), 1, 2)

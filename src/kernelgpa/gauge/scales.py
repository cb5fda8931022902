"""From eigenvectors to a map: the matrix A of  M = X A  and the rotations of the clouds.

X (m, k) holds the k bottom eigenvectors.  A and the rotations R_t minimise

    sum_t |W_t^(1/2) (P_t R_t' + 1 t_t' - X_t A)|^2                                         (theory, eq. 11)

    modes = "paper"     k = d, A = R_g' sqrt(Lambda) is free: R_g rotates and reflects the axes of the eigenvectors.
    modes = "program"   k = d, R_g = I as in the authors' program: A is diagonal, its entries are the scales
                        sqrt(Lambda_ii), up to sign.  A is full only inside a block of eigenvalues that coincide to
                        rounding, where the axes of the eigenvectors are arbitrary.
    modes = k           A (k, d) is free.

The best translations make the weighted means agree.  With C_t, S_t the moments of :mod:`.closed_form` and
S = sum_t S_t, the best A for given rotations is, block by block,

    A(R) = S^-1 sum_t C_t' R_t',    and    G(R)_t = A(R)' C_t'                              (theory, eq. 12)

is the operator of the quadratic form in the rotations that remains to be maximised.  These are sections 7.1, 7.2 and
7.4 of the paper; section 7.3 is :mod:`.closed_form`, and section 8.2 (flat clouds) is :func:`possible_axes`.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import numpy as np

from ..observations.stacked import StackedClouds
from ..spectrum.eigenpairs import Spectrum
from ..typing import Array, IndexArray
from .baselines import BASELINE_SCALES
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
from .principal_axes import Gauge, GaugeOptimum, optimum_in_principal_axes, rigid_cost, to_principal_axes
from .rotations import maximise_over_rotations

ScaleMethod = Callable[[ScaleProblem], ScaleSolution]
D_MODES = ("paper", "program")  # the maps from as many eigenvectors as there are dimensions
EQUAL_COSTS = 1e-9  # difference of two rigid costs, relative to the size of the clouds, that counts as rounding


def fix_gauge(
    spectrum: Spectrum,
    stacked: StackedClouds,
    modes: str | int = "paper",
    scale_method: str = "refined",
    start: Array | None = None,  # (n, d, d) rotations to start from; None, with d modes: those of the closed form
) -> GaugeOptimum:
    """The map from the bottom eigenvectors, and the poses."""
    find = SCALE_METHODS[scale_method]
    if modes != "program":
        count = stacked.rank if modes == "paper" else int(modes)
        free = [(np.arange(count), np.arange(stacked.rank))]
        return _gauge_of(spectrum, stacked, np.arange(count), free, find, start)
    gauges = [
        _gauge_of(spectrum, stacked, axes, coinciding_blocks(spectrum, axes), find, start)
        for axes in possible_axes(spectrum, stacked)
    ]
    return _best_fitting(gauges, stacked)


def _gauge_of(
    spectrum: Spectrum,
    stacked: StackedClouds,
    axes: IndexArray,  # (k,) the eigenvectors that the map is made of
    blocks: list[Block],
    find: ScaleMethod,
    start: Array | None = None,
) -> GaugeOptimum:
    """The map X A of some eigenvectors; with A diagonal, of lowest cost if the scales descend as the eigenvalues
    ascend (Theorem 3)."""
    X = spectrum.vectors[:, axes]
    found = find(ScaleProblem(stacked, mode_moments(stacked, X), blocks, start))
    if found.optimum is None:
        return GaugeOptimum(to_principal_axes(X @ found.matrix, stacked, found.rotations), None)
    return optimum_in_principal_axes(X @ found.matrix, stacked, found.optimum)


def possible_axes(spectrum: Spectrum, stacked: StackedClouds) -> list[IndexArray]:
    """The sets of bottom eigenvectors that can be the axes of the map: the first d, unless all clouds are flat.

    A flat map has fewer axes than there are bottom eigenvectors, and which of them fit the clouds best is not known
    beforehand: it need not be the first ones (section 8.2 of the paper; theory, section 12).
    """
    rank, d = stacked.rank, stacked.means.shape[1]
    available = rank if rank == d else min(d, spectrum.vectors.shape[1])
    return [np.array(axes) for axes in combinations(range(available), rank)]


def flat_map_fits_best(gauge: Gauge, spectrum: Spectrum, stacked: StackedClouds) -> bool:
    """The paper's condition for a flat map of flat clouds: no map from all d bottom eigenvectors fits them better."""
    axes = np.arange(spectrum.vectors.shape[1])
    other = _gauge_of(spectrum, stacked, axes, coinciding_blocks(spectrum, axes), refined_scales)
    return _best_fitting([GaugeOptimum(gauge, None), other], stacked).gauge is gauge


def _best_fitting(gauges: list[GaugeOptimum], stacked: StackedClouds) -> GaugeOptimum:
    """The gauge with the lowest rigid cost, the first of those that coincide to rounding."""
    if len(gauges) == 1:
        return gauges[0]
    costs = np.array([rigid_cost(one.gauge, stacked) for one in gauges])
    return gauges[int(np.argmax(costs <= costs.min() + EQUAL_COSTS * stacked.squared_sizes.sum()))]


def refined_scales(problem: ScaleProblem) -> ScaleSolution:
    """The maximum of eq. 12, from the given rotations or from the closed form of either handedness (section 7.4)."""
    moments, least_squares = problem.moments, ModeLeastSquares(problem.moments, problem.blocks)
    if problem.start is not None:
        starts = [problem.start]
    else:
        A = closed_form_matrix(moments, problem.blocks)
        starts = [rotations_onto(moments, A), rotations_onto(moments, reflected(A))]
    optima = [maximise_over_rotations(least_squares.operator, start) for start in starts]
    best = max(optima, key=lambda optimum: optimum.value)
    return ScaleSolution(least_squares.matrix(best.rotations), best.rotations, best)


SCALE_METHODS: dict[str, ScaleMethod] = {
    "refined": refined_scales,
    "closed-form": closed_form_scales,
    **BASELINE_SCALES,
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

"""Rigid and similarity registration of all clouds: Rigid-GPA (section 3.2 of the paper).

With every landmark of the map free,

    min over M, R_t, t_t, s_t of   sum_t |W_t^(1/2) (s_t P_t R_t' + 1 t_t' - M_t)|^2   (theory, eq. 15)

is a quadratic form in the linear parts s_t R_t once the map and the translations are eliminated.  With points centred
by weight, D the total weight of each landmark, and w_t the weights of cloud t as a vector over all landmarks,

    M = D^-1 (sum_t s_t W_t P_t R_t' + w_t tau_t'),      L tau = w' D^-1 sum_t s_t W_t P_t R_t',

with the graph Laplacian  L = diag(|w_t|) - w' D^-1 w  of the clouds.  If the translations are eliminated first, and the
map has the penalty gamma tr(M' Q M) of eq. 16, the map solves

    (gamma Q + D - sum_t w_t w_t' / |w_t|) M = sum_t s_t W_t P_t R_t'.

Both systems leave the position of the map free; adding a multiple of 1 1' fixes it.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.linalg.blas import dsyrk

from ..observations.collection import Observations
from ..observations.stacked import StackedClouds
from ..spectrum.dense import DenseCost
from ..spectrum.operator import Apply, CostOperator, DiagonalPlusLowRank
from ..typing import Array
from .principal_axes import Gauge, GaugeOptimum, optimum_in_principal_axes, to_principal_axes
from .rotations import CONVERGED_GRADIENT, Operator, Termination, maximise_over_rotations

MAX_SIZE_ITERATIONS = 500
CONVERGED_SIZES = 1e-12  # relative change of the size factors that ends the iteration
SMALL_SYSTEM = 100_000  # entries of the operator's matrices up to which they are computed at once
MAX_SEPARATE_SOLVES = 24  # applications of the operator of a larger system before its matrices are computed


class RigidSystem:
    """Eq. 15, or eq. 16 if the map has a penalty, with the map and the translations eliminated.

    The map is linear in the motions (linear parts) of the clouds.  A small system is solved once, for the d unit
    motions of each cloud, or for each landmark if these are fewer.  A large system is solved again for each application
    of the operator, because the rotations usually converge in fewer applications than that would be worth.

    The operator that is computed at once is made exactly symmetric.  A solution by iteration leaves it asymmetric by
    the accuracy of that iteration; the gradient of f would then not be that of any function, and a common rotation of
    all clouds, to which f is indifferent, would not have gradient 0.
    """

    def __init__(self, stacked: StackedClouds, inverse: Apply | None = None) -> None:
        n, m, d = stacked.centred.shape
        self._clouds, self._points = stacked, stacked.weighted_points  # (m, n d)
        self._shape = (n, d, d)
        self._inverse = (
            self._inverse_of_free_map() if inverse is None else inverse
        )  # weighted sums (m, c) -> map (m, c)
        self._clouds_are_fewer = n * d <= m
        self._separate_solves = MAX_SEPARATE_SOLVES if n * d * min(n * d, m) > SMALL_SYSTEM else 0

    def penalised(self, cost: CostOperator, gamma: float) -> RigidSystem:
        """The system of the same clouds with the penalty gamma tr(M' Q M) on the map."""
        return RigidSystem(self._clouds, cost.solver(gamma, self._without_translations))

    @cached_property
    def _without_translations(self) -> DiagonalPlusLowRank:
        """D as a diagonal, the columns w_t / |w_t|^(1/2), and the multiple of 1 that fixes the position of the map."""
        weights = self._clouds.weights
        total = weights.sum(axis=1)
        columns = weights / np.sqrt(weights.sum(axis=0))
        lifted = np.full(len(total), np.sqrt(total.mean() / len(total)))
        products = self._clouds.products
        return DiagonalPlusLowRank(total, columns, lifted, None if products is None else products.translations)

    def _inverse_of_free_map(self) -> Apply:
        """The system of eq. 15, by whichever of the landmarks and the clouds are fewer."""
        weights = self._clouds.weights
        m, n = weights.shape
        # multiplications of either way; a running sum provides V V'
        by_landmarks = m**3 / 3 + (n * m**2 if self._clouds.products is None else 0)
        if by_landmarks < n**3 / 3 + m * n**2:
            return DenseCost(np.zeros((m, m))).solver(0.0, self._without_translations)
        total = weights.sum(axis=1)[:, None]
        laplacian = np.asarray(dsyrk(-1.0, weights / np.sqrt(total), trans=True, lower=True))
        laplacian[np.diag_indices(n)] += weights.sum(axis=0)
        trace = np.trace(laplacian)
        laplacian += trace / n**2
        laplacian[np.diag_indices(n)] += 1e-15 * trace
        factor = cho_factor(laplacian, lower=True, overwrite_a=True, check_finite=False)

        def inverse(sums: Array) -> Array:
            translations = cho_solve(factor, weights.T @ (sums / total), check_finite=False)
            return (sums + weights @ translations) / total

        return inverse

    @cached_property
    def _unit_maps(self) -> Array:  # (m, n d)
        """The map that each unit motion of each cloud makes; the factorisation is not needed after it."""
        if self._clouds_are_fewer:
            maps = self._inverse(self._points)
            self._forget_inverse()
            return maps
        return self._inverse_matrix @ self._points

    @cached_property
    def _inverse_matrix(self) -> Array:  # (m, m)
        """The inverse as a matrix, which takes the weighted sums to the map."""
        inverse = self._inverse(np.eye(len(self._points)))
        self._forget_inverse()
        return 0.5 * (inverse + inverse.T)

    @cached_property
    def _matrix(self) -> Array:  # (n d, n d)
        """The operator as a matrix."""
        matrix = self._points.T @ self._unit_maps
        return 0.5 * (matrix + matrix.T)

    def _forget_inverse(self) -> None:
        self._separate_solves = 0
        del self._inverse  # as large as the total cost, and this system may be kept beside the next one

    def map_of(self, motions: Array) -> Array:  # (n, d, d) s_t R_t -> (m, d)
        """The best map for given motions."""
        columns = self._as_columns(motions)
        if self._separate_solves:
            return self._inverse(self._points @ columns)
        if self._clouds_are_fewer:
            return self._unit_maps @ columns
        return self._inverse_matrix @ (self._points @ columns)

    def operator(self, motions: Array) -> Array:  # (n, d, d) -> (n, d, d)
        """G of eq. 12 for this problem: the cross-moments of each cloud with the best map."""
        if self._separate_solves or not self._clouds_are_fewer:
            products = self._points.T @ self.map_of(motions)
            self._separate_solves = max(self._separate_solves - 1, 0)
        else:
            products = self._matrix @ self._as_columns(motions)
        return np.swapaxes(products.reshape(self._shape), 1, 2)

    def _as_columns(self, motions: Array) -> Array:  # (n, d, d) -> (n d, d), transposed motions below each other
        return np.swapaxes(motions, 1, 2).reshape(-1, self._shape[2])

    def operator_with_sizes(self, size_factors: Array) -> Operator:
        """G for clouds whose sizes are multiplied by factors (n,)."""
        s = size_factors[:, None, None]
        return lambda rotations: s * self.operator(s * rotations)

    def size_matrix(self, rotations: Array) -> Array:  # (n, d, d) -> (n, n)
        """N of the cost  sum_t s_t^2 |P_t|^2 - s' N s,  to which eq. 15 reduces for given rotations."""
        m, (n, d, _) = len(self._points), self._shape
        rotated = np.einsum("mtd,ted->tem", self._points.reshape(m, n, d), rotations)
        maps = np.einsum("mtd,ted->tem", self._unit_maps.reshape(m, n, d), rotations)
        return rotated.reshape(n, -1) @ maps.reshape(n, -1).T


def rigid_registration(observations: Observations, start: Array) -> GaugeOptimum:
    """The optimum of eq. 15 with s_t = 1, from the given rotations."""
    return solve_rigid(RigidSystem(observations.stacked), observations.stacked, start)


def solve_rigid(
    system: RigidSystem, stacked: StackedClouds, start: Array, converged: float = CONVERGED_GRADIENT
) -> GaugeOptimum:
    """The best rotations of a system and its map, in principal axes."""
    best = maximise_over_rotations(system.operator, start, converged=converged)
    return optimum_in_principal_axes(system.map_of(best.rotations), stacked, best)


def similarity_registration(observations: Observations, start: Array) -> tuple[Gauge, Array]:
    """The optimum of eq. 15 with free sizes, and the size factors s_t.

    Only the ratios of the sizes are determined; they are normalised by  sum_t s_t^2 |P_t|^2 = sum_t |P_t|^2.
    Rotations and sizes are optimised in turn.
    """
    system = RigidSystem(observations.stacked)
    sizes = np.sqrt(np.trace(observations.stacked.moments, axis1=1, axis2=2))
    rotations, factors = start, np.ones(len(sizes))
    iterations, termination = 0, Termination.LIMIT
    for _ in range(MAX_SIZE_ITERATIONS):
        best = maximise_over_rotations(system.operator_with_sizes(factors), rotations)
        rotations, iterations = best.rotations, iterations + best.iterations
        previous, factors = factors, _best_size_factors(system, rotations, sizes)
        if np.abs(factors / previous - 1).max() < CONVERGED_SIZES:
            termination = best.termination
            break
    M = system.map_of(factors[:, None, None] * rotations)
    return to_principal_axes(M, observations.stacked, rotations, iterations, termination, factors), factors


def _best_size_factors(system: RigidSystem, rotations: Array, sizes: Array) -> Array:  # (n,)
    """For given rotations the best s_t |P_t| are the top eigenvector of the size matrix, in units of the sizes."""
    matrix = system.size_matrix(rotations) / np.outer(sizes, sizes)
    vector = np.linalg.eigh(0.5 * (matrix + matrix.T))[1][:, -1]
    return vector * np.sign(vector.sum()) / sizes * np.linalg.norm(sizes)

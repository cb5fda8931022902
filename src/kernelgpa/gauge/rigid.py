"""Rigid and similarity registration of all clouds.

With every map point free, the map and the translations are eliminated from

    min over M, R_t, t_t, s_t of   sum_t |W_t^(1/2) (s_t P_t R_t' + 1 t_t' - M_t)|^2   (theory, eq. 15)

exactly: with points centred by weight, D the total weight of each landmark, w_t the weights of a
cloud as a vector over landmarks,

    M = D^-1 (sum_t s_t W_t P_t R_t' + w_t tau_t'),      Laplacian tau = w' D^-1 sum_t s_t W_t P_t R_t'

where the Laplacian diag(|w_t|) - w' D^-1 w connects the clouds.  The remaining cost is a quadratic form in the
rotations.
"""

from __future__ import annotations

from copy import copy

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from ..observations.collection import Observations
from ..observations.stacked import StackedClouds
from ..spectrum.dense import DenseCost
from ..spectrum.operator import Apply, CostOperator, DiagonalPlusLowRank
from ..typing import Array
from .principal_axes import Gauge, to_principal_axes
from .rotations import Ending, Operator, maximise_over_rotations

SIMILARITY_ROUNDS = 500
SETTLED = 1e-12  # relative change of the clouds' sizes that ends the rounds
MANY_MOTIONS = 100_000  # entries of a matrix over all motions, above which few steps go without it


class RigidSystem:
    """Eq. 15 with the map and the translations eliminated, or eq. 16 where the map has a price.

    The map of any rotations is linear in them, and is solved for once, for the unit motions of every cloud; or, where
    few steps are to be expected and clouds are many, anew for the motions of every step.
    """

    def __init__(self, stacked: StackedClouds, few_steps: bool = False) -> None:
        n, m, d = stacked.centred.shape
        self._shape = (n, d, d)
        self._stepwise = few_steps and n * d * min(n * d, m) > MANY_MOTIONS
        self._weights, self._pull = stacked.weights, stacked.weighted_points
        total = self._weights.sum(axis=1)
        columns = self._weights / np.sqrt(self._weights.sum(axis=0))
        lifted = np.full(len(total), np.sqrt(total.mean() / len(total)))  # the map's own position is free
        self._tied = DiagonalPlusLowRank(total, columns, lifted)
        self._settle(self._free())

    def penalised(self, cost: CostOperator, gamma: float) -> RigidSystem:
        """The same clouds with the price gamma tr(M' Q M) on the map."""
        priced = copy(self)
        priced._settle(self._inverse_with(cost, gamma))
        return priced

    def _inverse_with(self, cost: CostOperator, gamma: float) -> Apply:
        """The translations eliminated first, then the map: gamma Q + D - sum_t w_t w_t' / |w_t|, lifted."""
        return cost.solver(gamma, self._tied)

    def _settle(self, settled: Apply) -> None:
        self._settled = settled
        if self._stepwise:
            return
        self._places = settled(self._pull)  # (m, n d): the map that each unit motion makes
        m, motions = self._places.shape
        self._support = self._pull.T @ self._places if motions <= m else None  # (n d, n d)

    def _free(self) -> Apply:
        """(m, c) weighted sums -> (m, c) map points, where each map point is free."""
        m, n = self._weights.shape
        if m < n:  # the smaller of the two systems
            return self._inverse_with(DenseCost(np.zeros((m, m))), 0.0)
        total = self._weights.sum(axis=1)[:, None]
        laplacian = np.diag(self._weights.sum(axis=0)) - self._weights.T @ (self._weights / total)
        # the map's own position is free: lifting the constants fixes it at the origin
        size = np.trace(laplacian)
        ties = cho_factor(laplacian + size / n**2 + 1e-15 * size * np.eye(n))

        def settled(moved: Array) -> Array:
            offsets = cho_solve(ties, self._weights.T @ (moved / total))
            return (moved + self._weights @ offsets) / total

        return settled

    def map_of(self, motions: Array) -> Array:  # (n, d, d) s_t R_t -> (m, d)
        stacked = self._stacked(motions)
        return self._settled(self._pull @ stacked) if self._stepwise else self._places @ stacked

    def operator(self, motions: Array) -> Array:
        stacked = self._stacked(motions)
        if self._stepwise:
            settled = self._settled(self._pull @ stacked)
            return np.swapaxes((self._pull.T @ settled).reshape(self._shape), 1, 2)
        pulled = self._pull.T @ (self._places @ stacked) if self._support is None else self._support @ stacked
        return np.swapaxes(pulled.reshape(self._shape), 1, 2)

    def _stacked(self, motions: Array) -> Array:  # (n, d, d) -> (n d, d), one above the other, transposed
        return np.swapaxes(motions, 1, 2).reshape(-1, self._shape[2])

    def resized(self, factors: Array) -> Operator:
        """The operator with the clouds' sizes multiplied by ``factors`` (n,)."""
        s = factors[:, None, None]
        return lambda rotations: s * self.operator(s * rotations)

    def mutual_pull(self, rotations: Array) -> Array:  # (n, d, d) -> (n, n)
        """How far the clouds' sizes support each other: eq. 15 is sum_t s_t^2 |P_t|^2 - s' N s."""
        m, (n, d, _) = len(self._pull), self._shape
        moved = np.einsum("mtd,ted->tem", self._pull.reshape(m, n, d), rotations)
        placed = np.einsum("mtd,ted->tem", self._places.reshape(m, n, d), rotations)
        return moved.reshape(n, -1) @ placed.reshape(n, -1).T


def rigid_registration(observations: Observations, start: Array) -> Gauge:
    """The optimum of eq. 15 with s_t = 1, from the given rotations."""
    return registered(RigidSystem(observations.stacked), observations.stacked, start)


def registered(system: RigidSystem, stacked: StackedClouds, start: Array) -> Gauge:
    """The best rotations of a system, and its map, delivered."""
    end = maximise_over_rotations(system.operator, start)
    return to_principal_axes(system.map_of(end.rotations), stacked, end.rotations, end.iterations, end.ending)


def similarity_registration(observations: Observations, start: Array) -> tuple[Gauge, Array]:
    """The optimum of eq. 15 with the clouds' sizes free, and the factors s_t.

    Sizes are measured against each other only: sum_t s_t^2 |P_t|^2 = sum_t |P_t|^2.  For given
    rotations the best s is the top eigenvector of the clouds' mutual pull.
    """
    system = RigidSystem(observations.stacked)
    size = np.sqrt(np.trace(observations.stacked.moments, axis1=1, axis2=2))
    rotations, factors = start, np.ones(len(size))
    iterations, ending = 0, Ending.LIMIT
    for _ in range(SIMILARITY_ROUNDS):
        end = maximise_over_rotations(system.resized(factors), rotations)
        rotations, iterations = end.rotations, iterations + end.iterations
        renewed = _best_factors(system, rotations, size)
        change = np.abs(renewed / factors - 1).max()
        factors = renewed
        if change < SETTLED:
            ending = end.ending
            break
    M = system.map_of(factors[:, None, None] * rotations)
    return to_principal_axes(M, observations.stacked, rotations, iterations, ending, factors), factors


def _best_factors(system: RigidSystem, rotations: Array, size: Array) -> Array:
    pull = system.mutual_pull(rotations) / np.outer(size, size)
    vector = np.linalg.eigh(0.5 * (pull + pull.T))[1][:, -1]
    return vector * np.sign(vector.sum()) / size * np.linalg.norm(size)

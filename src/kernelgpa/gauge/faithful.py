"""The faithful map: as rigidly similar to all clouds as possible, and cheap for the warps.

The bottom eigenvectors of Q alone give a map that collapses if the warps are flexible enough to explain any map.  The
default map therefore minimises the rigid cost together with the cost of the warps,

    min over M, R_t, t_t of   sum_t |W_t^(1/2) (P_t R_t' + 1 t_t' - M_t)|^2 + gamma tr(M' Q M).   (theory, eq. 16)

gamma = 0 gives the rigid map; a large gamma leaves only the bottom of the spectrum.  With rho = tr(M' Q M), rho_0 that
of the rigid map, and landmarks seen by nu of n clouds, gamma is the largest for which the rigid cost rises by at most

    0.2 / nu  +  (1 - rho / rho_0)^2 (1 - nu / n) / (nu - 1)                                      (theory, eq. 16a)

of its minimum.  A landmark is known to 1 / nu of the variance of one cloud; hence a map that differs from the rigid map
by one standard error has a rigid cost higher by 1 / (nu - 1), and the first term allows a little less than 0.2 of that.
If neighbouring landmarks are seen by different clouds, the rigid map is jagged by chance, by 1 - nu / n of that
variance, and no smooth warp follows it.  The second term allows the map to differ by this amount too, to the extent
that the difference lowers the cost of the warps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..observations.stacked import StackedClouds
from ..spectrum.operator import CostOperator
from ..typing import Array
from .initial import Start
from .principal_axes import Gauge, rigid_cost
from .rigid import RigidSystem, solve_rigid
from .rotations import CONVERGED_GRADIENT, RotationOptimum

ALLOWED_SHARE = 0.2  # of the rise of the rigid cost that one standard error of the map makes
SUFFICIENT = 0.7  # fraction of the allowed increase from which on the search for gamma ends
EXACT_RESIDUAL = 1e-10  # rigid residuals below this fraction of the map's size are rounding errors
RESOLUTION_MULTIPLE = 10.0  # likewise those below this multiple of the spacing of the given numbers
FIRST_GAMMA = 5.0  # the first gamma of the search, in units of (total weight) / tr Q
MAX_GAMMA = 1e12  # a larger gamma changes nothing
MAX_TRIALS = 40
MAX_LOG_STEP = np.log(1e3)  # of one step of the search, in log gamma
# with a gamma to be checked, the rigid map serves the rule alone: this gradient gives its cost to 1e-14 of the squared
# size of the clouds, which is 1e-8 of the cost itself if that is at least
RULE_GRADIENT = 1e-7
LEAST_RULE_COST = 1e-6
LEAST_USED = 1e-300  # keeps logarithms finite


@dataclass(frozen=True)
class Faithful:
    """The faithful map, its gamma, and the rise of the rigid cost."""

    gauge: Gauge
    gamma: float
    excess: float  # rigid cost relative to that of the rigid map, minus 1; NaN if gamma was given


class FaithfulOptimum(NamedTuple):
    """The faithful map, and the optimum over the rotations that it comes from."""

    faithful: Faithful
    optimum: RotationOptimum | None


class AllowedIncrease(NamedTuple):
    """The two terms of eq. 16a, the second without its factor (1 - rho / rho_0)^2."""

    own_error: float
    sampling_error: float


def allowed_increase(stacked: StackedClouds) -> AllowedIncrease:
    """The allowed relative increase of the rigid cost.

    nu is the effective number of views (sum w)^2 / sum w^2 of a landmark; hence an observation whose weight tends to 0
    has the same influence as a missing one.
    """
    weights = stacked.weights.sum(axis=1)  # (m,)
    views = weights**2 / np.sum(stacked.weights**2, axis=1)  # (m,), nu
    total, of_map = (
        float(weights.sum()),
        float(np.sum(weights / views)),
    )  # variances in all observations, and in the map
    residual = max(total - of_map, 0.0)  # in the rigid cost: 0 if one cloud outweighs all others at each landmark
    sampling = max(of_map - total / stacked.weights.shape[1], 0.0)  # of the map about that of all clouds
    return AllowedIncrease(ALLOWED_SHARE * of_map / total, sampling / residual if sampling < residual else 1.0)


IncreaseRule = Callable[[StackedClouds], AllowedIncrease]


def faithful_registration(
    stacked: StackedClouds,
    cost: CostOperator,
    start: Start,
    rule: IncreaseRule = allowed_increase,  # for gamma, unless the start fixes it
) -> FaithfulOptimum:
    """The map of eq. 16."""
    system = RigidSystem(stacked)
    if start.gamma is not None and start.gamma_is_fixed:
        penalised = system if start.gamma == 0 else system.penalised(cost, start.gamma)
        gauge, optimum = solve_rigid(penalised, stacked, start.rotations)
        return FaithfulOptimum(Faithful(gauge, start.gamma, np.nan), optimum)
    first = start.gamma or None  # a gamma of 0 is no trial
    gradient = CONVERGED_GRADIENT if first is None else RULE_GRADIENT
    rigid, rigid_optimum = solve_rigid(system, stacked, start.rotations, gradient)
    if first is not None and rigid_cost(rigid, stacked) < LEAST_RULE_COST * float(stacked.squared_sizes.sum()):
        rigid, rigid_optimum = solve_rigid(system, stacked, rigid.rotations)
    search = _GammaSearch(stacked, system, rigid, rigid_optimum, rule(stacked))
    trial = first
    if trial is None and cost.approximation is not None:
        # each trial is a long iteration: the cheaper approximation of the cost provides the first gamma
        trial = search.run(cost.approximation).faithful.gamma or None
    found = search.run(cost, trial)
    if first is not None and found.faithful.gamma == 0:  # the map is the rigid map itself
        gauge, optimum = solve_rigid(system, stacked, rigid.rotations)
        found = FaithfulOptimum(Faithful(gauge, 0.0, 0.0), optimum)
    return found


class _Trial(NamedTuple):
    gamma: float
    used: float  # increase of the rigid cost as a fraction of the allowed one


@dataclass(frozen=True)
class _GammaSearch:
    """The largest gamma whose map stays within the allowed increase of the rigid cost."""

    stacked: StackedClouds
    system: RigidSystem
    rigid: Gauge
    rigid_optimum: RotationOptimum | None
    allowed: AllowedIncrease

    def run(self, cost: CostOperator, first: float | None = None) -> FaithfulOptimum:
        best = FaithfulOptimum(Faithful(self.rigid, 0.0, 0.0), self.rigid_optimum)
        rigid, total = rigid_cost(self.rigid, self.stacked), float(self.stacked.weights.sum())
        if rigid <= total * self._rounding():  # exact copies: there is nothing to balance
            return best
        rho_0 = _warp_cost(cost, self.rigid.map)
        gamma = FIRST_GAMMA * total / cost.trace if first is None else first
        low, high, trials = 0.0, MAX_GAMMA, list[_Trial]()
        for _ in range(MAX_TRIALS):
            gauge, optimum = solve_rigid(self.system.penalised(cost, gamma), self.stacked, self.rigid.rotations)
            excess = rigid_cost(gauge, self.stacked) / rigid - 1
            smoothed = 1 - _warp_cost(cost, gauge.map) / rho_0 if rho_0 > 0 else 0.0
            used = excess / (self.allowed.own_error + max(smoothed, 0.0) ** 2 * self.allowed.sampling_error)
            trials.append(_Trial(gamma, used))
            if used <= 1:
                best, low = FaithfulOptimum(Faithful(gauge, gamma, excess), optimum), gamma
            else:
                high = gamma
            if SUFFICIENT <= used <= 1 or low >= high / 2:
                break
            gamma = _next_gamma(trials, low, high)
        return best

    def _rounding(self) -> float:
        """Mean squared residuals below this are rounding errors."""
        rms_squared = np.sum(self.rigid.scales**2) / len(self.rigid.map)
        return float(EXACT_RESIDUAL**2 * rms_squared + (RESOLUTION_MULTIPLE * self.stacked.resolution) ** 2)


def _warp_cost(cost: CostOperator, M: Array) -> float:
    """rho = tr(M' Q M)"""
    return max(float(np.vdot(M, cost.apply(M))), 0.0)


def _next_gamma(trials: list[_Trial], low: float, high: float) -> float:
    """The next trial, by the power law  used ~ gamma^p,  between the known bounds.

    p is 2 for small gamma and decreases with it; from the third trial on it is estimated from the last two.
    """
    gamma, used = trials[-1]
    p = 2.0
    if len(trials) > 1:
        previous = trials[-2]
        p = float(np.log(max(used, LEAST_USED) / max(previous.used, LEAST_USED)) / np.log(gamma / previous.gamma))
    log_step = np.log(np.sqrt(SUFFICIENT) / max(used, LEAST_USED)) / np.clip(p, 0.3, 2.0)
    proposal = gamma * float(np.exp(np.clip(log_step, -MAX_LOG_STEP, MAX_LOG_STEP)))
    if low < proposal < high:
        return proposal
    return float(np.sqrt(low * high)) if low > 0 else high / 10

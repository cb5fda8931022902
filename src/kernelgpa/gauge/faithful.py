"""A map that stays faithful however flexible the warps are.

The bottom eigenvectors of Q alone give a map that collapses as soon as warps can explain anything.  The
default map therefore answers to both: it is as rigidly like all clouds as it can be, and cheap for the warps,

    min over M, R_t, t_t of   sum_t |W_t^(1/2) (P_t R_t' + 1 t_t' - M_t)|^2 + gamma tr(M' Q M).   (theory, eq. 16)

gamma = 0 is the rigid map; a large gamma leaves only the bottom of the spectrum.  The rule for gamma, with
rho = tr(M' Q M), rho_0 that of the rigid map, and a landmark seen by nu of n clouds: the rigid cost may rise by

    0.2 / nu  +  (1 - rho / rho_0)^2 (1 - nu / n) / (nu - 1).                                     (theory, eq. 16a)

A landmark is known to 1 / nu of the variance of one cloud, so leaving the rigid map by one standard error raises
the rigid cost by 1 / (nu - 1); the first term is a little less than 0.2 of that.  But where neighbours are seen by
different clouds, the rigid map is jagged by chance, by (1 - nu / n) of that variance, and no smooth warp reaches it.
The second term lets the map leave by this too, as far as leaving takes the warps' cost away.
Rotations start from the affine spectrum, which needs no guess.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..observations.stacked import StackedClouds
from ..spectrum.operator import CostOperator
from ..typing import Array
from .principal_axes import Gauge
from .rigid import RigidSystem, registered

ALLOWED_SHARE = 0.2  # of the rise of the rigid cost that one standard error of the map makes
CLOSE = 0.7  # of what is allowed: near enough
EXACT = 1e-10  # of the map's size: rigid residuals below this are rounding
COARSE = 10.0  # times the spacing of the numbers that were given: likewise
FIRST = 5.0  # gamma that is tried first, in units of (total weight) / tr Q
ROUNDS = 40
FARTHEST = np.log(1e3)  # that one guess goes from the last
LARGEST = 1e12  # gamma beyond this changes nothing


@dataclass(frozen=True)
class Faithful:
    """The faithful map and the price of leaving the rigid one."""

    gauge: Gauge
    gamma: float
    excess: float  # rigid cost above that of the rigid map, as a share; NaN where gamma was given


def faithful_registration(
    stacked: StackedClouds,
    cost: CostOperator,
    start: Array,
    gamma: float | None = None,
    warm: bool = False,
) -> Faithful:
    """The map of eq. 16 with the given gamma, or with gamma by the rule; ``warm`` says that the start is near."""
    system = RigidSystem(stacked, few_steps=warm)
    if gamma is None:
        # if every try is a long iteration, the approximation of the operator gives the first guess
        cheaper = cost.approximation
        first = None if cheaper is None else _by_the_rule(stacked, cheaper, system, start).gamma
        return _by_the_rule(stacked, cost, system, start, first or None)
    priced = system if gamma == 0 else system.penalised(cost, gamma)
    return Faithful(registered(priced, stacked, start), gamma, np.nan)


def _by_the_rule(
    stacked: StackedClouds, cost: CostOperator, system: RigidSystem, start: Array, first: float | None = None
) -> Faithful:
    rigid = registered(system, stacked, start)
    total = float(stacked.weights.sum())
    rounding = EXACT**2 * np.sum(rigid.scales**2) / len(rigid.map) + (COARSE * stacked.resolution) ** 2
    if rigid.cost <= total * rounding:  # exact copies leave nothing to weigh
        return Faithful(rigid, 0.0, 0.0)
    own, by_chance = allowed_increase(stacked)
    rough = _warp_cost(cost, rigid.map)
    gamma = FIRST * total / cost.trace if first is None else first
    fewest, most = 0.0, LARGEST
    result, tried = Faithful(rigid, 0.0, 0.0), list[tuple[float, float]]()
    for _ in range(ROUNDS):
        gauge = registered(system.penalised(cost, gamma), stacked, rigid.rotations)
        excess = gauge.cost / rigid.cost - 1
        smoothed = 1 - _warp_cost(cost, gauge.map) / rough if rough > 0 else 0.0
        used = excess / (own + max(smoothed, 0.0) ** 2 * by_chance)
        tried.append((gamma, used))
        if used <= 1:
            result, fewest = Faithful(gauge, gamma, excess), gamma
        else:
            most = gamma
        if CLOSE <= used <= 1 or fewest >= most / 2:
            break
        gamma = _next(tried, fewest, most)
    return result


def allowed_increase(stacked: StackedClouds) -> tuple[float, float]:
    """What the rigid cost may rise by, as a share: for the map's own error, and for who happened to see what.

    nu is the effective number of views, so that a weight that fades is one that is gone.
    """
    total = stacked.weights.sum(axis=1)  # (m,)
    views = total**2 / np.sum(stacked.weights**2, axis=1)  # (m,), nu
    everything, of_maps = float(total.sum()), float(np.sum(total / views))
    held = max(everything - of_maps, 0.0)  # variances in the rigid cost: none where one cloud outweighs all others
    off = max(of_maps - everything / stacked.weights.shape[1], 0.0)  # those by which its map is off that of all clouds
    return ALLOWED_SHARE * of_maps / everything, off / held if off < held else 1.0


def _warp_cost(cost: CostOperator, places: Array) -> float:
    return max(float(np.vdot(places, cost.apply(places))), 0.0)


def _next(tried: list[tuple[float, float]], fewest: float, most: float) -> float:
    """A guess by the law  used ~ gamma^p,  kept inside what is known.

    p is 2 at first and falls as the map settles; from the second on it is that of the last two tried.
    """
    gamma, used = tried[-1]
    p = 2.0
    if len(tried) > 1:
        before, less = tried[-2]
        p = float(np.log(max(used, 1e-300) / max(less, 1e-300)) / np.log(gamma / before))
    steps = np.log(np.sqrt(CLOSE) / max(used, 1e-300)) / np.clip(p, 0.3, 2.0)
    guess = gamma * float(np.exp(np.clip(steps, -FARTHEST, FARTHEST)))
    if fewest < guess < most:
        return guess
    return float(np.sqrt(fewest * most)) if fewest > 0 else most / 10

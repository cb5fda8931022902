"""A map that stays faithful however flexible the warps are.

The bottom eigenvectors of Q alone give a map that collapses as soon as warps can explain anything.  The
default map therefore answers to both: it is as rigidly like all clouds as it can be, and cheap for the warps,

    min over M, R_t, t_t of   sum_t |W_t^(1/2) (P_t R_t' + 1 t_t' - M_t)|^2 + gamma tr(M' Q M).   (theory, eq. 16)

gamma = 0 is the rigid map; a large gamma leaves only the bottom of the spectrum.  The rule for gamma: the
map may leave the rigid one by about half of the rigid one's own standard error.  A landmark seen by
nu clouds is known to 1 / nu of the variance of one, so leaving by one standard error raises the rigid cost
by the share 1 / (nu - 1); the leeway is 0.2 / nu, a little less than 0.2 of that.  Rotations start from the
affine spectrum, which needs no guess.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .forms import Form, ThinForm
from .frames import Array
from .gauge import Gauge
from .rigid import RigidSystem, registered
from .together import Together

LEEWAY = 0.2  # of the rise of the rigid cost that one standard error of the map makes
CLOSE = 0.7  # of the leeway: near enough
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
    together: Together,
    form: Form,
    start: Array,
    gamma: float | None = None,
    warm: bool = False,
) -> Faithful:
    """The map of eq. 16 with the given gamma, or with gamma by the rule; ``warm`` says that the start is near."""
    system = RigidSystem(together, few_steps=warm)
    stand_in = form.stand_in if isinstance(form, ThinForm) else None
    if gamma is None:
        # where every try is a long iteration, the form that stands in says where to begin
        first = None if stand_in is None else _by_the_rule(together, stand_in, system, start).gamma
        return _by_the_rule(together, form, system, start, first or None)
    priced = system if gamma == 0 else system.penalised(form, gamma)
    return Faithful(registered(priced, together, start), gamma, np.nan)


def _by_the_rule(
    together: Together, form: Form, system: RigidSystem, start: Array, first: float | None = None
) -> Faithful:
    rigid = registered(system, together, start)
    seen, total = int(np.count_nonzero(together.weights)), float(together.weights.sum())
    if rigid.cost <= 1e-20 * total / seen * np.sum(rigid.scales**2):  # exact copies leave nothing to weigh
        return Faithful(rigid, 0.0, 0.0)
    allowed = LEEWAY * len(together.weights) / seen
    gamma = FIRST * total / form.total if first is None else first
    fewest, most = 0.0, LARGEST
    result, tried = Faithful(rigid, 0.0, 0.0), list[tuple[float, float]]()
    for _ in range(ROUNDS):
        gauge = registered(system.penalised(form, gamma), together, rigid.rotations)
        excess = gauge.cost / rigid.cost - 1
        tried.append((gamma, excess))
        if excess <= allowed:
            result, fewest = Faithful(gauge, gamma, excess), gamma
        else:
            most = gamma
        if CLOSE * allowed <= excess <= allowed or fewest >= most / 2:
            break
        gamma = _next(tried, np.sqrt(CLOSE) * allowed, fewest, most)
    return result


def _next(tried: list[tuple[float, float]], wanted: float, fewest: float, most: float) -> float:
    """A guess by the law  excess ~ gamma^p,  kept inside what is known.

    p is 2 at first and falls as the map settles; from the second on it is that of the last two tried.
    """
    gamma, excess = tried[-1]
    p = 2.0
    if len(tried) > 1:
        before, less = tried[-2]
        p = float(np.log(max(excess, 1e-300) / max(less, 1e-300)) / np.log(gamma / before))
    steps = np.log(wanted / max(excess, 1e-300)) / np.clip(p, 0.3, 2.0)
    guess = gamma * float(np.exp(np.clip(steps, -FARTHEST, FARTHEST)))
    if fewest < guess < most:
        return guess
    return float(np.sqrt(fewest * most)) if fewest > 0 else most / 10

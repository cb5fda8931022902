"""Settings that a fit chooses by itself: bandwidth, smoothing, and whether a robust loss is needed.

Each cloud is regressed on a map M that is held fixed (theory, eq. 21).  Its leave-one-out residuals are errors in the
frame of the cloud, in the unit of the data, and no setting can lower them by changing the map.  This direction is also
the right one for noise: the map is a mean over many clouds, so that the noise is in the targets of the regression.  The
opposite regression, of the map on a noisy cloud, would reward warps that contract.

    1. The settings with the smallest error (eq. 20) against the map of rigid registration.
    2. Fit.  Choose again against the map found, and fit again, as long as that lowers the error.
    3. If the residuals have heavy tails, the same with a robust loss, which is kept if it lowers by more than 20 %

           mean_tj sqrt(r_tj)                                                                  (theory, eq. 22a)

       A fit of some clouds and landmarks comes first: if it gains less than half of that, no other one is made.

Wrong matches distort the rigid map so much that settings chosen against it are useless: too stiff, or so flexible that
each landmark moves on its own.  A robust fit starts from the middle of the grid instead.

The mean of the square roots is a compromise: the mean of the lengths is dominated by the wrong matches, which no loss
can correct, and their median is smallest for a loss that rejects whatever deforms.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._numerics.threads import limit_threads
from ..errors import KernelGPAError, collected_warnings, silenced_warnings, warn
from ..gauge.rigid import rigid_registration
from ..typing import Array
from ..warps import Family
from ..warps.automatic import OBSERVATIONS, LeaveOneOutError, Search, choose, evenly_spaced, rounded, sample
from .prediction.backward import backward_targets
from .prediction.left_out import DeformableFolds
from .problem import Problem, problem_of
from .registration import Registration
from .settings import is_automatic

if TYPE_CHECKING:
    from .base import SolvedProblem
    from .deformable import DeformableGPA

# the values were chosen on ten real sets and three simulated ones with 0 to 30 % of the matches exchanged
LOSS = "tukey"  # better than the other losses on four of five real sets with exchanged matches
TAIL_QUANTILE = 0.99
HEAVY_TAIL = 3.5  # in medians: all sets with exchanged matches exceed it; noise alone gives 2.2 in 3D and 2.6 in 2D
LEAST_GAIN = 0.2  # of a robust loss, as a share: exchanged matches give 0.24 to 0.65, articulated motion up to 0.17
PROMISING_GAIN = 0.1  # of the trial on a sample: exchanged matches gave 0.21 or more, clean sets up to 0.18
TRIAL_CLOUDS, TRIAL_LANDMARKS = 20, 100  # on which a robust loss is tried first
REFIT_GAIN = 0.02  # relative decrease of the error for which a second fit is made
FEWER_OBSERVATIONS = 400  # of a sample, if settings are known near which the best ones lie
MOST_FITS = 8  # with the same loss; two are enough unless the clouds have no noise


@dataclass(frozen=True)
class AutomaticChoice:
    """The settings that a fit chose, and why.

    Attributes
    ----------
    settings : dict
        The values chosen for the settings that were "auto".
    error : float
        Mean leave-one-out error in the frames of the clouds, on a sample of observations.  Each counts by its weight,
        and as at most 20 medians.
    tail : float
        The 99 % quantile of the standardised residuals against the rigid map, in units of their median; noise alone
        gives about 2.2 in 3D and 2.6 in 2D.
    gain : float
        By how much a robust loss lowers the mean of the square roots of the residuals, as a share; NaN if none was
        tried.  If it is below 0.1, it may be that of a trial with some of the clouds and landmarks.
    """

    settings: Mapping[str, Any]
    error: float
    tail: float
    gain: float

    def numbers(self) -> dict[str, float]:
        """The figures on which the choice rests."""
        return {"error": self.error, "tail": self.tail, "gain": self.gain}

    def __str__(self) -> str:
        numbers = [f"{name} {value:g}" for name, value in self.settings.items() if name != "robust"]
        text = f"{' and '.join(numbers)} {'was' if len(numbers) == 1 else 'were'} chosen" if numbers else ""
        text += f" (mean leave-one-out error {self.error:.3g} in the unit of the data)." if numbers else ""
        return f"{text} {self._about_robust()}".strip() if "robust" in self.settings else text

    def _about_robust(self) -> str:
        if not self.tail > HEAVY_TAIL:
            return "No robust loss was used: the residuals have no heavy tail."
        tail = f"1 % of the standardised residuals exceed {self.tail:.2g} medians"
        lowers = f"lowers the mean of the square roots of the residuals by {100 * max(self.gain, 0.0):.0f} %"
        if self.settings["robust"] is None:
            return f"No robust loss was used: {tail}, but {LOSS!r} {lowers} only."
        return f"The robust loss {self.settings['robust']!r} was used: {tail}, and it {lowers}."


def fit_automatically(estimator: DeformableGPA, problem: Problem) -> SolvedProblem[DeformableFolds]:
    """Choose the settings that are "auto", and fit with them; the warnings are those of the fit that is kept."""
    with limit_threads(1):  # the clouds of a sample are small
        error = _error_against_rigid_map(estimator, problem)
        first = choose(error)
        tail = _tail(error, first)
    chooses_loss = is_automatic(estimator.robust)
    given = None if chooses_loss else estimator.robust
    best, score = _fit_repeatedly(estimator, problem, first if given is None else _middle(error.search), given)
    gain = np.nan
    if chooses_loss and tail > HEAVY_TAIL:
        gain = _trial_gain(estimator, problem, score.settings, _middle(error.search))
    if gain > PROMISING_GAIN:
        family, plain = best.registration.family, score
        del best  # its matrices make room for the next
        best, score = _fit_repeatedly(estimator, problem, _middle(error.search), LOSS)
        gain = 1 - score.typical_error / plain.typical_error
        if not gain > LEAST_GAIN:
            del best
            best, score = _fit(estimator, problem, plain.settings, None, family), plain
    for message in best.registration.warnings:
        warn(message)
    settings = {name: best.registration.settings[name] for name in automatic_settings(estimator)}
    choice = AutomaticChoice(settings, score.error, tail, gain)
    return best._replace(registration=replace(best.registration, choice=choice))


def automatic_settings(estimator: DeformableGPA) -> list[str]:
    """The names of the settings that are "auto" and that a fit chooses."""
    given = estimator.get_params(deep=False)
    return [name for name in ("bandwidth", "smoothing", "robust") if is_automatic(given.get(name))]


def with_first_choice(
    estimator: DeformableGPA,
    problem: Problem,
    near: DeformableGPA | None = None,  # numbers near which the best ones lie: a small sample and no coarse grid
) -> DeformableGPA:
    """The estimator with settings chosen against the rigid map alone, and no automatic robust loss."""
    if not automatic_settings(estimator):
        return estimator
    loss = None if is_automatic(estimator.robust) else estimator.robust
    if near is None:
        return estimator._with_settings(choose(_error_against_rigid_map(estimator, problem)), loss)
    error = _error_against_rigid_map(estimator, problem, FEWER_OBSERVATIONS)
    return estimator._with_settings(choose(error, near._searched_settings(len(error.search.grid))), loss)


class _Score(NamedTuple):
    """The errors of a fit on a sample, with the settings that it used."""

    settings: tuple[float, ...]
    error: float  # eq. 20
    typical_error: float  # eq. 22a


def _middle(search: Search) -> tuple[float, ...]:
    """The geometric mean of the values of each setting in the coarse grid, with few significant digits."""
    means = [float(np.exp(np.mean(np.log(values)))) for values in search.grid]
    free = [i for i, values in enumerate(search.grid) if len(values) > 1]
    return rounded(tuple(values[0] for values in search.grid), means, free)


def _trial_gain(
    estimator: DeformableGPA, problem: Problem, settings: tuple[float, ...], robust_settings: tuple[float, ...]
) -> float:
    """The gain of one robust fit over one without a loss on some clouds and landmarks; infinite if they have no fit."""
    try:
        some = _some_of(estimator, problem)
        plain, robust = _fit(estimator, some, settings, None), _fit(estimator, some, robust_settings, LOSS)
        with limit_threads(1):
            error = _error_against(estimator, robust.registration)
            of_robust = _typical_error(error, choose(error, settings))
            of_plain = _typical_error(_error_against(estimator, plain.registration), settings)
            return 1 - of_robust / of_plain if of_plain > 0 else 0.0
    except KernelGPAError:  # they share too few landmarks, or are too few for a setting
        return np.inf


def _some_of(estimator: DeformableGPA, problem: Problem) -> Problem:
    """The problem of clouds of all sizes, and of landmarks at all distances from the centre of the map."""
    if np.ndim(estimator.get_params(deep=False).get("smoothing", 0.0)) > 0:  # one smoothing for each cloud
        return problem
    observations, stacked = problem.participants, problem.participants.stacked
    clouds = evenly_spaced(np.argsort(np.trace(stacked.moments, axis1=1, axis2=2), kind="stable"), TRIAL_CLOUDS)
    distances = np.linalg.norm(problem.initial.gauge.map, axis=1)
    landmarks = evenly_spaced(np.argsort(distances, kind="stable"), TRIAL_LANDMARKS)
    return problem_of(observations.at(np.sort(clouds)).select(np.sort(landmarks)), np.arange(len(clouds)))


def _typical_error(error: LeaveOneOutError, settings: tuple[float, ...]) -> float:
    """Eq. 22a."""
    lengths = error.residuals(settings)
    known = lengths[np.isfinite(lengths)]
    return float(np.mean(np.sqrt(known))) if len(known) else np.inf


def _fit_repeatedly(
    estimator: DeformableGPA, problem: Problem, settings: tuple[float, ...], loss: str | None
) -> tuple[SolvedProblem[DeformableFolds], _Score]:
    """Fit with the settings, then with those chosen against the map found, as long as these are better."""
    fit = _fit(estimator, problem, settings, loss)
    for number in range(MOST_FITS):
        with limit_threads(1):
            error = _error_against(estimator, fit.registration)
            again = choose(error, settings if loss is None or number else None)
            better = error(again) < (1 - REFIT_GAIN) * error(settings)
        if not better or number == MOST_FITS - 1:
            break
        settings, family = again, fit.registration.family
        del fit  # its matrices make room for the next
        fit = _fit(estimator, problem, settings, loss, family)
    with limit_threads(1):
        return fit, _Score(settings, error(settings), _typical_error(error, settings))


def _fit(
    estimator: DeformableGPA,
    problem: Problem,
    settings: tuple[float, ...],
    loss: str | None,
    like: Family | None = None,  # a family whose fit to the same clouds was within the memory
) -> SolvedProblem[DeformableFolds]:
    """Fit with numbers for all settings; its warnings concern the user only if this fit is the one kept."""
    resolved = estimator._with_settings(settings, loss)
    with silenced_warnings(), collected_warnings() as messages:
        solved = resolved._register(problem, resolved._prepare_clouds(problem, like))
    return solved._replace(registration=replace(solved.registration, warnings=tuple(messages)))


def _error_against_rigid_map(
    estimator: DeformableGPA, problem: Problem, observations: int = OBSERVATIONS
) -> LeaveOneOutError:
    rigid = rigid_registration(problem.participants, problem.initial.gauge.rotations).gauge.map
    positions, weights = np.full((problem.shape[1], rigid.shape[1]), np.nan), np.zeros(problem.shape)
    positions[problem.landmarks] = rigid
    weights[:, problem.landmarks] = problem.restricted.weights
    return _error(estimator, problem, positions, weights, observations)


def _error_against(estimator: DeformableGPA, registration: Registration) -> LeaveOneOutError:
    return _error(estimator, registration.problem, registration.map, registration.statistics.weights)


def _error(
    estimator: DeformableGPA, problem: Problem, positions: Array, weights: Array, observations: int = OBSERVATIONS
) -> LeaveOneOutError:
    targets = backward_targets(problem, positions, weights)
    participating = [targets[t] for t in problem.participating]
    return LeaveOneOutError(estimator._search(positions[problem.landmarks]), sample(participating, observations))


def _tail(error: LeaveOneOutError, settings: tuple[float, ...]) -> float:
    """The upper quantile of the standardised residuals in medians; NaN if there are none."""
    lengths = error.standardised_residuals(settings) if np.isfinite(error(settings)) else np.zeros(0)
    known = lengths[np.isfinite(lengths)]
    median = float(np.median(known)) if len(known) else 0.0
    return float(np.quantile(known, TAIL_QUANTILE)) / median if median > error.rounding else np.nan

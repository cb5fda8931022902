"""Choose settings: cross-validation of one estimator, and a search for the settings with the least held-out error.

The error is the sensor-frame error of landmarks left out (cross_validation.py), because a shrinking or folding map does
not decrease it.  Its mean without the longest tenth is the score.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .._numerics.progress import with_progress
from .._numerics.threads import one_blas_thread, require_jobs
from ..errors import InvalidSetting
from ..estimators.base import GPA
from ..estimators.problem.screening import screen
from ..estimators.settings import whole_number
from ..observations.collection import as_observations
from .cross_validation import CrossValidation, cross_validate
from .folds import Folds, landmark_folds
from .grid import (
    DEFAULT_GRID,
    GridSearch,
    Settings,
    Values,
    combinations,
    is_number,
    refinements,
    searches_of,
    stiff_searches,
)
from .trials import Candidate, Scoring, Trial, run_trials

__all__ = ["DEFAULT_GRID", "CrossValidation", "Folds", "Trial", "Tuning", "cross_validate", "tune"]

EQUAL_SCORES = 1e-9  # relative difference below which two scores are equal
SCORE_ROUNDING = 1e-10  # share of the median size of the clouds below which a score is rounding error

Progress = Callable[[int, int, Trial], None]


@dataclass(frozen=True)
class Tuning:
    """The best estimator and every setting that was tried.

    Attributes
    ----------
    best : estimator
        The estimator with the best settings, fitted to all landmarks.
    trials : list of Trial
        All settings in the order in which they were tried.
    rounding : float
        Scores below this number are rounding errors, and therefore equal.
    best_trial : Trial
        The first of the trials whose scores equal the best one.
    settings : dict
        Its settings.
    failures : int
        How many settings could not be computed.
    at_edge : list of str
        Names of numbers whose best value is the smallest or largest tried, so that a better one may lie beyond.
    """

    best: GPA
    trials: list[Trial] = field(repr=False)
    rounding: float = 0.0

    @property
    def best_trial(self) -> Trial:
        return self.trials[_best(self.trials, self.rounding)]

    @property
    def settings(self) -> Settings:
        return self.best_trial.settings

    @property
    def failures(self) -> int:
        return sum(bool(trial.failure) for trial in self.trials)

    @property
    def at_edge(self) -> list[str]:
        tried = [trial.settings for trial in self.trials if trial.model == self.best_trial.model]
        edges = []
        for name, value in self.settings.items():
            values = {settings[name] for settings in tried if name in settings and is_number(settings[name])}
            if is_number(value) and len(values) > 1 and value in (min(values), max(values)):
                edges.append(name)
        return edges


def tune(
    points: Any,
    estimator: GPA | None = None,
    grid: Values | Sequence[tuple[GPA, Values]] | None = None,
    folds: Folds = 10,
    rounds: int = 2,
    weights: Any = None,
    n_jobs: int | None = None,
    progress: Progress | None = None,
    stiff: bool | None = None,
) -> Tuning:
    """Return the settings with the least sensor-frame error of landmarks left out.

    Every combination of the grid is tried.  Then, ``rounds`` times, positive numbers are tried halfway between the best
    value and its neighbours on a logarithmic scale.

    Parameters
    ----------
    points : array_like of shape (n, m, d), list of (points, ids), or Observations
        The clouds, as for ``fit``.
    estimator : estimator, optional
        The estimator whose settings are tuned; by default ``KernelGPA(robust=None)``.
    grid : dict or list of (estimator, dict), optional
        The values to try for each setting of ``estimator``, or pairs that search several families of warps.  By default
        those entries of ``DEFAULT_GRID`` that are settings of the estimator.
    folds : int, "leave-one-out", "regions" or list of lists of landmarks
        Landmarks that are left out in turn, as for :func:`cross_validate`.
    rounds : int
        Number of refinements; 0 tries the grid alone.
    weights : array_like of shape (m,) or (n, m), optional
        Weights of the landmarks or observations, as for ``fit``.
    n_jobs : int, optional
        Number of processes that try settings at the same time; by default one.
    progress : callable, optional
        Called after each trial with the number of settings tried, the number known so far, and the trial.
    stiff : bool, optional
        Whether rigid motions (also with a size for each cloud, if sizes differ) and affine warps are tried too, so that
        flexible warps win only if they predict better.  By default they are tried if neither an estimator nor a grid is
        given.

    Returns
    -------
    Tuning

    Notes
    -----
    Settings are compared by the mean of the errors without the longest tenth.  A few folded predictions make the root
    mean square arbitrary: on seven real sets and a simulated one, settings with the least root mean square had 1.6
    times the smallest root mean square at landmarks not used, those with the least trimmed mean 1.25 times
    (docs/trust.md).

    If any robust fit is tried, settings are compared by the root mean square.  All trials then weight the residuals by
    the weights given, and residuals count at most as three times the median distance of the clouds from the map after
    rigid motions.

    Examples
    --------
    >>> from kernelgpa import selection, simulate
    >>> scene = simulate.liver(clouds=5, landmarks=40, vertices=202)
    >>> grid = {"bandwidth": (0.25, 1.0), "smoothing": (0.01, 0.1)}
    >>> tuning = selection.tune(scene.points, grid=grid, folds=4, rounds=0)
    >>> len(tuning.trials), sorted(tuning.settings)
    (4, ['bandwidth', 'smoothing'])
    """
    require_jobs(n_jobs)
    whole_number("rounds", rounds, least=0)
    if progress is not None and not callable(progress):
        raise InvalidSetting(f"progress is {progress!r}; expected a function of (tried, known so far, last trial)")
    searches = searches_of(estimator, grid)
    observations = as_observations(points, weights)
    with one_blas_thread():
        mirrored = searches[0].base.mirrored
        if stiff or (stiff is None and estimator is None and grid is None):
            searches += stiff_searches(observations, mirrored)
        problem = screen(observations, any(search.base._sizes_differ for search in searches), mirrored)
        robust = any(search.tries_robust_fits for search in searches)
        scoring = Scoring(problem, landmark_folds(folds, problem), robust)
        return search_settings(searches, scoring, int(rounds), n_jobs, progress)


def search_settings(
    searches: Sequence[GridSearch],
    scoring: Scoring,
    rounds: int,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> Tuning:
    """Try all settings of the searches, refine the best ones, and fit the best."""
    rounding = SCORE_ROUNDING * float(np.median([cloud.frame.size for cloud in scoring.problem.participants.clouds]))
    tried: list[Candidate] = []
    trials: list[Trial] = []
    candidates = [Candidate(base, settings) for base, values in searches for settings in combinations(values)]
    for number in range(rounds + 1):
        if number:
            base, settings = tried[_best(trials, rounding, refinable=True)]
            same_base = [one.settings for one in tried if one.base is base]
            candidates = [Candidate(base, finer) for finer in refinements(settings, same_base)]
        total = len(trials) + len(candidates)
        running = run_trials(candidates, scoring, n_jobs)
        for candidate, trial in with_progress(running, f"settings, round {number}", len(candidates)):
            tried.append(candidate)
            trials.append(trial)
            if progress is not None:
                progress(len(trials), total, trial)
    best = _best(trials, rounding)
    _require_finite(trials[best], trials)
    fitted = tried[best].estimator()
    fitted._store(fitted._fit_problem(scoring.problem).registration)
    return Tuning(fitted, trials, rounding)


def _best(trials: Sequence[Trial], rounding: float, refinable: bool = False) -> int:
    """Return the index of the first trial whose score equals the best one; ``refinable``: of those with numbers."""
    scores = np.array([trial.score for trial in trials])
    numbers = np.array([any(map(is_number, trial.settings.values())) for trial in trials])
    if refinable and numbers.any():
        scores[~numbers] = np.inf
    return int(np.argmax(scores <= max(rounding, (1 + EQUAL_SCORES) * scores.min())))


def _require_finite(best: Trial, trials: Sequence[Trial]) -> None:
    if np.isfinite(best.score):
        return
    reason = next((trial.failure for trial in trials if trial.failure), "the warps flatten space")
    raise InvalidSetting(f"no setting of the grid has a finite score; the first failure was: {reason}")

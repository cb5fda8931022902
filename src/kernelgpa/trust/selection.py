"""Tuning: the settings with the least held-out error, coarse to fine.

What is scored is the sensor-frame error of landmarks left out (validation.py); what settings have in common is
computed once.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, product
from numbers import Integral, Real
from pickle import PicklingError
from typing import Any

import numpy as np
from joblib import Parallel, cpu_count, delayed, effective_n_jobs
from joblib.externals.loky.process_executor import TerminatedWorkerError
from sklearn.base import clone

from .._numerics.progress import with_progress
from .._numerics.threads import limit_threads, one_blas_thread, require_jobs, worker_count
from ..errors import InvalidSetting, KernelGPAError, KernelGPAWarning, NumericalFailure, TooLarge
from ..estimators.base import GPA, PreparedClouds
from ..estimators.models import KernelGPA
from ..estimators.screening import Problem, screen
from ..observations.collection import as_observations
from ..typing import Array, IndexArray
from .cross_validation import CrossValidation, Folds, cross_validate, require_estimator, tested_folds, validated

__all__ = ["CrossValidation", "Folds", "Trial", "Tuning", "cross_validate", "tune"]

TIE = 1e-9  # scores that differ by less, as a share, are the same
EXACT = 1e-10  # of a cloud's size: an error below this is rounding
FAR = 3.0  # times the median distance of the clouds from the map after rigid motions: longer residuals count alike


@dataclass(frozen=True)
class Trial:
    """One setting and its scores; a setting that cannot be computed scores infinity and says why."""

    model: str  # the estimator's name
    settings: dict[str, Any]
    sensor_rms: float  # the score; where robust fits are tried, no residual counts as longer than a common limit
    consistency: float
    cve: float
    seconds: float
    failure: str = ""


@dataclass(frozen=True)
class Tuning:
    """The best estimator, fitted to everything, and every setting that was tried."""

    best: GPA
    trials: list[Trial] = field(repr=False)
    rounding: float = 0.0  # scores below this cannot be told apart

    @property
    def best_trial(self) -> Trial:
        return self.trials[_best(self.trials, self.rounding)]

    @property
    def settings(self) -> dict[str, Any]:
        return self.best_trial.settings

    @property
    def at_edge(self) -> list[str]:
        """Numbers whose best value is the smallest or largest that was tried: the best may lie beyond."""
        mine = [trial.settings for trial in self.trials if trial.model == self.best_trial.model]
        edges = []
        for name, value in self.settings.items():
            tried = {settings[name] for settings in mine if name in settings and _is_number(settings[name])}
            if _is_number(value) and len(tried) > 1 and value in (min(tried), max(tried)):
                edges.append(name)
        return edges


DEFAULT_GRID: dict[str, Sequence[Any]] = {
    "bandwidth": (0.1, 0.25, 0.5, 1.0, 1.5),
    "smoothing": (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0),
}

Search = tuple[GPA, Mapping[str, Sequence[Any]]]


def tune(
    points: Any,
    estimator: GPA | None = None,
    grid: Mapping[str, Sequence[Any]] | Sequence[Search] | None = None,
    folds: Folds = 10,
    rounds: int = 2,
    weights: Any = None,
    n_jobs: int | None = None,
    progress: Callable[[int, int, Trial], None] | None = None,
) -> Tuning:
    """The settings with the least held-out sensor-frame error, coarse to fine.

    Where robust fits are tried, every observation counts by the weight that it was given, and none by more than a limit
    that is the same for all settings.  By the weights of the fits stiff warps would win: they set aside what truly
    deforms, and agree about the rest.

    What settings have in common is computed once: the scene for all, the kernel matrices or features of the
    clouds for all values of ``smoothing``.

    grid : values for each setting of ``estimator`` (KernelGPA() by default), or a list of (estimator, values)
        pairs to search several families of warps at once.  Every combination is tried; then, ``rounds`` times,
        positive numbers are tried halfway (on a logarithmic scale) between the best and its neighbours.
    n_jobs : processes that try settings side by side (joblib); None: one.  A terminal shows a bar.
    progress : called with the number of settings tried, the number known to come, and the last trial.
    """
    require_jobs(n_jobs)
    if not isinstance(rounds, Integral) or rounds < 0:
        raise InvalidSetting(f"rounds is {rounds!r}; expected a whole number, 0 for the grid alone")
    if progress is not None and not callable(progress):
        raise InvalidSetting(f"progress is {progress!r}; expected a function of (done, known to come, last trial)")
    searches = _searches(estimator, grid)
    observations = as_observations(points, weights)
    with one_blas_thread():
        problem = screen(observations, any(base.sizes_differ for base, _ in searches))
        tested = tested_folds(folds, problem)
        rounding = EXACT * float(np.median([cloud.frame.size for cloud in problem.core.clouds]))
        limit = _far(problem) if any(_robust(*search) for search in searches) else None
        trials: list[tuple[GPA, Trial]] = []
        waiting = [(base, settings) for base, values in searches for settings in _combinations(values)]
        for round_ in range(int(rounds) + 1):
            if round_:
                base, best = trials[_best([trial for _, trial in trials], rounding)]
                tried = [trial.settings for other, trial in trials if other is base]
                waiting = [(base, settings) for settings in _between(base, best.settings, tried)]
            total = len(trials) + len(waiting)
            for base, trial in with_progress(
                _trials(waiting, problem, tested, limit, n_jobs), f"settings, round {round_}", len(waiting)
            ):
                trials.append((base, trial))
                if progress is not None:
                    progress(len(trials), total, trial)
        base, best = trials[_best([trial for _, trial in trials], rounding)]
        if not np.isfinite(best.sensor_rms):
            raise InvalidSetting(
                "no setting of the grid has a finite score; "
                + next((f"the first said: {t.failure}" for _, t in trials if t.failure), "the warps flatten space")
            )
        fitted = clone(base).set_params(**best.settings)
        fitted.fit_problem(problem)
    return Tuning(fitted, [trial for _, trial in trials], rounding)


def _best(trials: Sequence[Trial], rounding: float) -> int:
    """The first of the trials whose score cannot be told from the best."""
    scores = np.array([trial.sensor_rms for trial in trials])
    return int(np.argmax(scores <= max(rounding, (1 + TIE) * scores.min())))


def _robust(base: GPA, values: Mapping[str, Sequence[Any]]) -> bool:
    return any(one is not None for one in values.get("robust", [base.get_params().get("robust")]))


def _far(problem: Problem) -> float:
    """A residual that is as bad as any: a few times what deformation leaves of the rigid registration."""
    start, places = problem.initial.gauge, problem.core
    apart = [
        np.linalg.norm(cloud.points @ rotation.T + shift - start.map[cloud.seen], axis=1)
        for cloud, rotation, shift in zip(places.clouds, start.rotations, start.translations, strict=True)
    ]
    return FAR * float(np.median(np.concatenate(apart)))


def _given(problem: Problem) -> Array:  # (n, m)
    """The weights of the observations as they were given; 0 where a cloud or landmark takes no part."""
    given = np.zeros((len(problem.observations.clouds), len(problem.observations.landmarks)))
    given[np.ix_(problem.part, problem.landmarks)] = problem.core.weights
    return given


def _searches(estimator: GPA | None, grid: Any) -> list[Search]:
    if grid is None or isinstance(grid, Mapping):
        base = KernelGPA() if estimator is None else estimator
        require_estimator(base)
        if grid is None:
            grid = {name: values for name, values in DEFAULT_GRID.items() if name in base.get_params()}
        pairs = [(base, grid)]
    else:
        try:
            pairs = [(one, dict(values)) for one, values in grid]
        except (TypeError, ValueError):
            raise InvalidSetting(
                f"grid is {grid!r}; expected values for each setting, or a list of (estimator, values) pairs"
            ) from None
    if not pairs:
        raise InvalidSetting("grid is empty; give at least one (estimator, values) pair")
    return [_checked_search(base, values) for base, values in pairs]


def _checked_search(base: Any, grid: Mapping[str, Any]) -> Search:
    require_estimator(base)
    known = base.get_params()
    unknown = sorted(set(grid) - set(known), key=str)
    if unknown:
        raise InvalidSetting(f"grid names {unknown}; {type(base).__name__} has {', '.join(known)}")
    lists: dict[str, list[Any]] = {}
    for name, values in grid.items():
        lists[name] = list(values) if isinstance(values, Iterable) and not isinstance(values, str) else []
        if not lists[name]:
            raise InvalidSetting(f"grid: {name} is {values!r}; expected a list of values to try")
    search = clone(base), lists
    for settings in _combinations(search[1]):
        clone(base).set_params(**settings).check_settings()
    return search


def _combinations(grid: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]


def _between(base: GPA, best: dict[str, Any], tried: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Settings halfway between the best and its neighbours, for positive numbers that need not be whole."""
    options: dict[str, list[Any]] = {}
    for name, value in best.items():
        options[name] = [value]
        if isinstance(base.get_params()[name], float) and _is_number(value):
            others = sorted({s[name] for s in tried if all(s[k] == best[k] for k in best if k != name)})
            at = others.index(value)
            options[name] += [float(np.sqrt(value * others[i])) for i in (at - 1, at + 1) if 0 <= i < len(others)]
    return [settings for settings in _combinations(options) if settings not in tried]


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _trials(
    waiting: Sequence[tuple[GPA, dict[str, Any]]],
    problem: Problem,
    folds: Sequence[IndexArray],
    limit: float | None,
    n_jobs: int | None,
) -> Iterator[tuple[GPA, Trial]]:
    """Every setting tried; those that differ in smoothing alone go together and share what their clouds compute."""
    groups = [list(group) for _, group in groupby(waiting, key=lambda pair: (id(pair[0]), _but_smoothing(pair[1])))]
    processes = int(effective_n_jobs(worker_count(n_jobs, len(groups))))
    threads = max(1, int(cpu_count()) // processes)  # the other processes use the other cores
    tasks = (
        delayed(_group)(group[0][0], [settings for _, settings in group], problem, folds, limit, threads)
        for group in groups
    )
    try:
        done = Parallel(n_jobs=worker_count(n_jobs, len(groups)), return_as="generator")(tasks)
        for group, trials in zip(groups, done, strict=True):
            for (base, _), trial in zip(group, trials, strict=True):
                yield base, trial
    except PicklingError as error:
        raise InvalidSetting(
            "an estimator or a setting cannot be sent to other processes; use n_jobs=None, or a kernel that can be "
            "pickled, such as a function of a module"
        ) from error
    except TerminatedWorkerError as error:
        raise TooLarge(
            "a process that tried settings was killed, usually for want of memory; use fewer n_jobs"
        ) from error


def _but_smoothing(settings: dict[str, Any]) -> list[tuple[str, Any]]:
    return [(name, value) for name, value in settings.items() if name != "smoothing"]


def _group(
    base: GPA,
    several: list[dict[str, Any]],
    problem: Problem,
    folds: Sequence[IndexArray],
    limit: float | None,
    threads: int,
) -> list[Trial]:
    """Settings that differ in smoothing alone."""
    with one_blas_thread(), limit_threads(threads):
        try:
            prepared = clone(base).set_params(**several[0]).prepare(problem)
        except KernelGPAError as error:  # one setting that cannot be computed does not end the search
            return [_failed(base, settings, error, 0.0) for settings in several]
        return [_trial(base, settings, problem, prepared, folds, limit) for settings in several]


def _trial(
    base: GPA,
    settings: dict[str, Any],
    problem: Problem,
    prepared: PreparedClouds | None,
    folds: Sequence[IndexArray],
    limit: float | None,
) -> Trial:
    begun = time.perf_counter()
    try:
        with warnings.catch_warnings():  # the one that wins says it again
            warnings.simplefilter("ignore", KernelGPAWarning)
            result = validated(clone(base).set_params(**settings), problem, prepared, folds, None)
    except KernelGPAError as error:
        return _failed(base, settings, error, time.perf_counter() - begun)
    rms = result.sensor_rms if limit is None else result.rms_of(_given(problem), limit)
    if np.isnan(rms):  # which would win every comparison
        lost = NumericalFailure("the warps flatten space or leave double precision")
        return _failed(base, settings, lost, time.perf_counter() - begun)
    disagreement = result.consistency
    mean = float(np.mean(disagreement[~np.isnan(disagreement)]))
    return Trial(type(base).__name__, settings, rms, mean, result.cve, time.perf_counter() - begun)


def _failed(base: GPA, settings: dict[str, Any], error: KernelGPAError, seconds: float) -> Trial:
    return Trial(type(base).__name__, settings, np.inf, np.inf, np.inf, seconds, str(error))

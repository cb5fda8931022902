"""Cross-validate many settings on the same folds, in one process or several.

Settings that differ only in ``smoothing`` share the kernel matrices or features of their clouds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pickle import PicklingError
from typing import NamedTuple

import numpy as np
from joblib import Parallel, cpu_count, delayed, effective_n_jobs
from joblib.externals.loky.process_executor import TerminatedWorkerError
from sklearn.base import clone

from .._numerics.threads import limit_threads, one_blas_thread, worker_count
from ..errors import InvalidSetting, KernelGPAError, NumericalFailure, TooLarge, silenced_warnings
from ..estimators.base import GPA, PreparedClouds
from ..estimators.problem import Problem
from ..typing import Array, IndexArray
from .cross_validation import CrossValidation, cross_validate_problem
from .grid import Settings

LONGEST_RESIDUAL = 3.0  # multiple of the median rigid distance from which all residuals of robust fits count alike


@dataclass(frozen=True)
class Trial:
    """One setting and its scores, which are infinite if the setting cannot be computed.

    Attributes
    ----------
    model : str
        Class name of the estimator.
    settings : dict
        The settings that were tried.
    score : float
        The number by which trials are compared: ``sensor_trimmed``, or ``sensor_rms`` if any robust fit is tried.
    sensor_rms, sensor_median, sensor_trimmed : float
        Root mean square and median of the sensor-frame errors of landmarks left out, and their mean without the longest
        tenth.  If any robust fit is tried, all trials weight the residuals as given and limit their lengths by the same
        number.
    consistency : float
        Mean consistency of the predictions, in the map.
    cve : float
        The paper's cross-validation error.
    seconds : float
        Time taken.
    failure : str
        Why the setting could not be computed; empty if it could.
    """

    model: str
    settings: Settings
    score: float
    sensor_rms: float
    sensor_median: float
    sensor_trimmed: float
    consistency: float
    cve: float
    seconds: float
    failure: str = ""


class Candidate(NamedTuple):
    """Settings to try, and the estimator that they are settings of."""

    base: GPA
    settings: Settings

    def estimator(self) -> GPA:
        return clone(self.base).set_params(**self.settings)

    @property
    def group(self) -> tuple[int, Settings]:
        """What candidates have in common that differ only in smoothing."""
        return id(self.base), {name: value for name, value in self.settings.items() if name != "smoothing"}


@dataclass(frozen=True)
class Scoring:
    """What all trials of a search have in common: the problem, the folds, and the score."""

    problem: Problem
    folds: Sequence[IndexArray]
    robust: bool  # whether any robust fit is tried
    validate: Callable[[GPA, Problem, PreparedClouds | None, Sequence[IndexArray]], CrossValidation] = (
        cross_validate_problem
    )

    def scores(self, result: CrossValidation) -> tuple[float, float, float, float]:
        """Return the score, and the root mean square, the median and the trimmed mean of the sensor-frame errors.

        The trimmed mean is the score of fits that are not robust.  The lengths of robust fits are limited already; to
        trim them too would leave out what deforms, if that is a small part of the body.

        Robust fits are not scored by their own weights: stiff warps would win, because they reject the observations
        that deform most and agree about the others.
        """
        if self.robust:
            limited = result.scores(self._given_weights, self._longest_residual)
            return limited[0], *limited
        scores = result.scores(result.weights)
        return scores[2], *scores

    @cached_property
    def _given_weights(self) -> Array:  # (n, m)
        problem = self.problem
        weights = np.zeros((len(problem.observations.clouds), len(problem.observations.landmarks)))
        weights[np.ix_(problem.participating, problem.landmarks)] = problem.participants.weights
        return weights

    @cached_property
    def _longest_residual(self) -> float:
        """A multiple of the median distance of the clouds from the map after rigid motions."""
        gauge, clouds = self.problem.initial.gauge, self.problem.participants.clouds
        distances = [
            np.linalg.norm(cloud.points @ rotation.T + translation - gauge.map[cloud.seen], axis=1)
            for cloud, rotation, translation in zip(clouds, gauge.rotations, gauge.translations, strict=True)
        ]
        return LONGEST_RESIDUAL * float(np.median(np.concatenate(distances)))


def run_trials(
    candidates: Sequence[Candidate], scoring: Scoring, n_jobs: int | None = None
) -> Iterator[tuple[Candidate, Trial]]:
    """Yield each candidate with its trial, in the order given."""
    groups = [list(group) for _, group in groupby(candidates, key=lambda candidate: candidate.group)]
    processes = int(effective_n_jobs(worker_count(n_jobs, len(groups))))
    threads = max(1, int(cpu_count()) // processes)  # the other processes use the other cores
    tasks = (delayed(_run_group)(group, scoring, threads) for group in groups)
    try:
        done = Parallel(n_jobs=worker_count(n_jobs, len(groups)), return_as="generator")(tasks)
        for group, trials in zip(groups, done, strict=True):
            yield from zip(group, trials, strict=True)
    except PicklingError as error:
        raise InvalidSetting(
            "an estimator or a setting cannot be sent to other processes; use n_jobs=None, or a kernel that can be "
            "pickled, such as a function of a module"
        ) from error
    except TerminatedWorkerError as error:
        raise TooLarge(
            "a process that tried settings was terminated, usually for lack of memory; use a smaller n_jobs"
        ) from error


def _run_group(group: Sequence[Candidate], scoring: Scoring, threads: int) -> list[Trial]:
    """Try settings that differ only in smoothing."""
    with one_blas_thread(), limit_threads(threads):
        try:
            prepared = group[0].estimator()._prepare(scoring.problem)
        except KernelGPAError as error:  # a setting that cannot be computed does not end the search
            return [_failed(candidate, error, 0.0) for candidate in group]
        return [_run(candidate, scoring, prepared) for candidate in group]


def _run(candidate: Candidate, scoring: Scoring, prepared: PreparedClouds | None) -> Trial:
    start = time.perf_counter()
    try:
        with silenced_warnings():  # the best setting is fitted again, and then warns
            result = scoring.validate(candidate.estimator(), scoring.problem, prepared, scoring.folds)
        scores = scoring.scores(result)
        if np.isnan(scores).any():  # comparisons with NaN are false, and the setting could win
            raise NumericalFailure("the warps flatten space or exceed double precision")
    except KernelGPAError as error:
        return _failed(candidate, error, time.perf_counter() - start)
    spread = result.consistency
    mean = float(np.mean(spread[~np.isnan(spread)]))
    seconds = time.perf_counter() - start
    return Trial(type(candidate.base).__name__, candidate.settings, *scores, mean, result.cve, seconds)


def _failed(candidate: Candidate, error: KernelGPAError, seconds: float) -> Trial:
    unknown = (np.inf, np.inf, np.inf, np.inf, np.inf, np.inf)
    return Trial(type(candidate.base).__name__, candidate.settings, *unknown, seconds, str(error))

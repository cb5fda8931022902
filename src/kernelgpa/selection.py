"""Folds, cross-validation, tuning.

A fold leaves landmarks out of every cloud, solves for map and warps without them, and asks where the warps
then take them.  What is scored is their disagreement: in the map (the paper's consistency), in the clouds'
own frames (the sensor-frame error, which a shrinking or folding map cannot fool), and against the full
map (the paper's cross-validation error).  Widths and settings stay those of the full data, and one
factorisation of each cloud serves all folds (theory, eq. 17).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone

from .errors import InvalidSetting, KernelGPAError
from .estimators import KernelGPA
from .frames import Array, IndexArray, farthest_points
from .metrics import consistency, sensor_residuals
from .observations import Observations, as_observations
from .registration import GPA, Prepared

REGIONS = 10  # compact regions that folds="regions" leaves out one at a time

Folds = int | str | Sequence[Iterable[Any]]


@dataclass(frozen=True)
class CrossValidation:
    """What every cloud made of landmarks that took no part in the solve."""

    predictions: Array  # (n, m, d) in the map of their own fold, NaN where unseen or not tested
    jacobians: Array  # (n, m, d, d) of the warps that made them
    spreads: Array  # (n, m) variance that the model expects of them, in units of a cloud's noise variance
    cve: float  # the paper's cross-validation error, against the full map
    fitted: GPA  # the estimator fitted to everything

    @property
    def consistency(self) -> Array:  # (m,)
        return consistency(self.predictions)

    @property
    def residuals(self) -> Array:  # (n, m, d)
        """Disagreement with the other clouds, in each cloud's own frame."""
        return sensor_residuals(self.predictions, self.jacobians)

    @property
    def sensor_rms(self) -> float:
        """Root mean square of the residuals: the score to tune by."""
        return float(np.sqrt(np.nanmean(np.nansum(self.residuals**2, axis=2)[~np.isnan(self.residuals[:, :, 0])])))


def cross_validate(
    estimator: GPA,
    points: Any,
    folds: Folds = 20,
    weights: Any = None,
    n_jobs: int | None = None,
) -> CrossValidation:
    """Leave landmarks out and see where the warps take them.

    folds : N for N folds of landmarks j = i mod N; "leave-one-out"; "regions" for compact regions of the
        map; or a list of folds, each a list of landmarks.  The folds are the same for every estimator.
    """
    observations = as_observations(points, weights)
    fitted = clone(estimator).fit(observations)
    prepared = fitted.prepared(fitted.scene_)
    left_out = [_places(one, prepared.landmarks) for one in _folds(folds, observations, fitted)]
    tested = [one for one in left_out if len(one)]
    _require_enough(prepared.core, tested)
    results = Parallel(n_jobs=n_jobs, prefer="threads")(delayed(_fold)(fitted, prepared, one) for one in tested)
    shape = (*observations.visible.shape, observations.dimension)
    predictions, jacobians = np.full(shape, np.nan), np.full((*shape, observations.dimension), np.nan)
    spreads = np.full(shape[:2], np.nan)
    squares, count = 0.0, 0
    for one, result in zip(tested, results, strict=True):
        columns = prepared.landmarks[one]
        predictions[np.ix_(prepared.part, columns)] = result.predictions
        jacobians[np.ix_(prepared.part, columns)] = result.jacobians
        spreads[np.ix_(prepared.part, columns)] = result.spreads
        off = result.aligned - fitted.map_[columns]
        squares += float(np.nansum(off**2))
        count += int(np.sum(~np.isnan(off[:, :, 0])))
    return CrossValidation(predictions, jacobians, spreads, float(np.sqrt(squares / max(count, 1))), fitted)


@dataclass(frozen=True)
class _Fold:
    predictions: Array  # (n, k, d)
    jacobians: Array  # (n, k, d, d)
    spreads: Array  # (n, k)
    aligned: Array  # (n, k, d) the predictions, moved onto the full map by a similarity


def _fold(fitted: GPA, prepared: Prepared, left_out: IndexArray) -> _Fold:
    core = prepared.core
    kept = np.setdiff1d(np.arange(len(core.landmarks)), left_out)
    again = fitted.refit(prepared, kept)
    n, k, d = len(core.clouds), len(left_out), core.dimension
    predictions, jacobians = np.full((n, k, d), np.nan), np.full((n, k, d, d), np.nan)
    spreads = np.full((n, k), np.nan)
    for t, (cloud, warp) in enumerate(zip(core.clouds, again.warps, strict=True)):
        _, rows, columns = np.intersect1d(cloud.seen, left_out, assume_unique=True, return_indices=True)
        if len(rows):
            predictions[t, columns] = warp(cloud.points[rows])
            jacobians[t, columns] = warp.jacobian(cloud.points[rows])
            spreads[t, columns] = again.spreads[t]
    onto = _similarity(again.gauge.map, fitted.map_[prepared.landmarks[kept]])
    return _Fold(predictions, jacobians, spreads, onto(predictions))


def _similarity(source: Array, target: Array) -> Callable[[Array], Array]:
    """The similarity, reflection allowed, that takes one map onto another."""
    here, there = source.mean(axis=0), target.mean(axis=0)
    cross = (target - there).T @ (source - here)
    left, _, right = np.linalg.svd(cross)
    factor = float(np.vdot(left @ right, cross) / np.sum((source - here) ** 2))
    return lambda x: factor * (x - here) @ (left @ right).T + there


def _folds(folds: Folds, observations: Observations, fitted: GPA) -> list[IndexArray]:
    """Landmark indices of each fold."""
    m = len(observations.landmarks)
    if isinstance(folds, str):
        if folds == "leave-one-out":
            return [np.array([j]) for j in range(m)]
        if folds == "regions":
            return _regions(fitted.map_, REGIONS)
        raise InvalidSetting(f"folds is {folds!r}; expected a number, 'leave-one-out', 'regions' or lists of landmarks")
    if isinstance(folds, int):
        count = folds
        if not 2 <= count <= m:
            raise InvalidSetting(f"folds is {count}; with {m} landmarks it lies between 2 and {m}")
        return [np.arange(i, m, count) for i in range(count)]
    return [observations.landmark_indices(one) for one in folds]


def _regions(places: Array, count: int) -> list[IndexArray]:
    known = np.flatnonzero(np.isfinite(places).all(axis=1))
    centres = places[known][farthest_points(places[known], count)]
    nearest_centre = np.argmin(np.sum((places[known][:, None] - centres) ** 2, axis=2), axis=1)
    return [known[nearest_centre == i] for i in range(len(centres))]


def _places(fold: IndexArray, landmarks: IndexArray) -> IndexArray:
    """Where the landmarks of a fold stand among those that take part."""
    return np.flatnonzero(np.isin(landmarks, fold))


def _require_enough(core: Observations, folds: Sequence[IndexArray]) -> None:
    for i, fold in enumerate(folds):
        for cloud in core.clouds:
            left = len(cloud.seen) - int(np.isin(cloud.seen, fold).sum())
            if left <= core.dimension + 1:
                raise InvalidSetting(
                    f"fold {i} leaves cloud {cloud.name!r} with {left} of its {len(cloud.seen)} landmarks; "
                    f"at least {core.dimension + 2} are needed; use more folds or drop the cloud"
                )


@dataclass(frozen=True)
class Trial:
    """One setting and its scores; a setting that cannot be computed scores infinity and says why."""

    settings: dict[str, Any]
    sensor_rms: float
    consistency: float
    cve: float
    seconds: float
    failure: str = ""


@dataclass(frozen=True)
class Tuning:
    """The best estimator, fitted to everything, and every setting that was tried."""

    best: GPA
    trials: list[Trial] = field(repr=False)

    @property
    def settings(self) -> dict[str, Any]:
        return min(self.trials, key=lambda trial: trial.sensor_rms).settings


DEFAULT_GRID: dict[str, Sequence[Any]] = {
    "bandwidth": (0.1, 0.25, 0.5, 1.0, 1.5),
    "smoothing": (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0),
}


def tune(
    points: Any,
    estimator: GPA | None = None,
    grid: Mapping[str, Sequence[Any]] | Sequence[tuple[GPA, Mapping[str, Sequence[Any]]]] | None = None,
    folds: Folds = 10,
    rounds: int = 2,
    weights: Any = None,
    n_jobs: int | None = None,
    progress: Callable[[int, int, Trial], None] | None = None,
) -> Tuning:
    """The settings with the least held-out sensor-frame error, coarse to fine.

    grid : values for each setting of ``estimator`` (KernelGPA() by default), or a list of (estimator, values)
        pairs to search several families of warps at once.  Every combination is tried; then, ``rounds`` times,
        positive numbers are tried halfway (on a logarithmic scale) between the best and its neighbours.
    progress : called with the number of settings tried, the number known to come, and the last trial.
    """
    observations = as_observations(points, weights)
    searches = _searches(estimator, grid)
    trials: list[tuple[GPA, Trial]] = []
    waiting = [(base, dict(settings)) for base, values in searches for settings in _combinations(values)]
    for round_ in range(rounds + 1):
        if round_:
            base, best = min(trials, key=lambda pair: pair[1].sensor_rms)
            tried = [trial.settings for other, trial in trials if other is base]
            waiting = [(base, settings) for settings in _between(best.settings, tried)]
        for base, settings in waiting:
            trials.append((base, _trial(base, settings, observations, folds, n_jobs)))
            if progress is not None:
                progress(len(trials), len(trials) + len(waiting) - 1, trials[-1][1])
    base, best = min(trials, key=lambda pair: pair[1].sensor_rms)
    if not np.isfinite(best.sensor_rms):
        raise InvalidSetting(f"no setting of the grid could be computed; the first said: {trials[0][1].failure}")
    return Tuning(clone(base).set_params(**best.settings).fit(observations), [trial for _, trial in trials])


def _searches(estimator: GPA | None, grid: Any) -> list[tuple[GPA, Mapping[str, Sequence[Any]]]]:
    if grid is not None and not isinstance(grid, Mapping):
        return [(clone(one), values) for one, values in grid]
    base = KernelGPA() if estimator is None else clone(estimator)
    if grid is None:
        grid = {name: values for name, values in DEFAULT_GRID.items() if name in base.get_params()}
    unknown = set(grid) - set(base.get_params())
    if unknown or not grid:
        raise InvalidSetting(
            f"grid names {sorted(unknown) or 'nothing'}; {type(base).__name__} has {', '.join(base.get_params())}"
        )
    return [(base, grid)]


def _combinations(grid: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]


def _between(best: dict[str, Any], tried: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Settings halfway between the best and its neighbours, for positive numbers."""
    options: dict[str, list[Any]] = {}
    for name, value in best.items():
        options[name] = [value]
        if isinstance(value, float) and value > 0:
            others = sorted({s[name] for s in tried if all(s[k] == best[k] for k in best if k != name)})
            at = others.index(value)
            options[name] += [float(np.sqrt(value * others[i])) for i in (at - 1, at + 1) if 0 <= i < len(others)]
    return [settings for settings in _combinations(options) if settings not in tried]


def _trial(base: GPA, settings: dict[str, Any], observations: Observations, folds: Folds, n_jobs: int | None) -> Trial:
    begun = time.perf_counter()
    try:
        result = cross_validate(clone(base).set_params(**settings), observations, folds, n_jobs=n_jobs)
    except InvalidSetting:
        raise
    except KernelGPAError as error:  # one setting that cannot be computed does not end the search
        return Trial(settings, np.inf, np.inf, np.inf, time.perf_counter() - begun, str(error))
    mean = float(np.nanmean(result.consistency))
    return Trial(settings, result.sensor_rms, mean, result.cve, time.perf_counter() - begun)

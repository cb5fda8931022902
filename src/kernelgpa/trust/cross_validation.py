"""Folds and cross-validation.

A fold leaves landmarks out of every cloud, solves for map and warps without them, and asks where the warps
then take them.  What is scored is their disagreement: in the map (the paper's consistency), in the clouds'
own frames (the sensor-frame error, which a shrinking or folding map cannot fool), and against the full
map (the paper's cross-validation error).  Widths and settings stay those of the full data, and one
factorisation of each cloud serves all folds (theory, eq. 17).
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import clone

from .._numerics.threads import one_blas_thread, require_jobs
from ..errors import InvalidSetting, WeaklyConnected
from ..estimators.base import GPA, PreparedClouds
from ..estimators.screening import Problem, screen
from ..observations.collection import Observations, as_observations
from ..observations.connectivity import require_connected, surely_connected
from ..observations.sampling import regions
from ..typing import Array, IndexArray
from .metrics import consistency, sensor_residuals

REGIONS = 10  # compact regions that folds="regions" leaves out one at a time

Folds = int | str | Sequence[Iterable[Any]]


@dataclass(frozen=True, repr=False)
class CrossValidation:
    """What every cloud made of landmarks that took no part in the solve."""

    predictions: Array  # (n, m, d) in the map of their own fold, NaN where unseen or not tested
    jacobians: Array  # (n, m, d, d) of the warps that made them
    spreads: Array  # (n, m) variance that the model expects of them, in units of a cloud's noise variance
    weights: Array  # (n, m) of the observations in the fit: as given, less what a robust fit set aside
    cve: float  # the paper's cross-validation error, against the full map
    fitted: GPA  # the estimator fitted to everything

    def __repr__(self) -> str:
        tested = int(np.isfinite(self.predictions[:, :, 0]).sum())
        return f"CrossValidation(sensor_rms={self.sensor_rms:.6g}, cve={self.cve:.6g}, {tested} observations)"

    @property
    def consistency(self) -> Array:  # (m,)
        return consistency(self.predictions)

    @property
    def residuals(self) -> Array:  # (n, m, d)
        """Disagreement with the other clouds, in each cloud's own frame."""
        return sensor_residuals(self.predictions, self.jacobians, self.weights)

    @property
    def sensor_rms(self) -> float:
        """Root mean square of the residuals, each counted by its weight in the fit."""
        return self.rms_of(self.weights, np.inf)

    def rms_of(self, weights: Array, limit: float) -> float:  # (n, m)
        """The same by other weights, with no residual counted as longer than ``limit``."""
        squares = np.minimum(np.sum(self.residuals**2, axis=2), limit**2)
        tested = ~np.isnan(squares)
        return float(np.sqrt(weights[tested] @ squares[tested] / weights[tested].sum()))


def cross_validate(
    estimator: GPA,
    points: Any,
    folds: Folds = 20,
    weights: Any = None,
    n_jobs: int | None = None,
) -> CrossValidation:
    """Leave landmarks out and see where the warps take them.

    The estimator's settings are used, not what it was fitted to: give the weights again.

    folds : N for N folds of landmarks j = i mod N; "leave-one-out"; "regions" for compact regions of the
        map; or a list of folds, each a list of landmarks.  The folds are the same for every estimator.
    """
    require_estimator(estimator)
    require_jobs(n_jobs)
    fitted = clone(estimator)
    fitted.check_settings()
    observations = as_observations(points, weights)
    with one_blas_thread():
        problem = screen(observations, fitted.sizes_differ)
        tested = tested_folds(folds, problem)
        return validated(fitted, problem, fitted.prepare(problem), tested, n_jobs)


def validated(
    fitted: GPA, problem: Problem, prepared: PreparedClouds | None, folds: Sequence[IndexArray], n_jobs: int | None
) -> CrossValidation:
    """Fit, then solve without each fold; folds are landmarks among those that take part."""
    solved = fitted.fit_problem(problem, prepared)
    observations = problem.observations
    n, m, d = len(observations.clouds), len(observations.landmarks), observations.dimension
    predictions, jacobians, spreads = (np.full((n, m, *more), np.nan) for more in ((d,), (d, d), ()))
    squares, count = 0.0, 0
    for fold, result in zip(folds, solved.predict(folds, n_jobs), strict=True):
        columns = problem.landmarks[fold]
        places = np.ix_(problem.part, columns)
        predictions[places], jacobians[places], spreads[places] = result.points, result.jacobians, result.spreads
        kept = np.delete(np.arange(len(problem.landmarks)), fold)
        onto = _similarity(result.map[kept], fitted.map_[problem.landmarks[kept]])
        off = onto(result.points) - fitted.map_[columns]
        squares += float(np.nansum(off**2))
        count += int(np.sum(~np.isnan(off[:, :, 0])))
    used = np.zeros((n, m))
    used[np.ix_(problem.part, problem.landmarks)] = solved.core.weights
    return CrossValidation(predictions, jacobians, spreads, used, float(np.sqrt(squares / count)), fitted)


def _similarity(source: Array, target: Array) -> Callable[[Array], Array]:
    """The similarity, reflection allowed, that takes one map onto another."""
    here, there = source.mean(axis=0), target.mean(axis=0)
    cross = (target - there).T @ (source - here)
    left, _, right = np.linalg.svd(cross)
    factor = float(np.vdot(left @ right, cross) / np.sum((source - here) ** 2))
    return lambda x: factor * (x - here) @ (left @ right).T + there


def tested_folds(folds: Folds, problem: Problem) -> list[IndexArray]:
    """Every fold as places among the landmarks that take part, ascending; folds that no cloud tests are left out."""
    places = [np.flatnonzero(np.isin(problem.landmarks, fold)) for fold in _folds(folds, problem)]
    tested = [fold for fold in places if len(fold)]
    if not tested:
        raise InvalidSetting("folds hold no landmark that two clouds saw, so nothing is tested; use other folds")
    _require_enough(problem.core, tested)
    return tested


def _folds(folds: Folds, problem: Problem) -> list[IndexArray]:
    """Landmark indices of each fold."""
    m = len(problem.observations.landmarks)
    if isinstance(folds, str):
        if folds == "leave-one-out":
            return [np.array([j]) for j in range(m)]
        if folds == "regions":
            labels = regions(problem.initial.gauge.map, REGIONS)
            return [problem.landmarks[labels == i] for i in np.unique(labels)]
    elif isinstance(folds, Integral) and not isinstance(folds, bool):
        count = int(folds)
        if not 2 <= count <= m:
            raise InvalidSetting(f"folds is {count}; with {m} landmarks it lies between 2 and {m}")
        return [np.arange(i, m, count) for i in range(count)]
    elif isinstance(folds, Iterable):
        return [problem.observations.landmark_indices(one) for one in folds]
    raise InvalidSetting(f"folds is {folds!r}; expected a number, 'leave-one-out', 'regions' or lists of landmarks")


def _require_enough(core: Observations, folds: Sequence[IndexArray]) -> None:
    """Without any fold every cloud must keep its dimensions, and all must stay tied."""
    sure = surely_connected(core, [np.delete(np.arange(len(core.landmarks)), fold) for fold in folds])
    for i, fold in enumerate(folds):
        if sure[i]:
            continue
        rest = core.select(np.delete(np.arange(len(core.landmarks)), fold))
        for whole, cloud in zip(core.clouds, rest.clouds, strict=True):
            if len(cloud.seen) <= core.dimension + 1:
                raise InvalidSetting(
                    f"fold {i} leaves cloud {cloud.name!r} with {len(cloud.seen)} of its {len(whole.seen)} landmarks; "
                    f"at least {core.dimension + 2} are needed; use more folds or drop the cloud"
                )
            if cloud.frame.rank < whole.frame.rank:
                raise InvalidSetting(
                    f"fold {i} leaves cloud {cloud.name!r} flat: what is left of it spans {cloud.frame.rank} "
                    f"dimensions instead of {whole.frame.rank}; use other folds"
                )
        try:
            require_connected(rest)
        except WeaklyConnected as error:
            raise InvalidSetting(f"fold {i} takes away what ties the clouds: {error}; use other folds") from None


def require_estimator(estimator: Any) -> None:
    if not isinstance(estimator, GPA):
        raise InvalidSetting(
            f"estimator is {reprlib.repr(estimator)}; expected RigidGPA(), AffineGPA(), TPSGPA() or KernelGPA(), with "
            "parentheses"
        )

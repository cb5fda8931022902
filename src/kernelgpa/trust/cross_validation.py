"""Cross-validation: leave landmarks out of all clouds and predict them by the warps fitted without them.

For each fold of landmarks the map and the warps are solved without the fold, and the warps of all clouds are applied to
the landmarks left out.  Three errors compare the images: consistency in the map, the sensor-frame error, which a
shrinking or folding map does not decrease (metrics.py), and the authors' cross-validation error (RSS 2022) against the
full map.  Bandwidths and settings remain those of the full data, so that one factorisation of each cloud serves all
folds (docs/theory.md, eq. 17).
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from .._numerics.threads import one_blas_thread, require_jobs
from ..errors import InvalidSetting
from ..estimators.base import GPA, PreparedClouds
from ..estimators.prediction.left_out import Prediction
from ..estimators.problem import Problem
from ..estimators.problem.screening import screen
from ..observations.collection import as_observations
from ..typing import Array, IndexArray
from .folds import Folds, landmark_folds
from .metrics import consistency, sensor_residuals

TRIMMED = 0.1  # share of the residuals, the longest, that a trimmed mean leaves out


@dataclass(frozen=True, repr=False)
class CrossValidation:
    """Predictions of landmarks that took no part in the solve.

    Attributes
    ----------
    predictions : ndarray of shape (n, m, d)
        Images of the landmarks left out, each in the map of its fold; NaN where unseen or not tested.
    jacobians : ndarray of shape (n, m, d, d)
        Jacobians of the warps that predicted them.
    variances : ndarray of shape (n, m)
        Variances that the model expects, in units of the noise variance of each cloud; NaN for rigid warps.
    weights : ndarray of shape (n, m)
        Weights of the observations in the fit: those given, reduced by a robust fit.
    cve : float
        The authors' cross-validation error (RSS 2022): root mean square distance from the full map.
    fitted : estimator
        The estimator, fitted to all landmarks.
    consistency : ndarray of shape (m,)
        Consistency of each landmark's predictions in the map.
    residuals : ndarray of shape (n, m, d)
        Difference from the mean of the other clouds, in the frame of each cloud.
    sensor_rms, sensor_median, sensor_trimmed : float
        Root mean square and median length of the residuals, and their mean length without the longest tenth, weighted
        as in the fit.
    """

    predictions: Array
    jacobians: Array
    variances: Array
    weights: Array
    cve: float
    fitted: GPA

    def __repr__(self) -> str:
        tested = int(np.isfinite(self.predictions[:, :, 0]).sum())
        return f"CrossValidation(sensor_rms={self.sensor_rms:.6g}, cve={self.cve:.6g}, {tested} observations)"

    @property
    def consistency(self) -> Array:
        return consistency(self.predictions)

    @property
    def residuals(self) -> Array:
        return sensor_residuals(self.predictions, self.jacobians, self.weights)

    @property
    def sensor_rms(self) -> float:
        return self.weighted_rms(self.weights)

    @property
    def sensor_median(self) -> float:
        return self.scores(self.weights)[1]

    @property
    def sensor_trimmed(self) -> float:
        return self.scores(self.weights)[2]

    def scores(self, weights: Array, longest: float = np.inf) -> tuple[float, float, float]:
        """Return :meth:`weighted_rms`, and the median and the trimmed mean of the same lengths by the same weights."""
        lengths = np.minimum(np.linalg.norm(self.residuals, axis=2), longest)
        tested = ~np.isnan(lengths) & (weights > 0)
        order = np.argsort(lengths[tested])
        ascending, shares = lengths[tested][order], weights[tested][order]
        up_to = np.cumsum(shares) / shares.sum()
        kept = slice(0, 1 + int(np.searchsorted(up_to, 1 - TRIMMED)))
        median = ascending[np.searchsorted(up_to, 0.5)]
        return (
            self.weighted_rms(weights, longest),
            float(median),
            float(np.average(ascending[kept], weights=shares[kept])),
        )

    def weighted_rms(self, weights: Array, longest: float = np.inf) -> float:
        """Return the root mean square length of the residuals by other weights (n, m).

        Residuals longer than ``longest`` count as being that long.
        """
        squares = np.minimum(np.sum(self.residuals**2, axis=2), longest**2)
        tested = ~np.isnan(squares)
        return float(np.sqrt(weights[tested] @ squares[tested] / weights[tested].sum()))


def cross_validate(
    estimator: GPA,
    points: Any,
    folds: Folds = 20,
    weights: Any = None,
    n_jobs: int | None = None,
) -> CrossValidation:
    """Leave landmarks out of all clouds, and predict them by the warps fitted to the others.

    Parameters
    ----------
    estimator : RigidGPA, AffineGPA, TPSGPA or KernelGPA
        Its settings are used; it is neither changed nor required to be fitted.
    points : array_like of shape (n, m, d), list of (points, ids), or Observations
        The clouds, as for ``fit``.
    folds : int, "leave-one-out", "regions" or list of lists of landmarks
        A number N makes N folds of the landmarks j = i mod N; "regions" leaves out compact regions of the map.
        The folds are the same for every estimator.
    weights : array_like of shape (m,) or (n, m), optional
        Weights of the landmarks or observations, as for ``fit``.
    n_jobs : int, optional
        Number of threads that solve folds at the same time; by default one.

    Returns
    -------
    CrossValidation

    Examples
    --------
    >>> from kernelgpa import KernelGPA, RigidGPA, selection, simulate
    >>> scene = simulate.liver(clouds=6, landmarks=60, vertices=202)
    >>> rigid, kernel = (selection.cross_validate(gpa, scene.points, folds=5) for gpa in (RigidGPA(), KernelGPA()))
    >>> bool(kernel.sensor_rms < rigid.sensor_rms)
    True
    """
    require_estimator(estimator)
    require_jobs(n_jobs)
    fitted = clone(estimator)
    fitted._check_settings()
    observations = as_observations(points, weights)
    with one_blas_thread():
        problem = screen(observations, fitted._sizes_differ, fitted.mirrored)
        tested = landmark_folds(folds, problem)
        return cross_validate_problem(fitted, problem, fitted._prepare(problem), tested, n_jobs)


def cross_validate_problem(
    estimator: GPA,
    problem: Problem,
    prepared: PreparedClouds | None,
    folds: Sequence[IndexArray],
    n_jobs: int | None = None,
) -> CrossValidation:
    """Fit an estimator to a problem, then solve without each fold, given as row numbers among its landmarks."""
    registration, solver = estimator._fit_problem(problem, prepared)
    estimator._store(registration)
    return of_predictions(estimator, problem, solver.participants.weights, folds, solver.predict(folds, n_jobs))


def of_predictions(
    fitted: GPA,
    problem: Problem,
    participants_weights: Array,  # (participating clouds, landmarks of the problem) as in the fit
    folds: Sequence[IndexArray],
    results: Sequence[Prediction],  # one per fold
) -> CrossValidation:
    """Collect the predictions of all folds, and compare them with the map of the fit to all landmarks."""
    observations = problem.observations
    n, m, d = len(observations.clouds), len(observations.landmarks), observations.dimension
    predictions, jacobians, variances = (np.full((n, m, *more), np.nan) for more in ((d,), (d, d), ()))
    squares, count = 0.0, 0
    for fold, result in zip(folds, results, strict=True):
        left_out, kept = problem.landmarks[fold], np.delete(np.arange(len(problem.landmarks)), fold)
        rows = np.ix_(problem.participating, left_out)
        predictions[rows], jacobians[rows], variances[rows] = result.points, result.jacobians, result.variances
        to_full_map = _similarity(result.map[kept], fitted.map_[problem.landmarks[kept]])
        differences = to_full_map(result.points) - fitted.map_[left_out]
        squares += float(np.nansum(differences**2))
        count += int(np.sum(~np.isnan(differences[:, :, 0])))
    weights = np.zeros((n, m))
    weights[np.ix_(problem.participating, problem.landmarks)] = participants_weights
    return CrossValidation(predictions, jacobians, variances, weights, float(np.sqrt(squares / count)), fitted)


def _similarity(source: Array, target: Array) -> Callable[[Array], Array]:
    """Return the similarity, possibly with a reflection, that maps one set of points (k, d) nearest to another."""
    source_mean, target_mean = source.mean(axis=0), target.mean(axis=0)
    cross = (target - target_mean).T @ (source - source_mean)
    left, _, right = np.linalg.svd(cross)
    factor = float(np.vdot(left @ right, cross) / np.sum((source - source_mean) ** 2))
    return lambda points: factor * (points - source_mean) @ (left @ right).T + target_mean


def require_estimator(estimator: Any) -> None:
    """Raise unless it is an instance of an estimator of this package."""
    if not isinstance(estimator, GPA):
        raise InvalidSetting(
            f"estimator is {reprlib.repr(estimator)}; expected RigidGPA(), AffineGPA(), TPSGPA() or KernelGPA(), with "
            "parentheses"
        )

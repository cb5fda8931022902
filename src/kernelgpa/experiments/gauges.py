"""Cross-validation of several gauges of the same warps at once.

The maps of d modes,  M = X A + 1 b',  differ between ``modes="program"`` and ``"paper"``, and between the methods for
the scales, in A (d, d) and b only.  Warps are linear in the map and reproduce constants.  Therefore

    prediction of M = (prediction of X) A + b,      Jacobian of M = A' (Jacobian of X)

The clouds are reduced, the folds solved and the landmarks predicted once, for X; each gauge adds its A and b.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from sklearn.base import clone

from .._numerics.threads import one_blas_thread
from ..errors import InvalidSetting
from ..estimators.deformable import DeformableGPA
from ..estimators.prediction.left_out import Prediction
from ..estimators.problem.screening import screen
from ..gauge.scales import D_MODES, fix_gauge
from ..observations.collection import as_observations
from ..observations.stacked import StackedClouds
from ..spectrum.operator import CostOperator
from ..trust.cross_validation import CrossValidation, of_predictions
from ..trust.folds import Folds, landmark_folds
from ..typing import Array

GAUGE_SETTINGS = ("modes", "scale_method")  # in which the estimators may differ


def cross_validate_gauges(
    estimators: Mapping[str, DeformableGPA],
    points: Array,  # (n, m, d)
    folds: Folds,
) -> dict[str, CrossValidation]:
    """Return for each estimator what :func:`cross_validate` returns; they may differ in modes and scale method only."""
    fitted = {name: clone(estimator) for name, estimator in estimators.items()}
    _require_same_warps(list(fitted.values()))
    first = next(iter(fitted.values()))
    with one_blas_thread():
        problem = screen(as_observations(points), first._sizes_differ, first.mirrored)
        tested = landmark_folds(folds, problem)
        prepared = first._prepare(problem)
        solved = [estimator._fit_problem(problem, prepared) for estimator in fitted.values()]
        for estimator, one in zip(fitted.values(), solved, strict=True):
            estimator._store(one.registration)
        gauges, solver = _Gauges(fitted), solved[0].fold_solver
        of_modes = replace(solver, solve_map=gauges.solve).predict(tested, None)
        weights = solver.participants.weights
        return {
            name: of_predictions(
                estimator, problem, weights, tested, _in_gauge(of_modes, [one[name] for one in gauges.found])
            )
            for name, estimator in fitted.items()
        }


def _require_same_warps(estimators: Sequence[DeformableGPA]) -> None:
    others = [
        {name: value for name, value in one.get_params().items() if name not in GAUGE_SETTINGS} for one in estimators
    ]
    if any(one.modes not in D_MODES or one.robust is not None for one in estimators):
        raise InvalidSetting("gauges are compared for modes='paper' and 'program' without a robust loss")
    if any(one != others[0] for one in others):
        raise InvalidSetting(f"the estimators differ in other settings than {' and '.join(GAUGE_SETTINGS)}")


class _Gauges:
    """Solves folds for their modes X, and notes A and b of each estimator in the order of the folds."""

    def __init__(self, fitted: Mapping[str, DeformableGPA]) -> None:
        self._fitted = fitted
        self.found: list[dict[str, Array]] = []  # per fold and name: (d + 1, d), A above b

    def solve(self, stacked: StackedClouds, cost: CostOperator) -> Array:  # (m, d)
        spectrum = next(iter(self._fitted.values()))._spectrum(stacked, cost)
        X = spectrum.vectors[:, : stacked.means.shape[1]]
        with_constant = np.column_stack([X, np.ones(len(X))])
        maps = {
            name: fix_gauge(spectrum, stacked, one.modes, one.scale_method).gauge.map
            for name, one in self._fitted.items()
        }
        self.found.append({name: np.asarray(np.linalg.lstsq(with_constant, M)[0], float) for name, M in maps.items()})
        return X


def _in_gauge(of_modes: Sequence[Prediction], found: Sequence[Array]) -> list[Prediction]:
    """Return the predictions of the maps  M = X A + 1 b'  from those of X."""
    return [
        Prediction(one.map @ A + b, one.points @ A + b, A.T @ one.jacobians, one.variances)
        for one, (A, b) in zip(of_modes, ((matrix[:-1], matrix[-1]) for matrix in found), strict=True)
    ]

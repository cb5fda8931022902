"""Solve again without some landmarks, and predict them: the work of cross-validation (theory, eq. 17)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from joblib import Parallel, delayed

from ..._numerics.progress import with_progress
from ..._numerics.threads import worker_count
from ...observations import Cloud, Observations
from ...observations.stacked import StackedClouds
from ...spectrum.operator import CostOperator, Removal
from ...typing import Array, BoolArray, IndexArray
from ...warps import ReducedCloud
from ...warps.leave_out import LeftOut, leave_out
from ...warps.warp import sensor_jacobians

MOST_NUMBERS = 2e8  # that the folds predicted at the same time may hold

SolveMap = Callable[[StackedClouds, CostOperator], Array]  # the map of the landmarks that stay


@dataclass(frozen=True)
class Prediction:
    """Landmarks that took no part in a solve, as its warps predict them: n clouds, k landmarks left out."""

    map: Array  # (m, d) of the landmarks kept, NaN for those left out
    points: Array  # (n, k, d) where the warps take what was left out, NaN where unseen
    jacobians: Array  # (n, k, d, d) of the warps there
    variances: Array  # (n, k) variance expected of them, in units of a cloud's noise variance; NaN for rigid motions

    @classmethod
    def unknown(cls, positions: Array, clouds: int, left_out: int) -> Prediction:
        """A prediction of NaN, to be filled in."""
        d = positions.shape[1]
        shape = (clouds, left_out)
        return cls(positions, *(np.full((*shape, *more), np.nan) for more in ((d,), (d, d), ())))


class FoldSolver(Protocol):
    """A solved problem that can be solved again without each of some folds of landmarks."""

    @property
    def participants(self) -> Observations: ...  # the participating clouds, with the weights of the solve
    def predict(self, folds: Sequence[IndexArray], n_jobs: int | None) -> list[Prediction]: ...


@dataclass(frozen=True)
class DeformableFolds:
    """One factorisation of each cloud serves all folds."""

    participants: Observations
    clouds: Sequence[ReducedCloud]
    cost: CostOperator  # their sum
    solve_map: SolveMap

    def predict(self, folds: Sequence[IndexArray], n_jobs: int | None) -> list[Prediction]:
        """In groups of folds that fit into memory together."""
        tested = np.bincount(np.concatenate(folds), minlength=len(self.participants.landmarks))  # (m,) how often
        numbers = sum(int(tested[cloud.seen].sum()) * len(cloud.seen) for cloud in self.participants.clouds)
        size = max(1, int(MOST_NUMBERS * len(folds) / max(1, numbers)))
        groups = [folds[first : first + size] for first in range(0, len(folds), size)]
        progress = with_progress(groups, "groups of folds", len(groups))
        return [prediction for group in progress for prediction in self._predict_group(group, n_jobs)]

    def _predict_group(self, folds: Sequence[IndexArray], n_jobs: int | None) -> list[Prediction]:
        lost = self._lost(folds)
        tasks = (delayed(self._map_without)([own[f] for own in lost], fold) for f, fold in enumerate(folds))
        done = Parallel(n_jobs=worker_count(n_jobs, len(folds)), prefer="threads", return_as="generator")(tasks)
        maps = with_progress(done, "folds", len(folds))
        n = len(self.clouds)
        predictions = [Prediction.unknown(one, n, len(fold)) for one, fold in zip(maps, folds, strict=True)]
        for t, cloud in enumerate(self.participants.clouds):
            _enter_predictions(t, cloud, self.clouds[t], lost[t], folds, predictions)
        return predictions

    def _lost(self, folds: Sequence[IndexArray]) -> list[list[LeftOut | None]]:
        """For every cloud, what it loses in every fold."""
        out = np.zeros((len(folds), len(self.participants.landmarks)), dtype=bool)
        for f, fold in enumerate(folds):
            out[f, fold] = True
        return [[_left_out_of(cloud, fold) for fold in out] for cloud in self.clouds]

    def _map_without(self, lost: Sequence[LeftOut | None], fold: IndexArray) -> Array:  # (m, d)
        m, d = len(self.participants.landmarks), self.participants.dimension
        kept = np.delete(np.arange(m), fold)
        cost = self.cost.without(Removal(kept, self.clouds, lost))
        whole = np.full((m, d), np.nan)
        whole[kept] = self.solve_map(self.participants.stacked.only(kept), cost)
        return whole


def _left_out_of(cloud: ReducedCloud, fold: BoolArray) -> LeftOut | None:
    rows = np.flatnonzero(fold[cloud.seen])
    return leave_out(cloud, rows) if len(rows) else None


def _enter_predictions(
    t: int,
    cloud: Cloud,
    reduced: ReducedCloud,
    lost: Sequence[LeftOut | None],  # in every fold
    folds: Sequence[IndexArray],
    predictions: Sequence[Prediction],
) -> None:
    """Enter what cloud t predicts of the landmarks of every fold."""
    targets, entries = [], []
    for part, fold, prediction in zip(lost, folds, predictions, strict=True):
        if part is None:
            continue
        target = prediction.map[cloud.seen]
        target[part.rows] = part.predict(target[part.kept])
        columns = np.searchsorted(fold, cloud.seen[part.rows])
        prediction.points[t, columns], prediction.variances[t, columns] = target[part.rows], part.variance
        targets.append(target)
        entries.append((prediction, columns, part.rows))
    if targets:
        which = np.repeat(np.arange(len(entries)), [len(rows) for *_, rows in entries])
        own = cloud.points[np.concatenate([rows for *_, rows in entries])]
        jacobians = sensor_jacobians(reduced.fit_all(targets), own, which)
        for (prediction, columns, _), some in zip(
            entries, np.split(jacobians, np.flatnonzero(np.diff(which)) + 1), strict=True
        ):
            prediction.jacobians[t, columns] = some

"""Folds of landmarks for cross-validation, checked so that the clouds can be registered without each of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from numbers import Integral

import numpy as np

from ..errors import InvalidSetting, WeaklyConnected
from ..estimators.problem import Problem
from ..observations.collection import Observations
from ..observations.connectivity import require_connected, surely_connected
from ..observations.sampling import regions
from ..typing import IndexArray, Name

FOLD_REGIONS = 10  # compact regions of the map that folds="regions" leaves out one at a time

Folds = int | str | Sequence[Iterable[Name]]


def landmark_folds(folds: Folds, problem: Problem) -> list[IndexArray]:
    """Return each fold as ascending row numbers among the landmarks of the problem.

    Folds without any landmark of the problem are dropped, because no cloud can be compared with another there.
    """
    rows = [np.flatnonzero(np.isin(problem.landmarks, fold)) for fold in _all_landmarks(folds, problem)]
    tested = [fold for fold in rows if len(fold)]
    if not tested:
        raise InvalidSetting("folds contain no landmark that two clouds saw, so nothing is tested; use other folds")
    _require_registrable(problem.participants, tested)
    return tested


def _all_landmarks(folds: Folds, problem: Problem) -> list[IndexArray]:
    """Return the landmarks of each fold, numbered among all landmarks of the observations."""
    m = len(problem.observations.landmarks)
    if isinstance(folds, str):
        if folds == "leave-one-out":
            return [np.array([j]) for j in range(m)]
        if folds == "regions":
            labels = regions(problem.initial.gauge.map, FOLD_REGIONS)
            return [problem.landmarks[labels == i] for i in np.unique(labels)]
    elif isinstance(folds, Integral) and not isinstance(folds, bool):
        count = int(folds)
        if not 2 <= count <= m:
            raise InvalidSetting(f"folds is {count}; with {m} landmarks it must be between 2 and {m}")
        return [np.arange(i, m, count) for i in range(count)]
    elif isinstance(folds, Iterable):
        return [problem.observations.landmark_indices(fold) for fold in folds]
    raise InvalidSetting(f"folds is {folds!r}; expected a number, 'leave-one-out', 'regions' or lists of landmarks")


def _require_registrable(core: Observations, folds: Sequence[IndexArray]) -> None:
    """Raise unless the clouds keep their dimensions and stay connected without each fold."""
    kept = [np.delete(np.arange(len(core.landmarks)), fold) for fold in folds]
    for i, surely in enumerate(surely_connected(core, kept)):
        if surely:
            continue
        rest = core.select(kept[i])
        _require_dimensions(i, core, rest)
        try:
            require_connected(rest)
        except WeaklyConnected as error:
            raise InvalidSetting(f"without fold {i} the clouds are not connected: {error}; use other folds") from None


def _require_dimensions(i: int, core: Observations, rest: Observations) -> None:
    for whole, cloud in zip(core.clouds, rest.clouds, strict=True):
        if len(cloud.seen) <= core.dimension + 1:
            raise InvalidSetting(
                f"fold {i} leaves cloud {cloud.name!r} with {len(cloud.seen)} of its {len(whole.seen)} landmarks, and "
                f"{core.dimension + 2} are needed; use more folds or drop the cloud"
            )
        if cloud.frame.rank < whole.frame.rank:
            raise InvalidSetting(
                f"fold {i} leaves cloud {cloud.name!r} flat: its other landmarks span {cloud.frame.rank} dimensions "
                f"instead of {whole.frame.rank}; use other folds"
            )

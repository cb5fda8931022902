"""The settings that cross-validation tried, for the page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

import numpy as np

from ..trust.agreement import json_number
from ..trust.grid import is_number
from ..trust.selection import Trial, Tuning

MOST_FILES = 4  # that are named in the settings

Pairs = list[tuple[str, str]]  # names and values as they are shown


@dataclass(frozen=True)
class TrialData:
    model: str
    settings: Pairs
    sensor_error: float | str | None  # by which trials are compared
    sensor_median: float | str | None
    sensor_trimmed: float | str | None
    sensor_rms: float | str | None
    seconds: float
    failure: str


@dataclass(frozen=True)
class TuningAxes:
    """The one or two settings that were varied, with their values in each trial of the best model."""

    names: list[str]
    values: list[list[float]]
    sensor_error: list[float | str | None]


@dataclass(frozen=True)
class TuningData:
    trials: list[TrialData]
    best: int  # index of the trial
    at_edge: list[str]
    axes: TuningAxes | None  # None: what was varied cannot be drawn


def tuning_data(tuning: Tuning) -> TuningData:
    best = tuning.best_trial
    return TuningData(
        trials=[
            TrialData(
                trial.model,
                shown_settings(trial.settings),
                json_number(trial.score),
                json_number(trial.sensor_median),
                json_number(trial.sensor_trimmed),
                json_number(trial.sensor_rms),
                float(trial.seconds),
                trial.failure,
            )
            for trial in tuning.trials
        ],
        best=tuning.trials.index(best),
        at_edge=[str(name) for name in tuning.at_edge],
        axes=_varied([trial for trial in tuning.trials if trial.model == best.model]),
    )


def _varied(trials: list[Trial]) -> TuningAxes | None:
    names = list(dict.fromkeys(name for trial in trials for name in trial.settings))
    tried: dict[str, list[Any]] = {name: [trial.settings.get(name) for trial in trials] for name in names}
    varied = [name for name in names if len({shown_value(value) for value in tried[name]}) > 1]
    if not 1 <= len(varied) <= 2 or not all(_is_finite_number(value) for name in varied for value in tried[name]):
        return None
    return TuningAxes(
        names=[str(name) for name in varied],
        values=[[float(value) for value in tried[name]] for name in varied],
        sensor_error=[json_number(trial.score) for trial in trials],
    )


def _is_finite_number(value: Any) -> bool:
    return is_number(value) and bool(np.isfinite(float(value)))


def without_folders(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with the names of files only: a reader elsewhere has no use for the folders of this computer."""
    section = settings.get("input")
    if not isinstance(section, Mapping):
        return dict(settings)
    shown = dict(section)
    for name in ("metadata", "links"):
        if name in shown:
            shown[name] = PurePath(str(shown[name])).name
    files = shown.get("files")
    if isinstance(files, list | tuple):
        names = [PurePath(str(one)).name for one in files]
        rest = [f"and {len(names) - MOST_FILES} more"] if len(names) > MOST_FILES else []
        shown["files"] = [*names[:MOST_FILES], *rest]
    return {**settings, "input": shown}


def shown_settings(settings: Mapping[str, Any]) -> Pairs:
    """Settings as pairs of texts; those of a section are named "section.setting"."""
    pairs: Pairs = []
    for name, value in settings.items():
        if isinstance(value, Mapping):
            pairs += [(f"{name}.{inner}", text) for inner, text in shown_settings(value)]
        else:
            pairs.append((str(name), shown_value(value)))
    return pairs


def shown_value(value: Any) -> str:
    """A setting as text; numbers with six significant digits."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list | tuple):
        return ", ".join(shown_value(one) for one in value)
    return "none" if value is None else str(value)

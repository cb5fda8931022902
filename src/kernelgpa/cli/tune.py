"""``kernelgpa tune``: settings by cross-validation."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import tomli_w
import typer
from rich.console import Console
from rich.table import Table

from ..errors import InvalidSetting
from ..estimators.methods import method_name
from ..io.atomic import require_writable_file, write_bytes
from ..io.files import read_clouds
from ..trust import selection
from . import options
from .app import app
from .messages import print_json, print_matching, print_message, printed_warnings, use_words_of, worded
from .options import MethodChoice
from .options.groups import MatchOptions, with_option_groups
from .settings import MethodSettings, input_section

MOST_ROWS = 10  # of the table that is printed

SettingsFile = Annotated[
    Path | None, typer.Option("--output", "-o", help="A settings.toml to write, for kernelgpa register --config.")
]
Bandwidths = Annotated[str | None, typer.Option(help="Bandwidths to try, such as 0.1,0.25,0.5.")]
Smoothings = Annotated[str | None, typer.Option(help="Values of smoothing to try, such as 0.01,0.1.")]
Kernels = Annotated[str | None, typer.Option(help="Kernels to try, such as gaussian,matern52.")]
Rounds = Annotated[int, typer.Option(help="Number of refinements of the grid around the best setting.")]
Jobs = Annotated[int | None, typer.Option(help="Number of parallel processes; -1: one per core.  [1]")]


@app.command()
@with_option_groups
def tune(
    files: options.Files,
    *,
    output: SettingsFile = None,
    method: Annotated[MethodChoice, typer.Option(help="Family of warps: kernel or tps.")] = MethodChoice.KERNEL,
    bandwidth: Bandwidths = None,
    smoothing: Smoothings = None,
    kernel: Kernels = None,
    folds: Annotated[int, typer.Option(help="Number of groups of landmarks that are held out in turn.")] = 10,
    rounds: Rounds = 2,
    n_jobs: Jobs = None,
    reading: MatchOptions,
    as_json: options.AsJson = False,
    verbose: options.Verbose = False,
) -> None:
    """Find the settings with the smallest held-out error.

    It is the sensor-frame error of landmarks that are left out in turn.

    Examples:

        kernelgpa tune scans.csv -o settings.toml

        kernelgpa tune scans.csv --bandwidth 0.1,0.25,0.5,1 --smoothing 0.01,0.1,1 --folds 20

        kernelgpa register --config settings.toml -o out
    """
    grid = _grid(method.value, {"bandwidth": bandwidth, "smoothing": smoothing, "kernel": kernel})
    if output is not None:
        require_writable_file(output)  # before the work
    read_options = reading.read_options()
    use_words_of(files, reading.recursive)
    with printed_warnings():
        matched = read_clouds(files, read_options)
        print_matching(matched)
        estimator = MethodSettings(method.value).estimator()
        tuning = selection.tune(
            matched.observations, estimator, grid, folds=folds, rounds=rounds, n_jobs=n_jobs, stiff=True
        )
    if output is not None:
        section = {"name": method_name(tuning.best), **tuning.best_trial.settings}
        write_bytes(output, tomli_w.dumps({"input": input_section(files, read_options), "method": section}).encode())
        print_message(f"settings: {output}")
    if as_json:
        print_json(_record(tuning))
    else:
        Console().print(_table(tuning, matched.unit))


def _record(tuning: selection.Tuning) -> dict[str, Any]:
    best, trials = tuning.best_trial, [_trial_record(one) for one in tuning.trials]
    return {"model": best.model, "best": best.settings, "failures": tuning.failures, "trials": trials}


def _grid(method: str, given: dict[str, str | None]) -> dict[str, list[Any]]:
    settings = MethodSettings(method)
    grid = {**settings.grid(), **{name: _values(name, text) for name, text in given.items() if text is not None}}
    unknown = set(grid) - set(settings.estimator().get_params(deep=False))
    if unknown:
        names = " or ".join(f"--{name}" for name in sorted(unknown))
        raise InvalidSetting(f"--method {method} has no setting {names}; omit it")
    return grid


def _values(name: str, text: str) -> list[Any]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    if name == "kernel":
        return words
    try:
        return [float(word) for word in words]
    except ValueError:
        raise InvalidSetting(f"--{name} is {text!r}; expected numbers separated by commas") from None


def _trial_record(trial: selection.Trial) -> dict[str, Any]:
    names = ("score", "sensor_trimmed", "sensor_median", "sensor_rms")
    scores = {name: None if trial.failure else getattr(trial, name) for name in names}
    about = {"failure": trial.failure, "seconds": trial.seconds}
    return {"model": trial.model, "settings": trial.settings, **scores, **about}


def _table(tuning: selection.Tuning, unit: str | None) -> Table:
    names = list(dict.fromkeys(name for trial in tuning.trials for name in trial.settings))
    table = Table("model", *names, title="settings with the smallest held-out error", caption=_caption(tuning))
    for heading in (f"{worded('sensor-frame error')}{f' ({unit})' if unit else ''}", "median", "trimmed mean", "RMS"):
        table.add_column(heading, justify="right")
    for trial in sorted(tuning.trials, key=lambda trial: trial.score)[:MOST_ROWS]:
        scores = (trial.score, trial.sensor_median, trial.sensor_trimmed, trial.sensor_rms)
        settings = (_cell(trial.settings.get(name)) for name in names)
        table.add_row(trial.model, *settings, *(f"{score:.4g}" for score in scores))
    return table


def _caption(tuning: selection.Tuning) -> str:
    edge = f"; the best {' and '.join(tuning.at_edge)} lies at the edge of the grid" if tuning.at_edge else ""
    failed = f"{tuning.failures} of them could not be computed"
    shown = f"the best {min(MOST_ROWS, len(tuning.trials))} shown"
    return f"{len(tuning.trials)} settings tried, {failed}, {shown}{edge}"


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)

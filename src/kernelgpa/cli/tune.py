"""``kernelgpa tune``: settings by cross-validation."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import tomli_w
import typer
from rich.console import Console
from rich.table import Table

from ..errors import InvalidSetting
from ..io.atomic import require_writable_file, write_bytes
from ..io.files import read_clouds
from ..trust import selection
from .common import (
    AsJson,
    Curves,
    Inputs,
    Missing,
    NegativeIsMissing,
    Verbose,
    app,
    print_json,
    reading,
    say,
    spoken_warnings,
    tell_gathered,
)
from .register import GRIDS, Method, estimator_of


@app.command()
def tune(
    files: Inputs,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A settings.toml with the best, for register --config.")
    ] = None,
    method: Annotated[Method, typer.Option(help="The warps: kernel or tps.")] = Method.KERNEL,
    bandwidth: Annotated[str | None, typer.Option(help="Values to try, as in 0.1,0.25,0.5.")] = None,
    smoothing: Annotated[str | None, typer.Option(help="Values to try.")] = None,
    kernel: Annotated[str | None, typer.Option(help="Kernels to try, as in gaussian,matern52.")] = None,
    folds: Annotated[int, typer.Option(help="Groups of landmarks left out in turn.")] = 10,
    rounds: Annotated[int, typer.Option(help="Refinements between the best and its neighbours.")] = 2,
    n_jobs: Annotated[int | None, typer.Option(help="Processes side by side; -1: one a core.")] = None,
    missing: Missing = None,
    negative_is_missing: NegativeIsMissing = False,
    curves: Curves = False,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Find the settings with the least error on landmarks left out, measured in the sensors' own frames.

    Examples:

        kernelgpa tune scans.csv -o settings.toml

        kernelgpa tune scans.csv --bandwidth 0.1,0.25,0.5,1 --smoothing 0.01,0.1,1 --folds 20

        kernelgpa register --config settings.toml -o out
    """
    if method.value not in GRIDS:
        raise InvalidSetting(f"{method.value} warps have nothing to tune; use --method kernel or tps")
    grid: dict[str, list[Any]] = dict(GRIDS[method.value])
    for name, text in (("bandwidth", bandwidth), ("smoothing", smoothing), ("kernel", kernel)):
        if text is not None:
            grid[name] = _values(name, text)
    estimator = estimator_of({"name": method.value})
    odd = set(grid) - set(estimator.get_params(deep=False))
    if odd:
        raise InvalidSetting(f"{method.value} warps have no {', '.join(sorted(odd))}")
    if output is not None:
        require_writable_file(output)  # before what takes minutes
    gathered = read_clouds(files, reading(missing, negative_is_missing, curves))
    tell_gathered(gathered)
    with spoken_warnings():
        tuning = selection.tune(gathered.observations, estimator, grid, folds=folds, rounds=rounds, n_jobs=n_jobs)
    if output is not None:
        told = {"missing": missing, "negative_is_missing": negative_is_missing or None, "curves": curves or None}
        settings = {
            "input": {
                "files": [str(path.resolve()) for path in files],
                **{name: value for name, value in told.items() if value is not None},
            },
            "method": {"name": method.value, **tuning.best_trial.settings},
        }
        write_bytes(output, tomli_w.dumps(settings).encode())
        say(f"settings: {output}")
    if as_json:
        print_json({"best": tuning.best_trial.settings, "trials": [_plain_trial(one) for one in tuning.trials]})
    else:
        _print_table(tuning, gathered.unit)


def _values(name: str, text: str) -> list[Any]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    if name == "kernel":
        return words
    try:
        return [float(word) for word in words]
    except ValueError:
        raise InvalidSetting(f"--{name} is {text!r}; expected numbers with commas between them") from None


def _plain_trial(trial: selection.Trial) -> dict[str, Any]:
    score = None if trial.failure else trial.sensor_rms
    return {"settings": trial.settings, "sensor_rms": score, "failure": trial.failure, "seconds": trial.seconds}


def _print_table(tuning: selection.Tuning, unit: str | None) -> None:
    names = list(tuning.best_trial.settings)
    table = Table(*names, title="best settings by the error on landmarks left out", caption=_caption(tuning))
    table.add_column(f"error{f' ({unit})' if unit else ''}", justify="right")
    ordered = sorted(tuning.trials, key=lambda trial: trial.sensor_rms)
    for trial in ordered[:10]:
        table.add_row(*(_word(trial.settings.get(name)) for name in names), f"{trial.sensor_rms:.4g}")
    Console().print(table)


def _caption(tuning: selection.Tuning) -> str:
    edge = f"; best at the edge of the grid in {', '.join(tuning.at_edge)}" if tuning.at_edge else ""
    return f"{len(tuning.trials)} settings tried, the best {min(10, len(tuning.trials))} shown{edge}"


def _word(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)

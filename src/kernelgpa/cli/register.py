"""``kernelgpa register``: files in, a result folder out."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import FormatError, InvalidSetting
from ..estimators.base import GPA
from ..io.atomic import require_writable
from ..io.files import read_clouds
from ..io.matching import MatchedClouds
from ..io.model_file import METHODS
from ..io.text import is_unicode, short_repr
from ..report.result_folder import SUMMARY, About, require_replaceable, write_result
from ..trust import selection
from .common import (
    AsJson,
    Curves,
    Missing,
    NegativeIsMissing,
    Verbose,
    amount,
    app,
    reading,
    say,
    spoken_warnings,
    tell_gathered,
)


class Method(StrEnum):
    RIGID = "rigid"
    AFFINE = "affine"
    TPS = "tps"
    KERNEL = "kernel"


CLASSES: dict[str, type[GPA]] = {name: one for one, name in METHODS.items()}
GRIDS: dict[str, dict[str, list[float]]] = {
    "tps": {"smoothing": [1e-3, 1e-2, 1e-1, 1.0, 10.0]},
    "kernel": {"bandwidth": [0.15, 0.25, 0.5, 1.0], "smoothing": [1e-3, 1e-2, 1e-1, 1.0]},
}
INPUT_KEYS = ("files", "missing", "negative_is_missing", "curves")
METHOD_KEYS = (
    "name", "scaling", "kernel", "bandwidth", "smoothing", "control_points", "inducing", "modes", "scale_method",
    "robust", "method", "tune", "folds", "n_jobs",
)  # fmt: skip
OUTPUT_KEYS = ("unit", "title")
SPOKEN = {
    "disagreement in the map, on the landmarks it was made from": "disagreement",
    "the same in the sensors' own frames": "sensor_frame_error",
    "landmarks left out of one cloud each, off by": "left_out_error",
}
KINDS: dict[str, Any] = {
    "files": list, "missing": float | int, "negative_is_missing": bool, "curves": bool, "name": str, "tune": bool,
    "folds": int, "n_jobs": int, "unit": str, "title": str,
}  # fmt: skip
EXPECTED: dict[Any, str] = {
    list: "a list of names",
    float | int: "a number",
    bool: "true or false",
    str: "a text",
    int: "a whole number",
}


@dataclass(frozen=True)
class Plan:
    """Everything that a run needs: what was typed over what the configuration says."""

    input: dict[str, Any]
    method: dict[str, Any]
    output: dict[str, Any]

    def resolved(self) -> dict[str, Any]:
        return {"input": self.input, "method": self.method, "output": self.output}


Files = Annotated[list[Path] | None, typer.Argument(help="Files of landmarks or meshes, of any format that is read.")]


@app.command()
def register(
    files: Files = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="The result folder.")] = Path("out"),
    method: Annotated[Method | None, typer.Option(help="The warps.  [kernel]")] = None,
    bandwidth: Annotated[
        float | None, typer.Option(help="Kernel: width, as a multiple of the mean distance between points.  [0.25]")
    ] = None,
    smoothing: Annotated[float | None, typer.Option(help="Kernel and tps: the price of bending.  [0.1, 0.01]")] = None,
    kernel: Annotated[
        str | None, typer.Option(help="Kernel: gaussian, laplacian, matern32, matern52 or wendland.  [gaussian]")
    ] = None,
    control_points: Annotated[int | None, typer.Option(help="Tps: control points an axis.  [5]")] = None,
    inducing: Annotated[
        int | None, typer.Option(help="Kernel: centres at so many points of each cloud.  [all]")
    ] = None,
    scaling: Annotated[bool | None, typer.Option(help="Rigid: a size for each cloud too.")] = None,
    modes: Annotated[str | None, typer.Option(help="auto, paper, or how many eigenvectors.  [auto]")] = None,
    robust: Annotated[
        str | None, typer.Option(help="Give wrong matches less weight: huber, tukey or geman-mcclure.")
    ] = None,
    tune: Annotated[
        bool | None, typer.Option("--tune", help="Find bandwidth and smoothing by cross-validation.")
    ] = None,
    folds: Annotated[int | None, typer.Option(help="Of that cross-validation.  [10]")] = None,
    n_jobs: Annotated[
        int | None, typer.Option(help="Clouds, or settings of --tune, at a time; -1: one per core.")
    ] = None,
    missing: Missing = None,
    negative_is_missing: NegativeIsMissing = False,
    curves: Curves = False,
    unit: Annotated[str | None, typer.Option(help="The unit of the coordinates, where the files do not tell.")] = None,
    title: Annotated[str | None, typer.Option(help="The title of the report.")] = None,
    config: Annotated[Path | None, typer.Option(help="A settings.toml; what is typed here goes first.")] = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Register the clouds of some files and write a result folder.

    The folder holds the map (map.csv, map.ply), the poses (poses.tum), the model (model.npz), what was done
    (settings.toml, summary.json) and a page to look at (report.html).  A result that is there is replaced, whole.

    Examples:

        kernelgpa register skulls/*.mrk.json -o out

        kernelgpa register scans.csv -o out --method tps --smoothing 0.1 --unit mm

        kernelgpa register scans.csv -o out --tune --robust geman-mcclure

        kernelgpa register --config out/settings.toml -o again
    """
    typed_input = {
        "files": [str(path) for path in files] if files else None,
        "missing": missing,
        "negative_is_missing": negative_is_missing or None,
        "curves": curves or None,
    }
    typed_method = {
        "name": None if method is None else method.value,
        "scaling": scaling,
        "kernel": kernel,
        "bandwidth": bandwidth,
        "smoothing": smoothing,
        "control_points": control_points,
        "inducing": inducing,
        "modes": modes_of(modes),
        "robust": robust,
        "tune": tune,
        "folds": folds,
        "n_jobs": n_jobs,
    }
    plan = planned(config, typed_input, typed_method, {"unit": unit, "title": title})
    require_replaceable(output)  # this and the next before any work
    require_writable(output)
    with spoken_warnings() as told:
        run(plan, output, told, as_json)


def run(plan: Plan, output: Path, told: list[str], as_json: bool) -> None:
    gathered = gathered_files(plan)
    tell_gathered(gathered)
    gpa, tuning = fitted(plan, gathered)
    unit = plan.output.get("unit") or gathered.unit
    if gathered.unit and unit != gathered.unit:
        raise InvalidSetting(f"--unit is {unit!r} and the files are in {gathered.unit!r}; leave --unit out")
    resolved = _resolved(plan, gpa, unit)
    about = About(
        title=plan.output.get("title") or output.resolve().name,
        unit=unit,
        frame=gathered.frame,
        matched=gathered.rule,
        notes=(*_frame_note(gathered), *gathered.notes, *told),
        faces=gathered.faces,
        tuning=tuning,
        settings=resolved,
    )
    summary = write_result(gpa, output, about)[SUMMARY].decode()
    typer.echo(summary.rstrip() if as_json else _short(json.loads(summary), output))


def _frame_note(gathered: MatchedClouds) -> list[str]:
    return [f"all coordinates are in the frame {gathered.frame}"] if gathered.frame else []


def planned(config: Path | None, *typed: dict[str, Any]) -> Plan:
    """What was typed, over what the configuration says."""
    known = _read_config(config) if config is not None else {}
    parts = []
    for name, keys, own in zip(
        ("input", "method", "output"), (INPUT_KEYS, METHOD_KEYS, OUTPUT_KEYS), typed, strict=True
    ):
        section = known.get(name, {})
        if not isinstance(section, dict) or not set(section) <= set(keys):
            odd = ", ".join(sorted(set(section) - set(keys))) if isinstance(section, dict) else section
            raise FormatError(config, None, f"[{name}] has {odd}", f"expected {', '.join(keys)}")
        merged = {**section, **{key: value for key, value in own.items() if value is not None}}
        _require_types(merged)
        parts.append(merged)
    if not parts[0].get("files"):
        raise InvalidSetting("no file is given; expected kernelgpa register FILE... -o OUT, or --config settings.toml")
    return Plan(*parts)


def _require_types(section: dict[str, Any]) -> None:
    """What a configuration may say of anything but the method, whose own checks do the rest."""
    for key, value in section.items():
        kind = KINDS.get(key)
        right = kind is None or (isinstance(value, kind) and (kind is bool or not isinstance(value, bool)))
        if isinstance(value, float | int) and not isinstance(value, bool):
            right = right and -1e300 < value < 1e300
        if isinstance(value, str):
            right = right and is_unicode(value)
        if not right:
            raise InvalidSetting(f"{key} is {short_repr(str(value))}; expected {EXPECTED.get(kind, 'another value')}")


def _read_config(path: Path) -> dict[str, Any]:
    try:
        if path.exists() and not path.is_file():
            raise FormatError(path, None, "it is no file", "expected settings.toml of a result folder")
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # TOML's own errors are such, and numbers of a thousand digits
        if isinstance(error, FormatError):
            raise
        raise FormatError(path, None, f"it is no TOML ({error})", "expected settings.toml of a result folder") from None


def gathered_files(plan: Plan) -> MatchedClouds:
    options = plan.input
    wanted = reading(options.get("missing"), bool(options.get("negative_is_missing")), bool(options.get("curves")))
    files = options["files"]
    if not isinstance(files, list) or not all(isinstance(one, str) for one in files):
        raise InvalidSetting(f"files is {files!r}; expected a list of names")
    return read_clouds(files, wanted)


def fitted(plan: Plan, gathered: MatchedClouds) -> tuple[GPA, selection.Tuning | None]:
    estimator = estimator_of(plan.method)
    if not plan.method.get("tune"):
        return estimator.fit(gathered.observations), None
    name = plan.method.get("name", "kernel")
    if name not in GRIDS:
        raise InvalidSetting(f"--tune has nothing to tune in {name} warps; use --method kernel or tps")
    folds, worker_count = plan.method.get("folds", 10), plan.method.get("n_jobs")
    typed = {key: [value] for key, value in plan.method.items() if key in GRIDS[name]}  # what is given is not tuned
    grid = {**GRIDS[name], **typed}
    tuning = selection.tune(gathered.observations, estimator, grid, folds=folds, n_jobs=worker_count)
    best = ", ".join(f"{key} {value:.3g}" for key, value in tuning.best_trial.settings.items())
    say(f"tuned over {len(tuning.trials)} settings: {best}")
    return tuning.best, tuning


def estimator_of(method: dict[str, Any]) -> GPA:
    """The estimator of a [method] section; an option that it does not have is named."""
    name = method.get("name", "kernel")
    if not isinstance(name, str) or name not in CLASSES:
        raise InvalidSetting(f"method {name!r} is unknown; use one of {', '.join(CLASSES)}")
    estimator = CLASSES[name]()
    settings = {key: value for key, value in method.items() if key not in ("name", "tune", "folds")}
    known = estimator.get_params(deep=False)
    if "n_jobs" not in known:
        settings.pop("n_jobs", None)
    for key in settings:
        if key not in known:
            raise InvalidSetting(f"{name} warps have no {key.replace('_', '-')}; they have {', '.join(known)}")
    estimator.set_params(**settings)
    estimator.check_settings()
    return estimator


def _resolved(plan: Plan, gpa: GPA, unit: str | None) -> dict[str, Any]:
    """Everything that the run came to, so that it can be run again as it was."""
    used = {key: value for key, value in gpa.get_params(deep=False).items() if value is not None}
    output = {**plan.output, **({} if unit is None else {"unit": unit})}
    files = [str(Path(one).resolve()) for one in plan.input["files"]]
    name = plan.method.get("name", "kernel")
    return {"input": {**plan.input, "files": files}, "method": {"name": name, **used}, "output": output}


def modes_of(text: str | None) -> str | int | None:
    return int(text) if text is not None and re.fullmatch(r"[0-9]{1,9}", text) else text


def _short(summary: dict[str, Any], output: Path) -> str:
    """The summary in a few lines."""
    unit = f" {summary['unit']}" if summary["unit"] else ""
    lines = []
    for name, key in SPOKEN.items():
        figures = summary.get(key)
        if figures and figures["median"] is not None:
            median, worst = amount(figures["median"], unit), amount(figures["worst"], unit)
            lines.append(f"{name}: median {median}, worst {worst} at landmark {figures['worst_landmark']}")
    for one in summary["findings"][:5]:
        lines.append(f"{one['kind']}: {one['found']}; {one['action']}")
    if not summary["findings"]:
        lines.append("diagnosis: nothing found that may be wrong")
    return "\n".join([*lines, f"result: {output}", f"report: {output / 'report.html'}"])

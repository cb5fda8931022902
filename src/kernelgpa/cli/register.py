"""``kernelgpa register``: files in, a result folder out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from ..errors import InvalidSetting
from ..estimators.base import GPA
from ..io.atomic import require_writable
from ..io.attributes import Attributes, read_attributes
from ..io.files import FORMATS, read_clouds
from ..io.links import read_links
from ..io.matching import MatchedClouds
from ..report.metadata import Metadata
from ..report.result_folder import require_replaceable, write_result
from ..report.summary import ErrorStatistics, Summary
from ..trust import selection
from . import options
from .app import app
from .messages import formatted, print_matching, print_message, printed_warnings, use_words_of, worded
from .options.groups import MatchOptions, MethodOptions, ReportOptions, with_option_groups
from .settings import RunSettings, run_settings

MOST_FINDINGS = 5  # that are printed; the report lists all


@app.command()
@with_option_groups
def register(
    files: options.OptionalFiles = None,
    *,
    output: options.ResultFolder = Path("out"),
    reading: MatchOptions,
    method: MethodOptions,
    report: ReportOptions,
    config: options.Config = None,
    as_json: options.AsJson = False,
    verbose: options.Verbose = False,
) -> None:
    """Register the clouds of files and write a result folder.

    The folder holds the map (map.csv, map.ply), the poses (poses.tum, poses.kitti), tables (aligned.csv, clouds.csv,
    landmarks.csv, findings.csv, suspicious.csv, with --tune tuning.csv), the model (model.npz), the settings
    (settings.toml), statistics (summary.json) and a report to open in a browser (report.html).  An earlier result in
    the same folder is replaced.

    Examples:

        kernelgpa register skulls -o out --method rigid --scaling --metadata species.csv

        kernelgpa register walk.c3d -o out --frames 100:400:4

        kernelgpa register scans.csv -o out --method tps --smoothing 0.1 --unit mm

        kernelgpa register scans.csv -o out --tune --robust tukey

        kernelgpa register --config out/settings.toml -o again
    """
    given: dict[str, Any] = {
        "files": [str(path) for path in files] if files else None,
        **reading.given(),
        **method.given(),
        **report.given(),
    }
    settings = run_settings(config, given)
    settings.method.estimator()  # checks the method's settings before the files are read
    if settings.method.tune:
        settings.method.grid()
    use_words_of(settings.files, settings.read_options.recursive)
    require_replaceable(output)  # this and the next before any work
    require_writable(output)
    with printed_warnings() as warnings:
        summary = _register(settings, output, warnings)
    typer.echo(summary.to_json() if as_json else _short_text(summary, output))


def _register(settings: RunSettings, output: Path, warnings: list[str]) -> Summary:
    matched = read_clouds(settings.files, settings.read_options)
    print_matching(matched)
    unit = settings.unit or matched.unit
    if matched.unit and unit != matched.unit:
        raise InvalidSetting(f"--unit is {unit!r}, but the files are in {matched.unit!r}; omit --unit")
    attributes, attribute_notes = _attributes(settings, matched)
    links = matched.links if settings.links is None else read_links(Path(settings.links), matched.landmarks)
    gpa, tuning = _fitted(settings, matched)
    frame_note = [f"all coordinates are in the frame {matched.frame}"] if matched.frame else []
    metadata = Metadata(
        title=settings.title or output.resolve().name,
        unit=unit,
        times=matched.times,
        frame=matched.frame,
        matched_by=matched.rule,
        kind=matched.kind,
        from_command_line=True,
        attributes=attributes,
        links=links,
        procrustes=settings.procrustes,
        notes=(*frame_note, *matched.notes, *attribute_notes, *warnings),
        faces=matched.faces,
        tuning=tuning,
        settings=settings.resolved(gpa, unit),
    )
    return write_result(gpa, output, metadata)


def _attributes(settings: RunSettings, matched: MatchedClouds) -> tuple[Attributes, list[str]]:
    if settings.metadata is None:
        return {}, []
    attributes, notes = read_attributes(Path(settings.metadata), matched.names, list(FORMATS))
    for note in notes:
        print_message(f"note: {note}")
    return attributes, notes


def _fitted(settings: RunSettings, matched: MatchedClouds) -> tuple[GPA, selection.Tuning | None]:
    method = settings.method
    estimator = method.estimator()
    if not method.tune:
        return estimator.fit(matched.observations), None
    tuning = selection.tune(matched.observations, estimator, method.grid(), folds=method.folds, n_jobs=method.n_jobs)
    best = ", ".join(f"{key} {value:.3g}" for key, value in tuning.best_trial.settings.items())
    failed = f"; {tuning.failures} could not be computed" if tuning.failures else ""
    print_message(f"tuned: the best of {len(tuning.trials)} settings is {best}{failed}")
    return tuning.best, tuning


def _short_text(summary: Summary, output: Path) -> str:
    """The summary in a few lines, in the words of what was registered."""
    lines = [
        *_error_line("disagreement in the map, on the landmarks of the fit", summary.disagreement, summary),
        *_error_line("sensor-frame error of landmarks left out of a cloud", summary.sensor_frame_error, summary),
        *_error_line("residual of the same landmarks in the map", summary.left_out_error, summary),
    ]
    for finding in summary.findings[:MOST_FINDINGS]:
        lines.append(f"{'note: ' if finding.note else ''}{finding.kind}: {finding.found}; {finding.action}")
    if all(finding.note for finding in summary.findings):
        lines.append("diagnosis: every check passed")
    if summary.automatic:
        lines.insert(0, worded(f"settings: {summary.automatic}"))
    return "\n".join([*lines, f"result: {output}", f"report: {output / 'report.html'}"])


def _error_line(name: str, errors: ErrorStatistics, summary: Summary) -> list[str]:
    if errors.median is None:
        return []
    suffix = f" {summary.unit}" if summary.unit else ""
    median, worst = formatted(errors.median, suffix), formatted(errors.worst, suffix)
    return [worded(f"{name}: median {median}, worst {worst} (landmark {errors.worst_landmark})")]

"""``kernelgpa shape`` and ``kernelgpa impute``: shape models of files, and files with unseen landmarks filled in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from ..errors import InvalidSetting
from ..estimators import KernelGPA
from ..io.atomic import require_writable, write_folder
from ..io.attributes import Attributes, read_attributes
from ..io.completed import SD_TABLE, CompletedFiles, deviation_table
from ..io.files import FORMATS, read_files
from ..io.landmark_file import LandmarkFile, ReadOptions
from ..io.matching import MatchedClouds, match_clouds
from ..observations import Observations
from ..report.metadata import Metadata
from ..report.shape_folder import read_shape_model, require_replaceable_shapes, write_shapes
from ..shape import ShapeModel
from ..typing import Array, BoolArray, Name
from . import options
from .app import app
from .messages import formatted, print_matching, print_message, printed_warnings, use_words_of, worded
from .options.groups import MatchOptions, with_option_groups
from .settings import run_settings

SETTINGS = "settings.toml"


class ImputeMethod(StrEnum):
    AUTO = "auto"
    SHAPE = "shape"
    KERNEL = "kernel"


FilesOrFolder = Annotated[
    list[Path], typer.Argument(help="Files of landmarks, or the result folder of a registration.")
]
Modes = Annotated[int | None, typer.Option("--modes", help="How many modes are kept.  [all]")]
Sizes = Annotated[bool, typer.Option("--scaling", help="Divide each cloud by its size factor.")]
Filled = Annotated[Path, typer.Option("--output", "-o", help="The new folder to write.")]
ImputeBy = Annotated[
    ImputeMethod, typer.Option("--method", help="How unseen landmarks are predicted; auto: shape from 3 clouds on.")
]
LearnedModel = Annotated[
    Path | None,
    typer.Option("--model", help="A folder of kernelgpa shape: the files hold new clouds, which its model completes."),
]


@dataclass(frozen=True)
class Sources:
    """The files of a command, and their clouds with matched landmarks."""

    paths: list[Path]
    files: list[LandmarkFile]
    options: ReadOptions
    matched: MatchedClouds
    attributes_file: str | None  # the table of the clouds' attributes


@app.command()
@with_option_groups
def shape(
    files: FilesOrFolder,
    *,
    output: Filled = Path("shapes"),
    modes: Modes = None,
    scaling: Sizes = False,
    reading: MatchOptions,
    metadata: options.Attributes = None,
    unit: options.Unit = None,
    title: options.Title = None,
    verbose: options.Verbose = False,
) -> None:
    """Learn a shape model: mean, modes, scores, sizes, outliers.

    The folder holds the aligned clouds (aligned.csv), the modes (modes.csv), the tables of the report (clouds.csv,
    landmarks.csv, findings.csv), the model (model.npz), plots, and the report (report.html) with a slider through each
    mode.  With --metadata, the scores are coloured by the first column of the table.

    Examples:

        kernelgpa shape skulls/*.mrk.json -o shapes --scaling

        kernelgpa shape skulls -o shapes --scaling --metadata species.csv

        kernelgpa shape out -o shapes
    """
    require_replaceable_shapes(output)
    require_writable(output)
    sources = _read(files, reading, metadata)
    about = _metadata(sources, unit, title or output.resolve().name)
    with printed_warnings():
        model = ShapeModel(n_modes=modes, scaling=scaling).fit(_seen(sources.matched)[0])
    write_shapes(model, output, about)
    typer.echo(worded(_summary(model, about.unit, output)))


def _metadata(sources: Sources, unit: str | None, title: str) -> Metadata:
    matched = sources.matched
    attributes: Attributes = {}
    if sources.attributes_file is not None:
        attributes, notes = read_attributes(Path(sources.attributes_file), matched.names, list(FORMATS))
        for note in notes:
            print_message(f"note: {note}")
    every_landmark = not np.isnan(matched.points[:, :, 0]).all(axis=0).any()
    faces = matched.faces if every_landmark else None
    return Metadata(
        title=title,
        unit=unit or matched.unit,
        kind=matched.kind,
        from_command_line=True,
        notes=matched.notes,
        faces=faces,
        attributes=attributes,
    )


@app.command()
@with_option_groups
def impute(
    files: FilesOrFolder,
    *,
    output: Filled = Path("filled"),
    method: ImputeBy = ImputeMethod.AUTO,
    scaling: Sizes = False,
    model: LearnedModel = None,
    reading: MatchOptions,
    verbose: options.Verbose = False,
) -> None:
    """Write the files again with unseen landmarks filled in.

    Each file keeps its format, frame and unit.

    Seen points are not changed.  The table standard_deviations.csv lists every landmark that was filled in, with its
    position and its standard deviation.  A file whose format cannot hold the result is named before anything is
    written.  With --frames or --markers, the files hold the chosen frames and markers only.

    Examples:

        kernelgpa impute skulls/*.tps -o filled

        kernelgpa impute walk.c3d -o filled --frames 100:400

        kernelgpa impute new.mrk.json -o filled --model shapes
    """
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise InvalidSetting(f"{output} exists and is not an empty folder; give a new folder")
    require_writable(output)
    learned = None if model is None else _loaded(model)
    sources = _read(files, reading)
    matched = sources.matched if learned is None else _with_landmarks(sources.matched, learned)
    if learned is None and len(matched.names) == 1:
        raise InvalidSetting(
            "there is 1 cloud, and nothing to predict its landmarks from; give several, or --model with a folder of "
            "kernelgpa shape"
        )
    targets = CompletedFiles(sources.paths, sources.files, sources.options, matched)
    targets.require_formats()  # before any work
    with printed_warnings():
        whole, deviations = _completed(matched, method, scaling) if learned is None else _by_model(matched, learned)
        rendered = targets.rendered(whole)
    write_folder(output.resolve(), {**rendered, SD_TABLE: deviation_table(matched, whole, deviations)})
    count = int(np.sum(np.isnan(matched.points[:, :, 0]) & ~np.isnan(whole[:, :, 0])))
    written = "1 file" if len(rendered) == 1 else f"{len(rendered)} files"
    filled = "1 landmark" if count == 1 else f"{count} landmarks"
    typer.echo(worded(f"{filled} filled in; {written} and {SD_TABLE} in {output}"))


def _loaded(path: Path) -> ShapeModel:
    model = read_shape_model(path)
    if model is None:
        raise InvalidSetting(f"{path} is no shape model; give a folder that kernelgpa shape has written")
    return model


def _with_landmarks(matched: MatchedClouds, model: ShapeModel) -> MatchedClouds:
    """The clouds with all landmarks of the model; landmarks that it does not know are named."""
    landmarks = model.observations_.landmarks
    unknown = [name for name in matched.landmarks if name not in set(landmarks)]
    if len(unknown) == len(matched.landmarks):
        raise InvalidSetting(
            f"the model has no landmark {unknown[0]!r}, and its first is {landmarks[0]!r}; give --match number or "
            "--label-pattern, so that labels are those of the model"
        )
    for name in unknown:
        print_message(f"note: the model has no landmark {name!r}; it stays as it is")
    absent = [name for name in landmarks if name not in set(matched.landmarks)]
    n, _, d = matched.points.shape
    return replace(
        matched,
        points=np.concatenate([matched.points, np.full((n, len(absent), d), np.nan)], axis=1),
        weights=np.hstack([matched.weights, np.zeros((n, len(absent)))]),
        landmarks=[*matched.landmarks, *absent],
    )


def _by_model(matched: MatchedClouds, model: ShapeModel) -> tuple[Array, Array]:  # (n, m, d), (n, m)
    """The clouds as a model of other clouds completes them, and standard deviations; NaN where it cannot."""
    column = {name: j for j, name in enumerate(matched.landmarks)}
    columns = [column[name] for name in model.observations_.landmarks]
    whole, deviations = matched.points.copy(), np.full(matched.points.shape[:2], np.nan)
    points, covariances = model.impute(matched.points[:, columns], return_cov=True)
    whole[:, columns], deviations[:, columns] = points, _deviations(covariances)
    return whole, deviations


def _completed(matched: MatchedClouds, method: ImputeMethod, scaling: bool) -> tuple[Array, Array]:
    """The clouds as they complete each other, and standard deviations; NaN for a landmark that no cloud saw."""
    observations, seen = _seen(matched)
    points, covariances = _predicted(observations, method, scaling, matched.unit)
    whole, deviations = np.full(matched.points.shape, np.nan), np.full(matched.points.shape[:2], np.nan)
    whole[:, seen], deviations[:, seen] = points, _deviations(covariances)
    return whole, deviations


def _deviations(covariances: Array) -> Array:  # (n, m, d, d) -> (n, m)
    """Standard deviations along an axis."""
    return np.asarray(np.sqrt(np.trace(covariances, axis1=2, axis2=3) / covariances.shape[-1]))


def _predicted(
    observations: Observations, method: ImputeMethod, scaling: bool, unit: str | None
) -> tuple[Array, Array]:
    """All landmarks of all clouds, and the covariances of those that were not seen."""
    if method is ImputeMethod.KERNEL or (method is ImputeMethod.AUTO and len(observations.clouds) < 3):
        found = KernelGPA().fit(observations).impute(return_cov=True)
        assert isinstance(found, tuple)
        return found
    model = ShapeModel(scaling=scaling).fit(observations)
    error = model.expected_error_
    suffix = f" {unit}" if unit else ""
    mean, median = formatted(error.mean, suffix), formatted(error.median, suffix)
    print_message(f"expected error of a landmark that is filled in: mean {mean}, median {median}")
    found = model.impute(return_cov=True)
    assert isinstance(found, tuple)
    return found


def _read(given: list[Path], reading: MatchOptions, attributes: Path | None = None) -> Sources:
    """The files given, or those of a result folder with its settings; options that are given override them."""
    chosen = {**reading.given(), "metadata": None if attributes is None else str(attributes)}
    if len(given) == 1 and (given[0] / SETTINGS).is_file():
        settings = run_settings(given[0] / SETTINGS, chosen)
    else:
        settings = run_settings(None, {**chosen, "files": [str(path) for path in given]})
    paths, read_options = settings.files, settings.read_options
    use_words_of(paths, read_options.recursive)
    with printed_warnings():
        read, notes = read_files(paths, read_options)
    matched = match_clouds(read, options=read_options, notes=notes)
    print_matching(matched)
    return Sources(
        [Path(path) for path, _ in read], [file for _, file in read], read_options, matched, settings.metadata
    )


def _seen(matched: MatchedClouds) -> tuple[Observations, BoolArray]:
    """The landmarks that some cloud saw, and which these are; the others are named."""
    seen: BoolArray = np.any(~np.isnan(matched.points[:, :, 0]), axis=0)
    for j in np.flatnonzero(~seen):
        print_message(f"note: no cloud saw landmark {matched.landmarks[j]!r}; it is left out")
    names = [name for name, own in zip(matched.landmarks, seen, strict=True) if own]
    points, weights = matched.points[:, seen], matched.weights[:, seen]
    return Observations.from_array(points, weights, clouds=matched.names, landmarks=names), seen


def _listed(what: str, names: Sequence[Name]) -> list[str]:
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    return [f"{what}: {', '.join(str(name) for name in names[:10])}{more}"] if names else []


def _summary(model: ShapeModel, unit: str | None, output: Path) -> str:
    suffix = f" {unit}" if unit else ""
    shares = ", ".join(f"{100 * share:.0f}" for share in model.explained_variance_ratio_[:5])
    lines = [
        f"modes: {len(model.variances_)}; the first explain {shares} % of the variance",
        f"expected error of a predicted landmark: mean {model.expected_error_.mean:.4g}{suffix}",
    ]
    rejected = [one for one in model.suspicious_observations() if one.rejected]
    if len(rejected) > 5:
        lines.append(f"{len(rejected)} observations were rejected, of which the farthest are:")
    for one in rejected[:5]:
        lines.append(
            f"rejected: landmark {one.landmark} of {one.cloud}, {one.residual:.4g}{suffix} from its prediction"
        )
    lines += _listed("outliers by their distance from the mean shape", model.outliers_)
    lines += _listed("clouds that the others predict badly, which count less", model.badly_predicted_)
    return "\n".join([*lines, f"result: {output}", f"report: {output / 'report.html'}"])

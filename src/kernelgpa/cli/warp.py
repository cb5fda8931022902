"""``kernelgpa warp`` and ``kernelgpa evaluate``: the use of a result folder."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from ..errors import FormatError, InvalidObservations, InvalidSetting
from ..estimators.base import GPA
from ..io.atomic import require_writable, require_writable_file
from ..io.files import drop_unsupported, read, read_clouds, suffix_of, write
from ..io.landmark_file import LabelledCloud, LandmarkFile
from ..observations.identifiers import index_of
from ..report.metadata import Metadata
from ..report.result_folder import load_with_metadata
from ..trust.agreement import distribution
from ..trust.metrics import consistency, map_error, sensor_error
from ..typing import Array, Name
from . import options
from .app import app
from .messages import formatted, print_json, print_matching, print_message, printed_warnings, use_words, worded
from .options.groups import FileOptions, with_option_groups

Result = Annotated[Path, typer.Argument(help="A result folder.")]
Mesh = Annotated[Path, typer.Argument(help="A mesh or a file of points, in the cloud's own frame.")]
CloudName = Annotated[str, typer.Option(help="The cloud that the points belong to: its name, or its number from 0.")]
WarpedFile = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="The file to write.  [the same name in the folder warped, or unwarped]"),
]
Inverse = Annotated[bool, typer.Option("--inverse", help="Warp from the map back into the cloud.")]


@app.command()
def warp(
    result: Result,
    mesh: Mesh,
    cloud: CloudName,
    output: WarpedFile = None,
    inverse: Inverse = False,
    verbose: options.Verbose = False,
) -> None:
    """Warp a mesh or points of one cloud into the map, or back.

    Faces, labels and the format are kept.  Points that cannot be warped back, because the warp folds there, are left
    empty if the format allows it, and are an error otherwise, as in meshes.

    Examples:

        kernelgpa warp out liver3.ply --cloud scan3

        kernelgpa warp out tumour.csv --cloud scan3 -o tumour-in-map.csv

        kernelgpa warp out tumour-in-map.csv --cloud scan7 --inverse -o tumour-in-scan7.csv
    """
    suffix_of(mesh)
    folder = Path("unwarped" if inverse else "warped")  # not beside the input, whose folder may be registered again
    target = output or folder / mesh.name
    suffix_of(target)  # an error if there is no such format
    _require_target(target, mesh, given=output is not None)
    gpa, metadata = load_with_metadata(result)
    use_words(metadata.kind, (*gpa.observations_.names, *gpa.observations_.landmarks))
    name = cloud_of(gpa, cloud)
    landmark_file = read(mesh)
    original = cloud_in(landmark_file, str(name), mesh)
    for note in _differences(landmark_file, metadata):
        print_message(f"note: {note}")
    with printed_warnings():
        points = (gpa.inverse_transform if inverse else gpa.transform)(original.points, name)
    warped = replace(original, name=str(name) if inverse else original.name, points=points)
    held, losses = drop_unsupported(replace(landmark_file, clouds=(warped,)), suffix_of(target))
    for note in (*landmark_file.notes, *losses):
        print_message(f"note: {note}")
    target.parent.mkdir(exist_ok=True)
    write(target, held)
    typer.echo(str(target))


def _require_target(target: Path, mesh: Path, given: bool) -> None:
    """Raise an error unless the file can be written; the folder of the default is created later."""
    if given:
        require_writable_file(target)
        return
    require_writable(target.parent)
    if target.resolve() == mesh.resolve():
        raise InvalidSetting(f"{mesh} would be replaced; give --output")


def cloud_in(landmark_file: LandmarkFile, name: str, path: Path) -> LabelledCloud:
    """The only cloud of a file, or the one that has the name."""
    if len(landmark_file.clouds) == 1:
        return landmark_file.clouds[0]
    for one in landmark_file.clouds:
        if one.name == name:
            return one
    found = ", ".join(one.name for one in landmark_file.clouds[:5])
    raise FormatError(
        path,
        None,
        f"it holds {len(landmark_file.clouds)} clouds ({found}, ...), none of them {name!r}",
        "give a file with one cloud, or with that one",
    )


def _differences(landmark_file: LandmarkFile, metadata: Metadata) -> list[str]:
    """Where the frame or unit of a file differs from that of the result."""
    notes = []
    for what, own, expected in (
        ("frame", landmark_file.frame, metadata.frame),
        ("unit", landmark_file.unit, metadata.unit),
    ):
        if expected and own != expected:
            found = f"is in {own}" if own else f"does not state its {what}"
            notes.append(f"the {what} of the result is {expected}, but the file {found}")
    return notes


def cloud_of(gpa: GPA, text: str) -> Name:
    """The cloud with this name or, if there is none, with this number."""
    names = gpa.observations_.names
    by_text: dict[Name, int] = {str(name): t for t, name in enumerate(names)}
    if text in by_text:
        return names[by_text[text]]
    return names[index_of(int(text) if re.fullmatch(r"-?[0-9]{1,9}", text) else text, by_text, "cloud")]


# -- evaluate --


@dataclass(frozen=True)
class Statistics:
    mean: float | str | None
    median: float | str | None
    worst: float | str | None

    @classmethod
    def of(cls, values: Array) -> Statistics:
        found = distribution(values)
        return cls(found["mean"], found["median"], found["worst"])


@dataclass(frozen=True)
class Evaluation:
    """How well a result registers points that it was not fitted to; lengths in ``unit``."""

    points: int
    clouds: int
    unit: str | None
    disagreement: Statistics
    sensor_error: Statistics
    map_error: float | None  # None: no truth was given

    @classmethod
    def of(cls, gpa: GPA, points: Array, unit: str | None, true_map: Array | None) -> Evaluation:
        warped = gpa.transform_clouds(points)
        shared = np.sum(~np.isnan(points[:, :, 0]), axis=0) >= 2  # a single cloud always agrees with itself
        return cls(
            points=points.shape[1],
            clouds=int(np.sum(~np.isnan(points).all(axis=(1, 2)))),
            unit=unit,
            disagreement=Statistics.of(np.where(shared, consistency(warped), np.nan)),
            sensor_error=Statistics.of(sensor_error(warped, gpa.jacobians(points))),
            map_error=None if true_map is None else map_error(gpa.map_, true_map),
        )


@app.command()
@with_option_groups
def evaluate(
    result: Result,
    tests: options.Files,
    *,
    truth: Annotated[Path | None, typer.Option(help="The true map, with the same labels, to compare with.")] = None,
    reading: FileOptions,
    as_json: options.AsJson = False,
    verbose: options.Verbose = False,
) -> None:
    """Measure the errors of a result on points not used in its fit.

    The test files hold other points of the same clouds, under the same names and with known correspondences.  The
    disagreement is the distance between a point's images in the map and their mean over the clouds; the sensor-frame
    error is the distance to the mean of the other clouds, measured in each cloud's own frame.

    Examples:

        kernelgpa evaluate out test-points.csv

        kernelgpa evaluate out test-points.csv --truth map.csv --json
    """
    gpa, metadata = load_with_metadata(result)
    use_words(metadata.kind, (*gpa.observations_.names, *gpa.observations_.landmarks))
    matched = read_clouds(tests, reading.read_options())
    print_matching(matched)
    points = _in_cloud_order(gpa, matched.names, matched.points)
    true_map = None if truth is None else _true_map(gpa, truth)
    with printed_warnings():
        evaluation = Evaluation.of(gpa, points, metadata.unit, true_map)
    if as_json:
        record = asdict(evaluation)
        print_json(record if truth is not None else {key: record[key] for key in record if key != "map_error"})
    else:
        Console().print(_table(evaluation))


def _table(evaluation: Evaluation) -> Table:
    unit = f" {evaluation.unit}" if evaluation.unit else ""
    table = Table(
        "", "mean", "median", "worst", title=worded(f"{evaluation.points} points of {evaluation.clouds} clouds")
    )
    for name, one in (
        ("disagreement", evaluation.disagreement),
        ("sensor-frame error", evaluation.sensor_error),
    ):
        table.add_row(worded(name), *(formatted(value, unit) for value in (one.mean, one.median, one.worst)))
    if evaluation.map_error is not None:
        table.add_row("map error", formatted(evaluation.map_error, unit), "", "")
    return table


def _in_cloud_order(gpa: GPA, names: list[str], points: Array) -> Array:  # (n, k, d)
    """The test points in the order of the result's clouds; NaN for clouds without any."""
    known = {str(name): t for t, name in enumerate(gpa.observations_.names)}
    if points.shape[2] != gpa.observations_.dimension:
        raise InvalidObservations(
            f"the test points are {points.shape[2]}D, but the result is {gpa.observations_.dimension}D; "
            "give points of the same dimension"
        )
    ordered = np.full((len(known), *points.shape[1:]), np.nan)
    for name, own in zip(names, points, strict=True):
        if str(name) not in known:
            shown = ", ".join(list(known)[:5])
            raise InvalidObservations(f"test cloud {name!r} is not in the result; its clouds are {shown}, ...")
        ordered[known[str(name)]] = own
    return ordered


def _true_map(gpa: GPA, path: Path) -> Array:  # (m, d)
    """The true positions of the landmarks; NaN for those that the file does not name."""
    truth = read(path).clouds[0]
    rows = {label: i for i, label in enumerate(truth.labels)}
    found = [(j, rows[str(name)]) for j, name in enumerate(gpa.observations_.landmarks) if str(name) in rows]
    if len(found) <= gpa.observations_.dimension:
        raise InvalidObservations(
            f"{path}: {len(found)} of its labels are landmarks of the result; label the landmarks as in the result"
        )
    positions = np.full_like(gpa.map_, np.nan)
    positions[[j for j, _ in found]] = truth.points[[i for _, i in found]]
    return positions

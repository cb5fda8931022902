"""``kernelgpa warp`` and ``kernelgpa evaluate``: what a result folder is for."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from ..errors import FormatError, InvalidObservations
from ..estimators.base import GPA
from ..io.atomic import require_writable_file
from ..io.base import Contents, Specimen
from ..io.files import fitted_to, read, read_clouds, suffix_of, write
from ..observations.identifiers import index_of
from ..report.result_folder import load_with_notes
from ..trust.agreement import distribution
from ..trust.metrics import consistency, map_error, sensor_error
from ..typing import Name
from .common import (
    AsJson,
    Curves,
    Inputs,
    Missing,
    NegativeIsMissing,
    Verbose,
    amount,
    app,
    print_json,
    reading,
    say,
    spoken_warnings,
    tell_gathered,
)

Result = Annotated[Path, typer.Argument(help="A result folder.")]


@app.command()
def warp(
    result: Result,
    mesh: Annotated[Path, typer.Argument(help="A mesh or a file of points, of any size, in the cloud's own frame.")],
    cloud: Annotated[str, typer.Option(help="The cloud that the points belong to: its name or its number from 0.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where it goes.  [NAME-warped beside the input]")
    ] = None,
    inverse: Annotated[bool, typer.Option("--inverse", help="From the map back into the cloud.")] = False,
    verbose: Verbose = False,
) -> None:
    """Take a mesh or points of one cloud into the map, or back.

    Faces, labels and the format stay as they are.  Points that cannot be taken back (where a warp folds) are an error
    for meshes and empty in files that can say so.

    Examples:

        kernelgpa warp out liver3.ply --cloud scan3

        kernelgpa warp out tumour.csv --cloud scan3 -o tumour-in-map.csv

        kernelgpa warp out tumour-in-map.csv --cloud scan7 --inverse -o tumour-in-scan7.csv
    """
    suffix = suffix_of(mesh)
    target = output or mesh.with_name(f"{mesh.name[: -len(suffix)]}-{'unwarped' if inverse else 'warped'}{suffix}")
    suffix_of(target)
    require_writable_file(target)
    gpa, about = load_with_notes(result)
    name = cloud_of(gpa, cloud)
    contents = read(mesh)
    own = specimen_of(contents, str(name), mesh)
    for note in _differences(contents, about):
        say(f"note: {note}")
    with spoken_warnings():
        moved = (gpa.inverse_transform if inverse else gpa.transform)(own.points, name)
    moved_specimen = replace(own, name=str(name) if inverse else own.name, points=moved)
    held, lost = fitted_to(replace(contents, specimens=(moved_specimen,)), suffix_of(target))
    for one in (*contents.notes, *lost):
        say(f"note: {one}")
    write(target, held)
    typer.echo(str(target))


def specimen_of(contents: Contents, name: str, path: Path) -> Specimen:
    """The only cloud of a file, or the one that has the name."""
    if len(contents.specimens) == 1:
        return contents.specimens[0]
    for one in contents.specimens:
        if one.name == name:
            return one
    found = ", ".join(one.name for one in contents.specimens[:5])
    raise FormatError(
        path,
        None,
        f"it holds {len(contents.specimens)} clouds ({found}, ...), none of them {name!r}",
        "give a file with one cloud, or with that one",
    )


def _differences(contents: Contents, about: dict[str, Any]) -> list[str]:
    """What a file says of its frame and unit against what the result is in."""
    notes = []
    for what, own in (("frame", contents.frame), ("unit", contents.unit)):
        known = about.get(what)
        if known and own != known:
            told = f"is in {own}" if own else "does not tell its own"
            notes.append(f"the result is in the {what} {known}, and the file {told}")
    return notes


def cloud_of(gpa: GPA, text: str) -> Name:
    """A cloud by its name or, where no name is equal to it, by its number."""
    names = gpa.observations_.names
    by_text: dict[Name, int] = {str(name): t for t, name in enumerate(names)}
    if text in by_text:
        return names[by_text[text]]
    return names[index_of(int(text) if re.fullmatch(r"-?[0-9]{1,9}", text) else text, by_text, "cloud")]


@app.command()
def evaluate(
    result: Result,
    tests: Inputs,
    truth: Annotated[Path | None, typer.Option(help="The true map, to compare with: landmarks labelled alike.")] = None,
    missing: Missing = None,
    negative_is_missing: NegativeIsMissing = False,
    curves: Curves = False,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """How well a result holds on points that it was not made from.

    The test files hold other points of the same clouds, under the same names, in correspondence with each other.
    They are taken into the map; the disagreement is how far the clouds' images of one point lie apart, the sensor error
    the same in the clouds' own frames, against the mean of the others.

    Examples:

        kernelgpa evaluate out test-points.csv

        kernelgpa evaluate out test-points.csv --truth map.csv --json
    """
    gpa, about = load_with_notes(result)
    gathered = read_clouds(tests, reading(missing, negative_is_missing, curves))
    tell_gathered(gathered)
    points = _by_cloud(gpa, gathered.names, gathered.points)
    with spoken_warnings():
        warped = gpa.transform_clouds(points)
        shared = np.sum(~np.isnan(points[:, :, 0]), axis=0) >= 2  # one cloud alone agrees with itself
        figures: dict[str, Any] = {
            "points": points.shape[1],
            "clouds": int(np.sum(~np.isnan(points).all(axis=(1, 2)))),
            "unit": about.get("unit"),
            "disagreement": _figures(np.where(shared, consistency(warped), np.nan)),
            "sensor_error": _figures(sensor_error(warped, gpa.jacobians(points))),
        }
    if truth is not None:
        figures["map_error"] = _against(gpa, truth)
    if as_json:
        print_json(figures)
        return
    unit = f" {figures['unit']}" if figures["unit"] else ""
    table = Table("", "mean", "median", "worst", title=f"{figures['points']} points of {figures['clouds']} clouds")
    for name, key in (("disagreement", "disagreement"), ("sensor error", "sensor_error")):
        row = [figures[key][one] for one in ("mean", "median", "worst")]
        table.add_row(name, *(amount(value, unit) for value in row))
    if truth is not None:
        table.add_row("map error", f"{figures['map_error']:.4g}{unit}", "", "")
    Console().print(table)


def _by_cloud(gpa: GPA, names: list[str], points: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The test points in the order of the result's clouds, NaN for a cloud that has none."""
    known = {str(name): t for t, name in enumerate(gpa.observations_.names)}
    if points.shape[2] != gpa.observations_.dimension:
        raise InvalidObservations(
            f"the test points are in {points.shape[2]}D, the result in {gpa.observations_.dimension}D"
        )
    ordered = np.full((len(known), *points.shape[1:]), np.nan)
    for name, own in zip(names, points, strict=True):
        if str(name) not in known:
            shown = ", ".join(list(known)[:5])
            raise InvalidObservations(f"test cloud {name!r} is not in the result; its clouds are {shown}, ...")
        ordered[known[str(name)]] = own
    return ordered


def _figures(values: np.ndarray[Any, Any]) -> dict[str, Any]:
    figures = distribution(values)
    return {"mean": figures["mean"], "median": figures["median"], "worst": figures["worst"]}


def _against(gpa: GPA, truth: Path) -> float:
    one = read(truth).specimens[0]
    place = {label: j for j, label in enumerate(one.labels)}
    true = np.full_like(gpa.map_, np.nan)
    found = [(j, place[str(name)]) for j, name in enumerate(gpa.observations_.landmarks) if str(name) in place]
    if len(found) <= gpa.observations_.dimension:
        raise InvalidObservations(f"{truth}: {len(found)} of its labels are landmarks of the result; label them alike")
    true[[j for j, _ in found]] = one.points[[i for _, i in found]]
    return map_error(gpa.map_, true)

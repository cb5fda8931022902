"""``kernelgpa warp`` and ``kernelgpa evaluate``: what a result folder is for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from ..errors import InvalidObservations
from ..folder import load_with_notes
from ..io.files import fitted_to, read, read_clouds, suffix_of, write
from ..metrics import consistency, map_error, sensor_error
from ..names import Name, index_of
from ..registration import GPA
from .common import (
    AsJson,
    Curves,
    Inputs,
    Missing,
    NegativeIsMissing,
    Verbose,
    app,
    plain,
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
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Where it goes.  [beside the input]")] = None,
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
    gpa, _ = load_with_notes(result)
    name = cloud_of(gpa, cloud)
    contents = read(mesh)
    with spoken_warnings():
        moved = tuple(
            replace(one, points=(gpa.inverse_transform if inverse else gpa.transform)(one.points, name))
            for one in contents.specimens
        )
    held, lost = fitted_to(replace(contents, specimens=moved), suffix_of(target))
    for one in (*contents.notes, *lost):
        say(f"note: {one}")
    write(target, held)
    typer.echo(str(target))


def cloud_of(gpa: GPA, text: str) -> Name:
    """A cloud by its name or, where no name is equal to it, by its number."""
    names = gpa.observations_.names
    by_text: dict[Name, int] = {str(name): t for t, name in enumerate(names)}
    if text in by_text:
        return names[by_text[text]]
    return names[index_of(int(text) if text.lstrip("-").isdigit() else text, by_text, "cloud")]


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
        figures: dict[str, Any] = {
            "points": points.shape[1],
            "clouds": int(np.sum(~np.isnan(points).all(axis=(1, 2)))),
            "unit": about.get("unit"),
            "disagreement": _figures(consistency(warped)),
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
        table.add_row(name, *("-" if value is None else f"{value:.4g}{unit}" for value in row))
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
    known = values[np.isfinite(values)]
    if not len(known):
        return {"mean": None, "median": None, "worst": None}
    return {"mean": plain(known.mean()), "median": plain(np.median(known)), "worst": plain(known.max())}


def _against(gpa: GPA, truth: Path) -> float:
    one = read(truth).specimens[0]
    place = {label: j for j, label in enumerate(one.labels)}
    true = np.full_like(gpa.map_, np.nan)
    found = [(j, place[str(name)]) for j, name in enumerate(gpa.observations_.landmarks) if str(name) in place]
    if len(found) <= gpa.observations_.dimension:
        raise InvalidObservations(f"{truth}: {len(found)} of its labels are landmarks of the result; label them alike")
    true[[j for j, _ in found]] = one.points[[i for _, i in found]]
    return map_error(gpa.map_, true)

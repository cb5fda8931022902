"""``kernelgpa convert`` and ``kernelgpa info``: files of one format into another, and what files hold."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from ..errors import FormatError, InvalidObservations, InvalidSetting
from ..io.base import Contents
from ..io.files import FORMATS, fitted_to, read, suffix_of, write
from ..io.matching import gather
from .common import (
    MATCHED,
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
)


@app.command()
def convert(
    files: Inputs,
    output: Annotated[Path, typer.Option("--output", "-o", help="A file, or a folder with --to for one file a cloud.")],
    to: Annotated[str | None, typer.Option(help="The ending of the files in that folder, such as .mrk.json.")] = None,
    missing: Missing = None,
    negative_is_missing: NegativeIsMissing = False,
    curves: Curves = False,
    verbose: Verbose = False,
) -> None:
    """Write the clouds of some files in another format.

    What the other format cannot hold is said.  Slicer files are in the frame LPS from then on.

    Examples:

        kernelgpa convert skulls/*.mrk.json -o skulls.csv

        kernelgpa convert skulls.tps -o skulls --to .mrk.json
    """
    contents = [read(path, reading(missing, negative_is_missing, curves)) for path in files]
    for path, one in zip(files, contents, strict=True):
        for note in one.notes:
            say(f"note: {path}: {note}")
    together = _together(contents)
    if to is None:
        _write(output, together)
        typer.echo(str(output))
        return
    suffix = to if to.startswith(".") else f".{to}"
    if suffix not in FORMATS:
        raise InvalidSetting(f"--to is {to!r}; expected one of {', '.join(FORMATS)}")
    output.mkdir(parents=True, exist_ok=True)
    for specimen in together.specimens:
        target = output / f"{file_name(specimen.name)}{suffix}"
        if target.exists():
            raise FormatError(target, None, "it is there already", "give an empty folder")
        _write(target, replace(together, specimens=(specimen,)))
        typer.echo(str(target))


def file_name(name: str) -> str:
    """A cloud's name as the name of a file, in its folder and nowhere else."""
    safe = "".join(c if c.isalnum() or c in "-_. +()" else "_" for c in name).strip(". ")
    return safe[:150] or "cloud"


def _write(path: Path, contents: Contents) -> None:
    held, lost = fitted_to(contents, suffix_of(path))
    for one in lost:
        say(f"note: {path}: {one}")
    write(path, held)


def _together(contents: list[Contents]) -> Contents:
    """Clouds of several files as one, labels as they are."""
    first = contents[0]
    if len(contents) == 1:
        return first
    if len({one.unit for one in contents}) > 1:
        raise InvalidObservations(f"the files are in different units, {', '.join(str(one.unit) for one in contents)}")
    return Contents(
        tuple(specimen for one in contents for specimen in one.specimens),
        labelled=any(one.labelled for one in contents),
        frame=next((one.frame for one in contents if one.frame), None),
        unit=first.unit,
    )


@app.command()
def info(
    files: Inputs,
    missing: Missing = None,
    negative_is_missing: NegativeIsMissing = False,
    curves: Curves = False,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """What files hold, and how their landmarks would be matched.

    Examples:

        kernelgpa info skulls/*.mrk.json

        kernelgpa info scans.csv --json
    """
    contents = [(str(path), read(path, reading(missing, negative_is_missing, curves))) for path in files]
    told = [{"file": path, **described(path, one)} for path, one in contents]
    try:
        gathered = gather(contents)
        matching: dict[str, Any] = {
            "clouds": len(gathered.names),
            "landmarks": len(gathered.landmarks),
            "matched_by": gathered.rule,
            "notes": list(gathered.notes),
        }
    except InvalidObservations as error:
        matching = {"problem": str(error)}
    if as_json:
        print_json({"files": told, "together": matching})
        return
    for one in told:
        typer.echo(_line(one))
        for note in one["notes"]:
            typer.echo(f"  note: {note}")
    typer.echo(_together_line(matching))


def described(path: str, contents: Contents) -> dict[str, Any]:
    sizes = [len(one.points) for one in contents.specimens]
    unseen = sum(int(np.isnan(one.points).any(axis=1).sum()) for one in contents.specimens)
    return {
        "format": FORMATS[suffix_of(Path(path))].name,
        "clouds": len(contents.specimens),
        "landmarks": [min(sizes), max(sizes)],
        "dimension": contents.specimens[0].points.shape[1],
        "unseen": unseen,
        "labelled": contents.labelled,
        "first_labels": list(contents.specimens[0].labels[:3]),
        "frame": contents.frame,
        "unit": contents.unit,
        "faces": 0 if contents.faces is None else len(contents.faces),
        "notes": list(contents.notes),
    }


def _line(one: dict[str, Any]) -> str:
    least, most = one["landmarks"]
    clouds = "1 cloud" if one["clouds"] == 1 else f"{one['clouds']} clouds"
    words = [
        f"{one['file']}: {one['format']}, {clouds}, {least if least == most else f'{least} to {most}'} landmarks",
        f"{one['dimension']}D",
    ]
    words += [f"{one['unseen']} unseen"] if one["unseen"] else []
    words += [f"{one['faces']} faces"] if one["faces"] else []
    words += [f"frame {one['frame']}"] if one["frame"] else []
    words += [f"unit {one['unit']}"] if one["unit"] else []
    words += [f"labels {', '.join(one['first_labels'])}, ..."] if one["labelled"] else ["no labels"]
    return ", ".join(words)


def _together_line(matching: dict[str, Any]) -> str:
    if "problem" in matching:
        return f"together: {matching['problem']}"
    rule = MATCHED[matching["matched_by"]]
    return f"together: {matching['clouds']} clouds, {matching['landmarks']} landmarks matched by {rule}"

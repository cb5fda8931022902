"""``kernelgpa convert`` and ``kernelgpa info``: files of one format into another, and what files hold."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from ..errors import FormatError, InvalidObservations, InvalidSetting
from ..io.atomic import require_writable_file, write_bytes
from ..io.files import FORMATS, drop_unsupported, read, suffix_of
from ..io.landmark_file import LandmarkFile
from ..io.matching import match_clouds
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
    printable,
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
    if to is None:
        require_writable_file(output)
        _write(output, _together(contents))
        typer.echo(str(output))
        return
    suffix = to if to.startswith(".") else f".{to}"
    if suffix not in FORMATS:
        raise InvalidSetting(f"--to is {to!r}; expected one of {', '.join(FORMATS)}")
    targets: dict[Path, LandmarkFile] = {}
    for held in contents:
        for specimen in held.clouds:
            target = output / f"{file_name(specimen.name)}{suffix}"
            if target.exists() or target in targets:
                raise FormatError(target, None, "it is there already", "give an empty folder, and clouds other names")
            targets[target] = replace(held, clouds=(specimen,))
            if file_name(specimen.name) != specimen.name:
                say(f"note: {specimen.name!r} is written to {target.name}")
    ready = {target: _rendered(target, held) for target, held in targets.items()}  # all of them before any is written
    output.mkdir(parents=True, exist_ok=True)
    for target, data in ready.items():
        write_bytes(target, data)
        typer.echo(str(target))


def file_name(name: str) -> str:
    """A cloud's name as the name of a file, in its folder and nowhere else."""
    safe = "".join(c if c.isalnum() or c in "-_. +()" else "_" for c in name).strip(". ")
    return safe.encode()[:150].decode(errors="ignore") or "cloud"


def _write(path: Path, contents: LandmarkFile) -> None:
    write_bytes(path, _rendered(path, contents))


def _rendered(path: Path, contents: LandmarkFile) -> bytes:
    suffix = suffix_of(path)
    held, lost = drop_unsupported(contents, suffix)
    data = FORMATS[suffix].render(held)
    for one in lost:
        say(f"note: {path}: {one}")
    return data


def _together(contents: list[LandmarkFile]) -> LandmarkFile:
    """Clouds of several files as one, labels as they are."""
    first = contents[0]
    if len(contents) == 1:
        return first
    units = {one.unit for one in contents if one.unit}
    if len(units) > 1:
        raise InvalidObservations(f"the files are in different units, {', '.join(sorted(units))}; bring them to one")
    if len({one.frame for one in contents}) > 1:
        say("note: some files do not tell their frame and were taken to be LPS like the others")
    if any(one.faces is not None for one in contents):
        say("note: faces left out; one file for each cloud (--to) keeps them")
    return LandmarkFile(
        tuple(specimen for one in contents for specimen in one.clouds),
        labelled=any(one.labelled for one in contents),
        frame=next((one.frame for one in contents if one.frame), None),
        unit=next(iter(units), None),
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
        gathered = match_clouds(contents)
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
        typer.echo(printable(_line(one)))
        for note in one["notes"]:
            typer.echo(printable(f"  note: {note}"))
    typer.echo(printable(_together_line(matching)))


def described(path: str, contents: LandmarkFile) -> dict[str, Any]:
    sizes = [len(one.points) for one in contents.clouds]
    unseen = sum(int(np.isnan(one.points).any(axis=1).sum()) for one in contents.clouds)
    return {
        "format": FORMATS[suffix_of(Path(path))].holds.name,
        "clouds": len(contents.clouds),
        "landmarks": [min(sizes), max(sizes)],
        "dimension": contents.clouds[0].points.shape[1],
        "unseen": unseen,
        "labelled": contents.labelled,
        "first_labels": list(contents.clouds[0].labels[:3]),
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

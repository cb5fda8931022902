"""``kernelgpa convert`` and ``kernelgpa info``: write files in another format, and print what files hold."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from ..errors import FormatError, InvalidObservations, InvalidSetting
from ..io.atomic import require_writable_file, write_bytes
from ..io.files import FORMATS, drop_unsupported, read, suffix_of
from ..io.landmark_file import LandmarkFile, ReadOptions
from ..io.matching import match_clouds
from . import options
from .app import app
from .messages import MATCHING_RULES, print_json, print_message, printable

LONGEST_NAME = 150  # bytes of a file name, without its ending

Output = Annotated[
    Path, typer.Option("--output", "-o", help="The file to write; with --to, the folder for one file per cloud.")
]
Suffix = Annotated[str | None, typer.Option(help="Write one file per cloud, with this ending, such as .mrk.json.")]


@app.command()
def convert(
    files: options.Files,
    output: Output,
    to: Suffix = None,
    missing: options.Missing = None,
    negative_is_missing: options.NegativeIsMissing = False,
    curves: options.Curves = False,
    verbose: options.Verbose = False,
) -> None:
    """Write the clouds of one or more files in another format.

    Information that the other format cannot hold is listed.  The coordinates of Slicer files are converted to the LPS
    frame.

    Examples:

        kernelgpa convert skulls/*.mrk.json -o skulls.csv

        kernelgpa convert skulls.tps -o skulls --to .mrk.json
    """
    reading = ReadOptions(missing=missing, negative_is_missing=negative_is_missing, curves=curves)
    contents = [read(path, reading) for path in files]
    for path, one in zip(files, contents, strict=True):
        for note in one.notes:
            print_message(f"note: {path}: {note}")
    if to is None:
        require_writable_file(output)
        rendered = {output: _rendered(output, _joined(contents))}
    else:
        targets = _one_file_per_cloud(contents, output, to if to.startswith(".") else f".{to}")
        rendered = {target: _rendered(target, one) for target, one in targets.items()}
        output.mkdir(parents=True, exist_ok=True)
    for target, data in rendered.items():  # all were rendered before the first is written
        write_bytes(target, data)
        typer.echo(str(target))


def _one_file_per_cloud(contents: list[LandmarkFile], folder: Path, suffix: str) -> dict[Path, LandmarkFile]:
    if suffix not in FORMATS:
        raise InvalidSetting(f"--to is {suffix!r}; expected one of {', '.join(FORMATS)}")
    targets: dict[Path, LandmarkFile] = {}
    for one in contents:
        for specimen in one.clouds:
            target = folder / f"{file_name(specimen.name)}{suffix}"
            if target.exists() or target in targets:
                raise FormatError(
                    target, None, "it exists already", "give an empty folder, and each cloud a name of its own"
                )
            targets[target] = replace(one, clouds=(specimen,))
            if file_name(specimen.name) != specimen.name:
                print_message(f"note: {specimen.name!r} is written to {target.name}")
    return targets


def file_name(name: str) -> str:
    """A cloud's name as the name of a file that cannot leave its folder."""
    safe = "".join(c if c.isalnum() or c in "-_. +()" else "_" for c in name).strip(". ")
    return safe.encode()[:LONGEST_NAME].decode(errors="ignore") or "cloud"


def _rendered(path: Path, contents: LandmarkFile) -> bytes:
    suffix = suffix_of(path)
    held, losses = drop_unsupported(contents, suffix)
    data = FORMATS[suffix].render(held)
    for loss in losses:
        print_message(f"note: {path}: {loss}")
    return data


def _joined(contents: list[LandmarkFile]) -> LandmarkFile:
    """The clouds of several files in one, with their labels unchanged."""
    first = contents[0]
    if len(contents) == 1:
        return first
    units = {one.unit for one in contents if one.unit}
    if len(units) > 1:
        raise InvalidObservations(
            f"the files are in different units, {', '.join(sorted(units))}; convert them to one unit first"
        )
    if len({one.frame for one in contents}) > 1:
        print_message("note: some files do not state their frame and are assumed to be LPS like the others")
    if any(one.faces is not None for one in contents):
        print_message("note: faces are omitted; one file per cloud (--to) keeps them")
    return LandmarkFile(
        tuple(specimen for one in contents for specimen in one.clouds),
        labelled=any(one.labelled for one in contents),
        frame=next((one.frame for one in contents if one.frame), None),
        unit=next(iter(units), None),
    )


# -- info --


@dataclass(frozen=True)
class FileDescription:
    """What a file holds."""

    file: str
    format: str
    clouds: int
    landmarks: tuple[int, int]  # fewest and most per cloud
    dimension: int
    unseen: int
    labelled: bool
    first_labels: list[str]
    frame: str | None
    unit: str | None
    faces: int
    notes: list[str]

    @classmethod
    def of(cls, path: Path, contents: LandmarkFile) -> FileDescription:
        first = contents.clouds[0]
        sizes = [len(one.points) for one in contents.clouds]
        return cls(
            file=str(path),
            format=FORMATS[suffix_of(path)].holds.name,
            clouds=len(contents.clouds),
            landmarks=(min(sizes), max(sizes)),
            dimension=first.points.shape[1],
            unseen=sum(int(np.isnan(one.points).any(axis=1).sum()) for one in contents.clouds),
            labelled=contents.labelled,
            first_labels=list(first.labels[:3]),
            frame=contents.frame,
            unit=contents.unit,
            faces=0 if contents.faces is None else len(contents.faces),
            notes=list(contents.notes),
        )

    def __str__(self) -> str:
        fewest, most = self.landmarks
        clouds = "1 cloud" if self.clouds == 1 else f"{self.clouds} clouds"
        parts = [
            f"{self.file}: {self.format}, {clouds}",
            f"{fewest if fewest == most else f'{fewest} to {most}'} landmarks",
            f"{self.dimension}D",
        ]
        parts += [f"{self.unseen} unseen"] if self.unseen else []
        parts += [f"{self.faces} faces"] if self.faces else []
        parts += [f"frame {self.frame}"] if self.frame else []
        parts += [f"unit {self.unit}"] if self.unit else []
        parts += [f"labels {', '.join(self.first_labels)}, ..."] if self.labelled else ["no labels"]
        return ", ".join(parts)


@app.command()
def info(
    files: options.Files,
    missing: options.Missing = None,
    negative_is_missing: options.NegativeIsMissing = False,
    curves: options.Curves = False,
    as_json: options.AsJson = False,
    verbose: options.Verbose = False,
) -> None:
    """Print what files hold, and how their landmarks would be matched.

    Examples:

        kernelgpa info skulls/*.mrk.json

        kernelgpa info scans.csv --json
    """
    reading = ReadOptions(missing=missing, negative_is_missing=negative_is_missing, curves=curves)
    contents = [(path, read(path, reading)) for path in files]
    descriptions = [FileDescription.of(path, one) for path, one in contents]
    matching, text = _matching([(str(path), one) for path, one in contents])
    if as_json:
        print_json({"files": [asdict(one) for one in descriptions], "matching": matching})
        return
    for one in descriptions:
        typer.echo(printable(str(one)))
        for note in one.notes:
            typer.echo(printable(f"  note: {note}"))
    typer.echo(printable(f"all files: {text}"))


def _matching(contents: list[tuple[str, LandmarkFile]]) -> tuple[dict[str, Any], str]:
    """How the landmarks would be matched, for programs and for people."""
    try:
        matched = match_clouds(contents)
    except InvalidObservations as error:
        return {"problem": str(error)}, str(error)
    clouds, landmarks = len(matched.names), len(matched.landmarks)
    record = {"clouds": clouds, "landmarks": landmarks, "matched_by": matched.rule, "notes": list(matched.notes)}
    return record, f"{clouds} clouds, {landmarks} landmarks matched by {MATCHING_RULES[matched.rule]}"

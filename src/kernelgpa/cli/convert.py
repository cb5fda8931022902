"""``kernelgpa convert`` and ``kernelgpa info``: write files in another format, and print what files hold."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from ..errors import FormatError, InvalidObservations, InvalidSetting
from ..io.atomic import require_writable_file, write_bytes
from ..io.files import FORMATS, drop_unsupported, read_files, suffix_of
from ..io.landmark_file import LandmarkFile, ReadOptions
from ..io.matching import common_kind, match_clouds
from ..report.vocabulary import Vocabulary, vocabulary
from . import options
from .app import app
from .messages import (
    MATCHING_RULES,
    counted,
    print_json,
    print_message,
    printable,
    printed_warnings,
    use_words,
    use_words_of,
    worded,
)
from .options.groups import FileOptions, MatchOptions, with_option_groups

LONGEST_NAME = 150  # bytes of a file name, without its ending

Output = Annotated[
    Path, typer.Option("--output", "-o", help="The file to write; with --to, the folder for one file per cloud.")
]
Suffix = Annotated[str | None, typer.Option(help="Write one file per cloud, with this ending, such as .mrk.json.")]


@app.command()
@with_option_groups
def convert(
    files: options.Files,
    *,
    output: Output,
    to: Suffix = None,
    reading: FileOptions,
    verbose: options.Verbose = False,
) -> None:
    """Write the clouds of files in another format.

    Information that the other format cannot hold is listed.  The coordinates of Slicer files are converted to the LPS
    frame.

    Examples:

        kernelgpa convert skulls/*.mrk.json -o skulls.csv

        kernelgpa convert skulls.tps -o skulls --to .mrk.json
    """
    read_options = reading.read_options()
    use_words_of(files, reading.recursive)
    with printed_warnings():
        sources, notes = read_files(files, read_options)
    use_words(common_kind([one for _, one in sources]), (path for path, _ in sources))
    for note in (*notes, *(f"{path}: {note}" for path, one in sources for note in one.notes)):
        print_message(f"note: {note}")
    landmark_files = [one for _, one in sources]
    if to is None:
        require_writable_file(output)
        rendered = _rendered({output: _joined(landmark_files)})
    else:
        rendered = _rendered(_one_file_per_cloud(landmark_files, output, to if to.startswith(".") else f".{to}"))
        output.mkdir(parents=True, exist_ok=True)
    for target, data in rendered.items():  # all were rendered before the first is written
        write_bytes(target, data)
        typer.echo(str(target))


def _one_file_per_cloud(landmark_files: list[LandmarkFile], folder: Path, suffix: str) -> dict[Path, LandmarkFile]:
    if suffix not in FORMATS:
        raise InvalidSetting(f"--to is {suffix!r}; expected one of {', '.join(FORMATS)}")
    targets: dict[Path, LandmarkFile] = {}
    for one in landmark_files:
        for cloud in one.clouds:
            target = folder / f"{file_name(cloud.name)}{suffix}"
            if target.exists() or target in targets:
                raise FormatError(
                    target, None, "it exists already", "give an empty folder, and each cloud a name of its own"
                )
            targets[target] = replace(one, clouds=(cloud,))
            if file_name(cloud.name) != cloud.name:
                print_message(f"note: {cloud.name!r} is written to {target.name}")
    return targets


def file_name(name: str) -> str:
    """A cloud's name as the name of a file that cannot leave its folder."""
    safe = "".join(c if c.isalnum() or c in "-_. +()" else "_" for c in name).strip(". ")
    return safe.encode()[:LONGEST_NAME].decode(errors="ignore") or "cloud"


def _rendered(targets: dict[Path, LandmarkFile]) -> dict[Path, bytes]:
    """The bytes of all files; what several of them cannot hold is listed once."""
    rendered, paths_of = dict[Path, bytes](), dict[str, list[Path]]()
    for path, landmark_file in targets.items():
        suffix = suffix_of(path)
        held, losses = drop_unsupported(landmark_file, suffix)
        rendered[path] = FORMATS[suffix].render(held)
        for loss in losses:
            paths_of.setdefault(loss, []).append(path)
    for loss, paths in paths_of.items():
        print_message(f"note: {paths[0] if len(paths) == 1 else f'each of {len(paths)} files'}: {loss}")
    return rendered


def _joined(landmark_files: list[LandmarkFile]) -> LandmarkFile:
    """The clouds of several files in one, with their labels unchanged."""
    first = landmark_files[0]
    if len(landmark_files) == 1:
        return first
    units = {one.unit for one in landmark_files if one.unit}
    if len(units) > 1:
        raise InvalidObservations(
            f"the files are in different units, {', '.join(sorted(units))}; convert them to one unit first"
        )
    if len({one.frame for one in landmark_files}) > 1:
        print_message("note: some files do not state their frame and are assumed to be LPS like the others")
    if any(one.faces is not None for one in landmark_files):
        print_message("note: faces are omitted; one file per cloud (--to) keeps them")
    return LandmarkFile(
        tuple(cloud for one in landmark_files for cloud in one.clouds),
        labelled=any(one.labelled for one in landmark_files),
        frame=next((one.frame for one in landmark_files if one.frame), None),
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
    kind: str

    @classmethod
    def of(cls, path: Path, landmark_file: LandmarkFile) -> FileDescription:
        first = landmark_file.clouds[0]
        sizes = [len(one.points) for one in landmark_file.clouds]
        return cls(
            file=str(path),
            format=FORMATS[suffix_of(path)].holds.name,
            clouds=len(landmark_file.clouds),
            landmarks=(min(sizes), max(sizes)),
            dimension=first.points.shape[1],
            unseen=sum(int(np.isnan(one.points).any(axis=1).sum()) for one in landmark_file.clouds),
            labelled=landmark_file.labelled,
            first_labels=list(first.labels[:3]),
            frame=landmark_file.frame,
            unit=landmark_file.unit,
            faces=0 if landmark_file.faces is None else len(landmark_file.faces),
            notes=list(landmark_file.notes),
            kind=landmark_file.kind,
        )

    def __str__(self) -> str:
        fewest, most = self.landmarks
        words = vocabulary(self.kind)
        clouds = f"1 {words.cloud}" if self.clouds == 1 else f"{self.clouds} {words.clouds}"
        parts = [
            f"{self.file}: {self.format}, {clouds}",
            f"{fewest if fewest == most else f'{fewest} to {most}'} {words.landmarks}",
            f"{self.dimension}D",
        ]
        parts += [f"{self.unseen} unseen"] if self.unseen else []
        parts += [f"{self.faces} faces"] if self.faces else []
        parts += [f"frame {self.frame}"] if self.frame else []
        parts += [f"unit {self.unit}"] if self.unit else []
        parts += [f"labels {', '.join(self.first_labels)}, ..."] if self.labelled else ["no labels"]
        return ", ".join(parts)


@app.command()
@with_option_groups
def info(
    files: options.Files,
    *,
    reading: MatchOptions,
    as_json: options.AsJson = False,
    verbose: options.Verbose = False,
) -> None:
    """Print what files hold and how their landmarks match.

    Examples:

        kernelgpa info skulls/*.mrk.json

        kernelgpa info scans.csv --json
    """
    read_options = reading.read_options()
    use_words_of(files, reading.recursive)
    with printed_warnings():
        landmark_files, notes = read_files(files, read_options)
    use_words(common_kind([one for _, one in landmark_files]), (path for path, _ in landmark_files))
    descriptions = [FileDescription.of(Path(path), one) for path, one in landmark_files]
    matching, text = _matching(landmark_files, read_options, notes)
    if as_json:
        print_json({"files": [asdict(one) for one in descriptions], "matching": matching})
        return
    for one in descriptions:
        typer.echo(printable(str(one)))
        for note in one.notes if "problem" in matching else []:  # otherwise they are among those of all files
            typer.echo(printable(worded(f"  note: {note}")))
    typer.echo(printable(f"all files: {text}"))


def _matching(
    landmark_files: list[tuple[str, LandmarkFile]], read_options: ReadOptions, notes: list[str]
) -> tuple[dict[str, Any], str]:
    """How the landmarks would be matched, for programs and for people."""
    try:
        matched = match_clouds(landmark_files, options=read_options, notes=notes)
    except InvalidObservations as error:
        return {"problem": str(error)}, worded(str(error))
    clouds, landmarks = len(matched.names), len(matched.landmarks)
    rules = [
        {
            "rule": one.rule,
            "used": one.rule == matched.rule,
            "landmarks": one.landmarks if one.keys else None,
            "in_every_cloud": one.in_every_cloud if one.keys else None,
            "in_one_cloud": one.in_one_cloud if one.keys else None,
            "problem": one.problem or None,
        }
        for one in matched.candidates
    ]
    record = {"clouds": clouds, "landmarks": landmarks, "matched_by": matched.rule, "notes": list(matched.notes)}
    record |= {"rules": rules, "remedy": matched.remedy}
    use_words(matched.kind, (*matched.names, *matched.landmarks))
    texts = [
        f"{counted(clouds, 'cloud')}, {counted(landmarks, 'landmark')} matched by {MATCHING_RULES[matched.rule]}",
        *(f"  note: {note}" for note in matched.notes),
        *([f"  {matched.remedy}"] if matched.remedy else []),
    ]
    first, *rest = map(worded, texts)
    return record, "\n".join([first, *_rule_table(rules, vocabulary(matched.kind)), *rest])


def _rule_table(rules: list[dict[str, Any]], words: Vocabulary) -> list[str]:
    """What each rule of matching would give, as lines."""
    every = f"in every {words.cloud}"
    lines = [f"    {'--match':9}{words.landmarks:>10}{every:>19}{'in some':>9}{'in one only':>13}"]
    for one in rules:
        mark = ">" if one["used"] else " "
        if one["problem"]:
            lines.append(f"  {mark} {one['rule']:9}{'-':>10}  {worded(one['problem'])}")
            continue
        everywhere, single = one["in_every_cloud"], one["in_one_cloud"]
        some = max(0, one["landmarks"] - everywhere - single)  # a single cloud is every cloud, and one
        lines.append(f"  {mark} {one['rule']:9}{one['landmarks']:>10}{everywhere:>19}{some:>9}{single:>13}")
    return lines

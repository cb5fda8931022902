"""From a file's name to its format, and from the disk to landmarks and back.

A format is recognised by the end of the file name; ``FORMATS`` is the table.  Files are written atomically.
"""

from __future__ import annotations

import codecs
import os
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from ..errors import FormatError, InvalidSetting, warn
from . import c3d, csv_file, fcsv, mat, morphologika, mrk_json, npz, nts, obj, off, ply, pts, stl, tps, trc, vtk
from .atomic import write_bytes
from .capabilities import Capabilities
from .chosen import choose_frames, choose_markers
from .file_list import expand, known_suffix, not_found
from .landmark_file import LandmarkFile, ReadOptions, missing_text
from .matching import MatchedClouds, match_clouds
from .text import decode_utf8, is_unicode


def _rendered_only(data: bytes, before: LandmarkFile, filled: LandmarkFile) -> None:
    """Of formats that hold nothing beside their landmarks."""


@dataclass(frozen=True)
class Format:
    """One format: how it is read and written, and what it can hold."""

    parse: Callable[[bytes, str, ReadOptions], LandmarkFile]
    render: Callable[[LandmarkFile], bytes]
    holds: Capabilities
    fill_in: Callable[[bytes, LandmarkFile, LandmarkFile], bytes | None] = _rendered_only  # see in_place.py


class _BinaryModule(Protocol):
    HOLDS: Capabilities

    def parse(self, data: bytes, source: str, options: ReadOptions) -> LandmarkFile: ...
    def render(self, file: LandmarkFile) -> bytes: ...


class _TextModule(Protocol):
    HOLDS: Capabilities

    def parse(self, text: str, source: str, options: ReadOptions) -> LandmarkFile: ...
    def render(self, file: LandmarkFile) -> str: ...


def _binary(module: _BinaryModule) -> Format:
    return Format(module.parse, module.render, module.HOLDS, getattr(module, "fill_in", _rendered_only))


def _text(module: _TextModule) -> Format:
    """A format of text in UTF-8."""

    def parse(data: bytes, source: str, options: ReadOptions) -> LandmarkFile:
        return module.parse(decode_utf8(data, source), source, options)

    def fill_in(data: bytes, before: LandmarkFile, filled: LandmarkFile) -> bytes | None:
        text = module.fill_in(decode_utf8(data, ""), before, filled) if hasattr(module, "fill_in") else None
        return None if text is None else text.encode("utf-8-sig" if data.startswith(codecs.BOM_UTF8) else "utf-8")

    return Format(parse, lambda file: module.render(file).encode(), module.HOLDS, fill_in)


FORMATS: dict[str, Format] = {
    ".mrk.json": _text(mrk_json),
    ".json": _text(mrk_json),
    ".fcsv": _text(fcsv),
    ".tps": _text(tps),
    ".nts": _text(nts),
    ".dta": _text(nts),
    ".morphologika": _text(morphologika),
    ".txt": _text(morphologika),
    ".pts": _text(pts),
    ".csv": _text(csv_file),
    ".npz": _binary(npz),
    ".mat": _binary(mat),
    ".c3d": _binary(c3d),
    ".trc": _text(trc),
    ".ply": _binary(ply),
    ".obj": _binary(obj),
    ".stl": _binary(stl),
    ".off": _binary(off),
    ".vtk": _binary(vtk),
}


KINDS = {  # what users of a format call a cloud
    **dict.fromkeys(
        (".mrk.json", ".json", ".fcsv", ".tps", ".nts", ".dta", ".morphologika", ".txt", ".pts"), "specimen"
    ),
    **dict.fromkeys((".c3d", ".trc"), "frame"),
}


def suffix_of(path: Path) -> str:
    """Return the longest suffix of the name that is in the table."""
    known = known_suffix(path, list(FORMATS))
    if known is None:
        raise FormatError(path, None, "the suffix is of no known format", f"expected one of {', '.join(FORMATS)}")
    return known


def read(path: str | os.PathLike[str], options: ReadOptions | None = None) -> LandmarkFile:
    """Read one file: all of it, or the frames and markers that the options name."""
    path, options = Path(path), options or ReadOptions()
    if not path.exists():
        raise not_found(path)
    suffix = suffix_of(path)
    if not is_unicode(path.name):
        raise FormatError(repr(str(path)), None, "the file name is not valid Unicode", "rename the file")
    if path.exists() and not path.is_file() and not path.is_dir():
        raise FormatError(path, None, "it is not a regular file", "expected a file on the disk")
    try:
        data = path.read_bytes()
    except IsADirectoryError:
        raise FormatError(path, None, "it is a folder", "expected a file") from None
    except FileNotFoundError:  # removed just now
        raise not_found(path) from None
    name = unicodedata.normalize("NFC", path.name[: -len(suffix)])  # some systems store an umlaut as two characters
    file = FORMATS[suffix].parse(data, str(path), replace(options, name=name))
    if not file.clouds:
        raise FormatError(path, None, "it contains no cloud", "expected at least one")
    if file.marked_by_code:
        note = f"points not seen because all coordinates are {missing_text(options.missing)}: {file.marked_by_code}"
        file = replace(file, notes=(*file.notes, note))
    file = replace(file, kind=KINDS.get(suffix, file.kind))
    return choose_markers(choose_frames(file, options.frames, str(path)), options.markers, str(path))


def kind_of(paths: Sequence[str | os.PathLike[str]], recursive: bool = False) -> str:
    """Return what users of these files call a cloud, by their endings; "cloud" if they differ or are not found."""
    try:
        found, _ = expand([Path(path) for path in paths], recursive, list(FORMATS))
        kinds = {KINDS.get(suffix_of(path), "cloud") for path in found}
    except (FormatError, OSError):
        return "cloud"
    return kinds.pop() if len(kinds) == 1 else "cloud"


def read_files(
    paths: Sequence[str | os.PathLike[str]], options: ReadOptions | None = None
) -> tuple[list[tuple[str, LandmarkFile]], list[str]]:
    """Read some files, and the files of folders, as (path, file); also return notes on what was left out.

    An option that has no effect on any of the files is a warning or an error.
    """
    options = options or ReadOptions()
    if isinstance(paths, str | os.PathLike):
        paths = [paths]
    if not paths:
        raise InvalidSetting("no file is given")
    found, notes = expand([Path(path) for path in paths], options.recursive, list(FORMATS))
    suffixes = {suffix_of(path) for path in found}
    for name in ("negative_is_missing", "curves"):
        if getattr(options, name) and ".tps" not in suffixes:
            raise InvalidSetting(f"{name} is for TPS files, and none is given; omit it")
    files = [(str(path), read(path, options)) for path in found]
    if options.missing is not None and not any(file.marked_by_code for _, file in files):
        warn(
            f"missing={missing_text(options.missing)} is the value of no point; check the code, which is one number or "
            "one per axis"
        )
    return files, notes


def read_clouds(paths: Sequence[str | os.PathLike[str]], options: ReadOptions | None = None) -> MatchedClouds:
    """Read the clouds of some files as observations, with matched landmarks.

    >>> from kernelgpa import KernelGPA, io
    >>> matched = io.read_clouds(["a.mrk.json", "b.mrk.json"])  # doctest: +SKIP
    >>> KernelGPA().fit(matched.observations)  # doctest: +SKIP
    """
    files, notes = read_files(paths, options)
    return match_clouds(files, options=options, notes=notes)


def write(path: str | os.PathLike[str], file: LandmarkFile) -> None:
    """Write one file atomically."""
    path = Path(path)
    write_bytes(path, FORMATS[suffix_of(path)].render(file))


def drop_unsupported(file: LandmarkFile, suffix: str) -> tuple[LandmarkFile, list[str]]:
    """Return the file without what a format cannot hold, and notes on what was dropped."""
    return FORMATS[suffix].holds.drop_unsupported(file)

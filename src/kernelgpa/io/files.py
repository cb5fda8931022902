"""From a file's name to its format, and from the disk to contents and back.

A format is known by how its name ends; ``FORMATS`` is the table.  Files are written whole or not at all.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..errors import FormatError, InvalidSetting
from . import csvfile, fcsv, mat, morphologika, mrkjson, npz, nts, obj, off, ply, pts, stl, tps, vtk
from .atomic import write_bytes
from .base import Contents, Reading, is_unicode
from .matching import Gathered, gather
from .surfaces import decoded


@dataclass(frozen=True)
class Format:
    """One format: its name, how it is read and written, and what it can hold."""

    name: str
    parse: Callable[[bytes, str, Reading], Contents]
    render: Callable[[Contents], bytes]
    several: bool = True  # clouds in one file
    names: bool = True  # of clouds
    labels: bool = True  # of landmarks
    weights: bool = False
    faces: bool = False
    frame: bool = False
    unit: bool = False


def _text(
    name: str,
    parse: Callable[[str, str, Reading], Contents],
    render: Callable[[Contents], str],
    **holds: bool,
) -> Format:
    """A format of text: bytes are UTF-8."""

    def read(data: bytes, source: str, reading: Reading) -> Contents:
        return parse(decoded(data, source), source, reading)

    return Format(name, read, lambda contents: render(contents).encode(), **holds)


_SLICER_JSON = _text("Slicer markups", mrkjson.parse, mrkjson.render, frame=True, unit=True)
_NTS = _text("NTS", nts.parse, nts.render)
_MORPHOLOGIKA = _text("morphologika", morphologika.parse, morphologika.render, labels=False)
_MESH = {"several": False, "names": False, "labels": False, "faces": True, "frame": True}

FORMATS: dict[str, Format] = {
    ".mrk.json": _SLICER_JSON,
    ".json": _SLICER_JSON,
    ".fcsv": _text("Slicer fiducials", fcsv.parse, fcsv.render, several=False, names=False, frame=True),
    ".tps": _text("TPS", tps.parse, tps.render, labels=False),
    ".nts": _NTS,
    ".dta": _NTS,
    ".morphologika": _MORPHOLOGIKA,
    ".txt": _MORPHOLOGIKA,
    ".pts": _text("IDAV points", pts.parse, pts.render, several=False, names=False),
    ".csv": _text("CSV", csvfile.parse, csvfile.render, weights=True),
    ".npz": Format("NPZ", npz.parse, npz.render, weights=True),
    ".mat": Format("MATLAB cells", mat.parse, mat.render, names=False, labels=False),
    ".ply": Format("PLY", ply.parse, ply.render, **_MESH),
    ".obj": Format("OBJ", obj.parse, obj.render, **_MESH),
    ".stl": Format("STL", stl.parse, stl.render, **_MESH),
    ".off": Format("OFF", off.parse, off.render, **{**_MESH, "frame": False}),
    ".vtk": Format("VTK", vtk.parse, vtk.render, **_MESH),
}


def suffix_of(path: Path) -> str:
    """The longest ending that the table knows."""
    name = path.name.lower()
    known = [suffix for suffix in FORMATS if name.endswith(suffix) and len(name) > len(suffix)]
    if not known:
        raise FormatError(path, None, "the name tells no format", f"expected one that ends in {', '.join(FORMATS)}")
    return max(known, key=len)


def read(path: str | os.PathLike[str], reading: Reading | None = None) -> Contents:
    """What one file holds."""
    path = Path(path)
    suffix = suffix_of(path)
    if not is_unicode(path.name):
        raise FormatError(repr(str(path)), None, "its name is no Unicode", "rename the file")
    if path.exists() and not path.is_file() and not path.is_dir():
        raise FormatError(path, None, "it is no file", "expected a file on the disk")
    try:
        data = path.read_bytes()
    except IsADirectoryError:
        raise FormatError(path, None, "it is a folder", "expected a file") from None
    except FileNotFoundError:
        raise FormatError(path, None, "there is no such file", "check the name") from None
    name = path.name[: -len(suffix)]
    contents = FORMATS[suffix].parse(data, str(path), replace(reading or Reading(), name=name))
    if not contents.specimens:
        raise FormatError(path, None, "it holds no cloud", "expected at least one")
    return contents


def read_clouds(paths: Sequence[str | os.PathLike[str]], reading: Reading | None = None) -> Gathered:
    """The clouds of some files as observations, landmarks matched.

    >>> from kernelgpa import KernelGPA, io
    >>> gathered = io.read_clouds(["a.mrk.json", "b.mrk.json"])  # doctest: +SKIP
    >>> KernelGPA().fit(gathered.observations)  # doctest: +SKIP
    """
    if isinstance(paths, str | os.PathLike):
        paths = [paths]
    if not paths:
        raise InvalidSetting("no file is given")
    return gather([(os.fspath(path), read(path, reading)) for path in paths])


def write(path: str | os.PathLike[str], contents: Contents) -> None:
    """Contents to one file, whole or not at all."""
    path = Path(path)
    write_bytes(path, FORMATS[suffix_of(path)].render(contents))


def fitted_to(contents: Contents, suffix: str) -> tuple[Contents, list[str]]:
    """Contents without what a format cannot hold, and what was left out."""
    format_, lost = FORMATS[suffix], list[str]()
    if contents.labelled and not format_.labels:
        contents, lost = contents.unlabelled(), [*lost, "landmark labels; landmarks are counted"]
    if any(one.weights is not None for one in contents.specimens) and not format_.weights:
        plain = tuple(replace(one, weights=None) for one in contents.specimens)
        contents, lost = replace(contents, specimens=plain), [*lost, "weights"]
    if contents.faces is not None and not format_.faces:
        contents, lost = replace(contents, faces=None), [*lost, "faces"]
    if contents.frame and not format_.frame:
        lost = [*lost, f"the frame, which is {contents.frame}"]
    if contents.unit and not format_.unit:
        lost = [*lost, f"the unit, which is {contents.unit}"]
    if not contents.frame and format_.frame and not format_.faces:
        lost = [*lost, "an unknown frame; coordinates are written as LPS"]
    if suffix == ".stl":
        lost = [*lost, "double precision, nor vertices in another order than that of their first appearance"]
    if not format_.names and format_.several:
        lost = [*lost, "names of clouds; clouds are counted"]
    return contents, [f"{format_.name} cannot hold {one}" for one in lost]

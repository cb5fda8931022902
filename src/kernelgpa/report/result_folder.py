"""A result folder: everything that a registration found, complete or not at all.

    map.csv, map.ply   the map (with faces where they are known)
    poses.tum, .kitti  the pose of every cloud, sensor to map
    model.npz          the fitted estimator; ``load(folder)`` gives it back
    settings.toml      everything resolved; run it again with ``kernelgpa register --config``
    summary.json       figures and findings, for programs
    report.html        the same for people

The folder is written beside its place and then exchanged with what was there, in one step of the file system; one that
must not be moved, such as the current folder, gets its files one by one (``io.whole``).
"""

from __future__ import annotations

import glob
import json
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from .. import report
from ..errors import FormatError, InvalidSetting
from ..estimators.base import GPA
from ..io.atomic import is_leftover, write_folder
from ..io.base import Contents, Specimen, counted
from ..io.files import FORMATS
from ..io.model_file import METHODS, from_bytes, is_model, to_bytes
from ..io.poses import kitti, tum
from ..observations.arrays import finite_rows
from ..trust.agreement import Agreement, Distribution, distribution
from ..trust.selection import Tuning
from ..typing import IndexArray, Name
from ..version import __version__

MODEL, SUMMARY, PICTURE = "model.npz", "summary.json", "clouds.png"
WRITTEN = {"map.csv", "map.ply", "poses.tum", "poses.kitti", MODEL, "settings.toml", SUMMARY, "report.html", PICTURE}


@dataclass(frozen=True)
class About:
    """What is known of a registration beyond the registration itself."""

    title: str = "kernelgpa"
    unit: str | None = None
    frame: str | None = None
    matched: str | None = None  # the rule by which landmarks were matched
    notes: Sequence[str] = ()
    faces: IndexArray | None = None  # (f, 3)
    tuning: Tuning | None = None
    settings: dict[str, Any] = field(default_factory=dict)  # resolved, for settings.toml


def save(
    gpa: GPA,
    folder: str | os.PathLike[str],
    about: About | None = None,
    picture: bytes | None = None,  # PNG
) -> Path:
    """Write a result folder in place of what is there, if that is one too."""
    folder = Path(folder).resolve()  # a link stays a link
    write_result(gpa, folder, about or About(), picture)
    return folder


def write_result(gpa: GPA, folder: Path, about: About, picture: bytes | None = None) -> dict[str, bytes]:
    """Write a result folder; returned are its files."""
    folder = folder.resolve()
    require_replaceable(folder)
    files = {**_files(gpa, about), **({} if picture is None else {PICTURE: picture})}
    write_folder(folder, files)
    return files


def load(folder: str | os.PathLike[str]) -> GPA:
    """The fitted estimator of a result folder (or of its model.npz).

    >>> import kernelgpa
    >>> gpa = kernelgpa.load("out")  # doctest: +SKIP
    >>> gpa.transform(points, cloud="skull7")  # doctest: +SKIP
    """
    return load_with_notes(folder)[0]


def load_with_notes(folder: str | os.PathLike[str]) -> tuple[GPA, dict[str, Any]]:
    """The estimator, and the unit, frame and notes that were kept with it."""
    path = Path(folder)
    path = path / MODEL if path.is_dir() else path
    try:
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        left = sorted(path.parent.parent.glob(f".{glob.escape(path.parent.name)}.part-*"))
        hint = f"; an interrupted run left {left[0]}" if left else ""
        raise FormatError(path, None, f"there is no such file{hint}", "expected a result folder") from None
    except IsADirectoryError:
        raise FormatError(path, None, "it is a folder", "expected a result folder, or its model.npz") from None
    return from_bytes(data, str(path))


def require_replaceable(folder: Path) -> None:
    """A result may replace a result, or fill an empty folder, and nothing else."""
    folder = folder if folder.name else folder.resolve()  # "." says nothing in a message
    if folder.exists() and not folder.is_dir():
        raise InvalidSetting(f"{folder} is a file; give a folder that is new, or that holds a result")
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    names = {name for name in names if not is_leftover(name, folder.resolve().name)}
    if names and (not names <= WRITTEN or not _is_model_file(folder / MODEL)):
        other = sorted(names - WRITTEN)
        raise InvalidSetting(
            f"{folder} holds other things than a result{f' ({other[0]})' if other else ''}; give a new folder"
        )


def _is_model_file(path: Path) -> bool:
    return path.is_file() and is_model(path.read_bytes())


def summary(gpa: GPA, about: About) -> dict[str, Any]:
    """Figures and findings, as plain JSON."""
    observations = gpa.observations_
    figures = Agreement(gpa).per_landmark
    return {
        "kernelgpa": __version__,
        "title": about.title,
        "method": type(gpa).__name__,
        "settings": {name: _plain(value) for name, value in gpa.get_params(deep=False).items()},
        "clouds": len(observations.clouds),
        "landmarks": len(observations.landmarks),
        "dimension": observations.dimension,
        "seen_share": float(observations.visible.mean()),
        "matched_by": about.matched,
        "unit": about.unit,
        "frame": about.frame,
        "notes": list(about.notes),
        "disagreement": _named(distribution(figures.in_map), observations.landmarks),
        "sensor_frame_error": _named(distribution(figures.in_sensor_frame), observations.landmarks),
        "left_out_error": _left_out(gpa),
        "scales": [_plain(value) for value in gpa.scales_],
        "eigenvalues": [_plain(value) for value in gpa.eigenvalues_],
        "left_out": [str(name) for name in gpa.mirrored_],
        "findings": [
            {"kind": one.kind, "severity": one.severity, "found": one.found, "action": one.action}
            for one in gpa.diagnose()
        ],
    }


def _left_out(gpa: GPA) -> dict[str, Any] | None:
    """Leave-one-out residuals: how far each observation lies from where the rest of its cloud puts it."""
    if not gpa.bends:
        return None
    medians = np.full(len(gpa.map_), np.nan)
    known = ~np.isnan(gpa.residuals_).all(axis=0)
    medians[known] = np.nanmedian(gpa.residuals_[:, known], axis=0)
    return _named(distribution(medians), gpa.observations_.landmarks)


def _named(figures: Distribution, landmarks: Sequence[Name]) -> dict[str, Any]:
    """With the name of the worst landmark in place of its number."""
    at = figures["at"]
    others = {name: value for name, value in figures.items() if name != "at"}
    return {**others, "worst_landmark": None if at is None else str(landmarks[at])}


def _plain(value: Any) -> Any:
    """A value as JSON and TOML know it; what they do not know as text."""
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _files(gpa: GPA, about: About) -> dict[str, bytes]:
    places = _map_contents(gpa, about)
    kept = {"unit": about.unit, "frame": about.frame, "title": about.title, "notes": list(about.notes)}
    settings = about.settings or {"method": {"name": METHODS[type(gpa)], **_known(gpa.get_params(deep=False))}}
    page = report.render(
        gpa,
        title=about.title,
        unit=about.unit,
        faces=about.faces,
        tuning=about.tuning,
        notes=tuple(about.notes),
        settings=settings,
    )
    files = {
        "map.csv": FORMATS[".csv"].render(places),
        "poses.tum": tum(gpa.rotations_, gpa.translations_).encode(),
        "poses.kitti": kitti(gpa.rotations_, gpa.translations_).encode(),
        MODEL: to_bytes(gpa, kept),
        "settings.toml": tomli_w.dumps(settings).encode(),
        SUMMARY: (json.dumps(summary(gpa, about), indent=2, ensure_ascii=False) + "\n").encode(),
        "report.html": page.encode(),
    }
    if gpa.observations_.dimension == 3:
        files["map.ply"] = FORMATS[".ply"].render(_mesh_contents(places, about))
    return files


def _known(settings: dict[str, Any]) -> dict[str, Any]:
    """TOML has no sign for nothing: what is None is left out, and is the default."""
    plain = {name: _plain(value) for name, value in settings.items()}
    return {name: value for name, value in plain.items() if value is not None}


def _map_contents(gpa: GPA, about: About) -> Contents:
    labels = tuple(str(name) for name in gpa.observations_.landmarks)
    labels = labels if len(set(labels)) == len(labels) and all(labels) else counted(len(labels))
    return Contents((Specimen("map", gpa.map_, labels),), labelled=True, frame=about.frame, unit=about.unit)


def _mesh_contents(places: Contents, about: About) -> Contents:
    """The map as a mesh: without landmarks that have no place, and faces that need them."""
    points = places.specimens[0].points
    known = finite_rows(points)
    renumbered = np.cumsum(known) - 1
    faces = None
    if about.faces is not None and len(about.faces) and about.faces.max() < len(points):
        faces = renumbered[about.faces[known[about.faces].all(axis=1)]]
    kept = Specimen("map", points[known], counted(int(known.sum())))
    return Contents((kept,), labelled=False, frame=about.frame, faces=faces)

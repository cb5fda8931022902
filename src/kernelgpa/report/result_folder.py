"""A result folder: everything that a registration found, complete or not there at all.

    map.csv, map.ply   the map (with faces if they are known)
    poses.tum, .kitti  the pose of every cloud, from its sensor to the map
    aligned.csv, clouds.csv, landmarks.csv, findings.csv, tuning.csv  tables (``csv_tables``)
    model.npz          the fitted estimator; ``load(folder)`` returns it
    settings.toml      all settings; ``kernelgpa register --config`` runs them again
    summary.json       statistics and diagnosis, for programs
    suspicious.csv     all observations by leave-one-out residual, largest first
    report.html        the same for people

The folder is written beside its destination and then exchanged with what was there, in one step of the file system; a
folder that must not be moved, such as the current one, receives its files one by one (``io.atomic``).
"""

from __future__ import annotations

import glob
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from ..errors import FormatError, InvalidSetting
from ..estimators.base import GPA
from ..estimators.methods import method_name
from ..io.atomic import is_temporary, write_folder
from ..io.files import FORMATS
from ..io.landmark_file import LabelledCloud, LandmarkFile, numbered_labels
from ..io.model_file import from_bytes, is_model, to_bytes
from ..io.poses import kitti, tum
from ..observations.arrays import finite_rows
from ..shape import ShapeModel
from .csv_tables import (
    ALIGNED,
    CLOUDS,
    CSV_FILES,
    FINDINGS,
    LANDMARKS,
    SUSPICIOUS,
    TUNING,
    aligned_table,
    column_table,
    findings_table,
    suspicious_table,
    tuning_table,
)
from .metadata import Metadata
from .page import render
from .shape_folder import MODEL, read_shape_model, write_shapes
from .summary import Assessment, Summary, settings_for_file, summarise
from .tables import Column, with_attributes

PICTURE = "clouds.png"
RESULT_FILES = {
    *("map.csv", "map.ply", "poses.tum", "poses.kitti", MODEL),
    *("settings.toml", "summary.json", "report.html", PICTURE),
    *CSV_FILES,
}


def save(
    gpa: GPA | ShapeModel,
    folder: str | os.PathLike[str],
    metadata: Metadata | None = None,
    picture: bytes | None = None,
) -> Path:
    """Write a result folder; one that is there already is replaced.

    Parameters
    ----------
    gpa : GPA or ShapeModel
        A fitted estimator.
    folder : path
        A new or empty folder, or an earlier result.
    metadata : Metadata, optional
        Title, unit, notes and the like.
    picture : bytes, optional
        A PNG image, stored as ``clouds.png``.

    Returns
    -------
    Path
        The folder, absolute and without symbolic links.
    """
    folder = Path(folder).resolve()  # a link stays a link
    if isinstance(gpa, ShapeModel):
        write_shapes(gpa, folder, metadata or Metadata(title=folder.name))
        return folder
    write_result(gpa, folder, metadata or Metadata(), picture)
    return folder


def write_result(gpa: GPA, folder: Path, metadata: Metadata, picture: bytes | None = None) -> Summary:
    """Write a result folder and return the summary that it holds."""
    folder = folder.resolve()
    require_replaceable(folder)
    assessment = Assessment.of(gpa)
    summary = summarise(assessment, metadata)
    files = _files(assessment, summary, metadata)
    write_folder(folder, files if picture is None else {**files, PICTURE: picture})
    return summary


def load(folder: str | os.PathLike[str]) -> Any:
    """Return the fitted estimator of a result folder (or of its model.npz), or the shape model of its folder.

    >>> import tempfile
    >>> from kernelgpa import KernelGPA, load, save, simulate
    >>> scene = simulate.liver(clouds=4, landmarks=40, vertices=202)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     out = save(KernelGPA().fit(scene.points), f"{folder}/out")
    ...     gpa = load(out)
    >>> gpa.transform(scene.points[2], cloud=2).shape
    (40, 3)
    """
    shapes = read_shape_model(Path(folder))
    return load_with_metadata(folder)[0] if shapes is None else shapes


def load_with_metadata(folder: str | os.PathLike[str]) -> tuple[GPA, Metadata]:
    """Return the estimator, and the title, unit, frame and notes that were stored with it."""
    path = Path(folder)
    path = path / MODEL if path.is_dir() else path
    try:
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        leftovers = sorted(path.parent.parent.glob(f".{glob.escape(path.parent.name)}.part-*"))
        hint = f"; an interrupted run left {leftovers[0]}" if leftovers else ""
        raise FormatError(path, None, f"there is no such file{hint}", "expected a result folder") from None
    except IsADirectoryError:
        raise FormatError(path, None, "it is a folder", "expected a result folder, or its model.npz") from None
    gpa, stored = from_bytes(data, str(path))
    return gpa, Metadata.from_stored(stored)


def require_replaceable(folder: Path) -> None:
    """Raise an error unless the folder is new, empty, or an earlier result."""
    folder = folder if folder.name else folder.resolve()  # "." would not be understood in a message
    if folder.exists() and not folder.is_dir():
        raise InvalidSetting(f"{folder} is a file; give a new folder, or one that holds a result")
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    names = {name for name in names if not is_temporary(name, folder.resolve().name)}
    if names and (not names <= RESULT_FILES or not _is_model_file(folder / MODEL)):
        others = sorted(names - RESULT_FILES)
        example = f" ({others[0]})" if others else ""
        raise InvalidSetting(f"{folder} holds files that are not part of a result{example}; give a new folder")


def _is_model_file(path: Path) -> bool:
    return path.is_file() and is_model(path.read_bytes())


def _files(assessment: Assessment, summary: Summary, metadata: Metadata) -> dict[str, bytes]:
    gpa = assessment.gpa
    settings = metadata.settings or {
        "method": {"name": method_name(gpa), **settings_for_file(gpa.registration_.settings)}
    }
    shown = replace(metadata, settings=settings)
    landmarks = _map_file(gpa, metadata)
    files = {
        "map.csv": FORMATS[".csv"].render(landmarks),
        "poses.tum": tum(gpa.rotations_, gpa.translations_, metadata.times).encode(),
        "poses.kitti": kitti(gpa.rotations_, gpa.translations_).encode(),
        MODEL: to_bytes(gpa, metadata.stored()),
        "settings.toml": tomli_w.dumps(settings).encode(),
        "summary.json": (summary.to_json() + "\n").encode(),
        "report.html": render(assessment, shown).encode(),
    }
    # names may hold characters that no file can: half of a surrogate pair is written as \\ud800
    files |= {name: text.encode(errors="backslashreplace") for name, text in _tables(assessment, metadata).items()}
    if gpa.observations_.dimension == 3:
        files["map.ply"] = FORMATS[".ply"].render(_mesh_file(landmarks, metadata))
    return files


def _tables(assessment: Assessment, metadata: Metadata) -> dict[str, str]:
    """Every table of the page, and the superimposed clouds."""
    gpa = assessment.gpa
    observations = gpa.observations_
    columns = assessment.cloud_columns({})
    if metadata.times is not None:
        columns = [Column("time", "number", "time", np.asarray(metadata.times, dtype=np.float64)), *columns]
    tables = {
        ALIGNED: aligned_table(gpa, metadata.procrustes),
        CLOUDS: column_table("cloud", observations.names, with_attributes(columns, metadata.attributes)),
        LANDMARKS: column_table("landmark", observations.landmarks, assessment.landmark_columns),
        FINDINGS: findings_table(assessment.reported_findings(metadata)),
        SUSPICIOUS: suspicious_table(gpa),
    }
    return tables if metadata.tuning is None else {**tables, TUNING: tuning_table(metadata.tuning)}


def _map_file(gpa: GPA, metadata: Metadata) -> LandmarkFile:
    labels = tuple(str(name) for name in gpa.observations_.landmarks)
    labels = labels if len(set(labels)) == len(labels) and all(labels) else numbered_labels(len(labels))
    return LandmarkFile(
        (LabelledCloud("map", gpa.map_, labels),), labelled=True, frame=metadata.frame, unit=metadata.unit
    )


def _mesh_file(landmarks: LandmarkFile, metadata: Metadata) -> LandmarkFile:
    """The map as a mesh, without landmarks that have no position and without the faces that need them."""
    points = landmarks.clouds[0].points
    known = finite_rows(points)
    new_index = np.cumsum(known) - 1
    faces = None
    if metadata.faces is not None and len(metadata.faces) and metadata.faces.max() < len(points):
        faces = new_index[metadata.faces[known[metadata.faces].all(axis=1)]]
    kept = LabelledCloud("map", points[known], numbered_labels(int(known.sum())))
    return LandmarkFile((kept,), labelled=False, frame=metadata.frame, faces=faces)

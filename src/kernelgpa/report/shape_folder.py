"""The result folder of ``kernelgpa shape``.

aligned.csv    all clouds after their poses (Procrustes coordinates), unseen landmarks predicted
clouds.csv     for each cloud its size, distances, flags of outliers and scores
modes.csv      for each mode its variance and the displacement of each landmark
model.npz      the shape model; ``kernelgpa.load(folder)`` returns it
*.png          scree plot with a null model, scores, mean shape along the modes
report.html    the page of the registration, with a slider through each mode and the scores
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InvalidSetting, KernelGPAWarning
from ..io.atomic import is_temporary, write_folder
from ..io.shape_file import is_shape_model, to_bytes
from ..plotting.shapes import mode_shapes, score_scatter, scree
from ..shape import ShapeModel
from ..shape.alignment import estimator
from .csv_tables import coordinate_table, csv_text
from .metadata import Metadata
from .page import render
from .summary import Assessment

MODEL = "model.npz"  # in every result folder
REPORT_PAGE = "report.html"
PICTURES = ("scree.png", "scores.png", "modes.png")
SHAPE_FILES = {
    "aligned.csv",
    "clouds.csv",
    "modes.csv",
    MODEL,
    REPORT_PAGE,
    *PICTURES,
    "modes.html",
}  # the last: of earlier versions


def require_replaceable_shapes(folder: Path) -> None:
    """Raise an error unless the folder is new, empty, or an earlier shape model."""
    if folder.exists() and not folder.is_dir():
        raise InvalidSetting(f"{folder} is a file; give a new folder")
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    names = {name for name in names if not is_temporary(name, folder.resolve().name)}
    model = folder / MODEL
    if names and (not names <= SHAPE_FILES or not model.is_file() or not is_shape_model(model.read_bytes())):
        raise InvalidSetting(f"{folder} holds files that are not part of a shape model; give a new folder")


def write_shapes(model: ShapeModel, folder: Path, metadata: Metadata) -> None:
    """Write the result folder, complete or not at all."""
    folder = folder.resolve()
    require_replaceable_shapes(folder)
    files = {
        "aligned.csv": coordinate_table(model.observations_, model.aligned_).encode(),
        "clouds.csv": csv_text(*_cloud_rows(model, metadata.attributes)).encode(errors="backslashreplace"),
        "modes.csv": csv_text(*_mode_rows(model)).encode(),
        MODEL: to_bytes(model),
        REPORT_PAGE: _page(model, metadata).encode(),
        **_pictures(model, metadata),
    }
    write_folder(folder, files)


def _page(model: ShapeModel, metadata: Metadata) -> str:
    """The report of the registration behind the model, which is computed again, with the sections of the model."""
    gpa = estimator("faithful" if model.alignment_ == "faithful" else "rigid", bool(model.scaling))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KernelGPAWarning)  # the page lists them
        assessment = Assessment.of(gpa.fit(model.observations_))
    return render(assessment, metadata, shape_model=model)


def _cloud_rows(model: ShapeModel, attributes: Mapping[str, Sequence[str]]) -> tuple[list[str], list[list[Any]]]:
    k = model.scores_.shape[1]
    header = [
        "cloud",
        "centroid_size",
        "procrustes_distance",
        "outlier",
        "mahalanobis_distance",
        "outlier_score",
        "badly_predicted",
        "seen",
    ]
    header += [f"score_{i + 1}" for i in range(k)] + [f"score_sd_{i + 1}" for i in range(k)]
    seen = model.observations_.visible.sum(axis=1)
    statistics, outlier_scores = model.statistics_, model.outlier_scores_
    badly_predicted = outlier_scores > model.outlier_threshold_
    columns = (
        [repr(float(x)) for x in statistics.centroid_sizes],
        [repr(float(x)) for x in statistics.distances],
        ["yes" if far else "no" for far in statistics.is_outlier],
        [repr(float(x)) for x in model.mahalanobis_distances_],
        [repr(float(x)) for x in outlier_scores],
        ["yes" if far else "no" for far in badly_predicted],
        [int(count) for count in seen],
    )
    scores = np.hstack([model.scores_, model.score_deviations_])
    rows = [
        [str(name), *own, *(repr(float(x)) for x in scores[t])]
        for t, (name, *own) in enumerate(zip(model.observations_.names, *columns, strict=True))
    ]
    given = [name if name not in header else f"{name}_given" for name in attributes]
    return header + given, [[*row, *own] for row, *own in zip(rows, *attributes.values(), strict=True)]


def _mode_rows(model: ShapeModel) -> tuple[list[str], list[list[Any]]]:
    axes = "xyz"[: model.mean_.shape[1]]
    header = ["mode", "variance", "share", "landmark", *(f"d{axis}" for axis in axes)]
    rows: list[list[Any]] = []
    for k, (mode, variance) in enumerate(zip(model.modes_, model.variances_, strict=True)):
        common = [k + 1, repr(float(variance)), repr(float(model.explained_variance_ratio_[k]))]
        for name, move in zip(model.observations_.landmarks, mode, strict=True):
            rows.append([*common, str(name), *(repr(float(x)) for x in move)])
    return header, rows


def _pictures(model: ShapeModel, metadata: Metadata) -> dict[str, bytes]:
    figures: list[Any] = [scree(model).figure, mode_shapes(model, faces=metadata.faces)]
    if model.scores_.shape[1] > 1:
        groups = next(iter(metadata.attributes.values()), None)
        figures.insert(1, score_scatter(model, groups=groups).figure)
    names = PICTURES if len(figures) == len(PICTURES) else (PICTURES[0], PICTURES[2])
    pictures = {}
    for name, figure in zip(names, figures, strict=True):
        data = io.BytesIO()
        figure.savefig(data, format="png", dpi=110)
        pictures[name] = data.getvalue()
    return pictures


def read_shape_model(path: Path) -> ShapeModel | None:
    """The shape model of a folder or file; None if it holds another kind of model."""
    from ..io.shape_file import from_bytes

    path = path / MODEL if path.is_dir() else path
    data = path.read_bytes() if path.is_file() else b""
    return from_bytes(data, str(path)) if is_shape_model(data) else None

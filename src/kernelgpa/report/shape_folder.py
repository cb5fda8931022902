"""The result folder of ``kernelgpa shape``.

aligned.csv    all clouds after their poses (Procrustes coordinates), unseen landmarks predicted
clouds.csv     for each cloud its size, distances, flags of outliers, errors, scores and attributes
modes.csv      for each mode its variance and the displacement of each landmark
landmarks.csv, findings.csv  the other tables of the page
model.npz      the shape model; ``kernelgpa.load(folder)`` returns it
*.png          scree plot with a null model, scores, mean shape along the modes
report.html    the page of the registration, with a slider through each mode and the scores
"""

from __future__ import annotations

import io
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InvalidSetting, KernelGPAWarning
from ..io.atomic import is_temporary, write_folder
from ..io.shape_file import is_shape_model, to_bytes
from ..plotting.shapes import mode_shapes, score_scatter, scree
from ..shape import ShapeModel
from ..shape.alignment import estimator
from .csv_tables import (
    ALIGNED,
    CLOUDS,
    FINDINGS,
    LANDMARKS,
    column_table,
    coordinate_table,
    csv_text,
    findings_table,
)
from .metadata import Metadata
from .page import render
from .summary import Assessment
from .tables import Column, with_attributes
from .vocabulary import vocabulary

MODEL = "model.npz"  # in every result folder
REPORT_PAGE = "report.html"
PICTURES = ("scree.png", "scores.png", "modes.png")
MODES = "modes.csv"
SHAPE_FILES = {
    *(ALIGNED, CLOUDS, LANDMARKS, FINDINGS, MODES),
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
    assessment, observations = _assessment(model), model.observations_
    columns = [*assessment.cloud_columns({}), *_model_columns(model)]
    tables = {
        ALIGNED: coordinate_table(observations, model.aligned_),
        CLOUDS: column_table("cloud", observations.names, with_attributes(columns, metadata.attributes)),
        LANDMARKS: column_table("landmark", observations.landmarks, assessment.landmark_columns),
        FINDINGS: findings_table(assessment.reported_findings(metadata)),
        MODES: csv_text(*_mode_rows(model)),
    }
    files = {
        **{name: text.encode(errors="backslashreplace") for name, text in tables.items()},
        MODEL: to_bytes(model),
        REPORT_PAGE: render(assessment, metadata, shape_model=model).encode(),
        **_pictures(model, metadata),
    }
    write_folder(folder, files)


def _assessment(model: ShapeModel) -> Assessment:
    """The registration behind the model, which is computed again, with the sizes and distances of the model."""
    gpa = estimator("faithful" if model.alignment_ == "faithful" else "rigid", bool(model.scaling))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KernelGPAWarning)  # the page lists them
        return Assessment.of(gpa.fit(model.observations_), model.statistics_)


def _model_columns(model: ShapeModel) -> list[Column]:
    """What the model adds to the table of the clouds."""
    outlier_scores = model.outlier_scores_
    badly_predicted = (outlier_scores > model.outlier_threshold_).astype(np.float64)
    scores = [("score", model.scores_), ("score_sd", model.score_deviations_)]
    return [
        Column("mahalanobis_distance", "number", "Mahalanobis distance", model.mahalanobis_distances_),
        Column("outlier_score", "number", "outlier score", outlier_scores),
        Column("badly_predicted", "flag", "badly predicted", badly_predicted),
        *(
            Column(f"{name}_{i + 1}", "number", name, values[:, i])
            for name, values in scores
            for i in range(values.shape[1])
        ),
    ]


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
    figures = _figures(model, metadata)
    names = PICTURES if len(figures) == len(PICTURES) else (PICTURES[0], PICTURES[2])
    pictures = {}
    for name, figure in zip(names, figures, strict=True):
        data = io.BytesIO()
        figure.savefig(data, format="png", dpi=110)
        pictures[name] = data.getvalue()
    return pictures


def _figures(model: ShapeModel, metadata: Metadata) -> list[Any]:
    """The plots of the model, with titles in the words for what was registered."""
    figures: list[Any] = [scree(model).figure, mode_shapes(model, faces=metadata.faces)]
    if model.scores_.shape[1] > 1:
        groups = next(iter(metadata.attributes.values()), None)
        figures.insert(1, score_scatter(model, groups=groups).figure)
    words = vocabulary(metadata.kind)
    for ax in (ax for figure in figures for ax in figure.axes):
        ax.set_title(words.translate(ax.get_title()))
    return figures


def read_shape_model(path: Path) -> ShapeModel | None:
    """The shape model of a folder or file; None if it holds another kind of model."""
    from ..io.shape_file import from_bytes

    path = path / MODEL if path.is_dir() else path
    data = path.read_bytes() if path.is_file() else b""
    return from_bytes(data, str(path)) if is_shape_model(data) else None

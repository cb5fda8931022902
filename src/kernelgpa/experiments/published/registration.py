"""The same methods on the data of a folder: the authors' published files, real faces, or any others.

Test points come with the data, or are the points of dense clouds that are not made landmarks.  If there are none,
landmarks are left out in folds.  The true map is not known here.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..._numerics.progress import with_progress
from ...errors import FormatError, KernelGPAError, silenced_warnings
from ...observations.sampling import farthest_points
from ...trust import selection
from ...typing import Array
from .. import ct, face, liver, scoring
from ..scoring import ExperimentSettings, TuningPlan
from ..tables import ALL_METHODS, Outcome, Table
from .data_folder import PUBLISHED, DataFolder, DataSet, read_data_folder, view_counts

SURFACE_LANDMARKS = 326  # of surfaces and dense clouds
DENSE_CLOUD = 1000  # points, above which only some points of complete clouds are made landmarks
MIN_CATEGORY = 10  # landmarks of each cloud in each category
SETTINGS_BY_WORD = {"face": face.PAPER_SETTINGS, "liver": liver.PAPER_SETTINGS}  # if the name contains the word
OTHER_SETTINGS = face.PAPER_SETTINGS
THIN_PLATE_SMOOTHING = {2: 10.0, 3: ExperimentSettings.thin_plate_smoothing}  # of the authors, by dimension
FILE_UNIT = "units of the file"
WHERE_PUBLISHED = "the authors' data are published as " + "; ".join(f"{one.file} ({one.archive})" for one in PUBLISHED)


def require_data(folder: Path) -> DataFolder:
    """Return the data sets of a folder; raise if there are none."""
    if not folder.is_dir():
        raise FormatError(folder, None, "there is no such folder", WHERE_PUBLISHED)
    found = read_data_folder(folder)
    if not found.data:
        raise FormatError(folder, None, "no file in it holds two clouds or more", WHERE_PUBLISHED)
    return found


def run(found: DataFolder, tuning: TuningPlan = scoring.FULL_TUNING) -> list[Outcome]:
    """Return one outcome per data set, and one that lists what is missing."""
    data = with_progress(found.data, "data sets", len(found.data))
    return [*(_outcome_or_error(one, tuning) for one in data), _missing(found)]


def _missing(found: DataFolder) -> Outcome:
    """List the files that could not be read, and the authors' data sets that are not in the folder."""
    notes = [f"not read: {line}" for line in found.unread]
    notes += [f"not here: {one.file} ({one.title}: {one.archive})" for one in found.missing()]
    about = "Files that hold no clouds, and published data that are not in the folder."
    return Outcome("data", "Your data: files that were not read", about, [], [], {}, notes)


def _outcome_or_error(data: DataSet, tuning: TuningPlan) -> Outcome:
    """Report data that the methods cannot register, and continue with the other data sets."""
    try:
        return outcome_of(data, tuning)
    except KernelGPAError as error:
        return Outcome(data.name, f"Your data: {data.name}", f"Not registered: {error}", [], [], {})


def outcome_of(data: DataSet, tuning: TuningPlan = scoring.FULL_TUNING) -> Outcome:
    """Return the errors of all methods on the test points of a data set, or on landmarks that are left out."""
    if data.surfaces and data.test is not None:
        return _on_surfaces(data.name, data.test, tuning)
    if data.test is not None:
        return _on_test_points(data.name, data.points, data.test, tuning)
    seen_in = view_counts(data.points)
    if len(seen_in) > DENSE_CLOUD and (seen_in == len(data.points)).all():
        return _on_surfaces(data.name, data.points, tuning)
    if _has_categories(data.points):
        return _on_categories(data.name, data.points, tuning)
    return _on_left_out_landmarks(data.name, data.points, tuning)


def _has_categories(points: Array) -> bool:
    """Return whether each category (landmarks with the same number of views) is large enough to register all clouds."""
    seen, seen_in = ~np.isnan(points[:, :, 0]), view_counts(points)
    counts = set(seen_in.tolist())
    return (
        len(counts) > 1
        and min(counts) >= 3
        and all(seen[:, seen_in == c].sum(axis=1).min() >= MIN_CATEGORY for c in counts)
    )


def _settings(name: str, dimension: int) -> ExperimentSettings:
    known = next((settings for word, settings in SETTINGS_BY_WORD.items() if word in name.lower()), OTHER_SETTINGS)
    return ExperimentSettings(known.bandwidth, known.smoothing, THIN_PLATE_SMOOTHING[dimension])


def _on_surfaces(name: str, surfaces: Array, tuning: TuningPlan) -> Outcome:
    """Register some vertices as landmarks, and test on all."""
    landmarks = farthest_points(surfaces[0], SURFACE_LANDMARKS)
    models = scoring.fit_methods(surfaces[:, landmarks], _settings(name, surfaces.shape[2]), tuning)
    labels = [f"surface {t + 1}" for t in range(len(surfaces))]
    title = "distance of each surface from the mean map"
    distances = scoring.distance_table(f"{name}-each", title, labels, models, surfaces, FILE_UNIT)
    scores = scoring.score_methods(models, surfaces)
    table = scoring.score_table(name, "disagreement on all vertices", {"all": scores}, FILE_UNIT)
    about = f"{len(surfaces)} surfaces of {surfaces.shape[1]} vertices, {len(landmarks)} of them landmarks."
    notes = scoring.describe_settings(models, "all")
    return Outcome(name, f"Your data: {name}", about, [distances, table], scoring.own_claims(table), {}, notes)


def _on_test_points(name: str, points: Array, test: Array, tuning: TuningPlan) -> Outcome:
    models = scoring.fit_methods(points, _settings(name, points.shape[2]), tuning)
    table = scoring.score_table(
        name, "disagreement on the test points", {"all": scoring.score_methods(models, test)}, FILE_UNIT
    )
    about = f"{len(points)} clouds of {points.shape[1]} landmarks and {test.shape[1]} test points."
    notes = scoring.describe_settings(models, "all")
    return Outcome(name, f"Your data: {name}", about, [table], scoring.own_claims(table), {}, notes)


def _on_categories(name: str, points: Array, tuning: TuningPlan) -> Outcome:
    """Register each category and test on the others, as in the experiment on CT."""
    categories = ct.fit_categories(points, view_counts(points), points, ct.PAPER_SETTINGS, tuning)
    scores = {f"seen in {count}": of_category for count, (_, of_category) in categories.items()}
    table = scoring.score_table(name, "disagreement on the landmarks of the other categories", scores, FILE_UNIT)
    about = f"{len(points)} clouds of {points.shape[1]} landmarks, by the number of clouds that see them."
    notes = ct.notes(categories, "")
    return Outcome(
        name, f"Your data: {name}", about, [table], [*ct.claims(table), *scoring.own_claims(table)], {}, notes
    )


def _on_left_out_landmarks(name: str, points: Array, tuning: TuningPlan) -> Outcome:
    models = scoring.fit_methods(points, _settings(name, points.shape[2]), tuning)
    folds = min(tuning.folds, points.shape[1])
    table = Table(name, f"landmarks left out, {folds} folds", FILE_UNIT, ALL_METHODS)
    with silenced_warnings():
        validations = [selection.cross_validate(models[method], points, folds=folds) for method in ALL_METHODS]
    medians = [float(np.nanmedian(np.linalg.norm(one.residuals, axis=2))) for one in validations]
    table.add("sensor error, median", medians)
    table.add("the paper's cross-validation error", [one.cve for one in validations])
    about = f"{points.shape[0]} clouds of {points.shape[1]} landmarks in {points.shape[2]}D."
    notes = scoring.describe_settings(models, "all")
    return Outcome(name, f"Your data: {name}", about, [table], scoring.own_claims(table), {}, notes)

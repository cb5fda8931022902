"""The same methods on data that a user has: the authors' published files, real faces, or any others.

Points to test on come with the data, or are what is not made a landmark of dense clouds; where there are none,
landmarks are left out in folds.  There is no truth here.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from .._numerics.progress import with_progress
from ..errors import FormatError, KernelGPAError
from ..observations.sampling import farthest_points
from ..trust import selection
from ..typing import Array
from . import ct
from .layouts import KNOWN, Data, Folder, data_in, seen_by
from .scoring import COLUMNS, FOLDS, add_errors, chosen, claims_of_ours, each_table, fitted, quiet, score, scored_table
from .tables import Outcome, Table

LANDMARKS = 326  # of surfaces and dense clouds
DENSE = 1000  # points, above which a cloud that is seen everywhere is thinned
CATEGORY = 10  # landmarks at least of each cloud, for each number of clouds that see them
SETTINGS = {"face": (0.25, 0.2), "liver": (0.25, 0.1)}
OTHERWISE = (0.25, 0.2)
THIN_PLATE = {2: 10.0, 3: 0.01}  # the authors' smoothing by dimension
PUBLISHED = "the authors' data are published as " + "; ".join(f"{one.file} ({one.archive})" for one in KNOWN)


def found_in(folder: Path) -> Folder:
    """The data of a folder; an error where there are none."""
    if not folder.is_dir():
        raise FormatError(folder, None, "there is no such folder", PUBLISHED)
    found = data_in(folder)
    if not found.data:
        raise FormatError(folder, None, "no file in it holds two clouds or more", PUBLISHED)
    return found


def run(found: Folder) -> list[Outcome]:
    """One outcome a data set."""
    outcomes = [attempted(one) for one in with_progress(found.data, "data sets", len(found.data))]
    return [*outcomes, _not_here(found)]


def _not_here(found: Folder) -> Outcome:
    """What was not read, and what of the authors' data is not in the folder."""
    lines = [f"not read: {line}" for line in found.unread]
    lines += [f"not here: {one.file} ({one.title}: {one.archive})" for one in found.missing()]
    about = "Files that hold no clouds, and published data that are not in the folder."
    return Outcome("data", "Your data: what was not read", about, [], [], {}, lines)


def attempted(data: Data) -> Outcome:
    """Data on which the methods fail leave a note, not an end of everything."""
    try:
        return of_data(data)
    except KernelGPAError as problem:
        return Outcome(data.name, f"Your data: {data.name}", f"Not registered: {problem}", [], [], {})


def of_data(data: Data) -> Outcome:
    if data.surfaces and data.test is not None:
        return _of_surfaces(data.name, data.test)
    if data.test is not None:
        return _of_tests(data.name, data.points, data.test)
    seen_in = seen_by(data.points)
    if len(seen_in) > DENSE and (seen_in == len(data.points)).all():
        return _of_surfaces(data.name, data.points)
    if _has_categories(data.points):
        return _of_categories(data.name, data.points)
    return _of_landmarks(data.name, data.points)


def _has_categories(points: Array) -> bool:
    """Whether landmarks that so many clouds see are enough in every cloud to register it, for every such number."""
    seen, seen_in = ~np.isnan(points[:, :, 0]), seen_by(points)
    counts = set(seen_in.tolist())
    return (
        len(counts) > 1
        and min(counts) >= 3
        and all(seen[:, seen_in == c].sum(axis=1).min() >= CATEGORY for c in counts)
    )


def _settings(name: str, dimension: int) -> tuple[float, float, float]:
    known = next((pair for part, pair in SETTINGS.items() if part in name.lower()), OTHERWISE)
    return (*known, THIN_PLATE[dimension])


def _of_surfaces(name: str, surfaces: Array) -> Outcome:
    """Some vertices are landmarks and all are test points."""
    landmarks = farthest_points(surfaces[0], LANDMARKS)
    models = fitted(surfaces[:, landmarks], *_settings(name, surfaces.shape[2]))
    names = [f"surface {t + 1}" for t in range(len(surfaces))]
    title = "distance of each surface from the mean map"
    each = each_table(f"{name}-each", title, names, models, surfaces, "units of the file")
    scores = {column: score(models[column], surfaces) for column in COLUMNS}
    add_errors(each, scores)
    table = scored_table(name, "disagreement on all vertices", {"all": scores}, "units of the file")
    about = f"{len(surfaces)} surfaces of {surfaces.shape[1]} vertices, {len(landmarks)} of them landmarks."
    return Outcome(name, f"Your data: {name}", about, [each, table], claims_of_ours(table), {}, [chosen(models, "all")])


def _of_tests(name: str, points: Array, test: Array) -> Outcome:
    models = fitted(points, *_settings(name, points.shape[2]))
    scores = {column: score(models[column], test) for column in COLUMNS}
    table = scored_table(name, "disagreement on the test points", {"all": scores}, "units of the file")
    about = f"{len(points)} clouds of {points.shape[1]} landmarks and {test.shape[1]} test points."
    return Outcome(name, f"Your data: {name}", about, [table], claims_of_ours(table), {}, [chosen(models, "all")])


def _of_categories(name: str, points: Array) -> Outcome:
    """As in the experiment on CT: landmarks that so many clouds see, the others as test points."""
    found = ct.by_category(points, seen_by(points), points)
    scores = {f"seen in {count}": one for count, (one, _) in found.items()}
    title = "disagreement on the landmarks of the other categories"
    table = scored_table(name, title, scores, "units of the file")
    about = f"{len(points)} clouds of {points.shape[1]} landmarks, by the number of clouds that see them."
    notes = [chosen(models, f"seen in {count}") for count, (_, models) in found.items()]
    return Outcome(name, f"Your data: {name}", about, [table], [*ct.claims(table), *claims_of_ours(table)], {}, notes)


def _of_landmarks(name: str, points: Array) -> Outcome:
    models = fitted(points, *_settings(name, points.shape[2]))
    folds = min(FOLDS, points.shape[1])
    table = Table(name, f"landmarks left out, {folds} folds", "units of the file", COLUMNS)
    left_out, errors = [], []
    for column in COLUMNS:
        with quiet():
            found = selection.cross_validate(models[column], points, folds=folds)
        left_out.append(float(np.nanmedian(np.linalg.norm(found.residuals, axis=2))))
        errors.append(found.cve)
    table.add("sensor error, median", left_out)
    table.add("the paper's cross-validation error", errors)
    about = f"{points.shape[0]} clouds of {points.shape[1]} landmarks in {points.shape[2]}D."
    return Outcome(name, f"Your data: {name}", about, [table], claims_of_ours(table), {}, [chosen(models, "all")])

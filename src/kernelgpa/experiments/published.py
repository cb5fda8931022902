"""The same methods on data that a user has: the authors' published files, real faces, or any others.

Every file of the folder that holds clouds is read: MATLAB cells ``DataCell`` and ``VisVecCell``, as the authors' data
are, or any format of the library; and an archive with ``vertices`` (n, v, 3) and ``faces``, surfaces in
correspondence, of which 326 vertices are landmarks and all are test points.  There is no truth here.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from .. import metrics, selection
from ..errors import FormatError, KernelGPAError
from ..frames import Array, farthest_points
from ..io.files import FORMATS, read_clouds
from ..io.npz import arrays_in
from .common import COLUMNS, FOLDS, Outcome, Table, claims_of_ours, fitted, quiet, score, scored_table

WHERE = (
    "the authors' data (semi-synthetic liver, TOPACS, facial expressions, handbag, pillow cover, toy rug, LiTS) are "
    "published with the papers (KernelGPA, doi 10.1177/02783649231195380; DefGPA, doi 10.1007/s11263-021-01571-8); "
    "unpack them into one folder"
)
SURFACE_LANDMARKS = 326
SETTINGS = (0.25, 0.2)  # the paper's for faces; those of its other data lie near


def run(folder: Path) -> list[Outcome]:
    """One outcome a file."""
    if not folder.is_dir():
        raise FormatError(folder, None, "there is no such folder", WHERE)
    outcomes = [of_file(path) for path in sorted(folder.rglob("*")) if path.is_file() and _may_hold_clouds(path)]
    found = [one for one in outcomes if one is not None]
    if not found:
        raise FormatError(folder, None, "no file in it holds two clouds or more", WHERE)
    return found


def _may_hold_clouds(path: Path) -> bool:
    return any(path.name.lower().endswith(suffix) for suffix in FORMATS)


def of_file(path: Path) -> Outcome | None:
    """None where the file holds something else, or one cloud."""
    surfaces = _surfaces(path)
    if surfaces is not None:
        return _of_surfaces(path, surfaces)
    try:
        points = read_clouds([path]).observations.points
    except KernelGPAError:  # a file of something else, or of one cloud
        return None
    return _of_landmarks(path, points)


def _surfaces(path: Path) -> Array | None:
    if path.suffix.lower() != ".npz":
        return None
    try:
        arrays = arrays_in(path.read_bytes(), str(path), ["vertices"])
    except FormatError:
        return None
    vertices = arrays.get("vertices")
    return None if vertices is None or vertices.ndim != 3 else vertices.astype(np.float64)


def _of_surfaces(path: Path, surfaces: Array) -> Outcome:
    chosen = farthest_points(surfaces[0], SURFACE_LANDMARKS)
    models = fitted(surfaces[:, chosen], *SETTINGS)
    each = Table(f"{path.stem}-each", "distance of each surface from the mean map", "units of the file", COLUMNS)
    apart = {}
    for column in COLUMNS:
        warped = models[column].transform_clouds(surfaces)
        apart[column] = np.linalg.norm(warped - metrics.mean_map(warped), axis=2)
    for t in range(len(surfaces)):
        each.add(f"surface {t + 1}", [float(np.sqrt(np.mean(apart[column][t] ** 2))) for column in COLUMNS])
    scores = {column: score(models[column], surfaces) for column in COLUMNS}
    table = scored_table(path.stem, "disagreement on all vertices", {"all": scores})
    about = f"{path.name}: {len(surfaces)} surfaces of {surfaces.shape[1]} vertices, {len(chosen)} of them landmarks."
    return Outcome(path.stem, f"Your data: {path.stem}", about, [each, table], claims_of_ours(table), {})


def _of_landmarks(path: Path, points: Array) -> Outcome:
    models = fitted(points, *SETTINGS)
    table = Table(path.stem, f"landmarks left out, {FOLDS} folds", "units of the file", COLUMNS)
    left_out, errors = [], []
    for column in COLUMNS:
        with quiet():
            found = selection.cross_validate(models[column], points, folds=FOLDS)
        left_out.append(float(np.nanmedian(np.linalg.norm(found.residuals, axis=2))))
        errors.append(found.cve)
    table.add("sensor error, median", left_out)
    table.add("the paper's cross-validation error", errors)
    about = f"{path.name}: {points.shape[0]} clouds of {points.shape[1]} landmarks in {points.shape[2]}D."
    return Outcome(path.stem, f"Your data: {path.stem}", about, [table], claims_of_ours(table), {})

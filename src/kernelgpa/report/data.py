"""Everything that the page shows, as one record that JSON can hold.

n clouds, m landmarks, d dimensions, k landmarks that are drawn for each cloud.  Which observations the errors count is
stated in ``trust.agreement``.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass, replace
from importlib.metadata import version

import numpy as np
import numpy.typing as npt
from scipy.spatial import KDTree

from ..errors import InvalidSetting
from ..estimators.base import GPA
from ..estimators.methods import METHODS
from ..observations.arrays import finite_rows
from ..trust.agreement import Agreement, Distribution, distribution, json_number
from ..typing import Array, BoolArray, IndexArray
from .metadata import Metadata
from .packing import PackedArray, base64_of, packed
from .shape_data import ShapeData
from .summary import Assessment, ReportedFinding
from .tables import Column
from .tuning import Pairs, TuningData, shown_settings, tuning_data, without_folders
from .vocabulary import Vocabulary, vocabulary, with_unit

AXES_MARGIN = 0.25  # of the map's extent: warped points farther outside do not enlarge the axes
MOST_LISTED_UNSEEN = 40  # pairs of a cloud and a landmark: the page lists these in a sentence
MOST_LINKED, LINKED_NEIGHBOURS = 200, 2  # landmarks of which each is joined to its neighbours
PADDING = 0.04  # of the extent, on each side of the axes
# sizes and shape distances mean little where a moving sensor sees a part of the scene
SHAPE_COLUMNS = ("centroid_size", "procrustes_distance", "outlier")


@dataclass(frozen=True)
class PageLimits:
    """How much a page holds; larger registrations are drawn in part.

    Attributes
    ----------
    coordinates : int
        Of warped points; a million are about 5 MB.
    points : int
        Of one cloud; more than 20,000 cannot be rotated smoothly.
    visibility_rows, visibility_columns : int
        Clouds and landmarks of the picture of the visibility.
    """

    coordinates: int = 1_000_000
    points: int = 20_000
    visibility_rows: int = 300
    visibility_columns: int = 1000


@dataclass(frozen=True)
class MethodData:
    name: str
    description: str
    settings: Pairs


@dataclass(frozen=True)
class ErrorSummary:
    """Statistics over the landmarks."""

    disagreement: Distribution
    sensor_error: Distribution


@dataclass(frozen=True)
class FaceData:
    count: int
    data: str  # base64 of little-endian int32, three landmark indices per triangle


@dataclass(frozen=True)
class VisibilityData:
    """Which cloud saw which landmark, in blocks if there are many; base64 of one byte per block, 255 = all seen."""

    rows: list[int]  # first cloud of each block
    columns: list[int]  # first landmark of each block
    data: str


@dataclass(frozen=True)
class EigenvalueData:
    values: list[float | str | None]
    dimension: int
    rounding: float  # eigenvalues below are zero to rounding


@dataclass(frozen=True)
class PoseData:
    positions: PackedArray  # (n, d)
    axes: PackedArray  # (n, d, d)


@dataclass(frozen=True)
class PageColumn:
    """A column of a table, with its numbers packed."""

    name: str
    kind: str
    label: str
    values: PackedArray | list[str]

    @classmethod
    def of(cls, column: Column) -> PageColumn:
        values = column.values
        return cls(column.name, column.kind, column.label, values if isinstance(values, list) else packed(values))


@dataclass(frozen=True)
class SurfaceData:
    """A mesh in the map, whose vertices need not be landmarks."""

    vertices: PackedArray  # (k, d)
    faces: FaceData


@dataclass(frozen=True)
class LinkData:
    """Lines between landmarks."""

    pairs: list[tuple[int, int]]
    guessed: bool  # whether they join nearest neighbours, because the data have none


@dataclass(frozen=True)
class PageData:
    title: str
    words: Vocabulary
    unseen: list[tuple[int, int]] | None  # (cloud, landmark); None: too many to list
    links: LinkData | None
    surface: SurfaceData | None
    outlier_threshold: float  # of the Procrustes distance
    unit: str
    notes: list[str]
    dimension: int
    clouds: list[str]
    landmarks: list[str]
    method: MethodData
    observation_count: int
    mirrored: list[str]  # mirror images that take no part in the map
    rejected: int | None  # observations; None if the fit was not robust
    certificate: str  # of the rotations, in words
    choice: str  # of automatic settings, in words; empty if all were given
    summary: ErrorSummary
    findings: list[ReportedFinding]
    map: PackedArray  # (m, d)
    axis_ranges: list[tuple[float, float]]
    faces: FaceData | None
    drawn: list[int] | None  # landmarks; None: all
    warped: PackedArray  # (n, k, d)
    visibility: VisibilityData
    eigenvalues: EigenvalueData | None
    poses: PoseData
    tuning: TuningData | None
    landmark_table: list[PageColumn]
    cloud_table: list[PageColumn]
    settings: Pairs
    versions: Pairs
    shapes: ShapeData | None = None


def page_data(assessment: Assessment, metadata: Metadata, limits: PageLimits) -> PageData:
    """Collect what the page shows."""
    gpa, agreement = assessment.gpa, assessment.agreement
    observations = gpa.observations_
    drawn = _drawn_landmarks(len(observations.clouds), len(gpa.map_), observations.dimension, limits)
    words = vocabulary(metadata.kind)
    findings = assessment.reported_findings(metadata)
    return PageData(
        title=str(metadata.title),
        words=replace(words, trajectory=words.trajectory and not _are_shapes(gpa, metadata)),
        unseen=_unseen(agreement.visible),
        links=_links(metadata, gpa.map_),
        surface=None if metadata.surface is None else _surface(*metadata.surface),
        outlier_threshold=assessment.procrustes.threshold,
        unit="" if metadata.unit is None else str(metadata.unit),
        notes=_notes(assessment, metadata, words, findings),
        dimension=observations.dimension,
        clouds=[str(name) for name in observations.names],
        landmarks=[str(name) for name in observations.landmarks],
        method=_method(gpa),
        observation_count=int(agreement.visible.sum()),
        mirrored=[str(observations.names[t]) for t in gpa.registration_.problem.left_out],
        rejected=None if gpa.robust_ is None else int(np.sum(agreement.visible & ~agreement.inliers)),
        certificate=words.translate(_certificate(gpa)),
        choice=words.translate(_choice(gpa, metadata.unit)),
        summary=_error_summary(agreement),
        findings=findings,
        map=packed(gpa.map_),
        axis_ranges=_axis_ranges(gpa.map_, agreement.warped[agreement.counted]),
        faces=None if metadata.faces is None else _faces(metadata.faces, gpa.map_),
        drawn=None if len(drawn) == len(gpa.map_) else drawn.tolist(),
        warped=packed(agreement.warped[:, drawn]),
        visibility=_visibility(agreement.visible, limits),
        eigenvalues=_eigenvalues(gpa),
        poses=PoseData(packed(gpa.translations_), packed(gpa.rotations_)),
        tuning=None if metadata.tuning is None else tuning_data(metadata.tuning),
        landmark_table=[PageColumn.of(column) for column in assessment.landmark_columns],
        cloud_table=_cloud_table(assessment, metadata),
        settings=shown_settings(without_folders(metadata.settings)),
        versions=_versions(),
    )


def _notes(assessment: Assessment, metadata: Metadata, words: Vocabulary, findings: list[ReportedFinding]) -> list[str]:
    """The notes that no finding repeats: the diagnosis lists the warnings of the fit, too."""
    names = words.changed_by_translation(assessment.names)
    listed = {f"{one.found}; {one.action}" for one in findings}
    notes = (words.translate(str(note), names) for note in metadata.notes)
    return [note for note in notes if note not in listed]


def _cloud_table(assessment: Assessment, metadata: Metadata) -> list[PageColumn]:
    columns = assessment.cloud_columns(metadata.attributes)
    compared = bool(metadata.attributes) or _are_shapes(assessment.gpa, metadata)
    return [PageColumn.of(column) for column in columns if compared or column.name not in SHAPE_COLUMNS]


def _are_shapes(gpa: GPA, metadata: Metadata) -> bool:
    """Whether clouds are bodies to compare, not views of a sensor: meshes in correspondence, specimens, sizes."""
    return metadata.faces is not None or gpa._sizes_differ or vocabulary(metadata.kind).shapes


def _unseen(visible: BoolArray) -> list[tuple[int, int]] | None:
    pairs = np.argwhere(~visible)
    return [(int(t), int(j)) for t, j in pairs] if len(pairs) <= MOST_LISTED_UNSEEN else None


def _links(metadata: Metadata, positions: Array) -> LinkData | None:
    """The links of the data, otherwise those of each landmark with its nearest neighbours; none if faces are known."""
    known = finite_rows(positions)
    if metadata.links is not None:
        pairs = metadata.links[known[metadata.links].all(axis=1)]
        return LinkData([(int(a), int(b)) for a, b in pairs], guessed=False)
    if metadata.faces is not None or metadata.surface is not None or not 3 <= known.sum() <= MOST_LINKED:
        return None
    indices = np.flatnonzero(known)
    _, nearest = KDTree(positions[known]).query(positions[known], k=1 + LINKED_NEIGHBOURS)
    found = {tuple(sorted((int(indices[i]), int(indices[j])))) for i, row in enumerate(nearest) for j in row if i != j}
    return LinkData([(a, b) for a, b in sorted(found)], guessed=True)


def _surface(vertices: Array, faces: IndexArray) -> SurfaceData:
    return SurfaceData(packed(vertices), _faces(faces, vertices))


def _method(gpa: GPA) -> MethodData:
    name = type(gpa).__name__
    described = [one.description for one in METHODS.values() if isinstance(gpa, one.estimator)]
    description = (described or ["warps"])[0] + (" and sizes" if gpa._sizes_differ else "")
    settings = {key: value for key, value in gpa.registration_.settings.items() if key != "n_jobs"}
    return MethodData(name, description, shown_settings(settings))


def _certificate(gpa: GPA) -> str:
    if gpa.certificate_ is None:
        return "There is no certificate for the rotations of this method: they do not maximise one quadratic form."
    return str(gpa.certificate_)


def _choice(gpa: GPA, unit: str | None) -> str:
    return "" if gpa.automatic_ is None else with_unit(str(gpa.automatic_), unit)


def _error_summary(agreement: Agreement) -> ErrorSummary:
    errors = agreement.per_landmark
    return ErrorSummary(distribution(errors.in_map), distribution(errors.in_sensor_frame))


def _axis_ranges(positions: Array, warped: Array) -> list[tuple[float, float]]:
    """The map, and the warped points that are not too far outside it."""
    known = positions[finite_rows(positions)]
    low, high = known.min(axis=0), known.max(axis=0)
    margin = AXES_MARGIN * (high - low).max()
    low = np.minimum(low, np.maximum(warped.min(axis=0), low - margin))
    high = np.maximum(high, np.minimum(warped.max(axis=0), high + margin))
    padding = PADDING * (high - low).max()
    return [(float(a - padding), float(b + padding)) for a, b in zip(low, high, strict=True)]


def _faces(faces: npt.ArrayLike, positions: Array) -> FaceData:
    """Triangles whose three corners have a position in the map."""
    array = np.asarray(faces)
    if array.ndim != 2 or array.shape[1] != 3 or array.dtype.kind not in "iu":
        raise InvalidSetting(
            f"faces have shape {array.shape} and type {array.dtype}; expected (triangles, 3) landmark indices"
        )
    if len(array) and not 0 <= array.min() <= array.max() < len(positions):
        raise InvalidSetting(
            f"faces name landmarks {array.min()} to {array.max()}; there are {len(positions)}, counted from 0"
        )
    kept = array[finite_rows(positions)[array].all(axis=1)]
    return FaceData(len(kept), base64_of(kept.astype("<i4")))


def _drawn_landmarks(n: int, m: int, d: int, limits: PageLimits) -> IndexArray:
    """All landmarks, or as many as the limits allow, evenly chosen."""
    most = max(1, min(limits.points, limits.coordinates // (n * d)))
    return np.arange(m) if m <= most else np.linspace(0, m - 1, most).astype(np.intp)


def _visibility(visible: BoolArray, limits: PageLimits) -> VisibilityData:
    rows = _block_starts(visible.shape[0], limits.visibility_rows)
    columns = _block_starts(visible.shape[1], limits.visibility_columns)
    sums = np.add.reduceat(np.add.reduceat(visible.astype(np.float64), rows, axis=0), columns, axis=1)
    sizes = np.outer(np.diff([*rows, visible.shape[0]]), np.diff([*columns, visible.shape[1]]))
    shares = np.round(255 * sums / sizes).astype(np.uint8)
    return VisibilityData(rows.tolist(), columns.tolist(), base64_of(shares))


def _block_starts(size: int, most: int) -> IndexArray:
    return (np.arange(min(size, most)) * size // min(size, most)).astype(np.intp)


def _eigenvalues(gpa: GPA) -> EigenvalueData | None:
    if not gpa._deforms:
        return None
    spectrum = gpa.spectrum_
    values = [json_number(value) for value in spectrum.values]
    return EigenvalueData(values, int(spectrum.dimension), float(spectrum.rounding))


def _versions() -> Pairs:
    packages = ("numpy", "scipy", "scikit-learn", "plotly")
    own = [("kernelgpa", version("kernelgpa")), ("Python", platform.python_version())]
    return own + [(name, version(name)) for name in packages]

"""How good a registration is, computed once for the page, ``summary.json`` and the command line."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from importlib.metadata import version
from typing import Any

import numpy as np

from ..errors import InvalidSetting
from ..estimators.base import GPA
from ..trust.agreement import Agreement, distribution
from ..trust.diagnosis import Finding
from ..trust.procrustes import ProcrustesStatistics, procrustes_statistics
from ..typing import Array, Name
from .metadata import Metadata
from .tables import Column, cloud_columns, known_medians, landmark_columns
from .vocabulary import vocabulary, with_option_names, with_unit

NO_LOSS = "none"  # the word for no robust loss in settings files and on the command line
Scalar = bool | int | float | str | None  # what both JSON and TOML can hold, except that TOML has no null


@dataclass(frozen=True)
class ReportedFinding:
    """A finding for people, with a code for programs."""

    code: str  # the same whatever the words are, such as "landmarks-seen-once-or-never"
    kind: str
    severity: float
    found: str
    action: str
    note: bool = False  # good to know, and no problem


def finding_code(kind: str) -> str:
    """The kind of a finding, in the words of the library, as an identifier."""
    return re.sub(r"[^a-z0-9]+", "-", kind.lower()).strip("-")


@dataclass(frozen=True)
class Assessment:
    """A fitted registration with its agreement statistics and its diagnosis, computed once for all files of a result.

    Attributes
    ----------
    gpa : estimator
        The fitted estimator.
    agreement : Agreement
        How far the clouds agree at each landmark.
    findings : list of Finding
        The diagnosis.
    procrustes : ProcrustesStatistics
        Sizes of the clouds and their distances from the map.
    names : list of str
        The names of the clouds and of the landmarks, which are never translated.
    landmark_columns : list of Column
        The table of landmarks.
    """

    gpa: GPA
    agreement: Agreement
    findings: list[Finding]
    procrustes: ProcrustesStatistics

    @classmethod
    def of(cls, gpa: GPA, procrustes: ProcrustesStatistics | None = None) -> Assessment:
        """Assess a registration; ``procrustes`` are the sizes and distances of a shape model, if there is one."""
        if not isinstance(gpa, GPA):
            raise InvalidSetting(
                f"found {type(gpa).__name__}; expected a fitted registration, such as KernelGPA().fit(points)"
            )
        return cls(gpa, Agreement(gpa), gpa.diagnose(), procrustes or procrustes_statistics(gpa))

    @cached_property
    def names(self) -> list[str]:
        return [str(name) for name in (*self.gpa.observations_.names, *self.gpa.observations_.landmarks)]

    def reported_findings(self, metadata: Metadata) -> list[ReportedFinding]:
        """The findings in the words for what was registered and for the interface."""
        words = vocabulary(metadata.kind)
        names = words.changed_by_translation(self.names)

        def worded(text: str) -> str:
            translated = with_unit(words.translate(text, names), metadata.unit)
            return with_option_names(translated) if metadata.from_command_line else translated

        return [
            ReportedFinding(
                finding_code(one.kind),
                worded(one.kind),
                one.severity,
                worded(one.found),
                worded(one.action),
                one.is_note,
            )
            for one in self.findings
        ]

    @cached_property
    def landmark_columns(self) -> list[Column]:
        return landmark_columns(self.agreement)

    def cloud_columns(self, attributes: Mapping[str, Sequence[str]]) -> list[Column]:
        return cloud_columns(self.gpa, self.agreement, attributes, self.procrustes)


@dataclass(frozen=True)
class ErrorStatistics:
    """Statistics over the landmarks of which something is known."""

    count: int
    median: float | str | None
    mean: float | str | None
    worst: float | str | None
    worst_landmark: str | None

    @classmethod
    def of(cls, values: Array, landmarks: Sequence[Name]) -> ErrorStatistics:
        found = distribution(values)
        at = found["at"]
        name = None if at is None else str(landmarks[at])
        return cls(found["count"], found["median"], found["mean"], found["worst"], name)


@dataclass(frozen=True)
class Summary:
    """The contents of ``summary.json``.  Lengths are in ``unit``; errors are measured on the landmarks of the fit.

    Attributes
    ----------
    kernelgpa : str
        The version.
    title, method : str
        The title of the report and the method.
    settings : dict
        The settings that were used.
    automatic : str or None
        Which settings the fit chose, and why; None if all were given.
    clouds, landmarks, dimension : int
        n, m and d.
    seen_share : float
        The share of all pairs of a cloud and a landmark that were seen.
    matched_by, unit, frame : str or None
        How landmarks of different files were matched, and the unit and frame of the points.
    notes : list of str
        What a reader of the result should know.
    disagreement, sensor_frame_error, left_out_error : ErrorStatistics
        Errors over the landmarks.
    scales, eigenvalues : lists of d and d + 1 numbers
        As the estimator has them; None where unknown.
    certified : bool or None
        Whether the rotations are proven to be the global optimum; None: not applicable.
    optimality_gap : float or None
        Bound on what other rotations may explain in addition, as a share; None: unknown.
    left_out : list of str
        Clouds that take no part in the map, because they are mirror images.
    findings : list of ReportedFinding
        The diagnosis.
    kind : str
        What a cloud is: "specimen", "frame" or "cloud".
    """

    kernelgpa: str
    title: str
    method: str
    settings: dict[str, Scalar | list[float]]
    automatic: str | None
    clouds: int
    landmarks: int
    dimension: int
    seen_share: float
    matched_by: str | None
    unit: str | None
    frame: str | None
    notes: list[str]
    disagreement: ErrorStatistics
    sensor_frame_error: ErrorStatistics
    left_out_error: ErrorStatistics
    scales: list[float | None]
    eigenvalues: list[float | None]
    certified: bool | None
    optimality_gap: float | None
    left_out: list[str]
    findings: list[ReportedFinding]
    kind: str = "cloud"

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=2, ensure_ascii=False)


def summarise(assessment: Assessment, metadata: Metadata) -> Summary:
    """Collect the statistics and findings of a registration."""
    gpa, errors = assessment.gpa, assessment.agreement.per_landmark
    observations = gpa.observations_
    names = observations.landmarks
    residuals = assessment.agreement.residuals
    return Summary(
        kernelgpa=version("kernelgpa"),
        title=metadata.title,
        method=type(gpa).__name__,
        settings={name: plain_value(value) for name, value in gpa.registration_.settings.items()},
        automatic=None if gpa.automatic_ is None else with_unit(str(gpa.automatic_), metadata.unit),
        clouds=len(observations.clouds),
        landmarks=len(names),
        dimension=observations.dimension,
        seen_share=float(observations.visible.mean()),
        matched_by=metadata.matched_by,
        unit=metadata.unit,
        frame=metadata.frame,
        notes=[vocabulary(metadata.kind).translate(str(note), assessment.names) for note in metadata.notes],
        disagreement=ErrorStatistics.of(errors.in_map, names),
        sensor_frame_error=ErrorStatistics.of(errors.in_sensor_frame, names),
        left_out_error=ErrorStatistics.of(known_medians(residuals, axis=0), names),
        scales=[_finite(value) for value in gpa.scales_],
        eigenvalues=[_finite(value) for value in gpa.eigenvalues_],
        certified=gpa.certified_,
        optimality_gap=None if gpa.certificate_ is None else _finite(gpa.certificate_.gap),
        left_out=[str(observations.names[t]) for t in gpa.registration_.problem.left_out],
        findings=assessment.reported_findings(metadata),
        kind=metadata.kind,
    )


def settings_for_file(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as a settings file holds them: without those that are None, except that no robust loss has a word."""
    plain = {name: plain_value(value) for name, value in settings.items()}
    if "robust" in plain and plain["robust"] is None:
        plain["robust"] = NO_LOSS
    return {name: value for name, value in plain.items() if value is not None}


def plain_value(value: Any) -> Scalar | list[float]:
    """A setting as JSON and TOML can hold it; other objects as text."""
    if isinstance(value, list | tuple | np.ndarray) and all(isinstance(one, float | int | np.number) for one in value):
        return [float(one) for one in value]  # one per cloud
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None

"""What is known about a registration beyond the registration itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..trust.selection import Tuning
from ..typing import Array, IndexArray


@dataclass(frozen=True)
class Metadata:
    """The texts, the mesh and the settings that accompany a registration in its report and its result folder.

    Attributes
    ----------
    title : str
        Title of the report.
    unit, frame : str or None
        Unit and coordinate frame of all points, such as "mm" and "LPS".
    matched_by : str or None
        The rule by which landmarks of different files were matched.
    times : sequence of float, or None
        Time of each cloud in seconds, for ``poses.tum``.
    kind : str
        What a cloud is to the reader, "specimen", "frame" or "cloud"; the words of messages and the page follow it.
    from_command_line : bool
        Whether the reader knows options such as ``--robust`` rather than arguments of Python.
    attributes : mapping
        Columns with one text per cloud, such as species or sex, for tables and colours.
    procrustes : str
        The convention of ``aligned.csv``: "registered", "partial" or "full" (``trust.procrustes``).
    links : ndarray of shape (e, 2), or None
        Lines between landmarks.
    surface : pair of ndarrays of shapes (k, 3) and (f, 3), or None
        A mesh in the map whose vertices need not be landmarks, drawn instead of ``faces``.
    notes : sequence of str
        Anything that a reader of the result should know, one paragraph each.
    faces : ndarray of shape (f, 3), or None
        Triangles between landmarks, drawn as a translucent surface.
    tuning : Tuning or None
        The search that found the settings.
    settings : mapping
        Everything that is needed to run the registration again, as ``settings.toml`` holds it.
    """

    title: str = "kernelgpa"
    unit: str | None = None
    frame: str | None = None
    matched_by: str | None = None
    times: Sequence[float] | None = None
    kind: str = "cloud"
    from_command_line: bool = False
    attributes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    procrustes: str = "registered"
    links: IndexArray | None = None
    surface: tuple[Array, IndexArray] | None = None
    notes: Sequence[str] = ()
    faces: IndexArray | None = None
    tuning: Tuning | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    def stored(self) -> dict[str, Any]:
        """The part that a model file holds."""
        return {
            **{"unit": self.unit, "frame": self.frame, "title": self.title, "notes": list(self.notes)},
            **{"kind": self.kind, "attributes": {name: list(texts) for name, texts in self.attributes.items()}},
        }

    @classmethod
    def from_stored(cls, stored: Mapping[str, Any]) -> Metadata:
        return cls(
            title=stored.get("title") or cls.title,
            unit=stored.get("unit"),
            frame=stored.get("frame"),
            notes=tuple(stored.get("notes", ())),
            kind=stored.get("kind") or cls.kind,
            attributes={name: tuple(texts) for name, texts in stored.get("attributes", {}).items()},
        )

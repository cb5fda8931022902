"""What a format can hold, and what every writer checks before it writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..errors import FormatError
from ..typing import Array
from .landmark_file import LabelledCloud, LandmarkFile, is_partly_seen, numbered_labels
from .text import is_unicode, short_repr

INSTEAD = "write CSV or NPZ instead"


@dataclass(frozen=True)
class Capabilities:
    """What a format can hold.  Its writer refuses everything else; :meth:`drop_unsupported` leaves it out."""

    name: str  # of the format
    several: bool = True  # clouds per file
    names: bool = True  # of clouds
    labels: bool = True  # of landmarks
    weights: bool = False
    planar: bool = True  # points in two dimensions
    unseen: bool = True  # points that were not seen
    faces: bool = False
    frame: bool = False
    unit: bool = False
    times: bool = False  # of frames
    precision: str = ""  # what else is lost

    def require(self, file: LandmarkFile) -> None:
        """Raise an error unless the format can hold the file."""
        self._require_valid(file)
        if file.faces is not None and not self.faces:
            raise self.error("the format cannot hold faces", "write a mesh format, or omit the faces")
        if any(one.weights is not None for one in file.clouds) and not self.weights:
            raise self.error("the format cannot hold weights", INSTEAD)
        if len(file.clouds) > 1 and not self.several:
            found = f"the format holds one cloud per file, and there are {len(file.clouds)}"
            raise self.error(found, "write one file per cloud (kernelgpa convert --to), or CSV or NPZ")
        if file.clouds[0].points.shape[1] != 3 and not self.planar:
            raise self.error("the format holds points in three dimensions only", "write CSV, NPZ or TPS instead")
        numbered = all(one.labels == numbered_labels(len(one.labels)) for one in file.clouds)
        if file.labelled and not numbered and not self.labels:
            raise self.error("the format cannot hold landmark labels", f"{INSTEAD}, or use without_labels()")
        if not self.unseen:
            self._require_all_seen(file.clouds)

    def stack_points(self, file: LandmarkFile) -> Array:  # (n, k, d)
        """Return all clouds in one array, for formats in which all have the same landmarks."""
        first = file.clouds[0]
        for one in file.clouds:
            if one.labels != first.labels or one.points.shape != first.points.shape:
                raise self.error(
                    f"{one.name!r} and {first.name!r} have different landmarks",
                    "write CSV instead, which can hold them",
                )
        return np.stack([one.points for one in file.clouds])

    def require_names(self, texts: Sequence[str], is_allowed: Callable[[str], bool], limit: str) -> None:
        """Refuse names of clouds or landmarks that would not be read back unchanged."""
        for text in texts:
            if not is_allowed(text):
                raise self.error(f"the name {short_repr(text)} {limit}", "rename it, or write CSV instead")

    def drop_unsupported(self, file: LandmarkFile) -> tuple[LandmarkFile, list[str]]:
        """Return the file without what the format cannot hold, and notes on what was dropped."""
        lost: list[str] = []
        if file.labelled and not self.labels:
            file, lost = file.without_labels(), [*lost, "landmark labels; landmarks are numbered"]
        if any(one.weights is not None for one in file.clouds) and not self.weights:
            unweighted = tuple(replace(one, weights=None) for one in file.clouds)
            file, lost = replace(file, clouds=unweighted), [*lost, "weights"]
        if file.faces is not None and not self.faces:
            file, lost = replace(file, faces=None), [*lost, "faces"]
        if file.frame and not self.frame:
            lost.append(f"the frame, which is {file.frame}")
        if file.unit and not self.unit:
            lost.append(f"the unit, which is {file.unit}")
        if any(one.time is not None for one in file.clouds) and not self.times:
            lost.append("the times of frames")
        if any(one.time is None for one in file.clouds) and self.times:
            lost.append("frames without times; they are written with one frame per second")
        if not file.frame and self.frame and not self.faces:
            lost.append("an unknown frame; coordinates are written as LPS")
        if self.precision:
            lost.append(self.precision)
        if not self.names and self.several:
            lost.append("names of clouds; clouds are numbered")
        return file, [f"{self.name} cannot hold {one}" for one in lost]

    def error(self, found: str, remedy: str) -> FormatError:
        return FormatError(self.name, None, found, remedy)

    def _require_valid(self, file: LandmarkFile) -> None:
        """Refuse what no file of landmarks can hold."""
        if not file.clouds:
            raise self.error("there is no cloud", "give at least one")
        dimension = file.clouds[0].points.shape[-1]
        for one in file.clouds:
            self._require_valid_cloud(one, dimension)
        self._require_valid_names([one.name for one in file.clouds], "cloud")

    def _require_valid_cloud(self, one: LabelledCloud, dimension: int) -> None:
        k = len(one.labels)
        if dimension not in (2, 3) or one.points.shape != (k, dimension) or k == 0:
            found = f"{one.name!r} has {k} labels for points of shape {one.points.shape}"
            raise self.error(found, "expected (landmarks, 2) or (landmarks, 3), the same for all clouds")
        if is_partly_seen(one.points):
            found = f"{one.name!r} has a point that is infinite, or NaN in some coordinates only"
            raise self.error(found, "make all coordinates of a point finite or all NaN")
        if one.weights is not None and (one.weights.shape != (k,) or not np.isfinite(one.weights).all()):
            raise self.error(f"{one.name!r} has invalid weights", "give one finite weight per landmark")
        self._require_valid_names(one.labels, f"{one.name!r}: landmark")

    def _require_valid_names(self, texts: Sequence[str], what: str) -> None:
        if len(set(texts)) < len(texts) or "" in texts:
            raise self.error(f"{what} names are empty or occur twice", "give each its own name")
        for text in texts:
            if not is_unicode(text):
                raise self.error(f"{what} {text!r} is not valid Unicode", "rename it")

    def _require_all_seen(self, clouds: Sequence[LabelledCloud]) -> None:
        for one in clouds:
            unseen = np.flatnonzero(np.isnan(one.points).any(axis=1))
            if len(unseen):
                found = f"{one.name!r}: landmark {one.labels[unseen[0]]!r} was not seen"
                raise self.error(f"{found}, which the format cannot express", INSTEAD)

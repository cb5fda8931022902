"""Files written again in their own formats with unseen landmarks filled in.

Each format fills in the user's own file, so that everything else in it stays as it was; only chosen frames or markers,
and what the layout of a file cannot take, are written anew, with labels, weights, faces and unit.  Seen points are the
same numbers, which is verified by reading what would be written.  A landmark that a file does not list is added to it
if the format labels landmarks.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ..errors import FormatError, warn
from ..typing import Array, IndexArray
from .files import FORMATS, suffix_of
from .in_place import added_points, filled_points
from .landmark_file import LabelledCloud, LandmarkFile, ReadOptions
from .matching import MatchedClouds

SD_TABLE = "standard_deviations.csv"


@dataclass(frozen=True)
class CompletedFiles:
    """Files, and their clouds with matched landmarks; several files may be parts of one cloud."""

    paths: Sequence[Path]
    files: Sequence[LandmarkFile]
    options: ReadOptions
    matched: MatchedClouds

    def require_formats(self) -> None:
        """Raise an error unless every file can be written back in its own format, before anything is computed."""
        names = [path.name for path in self.paths]
        for path, file in zip(self.paths, self.files, strict=True):
            if names.count(path.name) > 1 or path.name == SD_TABLE:
                raise FormatError(path, None, "several results would have this name", "rename the file")
            filled = replace(file, clouds=tuple(map(_filled, file.clouds)))
            if self._in_place(path, filled, file) is None:
                self._anew(path, filled, file)

    def rendered(self, points: Array) -> dict[str, bytes]:  # (n, m, d)
        """The bytes of all files with the positions of their unseen landmarks."""
        result = {}
        origins = iter(self.matched.origins)
        for path, file in zip(self.paths, self.files, strict=True):
            clouds = []
            for one, (t, columns) in zip(file.clouds, origins, strict=False):
                clouds.append(self._completed(one, points[t], columns, file.labelled))
            result[path.name] = self._rendered(path, replace(file, clouds=tuple(clouds)), file)
        return result

    def _completed(self, cloud: LabelledCloud, points: Array, columns: IndexArray, labelled: bool) -> LabelledCloud:
        """One cloud with its unseen landmarks at the given positions (m, d)."""
        unseen = np.isnan(cloud.points[:, 0])
        filled = cloud.points.copy()
        filled[unseen] = points[columns[unseen]]
        labels, weights = cloud.labels, cloud.weights
        if weights is not None:  # a point of weight 0 would be read as not seen
            weights = np.where(unseen & (weights == 0), 1.0, weights)
        known = ~np.isnan(points[:, 0])
        absent = np.setdiff1d(np.flatnonzero(known), columns)
        whole = len(self.matched.origins) == len(self.matched.names)  # otherwise the others are in another file
        if len(absent) and labelled and whole and self.matched.rule == "label":
            filled = np.vstack([filled, points[absent]])
            labels = (*labels, *(str(self.matched.landmarks[j]) for j in absent))
            weights = None if weights is None else np.concatenate([weights, np.ones(len(absent))])
        return replace(cloud, points=filled, labels=labels, weights=weights)

    def _rendered(self, path: Path, filled: LandmarkFile, original: LandmarkFile) -> bytes:
        """The bytes of a file: its own with its unseen points filled in, or new ones if only these can hold them."""
        data = self._in_place(path, filled, original)
        if data is not None:
            return data
        data = self._anew(path, filled, original)
        if not self._is_chosen():
            warn(f"{path.name} is written anew, without what it may hold beside its landmarks; keep the old file")
        return data

    def _is_chosen(self) -> bool:
        """Whether the new files hold some of the clouds and landmarks only."""
        return bool(self.options.frames or self.options.markers)

    def _in_place(self, path: Path, filled: LandmarkFile, original: LandmarkFile) -> bytes | None:
        """The bytes of the file with its unseen points filled in, or None if its layout cannot take them."""
        if self._is_chosen():
            return None
        own = path.read_bytes()
        changed = any(filled_points(original, filled)) or any(added_points(original, filled))
        try:
            data = FORMATS[suffix_of(path)].fill_in(own, original, filled) if changed else own
        except FormatError as problem:
            raise _not_written(path, problem) from problem
        try:
            return None if data is None else self._verified(path, data, filled, original)
        except FormatError:
            return None

    def _anew(self, path: Path, filled: LandmarkFile, original: LandmarkFile) -> bytes:
        try:
            data = FORMATS[suffix_of(path)].render(filled)
        except FormatError as problem:
            raise _not_written(path, problem) from problem
        return self._verified(path, data, filled, original)

    def _verified(self, path: Path, data: bytes, filled: LandmarkFile, original: LandmarkFile) -> bytes:
        """Return the bytes if reading them returns the seen points as they were, and those that are filled in."""
        suffix = suffix_of(path)
        try:
            back = FORMATS[suffix].parse(data, str(path), replace(self.options, name=path.name[: -len(suffix)]))
        except FormatError as problem:
            raise _not_written(path, problem) from problem
        if [one.name for one in back.clouds] != [one.name for one in original.clouds]:
            step = ", or omit the step of frames=" if self.options.frames else ""
            found = "the format does not keep the names of its clouds"
            raise FormatError(path, None, found, f"convert it to CSV first (kernelgpa convert){step}")
        for one, own in zip(back.clouds, original.clouds, strict=True):
            seen = ~np.isnan(own.points[:, 0])
            if not np.array_equal(one.points[: len(own.points)][seen], own.points[seen]):
                found = "the format does not keep all digits, so that seen points would change"
                raise FormatError(path, None, found, "convert it to CSV first (kernelgpa convert)")
        for one, new in zip(back.clouds, filled.clouds, strict=True):
            if one.labels != new.labels or not np.array_equal(np.isnan(one.points), np.isnan(new.points)):
                found = f"a point of {one.name!r} would be read as not seen, or under another label"
                raise FormatError(path, None, found, "convert it to CSV first (kernelgpa convert)")
        return data


def _not_written(path: Path, problem: FormatError) -> FormatError:
    return FormatError(path, None, f"it cannot be written back ({problem.found})", "convert it first")


def _filled(cloud: LabelledCloud) -> LabelledCloud:
    """The cloud with unseen points somewhere, but not at the origin, which some formats read as not seen."""
    return replace(cloud, points=np.where(np.isnan(cloud.points), 1.0, cloud.points))


def deviation_table(matched: MatchedClouds, points: Array, deviations: Array) -> bytes:  # (n, m, d), (n, m)
    """One row per landmark that was filled in: its position and its standard deviation along an axis."""
    axes = "xyz"[: points.shape[2]]
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["cloud", "landmark", *axes, "standard_deviation"])
    unseen = np.isnan(matched.points[:, :, 0]) & ~np.isnan(points[:, :, 0])
    for t, j in np.argwhere(unseen):
        numbers = [repr(float(x)) for x in (*points[t, j], deviations[t, j])]
        writer.writerow([matched.names[t], matched.landmarks[j], *numbers])
    return text.getvalue().encode()

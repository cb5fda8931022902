"""The clouds of several files with one set of landmarks: which landmark of one file is which of another.

Landmarks are matched by the first rule that applies, and the rule is reported:

    labels      the files label their landmarks, and most labels occur in more than one cloud
    numbers     the labels end in a number ("skull7_LM1-12"), and most numbers occur in more than one cloud
    order       all clouds have the same number of landmarks; the first corresponds to the first, and so on
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .._numerics.system_memory import available_memory
from ..errors import InvalidObservations, TooLarge
from ..observations.collection import Observations
from ..observations.identifiers import in_order
from ..typing import Array, IndexArray, Name
from .landmark_file import LabelledCloud, LandmarkFile

DIGITS = re.compile(r"[0-9]+")
LEAST_SHARED = 0.5  # share of a cloud's labels that must occur in other clouds, in the median over the clouds
MOST_OF_MEMORY = 0.5  # share of the free memory that the arrays may take


@dataclass(frozen=True)
class MatchedClouds:
    """The clouds of some files in one frame, with what was done to them."""

    points: Array  # (n, m, d), NaN if unseen
    weights: Array  # (n, m)
    names: list[str]  # of the clouds
    landmarks: list[Name]
    rule: str  # by which landmarks were matched
    notes: tuple[str, ...]
    frame: str | None = None
    unit: str | None = None
    faces: IndexArray | None = None  # (f, 3) of the landmarks, if the files are meshes

    @cached_property
    def observations(self) -> Observations:
        """The clouds, checked and ready to be registered."""
        return Observations.from_array(self.points, self.weights, clouds=self.names, landmarks=self.landmarks)


def match_clouds(files: Sequence[tuple[str, LandmarkFile]], memory: float | None = None) -> MatchedClouds:
    """Match the landmarks of files, given as (path, file).

    ``memory`` : free memory in bytes; None asks the system.
    """
    clouds = [(source, one) for source, file in files for one in file.clouds]
    if not clouds:
        raise InvalidObservations("the files contain no clouds; give at least one")
    names, name_notes = _cloud_names(clouds)
    rule, keys = _match_landmarks([one for _, one in clouds], [file.labelled for _, file in files for _ in file.clouds])
    landmarks: list[Name] = list(dict.fromkeys(key for own in keys for key in own))
    if rule != "labels":
        landmarks = list(in_order([landmarks]))
    _require_same_dimension(clouds)
    points, weights = _arrays([one for _, one in clouds], keys, landmarks, memory)
    faces, face_notes = _common_faces([file for _, file in files], rule)
    return MatchedClouds(
        points,
        weights,
        names,
        landmarks,
        rule,
        (*name_notes, *_condensed_notes(files), *_frame_notes(files), *face_notes),
        next((file.frame for _, file in files if file.frame), None),
        _unit(files),
        faces,
    )


def _require_same_dimension(clouds: Sequence[tuple[str, LabelledCloud]]) -> None:
    first = clouds[0][1]
    for source, one in clouds:
        if one.points.shape[1] != first.points.shape[1]:
            raise InvalidObservations(
                f"{source}: {one.name!r} is in {one.points.shape[1]}D and {first.name!r} in {first.points.shape[1]}D; "
                "register clouds of one dimension"
            )


def _arrays(
    clouds: Sequence[LabelledCloud],
    keys: Sequence[Sequence[Name]],
    landmarks: Sequence[Name],
    memory: float | None,
) -> tuple[Array, Array]:
    n, m, d = len(clouds), len(landmarks), clouds[0].points.shape[1]
    required, free = 8 * n * m * (d + 1), available_memory() if memory is None else memory
    if required > MOST_OF_MEMORY * free:
        raise TooLarge(
            f"{n} clouds of {m} landmarks take {required / 1e9:.1f} GB of {free / 1e9:.1f} GB free; check that "
            "landmarks have the same labels in all clouds"
        )
    column = {key: j for j, key in enumerate(landmarks)}
    points, weights = np.full((n, m, d), np.nan), np.ones((n, m))
    for t, (one, own) in enumerate(zip(clouds, keys, strict=True)):
        columns = [column[key] for key in own]
        points[t, columns] = one.points
        if one.weights is not None:
            weights[t, columns] = one.weights
    return points, weights


def _cloud_names(clouds: Sequence[tuple[str, LabelledCloud]]) -> tuple[list[str], list[str]]:
    """Return the names as the files have them; equal names are prefixed with their file."""
    names = [one.name for _, one in clouds]
    if len(set(names)) == len(names):
        return names, []
    duplicates = {name for name, count in Counter(names).items() if count > 1}
    names = [f"{source}:{one.name}" if one.name in duplicates else one.name for source, one in clouds]
    again = [name for name, count in Counter(names).items() if count > 1]
    if again:
        raise InvalidObservations(f"cloud {again[0]!r} occurs more than once; give each file once")
    return names, [f"{len(duplicates)} cloud names occur in several files; they are prefixed with the file's name"]


def _match_landmarks(clouds: Sequence[LabelledCloud], labelled: Sequence[bool]) -> tuple[str, list[tuple[Name, ...]]]:
    """Return the rule, and for each cloud the keys of its landmarks."""
    labels: list[tuple[Name, ...]] = [one.labels for one in clouds]
    if all(labelled) and _overlap(labels):
        return "labels", labels
    if all(labelled):
        numbers = [last_numbers(one.labels) for one in clouds]
        known: list[tuple[Name, ...]] = [own for own in numbers if own is not None]
        if len(known) == len(clouds) and _overlap(known):
            return "numbers", known
    first = clouds[0]
    other = next((one for one in clouds if len(one.points) != len(first.points)), None)
    if other is None:
        return "order", [tuple(range(1, len(one.points) + 1)) for one in clouds]
    raise InvalidObservations(
        "landmarks cannot be matched by labels or by the numbers at their ends, nor by order, because "
        f"{other.name!r} has {len(other.points)} landmarks and {first.name!r} has {len(first.points)}; use the same "
        "labels in all files"
    )


def _overlap(keys: Sequence[tuple[Name, ...]]) -> bool:
    """Whether most labels of most clouds occur in another cloud too; a single cloud has no other to compare with."""
    counts = Counter(key for own in keys for key in set(own))
    shares = [np.mean([counts[key] > 1 for key in own]) for own in keys if own]
    return len(keys) == 1 or (bool(shares) and float(np.median(shares)) >= LEAST_SHARED)


def last_numbers(labels: Sequence[str]) -> tuple[int, ...] | None:
    """Return the number at the end of each label; None if one has none, or two are equal."""
    found = [DIGITS.findall(label) for label in labels]
    numbers = tuple(int(one[-1][-15:]) for one in found if one)
    return numbers if len(numbers) == len(labels) == len(set(numbers)) else None


def _frame_notes(files: Sequence[tuple[str, LandmarkFile]]) -> list[str]:
    unknown = sum(file.frame is None for _, file in files)
    if 0 < unknown < len(files):
        return [f"{unknown} files do not state their frame; it is assumed to be LPS, as in the others"]
    return []


def _unit(files: Sequence[tuple[str, LandmarkFile]]) -> str | None:
    units = {file.unit for _, file in files if file.unit}
    if len(units) > 1:
        raise InvalidObservations(f"the files are in different units, {', '.join(sorted(units))}; convert them to one")
    return units.pop() if units else None


def _condensed_notes(files: Sequence[tuple[str, LandmarkFile]]) -> list[str]:
    """Return the notes of all files; a note that several files share once, with their number."""
    sources: dict[str, list[str]] = {}
    for source, file in files:
        for note in file.notes:
            sources.setdefault(note, []).append(source)
    return [f"{own[0]}: {note}" if len(own) == 1 else f"{len(own)} files: {note}" for note, own in sources.items()]


def _common_faces(files: Sequence[LandmarkFile], rule: str) -> tuple[IndexArray | None, list[str]]:
    """Return the faces that all meshes share; None if they differ, because then vertices may not correspond."""
    meshes = [one.faces for one in files if one.faces is not None]
    if any(not np.array_equal(one, meshes[0]) for one in meshes):
        return None, ["the meshes have different triangles; check that their vertices correspond by their order"]
    return (meshes[0] if meshes and rule == "order" else None), []

"""Clouds of several files brought together: which landmark of one is which of the other.

Landmarks are matched by the first rule that fits, and the rule is told:

    labels      the files name their landmarks, and most labels occur in more than one cloud
    numbers     the labels end in a number ("skull7_LM1-12"), and most numbers occur in more than one cloud
    order       every cloud has as many landmarks as the others; the first is the first, and so on
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
from .base import Contents, Specimen

NUMBER = re.compile(r"[0-9]+")
MOST = 0.5  # of the labels of a cloud that must occur elsewhere, in the median


@dataclass(frozen=True)
class Gathered:
    """The clouds of some files in one frame, with what was done to them."""

    points: Array  # (n, m, d), NaN where unseen
    weights: Array  # (n, m)
    names: list[str]  # of the clouds
    landmarks: list[Name]
    rule: str  # how landmarks were matched
    notes: tuple[str, ...]
    frame: str | None = None
    unit: str | None = None
    faces: IndexArray | None = None  # (f, 3) of the landmarks, where the files are meshes

    @cached_property
    def observations(self) -> Observations:
        """Ready to be registered; an error where they cannot be."""
        return Observations.from_array(self.points, self.weights, clouds=self.names, landmarks=self.landmarks)


def gather(files: Sequence[tuple[str, Contents]]) -> Gathered:
    """Clouds of files, given by name and contents, brought together."""
    specimens = [(source, one) for source, contents in files for one in contents.specimens]
    if not specimens:
        raise InvalidObservations("the files hold no clouds")
    names, notes = _cloud_names(specimens)
    rule, keys = _matched([one for _, one in specimens], [c.labelled for _, c in files for _ in c.specimens])
    landmarks: list[Name] = list(dict.fromkeys(key for own in keys for key in own))
    if rule != "labels":
        landmarks = list(in_order([landmarks]))
    dimension = specimens[0][1].points.shape[1]
    for source, one in specimens:
        if one.points.shape[1] != dimension:
            raise InvalidObservations(
                f"{source}: {one.name!r} is in {one.points.shape[1]}D, {specimens[0][1].name!r} in {dimension}D; all "
                "clouds need the same"
            )
    points, weights = _arrays([one for _, one in specimens], keys, landmarks)
    told = tuple(f"{source}: {note}" for source, contents in files for note in contents.notes)
    return Gathered(
        points,
        weights,
        names,
        landmarks,
        rule,
        (*notes, *_condensed(told), *_frame_notes(files), *_face_notes([contents for _, contents in files])),
        next((contents.frame for _, contents in files if contents.frame), None),
        _unit(files),
        _faces([contents for _, contents in files], rule),
    )


def _arrays(
    specimens: Sequence[Specimen], keys: Sequence[Sequence[Name]], landmarks: Sequence[Name]
) -> tuple[Array, Array]:
    place = {key: j for j, key in enumerate(landmarks)}
    needed, free = 8 * len(specimens) * len(landmarks) * (specimens[0].points.shape[1] + 1), available_memory()
    if needed > 0.5 * free:
        raise TooLarge(
            f"{len(specimens)} clouds of {len(landmarks)} landmarks take {needed / 1e9:.1f} GB of {free / 1e9:.1f} GB "
            "free; check that landmarks have the same labels in all clouds"
        )
    points = np.full((len(specimens), len(landmarks), specimens[0].points.shape[1]), np.nan)
    weights = np.ones(points.shape[:2])
    for t, (one, own) in enumerate(zip(specimens, keys, strict=True)):
        at = [place[key] for key in own]
        points[t, at] = one.points
        if one.weights is not None:
            weights[t, at] = one.weights
    return points, weights


def _cloud_names(specimens: Sequence[tuple[str, Specimen]]) -> tuple[list[str], list[str]]:
    """Names as the files have them; where two are equal, with the file before them."""
    names = [one.name for _, one in specimens]
    if len(set(names)) == len(names):
        return names, []
    twice = {name for name, count in Counter(names).items() if count > 1}
    names = [f"{source}:{one.name}" if one.name in twice else one.name for source, one in specimens]
    again = [name for name, count in Counter(names).items() if count > 1]
    if again:
        raise InvalidObservations(f"cloud {again[0]!r} is given more than once; each file may be read once")
    return names, [f"{len(twice)} cloud names occur in several files; the file's name was put before them"]


def _matched(specimens: Sequence[Specimen], labelled: Sequence[bool]) -> tuple[str, list[tuple[Name, ...]]]:
    labels: list[tuple[Name, ...]] = [one.labels for one in specimens]
    if all(labelled) and _overlap(labels):
        return "labels", labels
    if all(labelled):
        numbers = [_last_numbers(one.labels) for one in specimens]
        known: list[tuple[Name, ...]] = [own for own in numbers if own is not None]
        if len(known) == len(specimens) and _overlap(known):
            return "numbers", known
    counts = {len(one.points) for one in specimens}
    if len(counts) == 1:
        return "order", [tuple(range(1, len(one.points) + 1)) for one in specimens]
    first = next(one for one in specimens if len(one.points) != len(specimens[0].points))
    raise InvalidObservations(
        f"landmarks cannot be matched: labels do not overlap, nor do the numbers at their ends, and {first.name!r} has "
        f"{len(first.points)} landmarks where {specimens[0].name!r} has {len(specimens[0].points)}; label landmarks "
        "alike in all files"
    )


def _overlap(keys: Sequence[tuple[Name, ...]]) -> bool:
    """Whether most labels of most clouds occur in another cloud too.  One cloud alone has nobody to differ from."""
    counts = Counter(key for own in keys for key in set(own))
    shares = [np.mean([counts[key] > 1 for key in own]) for own in keys if own]
    return len(keys) == 1 or (bool(shares) and float(np.median(shares)) >= MOST)


def _last_numbers(labels: Sequence[str]) -> tuple[int, ...] | None:
    """The number at the end of each label; None where one has none, or two have the same."""
    found = [NUMBER.findall(label) for label in labels]
    numbers = tuple(int(one[-1][-15:]) for one in found if one)
    return numbers if len(numbers) == len(labels) == len(set(numbers)) else None


def _frame_notes(files: Sequence[tuple[str, Contents]]) -> list[str]:
    known = [source for source, contents in files if contents.frame]
    if known and len(known) < len(files):
        return [f"{len(files) - len(known)} files do not tell their frame and were taken to be LPS like the others"]
    return []


def _unit(files: Sequence[tuple[str, Contents]]) -> str | None:
    units = {contents.unit for _, contents in files if contents.unit}
    if len(units) > 1:
        raise InvalidObservations(f"the files are in different units, {', '.join(sorted(units))}; bring them to one")
    return units.pop() if units else None


def _condensed(notes: Sequence[str]) -> list[str]:
    """The same note of many files said once."""
    texts = Counter(note.split(": ", 1)[1] for note in notes)
    first = {note.split(": ", 1)[1]: note for note in reversed(notes)}
    return [first[text] if count == 1 else f"{count} files: {text}" for text, count in texts.items()]


def _face_notes(contents: Sequence[Contents]) -> list[str]:
    meshes = [one.faces for one in contents if one.faces is not None]
    if all(np.array_equal(one, meshes[0]) for one in meshes):
        return []
    return ["the meshes have different triangles; their vertices were taken to correspond by their order, check that"]


def _faces(contents: Sequence[Contents], rule: str) -> IndexArray | None:
    """Of meshes in correspondence; none where they differ, because then vertices may not correspond."""
    meshes = [one.faces for one in contents if one.faces is not None]
    if not meshes or rule != "order":
        return None
    return meshes[0] if all(np.array_equal(one, meshes[0]) for one in meshes) else None

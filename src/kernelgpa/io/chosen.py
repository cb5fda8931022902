"""The chosen part of a file: some frames by their numbers, some landmarks by patterns of their labels."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

import numpy as np

from ..errors import FormatError, InvalidSetting
from .landmark_file import LabelledCloud, LandmarkFile
from .text import short_repr

MOST_LABELS = 100  # in an error; those of a marker set fit
_RANGE = re.compile(r"([0-9]{1,9})?:([0-9]{1,9})?(?::([0-9]{1,9}))?")


def frame_range(text: str) -> tuple[int | None, int | None, int]:
    """Return first, end and step of "first:end:step"; the end is left out, as in Python."""
    match = _RANGE.fullmatch(text.strip())
    if match is None:
        raise InvalidSetting(
            f"frames is {short_repr(text)}; expected first:end or first:end:step, such as 100:400:4 for the frames "
            "100, 104, ... 396"
        )
    first, end, step = (None if one is None else int(one) for one in match.groups())
    if step is not None and step < 1:
        raise InvalidSetting(f"frames is {short_repr(text)}; the step must be at least 1")
    return first, end, step or 1


def choose_frames(file: LandmarkFile, frames: str | None, source: str) -> LandmarkFile:
    """Return the file with the frames of "first:end:step" only.

    Frames count as the file counts them; the clouds of a file without frame numbers count from 0.
    """
    if frames is None:
        return file
    first, end, step = frame_range(frames)
    numbers = [i if one.number is None else one.number for i, one in enumerate(file.clouds)]
    start = min(numbers) if first is None else first
    kept = tuple(
        one
        for one, number in zip(file.clouds, numbers, strict=True)
        if number >= start and (end is None or number < end) and (number - start) % step == 0
    )
    if not kept:
        found = f"it has no frame in {frames}, but the frames {min(numbers)} to {max(numbers)}"
        raise FormatError(source, None, found, "choose others")
    return replace(file, clouds=kept)


def choose_markers(file: LandmarkFile, patterns: Sequence[str], source: str) -> LandmarkFile:
    """Return the file with the landmarks only whose labels match a pattern such as ``L*`` or ``*:RASI``."""
    if not patterns:
        return file
    used: set[str] = set()
    clouds = tuple(_with_matching(one, patterns, used) for one in file.clouds)
    unused = [pattern for pattern in patterns if pattern not in used]
    if unused:
        labels = list(map(short_repr, file.clouds[0].labels))
        listed = ", ".join([*labels[:MOST_LABELS], *(["..."] if len(labels) > MOST_LABELS else [])])
        found = f"no label matches {short_repr(unused[0])}; the labels are {listed}"
        raise FormatError(source, None, found, "check the pattern: * stands for any characters, ? for one")
    return replace(file, clouds=clouds, faces=None)


def _with_matching(cloud: LabelledCloud, patterns: Sequence[str], used: set[str]) -> LabelledCloud:
    matches = [[pattern for pattern in patterns if fnmatchcase(label, pattern)] for label in cloud.labels]
    used.update(pattern for own in matches for pattern in own)
    kept = np.array([bool(own) for own in matches], dtype=bool)
    labels = tuple(label for label, own in zip(cloud.labels, matches, strict=True) if own)
    weights = None if cloud.weights is None else cloud.weights[kept]
    return replace(cloud, points=cloud.points[kept], labels=labels, weights=weights)

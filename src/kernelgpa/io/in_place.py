"""Points written into a file where it marks them as unseen, while all else of the file stays as it was.

A file holds more than landmarks: the image and the curves of a specimen, forces beside the markers of a recording,
other columns of a table.  What a format's ``render`` writes from the landmarks alone would lose them; its ``fill_in``
returns the file itself with other coordinates at the unseen points, or None if only a new file can hold the result.
"""

from __future__ import annotations

import re

import numpy as np

from ..typing import Array
from .landmark_file import LandmarkFile

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")


def split_lines(text: str) -> list[str]:
    """Return the lines with their ends."""
    return _LINE.findall(text)


def with_end_of(line: str, content: str) -> str:
    """Return other content with the line end of ``line``."""
    return content + line[len(line.rstrip("\r\n")) :]


def filled_points(before: LandmarkFile, filled: LandmarkFile) -> list[dict[int, Array]]:
    """For each cloud, the positions of the landmarks that the file lists as unseen, by their order in the file."""
    return [
        {int(j): new.points[j] for j in np.flatnonzero(np.isnan(own.points[:, 0])) if np.isfinite(new.points[j]).all()}
        for own, new in zip(before.clouds, filled.clouds, strict=True)
    ]


def added_points(before: LandmarkFile, filled: LandmarkFile) -> list[dict[str, Array]]:
    """For each cloud, the positions of the landmarks that the file does not list, by their labels."""
    return [
        dict(zip(new.labels[len(own.labels) :], new.points[len(own.labels) :], strict=True))
        for own, new in zip(before.clouds, filled.clouds, strict=True)
    ]

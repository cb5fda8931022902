"""IDAV .pts, of Landmark Editor: one cloud, ``Version 1.0``, the number of points, then ``name x y z`` per point.

A point is unseen if all its coordinates are 9999.  The .pts of iBUG, with braces and two dimensions, is another
format.
"""

from __future__ import annotations

import numpy as np

from .capabilities import Capabilities
from .landmark_file import LabelledCloud, LandmarkFile, ReadOptions, require_unique
from .text import Lines, format_numbers, is_one_word, short_repr

HOLDS = Capabilities("IDAV points", several=False, names=False, planar=False)
UNSEEN = 9999.0


def parse(text: str, source: str, options: ReadOptions) -> LandmarkFile:
    lines = Lines(source, text)
    _require_version(lines)
    count = lines.parse_count(lines.next("the number of points").strip(), "points")
    lines.require_lines(count, "points")
    if count == 0:
        raise lines.error("the number of points is 0", "expected at least 1")
    rows = [_row(lines) for _ in range(count)]
    lines.require_end("compare the number of points")
    labels = tuple(label for label, _ in rows)
    require_unique(source, labels, range(3, 3 + count), "landmark")
    points = np.array([point for _, point in rows])
    points[(points == UNSEEN).all(axis=1)] = np.nan
    clouds = (LabelledCloud(options.name, points, labels),)
    return LandmarkFile(clouds, True).marking(options.missing)


def _require_version(lines: Lines) -> None:
    line = lines.next("Version 1.0")
    if line.strip().lower().startswith("version:"):
        raise lines.error(f"found {short_repr(line)}", "this is the .pts of iBUG, not of IDAV; write the points as CSV")
    if line.lower().split() != ["version", "1.0"]:
        raise lines.error(f"found {short_repr(line)}", "expected Version 1.0")


def _row(lines: Lines) -> tuple[str, list[float]]:
    fields = lines.next("a line name x y z").split()
    if len(fields) != 4:
        raise lines.error(f"found {len(fields)} fields", "expected name x y z, the name without spaces")
    return fields[0], lines.parse_point(fields[1:], 3)


def render(file: LandmarkFile) -> str:
    HOLDS.require(file)
    one = file.clouds[0]
    HOLDS.require_names(one.labels, is_one_word, "contains spaces, which landmark names cannot")
    if (one.points == UNSEEN).all(axis=1).any():
        raise HOLDS.error("a point at 9999 9999 9999 would be read as unseen", "write CSV instead")
    points = np.where(np.isnan(one.points), UNSEEN, one.points)
    rows = [f"{label} {format_numbers(point)}" for label, point in zip(one.labels, points, strict=True)]
    return "\n".join(["Version 1.0", str(len(rows)), *rows]) + "\n"

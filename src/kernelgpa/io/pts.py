"""IDAV .pts, of Landmark Editor: one specimen, ``Version 1.0``, the number of points, then ``name x y z`` a point.

A point is unseen where all its coordinates are 9999.  The .pts of iBUG, with braces and two dimensions, is another
format.
"""

from __future__ import annotations

import numpy as np

from ..errors import FormatError
from .base import (
    Contents,
    Lines,
    Reading,
    Specimen,
    kept_at,
    one_word,
    refuse_flat,
    refuse_names,
    refuse_repeats,
    refuse_several,
    refuse_unsound,
    refuse_weights,
    shortened,
    text_of,
)

MISSING = 9999.0
FORMAT = "IDAV .pts"


def parse(text: str, source: str, reading: Reading) -> Contents:
    lines = Lines(source, text)
    _check_version(lines)
    count = lines.count_in(lines.next("the number of points").strip(), "points")
    lines.require(count, "points")
    if count == 0:
        raise lines.wrong("the number of points is 0", "expected at least 1")
    rows = [_row(lines) for _ in range(count)]
    _refuse_more(lines)
    labels = tuple(label for label, _ in rows)
    refuse_repeats(source, labels, range(3, 3 + count), "landmark")
    points = np.array([point for _, point in rows])
    points[(points == MISSING).all(axis=1)] = np.nan
    specimen = Specimen(reading.name, points, labels)
    return Contents(
        (specimen,), labelled=True, notes=kept_at([specimen], reading.missing, "9999 is the sign of unseen")
    )


def _check_version(lines: Lines) -> None:
    line = lines.next("Version 1.0")
    if line.strip().lower().startswith("version:"):
        raise lines.wrong(f"found {shortened(line)}", "this is the .pts of iBUG, not of IDAV; write the points as CSV")
    if line.lower().split() != ["version", "1.0"]:
        raise lines.wrong(f"found {shortened(line)}", "expected Version 1.0")


def _row(lines: Lines) -> tuple[str, list[float]]:
    fields = lines.next("a line name x y z").split()
    if len(fields) != 4:
        raise lines.wrong(f"found {len(fields)} fields", "expected name x y z, the name without spaces")
    return fields[0], lines.point_in(fields[1:], 3)


def _refuse_more(lines: Lines) -> None:
    while lines.more():
        line = lines.next("")
        if line.strip():
            raise lines.wrong(f"found {shortened(line)}", "expected the end of the file; compare the number of points")


def render(contents: Contents) -> str:
    refuse_unsound(contents, FORMAT)
    refuse_weights(contents, FORMAT)
    refuse_several(contents, FORMAT)
    refuse_flat(contents, FORMAT)
    one = contents.specimens[0]
    refuse_names(one.labels, one_word, FORMAT, "has spaces, which landmark names cannot")
    if (one.points == MISSING).all(axis=1).any():
        raise FormatError(FORMAT, None, "a point at 9999 9999 9999 would be read as unseen", "write CSV instead")
    points = np.where(np.isnan(one.points), MISSING, one.points)
    rows = [f"{label} {' '.join(map(text_of, point))}" for label, point in zip(one.labels, points, strict=True)]
    return "\n".join(["Version 1.0", str(len(rows)), *rows]) + "\n"

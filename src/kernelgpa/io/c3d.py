"""C3D, of optical motion capture: each frame is a cloud, each marker a landmark, the time of the frame is the cloud's.

The file consists of blocks of 512 bytes.  The header holds, as 16-bit words counted from 1:

    1     block of the parameters, and 80     2  markers            3       analogue values per frame
    4, 5  first and last frame                9  block of the data  11, 12  frames per second
    7, 8  scale, negative if numbers are floats

A frame is four numbers for each marker (x, y, z, residual), as integers times the scale or as floats, and then its
analogue values, which are skipped.  A marker was not measured if its residual is negative, its coordinates are NaN, or
all of them are exactly 0; programs use all three signs.  The time of frame f is (f - 1) / rate.

This reader does not use the package ezc3d: that is compiled code, and one of forty damaged copies of a real file ended
the whole process by a memory error, which Python cannot catch.  The tests compare with it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from ..errors import FormatError
from ..typing import Array, BoolArray
from .c3d_parameters import BLOCK, ByteOrder, Parameters, number_of, read_parameters, rendered_parameters, texts_of
from .capabilities import Capabilities
from .frames import frames_of, is_one_label, uniform_timing, unmeasured
from .in_place import added_points, filled_points
from .landmark_file import LandmarkFile, ReadOptions, mark_unseen, require_complete_points
from .text import MOST_NAMED, short_repr

HOLDS = Capabilities(
    "C3D",
    names=False,
    planar=False,
    unit=True,
    times=True,
    precision="coordinates of more than seven digits",
)
KEY = 80
LARGEST_WORD = 65535
LARGEST_INTEGER = 32767
LONGEST_LABEL = 127  # bytes
LABELS_PER_PARAMETER = 255


@dataclass(frozen=True)
class _Layout:
    """Where the points are, and how many."""

    markers: int
    first: int  # frame, from 1
    frames: int
    scale: float  # of integers; negative: the numbers are floats
    analogue: int  # values per frame
    start: int  # of the data, in bytes
    rate: float  # frames per second

    @property
    def bytes_per_number(self) -> int:
        return 4 if self.scale < 0 else 2

    @property
    def numbers_per_frame(self) -> int:
        return 4 * self.markers + self.analogue


def parse(data: bytes, source: str, options: ReadOptions) -> LandmarkFile:
    if len(data) < 2 * BLOCK or data[1] != KEY:
        raise FormatError(source, None, "it does not begin like a C3D file", "expected the byte 80 at position 2")
    order, parameters = read_parameters(data, source)
    layout = _layout(data, order, parameters, source)
    points, measured = _points(data, layout, order)
    labels, label_notes = _labels(parameters, layout.markers)
    points, gap_notes = unmeasured(points, measured)
    require_complete_points(points, "a frame", source)
    points, by_code = mark_unseen(points, options.missing)
    notes = [*label_notes, *gap_notes]
    if layout.analogue:
        notes.append(f"{layout.analogue} analogue values per frame ignored")
    unseen = np.flatnonzero(np.isnan(points[..., 0]).all(axis=0))
    never = [labels[j] for j in unseen]
    if never:
        more = ", ..." if len(never) > MOST_NAMED else ""
        notes.append(f"measured in no frame: {len(never)} ({', '.join(map(short_repr, never[:MOST_NAMED]))}{more})")
    numbers = np.arange(layout.first, layout.first + layout.frames)
    units = texts_of(parameters, "POINT", "UNITS")
    return LandmarkFile(
        frames_of(points, labels, numbers, (numbers - 1) / layout.rate),
        labelled=True,
        unit=units[0] if units and units[0] else None,
        notes=tuple(notes),
        marked_by_code=by_code,
    )


def _layout(data: bytes, order: ByteOrder, parameters: Parameters, source: str) -> _Layout:
    def word(i: int) -> int:
        return order.unsigned(data[2 * i - 2 : 2 * i])

    scale, rate = order.floats(data[12:16]).item(), order.floats(data[20:24]).item()
    first, frames = _frame_range(parameters, word(4), word(5))
    found = _Layout(word(2), first, frames, scale, word(3), BLOCK * (word(9) - 1), rate)
    if not found.markers or frames < 1:
        raise FormatError(source, None, f"it holds {found.markers} markers in {frames} frames", "expected at least one")
    if not np.isfinite(scale) or scale == 0 or not 1e-6 < rate < 1e9:
        raise FormatError(source, None, f"the scale is {scale:g} and the rate {rate:g} per second", "it is corrupt")
    required = found.start + frames * found.numbers_per_frame * found.bytes_per_number
    if found.start < BLOCK or required > len(data):
        announced = f"{frames} frames of {found.markers} markers take {required} bytes, and the file has {len(data)}"
        raise FormatError(source, None, announced, "the file is truncated")
    return found


def _frame_range(parameters: Parameters, first: int, last: int) -> tuple[int, int]:
    """Return the first frame and the number of frames; the words of the header cannot count beyond 65535."""
    start, end = (_long_number(parameters, name) for name in ("ACTUAL_START_FIELD", "ACTUAL_END_FIELD"))
    if start is not None and end is not None and end >= start > 0:
        return start, end - start + 1
    count = number_of(parameters, "POINT", "FRAMES")
    if last == LARGEST_WORD and count is not None and count > last - first + 1:
        return max(first, 1), int(min(count, 2**31))
    return max(first, 1), last - first + 1


def _long_number(parameters: Parameters, name: str) -> int | None:
    """Return a number that two 16-bit words hold, the lower first."""
    value = parameters.get(("TRIAL", name), [])
    if len(value) != 2 or isinstance(value[0], str) or isinstance(value[1], str):
        return None
    return int(value[0]) % 2**16 + 2**16 * (int(value[1]) % 2**15)


def _points(data: bytes, layout: _Layout, order: ByteOrder) -> tuple[Array, BoolArray]:
    """Return the coordinates (n, m, 3), and whether each marker was measured (n, m)."""
    count = layout.frames * layout.numbers_per_frame
    raw = data[layout.start : layout.start + count * layout.bytes_per_number]
    numbers = order.floats(raw) if layout.scale < 0 else order.integers(raw)
    frames = numbers.reshape(layout.frames, -1)[:, : 4 * layout.markers].reshape(layout.frames, -1, 4)
    with np.errstate(all="ignore"):
        # in single precision, which 16 bits do not exhaust, so that the same numbers can be written back
        points = (frames[..., :3] * (1.0 if layout.scale < 0 else layout.scale)).astype(np.float32).astype(np.float64)
    return points, ~(frames[..., 3] < 0)


def _labels(parameters: Parameters, count: int) -> tuple[tuple[str, ...], list[str]]:
    """Return one label per marker; markers without a label are ``*1``, ``*2``, ..., and equal labels are numbered."""
    given = texts_of(parameters, "POINT", "LABELS")[:count]
    given += [""] * (count - len(given))
    labels = [label or f"*{i + 1}" for i, label in enumerate(given)]
    notes = [f"{given.count('')} of {count} markers have no label; they are called *1, *2, ..."] if "" in given else []
    seen: Counter[str] = Counter()
    taken = set(labels)
    for i, label in enumerate(labels):
        seen[label] += 1
        if seen[label] > 1:
            number = seen[label]
            while f"{label}#{number}" in taken:
                number += 1
            labels[i] = f"{label}#{number}"
            taken.add(labels[i])
    repeated = sum(seen.values()) - len(seen)
    if repeated:
        notes.append(f"{repeated} markers have a label that occurred before; it is followed by #2, #3, ...")
    return tuple(labels), notes


# -- writing --


def fill_in(data: bytes, before: LandmarkFile, filled: LandmarkFile) -> bytes | None:
    """Parameters, analogue values and residuals are kept; a residual of 0 marks the position as interpolated."""
    order, parameters = read_parameters(data, "")
    layout = _layout(data, order, parameters, "")
    if order.name == "VAX" or any(added_points(before, filled)):
        return None
    kind = np.dtype(f"{order.name}{'f4' if layout.scale < 0 else 'i2'}")
    size = layout.frames * layout.numbers_per_frame
    numbers = np.frombuffer(data, kind, size, layout.start).reshape(layout.frames, -1).copy()
    for frame, own in zip(numbers, filled_points(before, filled), strict=True):
        for j, point in own.items():
            values = point if layout.scale < 0 else np.round(point / layout.scale)
            if layout.scale > 0 and np.abs(values).max() > LARGEST_INTEGER:
                return None
            frame[4 * j : 4 * j + 4] = (*values, 0)
    return data[: layout.start] + numbers.tobytes() + data[layout.start + numbers.nbytes :]


def render(file: LandmarkFile) -> bytes:
    HOLDS.require(file)
    points = HOLDS.stack_points(file)
    labels = file.clouds[0].labels
    HOLDS.require_names(labels, _is_writable_label, f"has more than {LONGEST_LABEL} bytes, or spaces at its ends")
    n, m, _ = points.shape
    if m > LARGEST_WORD:
        raise HOLDS.error(f"there are {m} markers, and the format holds {LARGEST_WORD}", "write NPZ instead")
    first, rate = uniform_timing(file.clouds, HOLDS)
    last = first + n - 1
    parameters = _written_parameters(file, points, first, rate)
    blocks = len(parameters) // BLOCK
    header = np.zeros(BLOCK // 2, dtype="<u2")
    header[:5] = 2 + 256 * KEY, m, 0, min(first, LARGEST_WORD), min(last, LARGEST_WORD)
    header[6:8] = np.array([-1.0], "<f4").view("<u2")
    header[8] = 2 + blocks
    header[10:12] = np.array([rate], "<f4").view("<u2")
    with np.errstate(over="ignore"):
        frames = np.zeros((n, m, 4), dtype="<f4")
        frames[..., :3] = points
    if np.isinf(frames).any() or ((frames[..., :3] == 0) & (points != 0)).any():
        raise HOLDS.error("coordinates are outside single precision", "write CSV or NPZ instead, or use another unit")
    if (frames[..., :3] == 0).all(axis=2).any():
        raise HOLDS.error("a point at 0 0 0 would be read as not measured", "write CSV or NPZ instead")
    unseen = np.isnan(points).any(axis=2)
    frames[unseen] = (0, 0, 0, -1)
    body = frames.tobytes()
    return header.tobytes() + parameters + body.ljust(-(-len(body) // BLOCK) * BLOCK, b"\0")


def _is_writable_label(label: str) -> bool:
    return is_one_label(label) and len(label.encode()) <= LONGEST_LABEL


def _written_parameters(file: LandmarkFile, points: Array, first: int, rate: float) -> bytes:
    n, m, _ = points.shape
    labels = file.clouds[0].labels
    parts = [labels[i : i + LABELS_PER_PARAMETER] for i in range(0, m, LABELS_PER_PARAMETER)]
    named = {f"LABELS{i + 1 if i else ''}": list(part) for i, part in enumerate(parts)}
    blocks = 0
    while True:  # DATA_START is itself in the section whose length it depends on, and that length is then fixed
        point: dict[str, list[str] | Array] = {
            "USED": _word(m),
            "FRAMES": _word(min(n, LARGEST_WORD)),
            "DATA_START": _word(2 + blocks),
            "SCALE": np.array(-1.0),
            "RATE": np.array(rate),
            "UNITS": [file.unit or ""],
            **named,
        }
        trial = {"ACTUAL_START_FIELD": _two_words(first), "ACTUAL_END_FIELD": _two_words(first + n - 1)}
        section = rendered_parameters({"POINT": point, "TRIAL": trial, "ANALOG": {"USED": _word(0)}})
        if len(section) > 255 * BLOCK:
            raise HOLDS.error("the labels take more room than the format has", "shorten them, or write CSV instead")
        if len(section) // BLOCK == blocks:
            return section
        blocks = len(section) // BLOCK


def _word(value: int) -> Array:
    return np.array(value, dtype=np.uint16).astype(np.int16)


def _two_words(value: int) -> Array:
    return np.array([value % 2**16, value // 2**16], dtype=np.uint16).astype(np.int16)

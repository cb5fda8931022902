"""TRC, of OpenSim and Cortex: each row is a frame, each marker a landmark; tab-separated text.

    PathFileType  4  (X/Y/Z)  name.trc
    DataRate  CameraRate  NumFrames  NumMarkers  Units  OrigDataRate  OrigDataStartFrame  OrigNumFrames
    100       100         136        51          mm     ...
    Frame#  Time  C7  <tab> <tab>  L.ASIS ...
    <tab>         X1  Y1  Z1       X2     ...
    [an empty line]
    1       0.00  0.1 0.2 0.3      ...

Empty fields mean that a marker was not measured; NaN, and three zeros, are signs that some programs write instead.
"""

from __future__ import annotations

import math

import numpy as np

from ..observations.tables import AXES
from .capabilities import Capabilities
from .frames import frames_of, is_one_label, unmeasured
from .in_place import added_points, filled_points, split_lines, with_end_of
from .landmark_file import LabelledCloud, LandmarkFile, ReadOptions, require_unique
from .text import Lines, format_number, is_blank, short_repr

HOLDS = Capabilities("TRC", names=False, planar=False, unit=True, times=True)
FIRST_LINE = "PathFileType"
HEADER_FIELDS = (
    *("DataRate", "CameraRate", "NumFrames", "NumMarkers"),
    *("Units", "OrigDataRate", "OrigDataStartFrame", "OrigNumFrames"),
)
NOT_MEASURED = ("", "nan", "na")
MOST_DIGITS_OF_FRAME = 9
FRAMES_FROM = 5  # lines above the first frame


def parse(text: str, source: str, options: ReadOptions) -> LandmarkFile:
    lines = Lines(source, text)
    first = lines.next(FIRST_LINE)
    if not first.lstrip().startswith(FIRST_LINE):
        raise lines.error(f"found {short_repr(first)}", f"expected a line that begins with {FIRST_LINE}")
    facts = _facts(lines)
    labels = _labels(lines)
    lines.next("the line X1 Y1 Z1 ...")
    rows, numbers, times = [], [], []
    while lines.has_content():
        number, time, row = _row(lines, len(labels))
        rows.append(row)
        numbers.append(number)
        times.append(time)
    if not rows:
        raise lines.error("there is no frame", "expected at least one row of numbers")
    if len(set(numbers)) < len(numbers):
        raise lines.error("a frame number occurs twice", "give each frame its own number")
    points = np.array(rows).reshape(len(rows), len(labels), 3)
    points, notes = unmeasured(points, np.ones(points.shape[:2], dtype=bool))
    clouds = frames_of(points, labels, np.array(numbers), np.array(times))
    found = LandmarkFile(
        clouds, labelled=True, unit=facts.get("units") or None, notes=(*notes, *_counts(facts, points))
    )
    return found.marking(options.missing)


def _facts(lines: Lines) -> dict[str, str]:
    """Return what lines 2 and 3 state; fields may be separated by more than one tab, and no value has spaces."""
    names = lines.next("the line DataRate CameraRate ...").split()
    values = lines.next("the values of DataRate CameraRate ...").split()
    if "DataRate" not in names:
        raise lines.error("there is no DataRate in line 2", f"expected {' '.join(HEADER_FIELDS)}")
    return {name.lower(): value for name, value in zip(names, values, strict=False)}


def _labels(lines: Lines) -> tuple[str, ...]:
    """Return the marker names, one for every third column after Frame# and Time."""
    fields = [field.strip() for field in lines.next("the line Frame# Time and the names of markers").split("\t")]
    if len(fields) < 3 or not fields[0].lower().startswith("frame") or fields[1].lower() != "time":
        raise lines.error(f"found {short_repr(' '.join(fields))}", "expected Frame#, Time and the names of markers")
    while fields[-1] == "":
        fields.pop()
    labels, between = fields[2::3], fields[3::3] + fields[4::3]
    if any(between) or "" in labels or not labels:
        raise lines.error("a marker has no name, or no three columns", "expected a name and two empty fields for each")
    require_unique(lines.source, labels, [lines.line_number] * len(labels), "marker")
    return tuple(labels)


def _row(lines: Lines, markers: int) -> tuple[int, float, list[float]]:
    """Return the number and the time of a frame, and its coordinates."""
    fields = [field.strip() for field in lines.next("a frame").split("\t")]
    expected = 2 + 3 * markers
    while len(fields) > expected and fields[-1] == "":
        fields.pop()
    if len(fields) > expected or len(fields) < 2:
        raise lines.error(f"found {len(fields)} fields", f"expected {expected}, for {markers} markers")
    fields += [""] * (expected - len(fields))  # editors strip the tabs at the end of a line
    number = fields[0]
    if not number.isascii() or not number.isdigit() or len(number) > MOST_DIGITS_OF_FRAME:
        raise lines.error(f"found {short_repr(number)}", "expected the number of a frame")
    time = lines.parse_number(fields[1], "the time of a frame")
    row: list[float] = []
    for i in range(2, expected, 3):
        point = fields[i : i + 3]
        unseen = [field.lower() in NOT_MEASURED for field in point]
        if any(unseen) and not all(unseen):
            raise lines.error("some coordinates of a marker are empty", "leave all empty or none")
        row += [math.nan] * 3 if all(unseen) else lines.parse_point(point, 3)
    return int(number), time, row


def _counts(facts: dict[str, str], points: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> list[str]:
    """Notes if the header counts otherwise than the rows, which happens when a file was cut by hand."""
    notes = []
    for name, found in (("numframes", points.shape[0]), ("nummarkers", points.shape[1])):
        if name in facts and facts[name] != str(found):
            notes.append(f"the header announces {short_repr(facts[name])} {name[3:]}, and there are {found}")
    return notes


def fill_in(text: str, before: LandmarkFile, filled: LandmarkFile) -> str | None:
    """Lines keep their other fields."""
    lines, markers = split_lines(text), len(before.clouds[0].labels)
    if any(added_points(before, filled)):
        return None
    content = [i for i in range(FRAMES_FROM, len(lines)) if not is_blank(lines[i])]
    for i, own in zip(content, filled_points(before, filled), strict=True):
        fields = lines[i].rstrip("\r\n").split("\t")
        fields += [""] * (2 + 3 * markers - len(fields))
        for j, point in own.items():
            fields[2 + 3 * j : 5 + 3 * j] = map(format_number, point.tolist())
        if own:
            lines[i] = with_end_of(lines[i], "\t".join(fields))
    return "".join(lines)


def render(file: LandmarkFile) -> str:
    HOLDS.require(file)
    points, labels = HOLDS.stack_points(file), file.clouds[0].labels
    HOLDS.require_names(labels, _is_writable_label, "has tabs, or spaces at its ends")
    if file.unit is not None and file.unit.split() != [file.unit]:
        raise HOLDS.error(f"the unit {short_repr(file.unit)} has spaces", "rename it")
    if (points == 0).all(axis=2).any():
        raise HOLDS.error("a point at 0 0 0 would be read as not measured", "write CSV or NPZ instead")
    numbers, times = _timing(file.clouds)
    step = float(np.median(np.diff(times))) if len(times) > 1 else 1.0
    rate = format_number(round(1 / step, 6)) if step > 0 else "1"
    values = [rate, rate, str(len(points)), str(len(labels)), file.unit or "", rate, str(numbers[0]), str(len(points))]
    head = [
        [FIRST_LINE, "4", "(X/Y/Z)", "markers.trc"],
        [*HEADER_FIELDS] if file.unit else [one for one in HEADER_FIELDS if one != "Units"],
        values if file.unit else [one for one in values if one],
        ["Frame#", "Time", *(field for label in labels for field in (label, "", ""))],
        ["", "", *(f"{axis.upper()}{j + 1}" for j in range(len(labels)) for axis in AXES)],
        [],
    ]
    rows = [
        [str(number), format_number(time), *("" if math.isnan(x) else format_number(x) for x in frame.ravel().tolist())]
        for number, time, frame in zip(numbers, times, points, strict=True)
    ]
    return "".join("\t".join(fields) + "\n" for fields in [*head, *rows])


def _is_writable_label(label: str) -> bool:
    return is_one_label(label) and "\t" not in label


def _timing(clouds: tuple[LabelledCloud, ...]) -> tuple[list[int], list[float]]:
    """Return the numbers and times of the frames; without times, one frame per second."""
    times = [one.time for one in clouds]
    numbers = [one.number for one in clouds]
    known_times = [time for time in times if time is not None]
    known_numbers = [number for number in numbers if number is not None]
    if len(known_times) < len(clouds):
        return list(range(1, len(clouds) + 1)), [float(i) for i in range(len(clouds))]
    if len(set(known_numbers)) < len(clouds):
        known_numbers = list(range(1, len(clouds) + 1))
    return known_numbers, known_times

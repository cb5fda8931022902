"""TPS, as tpsDig writes it: blocks of points, each followed by facts about the specimen.

    LM=p or LM3=p, p rows of 2 or 3 numbers
    [CURVES=c or OUTLINES=c, and c times POINTS=q, q rows]
    [IMAGE=, ID=, SCALE=, COMMENT=, VARIABLES=]

A point that reads NA is unseen.  A negative one is unseen only on request, because coordinates may be negative.  SCALE
multiplies the coordinates of its own block.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import PureWindowsPath

import numpy as np

from ..errors import FormatError
from ..typing import Array
from .capabilities import Capabilities
from .in_place import added_points, filled_points, split_lines, with_end_of
from .landmark_file import LabelledCloud, LandmarkFile, ReadOptions, mark_unseen, numbered_labels, require_unique
from .text import Lines, format_numbers, is_blank, is_one_line, short_repr

HOLDS = Capabilities("TPS", labels=False)
LANDMARK_KEYS = {"LM": 2, "LM3": 3}
CURVES = {"CURVES": "curve", "OUTLINES": "outline"}
FACTS = ("IMAGE", "ID", "SCALE", "COMMENT", "VARIABLES")


@dataclass
class _Block:
    line: int
    points: Array  # (p, d)
    curves: dict[str, Array] = field(default_factory=dict)  # "curve1" -> (q, d)
    facts: dict[str, str] = field(default_factory=dict)


def parse(text: str, source: str, options: ReadOptions) -> LandmarkFile:
    lines = Lines(source, text)
    blocks: list[_Block] = []
    while lines.has_content():
        blocks.append(_block(lines))
        if blocks[-1].points.shape[1] != blocks[0].points.shape[1]:
            found = "the file mixes LM and LM3, points in 2 and in 3 dimensions"
            raise FormatError(source, blocks[-1].line, found, "write them to separate files")
    if not blocks:
        raise FormatError(source, 1, "the file is empty", "expected LM= or LM3=")
    clouds = tuple(_cloud(one, _scaled(one, source), i, options) for i, one in enumerate(blocks))
    require_unique(source, [one.name for one in clouds], [one.line for one in blocks], "specimen")
    notes = _notes(blocks, options)
    labelled = options.curves and any(one.curves for one in blocks)
    by_code = sum(_marked(one, options)[1] for one in blocks)
    return LandmarkFile(clouds, labelled=labelled, notes=notes, marked_by_code=by_code)


def _key(lines: Lines, expected: str) -> tuple[str, str]:
    line = lines.next(expected)
    key, equals, value = line.partition("=")
    if not equals:
        raise lines.error(f"found {short_repr(line)}", f"expected {expected}")
    return key.strip().upper(), value.strip()


def _block(lines: Lines) -> _Block:
    key, value = _key(lines, "LM= or LM3=")
    if key not in LANDMARK_KEYS:
        raise lines.error(f"found {short_repr(key)}", "expected LM= or LM3=")
    line, dimension = lines.line_number, LANDMARK_KEYS[key]
    block = _Block(line, _points(lines, lines.parse_count(value, "landmarks"), dimension))
    while lines.has_content() and lines.peek().partition("=")[0].strip().upper() not in LANDMARK_KEYS:
        key, value = _key(lines, "a line KEY=value")
        if key in CURVES:
            _add_curves(block, lines, CURVES[key], lines.parse_count(value, "curves"))
        elif key not in FACTS:
            expected = f"expected one of {', '.join((*LANDMARK_KEYS, *CURVES, *FACTS))}"
            raise lines.error(f"found {short_repr(key)}", f"{expected}; write other facts as COMMENT=")
        elif key in block.facts and key != "COMMENT":
            raise lines.error(f"{key} occurs twice in the block of line {block.line}", "expected it once")
        else:
            _add_fact(block, lines, key, value)
    return block


def _add_fact(block: _Block, lines: Lines, key: str, value: str) -> None:
    if key == "SCALE" and value and lines.parse_number(value, "a scale") <= 0:
        raise lines.error(f"the scale is {value}", "expected a positive number, or nothing if there is no scale")
    block.facts[key] = value


def _add_curves(block: _Block, lines: Lines, kind: str, count: int) -> None:
    lines.require_lines(count, f"{kind}s")
    if f"{kind}1" in block.curves:
        raise lines.error(f"{kind}s occur twice in the block of line {block.line}", "expected them once")
    for i in range(count):
        key, value = _key(lines, "POINTS=")
        if key != "POINTS":
            raise lines.error(f"found {short_repr(key)}", f"expected POINTS= of {kind} {i + 1} of {count}")
        number = lines.parse_count(value, "points")
        block.curves[f"{kind}{i + 1}"] = _points(lines, number, block.points.shape[1])


def _points(lines: Lines, count: int, dimension: int) -> Array:
    lines.require_lines(count, "points")
    rows = [_point(lines, dimension) for _ in range(count)]
    return np.array(rows, dtype=float).reshape(count, dimension)


def _point(lines: Lines, dimension: int) -> list[float]:
    fields = lines.next("the coordinates of a point").split()
    if fields == ["NA"] * dimension:
        return [math.nan] * dimension
    if "NA" in fields and len(fields) == dimension:
        raise lines.error("NA in some coordinates only", "expected all or none")
    return lines.parse_point(fields, dimension)


def _scaled(block: _Block, source: str) -> _Block:
    """Return the block multiplied by its scale."""
    scale = float(block.facts.get("SCALE") or 1)
    with np.errstate(over="ignore", under="ignore"):
        points = block.points * scale
        curves = {name: one * scale for name, one in block.curves.items()}
    for before, after in zip((block.points, *block.curves.values()), (points, *curves.values()), strict=True):
        if np.isinf(after).any() or ((after == 0) & (before != 0)).any():
            found = "coordinates multiplied by SCALE are outside double precision"
            raise FormatError(source, block.line, found, "check SCALE")
    return _Block(block.line, points, curves, block.facts)


def _cloud(raw: _Block, scaled: _Block, index: int, options: ReadOptions) -> LabelledCloud:
    points, unscaled, labels = scaled.points, raw.points, numbered_labels(len(raw.points))
    if options.curves:
        points = np.vstack([points, *scaled.curves.values()])
        unscaled = np.vstack([unscaled, *raw.curves.values()])
        labels += tuple(f"{name}_{i + 1}" for name, one in raw.curves.items() for i in range(len(one)))
    points = np.where(np.isnan(mark_unseen(unscaled, options.missing)[0]), np.nan, points)  # the code is not scaled
    if options.negative_is_missing:
        points = np.where(np.all(unscaled < 0, axis=1, keepdims=True), np.nan, points)
    stem = PureWindowsPath(raw.facts.get("IMAGE", "")).stem  # understands / and \
    return LabelledCloud(raw.facts.get("ID") or stem or f"{options.name}_{index + 1}", points, labels)


def _marked(block: _Block, options: ReadOptions) -> tuple[Array, int]:
    parts = (block.points, *(block.curves.values() if options.curves else ()))
    return mark_unseen(np.vstack(parts), options.missing)


def _notes(blocks: list[_Block], options: ReadOptions) -> tuple[str, ...]:
    notes = []
    scaled = sum(bool(one.facts.get("SCALE")) for one in blocks)
    if scaled:
        notes.append("coordinates multiplied by SCALE")
    if 0 < scaled < len(blocks):
        notes.append(f"{len(blocks) - scaled} of {len(blocks)} blocks have no SCALE: their unit is that of the file")
    if options.negative_is_missing:
        read = [part for one in blocks for part in (one.points, *(one.curves.values() if options.curves else ()))]
        negative = sum(int((part < 0).all(axis=1).sum()) for part in read)
        notes.append(f"points not seen because all coordinates are negative: {negative}")
    curves = [curve for one in blocks for curve in one.curves.values()]
    if curves and not options.curves:
        points = sum(map(len, curves))
        notes.append(f"{len(curves)} curves with {points} points ignored; read them with curves=True")
    ignored = [key for key in ("COMMENT", "VARIABLES") if any(one.facts.get(key) for one in blocks)]
    return (*notes, *(f"{key} ignored" for key in ignored))


def fill_in(text: str, before: LandmarkFile, filled: LandmarkFile) -> str | None:
    """Lines of points follow each other in the order of the landmarks; all other lines have an equals sign."""
    lines, points = split_lines(text), filled_points(before, filled)
    if any(added_points(before, filled)):
        return None
    keys = [line.partition("=")[0].strip().upper() for line in lines]
    starts = [i for i, key in enumerate(keys) if key in LANDMARK_KEYS]
    for own, start, end in zip(points, starts, [*starts[1:], len(lines)], strict=True):
        scales = [lines[i].partition("=")[2].strip() for i in range(start, end) if keys[i] == "SCALE"]
        scale = float("".join(scales) or 1)
        rows = [i for i in range(start, end) if "=" not in lines[i] and not is_blank(lines[i])]
        for j, point in own.items():
            lines[rows[j]] = with_end_of(lines[rows[j]], format_numbers(point / scale))
    return "".join(lines)


def render(file: LandmarkFile) -> str:
    HOLDS.require(file)
    HOLDS.require_names([one.name for one in file.clouds], is_one_line, "does not fit into one line")
    return "".join(_rendered(one) for one in file.clouds)


def _rendered(one: LabelledCloud) -> str:
    count, dimension = one.points.shape
    key = {d: key for key, d in LANDMARK_KEYS.items()}[dimension]
    rows = [format_numbers(point, unseen="NA") for point in one.points]
    return "\n".join([f"{key}={count}", *rows, f"ID={one.name}"]) + "\n"

"""TPS, as tpsDig writes it: blocks of points, each followed by what is known of the specimen.

    LM=p or LM3=p, p rows of 2 or 3 numbers
    [CURVES=c or OUTLINES=c, and c times POINTS=q, q rows]
    [IMAGE=, ID=, SCALE=, COMMENT=, VARIABLES=]

A point is unseen where it reads NA; a negative one only if the reader is told so, since coordinates may be negative.
SCALE multiplies the coordinates of its own block.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import PureWindowsPath

import numpy as np

from ..errors import FormatError
from ..typing import Array
from .base import (
    Contents,
    Lines,
    Reading,
    Specimen,
    counted,
    kept_at,
    one_line,
    refuse_labels,
    refuse_names,
    refuse_repeats,
    refuse_unsound,
    refuse_weights,
    shortened,
    text_of,
)

DIMENSIONS = {"LM": 2, "LM3": 3}
CURVES = {"CURVES": "curve", "OUTLINES": "outline"}
FACTS = ("IMAGE", "ID", "SCALE", "COMMENT", "VARIABLES")
FORMAT = "TPS"


@dataclass
class _Block:
    line: int
    points: Array  # (p, d)
    curves: dict[str, Array] = field(default_factory=dict)  # "curve1" -> (q, d)
    facts: dict[str, str] = field(default_factory=dict)


def parse(text: str, source: str, reading: Reading) -> Contents:
    lines = Lines(source, text)
    blocks: list[_Block] = []
    while _more_keys(lines):
        blocks.append(_block(lines))
        if blocks[-1].points.shape[1] != blocks[0].points.shape[1]:
            found = "LM and LM3 in one file: points of 2 and of 3 dimensions"
            raise FormatError(source, blocks[-1].line, found, "write them to files of their own")
    if not blocks:
        raise FormatError(source, 1, "the file is empty", "expected LM= or LM3=")
    scaled = [_scaled(one, source) for one in blocks]
    specimens = tuple(_specimen(one, i, reading) for i, one in enumerate(scaled))
    refuse_repeats(source, [one.name for one in specimens], [one.line for one in blocks], "specimen")
    notes = _notes(blocks, reading) + kept_at(specimens, reading.missing, "NA is the sign of unseen points")
    return Contents(specimens, labelled=reading.curves and any(one.curves for one in blocks), notes=notes)


def _more_keys(lines: Lines) -> bool:
    while lines.more() and not lines.peek().strip():
        lines.next("")
    return lines.more()


def _key(lines: Lines, expected: str) -> tuple[str, str]:
    line = lines.next(expected)
    key, equals, value = line.partition("=")
    if not equals:
        raise lines.wrong(f"found {shortened(line)}", f"expected {expected}")
    return key.strip().upper(), value.strip()


def _block(lines: Lines) -> _Block:
    key, value = _key(lines, "LM= or LM3=")
    if key not in DIMENSIONS:
        raise lines.wrong(f"found {shortened(key)}", "expected LM= or LM3=")
    dimension = DIMENSIONS[key]
    block = _Block(lines.number, np.empty((0, dimension)))
    block.points = _points(lines, lines.count_in(value, "landmarks"), dimension)
    while _more_keys(lines) and lines.peek().partition("=")[0].strip().upper() not in DIMENSIONS:
        key, value = _key(lines, "a line KEY=value")
        if key in CURVES:
            _add_curves(block, lines, CURVES[key], lines.count_in(value, "curves"))
        elif key not in FACTS:
            expected = f"expected one of {', '.join((*DIMENSIONS, *CURVES, *FACTS))}"
            raise lines.wrong(f"found {shortened(key)}", f"{expected}; a line of no use may be written as COMMENT=")
        elif key in block.facts and key != "COMMENT":
            raise lines.wrong(f"{key} is given again in the block of line {block.line}", "expected it once")
        else:
            _add_fact(block, lines, key, value)
    return block


def _add_fact(block: _Block, lines: Lines, key: str, value: str) -> None:
    if key == "SCALE" and value and lines.number_in(value, "a scale") <= 0:
        raise lines.wrong(f"the scale is {value}", "expected a positive number, or nothing where there is no scale")
    block.facts[key] = value


def _add_curves(block: _Block, lines: Lines, kind: str, count: int) -> None:
    lines.require(count, f"{kind}s")
    if f"{kind}1" in block.curves:
        raise lines.wrong(f"{kind}s are given again in the block of line {block.line}", "expected them once")
    for i in range(count):
        key, value = _key(lines, "POINTS=")
        if key != "POINTS":
            raise lines.wrong(f"found {shortened(key)}", f"expected POINTS= of {kind} {i + 1} of {count}")
        number = lines.count_in(value, "points")
        block.curves[f"{kind}{i + 1}"] = _points(lines, number, block.points.shape[1])


def _points(lines: Lines, count: int, dimension: int) -> Array:
    lines.require(count, "points")
    rows = [_point(lines, dimension) for _ in range(count)]
    return np.array(rows, dtype=float).reshape(count, dimension)


def _point(lines: Lines, dimension: int) -> list[float]:
    fields = lines.next("the coordinates of a point").split()
    if fields == ["NA"] * dimension:
        return [math.nan] * dimension
    if "NA" in fields and len(fields) == dimension:
        raise lines.wrong("NA in some coordinates only", "expected all or none")
    return lines.point_in(fields, dimension)


def _scaled(block: _Block, source: str) -> tuple[_Block, _Block]:
    """The block as it is in the file, for signs of unseen points, and with its scale."""
    scale = float(block.facts.get("SCALE") or 1)
    with np.errstate(over="ignore", under="ignore"):
        points = block.points * scale
        curves = {name: one * scale for name, one in block.curves.items()}
    for before, after in zip((block.points, *block.curves.values()), (points, *curves.values()), strict=True):
        if np.isinf(after).any() or ((after == 0) & (before != 0)).any():
            raise FormatError(source, block.line, "coordinates times SCALE are beyond double precision", "check SCALE")
    return block, _Block(block.line, points, curves, block.facts)


def _specimen(blocks: tuple[_Block, _Block], index: int, reading: Reading) -> Specimen:
    raw, scaled = blocks
    points, signs, labels = scaled.points, raw.points, counted(len(raw.points))
    if reading.curves:
        points = np.vstack([points, *scaled.curves.values()])
        signs = np.vstack([signs, *raw.curves.values()])
        labels += tuple(f"{name}_{i + 1}" for name, one in raw.curves.items() for i in range(len(one)))
    if reading.negative_is_missing:
        points = np.where(np.all(signs < 0, axis=1, keepdims=True), np.nan, points)
    stem = PureWindowsPath(raw.facts.get("IMAGE", "")).stem  # understands / and \
    return Specimen(raw.facts.get("ID") or stem or f"{reading.name}_{index + 1}", points, labels)


def _notes(blocks: list[_Block], reading: Reading) -> tuple[str, ...]:
    notes = []
    scaled = sum(bool(one.facts.get("SCALE")) for one in blocks)
    if scaled:
        notes.append("coordinates multiplied by SCALE")
    if 0 < scaled < len(blocks):
        notes.append(f"{len(blocks) - scaled} of {len(blocks)} blocks have no SCALE: their unit is that of the file")
    if reading.negative_is_missing:
        read = [part for one in blocks for part in (one.points, *(one.curves.values() if reading.curves else ()))]
        negative = sum(int((part < 0).all(axis=1).sum()) for part in read)
        notes.append(f"points not seen because all coordinates are negative: {negative}")
    curves = [curve for one in blocks for curve in one.curves.values()]
    if curves and not reading.curves:
        points = sum(map(len, curves))
        notes.append(f"{len(curves)} curves with {points} points left out; read them with curves=True")
    left_out = [key for key in ("COMMENT", "VARIABLES") if any(one.facts.get(key) for one in blocks)]
    return (*notes, *(f"{key} left out" for key in left_out))


def render(contents: Contents) -> str:
    refuse_unsound(contents, FORMAT)
    refuse_weights(contents, FORMAT)
    refuse_labels(contents, FORMAT)
    refuse_names([one.name for one in contents.specimens], one_line, FORMAT, "does not fit into one line")
    return "".join(_rendered(one) for one in contents.specimens)


def _rendered(one: Specimen) -> str:
    count, dimension = one.points.shape
    key = {d: key for key, d in DIMENSIONS.items()}[dimension]
    rows = [" ".join("NA" if math.isnan(x) else text_of(x) for x in row) for row in one.points]
    return "\n".join([f"{key}={count}", *rows, f"ID={one.name}"]) + "\n"

"""CSV with one row a point: ``cloud,landmark,x,y[,z][,weight]``, columns in any order; empty coordinates are unseen."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from ..errors import FormatError
from .base import AXES, Contents, Reading, Specimen, kept_at, refuse_unsound, shortened, text_of
from .rows import Row, cells_of, line_of, point_of, table_of, weight_of

NEEDED = ("cloud", "landmark", "x", "y")
KNOWN = (*NEEDED, "z", "weight")
FORMAT = "long CSV"


@dataclass
class _Cloud:
    points: list[list[float]] = field(default_factory=list)
    lines: dict[str, int] = field(default_factory=dict)  # label -> its line
    weights: list[float] = field(default_factory=list)


def parse(text: str, source: str, reading: Reading) -> Contents:
    (begins, header), rows = table_of(text, source)
    columns = _columns(header, source, begins)
    clouds: dict[str, _Cloud] = {}
    for row in rows:
        _add(clouds, row, columns, source)
    specimens = tuple(
        Specimen(name, np.array(one.points), tuple(one.lines), np.array(one.weights) if one.weights else None)
        for name, one in clouds.items()
    )
    left_out = tuple(f"column {shortened(name)} left out" for name in header if name.lower() not in KNOWN)
    kept = kept_at(specimens, reading.missing, "empty fields are the sign of unseen points")
    return Contents(specimens, labelled=True, notes=left_out + kept)


def _columns(header: list[str], source: str, line: int) -> dict[str, int]:
    names = [name.lower() for name in header]
    for name in KNOWN:
        if names.count(name) > 1:
            raise FormatError(source, line, f"there are {names.count(name)} columns {name!r}", "expected one")
    missing = [name for name in NEEDED if name not in names]
    if missing:
        found = f"there is no column {missing[0]!r} among {', '.join(map(shortened, header[:20]))}"
        raise FormatError(source, line, found, "expected the columns cloud,landmark,x,y[,z][,weight]")
    return {name: names.index(name) for name in KNOWN if name in names}


def _add(clouds: dict[str, _Cloud], row: Row, columns: dict[str, int], source: str) -> None:
    line, fields = row
    value = {name: fields[at] for name, at in columns.items()}
    if not value["cloud"] or not value["landmark"]:
        raise FormatError(source, line, "a cloud or a landmark has no name", "give each a name")
    cloud, label = clouds.setdefault(value["cloud"], _Cloud()), value["landmark"]
    if label in cloud.lines:
        found = f"landmark {shortened(label)} of cloud {shortened(value['cloud'])} is given again"
        raise FormatError(source, line, found, f"it stands in line {cloud.lines[label]}; keep one of the two")
    axes = [axis for axis in AXES if axis in value]
    point = point_of([value[axis] for axis in axes], source, line)
    cloud.lines[label] = line
    cloud.points.append(point or [math.nan] * len(axes))
    if "weight" in value:
        cloud.weights.append(weight_of(value["weight"], point is not None, source, line))


def render(contents: Contents) -> str:
    refuse_unsound(contents, FORMAT)
    weighted = any(one.weights is not None for one in contents.specimens)
    axes = AXES[: contents.specimens[0].points.shape[1]]
    header = line_of(["cloud", "landmark", *axes, *(["weight"] if weighted else [])])
    return header + "".join(_rendered(one, weighted) for one in contents.specimens)


def _rendered(one: Specimen, weighted: bool) -> str:
    weights = np.ones(len(one.labels)) if one.weights is None else one.weights  # none given are all alike
    rows = zip(one.labels, one.points, weights, strict=True)
    return "".join(
        line_of([one.name, label, *cells_of(point), *([text_of(weight)] if weighted else [])])
        for label, point, weight in rows
    )

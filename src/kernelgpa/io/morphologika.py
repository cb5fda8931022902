"""Morphologika: sections in any order, each a [name] and the values below it.

``[individuals]``, ``[landmarks]`` and ``[dimensions]`` are counts, ``[names]`` names the individuals and
``[rawpoints]`` holds their points, one a line, each individual after a line ``'#name``.  The format has
no sign for unseen points.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..errors import FormatError
from ..typing import Array
from .base import (
    Contents,
    Lines,
    Reading,
    Specimen,
    counted,
    one_line,
    refuse_labels,
    refuse_missing,
    refuse_names,
    refuse_repeats,
    refuse_unsound,
    refuse_weights,
    shortened,
    stacked,
    text_of,
    unseen_at,
)

COUNTS = ("individuals", "landmarks", "dimensions")
USED = (*COUNTS, "names", "rawpoints")
FORMAT = "Morphologika"


@dataclass
class _Section:
    line: int  # of its [name]
    rows: list[tuple[int, str]]  # numbered lines, none blank


def parse(text: str, source: str, reading: Reading) -> Contents:
    lines = Lines(source, text)
    sections = _sections(lines)
    n, k, d = (_count(lines, sections, name) for name in COUNTS)
    if d not in (2, 3):
        raise FormatError(source, sections["dimensions"].line + 1, f"found {d} dimensions", "expected 2 or 3")
    titles, points = _points(lines, _section(lines, sections, "rawpoints"), n, k, d)
    names = _names(lines, sections, titles, reading, n)
    points, notes = unseen_at(points, reading.missing)
    left_out = [f"[{name}] left out" for name, one in sections.items() if name not in USED and one.rows]
    specimens = (Specimen(name, part, counted(k)) for name, part in zip(names, points.reshape(n, k, d), strict=True))
    return Contents(tuple(specimens), labelled=False, notes=(*notes, *left_out))


def _sections(lines: Lines) -> dict[str, _Section]:
    sections: dict[str, _Section] = {}
    current: _Section | None = None
    while lines.more():
        line = lines.next("").strip()
        if line.startswith("[") and line.endswith("]"):
            name = line[1:-1].strip().lower()
            if name in sections:
                raise lines.wrong(f"[{name}] is given again after line {sections[name].line}", "expected it once")
            current = sections[name] = _Section(lines.number, [])
        elif current is not None and line:
            current.rows.append((lines.number, line))
        elif line and not line.startswith("'"):
            raise lines.wrong(f"found {shortened(line)}", "expected a section such as [individuals]")
    return sections


def _section(lines: Lines, sections: dict[str, _Section], name: str) -> _Section:
    if name not in sections:
        found = f"there is no [{name}] among the sections {', '.join(sections) or '(none)'}"
        raise lines.wrong(found[:200], "add it")
    return sections[name]


def _count(lines: Lines, sections: dict[str, _Section], name: str) -> int:
    section = _section(lines, sections, name)
    lines.number = section.line
    if len(section.rows) != 1:
        raise lines.wrong(f"{len(section.rows)} values in [{name}]", "expected one")
    lines.number, value = section.rows[0]
    count = lines.count_in(value, name)
    if count == 0:
        raise lines.wrong(f"the number of {name} is 0", "expected at least 1")
    return count


def _points(lines: Lines, section: _Section, n: int, k: int, d: int) -> tuple[list[tuple[int, str]], Array]:
    """The numbered titles ``'#name``, none or n of them, and the points (n k, d)."""
    titles = [(number, row[1:].removeprefix("#").strip()) for number, row in section.rows if row[0] == "'"]
    lines.number = section.line
    if len(titles) not in (0, n) or len(section.rows) - len(titles) != n * k:
        found = f"{len(titles)} titles '#name and {len(section.rows) - len(titles)} points"
        raise lines.wrong(found, f"expected {n} titles and {n} times {k} points, as announced")
    points: list[list[float]] = []
    for lines.number, row in section.rows:
        if row[0] != "'":
            points.append(lines.point_in(row.split(), d))
        elif len(points) % k:
            raise lines.wrong(f"{len(points) % k} points before this title", f"expected {k} an individual")
    return titles, np.array(points).reshape(n * k, d)


def _names(
    lines: Lines, sections: dict[str, _Section], titles: list[tuple[int, str]], reading: Reading, n: int
) -> list[str]:
    """Names from [names], else from the titles, else counted."""
    if "names" not in sections:
        if not any(title for _, title in titles):
            return [f"{reading.name}_{i + 1}" for i in range(n)]
        _refuse_empty(lines, titles)
        return _unique(lines, titles)
    rows = sections["names"].rows
    if len(rows) != n:
        lines.number = sections["names"].line
        raise lines.wrong(f"{len(rows)} names in [names]", f"expected {n}, one an individual")
    names = _unique(lines, rows)
    known = set(names)
    for i, (number, title) in enumerate(titles):
        if title in known and title != names[i]:
            found = f"individual {i + 1} is {shortened(title)} here and {shortened(names[i])} in [names]"
            raise FormatError(lines.source, number, found, "bring [names] and [rawpoints] into the same order")
    return names


def _refuse_empty(lines: Lines, titles: list[tuple[int, str]]) -> None:
    for lines.number, title in titles:
        if not title:
            raise lines.wrong("a title without a name", "expected '#name, as for the other individuals")


def _unique(lines: Lines, rows: list[tuple[int, str]]) -> list[str]:
    names = [name for _, name in rows]
    refuse_repeats(lines.source, names, [number for number, _ in rows], "individual")
    return names


def render(contents: Contents) -> str:
    refuse_unsound(contents, FORMAT)
    refuse_weights(contents, FORMAT)
    refuse_labels(contents, FORMAT)
    names = [one.name for one in contents.specimens]
    refuse_names(names, _fits, FORMAT, "does not fit into one line, or begins with [")
    refuse_missing(contents.specimens, FORMAT, "write CSV, TPS or NTS instead")
    points = stacked(contents, FORMAT)
    head = [row for name, count in zip(COUNTS, points.shape, strict=True) for row in (f"[{name}]", str(count))]
    body = [row for name, part in zip(names, points, strict=True) for row in _rendered(name, part)]
    return "\n".join([*head, "[names]", *names, "[rawpoints]", *body]) + "\n"


def _fits(name: str) -> bool:
    return one_line(name) and not name.startswith("[")


def _rendered(name: str, points: Array) -> list[str]:
    return [f"'#{name}", *(" ".join(map(text_of, row)) for row in points)]

"""Morphologika: sections in any order, each a [name] and the values below it.

``[individuals]``, ``[landmarks]`` and ``[dimensions]`` are counts, ``[names]`` names the individuals and
``[rawpoints]`` holds their points, one per line, each individual after a line ``'#name``.  The format has no sign for
unseen points.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ..errors import FormatError
from ..typing import Array, IndexArray
from .capabilities import Capabilities
from .in_place import added_points, filled_points, split_lines, with_end_of
from .landmark_file import (
    LabelledCloud,
    LandmarkFile,
    ReadOptions,
    numbered_labels,
    numbered_names,
    require_unique,
)
from .text import Lines, format_numbers, is_one_line, short_repr

HOLDS = Capabilities("morphologika", labels=False, unseen=False)
COUNTS = ("individuals", "landmarks", "dimensions")
USED = (*COUNTS, "names", "rawpoints", "wireframe")

NumberedLines = list[tuple[int, str]]


@dataclass
class _Section:
    line: int  # of its [name]
    rows: NumberedLines  # none blank


def parse(text: str, source: str, options: ReadOptions) -> LandmarkFile:
    lines = Lines(source, text)
    sections = _sections(lines)
    n, k, d = (_count(lines, sections, name) for name in COUNTS)
    if d not in (2, 3):
        raise FormatError(source, sections["dimensions"].line + 1, f"found {d} dimensions", "expected 2 or 3")
    titles, points = _points(lines, _section(lines, sections, "rawpoints"), n, k, d)
    names = _names(lines, sections, titles, n) or numbered_names(options.name, n)
    ignored = [f"[{name}] ignored" for name, one in sections.items() if name not in USED and one.rows]
    parts = zip(names, points.reshape(n, k, d), strict=True)
    clouds = tuple(LabelledCloud(name, part, numbered_labels(k)) for name, part in parts)
    return LandmarkFile(clouds, labelled=False, links=_links(lines, sections, k), notes=tuple(ignored)).marking(
        options.missing
    )


def _sections(lines: Lines) -> dict[str, _Section]:
    sections: dict[str, _Section] = {}
    current: _Section | None = None
    while lines.has_content():
        line = lines.next("").strip()
        if line.startswith("[") and line.endswith("]"):
            name = line[1:-1].strip().lower()
            if name in sections:
                raise lines.error(f"[{name}] is also in line {sections[name].line}", "expected it once")
            current = sections[name] = _Section(lines.line_number, [])
        elif current is not None:
            current.rows.append((lines.line_number, line))
        elif not line.startswith("'"):
            raise lines.error(f"found {short_repr(line)}", "expected a section such as [individuals]")
    return sections


def _section(lines: Lines, sections: dict[str, _Section], name: str) -> _Section:
    if name not in sections:
        found = f"there is no [{name}] among the sections {', '.join(sections) or '(none)'}"
        raise lines.error(found[:200], "add it")
    return sections[name]


def _count(lines: Lines, sections: dict[str, _Section], name: str) -> int:
    section = _section(lines, sections, name)
    lines.line_number = section.line
    if len(section.rows) != 1:
        raise lines.error(f"{len(section.rows)} values in [{name}]", "expected one")
    lines.line_number, value = section.rows[0]
    count = lines.parse_count(value, name)
    if count == 0:
        raise lines.error(f"the number of {name} is 0", "expected at least 1")
    return count


def _points(lines: Lines, section: _Section, n: int, k: int, d: int) -> tuple[NumberedLines, Array]:
    """Return the titles ``'#name``, none or n of them, and the points (n k, d)."""
    titles = [(number, row[1:].removeprefix("#").strip()) for number, row in section.rows if row[0] == "'"]
    lines.line_number = section.line
    if len(titles) not in (0, n) or len(section.rows) - len(titles) != n * k:
        found = f"found {len(titles)} titles '#name and {len(section.rows) - len(titles)} points"
        raise lines.error(found, f"expected {n} titles and {n} times {k} points, as announced")
    points: list[list[float]] = []
    for lines.line_number, row in section.rows:
        if row[0] != "'":
            points.append(lines.parse_point(row.split(), d))
        elif len(points) % k:
            raise lines.error(f"{len(points) % k} points before this title", f"expected {k} per individual")
    return titles, np.array(points).reshape(n * k, d)


def _links(lines: Lines, sections: dict[str, _Section], k: int) -> IndexArray | None:
    """Return the pairs of landmarks of [wireframe], which counts them from 1."""
    rows = sections["wireframe"].rows if "wireframe" in sections else []
    links = []
    for lines.line_number, row in rows:
        ends = [lines.parse_count(field, "a landmark") for field in row.split()]
        if len(ends) < 2 or not all(1 <= end <= k for end in ends):
            raise lines.error(f"found {short_repr(row)}", f"expected two or more landmarks from 1 to {k}")
        links += [[a - 1, b - 1] for a, b in pairwise(ends)]
    return np.array(links, dtype=np.intp) if links else None


def _names(lines: Lines, sections: dict[str, _Section], titles: NumberedLines, n: int) -> list[str]:
    """Return the names from [names], otherwise those from the titles, otherwise none."""
    if "names" not in sections:
        if any(title for _, title in titles):
            _require_all_named(lines, titles)
            return _unique(lines, titles)
        return []
    rows = sections["names"].rows
    if len(rows) != n:
        lines.line_number = sections["names"].line
        raise lines.error(f"{len(rows)} names in [names]", f"expected {n}, one per individual")
    names = _unique(lines, rows)
    known = set(names)
    for i, (number, title) in enumerate(titles):
        if title in known and title != names[i]:
            found = f"individual {i + 1} is {short_repr(title)} here and {short_repr(names[i])} in [names]"
            raise FormatError(lines.source, number, found, "bring [names] and [rawpoints] into the same order")
    return names


def _require_all_named(lines: Lines, titles: NumberedLines) -> None:
    for lines.line_number, title in titles:
        if not title:
            raise lines.error("a title without a name", "expected '#name, as for the other individuals")


def _unique(lines: Lines, rows: NumberedLines) -> list[str]:
    names = [name for _, name in rows]
    require_unique(lines.source, names, [number for number, _ in rows], "individual")
    return names


def fill_in(text: str, before: LandmarkFile, filled: LandmarkFile) -> str | None:
    """All other sections are kept."""
    lines, k = split_lines(text), len(before.clouds[0].labels)
    if any(added_points(before, filled)):
        return None
    rows = [number - 1 for number, row in _sections(Lines("", text))["rawpoints"].rows if row[0] != "'"]
    for t, own in enumerate(filled_points(before, filled)):
        for j, point in own.items():
            i = rows[t * k + j]
            lines[i] = with_end_of(lines[i], format_numbers(point))
    return "".join(lines)


def render(file: LandmarkFile) -> str:
    HOLDS.require(file)
    names = [one.name for one in file.clouds]
    HOLDS.require_names(names, _is_name, "does not fit into one line, or begins with [")
    points = HOLDS.stack_points(file)
    head = [row for name, count in zip(COUNTS, points.shape, strict=True) for row in (f"[{name}]", str(count))]
    body = [row for name, part in zip(names, points, strict=True) for row in (f"'#{name}", *map(format_numbers, part))]
    return "\n".join([*head, "[names]", *names, "[rawpoints]", *body]) + "\n"


def _is_name(name: str) -> bool:
    return is_one_line(name) and not name.startswith("[")

"""Links between landmarks, which a report draws as lines: two labels or numbers per row of a text file.

Fields are separated by commas, tabs or spaces, and may be quoted.  A field is a label if there is such a landmark,
otherwise the number of a landmark, from 1.  A first row of which no field is a landmark is a header.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..errors import FormatError, warn
from ..typing import IndexArray, Name
from .text import Lines, decode_utf8, short_repr


def read_links(path: Path, landmarks: Sequence[Name]) -> IndexArray:  # (e, 2)
    """Return the links of a file as indices of landmarks."""
    try:
        text = decode_utf8(path.read_bytes(), str(path))
    except (FileNotFoundError, IsADirectoryError):
        raise FormatError(path, None, "there is no such file", "expected two labels or numbers per line") from None
    return parse_links(text, str(path), landmarks)


def parse_links(text: str, source: str, landmarks: Sequence[Name]) -> IndexArray:  # (e, 2)
    lines = Lines(source, text)
    position = {str(name): j for j, name in enumerate(landmarks)}
    links: list[list[int]] = []
    is_first = True
    while lines.has_content():
        line = lines.next("two landmarks")
        separator = r"[,\t]" if re.search(r"[,\t]", line) else r"\s+"
        fields = [_unquoted(field.strip()) for field in re.split(separator, line.strip())]
        if len(fields) != 2:
            raise lines.error(f"found {len(fields)} fields", "expected two landmarks, as labels or as numbers from 1")
        found = [_index(field, position) for field in fields]
        if is_first and lines.has_content() and found == [None, None] and not any(map(str.isdigit, fields)):
            warn(f"the first row of {short_repr(source)} is taken for a header, because it names no landmarks")
        else:
            links.append([_known(lines, index, field, position) for index, field in zip(found, fields, strict=True)])
        is_first = False
    return np.array(links, dtype=np.intp).reshape(-1, 2)


def _unquoted(field: str) -> str:
    return field[1:-1] if len(field) > 1 and field[0] == field[-1] == '"' else field


def _index(field: str, position: dict[str, int]) -> int | None:
    if field in position:
        return position[field]
    if field.isascii() and field.isdigit() and 1 <= int(field[:12]) <= len(position):
        return int(field[:12]) - 1
    return None


def _known(lines: Lines, index: int | None, field: str, position: dict[str, int]) -> int:
    if index is None:
        expected = f"expected a label, or a number up to {len(position)}"
        raise lines.error(f"there is no landmark {short_repr(field)}", expected)
    return index

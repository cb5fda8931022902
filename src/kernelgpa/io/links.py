"""Links between landmarks, which a report draws as lines: two labels or numbers per row of a text file.

Fields are separated by commas, tabs or spaces.  A field is a label if there is such a landmark, otherwise the number of
a landmark, from 1.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..errors import FormatError
from ..typing import IndexArray, Name
from .text import Lines, decode_utf8, short_repr


def read_links(path: Path, landmarks: Sequence[Name]) -> IndexArray:  # (e, 2)
    """Return the links of a file as indices of landmarks."""
    try:
        text = decode_utf8(path.read_bytes(), str(path))
    except (FileNotFoundError, IsADirectoryError):
        raise FormatError(path, None, "there is no such file", "expected two labels or numbers per line") from None
    lines = Lines(str(path), text)
    position = {str(name): j for j, name in enumerate(landmarks)}
    links = []
    while lines.has_content():
        line = lines.next("two landmarks")
        fields = [field.strip() for field in re.split(r"[,\t]" if re.search(r"[,\t]", line) else r"\s+", line.strip())]
        if len(fields) != 2:
            raise lines.error(f"found {len(fields)} fields", "expected two landmarks, as labels or as numbers from 1")
        links.append([_index(lines, field, position) for field in fields])
    return np.array(links, dtype=np.intp).reshape(-1, 2)


def _index(lines: Lines, field: str, position: dict[str, int]) -> int:
    if field in position:
        return position[field]
    if field.isascii() and field.isdigit() and 1 <= int(field[:12]) <= len(position):
        return int(field[:12]) - 1
    raise lines.error(
        f"there is no landmark {short_repr(field)}", f"expected a label, or a number up to {len(position)}"
    )

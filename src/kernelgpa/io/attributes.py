"""Attributes of the clouds, such as species, sex or age: a CSV table with one row per cloud.

The first column named ``cloud``, ``specimen``, ``name``, ``id``, ``file`` or ``frame`` (otherwise the first column)
names the cloud; the other columns are attributes.  Names are compared without the endings of file names, and whatever
way the system stores an umlaut.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from pathlib import Path

from ..errors import FormatError
from .csv_table import NOT_SEEN, read_table
from .landmark_file import require_unique
from .text import MOST_NAMED, decode_utf8, short_repr

NAME_COLUMNS = ("cloud", "specimen", "name", "id", "file", "frame", "")

Attributes = dict[str, tuple[str, ...]]  # column -> one text per cloud, empty if unknown


def read_attributes(path: Path, clouds: Sequence[str], suffixes: Sequence[str]) -> tuple[Attributes, list[str]]:
    """Return the attributes of the clouds in their order, and notes on rows and clouds without a counterpart.

    ``suffixes`` : endings of file names that a name in the table may have.
    """
    source = str(path)
    try:
        text = decode_utf8(path.read_bytes(), source)
    except (FileNotFoundError, IsADirectoryError):
        raise FormatError(path, None, "there is no such file", "expected a CSV table, one row per cloud") from None
    return parse_attributes(text, source, clouds, suffixes)


def parse_attributes(
    text: str, source: str, clouds: Sequence[str], suffixes: Sequence[str]
) -> tuple[Attributes, list[str]]:
    """Return the attributes that a text holds, as :func:`read_attributes`."""
    (line, header), rows = read_table(text, source, row_names=True)
    require_unique(source, header, [line] * len(header), "column")
    lower = [name.lower() for name in header]
    key = next((lower.index(name) for name in NAME_COLUMNS if name in lower), 0)
    names = [_plain(row[key], suffixes) for _, row in rows]
    require_unique(source, names, [number for number, _ in rows], "the row of")
    row_of = dict(zip(names, (row for _, row in rows), strict=True))
    wanted = [_plain(name, suffixes) for name in clouds]
    without = [name for name, plain in zip(clouds, wanted, strict=True) if plain not in row_of]
    if len(without) == len(clouds):
        found = f"no row is named like a cloud; the table has {_listed(names)}, the clouds are {_listed(clouds)}"
        raise FormatError(source, None, found, "name the rows like the clouds, in a column cloud")
    columns = [i for i in range(len(header)) if i != key and header[i]]
    attributes = {
        header[i]: tuple(_value(row_of[name][i]) if name in row_of else "" for name in wanted) for i in columns
    }
    return attributes, _notes(source, without, [name for name in names if name not in set(wanted)])


def _notes(source: str, without: Sequence[str], unused: Sequence[str]) -> list[str]:
    clouds = "1 cloud has" if len(without) == 1 else f"{len(without)} clouds have"
    rows = "1 row is" if len(unused) == 1 else f"{len(unused)} rows are"
    notes = [f"{source!r}: {clouds} no row ({_listed(without)})"] if without else []
    return notes + ([f"{source!r}: {rows} of no cloud ({_listed(unused)})"] if unused else [])


def _plain(name: str, suffixes: Sequence[str]) -> str:
    plain = unicodedata.normalize("NFC", name.strip())
    ends = [suffix for suffix in suffixes if plain.lower().endswith(suffix) and len(plain) > len(suffix)]
    return plain[: -len(max(ends, key=len))] if ends else plain


def _value(text: str) -> str:
    return "" if text.strip().lower() in NOT_SEEN else text.strip()


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(short_repr, names[:MOST_NAMED])) + (", ..." if len(names) > MOST_NAMED else "")

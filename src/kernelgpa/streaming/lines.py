"""The lines of a file or of standard input, each with where it ended, so that reading can go on from there.

A line that has no end yet is waited for while the file grows, and is never read in part.  A place is kept as bytes, as
lines and as a check sum of the first line, by which the same input is known again.
"""

from __future__ import annotations

import os
import sys
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from ..errors import FormatError
from ..io.validation import InvalidRecord, is_integer

POLL = 0.05  # seconds between two looks at a file that grows
STANDARD_INPUT = "-"


@dataclass(frozen=True)
class Place:
    """How far an input has been read."""

    offset: int = 0  # bytes
    lines: int = 0
    first: int | None = None  # check sum of the first line

    def __post_init__(self) -> None:
        known = self.first is None or is_integer(self.first)
        if not is_integer(self.offset, 0) or not is_integer(self.lines, 0) or not known:
            raise InvalidRecord(f"{self} is no place in an input")

    def after(self, line: bytes) -> Place:
        first = zlib.crc32(line.strip()) if self.first is None else self.first
        return Place(self.offset + len(line), self.lines + 1, first)


@dataclass(frozen=True)
class Line:
    """One line, and the place after it."""

    text: bytes
    place: Place

    @property
    def number(self) -> int:
        return self.place.lines

    @property
    def whole(self) -> bool:
        return self.text.endswith(b"\n")


@contextmanager
def lines_of(path: Path, follow: bool, place: Place) -> Iterator[Iterator[Line]]:
    """The lines after a place; with ``follow`` a file is waited for to grow, for ever."""
    if str(path) == STANDARD_INPUT:
        if sys.stdin is None:
            raise FormatError("standard input", None, "it is closed", "give a file of frames, or a pipe")
        yield _of_pipe(sys.stdin.buffer, place)
        return
    with _opened(path) as file:
        if not path.is_file():  # a named pipe
            yield _of_pipe(file, place)
            return
        _find(file, path, place)
        yield _of_file(file, path, follow, place)


def _of_file(file: BinaryIO, path: Path, follow: bool, place: Place) -> Iterator[Line]:
    half = b""
    while True:
        text = half + file.readline()
        if text.endswith(b"\n") or (text and not follow):
            half = b""
            place = place.after(text)
            yield Line(text, place)
        elif not follow:
            return
        else:
            half = text
            if os.fstat(file.fileno()).st_size < place.offset + len(half):
                raise FormatError(path, None, "the file became shorter", "a stream may only grow; start again")
            if not _is_still(path, file):
                raise FormatError(
                    path, None, "the file was replaced by another", "append to it instead, or start again"
                )
            time.sleep(POLL)


def _is_still(path: Path, file: BinaryIO) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


def _of_pipe(file: BinaryIO, place: Place) -> Iterator[Line]:
    """All lines; those before a place are passed over if the input begins as it did then."""
    first = file.readline()
    if not first:
        return
    replayed = place.first is not None and zlib.crc32(first.strip()) == place.first
    passed = 1 if replayed else 0
    while replayed and passed < place.lines and file.readline():
        passed += 1
    text = file.readline() if replayed else first
    while text:
        place = place.after(text)
        yield Line(text, place)
        text = file.readline()


def _opened(path: Path) -> BinaryIO:
    if path.is_dir():
        raise FormatError(path, None, "it is a folder", "expected a file of frames, or - for standard input")
    try:
        return path.open("rb")
    except FileNotFoundError:
        raise FormatError(path, None, "there is no such file", "check the name, or give - for standard input") from None


def _find(file: BinaryIO, path: Path, place: Place) -> None:
    """Go to a place in a file that must be the same, and as long at least."""
    if place.first is None:
        return
    size = os.fstat(file.fileno()).st_size
    if size < place.offset:
        found = f"it has {size} bytes and {place.offset} were read of it before the checkpoint"
        raise FormatError(path, None, found, "give the same file, or another checkpoint")
    if zlib.crc32(file.readline(place.offset).strip()) != place.first:
        raise FormatError(path, None, "it is another file than that of the checkpoint", "give another checkpoint")
    file.seek(place.offset)

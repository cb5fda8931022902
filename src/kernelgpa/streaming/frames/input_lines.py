"""The lines of a file or of standard input, each with the position after it, from which reading can be resumed.

While a file grows, a line without an end is waited for and never read in part.  A position counts bytes and lines, and
holds a checksum of the first line, by which the same input is recognised.
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

from ...errors import FormatError
from ...io.validation import InvalidRecord, is_integer

POLL_INTERVAL = 0.05  # seconds between two looks at a file that grows
STANDARD_INPUT = "-"


@dataclass(frozen=True)
class InputPosition:
    """How far an input has been read."""

    offset: int = 0  # bytes
    lines: int = 0
    checksum: int | None = None  # of the first line

    def __post_init__(self) -> None:
        known = self.checksum is None or is_integer(self.checksum)
        if not is_integer(self.offset, 0) or not is_integer(self.lines, 0) or not known:
            raise InvalidRecord(f"{self} is not a position in an input")

    def after(self, line: bytes) -> InputPosition:
        first = _checksum(line) if self.checksum is None else self.checksum
        return InputPosition(self.offset + len(line), self.lines + 1, first)


@dataclass(frozen=True)
class InputLine:
    """One line, and the position after it."""

    text: bytes
    position: InputPosition

    @property
    def number(self) -> int:
        return self.position.lines

    @property
    def complete(self) -> bool:
        """Whether the line has its end; otherwise it may still be written."""
        return self.text.endswith(b"\n")


@contextmanager
def read_lines(path: Path, follow: bool, position: InputPosition) -> Iterator[Iterator[InputLine]]:
    """The lines after a position; with ``follow`` those too that are appended to the file later, without end."""
    if str(path) == STANDARD_INPUT:
        if sys.stdin is None:
            raise FormatError("standard input", None, "it is closed", "give a file of frames, or a pipe")
        yield _lines_of_pipe(sys.stdin.buffer, position)
        return
    with _opened(path) as file:
        if not path.is_file():  # a named pipe
            yield _lines_of_pipe(file, position)
            return
        _seek(file, path, position)
        yield _lines_of_file(file, path, follow, position)


def _lines_of_file(file: BinaryIO, path: Path, follow: bool, position: InputPosition) -> Iterator[InputLine]:
    partial = b""
    while True:
        text = partial + file.readline()
        if text.endswith(b"\n") or (text and not follow):
            partial = b""
            position = position.after(text)
            yield InputLine(text, position)
        elif not follow:
            return
        else:
            partial = text
            if os.fstat(file.fileno()).st_size < position.offset + len(partial):
                raise FormatError(path, None, "the file became shorter", "only append to a stream, or start again")
            if not _is_same_file(path, file):
                raise FormatError(
                    path, None, "the file was replaced by another", "append to it instead, or start again"
                )
            time.sleep(POLL_INTERVAL)


def _is_same_file(path: Path, file: BinaryIO) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


def _lines_of_pipe(file: BinaryIO, position: InputPosition) -> Iterator[InputLine]:
    """All lines, without those before a position if the input begins with the same line as then."""
    first = file.readline()
    if not first:
        return
    replayed = position.checksum is not None and _checksum(first) == position.checksum
    skipped = 1 if replayed else 0
    while replayed and skipped < position.lines and file.readline():
        skipped += 1
    text = file.readline() if replayed else first
    while text:
        position = position.after(text)
        yield InputLine(text, position)
        text = file.readline()


def _opened(path: Path) -> BinaryIO:
    if path.is_dir():
        raise FormatError(path, None, "it is a folder", "expected a file of frames, or - for standard input")
    try:
        return path.open("rb")
    except FileNotFoundError:
        raise FormatError(path, None, "there is no such file", "check the name, or give - for standard input") from None


def _seek(file: BinaryIO, path: Path, position: InputPosition) -> None:
    """Go to a position in a file, which must be the file of the checkpoint and at least as long."""
    if position.checksum is None:
        return
    size = os.fstat(file.fileno()).st_size
    if size < position.offset:
        found = f"it has {size} bytes, and {position.offset} were read before the checkpoint"
        raise FormatError(path, None, found, "give the same file, or another checkpoint")
    if _checksum(file.readline(position.offset)) != position.checksum:
        raise FormatError(path, None, "it is not the file of the checkpoint", "give another checkpoint")
    file.seek(position.offset)


def _checksum(line: bytes) -> int:
    return zlib.crc32(line.strip())

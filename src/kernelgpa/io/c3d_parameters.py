"""The parameter section of a C3D file: named values in groups, as in ``POINT:LABELS``.

A record is, in bytes:

    1  length of the name (negative: locked)      1  number of the group (negative: the record defines the group)
    n  the name                                   2  offset from here to the next record, 0 after the last
    a parameter goes on with
    1  size of an element: -1 text, 1, 2, 4       1  number of dimensions, then 1 byte for each dimension
    .  the elements, first dimension fastest      .  length of the description, and the description

The section begins with four bytes: two that nobody uses, the number of 512-byte blocks, and 83 plus the processor type.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import FormatError
from ..typing import Array

BLOCK = 512
FIRST_PROCESSOR = 84
PROCESSOR_ORDERS = ("<", "VAX", ">")  # Intel, DEC, MIPS
MOST_DIMENSIONS = 7

Value = list[str] | list[float]
Parameters = dict[tuple[str, str], Value]  # (group, name) -> texts or numbers


@dataclass(frozen=True)
class ByteOrder:
    """How numbers of more than one byte are stored."""

    name: str  # one of PROCESSOR_ORDERS

    def floats(self, data: bytes) -> Array:
        """Return the single-precision numbers of some bytes; bytes that are no number become NaN or infinite."""
        with np.errstate(all="ignore"):
            if self.name != "VAX":
                return np.frombuffer(data, f"{self.name}f4").astype(np.float64)
            # a VAX number has its 16-bit halves exchanged, and an exponent that is larger by 2
            halves = np.frombuffer(data, "<u2").reshape(-1, 2)[:, ::-1]
            return np.ascontiguousarray(halves).view("<f4").ravel().astype(np.float64) / 4

    def integers(self, data: bytes) -> Array:
        return np.frombuffer(data, ">i2" if self.name == ">" else "<i2").astype(np.float64)

    def unsigned(self, data: bytes) -> int:
        return int.from_bytes(data, "big" if self.name == ">" else "little")


def read_parameters(data: bytes, source: str) -> tuple[ByteOrder, Parameters]:
    """Return the byte order of a file, and its parameters with names in capitals."""
    at = BLOCK * (data[0] - 1)
    if data[0] == 0 or at + 4 > len(data):
        raise FormatError(source, None, f"the parameters should begin in block {data[0]}", "the file is corrupt")
    processor = data[at + 3] - FIRST_PROCESSOR
    if not 0 <= processor < len(PROCESSOR_ORDERS):
        found = f"the processor type is {data[at + 3]}"
        raise FormatError(source, None, found, "expected 84 (Intel), 85 (DEC) or 86 (MIPS)")
    order = ByteOrder(PROCESSOR_ORDERS[processor])
    groups: dict[int, str] = {}
    found_values: list[tuple[int, str, Value]] = []
    at += 4
    while at + 2 <= len(data) and data[at] != 0:
        length, group = abs(_signed(data[at])), _signed(data[at + 1])
        offset_at = at + 2 + length
        if offset_at + 2 > len(data):
            raise FormatError(source, None, "the parameters end before their last record", "the file is truncated")
        name = _text(data[at + 2 : offset_at]).upper()
        offset = order.unsigned(data[offset_at : offset_at + 2])
        end = offset_at + 2
        if group < 0:
            groups[-group] = name
        else:
            value, end = _value(data, end, order, source, name)
            found_values.append((group, name, value))
        if offset == 0:
            break
        at = offset_at + offset
        if at < end:  # also keeps the time to read a corrupt file in proportion to its size
            raise FormatError(source, None, f"parameter {name!r} overlaps the next one", "the file is corrupt")
    return order, {(groups.get(group, str(group)), name): value for group, name, value in found_values}


def _value(data: bytes, at: int, order: ByteOrder, source: str, name: str) -> tuple[Value, int]:
    """Return the value at a position, and the position after it."""

    def corrupt(found: str) -> FormatError:
        return FormatError(source, None, f"parameter {name!r}: {found}", "the file is corrupt")

    if at + 2 > len(data):
        raise corrupt("the file ends")
    kind, dimensions = _signed(data[at]), data[at + 1]
    if kind not in (-1, 1, 2, 4) or dimensions > MOST_DIMENSIONS or at + 2 + dimensions > len(data):
        raise corrupt(f"elements of type {kind} in {dimensions} dimensions")
    sizes = list(data[at + 2 : at + 2 + dimensions])
    start, count = at + 2 + dimensions, math.prod(sizes)
    content = data[start : start + count * abs(kind)]
    if len(content) < count * abs(kind):
        raise corrupt(f"{count} elements are announced, and the file ends before")
    if kind == -1:
        width = sizes[0] if sizes else 1
        rows = count // width if width else 0
        return [_text(content[i * width : (i + 1) * width]) for i in range(rows)], start + len(content)
    numbers = {4: order.floats, 2: order.integers, 1: _bytes_as_numbers}[kind](content)
    return numbers.tolist(), start + len(content)


def _bytes_as_numbers(data: bytes) -> Array:
    return np.frombuffer(data, "u1").astype(np.float64)


def _signed(byte: int) -> int:
    return byte - 256 if byte > 127 else byte


def _text(data: bytes) -> str:
    """Return a padded text; programs of several countries wrote other encodings than UTF-8."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    return text.split("\0", 1)[0].strip()


def texts_of(parameters: Parameters, group: str, name: str) -> list[str]:
    """Return the texts of a parameter and of its continuations (``LABELS``, ``LABELS2``, ...)."""
    found: list[str] = []
    for part in (name, *(f"{name}{i}" for i in range(2, 256))):
        value = parameters.get((group, part), [])
        if not value:
            break
        found += [one for one in value if isinstance(one, str)]
    return found


def number_of(parameters: Parameters, group: str, name: str) -> float | None:
    """Return the first number of a parameter, or None."""
    value = parameters.get((group, name), [])
    return float(value[0]) if value and not isinstance(value[0], str) else None


def rendered_parameters(groups: Mapping[str, Mapping[str, Sequence[str] | Array]]) -> bytes:
    """Return the section in Intel byte order; arrays are written as float32 or int16, as their type states."""
    records = []
    for number, (group, members) in enumerate(groups.items(), start=1):
        records.append(_record(group, -number, b"\0"))
        for name, value in members.items():
            records.append(_record(name, number, _rendered_value(value)))
    body = b"".join(records) + b"\0\0"
    blocks = -(-(len(body) + 4) // BLOCK)
    return (bytes([1, 80, blocks, FIRST_PROCESSOR]) + body).ljust(blocks * BLOCK, b"\0")


def _record(name: str, group: int, content: bytes) -> bytes:
    encoded = name.encode()
    offset = (2 + len(content)).to_bytes(2, "little")
    return bytes([len(encoded), group % 256]) + encoded + offset + content


def _rendered_value(value: Sequence[str] | Array) -> bytes:
    if isinstance(value, np.ndarray):
        kind = 4 if value.dtype.kind == "f" else 2
        content = value.astype("<f4" if kind == 4 else "<i2").tobytes()
        sizes = [] if value.ndim == 0 else list(value.shape)
        return bytes([kind, len(sizes), *sizes]) + content + b"\0"
    encoded = [one.encode() for one in value]
    width = max(map(len, encoded), default=0)
    content = b"".join(one.ljust(width) for one in encoded)
    return bytes([255, 2, width, len(encoded)]) + content + b"\0"

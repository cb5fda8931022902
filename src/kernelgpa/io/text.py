"""Text files: lines with their numbers, and numbers and names as messages show them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from ..errors import FormatError

# float() also accepts 1_000, nan, infinity and the digits of other scripts
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
MOST_DIGITS_OF_COUNT = 12
MOST_NAMED = 3  # clouds or landmarks that a note lists by name


def is_blank(line: str) -> bool:
    return not line.strip()


@dataclass
class Lines:
    """The lines of a text, read one after the other; errors carry the number of the current line."""

    source: str
    text: str
    line_number: int = 0  # of the line read last, from 1
    _lines: list[str] = field(init=False)

    def __post_init__(self) -> None:
        # not splitlines, which also splits at characters that a name may contain
        self._lines = self.text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
        if self._lines[-1] == "":
            self._lines.pop()

    def next(self, expected: str) -> str:
        """Read the next line; at the end of the file the error states what was expected."""
        if not self.has_more():
            raise self.error("the file ends", f"expected {expected}")
        self.line_number += 1
        return self._lines[self.line_number - 1]

    def next_content(self, expected: str, is_skipped: Callable[[str], bool] = is_blank) -> str:
        """Read the next line that is not skipped."""
        while is_skipped(line := self.next(expected)):
            pass
        return line

    def has_more(self) -> bool:
        return self.line_number < len(self._lines)

    def has_content(self) -> bool:
        """Skip blank lines; return whether another line follows."""
        while self.has_more() and is_blank(self.peek()):
            self.line_number += 1
        return self.has_more()

    def peek(self) -> str:
        return self._lines[self.line_number]

    def error(self, found: str, expected: str) -> FormatError:
        """Return an error at the current line."""
        return FormatError(self.source, self.line_number, found, expected)

    def require_lines(self, count: int, what: str) -> None:
        """Refuse a count that the rest of the file cannot hold, before memory is allocated for it."""
        remaining = len(self._lines) - self.line_number
        if count > remaining:
            raise self.error(f"{count} {what} are announced, but {remaining} lines follow", "the file is truncated")

    def require_end(self, hint: str, is_skipped: Callable[[str], bool] = is_blank) -> None:
        """Refuse lines after the end of the data."""
        while self.has_more():
            line = self.next("")
            if not is_skipped(line):
                raise self.error(f"found {short_repr(line)}", f"expected the end of the file; {hint}")

    def parse_number(self, text: str, expected: str = "a number") -> float:
        """Return one finite number."""
        return parse_number(text, self.source, self.line_number, expected)

    def parse_point(self, fields: Sequence[str], dimension: int) -> list[float]:
        """Return the coordinates of one point."""
        if len(fields) != dimension:
            raise self.error(f"found {len(fields)} values", f"expected the {dimension} coordinates of a point")
        return [self.parse_number(one, "a coordinate") for one in fields]

    def parse_count(self, text: str, what: str) -> int:
        """Return an integer of at least 0."""
        if not text.isascii() or not text.isdigit() or len(text) > MOST_DIGITS_OF_COUNT:
            raise self.error(f"found {short_repr(text)}", f"expected the number of {what}")
        return int(text)


def parse_number(text: str, source: str, line: int | None, expected: str = "a number") -> float:
    """Return one finite number that double precision can represent."""
    text = text.strip(" \t")
    match = _NUMBER.fullmatch(text)
    if match is None:
        hint = " (with a decimal point)" if "," in text else ""
        raise FormatError(source, line, f"found {short_repr(text)}", f"expected {expected}{hint}")
    value = float(text)
    underflow = value == 0 and match[1].strip("0.") != ""
    if underflow or math.isinf(value):
        raise FormatError(source, line, f"{short_repr(text)} is outside double precision", f"expected {expected}")
    return value


def format_number(value: float) -> str:
    """Return the shortest text that is read back as the same number."""
    return repr(float(value))


def format_numbers(values: Iterable[float], unseen: str = "nan") -> str:
    """Return numbers separated by spaces, with ``unseen`` in place of NaN."""
    return " ".join(unseen if math.isnan(value) else format_number(value) for value in values)


def short_repr(text: str) -> str:
    """Return text of a file as messages show it."""
    return repr(text if len(text) <= 40 else text[:37] + "...")


def is_unicode(text: str) -> bool:
    """Whether a text can be written to a file: half of a surrogate pair cannot."""
    return not any("\ud800" <= c <= "\udfff" for c in text)


def is_one_line(text: str) -> bool:
    """Whether a text is read back unchanged from a line that is stripped on reading."""
    return text == text.strip() and "\n" not in text and "\r" not in text


def is_one_word(text: str) -> bool:
    return text.split() == [text]


def decode_utf8(data: bytes, source: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise FormatError(source, line, "the text is not UTF-8", "save it as UTF-8") from None

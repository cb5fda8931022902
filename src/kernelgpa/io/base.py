"""What a file of landmarks holds, before the clouds of several files are matched.

Every format has one reader, ``parse``, from the text or the bytes of a file to :class:`Contents`, and one writer,
``render``, back.  Neither touches the disk.  Points are in the unit of the file and in the frame LPS where the format
knows its frame; a point that was not seen is NaN.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ..errors import FormatError
from ..frames import Array, IndexArray

AXES = "xyz"
TO_LPS = np.array([-1.0, -1.0, 1.0])  # from RAS, and back


@dataclass(frozen=True)
class Specimen:
    """One cloud as a file holds it."""

    name: str
    points: Array  # (k, d), NaN where unseen
    labels: tuple[str, ...]  # one a point; "1", "2", ... where the file has none
    weights: Array | None = None  # (k,)


@dataclass(frozen=True)
class Contents:
    """Everything that one file holds."""

    specimens: tuple[Specimen, ...]
    labelled: bool  # whether the file names its landmarks; otherwise they are counted
    frame: str | None = None  # "LPS" where the format knows its frame
    unit: str | None = None  # "mm", ... where the file says so
    faces: IndexArray | None = None  # (f, 3), of a mesh
    notes: tuple[str, ...] = ()  # what was converted or left out on the way


@dataclass(frozen=True)
class Reading:
    """What a file cannot tell of itself."""

    name: str = "cloud"  # of a specimen that has none in the file
    missing: float | None = None  # a number that stands for "not seen", where the format has none of its own
    negative_is_missing: bool = False  # TPS: a point with all coordinates negative was not seen
    curves: bool = False  # TPS: whether points of curves are landmarks too


@dataclass
class Lines:
    """The lines of a text, one after the other, each with its number for messages."""

    source: str
    text: str
    number: int = 0  # of the line taken last, from 1
    _lines: list[str] = field(init=False)

    def __post_init__(self) -> None:
        # not splitlines, which also splits at characters that a name may hold
        self._lines = self.text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
        if self._lines[-1] == "":
            self._lines.pop()

    def next(self, expected: str) -> str:
        """The next line; an error that says what was expected where there is none."""
        if self.number >= len(self._lines):
            raise FormatError(self.source, self.number, "the file ends", f"expected {expected}")
        self.number += 1
        return self._lines[self.number - 1]

    def more(self) -> bool:
        return self.number < len(self._lines)

    def peek(self) -> str:
        return self._lines[self.number]

    @property
    def left(self) -> int:
        return len(self._lines) - self.number

    def wrong(self, found: str, expected: str) -> FormatError:
        """An error at the line taken last."""
        return FormatError(self.source, self.number, found, expected)

    def require(self, count: int, what: str) -> None:
        """Refuse a count that the rest of the file cannot hold, before memory is taken for it."""
        if count > self.left:
            raise self.wrong(f"{count} {what} are announced and {self.left} lines follow", "the file is cut off")

    def number_in(self, text: str, expected: str = "a number") -> float:
        """One finite number."""
        try:
            value = float(text)
        except ValueError:
            raise self.wrong(f"found {shortened(text)}", f"expected {expected}") from None
        if not math.isfinite(value) or "_" in text:
            raise self.wrong(f"found {shortened(text)}", f"expected {expected}")
        return value

    def count_in(self, text: str, what: str) -> int:
        """A whole number of at least 0."""
        if not text.isascii() or not text.isdigit() or len(text) > 12:
            raise self.wrong(f"found {shortened(text)}", f"expected the number of {what}")
        return int(text)


def shortened(text: str) -> str:
    """Text of a file as a message shows it."""
    return repr(text if len(text) <= 40 else text[:37] + "...")


def as_numbers(array: npt.NDArray[np.generic]) -> Array:
    """In double precision; bytes that are no number become NaN without a word, and are refused later."""
    with np.errstate(invalid="ignore"):
        return array.astype(np.float64)


def counted(count: int) -> tuple[str, ...]:
    """Labels of landmarks that have none."""
    return tuple(str(i + 1) for i in range(count))


def text_of(value: float) -> str:
    """The shortest text that reads back as the same number."""
    return repr(float(value))


def stacked(contents: Contents, format_: str) -> Array:  # (n, k, d)
    """All specimens in one array, for formats in which all have the same landmarks."""
    first = contents.specimens[0]
    for one in contents.specimens:
        if one.labels != first.labels or one.points.shape != first.points.shape:
            raise FormatError(
                format_, None, f"{one.name!r} and {first.name!r} have different landmarks", "write CSV or NPZ instead"
            )
    return np.stack([one.points for one in contents.specimens])


def refuse_weights(contents: Contents, format_: str) -> None:
    if any(one.weights is not None for one in contents.specimens):
        raise FormatError(format_, None, "the format cannot hold weights", "write CSV or NPZ instead")


def refuse_missing(specimens: Sequence[Specimen], format_: str, remedy: str) -> None:
    for one in specimens:
        unseen = np.flatnonzero(np.isnan(one.points).any(axis=1))
        if len(unseen):
            found = f"{one.name!r}: landmark {one.labels[unseen[0]]!r} was not seen; the format has no sign for that"
            raise FormatError(format_, None, found, remedy)


def refuse_repeats_in(names: Sequence[str], what: str, source: str) -> None:
    """Two specimens, or two landmarks of one, with the same name could not be told apart."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise FormatError(source, None, f"{what}: {shortened(name)} occurs more than once", "rename one of them")
        seen.add(name)

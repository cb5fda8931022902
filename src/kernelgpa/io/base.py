"""What a file of landmarks holds, before the clouds of several files are matched.

Every format has one reader, ``parse``, from the text or the bytes of a file to :class:`Contents`, and one writer,
``render``, back.  Neither touches the disk.  Points are in the unit of the file and in the frame LPS where the format
knows its frame; a point that was not seen is NaN.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from ..errors import FormatError
from ..typing import Array, IndexArray

AXES = "xyz"
TO_LPS = np.array([-1.0, -1.0, 1.0])  # from RAS, and back
# float() also takes 1_000, nan, infinity and the digits of other scripts
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")


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

    def unlabelled(self) -> Contents:
        """The same with counted landmarks, for formats that cannot name them."""
        specimens = tuple(replace(one, labels=counted(len(one.labels))) for one in self.specimens)
        return replace(self, specimens=specimens, labelled=False)


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
        return number_in(text, self.source, self.number, expected)

    def point_in(self, fields: Sequence[str], dimension: int) -> list[float]:
        """The coordinates of one point."""
        if len(fields) != dimension:
            raise self.wrong(f"found {len(fields)} values", f"expected the {dimension} coordinates of a point")
        return [self.number_in(one, "a coordinate") for one in fields]

    def count_in(self, text: str, what: str) -> int:
        """A whole number of at least 0."""
        if not text.isascii() or not text.isdigit() or len(text) > 12:
            raise self.wrong(f"found {shortened(text)}", f"expected the number of {what}")
        return int(text)


def number_in(text: str, source: str, line: int | None, expected: str = "a number") -> float:
    """One finite number that double precision holds."""
    text = text.strip(" \t")
    match = _NUMBER.fullmatch(text)
    if match is None:
        hint = " (with a decimal point)" if "," in text else ""
        raise FormatError(source, line, f"found {shortened(text)}", f"expected {expected}{hint}")
    value = float(text)
    lost = value == 0 and match[1].strip("0.") != ""
    if lost or math.isinf(value):
        raise FormatError(source, line, f"{shortened(text)} is beyond double precision", f"expected {expected}")
    return value


def shortened(text: str) -> str:
    """Text of a file as a message shows it."""
    return repr(text if len(text) <= 40 else text[:37] + "...")


def as_numbers(array: npt.NDArray[np.generic]) -> Array:
    """In double precision; bytes that are no number become NaN without a word, and are refused later."""
    with np.errstate(invalid="ignore"):
        return array.astype(np.float64)


def require_whole_points(points: Array, what: str, source: str) -> None:  # (..., d)
    """Every point is seen, with finite coordinates, or not, with all of them NaN."""
    unseen = np.isnan(points)
    if np.isinf(points).any() or (unseen.any(axis=-1) != unseen.all(axis=-1)).any():
        raise FormatError(
            source, None, f"{what} has points that are infinite or NaN in part", "expected all NaN or none"
        )


def counted(count: int) -> tuple[str, ...]:
    """Labels of landmarks that have none."""
    return tuple(str(i + 1) for i in range(count))


def text_of(value: float) -> str:
    """The shortest text that reads back as the same number."""
    return repr(float(value))


def unseen_at(points: Array, missing: float | None) -> tuple[Array, tuple[str, ...]]:  # (k, d) -> (k, d), notes
    """The points with NaN where all coordinates are the number ``missing``.

    One coordinate alone may well be that number: 0 is a good sign for "not seen" and a good coordinate.
    """
    if missing is None:
        return points, ()
    unseen = (points == missing).all(axis=1)
    note = f"points not seen because all coordinates are {text_of(missing)}: {unseen.sum()}"
    return np.where(unseen[:, None], np.nan, points), (note,) if unseen.any() else ()


def kept_at(specimens: Sequence[Specimen], missing: float | None, sign: str) -> tuple[str, ...]:
    """A note where a format has its own ``sign`` for "not seen" and points look like the one that was asked for."""
    if missing is None:
        return ()
    kept = sum(int((one.points == missing).all(axis=1).sum()) for one in specimens if one.points.size)
    return (f"points kept although all coordinates are {text_of(missing)}: {kept}; here {sign}",) if kept else ()


def refuse_repeats(source: str, texts: Sequence[str], lines: Sequence[int] | None, what: str) -> None:
    """Refuse a name that is given twice, at the line where it is given again; formats without lines give None."""
    first: dict[str, int | None] = {}
    for i, text in enumerate(texts):
        line = None if lines is None else lines[i]
        if text in first:
            after = "" if line is None else f" after line {first[text]}"
            raise FormatError(
                source, line, f"{what} {shortened(text)} is given again{after}", "give each a name of its own"
            )
        first[text] = line


# -- what every writer asks before it writes --


def stacked(contents: Contents, format_: str) -> Array:  # (n, k, d)
    """All specimens in one array, for formats in which all have the same landmarks."""
    first = contents.specimens[0]
    for one in contents.specimens:
        if one.labels != first.labels or one.points.shape != first.points.shape:
            raise FormatError(
                format_, None, f"{one.name!r} and {first.name!r} have different landmarks", "write CSV or NPZ instead"
            )
    return np.stack([one.points for one in contents.specimens])


def refuse_unsound(contents: Contents, format_: str) -> None:
    """Refuse what no file of landmarks can hold; every writer begins with this."""
    if not contents.specimens:
        raise FormatError(format_, None, "there is no cloud", "give at least one")
    if contents.faces is not None:
        raise FormatError(format_, None, "the format cannot hold faces", "write a mesh format, or leave the faces out")
    dimension = contents.specimens[0].points.shape[-1]
    for one in contents.specimens:
        _refuse_unsound_specimen(one, dimension, format_)
    _refuse_unsound_texts([one.name for one in contents.specimens], "cloud", format_)


def _refuse_unsound_specimen(one: Specimen, dimension: int, format_: str) -> None:
    k = len(one.labels)
    if dimension not in (2, 3) or one.points.shape != (k, dimension) or k == 0:
        found = f"{one.name!r}: {k} labels for points of shape {one.points.shape}"
        raise FormatError(format_, None, found, "expected (landmarks, 2) or (landmarks, 3), the same for all clouds")
    unseen = np.isnan(one.points)
    if np.isinf(one.points).any() or (unseen.any(axis=1) != unseen.all(axis=1)).any():
        found = f"{one.name!r}: a point is infinite or has NaN in some coordinates only"
        raise FormatError(format_, None, found, "make every point finite or all NaN")
    if one.weights is not None and (one.weights.shape != (k,) or not (np.isfinite(one.weights)).all()):
        raise FormatError(format_, None, f"{one.name!r}: its weights do not fit", "give one finite weight a landmark")
    _refuse_unsound_texts(one.labels, f"{one.name!r}: landmark", format_)


def _refuse_unsound_texts(texts: Sequence[str], what: str, format_: str) -> None:
    if len(set(texts)) < len(texts) or "" in texts:
        raise FormatError(format_, None, f"{what} names are empty or repeated", "give each a name of its own")
    for text in texts:
        if not is_unicode(text):
            raise FormatError(format_, None, f"{what} {text!r} is no valid Unicode", "rename it")


def is_unicode(text: str) -> bool:
    """Whether a text can be written to a file: half of a surrogate pair cannot."""
    return not any("\ud800" <= c <= "\udfff" for c in text)


def refuse_names(texts: Sequence[str], fits: Callable[[str], bool], format_: str, limit: str) -> None:
    """Refuse names of clouds or landmarks that would not read back as they are."""
    for text in texts:
        if not fits(text):
            raise FormatError(format_, None, f"the name {shortened(text)} {limit}", "rename it, or write CSV instead")


def one_line(text: str) -> bool:
    """Whether a text comes back from a line that is stripped on reading."""
    return text == text.strip() and "\n" not in text and "\r" not in text


def one_word(text: str) -> bool:
    return text.split() == [text]


def refuse_labels(contents: Contents, format_: str) -> None:
    """Refuse to drop landmark labels that say more than a count."""
    if contents.labelled and any(one.labels != counted(len(one.labels)) for one in contents.specimens):
        remedy = "write CSV or NPZ instead, or drop the labels on purpose (Contents.unlabelled)"
        raise FormatError(format_, None, "the format holds no landmark labels", remedy)


def refuse_several(contents: Contents, format_: str) -> None:
    if len(contents.specimens) > 1:
        found = f"the format holds one cloud a file and there are {len(contents.specimens)}"
        raise FormatError(format_, None, found, "write one file a cloud (kernelgpa convert --to), or CSV or NPZ")


def refuse_flat(contents: Contents, format_: str) -> None:
    if contents.specimens[0].points.shape[1] != 3:
        raise FormatError(format_, None, "the format holds points of three dimensions", "write CSV, NPZ or TPS instead")


def refuse_weights(contents: Contents, format_: str) -> None:
    if any(one.weights is not None for one in contents.specimens):
        raise FormatError(format_, None, "the format cannot hold weights", "write CSV or NPZ instead")


def refuse_missing(specimens: Sequence[Specimen], format_: str, remedy: str) -> None:
    for one in specimens:
        unseen = np.flatnonzero(np.isnan(one.points).any(axis=1))
        if len(unseen):
            found = f"{one.name!r}: landmark {one.labels[unseen[0]]!r} was not seen; the format has no sign for that"
            raise FormatError(format_, None, found, remedy)

"""What a file of landmarks contains, before the clouds of several files are matched.

Every format has one reader, ``parse``, from the text or the bytes of a file to a :class:`LandmarkFile`, and one writer,
``render``, back.  Neither touches the disk.  Points are in the unit of the file, and in the frame LPS if the format
states its frame; a point that was not seen is NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ..errors import FormatError, InvalidSetting
from ..typing import Array, IndexArray
from .text import short_repr

Missing = float | Sequence[float] | None  # a code of missing points: one number for all axes, or one per axis

RAS_TO_LPS = np.array([-1.0, -1.0, 1.0])  # its own inverse
RAS_CONVERTED = "RAS converted to LPS"  # the note
SLICER_FRAMES = {"0": "RAS", "RAS": "RAS", "1": "LPS", "LPS": "LPS"}  # as Slicer writes them


@dataclass(frozen=True)
class LabelledCloud:
    """One cloud as a file contains it.

    Attributes
    ----------
    name : str
        The name of the cloud.
    points : array (k, d)
        Its points, NaN if unseen.
    labels : tuple of k str
        One per point; "1", "2", ... if the file has none.
    weights : array (k,) or None
        Weights of the points.
    time : float or None
        Time of a frame in seconds.
    number : int or None
        Number of a frame, as the file counts them.
    """

    name: str
    points: Array
    labels: tuple[str, ...]
    weights: Array | None = None
    time: float | None = None
    number: int | None = None


@dataclass(frozen=True)
class LandmarkFile:
    """Everything that one file contains.

    Attributes
    ----------
    clouds : tuple of LabelledCloud
        Its clouds.
    labelled : bool
        Whether the file labels its landmarks; otherwise they are numbered.
    frame, unit : str or None
        "LPS" if the format states its frame; "mm", ... if the file states its unit.
    faces : int array (f, 3) or None
        Triangles of a mesh.
    links : int array (e, 2) or None
        Lines between landmarks.
    notes : tuple of str
        What was converted or ignored on reading.
    kind : str
        What the format calls a cloud: "specimen", "frame" or "cloud".
    marked_by_code : int
        How many points were not seen because they have the value of ``ReadOptions.missing``.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelgpa import io
    >>> cloud = io.LabelledCloud("skull", np.eye(3), ("nose", "chin", "ear"))
    >>> file = io.LandmarkFile((cloud,), labelled=True, unit="mm")
    >>> file.clouds[0].labels
    ('nose', 'chin', 'ear')
    """

    clouds: tuple[LabelledCloud, ...]
    labelled: bool
    frame: str | None = None
    unit: str | None = None
    faces: IndexArray | None = None
    links: IndexArray | None = None
    notes: tuple[str, ...] = ()
    kind: str = "cloud"
    marked_by_code: int = 0

    def without_labels(self) -> LandmarkFile:
        """Return the same clouds with numbered landmarks, for formats that cannot label them."""
        clouds = tuple(replace(one, labels=numbered_labels(len(one.labels))) for one in self.clouds)
        return replace(self, clouds=clouds, labelled=False)

    def marking(self, missing: Missing) -> LandmarkFile:
        """Return the same clouds with NaN for points that have the value ``missing``, if none was converted."""
        if missing is None:
            return self
        found = [mark_unseen(one.points, missing) for one in self.clouds]
        clouds = tuple(replace(one, points=points) for one, (points, _) in zip(self.clouds, found, strict=True))
        return replace(self, clouds=clouds, marked_by_code=sum(count for _, count in found))


@dataclass(frozen=True)
class ReadOptions:
    """What a file does not state itself.

    Attributes
    ----------
    name : str
        The name of a cloud that has none in the file.
    missing : float, one float per axis, or None
        What "not seen" reads in the file, beside the format's own sign.
    negative_is_missing : bool
        TPS: whether a point with only negative coordinates was not seen.
    curves : bool
        TPS: whether points of curves are landmarks too.
    frames : str or None
        The clouds to keep, by the numbers of their frames, such as "100:400:4".
    markers : tuple of str
        The landmarks to keep, by patterns of their labels, such as "L*".
    recursive : bool
        Whether to look into the folders of a folder too.
    match : {"label", "suffix", "number", "order"} or None
        How landmarks of different files are matched; None chooses.
    label_pattern : str or None
        A regular expression; its group, or what it matches, replaces a label.
    merge : bool or None
        Whether files whose names begin alike are one specimen; None: if their labels differ.
    """

    name: str = "cloud"
    missing: Missing = None
    negative_is_missing: bool = False
    curves: bool = False
    frames: str | None = None
    markers: tuple[str, ...] = ()
    recursive: bool = False
    match: str | None = None
    label_pattern: str | None = None
    merge: bool | None = None


def numbered_labels(count: int) -> tuple[str, ...]:
    """Return labels for landmarks that have none."""
    return tuple(str(i + 1) for i in range(count))


def numbered_names(name: str, count: int) -> tuple[str, ...]:
    """Return names for the clouds of a file that names none."""
    return tuple(f"{name}_{i + 1}" for i in range(count))


def labels_or_numbers(given: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the labels, or numbers and a note if some landmarks have no label."""
    unlabelled = list(given).count("")
    if not unlabelled:
        return tuple(given), ()
    note = f"{unlabelled} of {len(given)} landmarks have no label; all are numbered instead"
    return numbered_labels(len(given)), (note,)


def to_lps(points: Array, frame: str) -> tuple[Array, tuple[str, ...]]:
    """Return points of a frame, LPS or RAS, in LPS, and a note if they were converted."""
    return (points * RAS_TO_LPS, (RAS_CONVERTED,)) if frame == "RAS" else (points, ())


def as_doubles(array: npt.NDArray[np.generic]) -> Array:
    """Convert to double precision; bytes that are no number become NaN silently, and are refused later."""
    with np.errstate(invalid="ignore"):
        return array.astype(np.float64)


def is_partly_seen(points: Array) -> bool:  # (..., d)
    """Whether a point is infinite, or NaN in some coordinates only."""
    unseen = np.isnan(points)
    return bool(np.isinf(points).any() or (unseen.any(axis=-1) != unseen.all(axis=-1)).any())


def require_complete_points(points: Array, what: str, source: str) -> None:  # (..., d)
    """Every point is seen, with finite coordinates, or not seen, with all coordinates NaN."""
    if is_partly_seen(points):
        found = f"{what} has points with infinite coordinates, or with NaN in some coordinates only"
        raise FormatError(source, None, found, "expected all coordinates of a point to be NaN, or none")


def mark_unseen(points: Array, missing: Missing) -> tuple[Array, int]:  # (..., d)
    """Return the points with NaN where all coordinates equal the code ``missing``, and how many these are.

    One coordinate alone may well equal it: 0 is a common sign for "not seen" and a valid coordinate.
    """
    if missing is None:
        return points, 0
    codes, dimension = np.atleast_1d(np.asarray(missing, dtype=np.float64)), points.shape[-1]
    if codes.shape not in ((1,), (dimension,)):
        raise InvalidSetting(
            f"missing={missing_text(missing)} has {codes.size} numbers, and points have {dimension} coordinates; give "
            "one number for all axes, or one per axis"
        )
    unseen = (points == codes).all(axis=-1)
    return np.where(unseen[..., None], np.nan, points), int(unseen.sum())


def missing_text(missing: Missing) -> str:
    """Return a code of missing points as it is given on the command line."""
    return ",".join(f"{one:.17g}" for one in np.atleast_1d(np.asarray(missing, dtype=np.float64)).tolist())


def require_unique(source: str, texts: Sequence[str], lines: Sequence[int] | None, what: str) -> None:
    """Refuse a name that occurs twice, at the line of its second occurrence; ``lines`` is None for binary formats."""
    first: dict[str, int | None] = {}
    for i, text in enumerate(texts):
        line = None if lines is None else lines[i]
        if text in first:
            before = "" if line is None else f", first in line {first[text]}"
            raise FormatError(source, line, f"{what} {short_repr(text)} occurs twice{before}", "give each its own name")
        first[text] = line

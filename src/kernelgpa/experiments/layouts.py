"""Data in a folder, as the authors' archives are laid out or as anybody has them.

CorrespondenceMatrix.txt, points0.csv, ...    a row a landmark: its row in each of the point files, 0 where unseen
PointClouds/*.txt                             one cloud a file, a row a point; all points correspond
X.txt of the toy rug                          three rows a frame
deformed_7.off, index_7.txt                   a mesh a cloud and, from 1, the vertices that it saw
Corresp.mat, *.mat with LostDataCell          points in images; clouds and points to test on
*.npz with vertices (n, v, 3)                 surfaces in correspondence
any other format of the library               clouds in one file, or one cloud a file in a folder of their own
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ..errors import FormatError, KernelGPAError
from ..io.archive import read_arrays
from ..io.files import FORMATS, read_clouds, suffix_of
from ..io.mat import hidden_points
from ..io.text import Lines, decode_utf8
from ..observations.arrays import finite_rows
from ..typing import Array

T = TypeVar("T")
LARGEST = 2e9  # bytes of a file
RUG_FRAMES, RUG_STEP, RUG_SCALE = 600, 3, 100.0  # as the authors use it: every third of the first frames, times 100


@dataclass(frozen=True)
class Known:
    """One of the authors' data sets."""

    title: str
    file: str  # that tells it, as its archive lays it out
    pattern: str  # of paths, in lower case
    archive: str


WHERE = "igt.ip.uca.fr/~ab/code_and_datasets"
PAPER = "doi 10.1177/02783649231195380"
KNOWN = (
    Known("handbag", "handBag/correspData2D/GT/Corresp.mat", r"hand_?bag.*/corresp\.mat", f"handbag_v1p0 at {WHERE}"),
    Known(
        "pillow cover",
        "pillowCover/correspData2D/GT/Corresp.mat",
        r"pillow_?cover.*/corresp\.mat",
        f"pillow_cover_v1p0 at {WHERE}",
    ),
    Known("toy rug", "stereoToyRug/X.txt", r"toy_?rug.*/x\.txt", f"stereo_toy_rug_v1p0 at {WHERE}"),
    Known(
        "semi-synthetic liver",
        "SemisyntheticLiver/PointClouds/*.txt",
        r"semi_?synthetic_?liver.*/pointclouds",
        f"semisynthetic_liver_v1p0 at {WHERE}",
    ),
    Known("TOPACS", "topacs6_v1p0/CorrespondenceMatrix.txt", r"correspondencematrix\.txt", f"topacs6_v1p0 at {WHERE}"),
    Known("LiTS", "LiTS/landmarks/*.fcsv", r"lits.*\.fcsv", f"lits_landmarks_v1p0 at {WHERE}"),
    Known("liver of the paper", "liver_raw_dataset.mat", r"liver_raw_dataset\.mat", PAPER),
    Known("facial expressions", "face_raw_dataset.mat", r"face_raw_dataset\.mat", PAPER),
)


@dataclass(frozen=True)
class Data:
    """Clouds of one data set."""

    name: str
    points: Array  # (n, m, d)
    test: Array | None = None  # (n, k, d), points that are not registered but scored
    surfaces: bool = False  # the test points are surfaces, of which the landmarks are a part


@dataclass
class Folder:
    """What a folder holds, and what in it could not be read."""

    data: list[Data] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)  # of what was read

    def missing(self) -> list[Known]:
        """The authors' data sets that are not here."""
        text = [path.lower() for path in self.paths]
        return [one for one in KNOWN if not any(re.search(one.pattern, path) for path in text)]

    def add(self, path: Path, data: Data) -> None:
        taken = {one.name for one in self.data}
        name = next(name for name in _names(data.name) if name not in taken)
        self.data.append(replace(data, name=name))
        self.paths.append(path.as_posix())


def _names(name: str) -> Iterator[str]:
    """The name as it may stand in the name of a file, apart from those of the experiments; then the same counted."""
    name = "data-" + re.sub(r"[^\w.-]+", "_", name)[:60]
    yield name
    yield from (f"{name}-{k}" for k in range(2, 10**6))


def data_in(folder: Path) -> Folder:
    """All data sets under a folder, in the order of their paths.  Links to folders are not followed."""
    found = Folder()
    for directory, below, files in os.walk(folder):
        below.sort()
        _add_directory(found, Path(directory), sorted(files))
    return found


def _add_directory(found: Folder, directory: Path, files: list[str]) -> None:
    files = _add_plain_text(found, directory, files)
    alone: dict[str, list[Path]] = defaultdict(list)
    for path in (directory / name for name in files):
        try:
            suffix = suffix_of(path)
        except FormatError:  # pictures, read-me files
            continue
        if not path.is_file():
            continue
        if FORMATS[suffix].holds.several and suffix not in (".mrk.json", ".json"):
            _add(found, path, _of_file, path)
        else:
            alone[suffix].append(path)
    for suffix, paths in alone.items():
        _add(found, directory / f"*{suffix}", _of_files, paths)


def _add_plain_text(found: Folder, directory: Path, files: list[str]) -> list[str]:
    """The files that are left."""
    if "CorrespondenceMatrix.txt" in files:
        found.add(directory / "CorrespondenceMatrix.txt", _corresponding(directory))
        return [name for name in files if not re.fullmatch(r"CorrespondenceMatrix\.txt|points\d+\.csv", name)]
    if directory.name.lower() == "pointclouds":
        found.add(directory, _clouds_of_text(directory, [name for name in files if name.endswith(".txt")]))
        return [name for name in files if not name.endswith(".txt")]
    if "X.txt" in files and re.search("toy_?rug", directory.as_posix().lower()):
        found.add(directory / "X.txt", _rug(directory / "X.txt"))
        return [name for name in files if name != "X.txt"]
    return [name for name in files if not re.fullmatch(r"index_\d+\.txt", name)]


def _add(found: Folder, path: Path, read: Callable[[T], Data], given: T) -> None:
    """What cannot be read may be something else than clouds; it is told, not fatal."""
    try:
        if path.exists() and path.stat().st_size > LARGEST:
            raise FormatError(path, None, f"it has {path.stat().st_size / 1e9:.0f} GB", "expected less than 2")
        found.add(path, read(given))
    except (KernelGPAError, OSError) as problem:
        told = str(problem)
        found.unread.append(told if path.name in told else f"{path.name}: {told}")


def matrix_in(path: Path, columns: int | None = None) -> Array:
    """Numbers of a text, separated by commas or blanks; of each row all, or the first ``columns``."""
    try:
        lines = Lines(str(path), decode_utf8(path.read_bytes(), str(path)))
    except FileNotFoundError:
        raise FormatError(path, None, "there is no such file", f"unpack the archive again ({WHERE})") from None
    rows: list[list[float]] = []
    while lines.has_more():
        fields = lines.next("numbers").replace(",", " ").split()[:columns]
        if not fields:
            continue
        rows.append([lines.parse_number(one) for one in fields])
        if len(rows[-1]) != len(rows[0]) or len(rows[0]) < (columns or 1):
            raise lines.error(f"found {len(rows[-1])} numbers", f"expected {columns or len(rows[0])}")
    if not rows:
        raise FormatError(path, None, "the file is empty", "expected rows of numbers")
    return np.array(rows)


def _corresponding(directory: Path) -> Data:
    """Landmarks of point files: column t of the matrix names the row, from 1, in the file of cloud t."""
    path = directory / "CorrespondenceMatrix.txt"
    matrix = matrix_in(path)
    clouds = [matrix_in(directory / f"points{t}.csv", columns=3) for t in range(matrix.shape[1])]
    points = np.full((len(clouds), len(matrix), 3), np.nan)
    for t, cloud in enumerate(clouds):
        rows = matrix[:, t]
        wrong = np.flatnonzero((rows != np.floor(rows)) | (rows < 0) | (rows > len(cloud)))
        if len(wrong):
            found = f"landmark {wrong[0] + 1} is row {rows[wrong[0]]:g} of points{t}.csv, which has {len(cloud)}"
            raise FormatError(path, None, found, "expected 1 to that, or 0 where it is unseen")
        seen = rows > 0
        points[t, seen] = cloud[rows[seen].astype(np.intp) - 1]
    return Data(directory.name, points)


def _clouds_of_text(directory: Path, names: list[str]) -> Data:
    clouds = [matrix_in(directory / name) for name in sorted(names, key=_number)]
    sizes = {cloud.shape for cloud in clouds}
    if len(sizes) != 1 or clouds[0].shape[1] not in (2, 3):
        raise FormatError(directory, None, f"the files hold {len(sizes)} different shapes", "expected m x 3 each")
    return Data(directory.parent.name, np.stack(clouds))


def _rug(path: Path) -> Data:
    matrix = matrix_in(path)
    if len(matrix) % 3:
        raise FormatError(path, None, f"{len(matrix)} rows", "expected three for each frame")
    frames = matrix.reshape(-1, 3, matrix.shape[1]).transpose(0, 2, 1)
    return Data(path.parent.name, RUG_SCALE * frames[:RUG_FRAMES:RUG_STEP])


def _number(name: str) -> tuple[int, str]:
    digits = re.findall(r"\d+", name)
    return (int(digits[-1]), name) if digits else (-1, name)


def _of_file(path: Path) -> Data:
    """Clouds of one file, with the points to test on that it may hold."""
    suffix = suffix_of(path)
    if suffix == ".npz":
        surfaces = read_arrays(path.read_bytes(), str(path), ["vertices"]).get("vertices")
        if surfaces is not None:
            return Data(path.stem, np.empty(0), _surfaces(surfaces, path), surfaces=True)
    read = read_clouds([path])
    points = read.observations.points
    if (read.weights[~np.isnan(read.points[:, :, 0])] != 1).any():
        raise FormatError(path, None, "it has weights, which the paper's methods do not know", "leave them out")
    test = hidden_points(path.read_bytes(), str(path)) if suffix == ".mat" else None
    if test is None:
        return Data(path.stem, points)
    if len(test) != len(points) or len({one.shape for one in test}) != 1:
        raise FormatError(path, None, "LostDataCell does not fit DataCell", "expected a d x k matrix for each cloud")
    return Data(path.stem, points, np.stack(test))


def _surfaces(found: np.ndarray[Any, np.dtype[Any]], path: Path) -> Array:
    """Surfaces in correspondence, complete and finite."""
    shape = " x ".join(map(str, found.shape))
    if found.dtype.kind not in "fiu" or found.ndim != 3 or len(found) < 2 or found.shape[2] not in (2, 3):
        raise FormatError(path, None, f"vertices is {shape} of {found.dtype}", "expected n x v x 3 numbers, n >= 2")
    if not np.isfinite(found).all():
        raise FormatError(path, None, "vertices has values that are no numbers", "expected complete surfaces")
    return found.astype(np.float64)


def _of_files(paths: list[Path]) -> Data:
    """One cloud a file, ``index_7.txt`` beside ``deformed_7.off`` saying what was seen."""
    paths = sorted(paths, key=lambda path: _number(path.name))
    points = read_clouds(paths).observations.points.copy()
    for t, path in enumerate(paths):
        index = path.parent / f"index_{_number(path.name)[0]}.txt"
        if index.is_file():
            points[t, ~_seen(index, len(points[t]))] = np.nan
    if len(points) < 2:
        raise FormatError(paths[0], None, "it holds one cloud", "expected two or more")
    return Data(paths[0].parent.name, points)


def _seen(path: Path, count: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    rows = matrix_in(path).ravel()
    if not np.isin(rows, np.arange(1, count + 1)).all():
        raise FormatError(path, None, "it names points that the cloud does not have", f"expected 1 to {count}")
    return np.isin(np.arange(1, count + 1), rows)


def seen_by(points: Array) -> np.ndarray[tuple[int], np.dtype[np.intp]]:  # (n, m, d) -> (m,)
    """How many clouds see each landmark."""
    return np.sum([finite_rows(cloud) for cloud in points], axis=0).astype(np.intp)

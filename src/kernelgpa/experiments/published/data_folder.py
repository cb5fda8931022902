"""Data sets in a folder, as the authors' archives are laid out or in any format that the library reads.

CorrespondenceMatrix.txt, points0.csv, ...    one row per landmark: its row in each point file, 0 if unseen
PointClouds/*.txt                             one file per cloud, one row per point; all points correspond
X.txt of the toy rug                          three rows per frame
deformed_7.off, index_7.txt                   one mesh per cloud, and the vertices that it saw, counted from 1
Corresp.mat, *.mat with LostDataCell          points in images; clouds with test points
*.npz with vertices (n, v, 3)                 surfaces in correspondence
any other format of the library               all clouds in one file, or one file per cloud in a folder of their own
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

from ...errors import FormatError, KernelGPAError
from ...io.archive import read_arrays
from ...io.files import FORMATS, read_clouds, suffix_of
from ...io.mat import hidden_points
from ...io.text import Lines, decode_utf8
from ...observations.arrays import finite_rows
from ...typing import Array, BoolArray, IndexArray

T = TypeVar("T")
LARGEST_FILE = 2e9  # bytes
# as the authors use the toy rug: every third of the first frames, times 100
RUG_FRAMES, RUG_STEP, RUG_SCALE = 600, 3, 100.0


@dataclass(frozen=True)
class PublishedData:
    """One of the authors' data sets."""

    title: str
    file: str  # by which it is recognised, as its archive is laid out
    pattern: str  # of its path, in lower case
    archive: str


ARCHIVES = "igt.ip.uca.fr/~ab/code_and_datasets"
PAPER_DOI = "doi 10.1177/02783649231195380"
PUBLISHED = (
    PublishedData(
        "handbag", "handBag/correspData2D/GT/Corresp.mat", r"hand_?bag.*/corresp\.mat", f"handbag_v1p0 at {ARCHIVES}"
    ),
    PublishedData(
        "pillow cover",
        "pillowCover/correspData2D/GT/Corresp.mat",
        r"pillow_?cover.*/corresp\.mat",
        f"pillow_cover_v1p0 at {ARCHIVES}",
    ),
    PublishedData("toy rug", "stereoToyRug/X.txt", r"toy_?rug.*/x\.txt", f"stereo_toy_rug_v1p0 at {ARCHIVES}"),
    PublishedData(
        "semi-synthetic liver",
        "SemisyntheticLiver/PointClouds/*.txt",
        r"semi_?synthetic_?liver.*/pointclouds",
        f"semisynthetic_liver_v1p0 at {ARCHIVES}",
    ),
    PublishedData(
        "TOPACS", "topacs6_v1p0/CorrespondenceMatrix.txt", r"correspondencematrix\.txt", f"topacs6_v1p0 at {ARCHIVES}"
    ),
    PublishedData("LiTS", "LiTS/landmarks/*.fcsv", r"lits.*\.fcsv", f"lits_landmarks_v1p0 at {ARCHIVES}"),
    PublishedData("liver of the paper", "liver_raw_dataset.mat", r"liver_raw_dataset\.mat", PAPER_DOI),
    PublishedData("facial expressions", "face_raw_dataset.mat", r"face_raw_dataset\.mat", PAPER_DOI),
)


@dataclass(frozen=True)
class DataSet:
    """The clouds of one data set."""

    name: str
    points: Array  # (n, m, d)
    test: Array | None = None  # (n, k, d), points that are scored but not registered
    surfaces: bool = False  # whether the test points are surfaces that contain the landmarks


@dataclass
class DataFolder:
    """The data sets of a folder, and the files that could not be read."""

    data: list[DataSet] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)  # of the files that were read

    def missing(self) -> list[PublishedData]:
        """Return the authors' data sets that are not in this folder."""
        paths = [path.lower() for path in self.paths]
        return [one for one in PUBLISHED if not any(re.search(one.pattern, path) for path in paths)]

    def add(self, path: Path, data: DataSet) -> None:
        used = {one.name for one in self.data}
        name = next(name for name in _candidate_names(data.name) if name not in used)
        self.data.append(replace(data, name=name))
        self.paths.append(path.as_posix())


def _candidate_names(name: str) -> Iterator[str]:
    """Yield names that are valid in file names and differ from those of the experiments."""
    name = "data-" + re.sub(r"[^\w.-]+", "_", name)[:60]
    yield name
    yield from (f"{name}-{k}" for k in range(2, 10**6))


def read_data_folder(folder: Path) -> DataFolder:
    """Read all data sets below a folder, in the order of their paths.  Links to folders are not followed."""
    found = DataFolder()
    for directory, below, files in os.walk(folder):
        below.sort()
        _read_directory(found, Path(directory), sorted(files))
    return found


def _read_directory(found: DataFolder, directory: Path, files: list[str]) -> None:
    files = _read_plain_text(found, directory, files)
    one_per_cloud: dict[str, list[Path]] = defaultdict(list)
    for path in (directory / name for name in files):
        try:
            suffix = suffix_of(path)
        except FormatError:  # pictures, read-me files
            continue
        if not path.is_file():
            continue
        if FORMATS[suffix].holds.several and suffix not in (".mrk.json", ".json"):
            _add(found, path, _from_file, path)
        else:
            one_per_cloud[suffix].append(path)
    for suffix, paths in one_per_cloud.items():
        _add(found, directory / f"*{suffix}", _from_files, paths)


def _read_plain_text(found: DataFolder, directory: Path, files: list[str]) -> list[str]:
    """Read the authors' layouts of plain text, and return the files that do not belong to them."""
    if "CorrespondenceMatrix.txt" in files:
        found.add(directory / "CorrespondenceMatrix.txt", _from_correspondences(directory))
        return [name for name in files if not re.fullmatch(r"CorrespondenceMatrix\.txt|points\d+\.csv", name)]
    if directory.name.lower() == "pointclouds":
        found.add(directory, _from_text_files(directory, [name for name in files if name.endswith(".txt")]))
        return [name for name in files if not name.endswith(".txt")]
    if "X.txt" in files and re.search("toy_?rug", directory.as_posix().lower()):
        found.add(directory / "X.txt", _from_rug(directory / "X.txt"))
        return [name for name in files if name != "X.txt"]
    return [name for name in files if not re.fullmatch(r"index_\d+\.txt", name)]


def _add(found: DataFolder, path: Path, read: Callable[[T], DataSet], argument: T) -> None:
    """Read and add a data set; a file that cannot be read is listed, because it may hold something else than clouds."""
    try:
        if path.exists() and path.stat().st_size > LARGEST_FILE:
            raise FormatError(path, None, f"it has {path.stat().st_size / 1e9:.0f} GB", "expected less than 2 GB")
        found.add(path, read(argument))
    except (KernelGPAError, OSError) as error:
        message = str(error)
        found.unread.append(message if path.name in message else f"{path.name}: {message}")


def read_matrix(path: Path, columns: int | None = None) -> Array:
    """Read numbers separated by commas or blanks; of each row all, or the first ``columns``."""
    try:
        lines = Lines(str(path), decode_utf8(path.read_bytes(), str(path)))
    except FileNotFoundError:
        raise FormatError(path, None, "there is no such file", f"unpack the archive again ({ARCHIVES})") from None
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


def _from_correspondences(directory: Path) -> DataSet:
    """Read point files: column t of the matrix gives the row, counted from 1, in the file of cloud t."""
    path = directory / "CorrespondenceMatrix.txt"
    matrix = read_matrix(path)
    clouds = [read_matrix(directory / f"points{t}.csv", columns=3) for t in range(matrix.shape[1])]
    points = np.full((len(clouds), len(matrix), 3), np.nan)
    for t, cloud in enumerate(clouds):
        rows = matrix[:, t]
        invalid = np.flatnonzero((rows != np.floor(rows)) | (rows < 0) | (rows > len(cloud)))
        if len(invalid):
            found = f"landmark {invalid[0] + 1} is row {rows[invalid[0]]:g} of points{t}.csv, which has {len(cloud)}"
            raise FormatError(path, None, found, f"expected 1 to {len(cloud)}, or 0 if it is unseen")
        seen = rows > 0
        points[t, seen] = cloud[rows[seen].astype(np.intp) - 1]
    return DataSet(directory.name, points)


def _from_text_files(directory: Path, names: list[str]) -> DataSet:
    clouds = [read_matrix(directory / name) for name in sorted(names, key=_number)]
    shapes = {cloud.shape for cloud in clouds}
    if len(shapes) != 1 or clouds[0].shape[1] not in (2, 3):
        raise FormatError(directory, None, f"the files hold {len(shapes)} different shapes", "expected m x 3 each")
    return DataSet(directory.parent.name, np.stack(clouds))


def _from_rug(path: Path) -> DataSet:
    matrix = read_matrix(path)
    if len(matrix) % 3:
        raise FormatError(path, None, f"it has {len(matrix)} rows", "expected three for each frame")
    frames = matrix.reshape(-1, 3, matrix.shape[1]).transpose(0, 2, 1)
    return DataSet(path.parent.name, RUG_SCALE * frames[:RUG_FRAMES:RUG_STEP])


def _number(name: str) -> tuple[int, str]:
    """Return the last number of a file name, and the name: cloud10 follows cloud9."""
    digits = re.findall(r"\d+", name)
    return (int(digits[-1]), name) if digits else (-1, name)


def _from_file(path: Path) -> DataSet:
    """Read the clouds of one file, with the test points that it may hold."""
    suffix = suffix_of(path)
    if suffix == ".npz":
        surfaces = read_arrays(path.read_bytes(), str(path), ["vertices"]).get("vertices")
        if surfaces is not None:
            return DataSet(path.stem, np.empty(0), _as_surfaces(surfaces, path), surfaces=True)
    read = read_clouds([path])
    points = read.observations.points
    if (read.weights[~np.isnan(read.points[:, :, 0])] != 1).any():
        raise FormatError(path, None, "it has weights, which the paper's methods do not support", "remove them")
    test = hidden_points(path.read_bytes(), str(path)) if suffix == ".mat" else None
    if test is None:
        return DataSet(path.stem, points)
    if len(test) != len(points) or len({one.shape for one in test}) != 1:
        raise FormatError(path, None, "LostDataCell does not fit DataCell", "expected a d x k matrix for each cloud")
    return DataSet(path.stem, points, np.stack(test))


def _as_surfaces(found: np.ndarray[Any, np.dtype[Any]], path: Path) -> Array:
    """Return surfaces in correspondence, complete and finite."""
    shape = " x ".join(map(str, found.shape))
    if found.dtype.kind not in "fiu" or found.ndim != 3 or len(found) < 2 or found.shape[2] not in (2, 3):
        raise FormatError(path, None, f"vertices is {shape} of {found.dtype}", "expected n x v x 3 numbers, n >= 2")
    if not np.isfinite(found).all():
        raise FormatError(path, None, "vertices has values that are not finite", "expected complete surfaces")
    return found.astype(np.float64)


def _from_files(paths: list[Path]) -> DataSet:
    """Read one file per cloud; ``index_7.txt`` beside ``deformed_7.off`` lists the vertices that were seen."""
    paths = sorted(paths, key=lambda path: _number(path.name))
    points = read_clouds(paths).observations.points.copy()
    for t, path in enumerate(paths):
        index = path.parent / f"index_{_number(path.name)[0]}.txt"
        if index.is_file():
            points[t, ~_seen(index, len(points[t]))] = np.nan
    if len(points) < 2:
        raise FormatError(paths[0], None, "it holds one cloud", "expected two or more")
    return DataSet(paths[0].parent.name, points)


def _seen(path: Path, count: int) -> BoolArray:  # (count,)
    rows = read_matrix(path).ravel()
    if not np.isin(rows, np.arange(1, count + 1)).all():
        raise FormatError(path, None, "it names points that the cloud does not have", f"expected 1 to {count}")
    return np.isin(np.arange(1, count + 1), rows)


def view_counts(points: Array) -> IndexArray:  # (n, m, d) -> (m,)
    """Return how many clouds see each landmark."""
    return np.sum([finite_rows(cloud) for cloud in points], axis=0).astype(np.intp)

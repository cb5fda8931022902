"""The clouds of several files with one set of landmarks: which landmark of one file is which of another.

The rules are those of ``matching_rules``.  Unless one is asked for, the first that applies is used: equal labels, if
most labels of most clouds occur in another cloud (or what labels share without the specimen's name, if that matches
more); what labels share or the number at their ends, whichever matches more; the order.  The rule is reported.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import numpy as np

from .._numerics.system_memory import available_memory
from ..errors import InvalidObservations, InvalidSetting, TooLarge
from ..observations.collection import Observations
from ..observations.identifiers import in_order
from ..typing import Array, IndexArray, Name
from .duplicates import duplicate_notes, placeholder_notes
from .landmark_file import RAS_CONVERTED, LabelledCloud, LandmarkFile, ReadOptions
from .matching_rules import Matching, matchings
from .merging import merge_specimens
from .misspelt import misspelt_notes
from .text import short_repr

MOST_OF_MEMORY = 0.5  # share of the free memory that the arrays may take
MOST_UNMATCHED = 0.05  # share of the landmarks that occur in one cloud only, above which a remedy is named
RULES = ("label", "suffix", "number", "order")


@dataclass(frozen=True)
class MatchedClouds:
    """The clouds of some files in one frame, with what was done to them.

    Attributes
    ----------
    points : array (n, m, d)
        Positions of the landmarks, NaN if unseen.
    weights : array (n, m)
        Weights of the observations.
    names, landmarks : lists of lengths n and m
        Names of the clouds and of the landmarks.
    observations : Observations
        The same, checked and ready to be registered.
    rule : str
        The rule by which landmarks were matched.
    notes : tuple of str
        What was merged, converted, ignored or looks wrong.
    remedy : str or None
        What to do if many landmarks occur in one cloud only; None if few do.
    frame, unit : str or None
        The coordinate frame and the unit, if the files state them.
    faces : int array (f, 3) or None
        Triangles between landmarks, if the files are meshes.
    links : int array (e, 2) or None
        Lines between landmarks, if a file has a wireframe.
    times : tuple of n float or None
        Times of frames in seconds.
    kind : str
        What the files call a cloud: "specimen", "frame" or "cloud".
    candidates : tuple of Matching
        What each rule would give.
    origins : tuple of pairs (int, int array (k,))
        For each cloud as it was read the index of its cloud here, and the landmarks of its points.
    """

    points: Array
    weights: Array
    names: list[str]
    landmarks: list[Name]
    rule: str
    notes: tuple[str, ...]
    frame: str | None = None
    unit: str | None = None
    faces: IndexArray | None = None
    times: tuple[float, ...] | None = None
    kind: str = "cloud"
    candidates: tuple[Matching, ...] = ()
    links: IndexArray | None = None
    origins: tuple[tuple[int, IndexArray], ...] = ()

    @cached_property
    def observations(self) -> Observations:
        return Observations.from_array(self.points, self.weights, clouds=self.names, landmarks=self.landmarks)

    @property
    def remedy(self) -> str | None:
        return _remedy(self.rule, self.candidates)


def match_clouds(
    files: Sequence[tuple[str, LandmarkFile]],
    memory: float | None = None,
    options: ReadOptions | None = None,
    notes: Sequence[str] = (),
) -> MatchedClouds:
    """Match the landmarks of files, given as (path, file).

    ``memory`` : free memory in bytes; None asks the system.
    ``options`` : the rule of matching, the pattern of labels, and whether files of one specimen are merged.
    """
    options = options or ReadOptions()
    if not any(file.clouds for _, file in files):
        raise InvalidObservations("the files contain no clouds; give at least one")
    given = files
    files, stems, specimens, merge_notes = merge_specimens(files, options.merge, [_stem(source) for source, _ in files])
    clouds = [(source, one) for source, file in files for one in file.clouds]
    names, name_notes = _cloud_names(clouds)
    candidates = _candidates([file for _, file in files], stems, options.label_pattern)
    chosen = _chosen(candidates, options)
    _require_same_dimension(clouds)
    landmarks, columns = _landmarks(chosen)
    points, weights = _arrays([one for _, one in clouds], columns, len(landmarks), memory)
    faces, face_notes = _common_faces([file for _, file in files], chosen.rule)
    turned = [RAS_CONVERTED in file.notes for _, file in files for _ in file.clouds]
    found_notes = [*notes, *merge_notes, *name_notes, *_condensed_notes(files), *_frame_notes(files), *face_notes]
    if chosen.rule in ("label", "suffix"):
        found_notes += misspelt_notes(landmarks, columns, names)
        found_notes += _unshared_notes([file for _, file in files], columns, len(landmarks))
    return MatchedClouds(
        points,
        weights,
        names,
        landmarks,
        chosen.rule,
        (*found_notes, *duplicate_notes(points, names), *placeholder_notes(points, names, landmarks, turned)),
        next((file.frame for _, file in files if file.frame), None),
        _unit(files),
        faces,
        _times([one for _, one in clouds]),
        common_kind([file for _, file in files]),
        tuple(candidates.values()),
        next((file.links for _, file in files if file.links is not None), None) if chosen.rule == "order" else None,
        _origins([file for _, file in given], specimens, columns),
    )


def _candidates(files: Sequence[LandmarkFile], stems: Sequence[str], pattern: str | None) -> dict[str, Matching]:
    """Return what every rule gives for the clouds of files whose names are the stems."""
    return matchings(
        [one for file in files for one in file.clouds],
        [stem for stem, file in zip(stems, files, strict=True) for _ in file.clouds],
        [file.labelled for file in files for _ in file.clouds],
        pattern,
    )


def _landmarks(matching: Matching) -> tuple[list[Name], tuple[IndexArray, ...]]:
    """Return all landmarks, and for each cloud those of its points."""
    keys = matching.keys or []
    landmarks: list[Name] = list(dict.fromkeys(key for own in keys for key in own))
    if matching.rule in ("number", "order"):
        landmarks = list(in_order([landmarks]))
    position = {key: j for j, key in enumerate(landmarks)}
    return landmarks, tuple(np.array([position[key] for key in own], dtype=np.intp) for own in keys)


def _origins(
    files: Sequence[LandmarkFile], specimens: Sequence[int] | None, columns: Sequence[IndexArray]
) -> tuple[tuple[int, IndexArray], ...]:
    """Return for each cloud of the files the cloud that it became, or a part of which it became, and its landmarks.

    ``specimens`` : the cloud of each file if files of one cloud each were merged, in the order of the files.
    """
    if specimens is None:
        return tuple(enumerate(columns))
    used: Counter[int] = Counter()
    origins = []
    for file, t in zip(files, specimens, strict=True):
        count = len(file.clouds[0].labels)
        origins.append((t, columns[t][used[t] : used[t] + count]))
        used[t] += count
    return tuple(origins)


def _stem(source: str) -> str:
    """Return the name of a file without its folder and its endings, ``.mrk.json`` being one ending."""
    name = Path(source).name
    return name[: -len(".mrk.json")] if name.lower().endswith(".mrk.json") else Path(name).stem


def _chosen(candidates: dict[str, Matching], options: ReadOptions) -> Matching:
    """Return the rule that was asked for, or the first that applies."""
    if options.match is not None and options.match not in RULES:
        raise InvalidSetting(f"match is {options.match!r}; expected one of {', '.join(RULES)}")
    if options.match is not None or options.label_pattern is not None:
        asked = candidates[options.match or "label"]
        if asked.keys is None:
            raise InvalidObservations(
                f"landmarks cannot be matched by {asked.rule}, because {asked.problem}; omit match={asked.rule}"
            )
        return asked
    label, suffix, number, order = (candidates[rule] for rule in RULES)
    if label.mostly_shared:
        return suffix if suffix.in_one_cloud < label.in_one_cloud else label
    without_names = [one for one in (suffix, number) if one.mostly_shared]
    if without_names:
        return min(without_names, key=lambda one: one.landmarks)  # fewer landmarks: more are matched
    if order.keys is not None:
        return order
    raise InvalidObservations(
        "landmarks cannot be matched by labels, by what labels share or by the numbers at their ends, nor by order, "
        f"because {order.problem}; use the same labels in all files, or choose with match= and label_pattern="
    )


def _remedy(rule: str, candidates: Sequence[Matching]) -> str | None:
    used = next((one for one in candidates if one.rule == rule), None)
    if used is None or used.in_one_cloud <= MOST_UNMATCHED * used.landmarks or len(used.keys or []) < 2:
        return None
    better = min((one for one in candidates if one.keys is not None), key=lambda one: one.in_one_cloud)
    found = f"{used.in_one_cloud} of {used.landmarks} landmarks occur in one cloud only"
    if better.in_one_cloud < used.in_one_cloud:
        return f"{found}; match={better.rule} leaves {better.in_one_cloud}"
    return f"{found}; check the labels, or give label_pattern= with the part that the files share"


def _unshared_notes(files: Sequence[LandmarkFile], columns: Sequence[IndexArray], m: int) -> list[str]:
    """Return a note if files of several clouds each share few landmarks with other files.

    Two recordings whose labels contain the name of the subject are an example: each label occurs in all frames of one.
    """
    if len(files) < 2 or all(len(file.clouds) < 2 for file in files):
        return []  # otherwise the remedy says so
    firsts = np.cumsum([0, *(len(file.clouds) for file in files)])
    counts = np.zeros(m, dtype=int)  # files in which each landmark occurs
    for first, last in pairwise(firsts):
        if first < last:
            counts[np.unique(np.concatenate(columns[first:last]))] += 1
    alone = int((counts == 1).sum())
    if alone <= MOST_UNMATCHED * m:
        return []
    found = f"{alone} of {m} landmarks occur in one file only"
    return [f"{found}; check the labels, or give label_pattern= with the part that the files share"]


def _times(clouds: Sequence[LabelledCloud]) -> tuple[float, ...] | None:
    times = [one.time for one in clouds]
    known = tuple(time for time in times if time is not None)
    return known if len(known) == len(times) else None


def common_kind(files: Sequence[LandmarkFile]) -> str:
    """Return what all files call a cloud; "cloud" if they differ."""
    kinds = {file.kind for file in files}
    return kinds.pop() if len(kinds) == 1 else "cloud"


def _require_same_dimension(clouds: Sequence[tuple[str, LabelledCloud]]) -> None:
    first = clouds[0][1]
    for source, one in clouds:
        if one.points.shape[1] != first.points.shape[1]:
            raise InvalidObservations(
                f"{source}: {one.name!r} is in {one.points.shape[1]}D and {first.name!r} in {first.points.shape[1]}D; "
                "register clouds of one dimension"
            )


def _arrays(
    clouds: Sequence[LabelledCloud],
    columns: Sequence[IndexArray],
    m: int,
    memory: float | None,
) -> tuple[Array, Array]:
    n, d = len(clouds), clouds[0].points.shape[1]
    required, free = 8 * n * m * (d + 1), available_memory() if memory is None else memory
    if required > MOST_OF_MEMORY * free:
        raise TooLarge(
            f"{n} clouds of {m} landmarks take {required / 1e9:.1f} GB of {free / 1e9:.1f} GB free; check that "
            "landmarks have the same labels in all clouds"
        )
    points, weights = np.full((n, m, d), np.nan), np.ones((n, m))
    for t, (one, own) in enumerate(zip(clouds, columns, strict=True)):
        points[t, own] = one.points
        if one.weights is not None:
            weights[t, own] = one.weights
    return points, weights


def _cloud_names(clouds: Sequence[tuple[str, LabelledCloud]]) -> tuple[list[str], list[str]]:
    """Return the names as the files have them; of equal ones, that of a file's only cloud is the path of the file."""
    names = [one.name for _, one in clouds]
    if len(set(names)) == len(names):
        return names, []
    duplicates = {name for name, count in Counter(names).items() if count > 1}
    names = [_with_file(source, one.name) if one.name in duplicates else one.name for source, one in clouds]
    again = [name for name, count in Counter(names).items() if count > 1]
    if again:
        raise InvalidObservations(f"cloud {again[0]!r} occurs more than once; give each file once")
    found = "1 cloud name occurs" if len(duplicates) == 1 else f"{len(duplicates)} cloud names occur"
    example = next(new for new, (_, one) in zip(names, clouds, strict=True) if one.name in duplicates)
    return names, [f"{found} in several files; the names now contain the path of the file, such as {example!r}"]


def _with_file(source: str, name: str) -> str:
    """Return the name of a cloud with its file; the path without its ending if the file has the same name."""
    return str(Path(source).with_name(name)) if name == _stem(source) else f"{source}:{name}"


def _frame_notes(files: Sequence[tuple[str, LandmarkFile]]) -> list[str]:
    unknown = sum(file.frame is None for _, file in files)
    if 0 < unknown < len(files):
        return [f"{unknown} files do not state their frame; it is assumed to be LPS, as in the others"]
    return []


def _unit(files: Sequence[tuple[str, LandmarkFile]]) -> str | None:
    units = {file.unit for _, file in files if file.unit}
    if len(units) > 1:
        raise InvalidObservations(f"the files are in different units, {', '.join(sorted(units))}; convert them to one")
    return units.pop() if units else None


def _condensed_notes(files: Sequence[tuple[str, LandmarkFile]]) -> list[str]:
    """Return the notes of all files; a note that several files share once, with their number."""
    sources: dict[str, list[str]] = {}
    for source, file in files:
        for note in file.notes:
            sources.setdefault(note, []).append(source)
    return [
        f"{short_repr(Path(own[0]).name)}: {note}" if len(own) == 1 else f"each of {len(own)} files: {note}"
        for note, own in sources.items()
    ]


def _common_faces(files: Sequence[LandmarkFile], rule: str) -> tuple[IndexArray | None, list[str]]:
    """Return the faces that all meshes share; None if they differ, because then vertices may not correspond."""
    meshes = [one.faces for one in files if one.faces is not None]
    if any(not np.array_equal(one, meshes[0]) for one in meshes):
        return None, ["the meshes have different triangles; check that their vertices correspond by their order"]
    return (meshes[0] if meshes and rule == "order" else None), []

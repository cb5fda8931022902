"""Several files of one specimen, such as manual landmarks and a patch of semi-landmarks, become one cloud.

The name of a file is divided at its last separator into the specimen and a kind: ``gor7_LM.mrk.json`` and
``gor7_patch.mrk.json`` are the kinds LM and patch of gor7.  Unless ``merge`` is True, files are merged only if this
explains them all: at least two specimens, all kinds for most of them, and labels that differ between the kinds.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from ..errors import InvalidObservations, InvalidSetting
from .landmark_file import LabelledCloud, LandmarkFile

SEPARATOR = re.compile(r"[_\- .]")

Source = tuple[str, LandmarkFile]
Specimens = dict[str, dict[str, Source]]  # name -> kind -> file


def merge_specimens(
    files: Sequence[Source], merge: bool | None, stems: Sequence[str]
) -> tuple[list[Source], list[str], list[int] | None, list[str]]:
    """Return the files with those of one specimen merged, their stems, the specimen of each file, and notes.

    The specimens are None if no files were merged.

    ``merge`` : None merges if the names and the labels leave no doubt; True merges what has the same beginning.
    """
    groups = _groups(files, stems) if merge is not False else None
    if groups is None or (merge is None and not _leaves_no_doubt(groups)):
        if merge:
            raise InvalidSetting(
                "merge= finds no files of one specimen: no names differ only after the last _, -, space or dot, or a "
                "file holds several clouds; rename the files, such as gor7_landmarks and gor7_patch"
            )
        return list(files), list(stems), None, []
    merged = [(_renamed(name, kinds) if len(kinds) == 1 else _merged(name, kinds)) for name, kinds in groups.items()]
    kinds = ", ".join(dict.fromkeys(kind for own in groups.values() for kind in own))
    note = f"{len(files)} files are merged into {len(groups)} specimens by the beginning of their names ({kinds})"
    specimens = {source: t for t, own in enumerate(groups.values()) for source, _ in own.values()}
    return merged, list(groups), [specimens[source] for source, _ in files], [note]


def _groups(files: Sequence[Source], stems: Sequence[str]) -> Specimens | None:
    """Return the files by specimen and kind; None if no two belong together, or a file holds several clouds."""
    if any(len(file.clouds) != 1 for _, file in files):
        return None
    groups: Specimens = {}
    for source, stem in zip(files, stems, strict=True):
        found = list(SEPARATOR.finditer(stem))
        name, kind = (stem[: found[-1].start()], stem[found[-1].end() :]) if found else (stem, "")
        if kind in groups.setdefault(name, {}):
            return None  # in two folders, perhaps
        groups[name][kind] = source
    return groups if any(len(kinds) > 1 for kinds in groups.values()) else None


def _leaves_no_doubt(groups: Specimens) -> bool:
    kinds = {kind for own in groups.values() for kind in own}
    complete = sum(len(own) == len(kinds) for own in groups.values())  # a specimen may lack one
    if len(groups) < 2 or complete < 2 or complete < len(groups) / 2:
        return False
    return all(_labels_differ(list(own.values())) for own in groups.values())


def _labels_differ(files: Sequence[Source]) -> bool:
    if not all(file.labelled for _, file in files):
        return False
    counts = Counter(label for _, file in files for label in file.clouds[0].labels)
    return max(counts.values(), default=0) <= 1


def _renamed(name: str, kinds: dict[str, Source]) -> Source:
    """Return the only file of a specimen, with the name that the specimens have whose files are merged."""
    ((source, file),) = kinds.values()
    return source, replace(file, clouds=(replace(file.clouds[0], name=name),))


def _merged(name: str, kinds: dict[str, Source]) -> Source:
    """Return one file with the landmarks of all kinds; labels that occur in several kinds are prefixed with theirs."""
    files = [file for _, file in kinds.values()]
    parts = [file.clouds[0] for file in files]
    if len({one.points.shape[1] for one in parts}) > 1:
        raise InvalidObservations(f"the files of {name!r} have different dimensions; merge files of one dimension")
    if len({file.unit for file in files if file.unit}) > 1:
        raise InvalidObservations(f"the files of {name!r} are in different units; convert them to one")
    counts = Counter(label for one in parts for label in one.labels)
    labels = tuple(
        label if counts[label] == 1 else f"{kind}:{label}"
        for kind, one in zip(kinds, parts, strict=True)
        for label in one.labels
    )
    weights = None
    if any(one.weights is not None for one in parts):
        weights = np.concatenate([np.ones(len(one.labels)) if one.weights is None else one.weights for one in parts])
    cloud = LabelledCloud(name, np.vstack([one.points for one in parts]), labels, weights)
    first = next((file for file in files if file.frame), files[0])
    notes = tuple(dict.fromkeys(note for file in files for note in file.notes))
    unit = next((file.unit for file in files if file.unit), None)
    source = str(Path(next(iter(kinds.values()))[0]).parent / name)
    return source, replace(first, clouds=(cloud,), labelled=True, faces=None, notes=notes, unit=unit)

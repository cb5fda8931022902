"""Labels that differ by case, spaces, signs, zeros or exchanged letters only, and that no cloud has both of."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from ..typing import IndexArray, Name
from .text import MOST_NAMED

DIGITS = re.compile(r"[0-9]+")


def misspelt_notes(
    landmarks: Sequence[Name],
    columns: Sequence[IndexArray],  # for each cloud, its landmarks
    names: Sequence[str],
) -> list[str]:
    """Return a note if labels look like misspelt ones: without it, one landmark silently becomes two."""
    count = np.bincount(np.concatenate(columns), minlength=len(landmarks))
    alike: dict[tuple[str, tuple[int, ...]], list[int]] = {}
    for j, label in enumerate(landmarks):
        alike.setdefault(_spelling(str(label)), []).append(j)
    groups = [sorted(group, key=lambda j: -count[j]) for key, group in alike.items() if any(key) and len(group) > 1]
    usual = {rare: first for first, *others in groups for rare in others}
    if not usual:
        return []
    cloud_of: dict[int, int] = {}  # the first with this label
    for t, own in enumerate(columns):
        present = set(own.tolist())
        for rare in present & usual.keys():
            cloud_of.setdefault(rare, t)
            if usual[rare] in present:  # two landmarks
                del usual[rare]
    found = [
        f"{landmarks[j]!r} of {f'{count[j]} clouds' if count[j] > 1 else repr(names[cloud_of[j]])} "
        f"for {landmarks[first]!r}"
        for j, first in usual.items()
    ]
    if not found:
        return []
    more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
    shown = ", ".join(found[:MOST_NAMED]) + more
    return [f"labels that may be misspelt: {shown}; correct them if these are the same landmarks"]


def _spelling(label: str) -> tuple[str, tuple[int, ...]]:
    """Return what misspelt labels have in common: their letters in any order, and their numbers."""
    letters = sorted(c for c in label.casefold() if c.isalpha())
    return "".join(letters), tuple(int(digits[-15:]) for digits in DIGITS.findall(label))

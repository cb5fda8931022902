"""Labels of one cloud only that differ from a label which it lacks by case, signs, zeros or exchanged letters."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from ..typing import IndexArray, Name
from .text import MOST_NAMED

DIGITS = re.compile(r"[0-9]+")


def misspelt_notes(
    landmarks: Sequence[Name],
    columns: Sequence[IndexArray],  # for each cloud, its landmarks
    names: Sequence[str],
) -> list[str]:
    """Return a note if labels look like misspelt ones: without it, one landmark silently becomes two."""
    count = Counter(j for own in columns for j in own.tolist())
    alike: dict[tuple[str, tuple[int, ...]], list[int]] = {}
    for j, label in enumerate(landmarks):
        alike.setdefault(_spelling(str(label)), []).append(j)
    groups = [sorted(group, key=lambda j: -count[j]) for key, group in alike.items() if any(key)]
    once = {rare: usual for usual, *others in groups for rare in others if count[rare] == 1}
    found = [(j, once[j], t) for t, own in enumerate(columns) for j in own.tolist() if j in once]
    lacking = [(j, usual, t) for j, usual, t in found if usual not in columns[t]]
    if not lacking:
        return []
    first = [f"{landmarks[j]!r} of {names[t]!r} for {landmarks[usual]!r}" for j, usual, t in lacking[:MOST_NAMED]]
    more = f" and {len(lacking) - MOST_NAMED} more" if len(lacking) > MOST_NAMED else ""
    return [f"labels that may be misspelt: {', '.join(first)}{more}; correct them if these are the same landmarks"]


def _spelling(label: str) -> tuple[str, tuple[int, ...]]:
    """Return what misspelt labels have in common: their letters in any order, and their numbers."""
    letters = sorted(c for c in label.casefold() if c.isalpha())
    return "".join(letters), tuple(int(digits[-15:]) for digits in DIGITS.findall(label))

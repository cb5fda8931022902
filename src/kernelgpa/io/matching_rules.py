"""The rules by which landmarks of different clouds are identified with each other, and what each of them gives.

label       equal labels
suffix      what labels share once the part that belongs to one specimen is removed: "gor7_LM1-12" -> "LM1-12"
number      the number at the end of the labels: "skull7_LM1-12" -> 12
order       the position in the file, if all clouds have the same number of landmarks
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..errors import InvalidSetting
from ..typing import Name
from .landmark_file import LabelledCloud
from .text import short_repr

LEAST_SHARED = 0.5  # share of a cloud's labels that must occur in other clouds, in the median over the clouds
DIGITS = re.compile(r"[0-9]+")
SEPARATORS = re.compile(r"([\W_]+)")

Keys = list[tuple[Name, ...]]  # for each cloud, the keys of its landmarks


@dataclass(frozen=True)
class Matching:
    """What one rule gives: keys that identify landmarks across clouds, or the reason why it does not apply."""

    rule: str
    keys: Keys | None
    problem: str = ""

    @cached_property
    def counts(self) -> Counter[Name]:
        """In how many clouds each landmark occurs."""
        return Counter(key for own in self.keys or [] for key in own)

    @property
    def landmarks(self) -> int:
        return len(self.counts)

    @property
    def in_every_cloud(self) -> int:
        return sum(count == len(self.keys or []) for count in self.counts.values())

    @property
    def in_one_cloud(self) -> int:
        return sum(count == 1 for count in self.counts.values())

    @property
    def mostly_shared(self) -> bool:
        """Whether most landmarks of most clouds occur in another cloud too; a single cloud has none to compare with."""
        if self.keys is None:
            return False
        shares = [np.mean([self.counts[key] > 1 for key in own]) for own in self.keys if own]
        return len(self.keys) == 1 or (bool(shares) and float(np.median(shares)) >= LEAST_SHARED)


def matchings(
    clouds: Sequence[LabelledCloud],
    stems: Sequence[str],  # of the files of the clouds
    labelled: Sequence[bool],
    pattern: str | None = None,
) -> dict[str, Matching]:
    """Return what every rule gives, in the order in which they are preferred."""
    labels = [one.labels for one in clouds] if pattern is None else _by_pattern(clouds, pattern)
    if not all(labelled):
        source = next(stem for stem, known in zip(stems, labelled, strict=True) if not known)
        problem = f"{short_repr(source)} does not label its landmarks"
        named = {rule: Matching(rule, None, problem) for rule in ("label", "suffix", "number")}
    else:
        plain: Keys = [tuple(own) for own in labels]
        names = [(one.name, stem) for one, stem in zip(clouds, stems, strict=True)]
        named = {
            "label": Matching("label", plain),
            "suffix": Matching("suffix", suffix_keys(labels, names)),
            "number": _by_number(clouds, labels),
        }
    return {**named, "order": _by_order(clouds)}


def _by_pattern(clouds: Sequence[LabelledCloud], pattern: str) -> list[tuple[str, ...]]:
    """Return the labels with each replaced by what a regular expression finds in it."""
    try:
        compiled = re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise InvalidSetting(
            f"label_pattern is {pattern!r}, which is no regular expression ({error}); check it"
        ) from None
    replaced = []
    for one in clouds:
        found = [compiled.search(label) for label in one.labels]
        first = next((label for label, match in zip(one.labels, found, strict=True) if match is None), None)
        if first is not None:
            raise InvalidSetting(
                f"label_pattern is {pattern!r}, which does not match the label {short_repr(first)} of {one.name!r}; "
                "change the pattern so that it matches every label"
            )
        own = tuple((m[1] if m.re.groups else m[0]) or "" for m in found if m is not None)
        twice = next((key for key, count in Counter(own).items() if count > 1), None)
        if twice is not None:
            raise InvalidSetting(
                f"label_pattern is {pattern!r}, which finds {short_repr(twice)} in several labels of {one.name!r}; "
                "change the pattern so that it distinguishes its landmarks"
            )
        replaced.append(own)
    return replaced


def _by_number(clouds: Sequence[LabelledCloud], labels: Sequence[Sequence[str]]) -> Matching:
    keys: Keys = []
    for one, own in zip(clouds, labels, strict=True):
        numbers = last_numbers(own)
        if numbers is None:
            unnumbered = any(DIGITS.search(label) is None for label in own)
            problem = f"a label of {one.name!r} has no number"
            return Matching(
                "number", None, problem if unnumbered else f"two labels of {one.name!r} end in the same number"
            )
        keys.append(numbers)
    return Matching("number", keys)


def last_numbers(labels: Sequence[str]) -> tuple[int, ...] | None:
    """Return the number at the end of each label; None if one has none, or two are equal."""
    found = [DIGITS.findall(label) for label in labels]
    numbers = tuple(int(digits[-1][-15:]) for digits in found if digits)
    return numbers if len(numbers) == len(labels) == len(set(numbers)) else None


def _by_order(clouds: Sequence[LabelledCloud]) -> Matching:
    first = clouds[0]
    other = next((one for one in clouds if len(one.points) != len(first.points)), None)
    if other is None:
        return Matching("order", [tuple(range(1, len(one.points) + 1)) for one in clouds])
    return Matching(
        "order",
        None,
        f"{other.name!r} has {len(other.points)} landmarks and {first.name!r} has {len(first.points)}",
    )


def suffix_keys(labels: Sequence[Sequence[str]], names: Sequence[tuple[str, str]]) -> Keys:
    """Return labels without the part that belongs to one cloud.

    A word of a label belongs to its cloud if no other cloud has it in its labels, and if it occurs in several labels of
    this cloud or in the cloud's own name.  A label is shortened only if another cloud then has the same one.
    """
    words = [Counter(word for label in own for word in set(_words(label))) for own in labels]
    clouds_with = Counter(word for own in words for word in own)
    shortened = []
    for own, count, known in zip(labels, words, names, strict=True):
        name = " ".join(known).casefold()
        specific = {w for w in count if clouds_with[w] == 1 and (count[w] > 1 or w.casefold() in name)}
        shortened.append([_without(label, specific, known) for label in own])
    shared = Counter(label for own in shortened for label in set(own))
    return [_where_unique(own, short, shared) for own, short in zip(labels, shortened, strict=True)]


def _where_unique(labels: Sequence[str], short: Sequence[str], shared: Counter[str]) -> tuple[Name, ...]:
    """Return the shortened labels that another cloud has too and that stay different; otherwise the whole labels."""
    keys = [new if shared[new] > 1 else old for old, new in zip(labels, short, strict=True)]
    while True:
        count = Counter(keys)
        restored = [old if count[key] > 1 else key for old, key in zip(labels, keys, strict=True)]
        if restored == keys:
            return tuple(keys)
        keys = restored


def _words(label: str) -> list[str]:
    return [part for part in SEPARATORS.split(label)[::2] if part]


def _without(label: str, words: set[str], names: tuple[str, str]) -> str:
    """Return a label without the cloud's name at its beginning, or without some words and the separators after them."""
    for name in names:
        rest = label[len(name) :].lstrip(" _-.:") if name and label.startswith(name) else ""
        if rest:
            return rest
    parts = SEPARATORS.split(label)
    kept = []
    last = max((i for i in range(0, len(parts), 2) if parts[i]), default=0)
    for i in range(0, len(parts), 2):
        if parts[i] in words and not (i == last and parts[i].isdigit()):
            continue
        kept.append(parts[i] + (parts[i + 1] if i + 1 < len(parts) else ""))
    return "".join(kept).strip(" _-.:") or label

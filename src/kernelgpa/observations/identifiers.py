"""Names of clouds and landmarks: they are unique and hashable, and can be replaced by indices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Set
from typing import Any

import numpy as np

from ..errors import InvalidObservations
from ..typing import Name


def in_order(ids: list[list[Name]]) -> tuple[Name, ...]:
    """All names, sorted if they can be compared, otherwise in the order in which they first appear."""
    first_seen = list(dict.fromkeys(j for one in ids for j in one))
    try:
        return tuple(sorted(first_seen))  # type: ignore[type-var]
    except TypeError:
        return tuple(first_seen)


def checked_names(names: Iterable[Name] | None, count: int, what: str) -> tuple[Name, ...]:
    """The given names, which must be unique and complete; without names, the numbers from 0 on."""
    if names is None:
        return tuple(range(count))
    given = listed(names)
    if len(given) != count:
        raise InvalidObservations(f"{len(given)} {what} names for {count} {what}s; give one name per {what}")
    refuse_repeats(given, f"{what} name")
    return tuple(given)


def landmark_ids(ids: Any, cloud: Name) -> list[Name]:
    """The ids of the landmarks of one cloud, in the order of its points."""
    if isinstance(ids, Set):
        raise InvalidObservations(f"cloud {cloud!r}: its ids are a set, which has no order; use a list")
    given = listed(ids)
    refuse_repeats(given, f"cloud {cloud!r}: landmark id")
    return given


def listed(names: Any) -> list[Any]:
    """Names as a list of plain Python objects, so that np.str_ and np.int64 print and compare as expected."""
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise InvalidObservations(f"expected a list of names, found {names!r}")
    return [name.item() if isinstance(name, np.generic) else name for name in names]


def abbreviated(names: Iterable[Name], most: int) -> str:
    """The first names in their order, and how many more there are; it does not depend on the order of the clouds."""
    ordered = in_order([list(names)])
    shown = ", ".join(repr(name) for name in ordered[:most])
    return f"{shown} and {len(ordered) - most} more" if len(ordered) > most else shown


def refuse_repeats(names: list[Name], what: str) -> None:
    """An error if a name occurs twice or cannot be a name."""
    try:
        repeated = len(set(names)) < len(names)
    except TypeError:
        raise InvalidObservations(f"{what}s are not hashable; use text, numbers or tuples") from None
    if any(name != name for name in names):  # NaN is not even equal to itself
        raise InvalidObservations(f"{what}: one is NaN; use text, numbers or tuples that are equal to themselves")
    if repeated:
        twice = Counter(names).most_common(1)[0][0]
        raise InvalidObservations(f"{what} {twice!r} is given more than once; each must be unique")


def index_of(name: Name, position: dict[Name, int], what: str) -> int:
    """The index that belongs to a name.  A number that is not a name is an index, unless other names are numbers."""
    plain = name.item() if isinstance(name, np.generic) else name
    count = len(position)
    if isinstance(plain, Hashable) and plain in position:
        return position[plain]
    numbered = not any(isinstance(one, int) for one in position) or list(position) == list(range(count))
    if isinstance(plain, int) and numbered and -count <= plain < count:
        return plain % count
    shown = ", ".join(repr(n) for n in list(position)[:5]) + (", ..." if count > 5 else "")
    raise InvalidObservations(f"no {what} {plain!r}; there are {count}: {shown}")

"""Names of clouds and landmarks: unique, hashable, and found by name or by index."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np

from ..errors import InvalidObservations
from ..typing import Name


def in_order(ids: list[list[Name]]) -> tuple[Name, ...]:
    first_seen = list(dict.fromkeys(j for one in ids for j in one))
    try:
        return tuple(sorted(first_seen))  # type: ignore[type-var]
    except TypeError:  # ids of types that do not compare keep the order of their appearance
        return tuple(first_seen)


def checked_names(names: Iterable[Name] | None, count: int, what: str) -> tuple[Name, ...]:
    if names is None:
        return tuple(range(count))
    given = listed(names)
    if len(given) != count:
        raise InvalidObservations(f"{len(given)} {what} names for {count} {what}s")
    refuse_repeats(given, f"{what} name")
    return tuple(given)


def listed(names: Any) -> list[Any]:
    """Names as plain Python objects, so that np.str_ and np.int64 read and compare as expected."""
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise InvalidObservations(f"expected a list of names, found {names!r}")
    return [name.item() if isinstance(name, np.generic) else name for name in names]


def refuse_repeats(names: list[Name], what: str) -> None:
    try:
        repeated = len(set(names)) < len(names)
    except TypeError:
        raise InvalidObservations(f"{what}s must be hashable (text, numbers or tuples)") from None
    if any(name != name for name in names):  # NaN is not even equal to itself
        raise InvalidObservations(f"{what}: one is NaN; every {what} needs a name of its own")
    if repeated:
        twice = Counter(names).most_common(1)[0][0]
        raise InvalidObservations(f"{what} {twice!r} is given more than once; each must be unique")


def index_of(name: Name, position: dict[Name, int], what: str) -> int:
    plain = name.item() if isinstance(name, np.generic) else name
    count = len(position)
    if isinstance(plain, Hashable) and plain in position:
        return position[plain]
    numbered = not any(isinstance(one, int) for one in position) or list(position) == list(range(count))
    if isinstance(plain, int) and numbered and -count <= plain < count:  # a number that is no name is an index
        return plain % count
    shown = ", ".join(repr(n) for n in list(position)[:5]) + (", ..." if count > 5 else "")
    raise InvalidObservations(f"no {what} {plain!r}; there are {count}: {shown}")

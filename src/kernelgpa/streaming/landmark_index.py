"""Indices of landmarks that come and go: a landmark keeps its index as long as any cloud holds it."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ..typing import IndexArray, Name


class LandmarkIndex:
    """Names and indices of landmarks; the index of a landmark that no cloud holds any more is used again."""

    def __init__(self) -> None:
        self.names: list[Name | None] = []  # by index; None: the index is free
        self._indices: dict[Name, int] = {}
        self._free: list[int] = []
        self._holders: list[int] = []  # by index: the number of clouds that hold the landmark

    def __len__(self) -> int:
        """The number of landmarks that have an index."""
        return len(self._indices)

    def lookup(self, ids: Iterable[Name]) -> IndexArray:
        """Indices of known landmarks."""
        return np.array([self._indices[name] for name in ids], dtype=np.intp)

    def unknown(self, ids: Iterable[Name]) -> int:
        """How many of the ids have no index."""
        return sum(name not in self._indices for name in ids)

    def names_of(self, indices: IndexArray) -> list[Name | None]:
        return [self.names[index] for index in indices.tolist()]

    def assign(self, ids: Iterable[Name]) -> IndexArray:
        """Indices of landmarks; one that is new gets a free index."""
        return np.array([self._indices[name] if name in self._indices else self._add(name) for name in ids], np.intp)

    def _add(self, name: Name) -> int:
        if self._free:
            index = self._free.pop()
            self.names[index] = name
        else:
            index = len(self.names)
            self.names.append(name)
            self._holders.append(0)
        self._indices[name] = index
        return index

    def hold(self, indices: IndexArray) -> None:
        """Count one more cloud that holds these landmarks."""
        for index in indices.tolist():
            self._holders[index] += 1

    def release(self, indices: IndexArray) -> None:
        """Count one cloud less; a landmark that no cloud holds any more is forgotten."""
        for index in indices.tolist():
            self._holders[index] -= 1
            name = self.names[index]
            if self._holders[index] == 0 and name is not None:
                del self._indices[name]
                self.names[index] = None
                self._free.append(index)

"""Clouds that are in the data twice, and coordinates that stand for "not seen": both are found by equal coordinates."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np

from ..typing import Array, Name
from .landmark_file import missing_text
from .text import MOST_NAMED

LEAST_EQUAL = 0.5  # share of the landmarks that two clouds both see
FAR = 3.0  # times the largest distance of the other landmarks from their median
MOST_PER_POSITION = 50  # clouds with one position of a landmark: more are a fixed point, and no duplicates


def duplicate_notes(points: Array, names: Sequence[str]) -> list[str]:  # (n, m, d)
    """Return a note if two clouds have exactly the same coordinates."""
    pairs = _equal_pairs(points)
    seen = ~np.isnan(points[:, :, 0])
    least = points.shape[2] + 1
    found = [
        (a, b)
        for (a, b), count in sorted(pairs.items())
        if count >= max(least, LEAST_EQUAL * int((seen[a] & seen[b]).sum()))
    ]
    if not found:
        return []
    shown = "; ".join(f"{names[a]!r} and {names[b]!r}" for a, b in found[:MOST_NAMED])
    more = f" and {len(found) - MOST_NAMED} more pairs" if len(found) > MOST_NAMED else ""
    return [f"the same specimen twice, by its coordinates: {shown}{more}; give each once"]


def _equal_pairs(points: Array) -> Counter[tuple[int, int]]:
    """Return, for pairs of clouds, how many landmarks have exactly the same position."""
    pairs: Counter[tuple[int, int]] = Counter()
    for j in range(points.shape[1]):
        for clouds in _clouds_by_position(points[:, j]).values():
            if 1 < len(clouds) <= MOST_PER_POSITION:
                pairs.update((a, b) for i, a in enumerate(clouds) for b in clouds[i + 1 :])
    return pairs


def _clouds_by_position(positions: Array) -> dict[bytes, list[int]]:  # (n, d)
    found: dict[bytes, list[int]] = defaultdict(list)
    for t in np.flatnonzero(~np.isnan(positions[:, 0])).tolist():
        found[positions[t].tobytes()].append(t)
    return found


def placeholder_notes(points: Array, names: Sequence[str], landmarks: Sequence[Name]) -> list[str]:
    """Return notes on far-away coordinates that several clouds have exactly alike: a landmark that could not be set."""
    found: dict[tuple[float, ...], list[tuple[int, int]]] = defaultdict(list)
    for t, one in enumerate(points):
        for j in _far_landmarks(one).tolist():
            found[tuple(one[j].tolist())].append((t, j))
    notes = []
    for position, where in found.items():
        if len({t for t, _ in where}) < 2:
            continue
        shown = ", ".join(f"{landmarks[j]} of {names[t]!r}" for t, j in where[:MOST_NAMED])
        more = f" and {len(where) - MOST_NAMED} more" if len(where) > MOST_NAMED else ""
        code = missing_text(position)
        notes.append(
            f"{len(where)} points lie far away at exactly {code} ({shown}{more}); if they were not seen, give "
            f"missing={code}"
        )
    return notes


def _far_landmarks(points: Array) -> np.ndarray[tuple[int], np.dtype[np.intp]]:  # (m, d)
    """Return the landmarks that lie much farther from the median than the half of all that is nearest."""
    seen = np.flatnonzero(~np.isnan(points[:, 0]))
    if len(seen) < 4:
        return seen[:0]
    distances = np.linalg.norm(points[seen] - np.median(points[seen], axis=0), axis=1)
    return seen[distances > FAR * 2 * np.median(distances)]

"""Notes on clouds that are in the files twice, and on coordinates that stand for "not seen"."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..observations.repeats import equal_clouds, far_away, repeated_positions
from ..typing import Array, Name
from .landmark_file import RAS_TO_LPS, missing_text
from .text import MOST_NAMED


def duplicate_notes(points: Array, names: Sequence[str]) -> list[str]:  # (n, m, d)
    """Return a note if two clouds have exactly the same coordinates."""
    found = equal_clouds(points)
    if not found:
        return []
    shown = "; ".join(f"{names[a]!r} and {names[b]!r}" for a, b in found[:MOST_NAMED])
    more = f" and {len(found) - MOST_NAMED} more pairs" if len(found) > MOST_NAMED else ""
    return [f"the same specimen twice, by its coordinates: {shown}{more}; give each once"]


def placeholder_notes(
    points: Array, names: Sequence[str], landmarks: Sequence[Name], turned: Sequence[bool]
) -> list[str]:
    """Return notes on far-away coordinates that several clouds have exactly alike: a landmark that could not be set.

    ``turned`` : whether each cloud was converted from RAS to LPS; the code that a note names is that of the files.
    """
    notes = list[str]()
    for position, clouds, own in repeated_positions(np.where(far_away(points)[:, :, None], points, np.nan)):
        if len(np.unique(clouds)) < 2:
            continue
        where = list(zip(clouds.tolist(), own.tolist(), strict=True))
        shown = ", ".join(f"{landmarks[j]} of {names[t]!r}" for t, j in where[:MOST_NAMED])
        more = f" and {len(where) - MOST_NAMED} more" if len(where) > MOST_NAMED else ""
        in_file = position * RAS_TO_LPS if all(turned[t] for t in clouds.tolist()) else position
        code = missing_text(tuple(in_file.tolist()))
        notes.append(
            f"{len(where)} points lie far away at exactly {code} ({shown}{more}); if they were not seen, give "
            f"missing={code}"
        )
    return notes

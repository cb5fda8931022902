"""Wrong matches, as a careless matcher makes them."""

from __future__ import annotations

import numpy as np

from ..errors import InvalidSetting
from ..typing import Array, BoolArray
from .checks import require_amount, require_whole


def exchanged(
    points: Array,  # (n, m, d), NaN where unseen
    share: float,
    seed: int = 0,
) -> tuple[Array, BoolArray]:  # the points, and (n, m) which are wrong
    """Points with a share of each cloud's observations exchanged among themselves."""
    require_amount("share", share, unit="", most=1.0)
    require_whole("seed", seed)
    points = np.asarray(points, dtype=np.float64)
    if points.ndim != 3:
        raise InvalidSetting(f"points has {points.ndim} axes; expected clouds x landmarks x coordinates")
    rng = np.random.default_rng(seed)
    points, wrong = points.copy(), np.zeros(points.shape[:2], dtype=bool)
    for t in range(len(points)):
        seen = np.flatnonzero(~np.isnan(points[t, :, 0]))
        chosen = rng.permutation(seen)[: round(share * len(seen))]
        if len(chosen) < 2:  # nobody to exchange with
            continue
        points[t, chosen] = points[t, np.roll(chosen, 1)]
        wrong[t, chosen] = True
    return points, wrong

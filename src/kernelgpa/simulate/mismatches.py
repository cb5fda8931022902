"""Wrong matches: observations that are exchanged within a cloud."""

from __future__ import annotations

import numpy as np

from ..errors import InvalidSetting
from ..typing import Array, BoolArray
from .checks import require_amount, require_integer


def exchanged(points: Array, share: float, seed: int = 0) -> tuple[Array, BoolArray]:
    """Exchange a share of each cloud's observations among themselves.

    Parameters
    ----------
    points : array of shape (n, m, d)
        One cloud per row, NaN if unseen.
    share : float
        Share of each cloud's observations that become wrong matches, from 0 to 1.
    seed : int
        The same seed exchanges the same observations.

    Returns
    -------
    points : array of shape (n, m, d)
        A copy with the exchanged observations.
    wrong : bool array of shape (n, m)
        Which observations are wrong.

    Examples
    --------
    >>> from kernelgpa import simulate
    >>> scene = simulate.liver(clouds=4, landmarks=50, vertices=202)
    >>> points, wrong = simulate.exchanged(scene.points, 0.2)
    >>> wrong.sum(axis=1)
    array([10, 10, 10, 10])
    """
    require_amount("share", share, unit="", most=1.0)
    require_integer("seed", seed)
    points = np.asarray(points, dtype=np.float64)
    if points.ndim != 3:
        raise InvalidSetting(f"points has {points.ndim} axes; expected clouds x landmarks x coordinates")
    rng = np.random.default_rng(seed)
    points, wrong = points.copy(), np.zeros(points.shape[:2], dtype=bool)
    for t in range(len(points)):
        seen = np.flatnonzero(~np.isnan(points[t, :, 0]))
        chosen = rng.permutation(seen)[: round(share * len(seen))]
        if len(chosen) < 2:  # a single observation has no other to be exchanged with
            continue
        points[t, chosen] = points[t, np.roll(chosen, 1)]
        wrong[t, chosen] = True
    return points, wrong

"""Wrong matches: observations that are exchanged within a cloud."""

from __future__ import annotations

import numpy as np

from ..errors import InvalidSetting
from ..typing import Array, BoolArray, IndexArray
from .checks import require_amount, require_integer


def exchanged(points: Array, share: float, seed: int = 0, within: float | None = None) -> tuple[Array, BoolArray]:
    """Exchange a share of each cloud's observations among themselves.

    Parameters
    ----------
    points : array of shape (n, m, d)
        One cloud per row, NaN if unseen.
    share : float
        Share of each cloud's observations that become wrong matches, from 0 to 1.
    seed : int
        The same seed exchanges the same observations.
    within : float, optional
        The largest distance between two observations that are exchanged.  Without it they may lie anywhere, as if
        nothing had been checked; with it they lie near each other, as if wrong matches over long distances had been
        rejected.  If too few observations have a neighbour within this distance, fewer than the share are exchanged.

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
    if within is not None:
        require_amount("within", within)
    points = np.asarray(points, dtype=np.float64)
    if points.ndim != 3:
        raise InvalidSetting(f"points has {points.ndim} axes; expected clouds x landmarks x coordinates")
    rng = np.random.default_rng(seed)
    points, wrong = points.copy(), np.zeros(points.shape[:2], dtype=bool)
    for t in range(len(points)):
        seen = np.flatnonzero(~np.isnan(points[t, :, 0]))
        count = round(share * len(seen))
        if within is None:
            chosen = rng.permutation(seen)[:count]
            others = np.roll(chosen, 1)
        else:
            chosen, others = _near_pairs(points[t], rng.permutation(seen), count // 2, within)
        if len(chosen) < 2:  # a single observation has no other to be exchanged with
            continue
        points[t, chosen] = points[t, others]
        wrong[t, chosen] = True
    return points, wrong


def _near_pairs(
    points: Array,  # (m, d)
    order: IndexArray,  # of the seen landmarks
    count: int,
    within: float,
) -> tuple[IndexArray, IndexArray]:
    """Return up to ``count`` disjoint pairs of observations within a distance, as landmarks and their partners."""
    free = np.zeros(len(points), dtype=bool)
    free[order] = True
    pairs: list[tuple[int, int]] = []
    for i in order:
        if len(pairs) == count:
            break
        if free[i]:
            near = order[free[order] & (np.linalg.norm(points[order] - points[i], axis=1) <= within) & (order != i)]
            if len(near):
                pairs.append((int(i), int(near[0])))  # a random neighbour, because the order is random
                free[[i, near[0]]] = False
    first, second = np.array(pairs, dtype=np.intp).reshape(-1, 2).T
    return np.concatenate([first, second]), np.concatenate([second, first])

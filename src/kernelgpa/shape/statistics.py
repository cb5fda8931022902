"""Size of each cloud, its distance in shape from the mean shape, and which distances are outliers.

Points are rows; P (s, d) what a cloud saw, M (m, d) the mean shape, M_s its rows of the seen landmarks.  A bar is the
centred array and |.| the root of the sum of squares.  Shapes are compared at unit size:

    centroid size            |P_bar| |M_bar| / |M_s_bar|        the last two factors make partly seen clouds comparable
    cos rho                  max over rotations R of tr(R P_bar' M_s_bar) / (|P_bar| |M_s_bar|)
    partial distance         sqrt(2 - 2 cos rho)                both at unit size

A cloud is an outlier if its distance exceeds the upper quartile by more than WHISKER times the interquartile range.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..gauge.rotations import nearest_rotation
from ..typing import Array, BoolArray

WHISKER = 1.5  # times the interquartile range above the upper quartile: Tukey's rule for box plots


@dataclass(frozen=True)
class ProcrustesStatistics:
    """Sizes of the clouds and their distances from the mean shape.

    Attributes
    ----------
    centroid_sizes : array (n,)
        Centroid sizes in the unit of the data.
    distances : array (n,)
        Partial Procrustes distances from the mean shape, without unit.
    is_outlier : bool array (n,)
        Whether the distance is far above those of the others.
    threshold : float
        The distance above which it is.
    """

    centroid_sizes: Array
    distances: Array
    is_outlier: BoolArray
    threshold: float


def shape_statistics(points: Array, mean: Array) -> ProcrustesStatistics:  # (n, m, d), (m, d); NaN where unseen
    """Centroid sizes, Procrustes distances from the mean shape, and which of these are outliers."""
    known = ~np.isnan(mean[:, 0])
    seen = ~np.isnan(points[:, :, 0]) & known
    own = _centred(points, seen)
    target = _centred(np.broadcast_to(mean, points.shape), seen)
    own_sizes, target_sizes = (np.linalg.norm(one, axis=(1, 2)) for one in (own, target))
    whole = float(np.linalg.norm(_centred(mean[None], known[None])))
    moments = np.einsum("nmi,nmj->nij", target, own)
    cosines = np.sum(nearest_rotation(moments) * moments, axis=(1, 2)) / (own_sizes * target_sizes)
    distances = np.sqrt(np.maximum(0.0, 2 - 2 * cosines))
    lower, upper = np.quantile(distances, [0.25, 0.75])
    threshold = float(upper + WHISKER * (upper - lower))
    return ProcrustesStatistics(own_sizes * whole / target_sizes, distances, distances > threshold, threshold)


def _centred(points: Array, seen: BoolArray) -> Array:  # (n, m, d), (n, m) -> (n, m, d)
    """Seen points minus their mean, 0 where unseen."""
    kept = np.where(seen[:, :, None], points, 0.0)
    means = kept.sum(axis=1, keepdims=True) / seen.sum(axis=1)[:, None, None]
    return np.where(seen[:, :, None], kept - means, 0.0)

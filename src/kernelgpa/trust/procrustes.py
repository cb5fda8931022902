"""Sizes, Procrustes distances and Procrustes coordinates of the clouds of a fitted registration.

Sizes, distances and outliers are those of :mod:`kernelgpa.shape.statistics`.  For a cloud that saw all landmarks they
are the textbook quantities (Dryden and Mardia, 2016, section 4.1); the full distance is sin rho.

Coordinates follow one of three conventions:

    registered    s_t R_t p + t_t, the pose of the registration, in the unit of the data
    partial       each cloud at unit centroid size, rotated to the mean of all: gpagen(Proj = FALSE) of geomorph
    full          the same, each cloud also multiplied by cos rho, the size at which it is closest to the mean

The coordinates are never those of warps that deform: these take all clouds to nearly the same shape, and what remains
is no longer the variation between them.
"""

from __future__ import annotations

import numpy as np

from ..errors import InvalidSetting, warn
from ..estimators.base import GPA
from ..gauge.rotations import nearest_rotation
from ..observations.arrays import finite_rows
from ..shape.statistics import ProcrustesStatistics, shape_statistics
from ..typing import Array

__all__ = ["ProcrustesStatistics", "procrustes_coordinates", "procrustes_statistics"]

CONVENTIONS = ("registered", "partial", "full")
MOST_ITERATIONS = 500
LEAST_MEAN_CHANGE = 1e-12  # change of the mean, relative to its unit size


def procrustes_statistics(gpa: GPA) -> ProcrustesStatistics:
    """Centroid sizes, Procrustes distances from the map, and which of these are outliers by Tukey's rule."""
    return shape_statistics(gpa.observations_.points, gpa.map_)


def procrustes_coordinates(gpa: GPA, convention: str = "registered") -> tuple[Array, Array]:  # (n, m, d), (m, d)
    """The clouds superimposed by a convention, NaN where unseen, and their mean shape."""
    if convention not in CONVENTIONS:
        raise InvalidSetting(f"procrustes is {convention!r}; expected one of {', '.join(CONVENTIONS)}")
    points = gpa.observations_.points
    if convention == "registered":
        poses = zip(points, gpa.size_factors_, gpa.rotations_, gpa.translations_, strict=True)
        return np.stack([size * one @ R.T + t for one, size, R, t in poses]), gpa.map_
    sizes = procrustes_statistics(gpa).centroid_sizes
    mean = gpa.map_ / _size(gpa.map_[finite_rows(gpa.map_)])
    for _ in range(MOST_ITERATIONS):
        aligned = np.stack([_onto(mean, one / size, convention) for one, size in zip(points, sizes, strict=True)])
        before, mean = mean, _unit(np.nanmean(np.where(np.isnan(mean), np.nan, aligned), axis=0), mean)
        if np.nanmax(np.abs(mean - before)) < LEAST_MEAN_CHANGE:
            break
    else:
        warn(f"the mean shape still changes after {MOST_ITERATIONS} superimpositions; the coordinates are approximate")
    return aligned, mean


def _unit(mean: Array, previous: Array) -> Array:
    """A mean at unit size and centred; landmarks without a position keep none."""
    known = finite_rows(mean) & finite_rows(previous)
    centred = np.where(known[:, None], mean - mean[known].mean(axis=0), np.nan)
    return centred / np.linalg.norm(centred[known])


def _onto(mean: Array, points: Array, convention: str) -> Array:  # (m, d), (m, d)
    """Points rotated and moved onto the mean; by the full convention also scaled."""
    seen = finite_rows(points) & finite_rows(mean)
    centre, target = points[seen].mean(axis=0), mean[seen].mean(axis=0)
    own, goal = points[seen] - centre, mean[seen] - target
    R = nearest_rotation(goal.T @ own)
    factor = 1.0
    if convention == "full":
        factor = float(np.trace(R @ own.T @ goal) / np.sum(own**2))
    return factor * (points - centre) @ R.T + target


def _centred(points: Array) -> Array:
    return points - points.mean(axis=0)


def _size(points: Array) -> float:
    """The centroid size: the root of the sum of squared distances from the centroid."""
    return float(np.linalg.norm(_centred(points)))

"""Deformed clouds with their fits to draw, and what is read back from drawn axes."""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np
from matplotlib.figure import Figure

from conftest import scene
from fixed_settings import fixed_kernel
from kernelgpa import RigidGPA, selection, uncertainty

NEVER, ONCE = 3, 8  # landmarks that no cloud and one cloud saw


@cache
def deformed(d):
    points, _ = scene(n=5, m=30, d=d, seed=1, noise=0.01)
    points[:, NEVER] = np.nan
    points[1:, ONCE] = np.nan
    points[0, ONCE] = 0.1
    return points


@cache
def fit(d, rigid=False):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of landmarks seen once or never
        return (RigidGPA() if rigid else fixed_kernel()).fit(deformed(d))


@cache
def estimate(d):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return uncertainty(selection.cross_validate(fixed_kernel(), deformed(d), folds=5))


@cache
def tuned():
    grid = {"bandwidth": (0.25, 0.5), "smoothing": (0.01, 0.1, 1.0)}
    return selection.tune(scene(n=5, m=30, hidden=0.1)[0], grid=grid, folds=4, rounds=0)


def offsets(drawn):  # (k, 2 or 3)
    return np.column_stack(drawn._offsets3d) if hasattr(drawn, "_offsets3d") else np.asarray(drawn.get_offsets())


def coloured(ax):
    """The one set of points that is coloured by values."""
    (found,) = [one for one in ax.collections if one.get_array() is not None]
    return found


def canvas(d):
    return Figure().add_subplot(projection="3d" if d == 3 else None)

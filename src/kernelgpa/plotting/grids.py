"""Warps as deformed grids."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations
from math import ceil, sqrt

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..errors import InvalidSetting
from ..estimators.base import GPA
from ..estimators.settings import whole_number
from ..observations.cloud import Cloud
from ..observations.identifiers import listed
from ..typing import Array, Name
from .drawing import axes_for, columns, dots, finish, fitted, joined

SLICE_COLOURS = ("C0", "C1", "C2")
GRID_MARGIN = 0.05  # of the cloud's extent, on each side
POINTS_PER_CELL = 4  # along each line
MOST_PANELS = 6  # clouds that are drawn by default


def warp_grid(
    gpa: GPA,
    cloud: Name,
    lines: int = 12,
    ax: Axes | None = None,
    title: str | None = None,
    unit: str = "",
) -> Axes:
    """Draw a regular grid in the frame of one cloud, warped into the map, and the cloud's landmarks.

    The grid follows the cloud's principal axes and ends just outside the cloud, because farther out a warp only
    extrapolates.  In 3D it consists of three slices through the cloud's centre, each in its own colour.

    Parameters
    ----------
    gpa : GPA
        A fitted estimator.
    cloud : int or str
        Index or name of the cloud.
    lines : int
        Number of cells along the widest axis.
    ax : Axes, optional
        Axes to draw on; by default those of a new figure.
    title : str, optional
        By default the name of the cloud.
    unit : str, optional
        Unit of the coordinates.

    Examples
    --------
    >>> from kernelgpa import KernelGPA, plotting, simulate
    >>> scene = simulate.liver(clouds=5, landmarks=60, vertices=202)
    >>> ax = plotting.warp_grid(KernelGPA().fit(scene.points), cloud=2, unit="mm")
    >>> ax.get_title()
    'cloud 2'
    """
    observed = _cloud(gpa, cloud)
    cells = whole_number("lines", lines, least=1)
    ax = axes_for(gpa.observations_.dimension, ax)
    for colour, grid in zip(SLICE_COLOURS, _slices(observed, cells), strict=False):
        ax.plot(*columns(ax, gpa.transform(grid, cloud)), color=colour, linewidth=0.8)
    dots(ax, gpa.transform(observed.points, cloud), s=9, color="0.2")
    return finish(ax, f"cloud {observed.name}" if title is None else title, unit)


def warps(gpa: GPA, clouds: Iterable[Name] | None = None, lines: int = 12, unit: str = "") -> Figure:
    """Draw the warped grids of several clouds, one panel per cloud, by :func:`warp_grid`.

    Parameters
    ----------
    gpa : GPA
        A fitted estimator.
    clouds : iterable of int or str, optional
        Indices or names; by default all clouds, or six evenly chosen ones if there are more.
    lines : int
        Number of cells along the widest axis.
    unit : str, optional
        Unit of the coordinates.

    Examples
    --------
    >>> from kernelgpa import KernelGPA, plotting, simulate
    >>> scene = simulate.liver(clouds=5, landmarks=60, vertices=202)
    >>> figure = plotting.warps(KernelGPA().fit(scene.points), clouds=[0, 3], unit="mm")
    >>> [ax.get_title() for ax in figure.axes]
    ['cloud 0', 'cloud 3']
    """
    n, d = len(fitted(gpa).warps_), gpa.observations_.dimension
    if clouds is None:
        indices = np.unique(np.linspace(0, n - 1, min(n, MOST_PANELS)).round().astype(int))
        chosen: list[Name] = [gpa.observations_.names[t] for t in indices]
    else:
        chosen = listed(clouds)
    if not chosen:
        raise InvalidSetting("clouds is empty; give at least one, or None for the default choice")
    across = ceil(sqrt(len(chosen)))
    down = ceil(len(chosen) / across)
    figure = Figure(figsize=(4.4 * across, 3.6 * down), layout="constrained")
    for i, cloud in enumerate(chosen):
        panel = figure.add_subplot(down, across, i + 1, projection="3d" if d == 3 else None)
        warp_grid(gpa, cloud, lines, panel, unit=unit)
    if clouds is None and len(chosen) < n:
        figure.suptitle(f"{len(chosen)} of {n} clouds")
    return figure


def _cloud(gpa: GPA, cloud: Name) -> Cloud:
    return fitted(gpa).observations_.clouds[gpa.observations_.cloud_index(cloud)]


def _slices(cloud: Cloud, cells: int) -> list[Array]:
    """Grids in the principal planes of the cloud, each as one line (k, d) with NaN for gaps, in the cloud's frame."""
    frame = cloud.frame
    along = (cloud.points - frame.centre) @ frame.axes.T
    low, high = along.min(axis=0), along.max(axis=0)
    margin = GRID_MARGIN * (high - low)
    low, high = low - margin, high + margin
    step = float(np.max(high - low)) / cells
    counts = [max(1, round(float(width) / step)) for width in high - low]
    slices = []
    for i, j in combinations(range(max(2, frame.rank)), 2):
        lines = [*_lines(low, high, counts, i, j), *_lines(low, high, counts, j, i)]
        slices.append(joined(lines) @ frame.axes + frame.centre)
    return slices


def _lines(low: Array, high: Array, counts: list[int], i: int, j: int) -> list[Array]:
    """Lines along axis i at the steps of axis j."""
    along = np.linspace(low[i], high[i], POINTS_PER_CELL * counts[i] + 1)
    lines = []
    for position in np.linspace(low[j], high[j], counts[j] + 1):
        line = np.zeros((len(along), len(low)))
        line[:, i], line[:, j] = along, position
        lines.append(line)
    return lines

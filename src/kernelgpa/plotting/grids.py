"""Warps as deformed grids."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations
from math import ceil, sqrt
from numbers import Integral

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..errors import InvalidSetting
from ..estimators.base import GPA
from ..observations.cloud import Cloud
from ..observations.identifiers import listed
from ..typing import Array, Name
from .drawing import axes_for, columns, dots, fitted, joined, lay_out

SLICES = ("C0", "C1", "C2")  # a colour a slice
MARGIN = 0.05  # of a grid beyond the cloud, as a share of its width
FINE = 4  # points of a line from one crossing to the next
MOST_PANELS = 6  # without a choice so many clouds are shown, spread over all


def warp_grid(
    gpa: GPA,
    cloud: Name,
    lines: int = 12,
    ax: Axes | None = None,
    title: str | None = None,
    unit: str = "",
) -> Axes:
    """A regular grid of one cloud (index or name), taken into the map by its warp, with the cloud's landmarks.

    The grid runs along the cloud's principal axes, ``lines`` cells along the widest, and ends little beyond the cloud,
    for farther out a warp is a guess.  In 3D it is the three slices through the cloud's centre, a colour each.

    >>> from kernelgpa import KernelGPA, plotting, simulate
    >>> scene = simulate.liver(clouds=5, landmarks=60, vertices=202)
    >>> ax = plotting.warp_grid(KernelGPA().fit(scene.points), cloud=2, unit="mm")
    >>> ax.get_title()
    'cloud 2'
    """
    observed = _cloud(gpa, cloud)
    if not isinstance(lines, Integral) or isinstance(lines, bool) or lines < 1:
        raise InvalidSetting(f"lines is {lines!r}; expected a whole number of cells along the widest axis")
    ax = axes_for(gpa.observations_.dimension, ax)
    for colour, grid in zip(SLICES, _slices(observed, int(lines)), strict=False):
        ax.plot(*columns(ax, gpa.transform(grid, cloud)), color=colour, linewidth=0.8)
    dots(ax, gpa.transform(observed.points, cloud), s=9, color="0.2")
    return lay_out(ax, f"cloud {observed.name}" if title is None else title, unit)


def warps(gpa: GPA, clouds: Iterable[Name] | None = None, lines: int = 12, unit: str = "") -> Figure:
    """The deformed grids of several clouds, a panel each: :func:`warp_grid`.

    clouds : indices or names; by default all, or of many six spread over their order.

    >>> from kernelgpa import KernelGPA, plotting, simulate
    >>> scene = simulate.liver(clouds=5, landmarks=60, vertices=202)
    >>> figure = plotting.warps(KernelGPA().fit(scene.points), clouds=[0, 3], unit="mm")
    >>> [ax.get_title() for ax in figure.axes]
    ['cloud 0', 'cloud 3']
    """
    n, d = len(fitted(gpa).warps_), gpa.observations_.dimension
    if clouds is None:
        spread = np.unique(np.linspace(0, n - 1, min(n, MOST_PANELS)).round().astype(int))
        chosen: list[Name] = [gpa.observations_.names[t] for t in spread]
    else:
        chosen = listed(clouds)
    if not chosen:
        raise InvalidSetting("clouds is empty; name at least one, or None for a choice of all")
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
    """Grids in the planes through the centre that the cloud spans, each one stroke (k, d) of the cloud's frame."""
    frame = cloud.frame
    along = (cloud.points - frame.centre) @ frame.axes.T
    low, high = along.min(axis=0), along.max(axis=0)
    margin = MARGIN * (high - low)
    low, high = low - margin, high + margin
    step = float(np.max(high - low)) / cells
    counts = [max(1, round(float(width) / step)) for width in high - low]
    strokes = []
    for i, j in combinations(range(max(2, frame.rank)), 2):
        lines = [*_lines(low, high, counts, i, j), *_lines(low, high, counts, j, i)]
        strokes.append(joined(lines) @ frame.axes + frame.centre)
    return strokes


def _lines(low: Array, high: Array, counts: list[int], i: int, j: int) -> list[Array]:
    """Lines along axis i at the steps of axis j."""
    run = np.linspace(low[i], high[i], FINE * counts[i] + 1)
    lines = []
    for at in np.linspace(low[j], high[j], counts[j] + 1):
        line = np.zeros((len(run), len(low)))
        line[:, i], line[:, j] = run, at
        lines.append(line)
    return lines

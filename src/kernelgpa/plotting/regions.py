"""How far to trust the map, drawn."""

from __future__ import annotations

from numbers import Real
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from scipy.stats import chi

from ..errors import InvalidSetting
from ..observations.arrays import finite_rows
from ..trust.uncertainty import Uncertainty
from ..typing import Array
from .drawing import COLOURS, axes_for, coloured_dots, in_space, lay_out, measured, polygons, scale_of

CORNERS = 32  # of an ellipse
AROUND, DOWN = 12, 8  # of an ellipsoid


def uncertainty(
    known: Uncertainty,
    level: float | None = None,
    enlarged: float = 1.0,
    ax: Axes | None = None,
    title: str | None = None,
    unit: str = "",
) -> Axes:
    """The map coloured by the standard deviation of its landmarks, from ``known.map_covariance()``.

    Hollow are landmarks that fewer than two clouds saw, of which nothing is known.

    level : a share such as 0.9 draws around each landmark the ellipse (in 3D the ellipsoid) that holds this share of a
        normal law with its covariance.
    enlarged : draws them so many times as large; the title says so.

    >>> from kernelgpa import KernelGPA, plotting, selection, simulate, uncertainty
    >>> scene = simulate.liver(clouds=5, landmarks=60, noise=0.5, vertices=202)
    >>> known = uncertainty(selection.cross_validate(KernelGPA(), scene.points, folds=5))
    >>> ax = plotting.uncertainty(known, level=0.9, enlarged=2, unit="mm")
    >>> ax.get_title()
    '90 % regions, 2 times as large'
    """
    if not isinstance(known, Uncertainty):
        raise InvalidSetting(
            f"found {type(known).__name__}; expected kernelgpa.uncertainty(selection.cross_validate(gpa, points))"
        )
    if level is not None and (not isinstance(level, Real) or not 0 < level < 1):
        raise InvalidSetting(f"level is {level!r}; expected a share between 0 and 1, such as 0.9, or None")
    if not isinstance(enlarged, Real) or isinstance(enlarged, bool) or not 0 < enlarged < np.inf:
        raise InvalidSetting(f"enlarged is {enlarged!r}; expected a positive number")
    places, covariances = known.validation.fitted.map_, known.map_covariance()
    d = places.shape[1]
    deviations = np.sqrt(np.trace(covariances, axis1=1, axis2=2) / d)
    ax = axes_for(d, ax)
    if level is not None:
        _regions(ax, places, covariances, deviations, level, float(enlarged))
    size = 22 if level is None else 4
    coloured_dots(ax, places, deviations, measured("standard deviation of a coordinate", unit), s=size)
    return lay_out(ax, _title(level, enlarged) if title is None else title, unit)


def _title(level: float | None, enlarged: float) -> str:
    if level is None:
        return ""
    return f"{100 * level:g} % regions" + ("" if enlarged == 1 else f", {enlarged:g} times as large")


def _regions(
    ax: Axes,
    places: Array,  # (m, d)
    covariances: Array,  # (m, d, d)
    deviations: Array,  # (m,)
    level: float,
    enlarged: float,
) -> None:
    drawn = finite_rows(places) & np.isfinite(deviations)
    if not drawn.any():
        return
    shown = 3 if in_space(ax) else 2
    centres, spread = places[drawn, :shown], covariances[drawn, :shown, :shown]
    variance, axes = np.linalg.eigh(spread)
    reach = enlarged * float(chi(shown).ppf(level))
    # rounding makes the variance across a flat map negative
    stretch = reach * axes * np.sqrt(np.maximum(variance, 0.0))[:, None, :]  # (k, d, d)
    body = _sphere() if shown == 3 else _circle()  # (f, c, d)
    patches = np.einsum("kij,fcj->kfci", stretch, body) + centres[:, None, None]
    colours = mpl.colormaps[COLOURS](scale_of(deviations[drawn])(deviations[drawn]))
    style: dict[str, Any] = {"facecolors": np.repeat(colours, len(body), axis=0), "alpha": 0.35, "linewidths": 0}
    polygons(ax, patches.reshape(-1, *body.shape[1:]), **style)


def _circle() -> Array:  # (1, c, 2)
    turn = np.linspace(0, 2 * np.pi, CORNERS, endpoint=False)
    return np.column_stack([np.cos(turn), np.sin(turn)])[None]


def _sphere() -> Array:  # (f, 4, 3)
    turn, fall = np.meshgrid(np.linspace(0, 2 * np.pi, AROUND + 1), np.linspace(0, np.pi, DOWN + 1))
    grid = np.stack([np.cos(turn) * np.sin(fall), np.sin(turn) * np.sin(fall), np.cos(fall)], axis=2)
    return np.stack([grid[:-1, :-1], grid[1:, :-1], grid[1:, 1:], grid[:-1, 1:]], axis=2).reshape(-1, 4, 3)

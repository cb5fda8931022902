"""The uncertainty of the map: standard deviations and confidence regions."""

from __future__ import annotations

from numbers import Real
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from scipy.stats import chi

from ..errors import InvalidSetting
from ..estimators.settings import positive_number
from ..observations.arrays import finite_rows
from ..trust.uncertainty import Uncertainty
from ..typing import Array
from .drawing import COLOUR_MAP, axes_for, coloured_dots, finish, finite_range, is_3d, polygons, with_unit

ELLIPSE_CORNERS = 32
MERIDIANS, PARALLELS = 12, 8  # of an ellipsoid


def uncertainty(
    estimate: Uncertainty,
    level: float | None = None,
    enlarged: float = 1.0,
    ax: Axes | None = None,
    title: str | None = None,
    unit: str = "",
) -> Axes:
    """Draw the map coloured by the standard deviation of its landmarks, from ``estimate.map_covariance()``.

    Landmarks that fewer than two clouds saw have no standard deviation and are hollow.

    Parameters
    ----------
    estimate : Uncertainty
        The result of :func:`kernelgpa.uncertainty`.
    level : float, optional
        Draw around each landmark the ellipse (in 3D the ellipsoid) with this probability, such as 0.9, of a normal
        distribution with the covariance of the landmark.
    enlarged : float
        Factor by which these regions are enlarged; the title mentions it.
    ax : Axes, optional
        Axes to draw on; by default those of a new figure.
    title, unit : str, optional
        Title of the plot, and unit of the coordinates.

    Examples
    --------
    >>> from kernelgpa import KernelGPA, plotting, selection, simulate, uncertainty
    >>> scene = simulate.liver(clouds=5, landmarks=60, noise=0.5, vertices=202)
    >>> estimate = uncertainty(selection.cross_validate(KernelGPA(), scene.points, folds=5))
    >>> ax = plotting.uncertainty(estimate, level=0.9, enlarged=2, unit="mm")
    >>> ax.get_title()
    '90 % confidence regions, enlarged 2 times'
    """
    if not isinstance(estimate, Uncertainty):
        raise InvalidSetting(
            f"found {type(estimate).__name__}; expected kernelgpa.uncertainty(selection.cross_validate(gpa, points))"
        )
    if level is not None and (not isinstance(level, Real) or not 0 < level < 1):
        raise InvalidSetting(f"level is {level!r}; expected a probability between 0 and 1, such as 0.9, or None")
    positive_number("enlarged", enlarged)
    positions, covariances = estimate.validation.fitted.map_, estimate.map_covariance()
    d = positions.shape[1]
    deviations = np.sqrt(np.trace(covariances, axis1=1, axis2=2) / d)
    ax = axes_for(d, ax)
    if level is not None:
        _draw_regions(ax, positions, covariances, deviations, level, float(enlarged))
    size = 22 if level is None else 4
    coloured_dots(ax, positions, deviations, with_unit("standard deviation of a coordinate", unit), s=size)
    return finish(ax, _title(level, enlarged) if title is None else title, unit)


def _title(level: float | None, enlarged: float) -> str:
    if level is None:
        return ""
    return f"{100 * level:g} % confidence regions" + ("" if enlarged == 1 else f", enlarged {enlarged:g} times")


def _draw_regions(
    ax: Axes,
    positions: Array,  # (m, d)
    covariances: Array,  # (m, d, d)
    deviations: Array,  # (m,)
    level: float,
    enlarged: float,
) -> None:
    drawn = finite_rows(positions) & np.isfinite(deviations)
    if not drawn.any():
        return
    shown = 3 if is_3d(ax) else 2
    centres = positions[drawn, :shown]
    variances, axes = np.linalg.eigh(covariances[drawn, :shown, :shown])
    radius = enlarged * float(chi(shown).ppf(level))  # of the region of a standard normal distribution
    # rounding can make the variance across a flat map negative
    stretch = radius * axes * np.sqrt(np.maximum(variances, 0.0))[:, None, :]  # (k, d, d)
    body = _sphere() if shown == 3 else _circle()  # (f, c, d)
    patches = np.einsum("kij,fcj->kfci", stretch, body) + centres[:, None, None]
    colours = mpl.colormaps[COLOUR_MAP](finite_range(deviations[drawn])(deviations[drawn]))
    style: dict[str, Any] = {"facecolors": np.repeat(colours, len(body), axis=0), "alpha": 0.35, "linewidths": 0}
    polygons(ax, patches.reshape(-1, *body.shape[1:]), **style)


def _circle() -> Array:  # (1, c, 2)
    angle = np.linspace(0, 2 * np.pi, ELLIPSE_CORNERS, endpoint=False)
    return np.column_stack([np.cos(angle), np.sin(angle)])[None]


def _sphere() -> Array:  # (f, 4, 3)
    azimuth, polar = np.meshgrid(np.linspace(0, 2 * np.pi, MERIDIANS + 1), np.linspace(0, np.pi, PARALLELS + 1))
    grid = np.stack([np.cos(azimuth) * np.sin(polar), np.sin(azimuth) * np.sin(polar), np.cos(polar)], axis=2)
    return np.stack([grid[:-1, :-1], grid[1:, :-1], grid[1:, 1:], grid[:-1, 1:]], axis=2).reshape(-1, 4, 3)

"""What all pictures share: an Axes of the right kind, points and lines on it, labels, one scale for all axes.

d is the dimension of the data, 2 or 3.  In 3D an Axes is either one of space or a plane, onto which everything is
seen along the last axis.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from mpl_toolkits.mplot3d.art3d import Poly3DCollection

from ..errors import InvalidObservations, InvalidSetting, NotFitted
from ..estimators.base import GPA
from ..observations.arrays import finite_rows, masked_as_nan
from ..typing import Array, IndexArray

COLOURS = "viridis"  # of values
FAINT = "0.65"  # of what is there for orientation
THINNEST = 0.25  # of the widest axis in space: thinner boxes have no room for their labels
TICKS = 6  # along the widest axis
ROOM = 0.86  # of an Axes for the box in space: the rest is for labels, which matplotlib does not count in


def fitted(gpa: Any) -> GPA:
    """The estimator, if it is one and fitted."""
    if not isinstance(gpa, GPA):
        raise InvalidSetting(
            f"found {type(gpa).__name__}; expected a fitted estimator, such as KernelGPA().fit(points)"
        )
    if not hasattr(gpa, "warps_"):
        raise NotFitted(f"this {type(gpa).__name__} is not fitted; call fit(points) first")
    return gpa


def points_of(values: npt.ArrayLike, what: str, axes: int) -> Array:
    """Real points in 2D or 3D, in an array of so many axes."""
    array = masked_as_nan(values)
    if array.ndim != axes or array.shape[-1] not in (2, 3) or array.dtype.kind not in "fiub":
        expected = "(clouds, points, 2 or 3)" if axes == 3 else "(points, 2 or 3)"
        raise InvalidObservations(f"{what} have shape {array.shape} and type {array.dtype}; expected {expected}, real")
    if not finite_rows(array).any():
        raise InvalidObservations(f"{what} hold no finite point, so there is nothing to draw")
    return array.astype(np.float64)


def corners(faces: npt.ArrayLike, count: int, what: str) -> IndexArray:  # (f, 3)
    """Triangles as three indices each, below ``count``."""
    array = np.asarray(faces)
    if array.ndim != 2 or array.shape[1] != 3 or array.dtype.kind not in "iu":
        raise InvalidObservations(
            f"faces have shape {array.shape} and type {array.dtype}; expected (faces, 3) whole numbers"
        )
    if array.size and not 0 <= array.min() <= array.max() < count:
        raise InvalidObservations(
            f"faces name {what} {array.min()} to {array.max()}; there are {count}, counted from 0"
        )
    return array.astype(np.intp)


def one_each(values: npt.ArrayLike, count: int, what: str) -> Array:  # (count,)
    """Real numbers, one for each of ``count`` things."""
    array = masked_as_nan(values)
    if array.shape != (count,) or array.dtype.kind not in "fiub":
        raise InvalidObservations(
            f"values have shape {array.shape} and type {array.dtype}; expected ({count},), one number a {what}"
        )
    return array.astype(np.float64)


def plain_axes(ax: Axes | None) -> Axes:
    """The Axes given, which must be a plane, or a new one."""
    return axes_for(2, ax)


def axes_for(dimension: int, ax: Axes | None) -> Axes:
    """The Axes given, or a new one in a figure of its own."""
    if ax is None:
        figure = Figure(figsize=(7.2, 5.0), layout="constrained")
        return figure.add_subplot(projection="3d" if dimension == 3 else None)
    if not isinstance(ax, Axes):
        raise InvalidSetting(f"ax is a {type(ax).__name__}; expected a matplotlib Axes, or None for a new figure")
    if in_space(ax) and dimension == 2:
        raise InvalidSetting("ax is one of space, but what is to be drawn is plane; give a plane Axes")
    return ax


def in_space(ax: Axes) -> bool:
    return bool(ax.name == "3d")


def columns(ax: Axes, points: Array) -> Array:  # (k, d) -> (3 or 2, k)
    """The coordinates that the Axes shows."""
    return points[:, : 3 if in_space(ax) else 2].T


def dots(ax: Axes, points: Array, **style: Any) -> Any:
    """The points of ``points`` (k, d) that are known."""
    true_colours = {"depthshade": False} if in_space(ax) else {}
    return ax.scatter(*columns(ax, points[finite_rows(points)]), **{"linewidths": 0, **true_colours, **style})


def coloured_dots(ax: Axes, points: Array, values: Array, label: str, **style: Any) -> Any:
    """Points coloured by their values (k,), with a bar; those without a value are hollow."""
    drawn = finite_rows(points) & ~np.isnan(values)
    blank = finite_rows(points) & np.isnan(values)
    if blank.any():
        dots(ax, points[blank], s=26, facecolors="white", edgecolors="0.3", linewidths=1.0, label="no value")
        ax.legend(loc="upper left", fontsize="small", frameon=False)
    if not drawn.any():
        return None
    colours, beyond = scale_of(values[drawn]), np.isinf(values[drawn]).any()
    within = np.minimum(values[drawn], float(colours.vmax or 0.0))  # infinite ones get the last colour
    shown = dots(ax, points[drawn], c=within, norm=colours, cmap=COLOURS, **{"s": 22, **style})
    colour_bar(ax, shown, label, "max" if beyond else "neither")
    return shown


def scale_of(values: Array) -> Normalize:
    finite = values[np.isfinite(values)]
    return Normalize(finite.min(), finite.max()) if len(finite) else Normalize(0.0, 1.0)


def colour_bar(ax: Axes, drawn: Any, label: str, extend: str = "neither", **more: Any) -> Any:
    """A bar beside the Axes; that of a plane is as high as what is left of it at equal scales."""
    place: dict[str, Any] = {"ax": ax, "shrink": 0.7, "pad": 0.1, "aspect": 18}
    if not in_space(ax):
        place = {"cax": ax.inset_axes((1.03, 0.0, 0.035, 1.0))}
    return ax.figure.colorbar(drawn, label=label, extend=extend, **place, **more)


def polygons(ax: Axes, corners: Array, **style: Any) -> Any:  # (f, c, d)
    """Filled polygons of c corners each, behind all points."""
    if not in_space(ax):
        drawn = ax.add_collection(PolyCollection(list(corners[:, :, :2]), zorder=0.5, **style))
        ax.autoscale_view()
        return drawn
    ax.computed_zorder = False  # type: ignore[attr-defined]  # a surface as a whole would hide points in front of it
    drawn = ax.add_collection3d(Poly3DCollection(corners, zorder=0.5, **style))  # type: ignore[attr-defined]
    ax.auto_scale_xyz(*corners.reshape(-1, 3).T)  # type: ignore[attr-defined]
    return drawn


def joined(lines: list[Array]) -> Array:
    """Lines one after another with a NaN between them, so that one stroke draws them all."""
    gap = np.full((1, lines[0].shape[1]), np.nan)
    return np.concatenate([part for line in lines for part in (line, gap)])[:-1]


def measured(quantity: str, unit: str) -> str:
    """The name of a quantity with its unit, if there is one."""
    return f"{quantity} ({unit})" if unit else quantity


def lay_out(ax: Axes, title: str, unit: str) -> Axes:
    """Labels, and the same scale along all axes."""
    ax.set(xlabel=measured("x", unit), ylabel=measured("y", unit))
    if not in_space(ax):
        ax.set_title(title)
        ax.set_aspect("equal")
        ax.spines[["top", "right"]].set_visible(False)
        return ax
    space: Any = ax
    space.set_title(title, y=0.96)
    space.set_zlabel(measured("z", unit))
    limits = np.array([space.get_xlim(), space.get_ylim(), space.get_zlim()])
    spans = np.ptp(limits, axis=1)
    wanted = np.maximum(spans, THINNEST * spans.max())
    middle = limits.mean(axis=1)
    for i, name in enumerate("xyz"):
        if wanted[i] > spans[i]:
            space.set(**{f"{name}lim": (middle[i] - wanted[i] / 2, middle[i] + wanted[i] / 2)})
        axis = getattr(space, f"{name}axis")
        axis.set_major_locator(MaxNLocator(2 + round((TICKS - 2) * wanted[i] / wanted.max()), steps=[1, 2, 2.5, 5, 10]))
        axis.set_tick_params(labelsize="small")
        axis.labelpad = 7 if name != "z" else 4
    space.set_aspect("equal")
    space.set_box_aspect(wanted, zoom=ROOM)
    return ax

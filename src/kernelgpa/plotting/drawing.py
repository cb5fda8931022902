"""What all plots share: checks of their input, Axes of the right kind, points and lines, labels, equal scales.

d is the dimension of the data, 2 or 3.  3D data are drawn on 3D Axes, or on 2D Axes projected along the last axis.
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

from ..errors import InvalidObservations, InvalidSetting
from ..estimators.base import GPA
from ..observations.arrays import finite_rows, masked_as_nan
from ..typing import Array, IndexArray

COLOUR_MAP = "viridis"
BACKGROUND_COLOUR = "0.65"  # of points that are drawn for orientation
THINNEST_AXIS = 0.25  # of the widest axis in 3D: thinner boxes have no room for their labels
TICKS = 6  # along the widest axis
ZOOM_3D = 0.86  # leaves room for the labels of 3D Axes, which matplotlib's layout does not count


def fitted(gpa: Any) -> GPA:
    """Return the estimator; raise an error unless it is one and fitted."""
    if not isinstance(gpa, GPA):
        raise InvalidSetting(
            f"found {type(gpa).__name__}; expected a fitted estimator, such as KernelGPA().fit(points)"
        )
    _ = gpa.observations_  # raises NotFitted if it is not fitted
    return gpa


def points_of(values: npt.ArrayLike, what: str, axes: int) -> Array:
    """Return real points in 2D or 3D, in an array with this number of axes; raise an error otherwise."""
    array = masked_as_nan(values)
    if array.ndim != axes or array.shape[-1] not in (2, 3) or array.dtype.kind not in "fiub":
        expected = "(clouds, points, 2 or 3)" if axes == 3 else "(points, 2 or 3)"
        raise InvalidObservations(f"{what} have shape {array.shape} and type {array.dtype}; expected {expected}, real")
    if not finite_rows(array).any():
        raise InvalidObservations(f"{what} hold no finite point; give at least one to draw")
    return array.astype(np.float64)


def corners(faces: npt.ArrayLike, count: int, what: str) -> IndexArray:  # (f, 3)
    """Return triangles as three indices each, below ``count``; raise an error otherwise."""
    array = np.asarray(faces)
    if array.ndim != 2 or array.shape[1] != 3 or array.dtype.kind not in "iu":
        raise InvalidObservations(
            f"faces have shape {array.shape} and type {array.dtype}; expected (faces, 3) integers"
        )
    if array.size and not 0 <= array.min() <= array.max() < count:
        raise InvalidObservations(
            f"faces name {what} {array.min()} to {array.max()}; there are {count}, counted from 0"
        )
    return array.astype(np.intp)


def one_value_per(what: str, values: npt.ArrayLike, count: int) -> Array:  # (count,)
    """Return real numbers, one for each of ``count`` landmarks or vertices; raise an error otherwise."""
    array = masked_as_nan(values)
    if array.shape != (count,) or array.dtype.kind not in "fiub":
        raise InvalidObservations(
            f"values have shape {array.shape} and type {array.dtype}; expected ({count},), one number per {what}"
        )
    return array.astype(np.float64)


def axes_2d(ax: Axes | None) -> Axes:
    """The Axes given, which must be 2D, or new ones."""
    return axes_for(2, ax)


def axes_for(dimension: int, ax: Axes | None) -> Axes:
    """The Axes given, or those of a new figure."""
    if ax is None:
        figure = Figure(figsize=(7.2, 5.0), layout="constrained")
        return figure.add_subplot(projection="3d" if dimension == 3 else None)
    if not isinstance(ax, Axes):
        raise InvalidSetting(f"ax is a {type(ax).__name__}; expected a matplotlib Axes, or None for a new figure")
    if is_3d(ax) and dimension == 2:
        raise InvalidSetting("ax is 3D, but the data are 2D; give 2D Axes")
    return ax


def is_3d(ax: Axes) -> bool:
    return bool(ax.name == "3d")


def columns(ax: Axes, points: Array) -> Array:  # (k, d) -> (3 or 2, k)
    """The coordinates that the Axes show."""
    return points[:, : 3 if is_3d(ax) else 2].T


def dots(ax: Axes, points: Array, **style: Any) -> Any:
    """Draw those of ``points`` (k, d) that are not NaN."""
    unshaded = {"depthshade": False} if is_3d(ax) else {}
    return ax.scatter(*columns(ax, points[finite_rows(points)]), **{"linewidths": 0, **unshaded, **style})


def coloured_dots(ax: Axes, points: Array, values: Array, label: str, **style: Any) -> Any:
    """Draw points coloured by their values (k,), with a colour bar; those without a value are hollow."""
    drawn = finite_rows(points) & ~np.isnan(values)
    blank = finite_rows(points) & np.isnan(values)
    if blank.any():
        dots(ax, points[blank], s=26, facecolors="white", edgecolors="0.3", linewidths=1.0, label="no value")
        ax.legend(loc="upper left", fontsize="small", frameon=False)
    if not drawn.any():
        return None
    norm, has_infinite = finite_range(values[drawn]), np.isinf(values[drawn]).any()
    clipped = np.minimum(values[drawn], float(norm.vmax or 0.0))  # infinite values have the last colour
    shown = dots(ax, points[drawn], c=clipped, norm=norm, cmap=COLOUR_MAP, **{"s": 22, **style})
    colour_bar(ax, shown, label, "max" if has_infinite else "neither")
    return shown


def finite_range(values: Array) -> Normalize:
    finite = values[np.isfinite(values)]
    return Normalize(finite.min(), finite.max()) if len(finite) else Normalize(0.0, 1.0)


def colour_bar(ax: Axes, drawn: Any, label: str, extend: str = "neither", **more: Any) -> Any:
    """Draw a colour bar beside the Axes; beside 2D Axes it keeps their height, which equal scales may reduce."""
    position: dict[str, Any] = {"ax": ax, "shrink": 0.7, "pad": 0.1, "aspect": 18}
    if not is_3d(ax):
        position = {"cax": ax.inset_axes((1.03, 0.0, 0.035, 1.0))}
    return ax.figure.colorbar(drawn, label=label, extend=extend, **position, **more)


def polygons(ax: Axes, corners: Array, **style: Any) -> Any:  # (f, c, d)
    """Draw filled polygons of c corners each, behind all points."""
    if not is_3d(ax):
        drawn = ax.add_collection(PolyCollection(list(corners[:, :, :2]), zorder=0.5, **style))
        ax.autoscale_view()
        return drawn
    ax.computed_zorder = False  # type: ignore[attr-defined]  # matplotlib would draw the whole surface over points in front of it
    drawn = ax.add_collection3d(Poly3DCollection(corners, zorder=0.5, **style))  # type: ignore[attr-defined]
    ax.auto_scale_xyz(*corners.reshape(-1, 3).T)  # type: ignore[attr-defined]
    return drawn


def joined(lines: list[Array]) -> Array:
    """Lines one after another with a NaN between them, so that one call draws them all."""
    gap = np.full((1, lines[0].shape[1]), np.nan)
    return np.concatenate([part for line in lines for part in (line, gap)])[:-1]


def with_unit(quantity: str, unit: str) -> str:
    """The name of a quantity with its unit, if there is one."""
    return f"{quantity} ({unit})" if unit else quantity


def finish(ax: Axes, title: str, unit: str) -> Axes:
    """Set the title and the labels, and equal scales along all axes."""
    ax.set(xlabel=with_unit("x", unit), ylabel=with_unit("y", unit))
    if is_3d(ax):
        _finish_3d(ax, title, unit)
        return ax
    ax.set_title(title)
    ax.set_aspect("equal")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _finish_3d(ax: Any, title: str, unit: str) -> None:
    ax.set_title(title, y=0.96)
    ax.set_zlabel(with_unit("z", unit))
    limits = np.array([ax.get_xlim(), ax.get_ylim(), ax.get_zlim()])
    spans = np.ptp(limits, axis=1)
    wanted = np.maximum(spans, THINNEST_AXIS * spans.max())
    middle = limits.mean(axis=1)
    for i, (name, axis) in enumerate({"x": ax.xaxis, "y": ax.yaxis, "z": ax.zaxis}.items()):
        if wanted[i] > spans[i]:
            ax.set(**{f"{name}lim": (middle[i] - wanted[i] / 2, middle[i] + wanted[i] / 2)})
        axis.set_major_locator(MaxNLocator(2 + round((TICKS - 2) * wanted[i] / wanted.max()), steps=[1, 2, 2.5, 5, 10]))
        axis.set_tick_params(labelsize="small")
        axis.labelpad = 7 if name != "z" else 4
    ax.set_aspect("equal")
    ax.set_box_aspect(wanted, zoom=ZOOM_3D)

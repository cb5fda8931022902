"""Positions of landmarks, clouds and sensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke

from ..errors import InvalidSetting
from ..estimators.base import GPA
from ..observations.arrays import finite_rows
from ..trust.agreement import Agreement
from ..typing import Array
from .drawing import (
    BACKGROUND_COLOUR,
    axes_for,
    coloured_dots,
    columns,
    corners,
    dots,
    finish,
    fitted,
    is_3d,
    joined,
    one_value_per,
    points_of,
    polygons,
    with_unit,
)

AXIS_COLOURS = ("crimson", "forestgreen", "royalblue")  # x, y, z
AXIS_LENGTH = 0.12  # of the largest extent of the plot
MOST_SENSOR_LABELS = 12  # sensors that are each named


def map_of(
    gpa: GPA,
    colours: str | npt.ArrayLike | None = None,
    faces: npt.ArrayLike | None = None,  # (f, 3) landmark indices
    ax: Axes | None = None,
    title: str = "",
    unit: str = "",
    label: str = "",
) -> Axes:
    """Draw the landmarks of the map.  Landmarks that no cloud saw are omitted.

    Parameters
    ----------
    gpa : GPA
        A fitted estimator.
    colours : str or array_like of shape (m,), optional
        "consistency" colours landmarks by the disagreement of the clouds in the map (:func:`metrics.consistency`),
        "sensor" by the same in the clouds' own frames (:func:`metrics.sensor_error`), an array by its values.
        Landmarks without a value are hollow.
    faces : array_like of shape (f, 3), optional
        Triangles between landmarks; those with a landmark that is not in the map are omitted.
    ax : Axes, optional
        Axes to draw on; by default those of a new figure.
    title, unit : str, optional
        Title of the plot, and unit of the coordinates.
    label : str, optional
        Name of the values that colour the landmarks.

    Examples
    --------
    >>> from kernelgpa import KernelGPA, plotting, simulate
    >>> scene = simulate.liver(clouds=5, landmarks=60, hidden=0.2, noise=0.5, vertices=202)
    >>> gpa = KernelGPA().fit(scene.points)
    >>> ax = plotting.map_of(gpa, colours="sensor", unit="mm")
    >>> ax.get_xlabel()
    'x (mm)'
    """
    positions = fitted(gpa).map_
    values, name = _values(gpa, colours, label)
    triangles = None if faces is None else corners(faces, len(positions), "landmarks")
    ax = axes_for(positions.shape[1], ax)
    if triangles is not None:
        complete = triangles[finite_rows(positions)[triangles].all(axis=1)]
        edges = {"shade": True} if is_3d(ax) else {"edgecolors": "0.7", "linewidths": 0.4}
        polygons(ax, positions[complete], facecolors="whitesmoke", alpha=0.6, **edges)
    if values is None:
        dots(ax, positions, s=16, color="C0")
    else:
        coloured_dots(ax, positions, values, with_unit(name, unit if isinstance(colours, str) else ""))
    return finish(ax, title, unit)


def _values(gpa: GPA, colours: Any, label: str) -> tuple[Array | None, str]:
    """The values that colour the landmarks (m,), and their name."""
    if colours is None:
        return None, ""
    if not isinstance(colours, str):
        return one_value_per("landmark", colours, len(gpa.map_)), label
    if colours == "consistency":
        return Agreement(gpa).per_landmark.in_map, label or "disagreement in the map"
    if colours == "sensor":
        return Agreement(gpa).per_landmark.in_sensor_frame, label or "sensor-frame error"
    raise InvalidSetting(
        f"colours is {colours!r}; expected None, 'consistency', 'sensor' or an array with one number per landmark"
    )


def clouds(
    points: GPA | npt.ArrayLike,  # (n, k, d)
    ax: Axes | None = None,
    title: str = "",
    unit: str = "",
    groups: Sequence[str] | None = None,
) -> Axes:
    """Draw all clouds in one frame, each in its own colour, or in that of its group.

    Parameters
    ----------
    points : GPA or array_like of shape (n, k, d)
        A fitted estimator, whose clouds are drawn in its map, or points that are drawn as they are; NaN where unseen.
    ax : Axes, optional
        Axes to draw on; by default those of a new figure.
    title, unit : str, optional
        Title of the plot, and unit of the coordinates.
    groups : sequence of str, optional
        One name per cloud, such as its species; a legend explains the colours.

    Examples
    --------
    >>> from kernelgpa import KernelGPA, plotting, simulate
    >>> scene = simulate.liver(clouds=5, landmarks=60, vertices=202)
    >>> before = plotting.clouds(scene.points, title="as measured", unit="mm")
    >>> after = plotting.clouds(KernelGPA().fit(scene.points), title="registered", unit="mm")
    >>> after.figure.savefig("registered.png")  # doctest: +SKIP
    """
    shown = fitted(points).transform_clouds(points.observations_.points) if isinstance(points, GPA) else points
    array = points_of(shown, "clouds", axes=3)
    ax = axes_for(array.shape[2], ax)
    own = mpl.colormaps["turbo"](np.linspace(0.05, 0.95, len(array)))
    own = own if groups is None else _grouped(ax, groups, len(array))
    colours = np.repeat(own, array.shape[1], axis=0)
    flat = array.reshape(-1, array.shape[2])
    shuffled = np.random.default_rng(0).permutation(len(flat))  # in the order of the clouds, the last would hide others
    shuffled = shuffled[finite_rows(flat[shuffled])]
    dots(ax, flat[shuffled], s=7, color=colours[shuffled], alpha=0.8)
    return finish(ax, title, unit)


def _grouped(ax: Axes, groups: Sequence[str], count: int) -> Array:  # (n, 4)
    """The colour of each cloud's group, explained by a legend."""
    if isinstance(groups, str) or len(groups) != count:
        raise InvalidSetting(f"groups has {len(groups)} names for {count} clouds; give one name per cloud")
    names = sorted({str(group) for group in groups})
    palette = mpl.colormaps["tab10" if len(names) <= 10 else "turbo"]
    shades = palette(np.arange(len(names)) if len(names) <= 10 else np.linspace(0.05, 0.95, len(names)))
    colour = dict(zip(names, shades, strict=True))
    handles = [Line2D([], [], linestyle="", marker="o", color=colour[name], label=name) for name in names]
    ax.legend(loc="best", handles=handles, frameon=False)
    return np.array([colour[str(group)] for group in groups])


def side_by_side(panels: Mapping[str, Array], unit: str = "") -> Figure:
    """Draw several sets of clouds in panels of the same scale, projected along the last axis.

    Parameters
    ----------
    panels : mapping from str to array_like of shape (n, k, d)
        The title and the points of each panel.
    unit : str, optional
        Unit of the coordinates.

    Examples
    --------
    >>> from kernelgpa import KernelGPA, plotting, simulate
    >>> scene = simulate.liver(clouds=5, landmarks=60, vertices=202)
    >>> gpa = KernelGPA().fit(scene.points)
    >>> panels = {"as measured": scene.points, "registered": gpa.transform_clouds(scene.points)}
    >>> figure = plotting.side_by_side(panels, unit="mm")
    >>> [ax.get_title() for ax in figure.axes]
    ['as measured', 'registered']
    """
    if not isinstance(panels, Mapping) or not panels:
        raise InvalidSetting(
            "panels is empty or not a mapping; expected points (clouds, points, dimension) for each title"
        )
    shown = {title: _centred(points_of(points, f"clouds {title!r}", axes=3)) for title, points in panels.items()}
    width, height = (1.06 * max(float(np.nanmax(np.abs(p[:, :, i]))) for p in shown.values()) for i in (0, 1))
    figure = Figure(figsize=(4.6 * len(shown), 0.8 + 4.0 * height / width), layout="constrained", dpi=130)
    axes: Any = figure.subplots(1, len(shown), squeeze=False)[0]
    for ax, (title, points) in zip(axes, shown.items(), strict=True):
        clouds(points, ax, title, unit)
        ax.set(xlim=(-width, width), ylim=(-height, height))
    return figure


def _centred(points: Array) -> Array:
    return points - np.nanmean(points, axis=(0, 1))


def trajectory(gpa: GPA, ax: Axes | None = None, title: str = "", unit: str = "") -> Axes:
    """Draw the sensor positions in the order of the clouds, with the axes of their frames, around the map (grey).

    The position of a sensor is the origin of its cloud's frame, which its pose maps to ``translations_``; its axes are
    the columns of ``rotations_``.  A ring marks clouds that fit only as mirror images.

    Parameters
    ----------
    gpa : GPA
        A fitted estimator.
    ax : Axes, optional
        Axes to draw on; by default those of a new figure.
    title, unit : str, optional
        Title of the plot, and unit of the coordinates.

    Examples
    --------
    >>> from kernelgpa import RigidGPA, plotting, simulate
    >>> scene = simulate.liver(clouds=8, landmarks=60, vertices=202)
    >>> ax = plotting.trajectory(RigidGPA().fit(scene.points), unit="mm")
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['map', 'sensors', 'x axis', 'y axis', 'z axis']
    """
    landmarks, origins = fitted(gpa).map_, gpa.translations_
    d = landmarks.shape[1]
    ax = axes_for(d, ax)
    everything = np.vstack([landmarks, origins])
    length = AXIS_LENGTH * float(np.max(np.nanmax(everything, axis=0) - np.nanmin(everything, axis=0)))
    dots(ax, landmarks, s=6, color=BACKGROUND_COLOUR, label="map")
    ax.plot(*columns(ax, origins), "o-", color="0.25", linewidth=0.8, markersize=3.5, label="sensors")
    for i, colour in enumerate(AXIS_COLOURS[:d]):
        lines = joined([np.stack([o, o + length * R[:, i]]) for o, R in zip(origins, gpa.rotations_, strict=True)])
        ax.plot(*columns(ax, lines), color=colour, linewidth=1.6, label=f"{'xyz'[i]} axis")
    mirrored = [gpa.observations_.cloud_index(name) for name in gpa.mirrored_]
    if mirrored:
        ring: dict[str, Any] = {"s": 90, "facecolors": "none", "edgecolors": "darkorange", "linewidths": 1.6}
        dots(ax, origins[mirrored], label="mirror image", **ring)
    _label_sensors(ax, gpa, 0.45 * length)
    finish(ax, title, unit)
    outside: dict[str, Any] = {"loc": "center left", "bbox_to_anchor": (1, 0.5)}
    ax.legend(fontsize="small", frameon=False, **({"loc": "upper left"} if is_3d(ax) else outside))
    return ax


def _label_sensors(ax: Axes, gpa: GPA, distance: float) -> None:
    """Draw names beside the sensors, opposite to their axes; if there are many, only the first and the last."""
    n, d = len(gpa.translations_), gpa.map_.shape[1]
    positions = gpa.translations_ - distance / np.sqrt(d) * gpa.rotations_.sum(axis=2)
    for t in range(n) if n <= MOST_SENSOR_LABELS else (0, n - 1):
        text: list[Any] = [*columns(ax, positions[t : t + 1])[:, 0], str(gpa.observations_.names[t])]
        halo = [withStroke(linewidth=2.5, foreground="white")]
        ax.text(*text, fontsize="small", ha="center", va="center", zorder=10, path_effects=halo)

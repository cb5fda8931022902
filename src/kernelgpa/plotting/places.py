"""Where things are: the map, the clouds, the sensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke

from ..errors import InvalidSetting
from ..estimators.base import GPA
from ..observations.arrays import finite_rows
from ..trust.agreement import Agreement
from ..typing import Array
from .drawing import (
    FAINT,
    axes_for,
    coloured_dots,
    columns,
    corners,
    dots,
    fitted,
    in_space,
    joined,
    lay_out,
    measured,
    one_each,
    points_of,
    polygons,
)

AXIS_COLOURS = ("crimson", "forestgreen", "royalblue")  # x, y, z, as everywhere
AXIS_LENGTH = 0.12  # of the width of everything shown
MOST_NAMES = 12  # more sensors than these are not named one by one


def map_of(
    gpa: GPA,
    colours: str | npt.ArrayLike | None = None,
    faces: npt.ArrayLike | None = None,  # (f, 3) landmark indices
    ax: Axes | None = None,
    title: str = "",
    unit: str = "",
    label: str = "",
) -> Axes:
    """The map: every landmark where the clouds together put it.  Landmarks that nobody saw are left out.

    colours : None; "consistency", how far apart the clouds put a landmark (:func:`metrics.consistency`); "sensor", the
        same in the clouds' own frames (:func:`metrics.sensor_error`); or numbers, one a landmark, named by ``label``.
        A landmark without a value is hollow.
    faces : triangles between landmarks; those with a landmark that is not in the map are left out.

    >>> from kernelgpa import KernelGPA, plotting, simulate
    >>> scene = simulate.liver(clouds=5, landmarks=60, hidden=0.2, noise=0.5, vertices=202)
    >>> gpa = KernelGPA().fit(scene.points)
    >>> ax = plotting.map_of(gpa, colours="sensor", unit="mm")
    >>> ax.get_xlabel()
    'x (mm)'
    """
    places = fitted(gpa).map_
    values, name = _values(gpa, colours, label)
    triangles = None if faces is None else corners(faces, len(places), "landmarks")
    ax = axes_for(places.shape[1], ax)
    if triangles is not None:
        whole = triangles[finite_rows(places)[triangles].all(axis=1)]
        edges = {"shade": True} if in_space(ax) else {"edgecolors": "0.7", "linewidths": 0.4}
        polygons(ax, places[whole], facecolors="whitesmoke", alpha=0.6, **edges)
    if values is None:
        dots(ax, places, s=16, color="C0")
    else:
        coloured_dots(ax, places, values, measured(name, unit if isinstance(colours, str) else ""))
    return lay_out(ax, title, unit)


def _values(gpa: GPA, colours: Any, label: str) -> tuple[Array | None, str]:
    """What colours stand for, one a landmark, and its name."""
    if colours is None:
        return None, ""
    if not isinstance(colours, str):
        return one_each(colours, len(gpa.map_), "landmark"), label
    if colours == "consistency":
        return Agreement(gpa).per_landmark.in_map, label or "spread of the clouds in the map"
    if colours == "sensor":
        return Agreement(gpa).per_landmark.in_sensor_frame, label or "sensor-frame error"
    raise InvalidSetting(
        f"colours is {colours!r}; expected None, 'consistency', 'sensor' or an array with one number a landmark"
    )


def clouds(
    points: GPA | npt.ArrayLike,  # (n, k, d), NaN where unseen
    ax: Axes | None = None,
    title: str = "",
    unit: str = "",
) -> Axes:
    """All clouds in one frame, a colour a cloud: points as they are, or those of a fitted estimator in its map.

    >>> from kernelgpa import KernelGPA, plotting, simulate
    >>> scene = simulate.liver(clouds=5, landmarks=60, vertices=202)
    >>> before = plotting.clouds(scene.points, title="as measured", unit="mm")
    >>> after = plotting.clouds(KernelGPA().fit(scene.points), title="registered", unit="mm")
    >>> after.figure.savefig("registered.png")  # doctest: +SKIP
    """
    shown = fitted(points).transform_clouds(points.observations_.points) if isinstance(points, GPA) else points
    array = points_of(shown, "clouds", axes=3)
    ax = axes_for(array.shape[2], ax)
    colours = np.repeat(mpl.colormaps["turbo"](np.linspace(0.05, 0.95, len(array))), array.shape[1], axis=0)
    flat = array.reshape(-1, array.shape[2])
    mixed = np.random.default_rng(0).permutation(len(flat))  # so that no cloud hides the others
    mixed = mixed[finite_rows(flat[mixed])]
    dots(ax, flat[mixed], s=7, color=colours[mixed], alpha=0.8)
    return lay_out(ax, title, unit)


def side_by_side(panels: Mapping[str, Array], unit: str = "") -> Figure:
    """One panel a set of clouds, all to the same scale, seen along the last axis.

    >>> from kernelgpa import KernelGPA, plotting, simulate
    >>> scene = simulate.liver(clouds=5, landmarks=60, vertices=202)
    >>> gpa = KernelGPA().fit(scene.points)
    >>> panels = {"as measured": scene.points, "registered": gpa.transform_clouds(scene.points)}
    >>> figure = plotting.side_by_side(panels, unit="mm")
    >>> [ax.get_title() for ax in figure.axes]
    ['as measured', 'registered']
    """
    if not isinstance(panels, Mapping) or not panels:
        raise InvalidSetting("panels: expected a title and points (clouds, points, dimension) for each panel")
    shown = {title: _centred(points_of(points, f"clouds {title!r}", axes=3)) for title, points in panels.items()}
    wide, high = (1.06 * max(float(np.nanmax(np.abs(p[:, :, i]))) for p in shown.values()) for i in (0, 1))
    figure = Figure(figsize=(4.6 * len(shown), 0.8 + 4.0 * high / wide), layout="constrained", dpi=130)
    axes: Any = figure.subplots(1, len(shown), squeeze=False)[0]
    for ax, (title, points) in zip(axes, shown.items(), strict=True):
        clouds(points, ax, title, unit)
        ax.set(xlim=(-wide, wide), ylim=(-high, high))
    return figure


def _centred(points: Array) -> Array:
    return points - np.nanmean(points, axis=(0, 1))


def trajectory(gpa: GPA, ax: Axes | None = None, title: str = "", unit: str = "") -> Axes:
    """Where the sensors stood about the map (grey), in the order of the clouds, with the axes of their frames.

    A sensor stands at the origin of its cloud, which its pose takes to ``translations_``; its axes are the columns
    of ``rotations_``.  Clouds that fit only as mirror images are ringed.

    >>> from kernelgpa import RigidGPA, plotting, simulate
    >>> scene = simulate.liver(clouds=8, landmarks=60, vertices=202)
    >>> ax = plotting.trajectory(RigidGPA().fit(scene.points), unit="mm")
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['map', 'sensors', 'x axis', 'y axis', 'z axis']
    """
    places, origins = fitted(gpa).map_, gpa.translations_
    d = places.shape[1]
    ax = axes_for(d, ax)
    everything = np.vstack([places, origins])
    length = AXIS_LENGTH * float(np.max(np.nanmax(everything, axis=0) - np.nanmin(everything, axis=0)))
    dots(ax, places, s=6, color=FAINT, label="map")
    ax.plot(*columns(ax, origins), "o-", color="0.25", linewidth=0.8, markersize=3.5, label="sensors")
    for i, colour in enumerate(AXIS_COLOURS[:d]):
        arms = joined([np.stack([o, o + length * R[:, i]]) for o, R in zip(origins, gpa.rotations_, strict=True)])
        ax.plot(*columns(ax, arms), color=colour, linewidth=1.6, label=f"{'xyz'[i]} axis")
    mirrored = [gpa.observations_.cloud_index(name) for name in gpa.mirrored_]
    if mirrored:
        rings = origins[mirrored]
        dots(ax, rings, s=90, facecolors="none", edgecolors="darkorange", linewidths=1.6, label="mirror image")
    _name_sensors(ax, gpa, 0.45 * length)
    lay_out(ax, title, unit)
    place: dict[str, Any] = (
        {"loc": "upper left"} if in_space(ax) else {"loc": "center left", "bbox_to_anchor": (1, 0.5)}
    )
    ax.legend(fontsize="small", frameon=False, **place)
    return ax


def _name_sensors(ax: Axes, gpa: GPA, off: float) -> None:
    """Names beside the sensors, on the side away from their axes; of many sensors the first and the last."""
    n, d = len(gpa.translations_), gpa.map_.shape[1]
    beside = gpa.translations_ - off / np.sqrt(d) * gpa.rotations_.sum(axis=2)
    for t in range(n) if n <= MOST_NAMES else (0, n - 1):
        name: list[Any] = [*columns(ax, beside[t : t + 1])[:, 0], str(gpa.observations_.names[t])]
        halo = [withStroke(linewidth=2.5, foreground="white")]
        ax.text(*name, fontsize="small", ha="center", va="center", zorder=10, path_effects=halo)

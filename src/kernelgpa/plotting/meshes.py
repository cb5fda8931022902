"""Surfaces that can be turned with the mouse, by PyVista."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InvalidObservations, InvalidSetting
from ..observations.arrays import finite_rows
from .drawing import COLOURS, corners, measured, one_each, points_of

BAR = {"position_x": 0.25, "position_y": 0.86, "width": 0.5, "height": 0.12, "n_labels": 2}
BAR_TEXT = {"title_font_size": 16, "label_font_size": 13}
BOUNDS = {"grid": "back", "location": "outer", "n_xlabels": 3, "n_ylabels": 3, "n_zlabels": 2, "font_size": 8}


def mesh(
    vertices: npt.ArrayLike,  # (v, 3)
    faces: npt.ArrayLike,  # (f, 3)
    values: npt.ArrayLike | None = None,  # (v,)
    label: str = "",
    unit: str = "",
    plotter: Any = None,
    **style: Any,
) -> Any:
    """A surface of triangles on a PyVista plotter, coloured by ``values``, one a vertex; show it with ``.show()``.

    Needs PyVista: ``pip install 'kernelgpa[mesh3d]'``.  Triangles with a vertex that is NaN are left out.

    label : what the values are; ``unit`` follows it, and stands at the axes.
    plotter : a pyvista.Plotter to draw on; None: a new one.
    style : whatever else ``Plotter.add_mesh`` takes, such as ``opacity=0.5``.

    >>> from kernelgpa import KernelGPA, metrics, plotting, simulate
    >>> scene = simulate.liver(clouds=5, landmarks=60, vertices=202)
    >>> surface = KernelGPA().fit(scene.points).transform_clouds(scene.surfaces)
    >>> off = metrics.consistency(surface)
    >>> plotter = plotting.mesh(surface[0], scene.faces, off, "spread", unit="mm")  # doctest: +SKIP
    >>> plotter.show()  # doctest: +SKIP
    """
    points = points_of(vertices, "vertices", axes=2)
    if points.shape[1] != 3:
        raise InvalidObservations("vertices are plane; a mesh lies in space: draw plane triangles with map_of(faces=)")
    triangles = corners(faces, len(points), "vertices")
    colours = None if values is None else one_each(values, len(points), "vertex")
    known = finite_rows(points)
    whole = triangles[known[triangles].all(axis=1)]
    pyvista = _pyvista()
    renumbered = np.cumsum(known) - 1
    surface = pyvista.PolyData.from_regular_faces(points[known], renumbered[whole])
    plotter = pyvista.Plotter() if plotter is None else plotter
    if colours is None:
        plotter.add_mesh(surface, **{"color": "lightgrey", **style})
    else:
        bar = {"title": measured(label or "value", unit), **BAR, **BAR_TEXT}
        given = {"scalars": colours[known], "cmap": COLOURS, "nan_color": "lightgrey", "scalar_bar_args": bar}
        plotter.add_mesh(surface, **{**given, **style})
    plotter.show_bounds(**{f"{axis}title": measured(axis, unit) for axis in "xyz"}, **BOUNDS)
    return plotter


def _pyvista() -> Any:
    try:
        import pyvista
    except ImportError:
        raise InvalidSetting("mesh needs PyVista; install it with: pip install 'kernelgpa[mesh3d]'") from None
    return pyvista

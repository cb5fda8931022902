"""Interactive surfaces, by PyVista."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InvalidObservations, InvalidSetting
from ..observations.arrays import finite_rows
from .drawing import COLOUR_MAP, corners, one_value_per, points_of, with_unit

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
    """Draw a triangle mesh on a PyVista plotter; show it with ``.show()``.

    Needs PyVista: ``pip install 'kernelgpa[mesh3d]'``.  Triangles with a vertex that is NaN are omitted.

    Parameters
    ----------
    vertices : array_like of shape (v, 3)
    faces : array_like of shape (f, 3)
        Vertex indices.
    values : array_like of shape (v,), optional
        Numbers that colour the vertices.
    label : str, optional
        Name of the values.
    unit : str, optional
        Unit of the coordinates and of the values.
    plotter : pyvista.Plotter, optional
        Plotter to draw on; by default a new one.
    **style
        Further arguments of ``Plotter.add_mesh``, such as ``opacity=0.5``.

    Examples
    --------
    >>> from kernelgpa import KernelGPA, metrics, plotting, simulate
    >>> scene = simulate.liver(clouds=5, landmarks=60, vertices=202)
    >>> surface = KernelGPA().fit(scene.points).transform_clouds(scene.surfaces)
    >>> disagreement = metrics.consistency(surface)
    >>> plotter = plotting.mesh(surface[0], scene.faces, disagreement, "disagreement", unit="mm")  # doctest: +SKIP
    >>> plotter.show()  # doctest: +SKIP
    """
    points = points_of(vertices, "vertices", axes=2)
    if points.shape[1] != 3:
        raise InvalidObservations("vertices are 2D, but a mesh is 3D; draw 2D triangles with map_of(faces=...)")
    triangles = corners(faces, len(points), "vertices")
    colours = None if values is None else one_value_per("vertex", values, len(points))
    known = finite_rows(points)
    complete = triangles[known[triangles].all(axis=1)]
    pyvista = _pyvista()
    new_index = np.cumsum(known) - 1
    surface = pyvista.PolyData.from_regular_faces(points[known], new_index[complete])
    plotter = pyvista.Plotter() if plotter is None else plotter
    if colours is None:
        plotter.add_mesh(surface, **{"color": "lightgrey", **style})
    else:
        bar = {"title": with_unit(label or "value", unit), **BAR, **BAR_TEXT}
        coloured = {"scalars": colours[known], "cmap": COLOUR_MAP, "nan_color": "lightgrey", "scalar_bar_args": bar}
        plotter.add_mesh(surface, **{**coloured, **style})
    plotter.show_bounds(**{f"{axis}title": with_unit(axis, unit) for axis in "xyz"}, **BOUNDS)
    return plotter


def _pyvista() -> Any:
    try:
        import pyvista
    except ImportError:
        raise InvalidSetting("plotting.mesh needs PyVista; install it with: pip install 'kernelgpa[mesh3d]'") from None
    return pyvista

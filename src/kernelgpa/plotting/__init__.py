"""Plots of a registration, by matplotlib and PyVista.

A fitted estimator, points, a tuning or an uncertainty enters.  Each function draws on the Axes it is given, or on a new
figure that pyplot does not manage, and returns the Axes (``warps`` and ``side_by_side`` the Figure, ``mesh`` a PyVista
plotter).  Lengths are labelled with ``unit``.  3D data are drawn in 3D or, on 2D Axes, projected along the last axis.
No equations live here; errors come from ``trust.agreement``.  Show or save a plot with ``ax.figure``::

    ax = plotting.map_of(gpa, colours="sensor", unit="mm")
    ax.figure.savefig("map.png")
"""

from .charts import spectrum, tuning_surface, visibility
from .confidence_regions import uncertainty
from .grids import warp_grid, warps
from .meshes import mesh
from .positions import clouds, map_of, side_by_side, trajectory
from .shapes import mode_shapes, score_scatter, scree

__all__ = [
    "clouds",
    "map_of",
    "mesh",
    "mode_shapes",
    "score_scatter",
    "scree",
    "side_by_side",
    "spectrum",
    "trajectory",
    "tuning_surface",
    "uncertainty",
    "visibility",
    "warp_grid",
    "warps",
]

"""Plots of a registration, by matplotlib and PyVista.

In:   a fitted estimator, points, a tuning or an uncertainty, and optionally the Axes to draw on.
Out:  the Axes, those given or of a new figure that pyplot does not manage (``warps`` and ``side_by_side`` return the
      Figure, ``mesh`` a PyVista plotter).
Equations of docs/theory.md: none; errors come from ``trust.agreement``.

Lengths are labelled with ``unit``.  3D data are drawn in 3D or, on 2D Axes, projected along the last axis.  Show or
save a plot with ``ax.figure``::

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

"""Pictures of a registration.

Each function takes an Axes or makes a figure of its own, apart from pyplot, and returns the Axes (``warps`` and
``side_by_side`` the Figure, ``mesh`` a PyVista plotter); it computes nothing but the drawing.  Lengths are
labelled with ``unit``.  What lies in space is drawn in space, or, on a plane Axes, as seen along the last axis.
Show or save a picture with ``ax.figure``::

    ax = plotting.map_of(gpa, colours="sensor", unit="mm")
    ax.figure.savefig("map.png")
"""

from .charts import spectrum, tuning_surface, visibility
from .grids import warp_grid, warps
from .meshes import mesh
from .places import clouds, map_of, side_by_side, trajectory
from .regions import uncertainty

__all__ = [
    "clouds",
    "map_of",
    "mesh",
    "side_by_side",
    "spectrum",
    "trajectory",
    "tuning_surface",
    "uncertainty",
    "visibility",
    "warp_grid",
    "warps",
]

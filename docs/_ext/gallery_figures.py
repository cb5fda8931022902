"""Find the figures of gallery examples.  Those of ``kernelgpa.plotting`` are not managed by pyplot."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from sphinx_gallery.scrapers import figure_rst


def _get_sg_image_scraper() -> Any:
    """The function that sphinx-gallery calls after each block of an example."""
    return save_new_figures


def save_new_figures(block: Any, variables: dict[str, Any], settings: dict[str, Any]) -> str:
    """Save every figure that the block assigned to a variable, and return the directives that show them."""
    names = variables["example_globals"]
    known = names.setdefault("__known_figures__", [])
    paths = []
    for value in list(names.values()):
        figure = value.figure if isinstance(value, Axes) else value
        if isinstance(figure, Figure) and not any(figure is one for one in known):
            known.append(figure)
            paths.append(next(variables["image_path_iterator"]))
            figure.savefig(paths[-1], dpi=110, bbox_inches="tight", facecolor="white")
    return figure_rst(paths, settings["src_dir"])

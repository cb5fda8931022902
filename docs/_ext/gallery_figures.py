"""Find the figures of gallery examples, and measure how long each example takes.

The figures of ``kernelgpa.plotting`` are not managed by pyplot; the scraper of sphinx-gallery does not see them.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from sphinx.errors import ExtensionError
from sphinx_gallery.scrapers import figure_rst

MOST_SECONDS = 10.0  # of processor time, for one example
started: dict[str, float] = {}
seconds: dict[str, float] = {}


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


def setup(app: Any) -> dict[str, bool]:
    app.connect("build-finished", report_times)
    return {"parallel_read_safe": True}


def measure(settings: dict[str, Any], file: str, when: str) -> None:
    """Called by sphinx-gallery before and after each example."""
    name, now = Path(file).stem, sum(os.times()[:4])  # with the processes that the example started
    if when == "before":
        plt.rcdefaults()
        started[name] = now
    elif name in started:
        plt.close("all")
        seconds[name] = now - started.pop(name)


def report_times(app: Any, exception: Exception | None) -> None:
    """Print the processor time of each example that ran in this build; an error if one takes too long."""
    for name, used in seconds.items():
        sys.stdout.write(f"{used:5.1f} s of processor time: {name}\n")
    slow = [name for name, used in seconds.items() if used > MOST_SECONDS]
    if slow:
        raise ExtensionError(f"examples took more than {MOST_SECONDS:g} s of processor time: {', '.join(slow)}")

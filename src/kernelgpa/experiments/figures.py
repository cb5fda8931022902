"""Figures of the experiments: values at positions, one panel per method, and the bytes of a figure as PNG or PDF."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure
from PIL import Image  # a dependency of matplotlib

from ..typing import Array

FILE_TYPES = ("png", "pdf")
PALETTE_SIZE = 256  # of a PNG palette


@dataclass(frozen=True)
class CaptionedFigure:
    """A figure with the sentence that explains it."""

    figure: Figure
    caption: str


def scatter_values(
    axes: Axes,
    positions: Array,  # (k, 2)
    values: Array,  # (k,)
    upper: float,
    size: float = 4,
) -> PathCollection:
    """Draw points coloured by their values, on a scale from 0 to ``upper``."""
    axes.set(aspect="equal", xticks=[], yticks=[])
    return axes.scatter(
        positions[:, 0], positions[:, 1], c=values, s=size, vmin=0, vmax=upper, cmap="viridis", linewidths=0
    )


def colour_limit(values: Array) -> float:
    """Return the upper end of a colour scale: the 99th percentile, because few outliers would hide the rest."""
    return float(np.nanpercentile(values, 99))


def panel_per_method(
    positions: Array,  # (k, 2)
    values: Mapping[str, Array],  # each (k,)
    title: str,
    label: str,
) -> Figure:
    """Draw the values of each method in a panel of its own, on one colour scale."""
    figure = Figure(figsize=(11, 6.5), layout="constrained")
    panels = figure.subplots(2, (len(values) + 1) // 2)
    upper = colour_limit(np.concatenate(list(values.values())))
    for axes, (method, of_method) in zip(panels.ravel(), values.items(), strict=True):
        dots = scatter_values(axes, positions, of_method, upper, size=30)
        axes.set_title(f"{method}, mean {np.nanmean(of_method):.2f}")
    figure.colorbar(dots, ax=panels.ravel().tolist(), label=label, shrink=0.7, extend="max")
    figure.suptitle(title)
    return figure


def to_bytes(figure: Figure, file_type: str) -> bytes:
    """Return the figure as a PNG or PDF file that is the same for the same run."""
    buffer = io.BytesIO()
    without_date = {"CreationDate": None} if file_type == "pdf" else {"Software": None}
    figure.savefig(buffer, format=file_type, dpi=110, metadata=without_date)
    return _with_palette(buffer.getvalue()) if file_type == "png" else buffer.getvalue()


def _with_palette(png: bytes) -> bytes:
    """Reduce a picture to a palette: charts need no more colours, and the file shrinks to a quarter."""
    buffer = io.BytesIO()
    Image.open(io.BytesIO(png)).convert("RGB").quantize(PALETTE_SIZE).save(buffer, "png", optimize=True)
    return buffer.getvalue()

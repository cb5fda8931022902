"""Figures of the experiments: values at positions, one panel per method, and the bytes of a figure as PNG or PDF."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure
from PIL import Image  # a dependency of matplotlib
from scipy.spatial import cKDTree

from ..typing import Array, IndexArray

FILE_TYPES = ("png", "pdf")
PALETTE_SIZE, SCALE_COLOURS = 256, 128  # of a PNG palette, and those of them for the colour scale
COLOUR_SCALE = "viridis"
PANEL_WIDTH = 2.9  # inches, of four panels beside each other


@dataclass(frozen=True)
class CaptionedFigure:
    """A figure as files, with the sentence that explains it."""

    files: Mapping[str, bytes]  # by type: png, pdf
    caption: str

    @classmethod
    def of(cls, figure: Figure, caption: str) -> CaptionedFigure:
        return cls({file_type: to_bytes(figure, file_type) for file_type in FILE_TYPES}, caption)


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
        positions[:, 0], positions[:, 1], c=values, s=size, vmin=0, vmax=upper, cmap=COLOUR_SCALE, linewidths=0
    )


def colour_limit(values: Array) -> float:
    """Return the upper end of a colour scale: the 99th percentile, because few outliers would hide the rest."""
    return float(np.nanpercentile(values, 99))


def panel_per_method(
    positions: Array,  # (k, 2)
    values: Mapping[str, Array],  # each (k,)
    title: str,
    label: str,
    size: float = 30,
) -> Figure:
    """Draw the values of each method in a panel of its own, on one colour scale."""
    across, up = np.ptp(positions, axis=0)
    figure, panels = _grid_of_panels(len(values), height=float(np.clip(1.5 + PANEL_WIDTH * 2 * up / across, 4.5, 7.5)))
    upper = colour_limit(np.concatenate(list(values.values())))
    for axes, (method, of_method) in zip(panels, values.items(), strict=True):
        dots = scatter_values(axes, positions, of_method, upper, size)
        axes.set_title(f"{method}, mean {np.nanmean(of_method):.2f}")
    figure.colorbar(dots, ax=panels, label=label, shrink=0.7, extend="max")
    figure.suptitle(title)
    return figure


def surface_per_method(
    vertices: Array,  # (v, 3)
    faces: IndexArray,  # (f, 3)
    values: Mapping[str, Array],  # each (v,)
    label: str,
) -> Figure:
    """Draw the values of each method on the upper side of a surface, seen along z, on one colour scale."""
    figure, panels = _grid_of_panels(len(values), height=5.0)
    upper = colour_limit(np.concatenate(list(values.values())))
    a, b, c = (vertices[faces[:, i], :2] for i in range(3))
    seen = (b - a)[:, 0] * (c - a)[:, 1] > (b - a)[:, 1] * (c - a)[:, 0]  # counter-clockwise from above
    for axes, (method, of_method) in zip(panels, values.items(), strict=True):
        axes.set(aspect="equal", xticks=[], yticks=[])
        drawn = axes.tripcolor(
            vertices[:, 0],
            vertices[:, 1],
            of_method,
            triangles=faces[seen],
            vmin=0,
            vmax=upper,
            cmap=COLOUR_SCALE,
            shading="gouraud",
        )
        axes.set_title(f"{method}, mean {np.nanmean(of_method):.2f}")
    figure.colorbar(drawn, ax=panels, label=label, shrink=0.7, extend="max")
    return figure


def _grid_of_panels(count: int, height: float) -> tuple[Figure, list[Axes]]:
    """Return a figure with the given number of panels in two rows."""
    figure = Figure(figsize=(13, height), layout="constrained")
    panels = list(figure.subplots(2, (count + 1) // 2).ravel())
    for unused in panels[count:]:
        unused.set_axis_off()
    return figure, panels[:count]


def to_bytes(figure: Figure, file_type: str) -> bytes:
    """Return the figure as a PNG or PDF file that is the same for the same run."""
    buffer = io.BytesIO()
    without_date = {"CreationDate": None} if file_type == "pdf" else {"Software": None}
    figure.savefig(buffer, format=file_type, dpi=110, metadata=without_date)
    return _with_palette(buffer.getvalue()) if file_type == "png" else buffer.getvalue()


def _with_palette(png: bytes) -> bytes:
    """Reduce a picture to the colour scale and the colours that matter most beside it: the file shrinks to a third."""
    picture = np.asarray(Image.open(io.BytesIO(png)).convert("RGB"))
    colours, index, counts = np.unique(picture.reshape(-1, 3), axis=0, return_inverse=True, return_counts=True)
    palette = _palette(colours.astype(float), counts)
    nearest = cKDTree(palette).query(colours)[1].astype(np.uint8)
    reduced = Image.fromarray(nearest[index.ravel()].reshape(picture.shape[:2]))
    reduced.putpalette(palette.astype(np.uint8).ravel().tolist())
    buffer = io.BytesIO()
    reduced.save(buffer, "png", optimize=True)
    return buffer.getvalue()


def _palette(colours: Array, counts: IndexArray) -> Array:  # (k, 3), (k,) -> (PALETTE_SIZE, 3)
    """Return the colour scale, and one after the other the colours that cause the largest error without them."""
    scale = np.asarray(colormaps[COLOUR_SCALE](np.linspace(0, 1, SCALE_COLOURS), bytes=True)[:, :3], float)
    error = cKDTree(scale).query(colours)[0] ** 2
    chosen = []
    for _ in range(PALETTE_SIZE - SCALE_COLOURS):
        chosen.append(colours[np.argmax(counts * error)])
        error = np.minimum(error, np.sum((colours - chosen[-1]) ** 2, axis=1))
    return np.concatenate([scale, chosen])

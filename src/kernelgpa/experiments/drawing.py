"""Figures that several experiments draw: values at places, one panel a method, one colour scale."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure

from ..typing import Array


def coloured(axes: Axes, places: Array, values: Array, top: float, size: float = 4) -> PathCollection:  # (k, 2), (k,)
    axes.set(aspect="equal", xticks=[], yticks=[])
    return axes.scatter(places[:, 0], places[:, 1], c=values, s=size, vmin=0, vmax=top, cmap="viridis", linewidths=0)


def scale_top(values: Array) -> float:
    """Where a colour scale ends: what is above is drawn like the top, and the bar's arrow says so."""
    return float(np.nanpercentile(values, 99))


def by_method(places: Array, values: Mapping[str, Array], title: str, label: str) -> Figure:  # (k, 2), each (k,)
    figure = Figure(figsize=(11, 6.5), layout="constrained")
    panels = figure.subplots(2, (len(values) + 1) // 2)
    top = scale_top(np.concatenate(list(values.values())))
    for axes, (name, own) in zip(panels.ravel(), values.items(), strict=True):
        dots = coloured(axes, places, own, top, size=30)
        axes.set_title(f"{name}, mean {np.nanmean(own):.2f}")
    figure.colorbar(dots, ax=panels.ravel().tolist(), label=label, shrink=0.7, extend="max")
    figure.suptitle(title)
    return figure

"""Pictures of a registration: each takes an Axes or makes a figure, and computes nothing but the drawing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure

from .frames import Array
from .selection import Tuning

WIDE = 10.0  # scores that differ by more are coloured by their logarithm


def clouds(
    points: Array,  # (n, k, d), NaN where unseen
    ax: Axes | None = None,
    title: str = "",
    unit: str = "",
) -> Axes:
    """All clouds in one frame, a colour a cloud, seen along the last axis."""
    ax = Figure(layout="constrained").add_subplot() if ax is None else ax
    colours = np.repeat(mpl.colormaps["turbo"](np.linspace(0.05, 0.95, len(points))), points.shape[1], axis=0)
    mixed = np.random.default_rng(0).permutation(len(colours))  # so that no cloud hides the others
    flat = points.reshape(-1, points.shape[2])[mixed]
    ax.scatter(flat[:, 0], flat[:, 1], s=7, color=colours[mixed], linewidths=0, alpha=0.8)
    label = f" ({unit})" if unit else ""
    ax.set(title=title, xlabel=f"x{label}", ylabel=f"y{label}", aspect="equal")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def side_by_side(panels: Mapping[str, Array], unit: str = "") -> Figure:
    """One panel a set of clouds, all to the same scale."""
    shown = {title: _centred(points) for title, points in panels.items()}
    wide, high = (1.06 * max(float(np.nanmax(np.abs(p[:, :, i]))) for p in shown.values()) for i in (0, 1))
    figure = Figure(figsize=(4.6 * len(shown), 0.8 + 4.0 * high / wide), layout="constrained", dpi=130)
    axes: Any = figure.subplots(1, len(shown), squeeze=False)[0]
    for ax, (title, points) in zip(axes, shown.items(), strict=True):
        clouds(points, ax, title, unit)
        ax.set(xlim=(-wide, wide), ylim=(-high, high))
    return figure


def tuning_surface(
    tuning: Tuning,
    x: str = "bandwidth",
    y: str = "smoothing",
    ax: Axes | None = None,
    unit: str = "",
) -> Axes:
    """Every setting that was tried, coloured by its held-out sensor-frame error; the best is ringed.

    Settings that could not be computed are crosses.
    """
    ax = Figure(layout="constrained").add_subplot() if ax is None else ax
    trials = [trial for trial in tuning.trials if x in trial.settings and y in trial.settings]
    places = np.array([[trial.settings[x], trial.settings[y]] for trial in trials], dtype=np.float64).reshape(-1, 2)
    scores = np.array([trial.sensor_rms for trial in trials])
    fine = np.isfinite(scores)
    across, up = places.T
    ax.plot(across[~fine], up[~fine], "x", color="0.5")
    wide = scores[fine].max() > WIDE * scores[fine].min()
    scale = LogNorm() if wide else Normalize()
    drawn = ax.scatter(across[fine], up[fine], c=scores[fine], s=160, norm=scale, cmap="viridis_r", linewidths=0)
    best = int(np.argmin(scores))
    ax.scatter(across[best], up[best], s=320, facecolors="none", edgecolors="crimson", linewidths=2)
    ax.set(xscale="log", yscale="log", xlabel=x, ylabel=y)
    ax.margins(0.08)
    label = f" ({unit})" if unit else ""
    bar = ax.figure.colorbar(drawn, ax=ax, label=f"held-out sensor-frame error{label}", format="%.3g")
    bar.minorticks_off()
    ax.set_title(f"best: {x} {across[best]:.3g}, {y} {up[best]:.3g}, error {scores[best]:.3g}")
    return ax


def _centred(points: Array) -> Array:
    return points - np.nanmean(points, axis=(0, 1))

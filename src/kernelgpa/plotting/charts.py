"""Charts of visibility, eigenvalues and tuning."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize
from matplotlib.ticker import FixedLocator, LogLocator, MaxNLocator, NullFormatter

from ..errors import InvalidSetting
from ..estimators.base import GPA
from ..observations.collection import as_observations
from ..trust.selection import Trial, Tuning
from .drawing import axes_2d, colour_bar, fitted, with_unit

LOG_RATIO = 10.0  # errors that differ by a larger factor are coloured by their logarithm
MOST_SETTING_TICKS = 6  # values of a setting that are each labelled at its axis
MOST_EIGENVALUE_TICKS = 12  # eigenvalues that are each numbered
MOST_CLOUD_LABELS = 30  # clouds that are each named


def visibility(points: GPA | Any, ax: Axes | None = None, title: str | None = None) -> Axes:
    """Draw which cloud saw which landmark: one row per cloud, one column per landmark, dark where seen.

    Parameters
    ----------
    points : GPA, Observations or array_like
        A fitted estimator, or anything that ``fit`` accepts.
    ax : Axes, optional
        Axes to draw on; by default those of a new figure.
    title : str, optional
        By default the share of observations that were seen.

    Examples
    --------
    >>> from kernelgpa import plotting, simulate
    >>> scene = simulate.liver(clouds=8, landmarks=60, hidden=0.4, vertices=202)
    >>> ax = plotting.visibility(scene.points)
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('landmark', 'cloud')
    """
    observations = fitted(points).observations_ if isinstance(points, GPA) else as_observations(points)
    ax = axes_2d(ax)
    visible, counts = observations.visible, observations.counts
    ax.imshow(visible.astype(np.float64), cmap="Blues", vmin=0, vmax=1.25, aspect="auto")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    names = observations.names
    if len(names) <= MOST_CLOUD_LABELS:
        ax.set_yticks(range(len(names)), [str(name) for name in names])
    else:
        ax.yaxis.set_major_locator(MaxNLocator(integer=True))
    if title is None:
        title = (
            f"{visible.mean():.0%} of all pairs seen (dark), each landmark by {counts.min()} to {counts.max()} clouds"
        )
    ax.set(xlabel="landmark", ylabel="cloud", title=title)
    return ax


def spectrum(gpa: GPA, ax: Axes | None = None, title: str | None = None) -> Axes:
    """Draw the eigenvalues of the cost, smallest first, and the gap after the d eigenvalues of the map.

    The gap is the distance to the next eigenvalue, in percent of the next eigenvalue; if it is near 0, the map of
    ``modes="paper"`` is not unique.  Eigenvalues that are zero to rounding are hollow and drawn at the rounding error.

    Parameters
    ----------
    gpa : AffineGPA, TPSGPA or KernelGPA
        A fitted estimator.
    ax : Axes, optional
        Axes to draw on; by default those of a new figure.
    title : str, optional

    Examples
    --------
    >>> from kernelgpa import KernelGPA, plotting, simulate
    >>> scene = simulate.liver(clouds=5, landmarks=60, vertices=202)
    >>> ax = plotting.spectrum(KernelGPA().fit(scene.points))
    >>> ax.get_yscale()
    'log'
    """
    if not fitted(gpa)._deforms:
        raise InvalidSetting(
            f"{type(gpa).__name__} does not compute eigenvalues; use AffineGPA, TPSGPA or KernelGPA to draw them"
        )
    found = gpa.spectrum_
    ax = axes_2d(ax)
    values, d = np.maximum(found.values, found.rounding), found.dimension
    order, is_positive = np.arange(1, len(values) + 1), found.values > found.rounding
    colours = np.where(order <= d, "C0", "0.55")
    fills = np.where(is_positive, colours, "none")
    ax.scatter(order, values, s=70, facecolors=list(fills), edgecolors=list(colours), linewidths=1.5, zorder=3)
    ax.set_yscale("log")
    ax.axhspan(values[d - 1], values[d], color="C1", alpha=0.2, linewidth=0, label=f"gap {100 * found.gap:.1f} %")
    if not is_positive.all():
        ax.axhline(found.rounding, color="0.6", linestyle=":", label="rounding error")
    ax.margins(x=0.15, y=0.15)
    if len(order) <= MOST_EIGENVALUE_TICKS:
        ax.set_xticks(order)
    title = f"gap after eigenvalue {d}" if title is None else title
    ax.set(xlabel="number of the eigenvalue", ylabel="eigenvalue", title=title)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(loc="best", frameon=False)
    return ax


def tuning_surface(
    tuning: Tuning,
    x: str = "bandwidth",
    y: str = "smoothing",
    ax: Axes | None = None,
    unit: str = "",
) -> Axes:
    """Draw the settings that were tried, coloured by their held-out sensor-frame error, with a ring around the best.

    Settings that could not be computed are crosses.

    Parameters
    ----------
    tuning : Tuning
        The result of :func:`selection.tune`.
    x, y : str
        The settings along the axes.
    ax : Axes, optional
        Axes to draw on; by default those of a new figure.
    unit : str, optional
        Unit of the error.

    Examples
    --------
    >>> from kernelgpa import plotting, selection, simulate
    >>> scene = simulate.liver(clouds=5, landmarks=60, noise=0.5, vertices=202)
    >>> grid = {"bandwidth": (0.25, 0.5), "smoothing": (0.01, 0.1)}
    >>> tuning = selection.tune(scene.points, grid=grid, folds=4, rounds=0)
    >>> ax = plotting.tuning_surface(tuning, unit="mm")
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('bandwidth', 'smoothing')
    """
    trials = _drawable_trials(tuning, x, y)
    across, up = np.array([[trial.settings[x], trial.settings[y]] for trial in trials], dtype=np.float64).T
    errors = np.array([trial.score for trial in trials])
    computed = np.isfinite(errors)
    ax = axes_2d(ax)
    ax.plot(across[~computed], up[~computed], "x", color="0.5")
    is_wide = errors[computed].max() > LOG_RATIO * errors[computed].min()
    style: dict[str, Any] = {"s": 160, "norm": LogNorm() if is_wide else Normalize(), "cmap": "viridis_r"}
    drawn = ax.scatter(across[computed], up[computed], c=errors[computed], linewidths=0, **style)
    ax.scatter(across[-1], up[-1], s=320, facecolors="none", edgecolors="crimson", linewidths=2)
    ax.set(xscale="log", yscale="log", xlabel=x, ylabel=y)
    ax.margins(0.08)
    bar = colour_bar(ax, drawn, with_unit("held-out sensor-frame error", unit), format="%.3g")
    bar.minorticks_off()
    for axis, values in ((ax.xaxis, across), (ax.yaxis, up)):
        distinct = np.unique(values)
        few = len(distinct) <= MOST_SETTING_TICKS
        axis.set_major_locator(FixedLocator(distinct.tolist()) if few else LogLocator())
        axis.set_major_formatter("{x:.3g}")
        axis.set_minor_formatter(NullFormatter())
    ax.set_title(f"best: {x} {across[-1]:.3g}, {y} {up[-1]:.3g}, error {errors[-1]:.3g}{unit and ' '}{unit}")
    return ax


def _drawable_trials(tuning: Tuning, x: str, y: str) -> list[Trial]:
    """The trials with numbers for both settings; the best is last, so that it is drawn on top."""
    if not isinstance(tuning, Tuning):
        raise InvalidSetting(f"found {type(tuning).__name__}; expected the result of selection.tune")
    trials = [t for t in tuning.trials if all(isinstance(t.settings.get(name), Real) for name in (x, y))]
    if not any(np.isfinite(trial.score) for trial in trials):
        tried = sorted({name for trial in tuning.trials for name in trial.settings})
        raise InvalidSetting(
            f"no computed trial has numbers for {x!r} and {y!r}; the settings tried were {', '.join(tried)}"
        )
    return sorted(trials, key=lambda trial: -trial.score)

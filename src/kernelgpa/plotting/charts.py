"""What was seen, whether the map is determined, which settings are good."""

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
from ..trust.selection import Tuning
from .drawing import colour_bar, fitted, measured, plain_axes

WIDE = 10.0  # scores that differ by more are coloured by their logarithm
MOST_VALUES = 6  # of a setting that are written at its axis
MOST_TICKS = 12  # more eigenvalues than these are not numbered one by one
MOST_NAMES = 30  # more clouds than these are counted, not named


def visibility(seen: GPA | Any, ax: Axes | None = None, title: str | None = None) -> Axes:
    """Which cloud saw which landmark: a row a cloud, a column a landmark, dark where seen.

    seen : a fitted estimator, Observations, or whatever ``fit`` takes.

    >>> from kernelgpa import plotting, simulate
    >>> scene = simulate.liver(clouds=8, landmarks=60, hidden=0.4, vertices=202)
    >>> ax = plotting.visibility(scene.points)
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('landmark', 'cloud')
    """
    observations = fitted(seen).observations_ if isinstance(seen, GPA) else as_observations(seen)
    ax = plain_axes(ax)
    visible, counts = observations.visible, observations.counts
    ax.imshow(visible.astype(np.float64), cmap="Blues", vmin=0, vmax=1.25, aspect="auto")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    names = observations.names
    if len(names) <= MOST_NAMES:
        ax.set_yticks(range(len(names)), [str(name) for name in names])
    else:
        ax.yaxis.set_major_locator(MaxNLocator(integer=True))
    said = f"{100 * visible.mean():.0f} % seen (dark), a landmark by {counts.min()} to {counts.max()} clouds"
    ax.set(xlabel="landmark", ylabel="cloud", title=said if title is None else title)
    return ax


def spectrum(gpa: GPA, ax: Axes | None = None, title: str | None = None) -> Axes:
    """The eigenvalues of the cost, smallest first, and the gap after those that make the published map.

    The gap is how far the next eigenvalue lies above, as a share of it; near 0 the map of ``modes="paper"`` is not
    unique.  Eigenvalues that rounding does not tell from 0 are hollow and stand at the rounding.

    >>> from kernelgpa import KernelGPA, plotting, simulate
    >>> scene = simulate.liver(clouds=5, landmarks=60, vertices=202)
    >>> ax = plotting.spectrum(KernelGPA().fit(scene.points))
    >>> ax.get_yscale()
    'log'
    """
    if not fitted(gpa).bends:
        raise InvalidSetting(
            f"{type(gpa).__name__} is not solved by a spectrum; it has one for AffineGPA, TPSGPA and KernelGPA"
        )
    found = gpa.spectrum_
    ax = plain_axes(ax)
    values, d = np.maximum(found.values, found.rounding), found.dimension
    order, sure = np.arange(1, len(values) + 1), found.values > found.rounding
    colours = np.where(order <= d, "C0", "0.55")
    faces = np.where(sure, colours, "none")
    ax.scatter(order, values, s=70, facecolors=list(faces), edgecolors=list(colours), linewidths=1.5, zorder=3)
    ax.set_yscale("log")
    ax.axhspan(values[d - 1], values[d], color="C1", alpha=0.2, linewidth=0, label=f"gap {100 * found.gap:.1f} %")
    if not sure.all():
        ax.axhline(found.rounding, color="0.6", linestyle=":", label="rounding")
    ax.margins(x=0.15, y=0.15)
    if len(order) <= MOST_TICKS:
        ax.set_xticks(order)
    said = f"the gap follows eigenvalue {d}"
    ax.set(xlabel="number of the eigenvalue", ylabel="eigenvalue", title=said if title is None else title)
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
    """Every setting that was tried, coloured by its held-out sensor-frame error; the best is ringed.

    Settings that could not be computed are crosses.

    >>> from kernelgpa import plotting, selection, simulate
    >>> scene = simulate.liver(clouds=5, landmarks=60, noise=0.5, vertices=202)
    >>> grid = {"bandwidth": (0.25, 0.5), "smoothing": (0.01, 0.1)}
    >>> tuning = selection.tune(scene.points, grid=grid, folds=4, rounds=0)
    >>> ax = plotting.tuning_surface(tuning, unit="mm")
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('bandwidth', 'smoothing')
    """
    if not isinstance(tuning, Tuning):
        raise InvalidSetting(f"found {type(tuning).__name__}; expected the result of selection.tune")
    trials = [t for t in tuning.trials if all(isinstance(t.settings.get(name), Real) for name in (x, y))]
    if not any(np.isfinite(trial.sensor_rms) for trial in trials):
        tried = sorted({name for trial in tuning.trials for name in trial.settings})
        raise InvalidSetting(f"no trial with a score has numbers for {x!r} and {y!r}; tried were {', '.join(tried)}")
    ax = plain_axes(ax)
    trials.sort(key=lambda trial: -trial.sensor_rms)  # where several share a place the best is on top
    across, up = np.array([[trial.settings[x], trial.settings[y]] for trial in trials], dtype=np.float64).T
    scores = np.array([trial.sensor_rms for trial in trials])
    fine = np.isfinite(scores)
    ax.plot(across[~fine], up[~fine], "x", color="0.5")
    wide = scores[fine].max() > WIDE * scores[fine].min()
    scale = LogNorm() if wide else Normalize()
    drawn = ax.scatter(across[fine], up[fine], c=scores[fine], s=160, norm=scale, cmap="viridis_r", linewidths=0)
    ax.scatter(across[-1], up[-1], s=320, facecolors="none", edgecolors="crimson", linewidths=2)
    ax.set(xscale="log", yscale="log", xlabel=x, ylabel=y)
    ax.margins(0.08)
    bar = colour_bar(ax, drawn, measured("held-out sensor-frame error", unit), format="%.3g")
    bar.minorticks_off()
    for axis, values in ((ax.xaxis, across), (ax.yaxis, up)):
        written = np.unique(values)
        axis.set_major_locator(FixedLocator(written.tolist()) if len(written) <= MOST_VALUES else LogLocator())
        axis.set_major_formatter("{x:.3g}")
        axis.set_minor_formatter(NullFormatter())
    ax.set_title(f"best: {x} {across[-1]:.3g}, {y} {up[-1]:.3g}, error {scores[-1]:.3g}{unit and ' '}{unit}")
    return ax

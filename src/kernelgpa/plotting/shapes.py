"""Plots of a shape model: variances of the modes, scores, and the mean shape along a mode."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ..errors import InvalidSetting
from ..shape import ShapeModel
from ..typing import Array, BoolArray, IndexArray
from .drawing import axes_2d, finish
from .labels import label_points

MOST_BARS = 20
MOST_NAMES = 60  # clouds that are each named
LONGEST_SCORE_NAME = 30  # characters
MOST_COLOURS = 10  # of groups, before markers change
NULL_REPETITIONS = 20
NULL_QUANTILE = 0.95


def scree(model: ShapeModel, ax: Axes | None = None) -> Axes:
    """Draw the share of the variance of each mode, and what modes of unrelated coordinates would have.

    The null model permutes each aligned coordinate among the clouds, which keeps its variance and destroys how
    landmarks move together.  Modes above its 95 % quantile describe more than chance.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelgpa import ShapeModel, plotting
    >>> points = np.random.default_rng(0).standard_normal((8, 6, 3)) * 0.1 + np.arange(18).reshape(6, 3) ** 2 / 50
    >>> model = ShapeModel(shrinkage=0.5, bandwidth=0.5, noise=0.1).fit(points)
    >>> plotting.scree(model).get_xlabel()
    'mode'
    """
    ax = axes_2d(ax)
    shares = 100 * model.explained_variance_ratio_[:MOST_BARS]
    numbers = np.arange(1, len(shares) + 1)
    ax.bar(numbers, shares, color="tab:blue", label="modes")
    ax.plot(numbers, 100 * null_shares(model)[: len(shares)], color="tab:orange", marker=".", label="null model, 95 %")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set(xlabel="mode", ylabel="share of the variance, %", title="Variance of the modes")
    ax.legend(loc="best")
    return ax


def null_shares(model: ShapeModel) -> Array:  # (k,)
    """The 95 % quantile of the shares of variance of each mode, for permuted coordinates."""
    flat = model.aligned_.reshape(len(model.scores_), -1)
    flat = flat - flat.mean(axis=0)
    rng = np.random.default_rng(0)
    shares = []
    for _ in range(NULL_REPETITIONS):
        values = np.linalg.svd(rng.permuted(flat, axis=0), compute_uv=False) ** 2
        shares.append(values / values.sum())
    found = np.quantile(shares, NULL_QUANTILE, axis=0)
    return np.concatenate([found, np.zeros(max(0, len(model.variances_) - len(found)))])


def score_scatter(
    model: ShapeModel,
    first: int = 0,
    second: int = 1,
    ax: Axes | None = None,
    groups: Sequence[object] | None = None,
) -> Axes:
    """Draw the scores of the clouds on two modes, with their names; bars are what unseen landmarks leave open.

    ``groups`` : the group of each cloud, such as its species, which colours it.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelgpa import ShapeModel, plotting
    >>> points = np.random.default_rng(0).standard_normal((8, 6, 3)) * 0.1 + np.arange(18).reshape(6, 3) ** 2 / 50
    >>> model = ShapeModel(shrinkage=0.5, bandwidth=0.5, noise=0.1).fit(points)
    >>> plotting.score_scatter(model).get_title()
    'Scores of the clouds'
    """
    ax = axes_2d(ax)
    scores, open_ = model.scores_, model.score_deviations_
    if max(first, second) >= scores.shape[1] or min(first, second) < 0:
        raise InvalidSetting(
            f"modes {first} and {second} are asked for; the model has modes 0 to {scores.shape[1] - 1}"
        )
    x, y = scores[:, first], scores[:, second]
    ax.errorbar(x, y, open_[:, second], open_[:, first], fmt="none", ecolor="0.8", zorder=1)
    far = np.isin(np.arange(len(x)), [model.observations_.cloud_index(name) for name in model.outliers_])
    _group_points(ax, x, y, far, groups)
    ax.margins(0.15)  # room for the names
    shares = 100 * model.explained_variance_ratio_
    ax.set(
        xlabel=f"mode {first + 1} ({shares[first]:.0f} % of the variance)",
        ylabel=f"mode {second + 1} ({shares[second]:.0f} % of the variance)",
        title="Scores of the clouds",
    )
    if len(x) <= MOST_NAMES:
        omitted = label_points(ax, x, y, [str(name)[:LONGEST_SCORE_NAME] for name in model.observations_.names])
        if omitted:
            ax.set_title(f"Scores of the clouds ({len(omitted)} names have no room)")
    return ax


def _group_points(
    ax: Axes,
    x: Array,  # (n,)
    y: Array,  # (n,)
    far: BoolArray,  # (n,)
    groups: Sequence[object] | None,
) -> None:
    """Points in the colours of their groups, outliers with a ring."""
    if groups is None:
        ax.scatter(x[~far], y[~far], s=14, color="tab:blue", zorder=2)
    elif len(groups) != len(x):
        raise InvalidSetting(f"groups has {len(groups)} entries; expected one for each of {len(x)} clouds")
    else:
        texts = np.array([str(group) for group in groups], dtype=object)
        for i, group in enumerate(sorted(set(texts))):
            own = texts == group
            marker = "os^Dv"[i // MOST_COLOURS % 5]
            ax.scatter(x[own], y[own], s=14, color=f"C{i % MOST_COLOURS}", marker=marker, zorder=2, label=group or "-")
    if far.any():
        style = {"color": "tab:red"} if groups is None else {"facecolors": "none", "edgecolors": "0.3"}
        ax.scatter(x[far], y[far], s=24 if groups is None else 60, zorder=2, label="outliers", **style)  # type: ignore[arg-type]
    if far.any() or groups is not None:
        ax.legend(loc="best", fontsize=7)


def mode_shapes(model: ShapeModel, modes: int = 3, faces: IndexArray | None = None) -> Figure:
    """Draw the mean shape and the mean plus and minus 2 standard deviations along the first modes.

    Without ``faces`` (f, 3) the landmarks are connected by the shortest lines that connect them all.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelgpa import ShapeModel, plotting
    >>> points = np.random.default_rng(0).standard_normal((8, 6, 3)) * 0.1 + np.arange(18).reshape(6, 3) ** 2 / 50
    >>> model = ShapeModel(shrinkage=0.5, bandwidth=0.5, noise=0.1).fit(points)
    >>> len(plotting.mode_shapes(model, modes=2).axes)
    2
    """
    count = min(modes, len(model.variances_))
    d = model.mean_.shape[1]
    figure = Figure(figsize=(5.2 * count, 4.8), layout="constrained")
    edges = _edges(model.mean_) if faces is None else np.vstack([faces[:, :2], faces[:, 1:], faces[:, ::2]])
    for k in range(count):
        ax = figure.add_subplot(1, count, k + 1, **({"projection": "3d"} if d == 3 else {}))
        scores = np.zeros((2, k + 1))
        scores[:, k] = 2 * np.sqrt(model.variances_[k]) * np.array([-1, 1])
        low, high = model.inverse_transform(scores)
        for shape, colour, label in (
            (low, "tab:blue", "-2 sd"),
            (model.mean_, "0.5", "mean"),
            (high, "tab:red", "+2 sd"),
        ):
            ax.plot(*shape.T, ".", color=colour, markersize=3, label=label)
            lines = np.full((len(edges), 3, d), np.nan)
            lines[:, :2] = shape[edges]
            ax.plot(*lines.reshape(-1, d).T, color=colour, linewidth=0.6, alpha=0.7)
        finish(ax, f"mode {k + 1}, {100 * model.explained_variance_ratio_[k]:.0f} % of the variance", unit="")
        if k == 0:
            ax.legend(loc="upper left", fontsize=8)
    return figure


def _edges(points: Array) -> IndexArray:  # (m, d) -> (m - 1, 2)
    """The shortest lines that connect all points: the minimum spanning tree."""
    from scipy.sparse.csgraph import minimum_spanning_tree
    from scipy.spatial.distance import pdist, squareform

    tree = minimum_spanning_tree(squareform(pdist(points) + 1e-12)).tocoo()
    return np.stack([tree.row, tree.col], axis=1).astype(np.intp)

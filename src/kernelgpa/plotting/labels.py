"""Names beside points, placed so that they cover neither each other nor a point."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

from ..typing import Array, BoolArray

FONT_SIZE = 6.0  # points
LINE_HEIGHT = 1.35  # of the font size
LABEL_DISTANCES = (
    4.0,
    9.0,
    16.0,
    26.0,
    38.0,
    52.0,
)  # from the point, in points; a line connects those beyond the first
LABEL_DIRECTIONS = np.arange(16) * np.pi / 8
POINT_RADIUS = 2.5  # points


def label_points(ax: Axes, x: Array, y: Array, names: Sequence[str]) -> list[str]:  # (n,), (n,)
    """Write each name beside its point, and return the names for which there is no room.

    The nearest place that is free is taken, first to the upper right.
    """
    figure = ax.get_figure(root=True)
    assert figure is not None
    figure.draw_without_rendering()  # the final axes
    unit = figure.dpi / 72
    points = ax.transData.transform(np.column_stack([x, y])) / unit
    frame = ax.get_window_extent()
    inside = np.array([frame.x0, frame.y0, frame.x1, frame.y1]) / unit
    taken = np.hstack([points - POINT_RADIUS, points + POINT_RADIUS])
    omitted = []
    for name, a, b, point in zip(names, x, y, points, strict=True):
        centres, boxes = _candidates(point, _text_width(name))
        free = _contained(boxes, inside) & ~_overlapping(boxes, taken)
        if not free.any():
            omitted.append(name)
            continue
        first = int(np.argmax(free))
        taken = np.vstack([taken, boxes[first]])
        line = {"arrowstyle": "-", "color": "0.6", "linewidth": 0.4} if first >= len(LABEL_DIRECTIONS) else None
        ax.annotate(
            name,
            (a, b),
            xytext=tuple(centres[first] - point),
            textcoords="offset points",
            fontsize=FONT_SIZE,
            ha="center",
            va="center",
            parse_math=False,
            arrowprops=line,
        )
    return omitted


def _candidates(point: Array, width: float) -> tuple[Array, Array]:  # (2,) -> (c, 2), (c, 4)
    """Centres and boxes of a text around a point, the nearest first."""
    half = np.array([width / 2, LINE_HEIGHT * FONT_SIZE / 2])
    angles = np.tile(LABEL_DIRECTIONS + np.pi / 4, len(LABEL_DISTANCES))
    reach = np.repeat(LABEL_DISTANCES, len(LABEL_DIRECTIONS))[:, None] + half
    centres = point + np.column_stack([np.cos(angles), np.sin(angles)]) * reach
    return centres, np.hstack([centres - half, centres + half])


def _contained(boxes: Array, frame: Array) -> BoolArray:  # (c, 4), (4,) -> (c,)
    inside = np.hstack([boxes[:, :2] >= frame[:2], boxes[:, 2:] <= frame[2:]])
    return np.asarray(np.all(inside, axis=1), dtype=bool)


def _overlapping(boxes: Array, taken: Array) -> BoolArray:  # (c, 4), (k, 4) -> (c,)
    """Whether each box overlaps one of those that are taken."""
    below = (boxes[:, None, :2] < taken[None, :, 2:]).all(axis=2)
    above = (boxes[:, None, 2:] > taken[None, :, :2]).all(axis=2)
    return np.asarray(np.any(below & above, axis=1), dtype=bool)


def _text_width(text: str) -> float:
    """In points."""
    width, _, _ = text_to_path.get_text_width_height_descent(text, FontProperties(size=FONT_SIZE), ismath=False)
    return float(width)

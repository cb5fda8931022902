"""A page with the mean shape and one slider per mode: from -3 to +3 standard deviations."""

from __future__ import annotations

import html

import numpy as np
import plotly.graph_objects as go

from ..shape import ShapeModel
from ..typing import Array
from .metadata import Metadata

MOST_MODES = 5
PLOT_HEIGHT, BELOW, SLIDER_HEIGHT = 520, 70, 85  # pixels: the plot, its axis below, each slider
SHAPES_MARGIN = 0.05  # around all shapes, as a share of their largest extent
SLIDER_STEPS = np.linspace(-3, 3, 13)  # standard deviations


# the plot keeps its own light colours; a small screen shows it at its own width
PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}: modes</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ margin: 0 auto; max-width: 80rem; background: light-dark(#fbfbfa, #12161c); color: light-dark(#1c2430, #e6eaef);
  font: 16px/1.5 system-ui, sans-serif; }}
h1, p {{ margin: .6rem 1rem; overflow-wrap: anywhere; }}
h1 {{ font-size: 1.4rem; }}
</style>
</head>
<body>
<h1>{title}</h1>
<p>The mean shape (grey) and the shapes along one mode at a time (red). Move a slider: the others then stand for 0.</p>
{plot}
</body>
</html>
"""


def render_modes(model: ShapeModel, metadata: Metadata) -> str:
    """The page as one HTML text that needs no network."""
    count = min(MOST_MODES, len(model.variances_))
    shapes = [[_shape_at(model, k, step) for step in SLIDER_STEPS] for k in range(count)]
    figure = go.Figure()
    figure.add_trace(_points(model.mean_, "mean shape", "gray", "circle-open"))
    for k in range(count):
        for step, shape in zip(SLIDER_STEPS, shapes[k], strict=True):
            trace = _points(shape, f"mode {k + 1}, {step:+.1f} sd", "crimson", "circle")
            trace.visible = k == 0 and step == 0
            figure.add_trace(trace)
    axes = _axes(np.concatenate([model.mean_, *(shape for several in shapes for shape in several)]), metadata.unit)
    figure.update_layout(
        sliders=[_slider(model, k, count) for k in range(count)],
        showlegend=False,
        margin={"l": 50, "r": 20, "t": 30, "b": BELOW + SLIDER_HEIGHT * count},
        height=PLOT_HEIGHT + BELOW + SLIDER_HEIGHT * count,
    )
    if model.mean_.shape[1] == 2:
        figure.update_layout(xaxis=axes[0], yaxis={**axes[1], "scaleanchor": "x"})
    else:
        names = ("xaxis", "yaxis", "zaxis")
        camera = {"eye": {"x": 1.6, "y": 1.6, "z": 1.2}}
        figure.update_layout(scene={"aspectmode": "data", "camera": camera, **dict(zip(names, axes, strict=True))})
    config = {"responsive": True, "displaylogo": False, "showSendToCloud": False, "plotlyServerURL": ""}
    plot = figure.to_html(include_plotlyjs=True, full_html=False, config=config, default_width="100%")
    return PAGE.format(title=html.escape(metadata.title), plot=plot)


def _shape_at(model: ShapeModel, k: int, step: float) -> Array:  # (m, d)
    scores = np.zeros((1, k + 1))
    scores[0, k] = step * np.sqrt(model.variances_[k])
    return np.asarray(model.inverse_transform(scores)[0])


def _axes(points: Array, unit: str | None) -> list[dict[str, object]]:
    """One axis for each dimension with a fixed range, so that the mean shape stays where it is as a slider moves."""
    low, high = points.min(axis=0), points.max(axis=0)
    margin = SHAPES_MARGIN * float((high - low).max())
    suffix = f" ({unit})" if unit else ""
    return [
        {"range": [float(a - margin), float(b + margin)], "title": {"text": f"{axis}{suffix}"}}
        for axis, a, b in zip("xyz", low, high, strict=False)
    ]


def _points(points: Array, name: str, colour: str, symbol: str) -> go.Scatter | go.Scatter3d:
    marker = {"size": 4, "color": colour, "symbol": symbol}
    if points.shape[1] == 3:
        return go.Scatter3d(x=points[:, 0], y=points[:, 1], z=points[:, 2], mode="markers", name=name, marker=marker)
    return go.Scatter(x=points[:, 0], y=points[:, 1], mode="markers", name=name, marker=marker)


def _slider(model: ShapeModel, k: int, count: int) -> dict[str, object]:
    total = 1 + count * len(SLIDER_STEPS)
    steps = []
    for i, step in enumerate(SLIDER_STEPS):
        visible = [True] + [False] * (total - 1)
        visible[1 + k * len(SLIDER_STEPS) + i] = True
        steps.append({"method": "restyle", "args": [{"visible": visible}], "label": f"{step:+g}"})
    share = 100 * model.explained_variance_ratio_[k]
    prefix = f"mode {k + 1} ({share:.0f} % of variance), s.d.: "
    return {
        "active": len(SLIDER_STEPS) // 2,
        "steps": steps,
        "currentvalue": {"prefix": prefix, "font": {"size": 13}},
        "font": {"size": 9},
        "y": -(BELOW + SLIDER_HEIGHT * k) / (PLOT_HEIGHT - 30),
        "pad": {"t": 10},
        "x": 0,
        "len": 1,
    }

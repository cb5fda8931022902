"""A page with the mean shape and one slider per mode: from -3 to +3 standard deviations."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go

from ..shape import ShapeModel
from ..typing import Array
from .metadata import Metadata

MOST_MODES = 5
STEPS = np.linspace(-3, 3, 13)  # standard deviations


def render_modes(model: ShapeModel, metadata: Metadata) -> str:
    """The page as one HTML text that needs no network."""
    count = min(MOST_MODES, len(model.variances_))
    figure = go.Figure()
    figure.add_trace(_points(model.mean_, "mean shape", "lightgray"))
    for k in range(count):
        for step in STEPS:
            scores = np.zeros((1, k + 1))
            scores[0, k] = step * np.sqrt(model.variances_[k])
            trace = _points(model.inverse_transform(scores)[0], f"mode {k + 1}, {step:+.1f} sd", "crimson")
            trace.visible = k == 0 and step == 0
            figure.add_trace(trace)
    figure.update_layout(
        title=f"{metadata.title}: the shapes along one mode at a time",
        sliders=[_slider(model, k, count) for k in range(count)],
        margin={"b": 40 + 80 * count},
        height=620 + 80 * count,
        scene={"aspectmode": "data"},
    )
    if model.mean_.shape[1] == 2:
        figure.update_yaxes(scaleanchor="x")
    return str(figure.to_html(include_plotlyjs=True, full_html=True))


def _points(points: Array, name: str, colour: str) -> go.Scatter | go.Scatter3d:
    marker = {"size": 4, "color": colour}
    if points.shape[1] == 3:
        return go.Scatter3d(x=points[:, 0], y=points[:, 1], z=points[:, 2], mode="markers", name=name, marker=marker)
    return go.Scatter(x=points[:, 0], y=points[:, 1], mode="markers", name=name, marker=marker)


def _slider(model: ShapeModel, k: int, count: int) -> dict[str, object]:
    total = 1 + count * len(STEPS)
    steps = []
    for i, step in enumerate(STEPS):
        visible = [True] + [False] * (total - 1)
        visible[1 + k * len(STEPS) + i] = True
        steps.append({"method": "restyle", "args": [{"visible": visible}], "label": f"{step:+.1f}"})
    share = 100 * model.explained_variance_ratio_[k]
    prefix = f"mode {k + 1} ({share:.0f} % of the variance), standard deviations: "
    return {
        "active": len(STEPS) // 2,
        "steps": steps,
        "currentvalue": {"prefix": prefix},
        "y": -0.02 - 0.16 * k,
        "pad": {"t": 10},
    }

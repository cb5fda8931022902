"""A picture of a stream that a browser keeps current: one small page that loads itself again every second."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from ..frames import Array, finite_rows

if TYPE_CHECKING:
    from .session import Session

WIDTH, HEIGHT, MARGIN = 760, 520, 20
MOST = 3000  # landmarks that are drawn; more only slow a browser down

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="1"><title>kernelgpa stream</title>
<style>body{{font:15px sans-serif;margin:1.5em;color:#222}}svg{{border:1px solid #ccc}}circle{{fill:#1f77b4}}
.last{{fill:#d62728}}polyline{{fill:none;stroke:#d62728;stroke-width:1.5}}</style></head><body>
<p>frame <b>{frame}</b>, {state}: {clouds} clouds, {landmarks} landmarks, {waiting} waiting</p>
<svg width="{width}" height="{height}" role="img" aria-label="the map and the way of the sensor">
{drawing}
</svg><p>blue: the map, seen along its third axis; red: the way of the sensor within the window</p>
{events}</body></html>
"""


def page(session: Session, line: dict[str, Any]) -> str:
    """The page for the state of a session and the line of its last update."""
    places = session.places()[1]
    places = places[finite_rows(places)]
    places, way = places[:: len(places) // MOST + 1, :2], session.positions().reshape(-1, places.shape[1])[:, :2]
    return PAGE.format(
        **{key: escape(str(line[key])) for key in ("frame", "state", "clouds", "landmarks", "waiting")},
        width=WIDTH,
        height=HEIGHT,
        drawing=_drawing(places, way),
        events="".join(f"<p>{escape(one)}</p>" for one in [*line["events"], *filter(None, [line.get("why")])]),
    )


def _drawing(places: Array, way: Array) -> str:  # (m, 2), (n, 2)
    both = np.vstack([places, way])
    if not len(both):
        return ""
    low, extent = both.min(axis=0), np.ptp(both, axis=0)
    room = np.array([WIDTH, HEIGHT]) - 2 * MARGIN
    scale = np.min(room / np.maximum(extent, 1e-300 + 1e-9 * extent.max()))
    middle = MARGIN + (room - scale * extent) / 2

    def drawn(points: Array) -> list[tuple[float, float]]:
        x, y = (middle + scale * (points - low)).T
        return list(zip(x.tolist(), (HEIGHT - y).tolist(), strict=True))  # y of a screen goes down

    dots = [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5"/>' for x, y in drawn(places)]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in drawn(way))
    last = [f'<circle class="last" cx="{x:.1f}" cy="{y:.1f}" r="5"/>' for x, y in drawn(way)[-1:]]
    return "\n".join([*dots, f'<polyline points="{path}"/>', *last])

"""A picture of a stream that a browser keeps current: one small page that loads itself again every second."""

from __future__ import annotations

import time
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from ..observations.arrays import finite_rows
from ..typing import Array

if TYPE_CHECKING:
    from .session import Session

WIDTH, HEIGHT, MARGIN = 760, 520, 20
MOST = 3000  # landmarks that are drawn; more only slow a browser down

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">{refresh}<title>kernelgpa stream</title>
<style>body{{font:15px sans-serif;margin:1.5em;color:#222}}svg{{border:1px solid #ccc}}circle{{fill:#1f77b4}}
.last{{fill:#d62728}}polyline{{fill:none;stroke:#d62728;stroke-width:1.5}}</style></head><body>
<p>frame <b>{frame}</b>, {state}: {clouds} clouds, {landmarks} landmarks, {waiting} waiting; {when}</p>
<svg width="{width}" height="{height}" role="img" aria-label="the map and the way of the sensor">
{drawing}
</svg><p>blue: the map, seen along its third axis; red: the way of the sensor within the window;
the bar is {bar} long, in the unit of the points</p>
{events}</body></html>
"""


def page(session: Session, line: dict[str, Any], ended: bool) -> str:
    """The page for the state of a session and the line of its last update; at the end it loads itself no more."""
    places = session.places()[1]
    places = places[finite_rows(places)]
    places, way = places[:: len(places) // MOST + 1, :2], session.positions().reshape(-1, places.shape[1])[:, :2]
    drawing, bar = _drawing(places, way)
    return PAGE.format(
        refresh="" if ended else '<meta http-equiv="refresh" content="1">',
        when=f"{'ended' if ended else 'written'} {time.strftime('%H:%M:%S')}",
        bar=f"{bar:g}",
        **{key: escape(str(line[key])) for key in ("frame", "state", "clouds", "landmarks", "waiting")},
        width=WIDTH,
        height=HEIGHT,
        drawing=drawing,
        events="".join(f"<p>{escape(one)}</p>" for one in [*line["events"], *filter(None, [line.get("why")])]),
    )


def _drawing(places: Array, way: Array) -> tuple[str, float]:  # (m, 2), (n, 2)
    """The picture, and how long its bar is."""
    both = np.vstack([places, way])
    if not len(both) or not np.ptp(both, axis=0).max() > 0:
        return "", 0.0
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
    bar = 10.0 ** np.floor(np.log10(extent.max() / 2))  # a round length, a twentieth to a half of the picture
    stroke = f'<line x1="{MARGIN}" x2="{MARGIN + bar * scale:.1f}" y1="{HEIGHT - 8}" y2="{HEIGHT - 8}" stroke="#222"/>'
    return "\n".join([*dots, f'<polyline points="{path}"/>', *last, stroke]), float(bar)

"""A page that shows the state of a stream and loads itself again every second."""

from __future__ import annotations

import time
from collections.abc import Collection
from html import escape

import numpy as np

from ...observations.arrays import finite_rows
from ...typing import Array
from .pipeline import FramePipeline, UpdateReport

WIDTH, HEIGHT = 720, 480  # pixels of the drawing
MOST_DRAWN = 3000  # landmarks; more only slow a browser down

MARGIN = 20  # pixels around the drawing

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
{refresh}<title>kernelgpa stream</title>
<style>
:root{{color-scheme:light dark;--text:#222;--ground:#fff;--line:#ccc;--map:#1f77b4;--frame:#d95f02;--sensor:#c2185b}}
@media (prefers-color-scheme:dark){{
:root{{--text:#ddd;--ground:#16181c;--line:#444;--map:#6db3f2;--frame:#ffa14d;--sensor:#ff6fa5}}}}
body{{font:15px/1.45 sans-serif;margin:1.2em auto;padding:0 1em;max-width:1100px}}
body{{color:var(--text);background:var(--ground)}}
svg{{display:block;width:100%;height:auto;max-height:75vh;border:1px solid var(--line);border-radius:6px}}
circle{{fill:var(--map)}}.frame{{fill:none;stroke:var(--frame);stroke-width:1.5}}.last{{fill:var(--sensor)}}
polyline{{fill:none;stroke:var(--sensor);stroke-width:1.5}}line{{stroke:var(--text)}}
p{{margin:.5em 0}}.events{{color:var(--frame)}}
</style></head><body>
<p>Frame <b>{frame}</b>, {report.state}: {report.clouds} clouds, {report.landmarks} landmarks, {report.waiting} waiting;
{when}</p>
<p id="latency">{latency}</p>
<svg viewBox="{viewbox}" role="img" aria-label="map and trajectory of the sensor">
{drawing}
</svg><p><b style="color:var(--map)">Dots</b>: the map, seen along its third axis.
<b style="color:var(--frame)">Rings</b>: the last frame, moved by its pose.
<b style="color:var(--sensor)">Line</b>: the trajectory of the sensor within the window.
The bar is {bar:g} long, in the unit of the points.</p>
{events}</body></html>
"""


def page(pipeline: FramePipeline, report: UpdateReport, ended: bool) -> str:
    """The page for the last update of a stream; it does not load itself again once the stream has ended."""
    points = pipeline.landmark_positions()[1]
    points = points[finite_rows(points)]
    frame = pipeline.current_frame()
    path = pipeline.trajectory().reshape(-1, points.shape[1])
    thin = slice(None, None, len(points) // MOST_DRAWN + 1)
    drawing, bar = _drawing(points[thin, :2], frame[thin, :2], path[:, :2])
    return PAGE.format(
        refresh="" if ended else '<meta http-equiv="refresh" content="1">',
        when=f"{'ended' if ended else 'written'} {time.strftime('%H:%M:%S')}",
        latency=_latency(pipeline.latencies),
        frame=escape(str(report.frame)),
        report=report,
        viewbox=f"{-MARGIN} {-MARGIN} {WIDTH + 2 * MARGIN} {HEIGHT + 2 * MARGIN}",
        drawing=drawing,
        bar=bar,
        events="".join(
            f'<p class="events">{escape(text)}</p>' for text in [*report.events, *filter(None, [report.why])]
        ),
    )


def _latency(seconds: Collection[float]) -> str:
    if not seconds:
        return "no update so far"
    last, slowest = 1000 * list(seconds)[-1], 1000 * max(seconds)
    return (
        f"the last update took {last:.1f} ms; of the last {len(seconds)}, the median is "
        f"{1000 * float(np.median(list(seconds))):.1f} ms and the longest {slowest:.1f} ms"
    )


def _drawing(points: Array, frame: Array, trajectory: Array) -> tuple[str, float]:  # (m, 2), (s, 2), (n, 2)
    """Elements of the drawing, and the length of its bar."""
    both = np.vstack([points, frame, trajectory])
    extent = np.ptp(both, axis=0) if len(both) else np.zeros(2)
    if not extent.max() > 0:
        return "", 0.0
    pixel = np.max(extent / (WIDTH, HEIGHT))  # in the unit of the points
    pixels = (both - both.min(axis=0)) / pixel * (1, -1) + (0, HEIGHT)  # y points down on a screen
    dots, seen, path = np.split(pixels.round(1), [len(points), len(points) + len(frame)])
    circles = [f'<circle cx="{x}" cy="{y}" r="2.5"/>' for x, y in dots.tolist()]
    circles += [f'<circle class="frame" cx="{x}" cy="{y}" r="5"/>' for x, y in seen.tolist()]
    line = f'<polyline points="{" ".join(f"{x},{y}" for x, y in path.tolist())}"/>'
    last = [f'<circle class="last" cx="{x}" cy="{y}" r="5"/>' for x, y in path[-1:].tolist()]
    bar = 10.0 ** np.floor(np.log10(extent.max() / 2))  # a round length, from a twentieth to half of the extent
    stroke = f'<line x2="{bar / pixel:.1f}" y1="{HEIGHT + 12}" y2="{HEIGHT + 12}"/>'
    return "\n".join([*circles, line, *last, stroke]), float(bar)

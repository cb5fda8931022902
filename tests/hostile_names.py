"""Names that would run as a script, end a script or break a page if they were not kept as text."""

from __future__ import annotations

from conftest import scene
from kernelgpa import Observations

HOSTILE = [
    "<script>window.hacked = 1</script>",
    "</script><script>window.hacked = 2</script>",
    '"><img src=x onerror="window.hacked = 3">',
    "<!-- <script>",
    "<b>bold</b> & <a href='javascript:window.hacked=4'>link</a>",
    "line\u2028and\u2029paragraph",
    "%{x} ${y} {{data}} \\u003c &lt;",
    "\u202eright to left",
    "]]>",
    "\ud800 lone surrogate",
    "",
]


def named_hostile(n=6, d=3):
    points, _ = scene(n=n, d=d, hidden=0.25)  # enough for the page to draw the visibility
    m = points.shape[1]
    return Observations.from_array(
        points,
        clouds=[f"{HOSTILE[t % len(HOSTILE)]}{t}" for t in range(n)],
        landmarks=[HOSTILE[j] if j < len(HOSTILE) else f"landmark {j}" for j in range(m)],
    )

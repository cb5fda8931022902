"""One self-contained page that shows a registration: no network, no server, nothing to install.

The page is four texts in one file: ``page.html`` with ``page.css``, plotly.js as the Python package plotly
brings it, the registration as JSON, and ``page.js``, which draws it.  Names, titles, notes and settings may
hold anything; they travel as data and are shown as text.  The page's own policy lets no other script run and
nothing be loaded.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Iterable, Mapping
from importlib.resources import files
from typing import Any

import numpy.typing as npt
from plotly.offline import get_plotlyjs

from ..estimators.base import GPA
from ..trust.selection import Tuning
from .data import registration_data

__all__ = ["render", "stylesheet"]

# what an HTML parser or an old JavaScript parser could take for markup or for the end of a line
UNSAFE = {ord(one): f"\\u{ord(one):04x}" for one in "<>&\u2028\u2029"}


def render(
    gpa: GPA,
    *,
    title: str = "kernelgpa",
    unit: str | None = None,
    faces: npt.ArrayLike | None = None,  # (f, 3) landmark indices
    tuning: Tuning | None = None,
    notes: Iterable[str] = (),
    settings: Mapping[str, Any] | None = None,
) -> str:
    """The whole page of a fitted registration, as text to be written in UTF-8.

    unit : of the coordinates, such as "mm".
    faces : triangles between landmarks, drawn as a translucent surface.
    tuning : the search that found the settings.
    notes : anything the reader should know, one paragraph each.
    settings : how the run was made, shown beside the estimator's own settings.
    """
    data = registration_data(gpa, title, unit, faces, tuning, notes, settings)
    library, script = get_plotlyjs(), _part("page.js")
    return _filled(
        _part("page.html"),
        {
            "policy": _policy(library, script),
            "title": _as_text(title),
            "style": stylesheet(),
            "library": library,
            "data": embedded(data),
            "script": script,
        },
    )


def stylesheet() -> str:
    """Return the style of every page that the package writes."""
    return _part("page.css")


def embedded(data: Any) -> str:
    """JSON that can stand inside a script element whatever texts it holds."""
    return json.dumps(data, allow_nan=False, separators=(",", ":")).translate(UNSAFE)


def _policy(*scripts: str) -> str:
    """No network at all, and no script but these: an injected one would not have their hash."""
    hashes = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    allowed = " ".join(f"'sha256-{one}'" for one in hashes)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


def _filled(template: str, values: Mapping[str, str]) -> str:
    """The template with each {{name}} replaced, in one pass: a value that looks like a name stays as it is."""
    return re.sub(r"\{\{(\w+)\}\}", lambda found: values[found[1]], template)


def _as_text(text: str) -> str:
    return html.escape(str(text)).encode("ascii", "xmlcharrefreplace").decode()


def _part(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")

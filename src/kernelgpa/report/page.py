"""One self-contained page that shows a registration: no network, no server, nothing to install.

The page is one HTML file made of ``template/page.html`` and ``page.css``, plotly.js as the Python package plotly
contains it, the registration as JSON, and the scripts of ``template/``, joined into one.  Names, titles, notes and
settings may hold any text; they are embedded as data and shown as text.  The content security policy of the page allows
no other script and loads nothing.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, replace
from importlib.resources import files
from typing import Any

from plotly.offline import get_plotlyjs

from ..estimators.base import GPA
from ..shape import ShapeModel
from .data import PageLimits, page_data
from .metadata import Metadata
from .shape_data import shape_data
from .summary import Assessment

SCRIPTS = (
    "data",
    "text",
    "plots",
    "map",
    "charts",
    "tuning",
    "tables",
    "modes",
    "specimens",
    "page",
)  # in the order they run
# characters that an HTML parser could take for markup, or an old JavaScript parser for the end of a line
ESCAPED = {ord(one): f"\\u{ord(one):04x}" for one in "<>&\u2028\u2029"}


def render(
    registration: GPA | Assessment,
    metadata: Metadata | None = None,
    limits: PageLimits | None = None,
    shape_model: ShapeModel | None = None,
) -> str:
    """The report page of a fitted registration, as text to be written in UTF-8.

    Parameters
    ----------
    registration : GPA or Assessment
        A fitted estimator, or its assessment if that has been computed already.
    metadata : Metadata, optional
        Title, unit, notes, mesh and settings to show.
    limits : PageLimits, optional
        How many points the page may hold.
    shape_model : ShapeModel, optional
        A fitted model of the same clouds and landmarks, of which the page then shows modes and scores.
    """
    statistics = None if shape_model is None else shape_model.statistics_  # one mean shape in the whole page
    assessment = registration if isinstance(registration, Assessment) else Assessment.of(registration, statistics)
    metadata = metadata or Metadata()
    limits = limits or PageLimits()
    data = page_data(assessment, metadata, limits)
    if shape_model is not None:
        data = replace(data, shapes=shape_data(shape_model, limits.points))
    library, script = get_plotlyjs(), _joined_scripts()
    return _filled(
        _template("page.html"),
        {
            "policy": _content_security_policy(library, script),
            "title": _html_text(metadata.title),
            "style": stylesheet(),
            "library": library,
            "data": embedded_json(asdict(data)),
            "script": script,
        },
    )


def stylesheet() -> str:
    """The style of every page that the package writes."""
    return _template("page.css")


def embedded_json(data: Any) -> str:
    """JSON that is safe inside a script element whatever texts it holds."""
    return json.dumps(data, allow_nan=False, separators=(",", ":")).translate(ESCAPED)


def _joined_scripts() -> str:
    """All scripts in one function, so that their names stay out of the way of plotly.js."""
    return '"use strict";\n(() => {\n' + "\n".join(_template(f"{name}.js") for name in SCRIPTS) + "})();\n"


def _content_security_policy(*scripts: str) -> str:
    """No network, and no script except these: an injected one would not have their hash."""
    hashes = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    allowed = " ".join(f"'sha256-{one}'" for one in hashes)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


def _filled(template: str, values: Mapping[str, str]) -> str:
    """The template with each {{name}} replaced, in one pass: a value that looks like a name stays as it is."""
    return re.sub(r"\{\{(\w+)\}\}", lambda found: values[found[1]], template)


def _html_text(text: str) -> str:
    return html.escape(str(text)).encode("ascii", "xmlcharrefreplace").decode()


def _template(name: str) -> str:
    return files(__package__).joinpath("template", name).read_text(encoding="utf-8")

"""The outcome of experiments as files: tables (CSV, Markdown), figures (PNG, PDF) and one HTML page."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Sequence
from html import escape, unescape
from pathlib import Path

from matplotlib.figure import Figure
from PIL import Image  # which matplotlib brings

from ..errors import InvalidSetting
from ..io.atomic import is_temporary, write_folder
from .tables import Claim, Outcome, Picture, SetUp, Table, shown

PAGE = "index.html"
MARK = '<meta name="generator" content="kernelgpa reproduce">'
FILES = re.compile(r'<meta name="files" content="([^"]*)">')
STYLE = """
:root { color-scheme: light dark; --line: #8886; --soft: #8882; --good: #1a7f37; --bad: #b35900; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 80rem; padding: 0 1rem; }
h1, h2 { line-height: 1.2; } h2 { margin-top: 3rem; border-top: 1px solid var(--line); padding-top: 1rem; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums; }
table { font-size: .9em; }
th, td { padding: .25rem .45rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th { white-space: normal; vertical-align: bottom; }
th:first-child, td:first-child { text-align: left; } td.best { font-weight: 700; background: var(--soft); }
li.holds::marker { content: "\\2713  "; color: var(--good); }
li.fails::marker { content: "\\2717  "; color: var(--bad); }
figure { margin: 1.5rem 0; } figcaption, .note, dd { color: color-mix(in srgb, currentColor 75%, transparent); }
.note { font-family: ui-monospace, monospace; font-size: .85em; margin: .2rem 0; }
.note { overflow-wrap: anywhere; } dt { font-weight: 600; }
img { max-width: 100%; background: white; } @media print { h2 { break-before: page; } }
"""
PUBLISHED = (
    "The scenes are made with the paper's recipe; its set-ups stand beside ours. Its results are printed in Bai, Wu "
    "and Bartoli, KernelGPA, IJRR 2023, doi 10.1177/02783649231195380, and belong to its own data: orderings can be "
    "compared, numbers hardly. Typed into CSV files named like those of this folder, with the same words for "
    "rows and methods, and given as --paper, they stand below ours."
)
WORDS = {
    "rigid, affine, thin-plate, kernel": "the paper's methods in its own form; kernel (0.25, 0.1) is bandwidth "
    "0.25, as a share of the mean distance of landmarks, and smoothing 0.1",
    "default": "this project's faithful map with the same settings",
    "tuned": "the family and settings with the least error on landmarks left out, robust where that lowers it",
    "disagreement": "how far the clouds' images of a test point lie from their mean, in the map",
    "sensor error": "the same in the cloud's own frame, which a shrinking map cannot lower",
    "map error": "how far the map's landmarks lie from the true ones after the best rigid motion",
}


def require_replaceable(folder: Path) -> None:
    """A page may replace a page with its tables, or fill an empty folder, and nothing else."""
    if folder.exists() and not folder.is_dir():
        raise InvalidSetting(f"{folder} is a file; give a folder that is new, or that holds such a page")
    folder = folder if folder.name else folder.resolve()  # "." says nothing in a message
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    other = {name for name in names - _written(folder / PAGE) if not is_temporary(name, folder.resolve().name)}
    if other:
        raise InvalidSetting(
            f"{folder} holds other things than a page of experiments ({min(other)}); give a new folder"
        )


def _written(page: Path) -> set[str]:
    """The names of a page and of what was written with it."""
    text = page.read_text(encoding="utf-8", errors="replace") if page.is_file() else ""
    listed = FILES.search(text)
    return {PAGE, *unescape(listed[1]).split("/")} if MARK in text and listed else set()


def write(outcomes: Sequence[Outcome], folder: Path, command: str) -> Path:
    """All files, in place of those of an earlier run; returned is the page."""
    folder = folder.resolve()  # a link stays a link
    require_replaceable(folder)
    files: dict[str, bytes] = {}
    for outcome in outcomes:
        for table in outcome.tables:
            files[f"{table.name}.csv"] = table.to_csv().encode()
            files[f"{table.name}.md"] = table.to_markdown().encode()
        for name, picture in outcome.figures.items():
            for kind in ("png", "pdf"):
                files[f"{outcome.name}-{name}.{kind}"] = drawn(picture.figure, kind)
    files[PAGE] = html(outcomes, command, tuple(files)).encode()
    write_folder(folder, files)
    return folder / PAGE


def drawn(figure: Figure, kind: str) -> bytes:
    buffer = io.BytesIO()
    # without the time of writing, so that the same run gives the same file
    metadata = {"CreationDate": None} if kind == "pdf" else {"Software": None}
    figure.savefig(buffer, format=kind, dpi=110, metadata=metadata)
    return few_colours(buffer.getvalue()) if kind == "png" else buffer.getvalue()


def few_colours(png: bytes) -> bytes:
    """A picture of 256 colours: charts need no more, and it takes a quarter of the room."""
    buffer = io.BytesIO()
    Image.open(io.BytesIO(png)).convert("RGB").quantize(256).save(buffer, "png", optimize=True)
    return buffer.getvalue()


def html(outcomes: Sequence[Outcome], command: str, files: Sequence[str] = ()) -> str:
    """The page; it lists the files that lie beside it, so that a later run replaces those and nothing else."""
    parts = [
        "<h1>The paper's experiments, again</h1>",
        f"<p><code>{escape(command)}</code></p>",
        f"<p>{escape(PUBLISHED)}</p>",
    ]
    parts.append(
        f"<dl>{''.join(f'<dt>{escape(word)}</dt><dd>{escape(text)}</dd>' for word, text in WORDS.items())}</dl>"
    )
    parts.append(_counts(outcomes))
    for outcome in outcomes:
        parts.append(f"<h2>{escape(outcome.title)}</h2><p>{escape(outcome.about)}</p>")
        parts.append(_setup(outcome.setup))
        parts += [_table(table) for table in outcome.tables]
        parts += [f'<p class="note">{escape(note)}</p>' for note in outcome.notes]
        parts.append(_claims(outcome.claims))
        parts += [_picture(picture) for picture in outcome.figures.values()]
    body = "\n".join(parts)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f'{MARK}<meta name="files" content="{escape("/".join(files))}">'
        f"<title>kernelgpa: experiments</title><style>{STYLE}</style></head><body>{body}</body></html>\n"
    )


def _setup(setup: Sequence[SetUp]) -> str:
    if not setup:
        return ""
    rows = (
        f"<tr><td>{escape(one.what)}</td><td>{escape(one.paper)}</td><td>{escape(one.here)}</td></tr>" for one in setup
    )
    head = "<tr><th>set-up</th><th>the paper</th><th>here</th></tr>"
    return f'<div class="scroll"><table>{head}{"".join(rows)}</table></div>'


def _picture(picture: Picture) -> str:
    data, caption = base64.b64encode(drawn(picture.figure, "png")).decode(), escape(picture.caption)
    return (
        f'<figure><img alt="{caption}" src="data:image/png;base64,{data}"><figcaption>{caption}</figcaption></figure>'
    )


def _claims(claims: Sequence[Claim]) -> str:
    if not claims:
        return ""
    items = []
    for claim in claims:
        kind = "holds" if claim.holds else "fails"
        why = f" ({escape(claim.why)})" if claim.why and not claim.holds else ""
        items.append(f'<li class="{kind}">{escape(claim.text)}: <em>{escape(claim.found)}</em>{why}</li>')
    return f"<h3>What holds</h3><ul>{''.join(items)}</ul>"


def _counts(outcomes: Sequence[Outcome]) -> str:
    """How many claims of the paper, and of this project, hold in each experiment."""
    rows = []
    for outcome in (one for one in outcomes if one.claims):
        cells = ""
        for whose in ("paper", "here"):
            claims = [claim for claim in outcome.claims if claim.text.startswith(whose)]
            cells += f"<td>{sum(claim.holds for claim in claims)} of {len(claims)}</td>"
        rows.append(f"<tr><td>{escape(outcome.title)}</td>{cells}</tr>")
    head = "<tr><th>claims that hold</th><th>the paper's</th><th>this project's</th></tr>"
    return f'<div class="scroll"><table>{head}{"".join(rows)}</table></div>'


def _table(table: Table) -> str:
    head = "".join(f"<th>{escape(column)}</th>" for column in table.columns)
    rows = []
    for label, values in table.rows:
        known = [value for value in values if value == value]
        cells = "".join(
            f'<td class="best">{shown(value)}</td>' if known and value == min(known) else f"<td>{shown(value)}</td>"
            for value in values
        )
        rows.append(f"<tr><td>{escape(label)}</td>{cells}</tr>")
    title = f"{escape(table.title)} ({escape(table.unit)})"
    return f'<div class="scroll"><table><tr><th>{title}</th>{head}</tr>{"".join(rows)}</table></div>'

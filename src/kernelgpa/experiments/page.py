"""The outcome of experiments as files: tables (CSV, Markdown), figures (PNG, PDF) and one HTML page."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from html import escape
from pathlib import Path

from matplotlib.figure import Figure

from ..io.files import write_bytes
from .common import Claim, Outcome, Table, shown

STYLE = """
:root { color-scheme: light dark; --line: #8886; --soft: #8882; --good: #1a7f37; --bad: #b35900; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; }
h1, h2 { line-height: 1.2; } h2 { margin-top: 3rem; border-top: 1px solid var(--line); padding-top: 1rem; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .75rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; } td.best { font-weight: 700; background: var(--soft); }
li.holds::marker { content: "\\2713  "; color: var(--good); }
li.fails::marker { content: "\\2717  "; color: var(--bad); }
img { max-width: 100%; background: white; } @media print { h2 { break-before: page; } }
"""
PUBLISHED = (
    "The paper's own data and tables are not repeated here: the scenes are made with the paper's recipe, so orderings "
    "can be compared and the numbers cannot. Bai, Wu and Bartoli, KernelGPA, IJRR 2023, doi 10.1177/02783649231195380, "
    "has them."
)


def write(outcomes: Sequence[Outcome], folder: Path, command: str) -> Path:
    """All files; returned is the page."""
    folder.mkdir(parents=True, exist_ok=True)
    for outcome in outcomes:
        for table in outcome.tables:
            write_bytes(folder / f"{table.name}.csv", table.to_csv().encode())
            write_bytes(folder / f"{table.name}.md", table.to_markdown().encode())
        for name, figure in outcome.figures.items():
            for kind in ("png", "pdf"):
                write_bytes(folder / f"{outcome.name}-{name}.{kind}", drawn(figure, kind))
    page = folder / "index.html"
    write_bytes(page, html(outcomes, command).encode())
    return page


def drawn(figure: Figure, kind: str) -> bytes:
    buffer = io.BytesIO()
    # without the time of writing, so that the same run gives the same file
    metadata = {"CreationDate": None} if kind == "pdf" else {"Software": None}
    figure.savefig(buffer, format=kind, dpi=110, metadata=metadata)
    return buffer.getvalue()


def html(outcomes: Sequence[Outcome], command: str) -> str:
    parts = [
        "<h1>The paper's experiments, again</h1>",
        f"<p><code>{escape(command)}</code></p>",
        f"<p>{escape(PUBLISHED)}</p>",
    ]
    parts.append(_counts(outcomes))
    for outcome in outcomes:
        parts.append(f"<h2>{escape(outcome.title)}</h2><p>{escape(outcome.about)}</p>")
        parts += [f"<p>{escape(note)}</p>" for note in outcome.notes]
        parts += [_table(table) for table in outcome.tables]
        parts.append(_claims(outcome.claims))
        for name, figure in outcome.figures.items():
            picture = base64.b64encode(drawn(figure, "png")).decode()
            parts.append(f'<p><img alt="{escape(name)}" src="data:image/png;base64,{picture}"></p>')
    body = "\n".join(parts)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>kernelgpa: experiments</title><style>{STYLE}</style></head><body>{body}</body></html>\n"
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

"""The results of experiments as files: tables (CSV, Markdown), figures (PNG, PDF), all of them (JSON), and one page.

The page has the style sheet of the registration report.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Sequence
from html import escape, unescape
from pathlib import Path

from ...errors import InvalidSetting
from ...io.atomic import is_temporary, write_folder
from ...report import stylesheet
from ..figures import CaptionedFigure
from ..tables import Claim, Outcome, Parameter, Table, formatted
from .stored import RESULTS, StoredRun, to_json

INDEX = "index.html"
GENERATOR = '<meta name="generator" content="kernelgpa reproduce">'
FILE_LIST = re.compile(r'<meta name="files" content="([^"]*)">')
EXTRA_STYLE = """
.scroll { max-height: none; margin: 1rem 0; } th { vertical-align: bottom; } th, td { padding-inline: .5rem; }
.scroll :is(th, td):first-child, .words td { white-space: normal; } .scroll :is(th, td):first-child { min-width: 7rem; }
.scroll table { border-collapse: separate; border-spacing: 0; } .scroll td { border-top: 1px solid var(--line); }
.scroll tr { border: 0; }
td.best { font-weight: 700; background: var(--wash); }
li.holds::marker { content: "\\2713  "; color: var(--accent); }
li.fails::marker { content: "\\2717  "; color: var(--moderate); }
ul.claims { padding-left: 1.6rem; } .claims li { margin-bottom: .25rem; overflow-wrap: anywhere; }
details { margin: 1rem 0; }
figure { margin: 1.5rem 0; } img { max-width: 100%; background: white; }
@media (max-width: 40rem) { dl { display: block; } dt { font-weight: 600; } dd { margin-bottom: .4rem; } }
header code { overflow-wrap: anywhere; }
.tuned { font-family: ui-monospace, monospace; font-size: .85em; overflow-wrap: anywhere; }
"""
SOURCES = {"paper": "the paper's", "here": "this project's"}  # with which claims begin
MISSING = formatted(float("nan"))
INTRODUCTION = (
    "The scenes are made by the paper's recipe, and its parameters are listed beside ours. Rows that end in 'in the "
    "paper' are the results of Tables 1 to 3 of Bai, Wu and Bartoli, KernelGPA, IJRR 2023, doi "
    "10.1177/02783649231195380, on its own data. The bodies of these tables deform such that the columns rigid and "
    "affine have the paper's means; nothing else was fitted, so that the other columns can be compared. Tables named "
    "harder or second set have other bodies, and their numbers cannot be compared with the paper's."
)
TERMS = {
    "rigid, affine, thin-plate": "the paper's methods as the authors' program computes them",
    "kernel (program)": "the paper's kernel method as the authors' program computes it (R_g = I); kernel (0.25, 0.1) "
    "means bandwidth 0.25, as a share of the mean distance between landmarks, and smoothing 0.1",
    "kernel (paper)": "the same with the rotation R_g of the paper's text",
    "kernel (faithful)": "this project's faithful map with the paper's bandwidth and smoothing and no robust loss: it "
    "differs from the two columns before in the form of the map only",
    "automatic": "KernelGPA() without any setting: bandwidth, smoothing and robust loss are chosen from the data",
    "tuned": "the family and the settings with the least error on left-out landmarks, robust if that lowers it",
    "disagreement": "the distance of the clouds' images of a test point from their mean, in the map",
    "sensor error": "the same in the cloud's own frame, which a shrinking map cannot lower",
    "map error": "the distance of the map's landmarks from the true ones after the best rigid motion",
}


def require_replaceable(folder: Path) -> None:
    """Raise unless the folder is new, empty, or holds only what an earlier run wrote."""
    if folder.exists() and not folder.is_dir():
        raise InvalidSetting(f"{folder} is a file; give a new folder, or one that holds earlier results")
    folder = folder if folder.name else folder.resolve()  # "." would not be helpful in a message
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    other = {name for name in names - _written_files(folder / INDEX) if not is_temporary(name, folder.resolve().name)}
    if other:
        raise InvalidSetting(
            f"{folder} holds other files than results of experiments ({min(other)}); give a new folder"
        )


def _written_files(page: Path) -> set[str]:
    """Return the names of a page and of the files that were written with it."""
    text = page.read_text(encoding="utf-8", errors="replace") if page.is_file() else ""
    listed = FILE_LIST.search(text)
    return {INDEX, *unescape(listed[1]).split("/")} if GENERATOR in text and listed else set()


def write(outcomes: Sequence[Outcome], folder: Path, run: StoredRun) -> Path:
    """Write all files in place of those of an earlier run, and return the page."""
    folder = folder.resolve()  # replace the folder that a link points to, not the link
    require_replaceable(folder)
    files: dict[str, bytes] = {}
    for outcome in outcomes:
        for table in outcome.tables:
            files[f"{table.name}.csv"] = table.to_csv().encode()
            files[f"{table.name}.md"] = table.to_markdown().encode()
        for name, captioned in outcome.figures.items():
            for file_type, data in captioned.files.items():
                files[f"{outcome.name}-{name}.{file_type}"] = data
    files[RESULTS] = to_json(outcomes, run).encode()
    files[INDEX] = html(outcomes, run.command, tuple(files)).encode()
    write_folder(folder, files)
    return folder / INDEX


def html(outcomes: Sequence[Outcome], command: str, files: Sequence[str] = ()) -> str:
    """Return the page; it lists the files beside it, so that a later run replaces those and nothing else."""
    terms = "".join(f"<dt>{escape(term)}</dt><dd>{escape(text)}</dd>" for term, text in TERMS.items())
    sections = "\n".join(f"<section>{_outcome(outcome)}</section>" for outcome in outcomes)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f'{GENERATOR}<meta name="files" content="{escape("/".join(files))}">'
        f"<title>kernelgpa: experiments</title><style>{stylesheet()}{EXTRA_STYLE}</style></head><body>"
        f"<header><h1>The experiments of the paper</h1><p><code>{escape(command)}</code></p></header>"
        f"<main><section><p>{escape(INTRODUCTION)}</p><dl>{terms}</dl>{_claim_counts(outcomes)}</section>"
        f"{sections}</main></body></html>\n"
    )


def _outcome(outcome: Outcome) -> str:
    parts = [f"<h2>{escape(outcome.title)}</h2><p>{escape(outcome.about)}</p>", _parameters(outcome.parameters)]
    parts += [_table(table) for table in outcome.tables]
    parts += [_figure(captioned) for captioned in outcome.figures.values()]
    parts += [_claims(outcome.claims), _notes(outcome)]
    return "\n".join(parts)


def _html_table(head: Iterable[str], rows: Iterable[Iterable[str]], css_class: str = "numbers") -> str:
    """Return a table whose cells are HTML elements."""
    heads = "".join(f"<th>{escape(text)}</th>" for text in head)
    body = "".join(f"<tr>{''.join(cells)}</tr>" for cells in rows)
    return f'<div class="scroll {css_class}"><table><tr>{heads}</tr>{body}</table></div>'


def _cell(text: str, best: bool = False) -> str:
    return f'<td class="best">{escape(text)}</td>' if best else f"<td>{escape(text)}</td>"


def _parameters(parameters: Sequence[Parameter]) -> str:
    if not parameters:
        return ""
    rows = ([_cell(one.name), _cell(one.paper), _cell(one.here)] for one in parameters)
    return _html_table(["parameter", "the paper", "here"], rows, "words")


def _table(table: Table) -> str:
    rows = []
    for label, values in table.rows:
        least = formatted(min((value for value in values if value == value), default=float("nan")))  # without NaN
        known = [formatted(value) for value in values]
        rows.append([_cell(label), *(_cell(text, text == least != MISSING) for text in known)])
    return _html_table([f"{table.title} ({table.unit})", *table.columns], rows)


def _claim_counts(outcomes: Sequence[Outcome]) -> str:
    """Return a table of how many claims of the paper, and of this project, hold in each experiment."""
    rows = (
        [_cell(outcome.title), *(_cell(_count(_claims_of(source, outcome.claims))) for source in SOURCES)]
        for outcome in outcomes
        if outcome.claims
    )
    return _html_table(["claims that hold", *SOURCES.values()], rows)


def _claims_of(source: str, claims: Sequence[Claim]) -> list[Claim]:
    return [claim for claim in claims if claim.text.startswith(source)]


def _count(claims: Sequence[Claim]) -> str:
    return f"{sum(claim.holds for claim in claims)} of {len(claims)}"


def _claims(claims: Sequence[Claim]) -> str:
    """Return the claims of the paper as a list, and those of this project, which are many, as one to unfold."""
    paper, own = (_claims_of(source, claims) for source in SOURCES)
    parts = [f"<h3>The paper's claims</h3>{_claim_list(paper)}"] if paper else []
    if own:
        head = f"<summary>This project's claims: {_count(own)} hold</summary>"
        parts.append(f"<details>{head}{_claim_list(own)}</details>")
    return "".join(parts)


def _claim_list(claims: Sequence[Claim]) -> str:
    items = []
    for claim in claims:
        css_class = "holds" if claim.holds else "fails"
        why = f" ({escape(claim.why)})" if claim.why and not claim.holds else ""
        text = escape(claim.text.partition(": ")[2])  # without the source
        items.append(f'<li class="{css_class}">{text}: <em>{escape(claim.found)}</em>{why}</li>')
    return f'<ul class="claims">{"".join(items)}</ul>'


def _notes(outcome: Outcome) -> str:
    """Return the chosen settings as a list to unfold, and other notes as paragraphs."""
    notes = "".join(f'<p class="tuned">{escape(note)}</p>' for note in outcome.notes)
    if not (notes and outcome.tables):
        return notes
    return f"<details><summary>Settings that were chosen from the data</summary>{notes}</details>"


def _figure(captioned: CaptionedFigure) -> str:
    data, caption = base64.b64encode(captioned.files["png"]).decode(), escape(captioned.caption)
    return (
        f'<figure><img alt="{caption}" src="data:image/png;base64,{data}">'
        f'<figcaption class="caption">{caption}</figcaption></figure>'
    )

"""The tables, figures and claims of docs/results.md, from what ``kernelgpa reproduce`` wrote.

    kernelgpa reproduce all -o experiments
    python benchmarks/results_page.py experiments

Several folders can be given; an experiment in a later one replaces that of an earlier one.  Of runs with ``--quick``
only the results on real data are used.  The script replaces what stands between the comments
``<!-- results: liver tables -->`` and ``<!-- end -->`` and writes the figures to docs/images.  All other text of the
page is written by hand.  Without a result for a comment the text below it stays.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from kernelgpa.experiments import EXPERIMENTS
from kernelgpa.experiments.output.stored import read
from kernelgpa.experiments.tables import IN_PAPER, PAPER_METHODS, PROGRAM_KERNEL, Claim, Outcome, paper_numbers

PAGE = Path(__file__).resolve().parents[1] / "docs" / "results.md"
BLOCK = re.compile(r"<!-- results: (.+?) -->\n.*?<!-- end -->", re.DOTALL)
DATA = "data-"  # with which the names of the outcomes of ``--data`` begin
SOURCES = ("paper", "here")  # with which claims begin
COMPARED = [method for method in PAPER_METHODS if method in ("rigid", "affine", "thin-plate", PROGRAM_KERNEL)]


def with_results(page: str, outcomes: Mapping[str, Outcome]) -> str:
    """Return the page with all blocks for which there are results written anew."""
    blocks = text_blocks(outcomes)

    def replaced(found: re.Match[str]) -> str:
        name = found[1]
        return f"<!-- results: {name} -->\n\n{blocks[name]}\n\n<!-- end -->" if name in blocks else found[0]

    return BLOCK.sub(replaced, page)


def text_blocks(outcomes: Mapping[str, Outcome]) -> dict[str, str]:
    """Return the text of each block by its name."""
    experiments = [outcomes[name] for name in EXPERIMENTS if name in outcomes]
    data = [one for one in outcomes.values() if one.name.startswith(DATA) and one.tables]
    claims = [claim for one in (*experiments, *data) for claim in one.claims]
    blocks = {
        "deviations": _deviations(experiments),
        "claims that hold": _claim_counts(experiments, data),
        "claims that do not hold": "\n".join(f"- {_as_item(claim)}" for claim in claims if not claim.holds),
    }
    if data:
        blocks["data"] = "\n\n".join(f"*{one.name}*\n\n{_tables(one)}" for one in data)
    for one in experiments:
        blocks[f"{one.name} parameters"] = _parameters(one)
        blocks[f"{one.name} tables"] = "\n\n".join(filter(None, [_tables(one), _notes(one), _figures(one)]))
    return {name: text for name, text in blocks.items() if text}


def _tables(outcome: Outcome) -> str:
    return "\n\n".join(table.to_markdown().rstrip("\n") for table in outcome.tables)


def _notes(outcome: Outcome) -> str:
    return "\n".join(["```text", *outcome.notes, "```"]) if outcome.notes else ""


def _figures(outcome: Outcome) -> str:
    return "\n\n".join(
        f"![{figure.caption}](images/{outcome.name}-{name}.png)" for name, figure in outcome.figures.items()
    )


def _parameters(outcome: Outcome) -> str:
    return _table(["parameter", "the paper", "here"], ([one.name, one.paper, one.here] for one in outcome.parameters))


def _deviations(experiments: Sequence[Outcome]) -> str:
    """Tabulate how far our means are from those of the paper, for each mean that the paper prints."""
    rows = []
    for table in (table for one in experiments for table in one.tables if table.name in paper_numbers()):
        labels = dict(table.rows)
        for label in (label for label in labels if label.endswith(": mean") and label + IN_PAPER in labels):
            ours, printed = table.row(label), table.row(label + IN_PAPER)
            deviations = (f"{100 * (ours[method] / printed[method] - 1):+.1f} %" for method in COMPARED)
            rows.append([f"{table.name}, {label.removesuffix(': mean')}", *deviations])
    return _table(["mean, relative to the paper's", *COMPARED], rows) if rows else ""


def _claim_counts(experiments: Sequence[Outcome], data: Sequence[Outcome]) -> str:
    rows = [[one.title, *_counts(one.claims)] for one in experiments]
    everything = [claim for one in experiments for claim in one.claims]
    rows.append(["all simulated data", *_counts(everything)])
    if data:
        rows.append(["real data", *_counts([claim for one in data for claim in one.claims])])
    return _table(["claims that hold", "the paper's", "this project's"], rows)


def _counts(claims: Sequence[Claim]) -> list[str]:
    of_sources = [[claim.holds for claim in claims if claim.text.startswith(source)] for source in SOURCES]
    return [f"{sum(holds)} of {len(holds)}" if holds else "-" for holds in of_sources]


def _as_item(claim: Claim) -> str:
    return str(claim).removeprefix("does not hold: ")


def _table(head: Sequence[str], rows) -> str:
    lines = [f"| {' | '.join(cells)} |" for cells in rows]
    return "\n".join([f"| {' | '.join(head)} |", "|---" * len(head) + "|", *lines]) if lines else ""


def read_results(folder: Path) -> list[Outcome]:
    """Return the outcomes in a folder; of a quick run those on real data only."""
    run, outcomes = read(folder)
    return [one for one in outcomes if one.name.startswith(DATA) or not run.quick]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, help="folders that kernelgpa reproduce wrote")
    parser.add_argument("--page", type=Path, default=PAGE)
    arguments = parser.parse_args()
    outcomes = {one.name: one for folder in arguments.folders for one in read_results(folder)}
    page = arguments.page
    page.write_text(with_results(page.read_text(encoding="utf-8"), outcomes), encoding="utf-8")
    for one in outcomes.values():
        for name, figure in one.figures.items():
            (page.parent / "images" / f"{one.name}-{name}.png").write_bytes(figure.files["png"])


if __name__ == "__main__":
    main()

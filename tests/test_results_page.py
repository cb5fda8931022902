"""docs/results.md is made from the results of a run, and has today's columns."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from kernelgpa.experiments import EXPERIMENTS
from kernelgpa.experiments.figures import CaptionedFigure
from kernelgpa.experiments.output import stored
from kernelgpa.experiments.output.page import write
from kernelgpa.experiments.tables import (
    ALL_METHODS,
    Claim,
    Outcome,
    Parameter,
    Table,
    paper_numbers,
    with_paper_numbers,
)

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "results.md"
SCRIPT = ROOT / "benchmarks" / "results_page.py"
BLOCKS = re.compile(r"<!-- results: (.+?) -->\n(.*?)<!-- end -->", re.DOTALL)


@pytest.fixture
def results(tmp_path):
    """A folder of results, as a run leaves it: the paper's means, and ours 10 % above."""
    return write_results(tmp_path / "experiments", quick=False)


def write_results(folder, quick):
    table = Table("liver", "errors", "mm", ALL_METHODS)
    printed = paper_numbers()["liver"]["exact: mean"]
    table.add("exact: mean", [1.1 * printed.get(method, np.nan) for method in ALL_METHODS])
    figure = Figure(figsize=(1, 1))
    liver = Outcome(
        "liver",
        "Liver",
        "about",
        [table],
        [Claim("paper: a", True, "1 < 2"), Claim("here: b", False, "2 < 1", "a reason")],
        {"surface": CaptionedFigure.of(figure, "The surface.")},
        ["tuned: KernelGPA()"],
        [Parameter("clouds", "60", "6")],
    )
    data = Outcome("data-apes", "apes", "", [table], [Claim("here: c", True, "1 < 2")], {})
    run = stored.StoredRun("kernelgpa reproduce liver", "1", quick, 0)
    return write([with_paper_numbers(liver, paper_numbers()), data], folder, run).parent


def rewritten(monkeypatch, results, text):
    """The page after the script has run."""
    page = results.parent / "results.md"
    (results.parent / "images").mkdir(exist_ok=True)
    page.write_text(text)
    monkeypatch.setattr(sys, "argv", ["results_page.py", str(results), "--page", str(page)])
    runpy.run_path(str(SCRIPT), run_name="__main__")
    return page.read_text()


def block(name, text=""):
    return f"<!-- results: {name} -->\n{text}<!-- end -->"


def test_blocks_are_replaced_and_other_text_stays(monkeypatch, results):
    names = ("liver parameters", "liver tables", "deviations", "claims that hold", "claims that do not hold", "data")
    text = "\n".join(
        ["before", *(f"{block(name, 'old text')}\nbetween" for name in names), block("ct tables", "kept ")]
    )
    found = rewritten(monkeypatch, results, text)
    blocks = dict(BLOCKS.findall(found))
    assert set(blocks) == {*names, "ct tables"}
    assert "old text" not in found
    assert BLOCKS.sub("", found) == BLOCKS.sub("", text)
    assert blocks["ct tables"] == "kept "  # the run has no results for it
    assert "| clouds | 60 | 6 |" in blocks["liver parameters"]
    assert "| exact: mean, in the paper | 2.47 | 1.423 | 0.459 | 0.174 | - |" in blocks["liver tables"]
    assert "```text\ntuned: KernelGPA()\n```" in blocks["liver tables"]
    assert "![The surface.](images/liver-surface.png)" in blocks["liver tables"]
    assert "| liver, exact | +10.0 % | +10.0 % | +10.0 % | +10.0 % |" in blocks["deviations"]
    assert "| Liver | 1 of 1 | 0 of 1 |" in blocks["claims that hold"]
    assert "| real data | - | 1 of 1 |" in blocks["claims that hold"]
    assert "- here: b (2 < 1; a reason)" in blocks["claims that do not hold"]
    assert "*data-apes*" in blocks["data"]
    surface = (results / "liver-surface.png").read_bytes()
    assert (results.parent / "images" / "liver-surface.png").read_bytes() == surface
    assert rewritten(monkeypatch, results, found) == found  # again, nothing changes


def test_of_quick_runs_only_the_results_on_real_data_are_used(monkeypatch, tmp_path):
    text = "\n".join(block(name, "old ") for name in ("liver tables", "data"))
    blocks = dict(BLOCKS.findall(rewritten(monkeypatch, write_results(tmp_path / "quick", quick=True), text)))
    assert blocks["liver tables"] == "old "
    assert "*data-apes*" in blocks["data"]


def test_the_page_has_a_block_for_everything_that_is_computed():
    blocks = dict(BLOCKS.findall(PAGE.read_text(encoding="utf-8")))
    of_experiments = {f"{name} {kind}" for name in EXPERIMENTS for kind in ("parameters", "tables")}
    assert set(blocks) == {*of_experiments, "deviations", "claims that hold", "claims that do not hold", "data"}
    for name, text in blocks.items():
        assert text.strip(), name
    for printed in paper_numbers().values():
        for label in printed:
            assert sum(f"| {label}, in the paper |" in text for text in blocks.values()) == 1, label


def test_the_tables_of_the_page_have_the_columns_of_today():
    heads = re.findall(r"^\| (.+ \(mm\)) \| (.*) \|\n\|---", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    of_methods = [columns.split(" | ") for title, columns in heads if "disagreement" in title and "share" not in title]
    assert len(of_methods) == 7
    for columns in of_methods:
        assert tuple(columns) == ALL_METHODS

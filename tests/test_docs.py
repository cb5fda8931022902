"""Every command and every line of Python in the tutorials runs, in the order in which it is read."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

from kernelgpa.cli import main

DOCS = Path(__file__).resolve().parents[1] / "docs"
TUTORIALS = sorted((DOCS / "tutorials").glob("*.md"))


def blocks(page):
    return re.findall(r"```(sh|python)\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


def exit_code():
    try:
        main()
    except SystemExit as end:
        return end.code or 0
    return 0


def expanded(words):
    """File names with stars, as a shell gives them."""
    for word in words:
        yield from sorted(map(str, Path().glob(word))) if "*" in word else [word]


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_a_tutorial_runs_as_it_stands(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    found = blocks(page)
    assert {kind for kind, _ in found} == {"sh", "python"}
    for kind, text in found:
        if kind == "python":
            exec(compile(text, page.name, "exec"), names)
            continue
        for line in text.strip().splitlines():
            words = list(expanded(shlex.split(line)))
            assert words[0] == "kernelgpa"
            monkeypatch.setattr(sys, "argv", words)
            assert exit_code() == 0, (line, capsys.readouterr().err)
    capsys.readouterr()


def test_the_page_of_scenes_runs():
    found = blocks(DOCS / "simulate.md")
    assert {kind for kind, _ in found} == {"python"}
    for _, text in found:
        exec(compile(text, "simulate.md", "exec"), {})


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: page.stem)
def test_links_lead_to_files(page):
    for link in re.findall(r"\]\(((?!http)[^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
        assert (page.parent / link).exists(), link


def test_the_table_of_formats_is_complete():
    from kernelgpa.io.files import FORMATS

    text = (DOCS / "files.md").read_text(encoding="utf-8")
    for suffix in FORMATS:
        assert f"`{suffix}`" in text, suffix

"""The scripts of the report page pass their checks, and the checks find mistakes."""

from __future__ import annotations

import shutil
import subprocess
from importlib.resources import files
from pathlib import Path

import pytest

from conftest import scene
from kernelgpa import AffineGPA
from kernelgpa.report import render

LINT = Path(__file__).with_name("lint_page.mjs")
needs_node = pytest.mark.skipif(not shutil.which("node"), reason="needs node")


def lint(*files):
    command = [shutil.which("node"), str(LINT), *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


@needs_node
def test_the_scripts_pass_their_checks():
    assert lint() == (0, "")


@needs_node
@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("const a = ;", "SyntaxError"),
        (
            "const value = 1;\nconst copy = vaule + value + copy;",
            "vaule: declared and not used, or used and not declared",
        ),
        ("const text = `${value}` + text;", "value: declared and not used"),
        ("document.body.innerHTML = document.title;", "markup from text"),
        ("if (data == data) data = 1;", "use === or !=="),
    ],
)
def test_the_checks_find_mistakes(script, problem, tmp_path):
    (tmp_path / "wrong.js").write_text(script, encoding="utf-8")
    code, printed = lint(tmp_path / "wrong.js")
    assert code == 1
    assert problem in printed


def test_every_script_is_part_of_the_page():
    page = render(AffineGPA().fit(scene()[0]))
    template = files("kernelgpa.report").joinpath("template")
    scripts = [one for one in template.iterdir() if one.name.endswith(".js")]
    assert len(scripts) >= 5
    assert all(one.read_text(encoding="utf-8") in page for one in scripts)

"""The examples, commands and links of the README are true."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_python_examples_run_in_order(capsys):
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", README, re.DOTALL):
        exec(compile(block, "README.md", "exec"), names)
    printed = capsys.readouterr().out
    assert "(150, 3)" in printed
    assert "bandwidth" in printed


def test_the_examples_of_the_page_on_python_run_in_order():
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "python.md").read_text("utf-8"), re.DOTALL):
        exec(compile(block, "python.md", "exec"), names)
    assert "weighted" in names


def test_import_loads_no_optional_library():
    code = "import kernelgpa, sys; print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "kernelgpa" in modules
    assert not {"matplotlib", "plotly", "dask", "distributed", "pandas", "xarray"} & set(modules)


@pytest.mark.parametrize("target", sorted(set(re.findall(r"\bmake ([a-z][a-z-]*)", README))))
def test_every_make_command_is_a_target(target):
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda page: page.stem)
def test_every_page_of_the_documentation_is_linked(page):
    docs = ROOT / "docs"
    index = (docs / "index.md").read_text(encoding="utf-8")
    linked = f"({page.relative_to(docs).as_posix()})" in index
    assert linked or f"({page.relative_to(ROOT).as_posix()})" in README

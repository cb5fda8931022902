"""What the README says runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def python_blocks():
    return re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)


def test_the_examples_run_in_the_order_they_are_read(capsys):
    names: dict[str, object] = {}
    for block in python_blocks():
        exec(compile(block, "README.md", "exec"), names)
    printed = capsys.readouterr().out
    assert "(150, 3)" in printed
    assert "bandwidth" in printed


@pytest.mark.parametrize("command", ["demo", "test", "check"])
def test_every_command_of_the_readme_is_a_target(command):
    assert re.search(rf"^{command}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)


def test_links_lead_to_files():
    links = re.findall(r"\]\(((?!http)[^)#]+)\)", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert links
    for link in links:
        assert (ROOT / link).exists(), link

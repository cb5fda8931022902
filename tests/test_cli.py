"""Every command, from the outside."""

from __future__ import annotations

import sys

import pytest
from matplotlib.image import imread

from kernelgpa import __version__
from kernelgpa.cli import main


def run(monkeypatch, *arguments):
    """Exit code of ``kernelgpa arguments``."""
    monkeypatch.setattr(sys, "argv", ["kernelgpa", *map(str, arguments)])
    try:
        main()
    except SystemExit as exit_:
        return exit_.code
    return 0


def test_demo_leaves_a_table_and_a_picture(monkeypatch, capsys, tmp_path):
    picture = tmp_path / "demo.png"
    assert run(monkeypatch, "demo", "-o", picture) == 0
    printed = capsys.readouterr().out
    for word in ("rigid", "affine", "thin-plate", "kernel", "map error"):
        assert word in printed
    assert imread(picture).std() > 0.05  # something is drawn


def test_a_picture_that_cannot_be_written_is_one_line_and_exit_2(monkeypatch, capsys, tmp_path):
    assert run(monkeypatch, "demo", "-o", tmp_path / "missing" / "demo.png") == 2
    printed = capsys.readouterr()
    assert len(printed.err.strip().splitlines()) == 1
    assert "missing" in printed.err


@pytest.mark.parametrize("name", ["picture", "picture.foo", ""])
def test_a_name_that_is_no_picture_is_refused_before_any_work(monkeypatch, capsys, tmp_path, name):
    assert run(monkeypatch, "demo", "-o", tmp_path / name) == 2
    assert "is no picture file" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arguments", [["--help"], ["demo", "--help"]])
def test_help_has_worked_examples(monkeypatch, capsys, arguments):
    assert run(monkeypatch, *arguments) == 0
    assert "kernelgpa demo" in capsys.readouterr().out


def test_version(monkeypatch, capsys):
    assert run(monkeypatch, "--version") == 0
    assert __version__ in capsys.readouterr().out

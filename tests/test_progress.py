"""A bar where somebody looks and waits; nothing anywhere else."""

from __future__ import annotations

import io
import time

import pytest
from rich.console import Console

import kernelgpa._numerics.progress
from kernelgpa._numerics.progress import progress, with_progress


def terminal():
    return Console(file=io.StringIO(), force_terminal=True, width=100)


def drawn(console, steps=4, pause=0.05):
    with progress("clouds", steps, console) as step:
        for _ in range(steps):
            time.sleep(pause)
            step()
    return console.file.getvalue()


def test_long_work_shows_a_bar(monkeypatch):
    monkeypatch.setattr(kernelgpa._numerics.progress, "PATIENCE", 0.02)
    text = drawn(terminal())
    assert "clouds" in text
    assert "/4" in text


def test_short_work_and_files_stay_silent(monkeypatch):
    assert drawn(terminal(), pause=0.0) == ""
    monkeypatch.setattr(kernelgpa._numerics.progress, "PATIENCE", 0.0)
    assert drawn(Console(file=io.StringIO())) == ""


def test_work_inside_work_shows_the_outer_bar_only(monkeypatch):
    monkeypatch.setattr(kernelgpa._numerics.progress, "PATIENCE", 0.0)
    inner = terminal()
    with progress("settings", 1, terminal()):
        assert drawn(inner) == ""
    assert "clouds" in drawn(terminal())  # and afterwards the next may


def test_an_error_ends_the_bar():
    def failing():
        with progress("clouds", 2, terminal()):
            raise ValueError

    for _ in range(2):
        with pytest.raises(ValueError, match=r"^$"):
            failing()
    assert list(with_progress("ab", "letters", 2)) == ["a", "b"]

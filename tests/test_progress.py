"""Progress bars appear on a terminal, after a delay, and nowhere else."""

from __future__ import annotations

import io
import time

import pytest
from rich.console import Console

from kernelgpa._numerics.progress import BAR_DELAY, progress, with_progress


def terminal():
    return Console(file=io.StringIO(), force_terminal=True, width=100)


def drawn(console, steps=4, pause=0.05, delay=BAR_DELAY):
    with progress("clouds", steps, console, delay) as step:
        for _ in range(steps):
            time.sleep(pause)
            step()
    return console.file.getvalue()


def test_long_work_shows_a_bar():
    text = drawn(terminal(), delay=0.02)
    assert "clouds" in text
    assert "/4" in text


def test_short_work_and_files_show_no_bar():
    assert drawn(terminal(), pause=0.0) == ""
    assert drawn(Console(file=io.StringIO()), delay=0.0) == ""


def test_nested_work_shows_only_the_outer_bar():
    with progress("settings", 1, terminal(), delay=0.0):
        assert drawn(terminal(), delay=0.0) == ""
    assert "clouds" in drawn(terminal(), delay=0.0)  # and the next work shows its bar again


def test_an_error_ends_the_bar():
    def failing():
        with progress("clouds", 2, terminal()):
            raise ValueError

    for _ in range(2):
        with pytest.raises(ValueError, match=r"^$"):
            failing()
    assert list(with_progress("ab", "letters", 2)) == ["a", "b"]

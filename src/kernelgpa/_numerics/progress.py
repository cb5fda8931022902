"""A bar for work that takes longer than two seconds, where somebody is looking.

It appears on the terminal's standard error, goes when the work is done, and is silent where that is no terminal.  Work
inside work shows the outer bar only.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from threading import Lock, Timer
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

PATIENCE = 2.0  # seconds

Item = TypeVar("Item")

_shown = Lock()


@contextmanager
def progress(title: str, total: int, console: Console | None = None) -> Iterator[Callable[[], None]]:
    """A function to call after each of ``total`` steps."""
    console = Console(stderr=True) if console is None else console
    if not console.is_terminal or not _shown.acquire(blocking=False):
        yield lambda: None
        return
    try:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        bar = Progress(*columns, TimeRemainingColumn(), console=console, transient=True)
        task = bar.add_task(title, total=total)
        timer = Timer(PATIENCE, bar.start)
        timer.daemon = True
        try:
            timer.start()
            yield lambda: bar.advance(task)
        finally:
            try:
                timer.cancel()
                timer.join()  # or it might begin to draw after the end
            finally:
                bar.stop()
    finally:
        _shown.release()


def with_progress(items: Iterable[Item], title: str, total: int) -> Generator[Item, None, None]:
    """The items, with a step for each."""
    with progress(title, total) as step:
        for item in items:
            yield item
            step()

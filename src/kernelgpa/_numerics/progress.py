"""Progress bars for work that takes longer than two seconds.

A bar appears on standard error if that is a terminal, and disappears when the work is done.  Of nested work only the
outermost shows a bar.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from threading import Lock, Timer
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

BAR_DELAY = 2.0  # seconds until the bar appears

Item = TypeVar("Item")

_bar_in_use = Lock()


@contextmanager
def progress(
    title: str, total: int, console: Console | None = None, delay: float = BAR_DELAY
) -> Iterator[Callable[[], None]]:
    """A function to call after each of ``total`` steps."""
    console = Console(stderr=True) if console is None else console
    if not console.is_terminal or not _bar_in_use.acquire(blocking=False):
        yield lambda: None
        return
    try:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        bar = Progress(*columns, TimeRemainingColumn(), console=console, transient=True)
        task = bar.add_task(title, total=total)
        timer = Timer(delay, bar.start)
        timer.daemon = True
        try:
            timer.start()
            yield lambda: bar.advance(task)
        finally:
            try:
                timer.cancel()
                timer.join()  # otherwise it might start to draw after the end
            finally:
                bar.stop()
    finally:
        _bar_in_use.release()


def with_progress(items: Iterable[Item], title: str, total: int) -> Generator[Item, None, None]:
    """The items, with one step of a progress bar for each."""
    with progress(title, total) as step:
        for item in items:
            yield item
            step()

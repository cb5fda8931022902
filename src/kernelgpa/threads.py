"""Threads that never wait for one another.

The threads of one BLAS call meet at every block of the matrix, and one that the system has set aside stalls all of
them: on a busy machine a fit then takes up to a hundred times as long.  So every BLAS has one thread during a fit, and
the cores are used by working on several clouds at a time (``side_by_side``), which meet once, at the end.  Where one
large matrix is all there is to do, SciPy's BLAS gets the cores that nobody else uses (``free_cores_for``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from numbers import Integral
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

from joblib import cpu_count
from threadpoolctl import ThreadpoolController

from .errors import InvalidSetting

LARGE = 3000  # rows from which the threads of BLAS pay on a matrix that is all there is to do

Item = TypeVar("Item")
Result = TypeVar("Result")


class _SingleThreads:
    """Fits that run at the moment; while there are any, every BLAS has one thread.

    Fits may run side by side in several threads of one process, and the last to leave restores what the first found.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._fits = 0
        self._found: list[tuple[Any, int]] = []  # libraries, and the threads they had

    @contextmanager
    def fit(self) -> Iterator[None]:
        with self._lock:
            if not self._fits:
                self._found = [(library, library.get_num_threads()) for library in _libraries()]
                self._set(1)
            self._fits += 1
        try:
            yield
        finally:
            with self._lock:
                self._fits -= 1
                if not self._fits:
                    self._set(None)

    @contextmanager
    def several(self, threads: int) -> Iterator[None]:
        """So many threads, unless another fit runs in this process."""
        with self._lock:
            alone = self._fits == 1
            if alone:
                self._set(threads)
        try:
            yield
        finally:
            if alone:
                with self._lock:
                    self._set(1)

    def _set(self, threads: int | None) -> None:
        """So many threads, but never more than there were; None: as many as there were."""
        for library, found in self._found:
            library.set_num_threads(found if threads is None else min(threads, found))


@cache
def _libraries() -> list[Any]:
    return list(ThreadpoolController().select(user_api="blas").lib_controllers)  # looks at every loaded library, once


_single_threads = _SingleThreads()
_workers: ContextVar[int | None] = ContextVar("workers", default=None)  # threads that this work may use; None: all


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """One thread for every BLAS, for the time of a fit."""
    with _single_threads.fit():
        yield


@contextmanager
def free_cores_for(rows: int) -> Iterator[None]:
    """As many BLAS threads as cores are free, for work on one matrix of so many rows."""
    threads = min(_allowed(None), free_cores()) if rows >= LARGE else 1
    if threads < 2:
        yield
        return
    with _single_threads.several(threads):
        yield


def free_cores() -> int:
    """Cores that no other process or thread runs on at this moment, where the system says so (Linux)."""
    try:
        running = int(Path("/proc/loadavg").read_text().split()[3].partition("/")[0])
    except (OSError, ValueError, IndexError):
        return 1
    return max(1, int(cpu_count()) - (running - 1))  # this thread is one of those that run


@contextmanager
def at_most(workers: int) -> Iterator[None]:
    """No more threads than that for the work inside, such as in one of several processes."""
    token = _workers.set(workers)
    try:
        yield
    finally:
        _workers.reset(token)


def require_jobs(n_jobs: Any) -> None:
    if n_jobs is not None and (not isinstance(n_jobs, Integral) or isinstance(n_jobs, bool) or n_jobs == 0):
        raise InvalidSetting(f"n_jobs is {n_jobs!r}; expected None, a positive number, or -1 for all cores")


def jobs(n_jobs: int | None, tasks: int) -> int | None:
    """No more workers than there is work."""
    return None if n_jobs is None else min(int(n_jobs), max(tasks, 1))


def _allowed(n_jobs: int | None) -> int:
    limit = _workers.get()
    if limit is not None:
        return limit
    if n_jobs is None:
        return int(cpu_count())
    return int(n_jobs) if n_jobs > 0 else max(1, int(cpu_count()) + 1 + int(n_jobs))


def side_by_side(
    work: Callable[[Item], Result],
    items: Sequence[Item],
    n_jobs: int | None = None,  # threads; None or -1: one for each core
) -> Iterator[Result]:
    """The same work on every item, several at a time with one BLAS thread each; results in the order of the items.

    Work inside does not split up again: there is one thread for each core already.
    """
    workers = min(_allowed(n_jobs), len(items))
    if workers < 2:
        yield from map(work, items)
        return

    def alone(item: Item) -> Result:
        with at_most(1):
            return work(item)

    with one_blas_thread(), ThreadPoolExecutor(workers) as pool:
        try:
            yield from pool.map(alone, items)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)  # what has not begun is not begun
            raise

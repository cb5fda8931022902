"""Threads that do not wait for each other.

The threads of one BLAS call synchronise at every block of the matrix, and one that the system has suspended delays all
of them: on a busy machine a fit then takes up to a hundred times as long.  Therefore every BLAS has one thread during
a fit, and the cores work on several clouds at a time (``parallel_map``), which synchronise once, at the end.  For work
on a single large matrix, BLAS gets the cores that no other process uses (``free_cores_for``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
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

from ..errors import InvalidSetting
from .progress import with_progress

LOADAVG = Path("/proc/loadavg")
THREADED_ROWS = 3000  # rows of a single matrix from which several BLAS threads are faster than one

Item = TypeVar("Item")
Result = TypeVar("Result")


class _SingleThreads:
    """Counts the fits that are running; while there are any, every BLAS has one thread.

    Fits may run in several threads of one process.  The first one records the number of BLAS threads, and the last
    one restores it.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._fits = 0
        self._before: list[tuple[Any, int]] = []  # BLAS libraries and their numbers of threads before the first fit

    @contextmanager
    def fit(self) -> Iterator[None]:
        with self._lock:
            if not self._fits:
                self._before = [(library, library.get_num_threads()) for library in _libraries()]
            self._fits += 1
            self._set(1)
        try:
            yield
        finally:
            with self._lock:
                self._fits -= 1
                if not self._fits:
                    self._set(None)

    @contextmanager
    def several(self, threads: int) -> Iterator[None]:
        """The given number of BLAS threads, unless another fit runs in this process."""
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
        """Set the number of BLAS threads, but never more than before the first fit; None restores that number."""
        for library, before in self._before:
            # threadpoolctl lets only one thread of Python change the number; here the lock ensures the order
            release = getattr(library, "clear_controlling_thread", lambda force: None)
            release(force=True)
            library.set_num_threads(before if threads is None else min(threads, before))
            release(force=True)


@cache
def _libraries() -> list[Any]:
    return list(ThreadpoolController().select(user_api="blas").lib_controllers)  # slow: inspects all loaded libraries


_single_threads = _SingleThreads()
_fitting: ContextVar[bool] = ContextVar("fitting", default=False)
_limit: ContextVar[int | None] = ContextVar("limit", default=None)  # of threads; None: all cores


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """One thread for every BLAS during a fit.  Inside of a fit it has no effect."""
    if _fitting.get():
        yield
        return
    token = _fitting.set(True)
    try:
        with _single_threads.fit():
            yield
    finally:
        _fitting.reset(token)


@contextmanager
def free_cores_for(rows: int, count_free: Callable[[], int] | None = None) -> Iterator[None]:
    """One BLAS thread per free core, for work on one matrix of ``rows`` rows; one thread if it is small."""
    threads = min(_allowed(None), (count_free or free_cores)()) if rows >= THREADED_ROWS else 1
    if threads < 2:
        yield
        return
    with _single_threads.several(threads):
        yield


def free_cores(loadavg: Path = LOADAVG) -> int:
    """The number of cores on which no other process or thread runs at this moment; 1 if that is not known (Linux)."""
    try:
        running = int(loadavg.read_text().split()[3].partition("/")[0])
    except (OSError, ValueError, IndexError):
        return 1
    return max(1, int(cpu_count()) - (running - 1))  # this thread is one of the running ones


@contextmanager
def limit_threads(n_jobs: int | None) -> Iterator[None]:
    """At most ``n_jobs`` threads for the work inside; -1 means one per core, None changes nothing."""
    if n_jobs is None:  # to count the cores takes as long as the algebra of a small cloud
        yield
        return
    token = _limit.set(_allowed(n_jobs))
    try:
        yield
    finally:
        _limit.reset(token)


def require_jobs(n_jobs: Any) -> None:
    """An error if ``n_jobs`` is not a number of jobs."""
    if n_jobs is not None and (not isinstance(n_jobs, Integral) or isinstance(n_jobs, bool) or n_jobs == 0):
        raise InvalidSetting(f"n_jobs is {n_jobs!r}; expected None, a positive number, or -1 for all cores")


def worker_count(n_jobs: int | None, tasks: int) -> int | None:
    """At most one worker per task."""
    return None if n_jobs is None else min(int(n_jobs), max(tasks, 1))


def _allowed(n_jobs: int | None) -> int:
    """The number of threads that may be used: the requested number, within the limit of ``limit_threads``."""
    limit = _limit.get()
    if limit == 1:
        return 1
    wanted = int(n_jobs) if n_jobs is not None and n_jobs > 0 else _cores(n_jobs)
    return wanted if limit is None else min(wanted, limit)


def _cores(n_jobs: int | None) -> int:
    """The number of all cores, or of all but some: -2 means all but one."""
    cores = int(cpu_count())
    return cores if n_jobs is None else max(1, cores + 1 + int(n_jobs))


def parallel_map(
    work: Callable[[Item], Result],
    items: Sequence[Item],
    n_jobs: int | None = None,  # threads; None or -1: one per core
    label: str | None = None,  # of the progress bar; None: no bar
) -> list[Result]:
    """The results of the same work on every item, several items at a time with one BLAS thread each.

    Nested calls work on one item at a time, because there is one thread per core already.
    """
    workers = min(_allowed(n_jobs), len(items)) if len(items) > 1 else 1
    if workers < 2:
        with limit_threads(n_jobs):
            return list(_counted(map(work, items), items, label))

    def alone(item: Item) -> Result:
        with limit_threads(1):
            return work(item)

    with one_blas_thread(), ThreadPoolExecutor(workers) as pool:
        try:
            return list(_counted(pool.map(alone, items), items, label))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)  # do not start the remaining items
            raise


def _counted(results: Iterator[Result], items: Sequence[Item], label: str | None) -> Iterable[Result]:
    return results if label is None else with_progress(results, label, len(items))

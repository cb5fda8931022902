"""Threads that never wait for one another.

The threads of one BLAS call meet at every block of the matrix, and one that the system has set aside stalls all of
them: on a busy machine a fit then takes up to a hundred times as long.  Therefore every BLAS has one thread during a
fit, and the cores work on several clouds at a time (``side_by_side``), which meet once, at the end.  Where one large
matrix is all there is to do, BLAS gets the cores that no other process uses (``free_cores_for``).
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

LOAD = Path("/proc/loadavg")
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
        """The number of threads, but never more than there were; None: as many as there were."""
        for library, found in self._found:
            # threadpoolctl lets only one thread of Python change the number; here the lock sees to the order
            release = getattr(library, "clear_controlling_thread", lambda force: None)
            release(force=True)
            library.set_num_threads(found if threads is None else min(threads, found))
            release(force=True)


@cache
def _libraries() -> list[Any]:
    return list(ThreadpoolController().select(user_api="blas").lib_controllers)  # looks at every loaded library, once


_single_threads = _SingleThreads()
_fitting: ContextVar[bool] = ContextVar("fitting", default=False)
_limit: ContextVar[int | None] = ContextVar("limit", default=None)  # threads that this work may use; None: all cores


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """One thread for every BLAS, for the time of a fit; inside a fit nothing changes."""
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
        running = int(LOAD.read_text().split()[3].partition("/")[0])
    except (OSError, ValueError, IndexError):
        return 1
    return max(1, int(cpu_count()) - (running - 1))  # this thread is one of those that run


@contextmanager
def limit_threads(n_jobs: int | None) -> Iterator[None]:
    """No more threads than that for the work inside; -1 means one for each core, None changes nothing."""
    token = _limit.set(_allowed(n_jobs))
    try:
        yield
    finally:
        _limit.reset(token)


def require_jobs(n_jobs: Any) -> None:
    if n_jobs is not None and (not isinstance(n_jobs, Integral) or isinstance(n_jobs, bool) or n_jobs == 0):
        raise InvalidSetting(f"n_jobs is {n_jobs!r}; expected None, a positive number, or -1 for all cores")


def worker_count(n_jobs: int | None, tasks: int) -> int | None:
    """No more workers than there is work."""
    return None if n_jobs is None else min(int(n_jobs), max(tasks, 1))


def _allowed(n_jobs: int | None) -> int:
    """How many threads may be used: as many as are asked for, within the limit that is set."""
    limit = _limit.get()
    if limit == 1:  # asking the system for its cores takes as long as the algebra of a small cloud
        return 1
    wanted = int(n_jobs) if n_jobs is not None and n_jobs > 0 else _cores(n_jobs)
    return wanted if limit is None else min(wanted, limit)


def _cores(n_jobs: int | None) -> int:
    """All cores, or all but some: -2 means all but one."""
    cores = int(cpu_count())
    return cores if n_jobs is None else max(1, cores + 1 + int(n_jobs))


def parallel_map(
    work: Callable[[Item], Result],
    items: Sequence[Item],
    n_jobs: int | None = None,  # threads; None or -1: one for each core
    label: str | None = None,  # of the progress bar, if there is to be one
) -> list[Result]:
    """The same work on every item, several at a time with one BLAS thread each; results in the order of the items.

    Work inside does not split up again: there is one thread for each core already.
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
            pool.shutdown(wait=False, cancel_futures=True)  # items that have not begun are not begun
            raise


def _counted(results: Iterator[Result], items: Sequence[Item], label: str | None) -> Iterable[Result]:
    return results if label is None else with_progress(results, label, len(items))

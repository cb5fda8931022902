"""Small matrices are slower with many BLAS threads than with one.

On matrices of a few hundred rows the threads spend their time waiting for one another, the more so the
busier the machine is.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from threadpoolctl import ThreadpoolController

LARGE = 800  # rows from which BLAS threads pay


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()  # looks at every loaded library, once


@contextmanager
def blas_threads_for(rows: int) -> Iterator[None]:
    """One BLAS thread inside, unless the matrices are large."""
    if rows >= LARGE:
        yield
        return
    with _controller().limit(limits=1, user_api="blas"):
        yield

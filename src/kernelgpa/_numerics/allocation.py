"""Room for matrices.

New memory is handed out by the system page by page as it is first written to, and in a virtual machine that costs
more than factorising what is written.  Where the system can populate memory at once, it is asked to: for large
matrices one by one, for small ones in slabs that many share.
"""

from __future__ import annotations

import errno
import mmap
from functools import cache
from threading import Lock

import numpy as np

from ..errors import TooLarge
from ..typing import Array, BoolArray

SLAB = 1 << 23  # bytes: matrices that are smaller share one
LEAST = 1 << 15  # bytes below which the ordinary allocator has room at hand
ALIGNED = 64
BLOCK = 256  # rows and columns copied at a time

_POPULATE = getattr(mmap, "MAP_POPULATE", None)


class _Slab:
    def __init__(self) -> None:
        self._lock = Lock()
        self._memory = mmap.mmap(-1, 1)
        self._size = self._used = 0

    def take(self, size: int) -> tuple[mmap.mmap, int]:
        """Memory, and where in it the room begins.  A slab lives as long as any matrix in it does."""
        with self._lock:
            if self._used + size > self._size:
                self._memory, self._size, self._used = _populated(SLAB), SLAB, 0
            begin = self._used
            self._used += -(-size // ALIGNED) * ALIGNED
            return self._memory, begin


_slab = _Slab()


def _populated(size: int) -> mmap.mmap:
    assert _POPULATE is not None
    try:
        return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _POPULATE)
    except (OSError, OverflowError) as error:
        if isinstance(error, OSError) and error.errno not in (errno.ENOMEM, errno.EAGAIN):
            raise
        raise TooLarge(
            f"the system has no {size / 1e9:.3g} GB of memory for one matrix; use fewer landmarks or clouds, or fewer "
            "features per cloud"
        ) from error


def allocate(*shape: int) -> Array:
    """A new array with nothing particular in it."""
    count = int(np.prod(shape))
    if _POPULATE is None or 8 * count < LEAST:
        return np.empty(shape)
    memory, begin = (_populated(8 * count), 0) if 8 * count >= SLAB else _slab.take(8 * count)
    return np.frombuffer(memory, dtype=np.float64, count=count, offset=begin).reshape(shape)


def zeros(*shape: int) -> Array:
    array = allocate(*shape)
    array.fill(0.0)
    return array


def made_symmetric(lower: Array) -> Array:
    """A matrix with what lies below the diagonal copied above it, in place and in blocks that fit a cache."""
    for i in range(0, len(lower), BLOCK):
        here, below = slice(i, i + BLOCK), slice(i + BLOCK, None)
        corner = lower[here, here]
        np.copyto(corner.T, corner, where=_below_diagonal(len(corner)))
        lower[here, below] = lower[below, here].T
    return lower


@cache
def _below_diagonal(size: int) -> BoolArray:
    return np.tri(size, k=-1, dtype=bool)

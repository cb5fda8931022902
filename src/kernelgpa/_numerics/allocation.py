"""New matrices, with the library's own error if the system refuses the memory."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..errors import TooLarge
from ..typing import Array


def allocate(*shape: int) -> Array:
    """A new array with arbitrary contents."""
    return _allocated(np.empty, shape)


def zeros(*shape: int) -> Array:
    """A new array of zeros."""
    return _allocated(np.zeros, shape)


def _allocated(make: Callable[[tuple[int, ...]], Array], shape: tuple[int, ...]) -> Array:
    try:
        return make(shape)
    except (MemoryError, ValueError) as error:  # ValueError: more bytes than an address can hold
        raise TooLarge(
            f"the system has no {8 * np.prod(shape, dtype=float) / 1e9:.3g} GB of memory for one matrix; use fewer "
            "landmarks or clouds, or fewer features per cloud"
        ) from error

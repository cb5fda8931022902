"""Types of arrays and of identifiers, used in every signature."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
IndexArray = npt.NDArray[np.intp]
BoolArray = npt.NDArray[np.bool_]
Name = Hashable  # of a cloud or a landmark

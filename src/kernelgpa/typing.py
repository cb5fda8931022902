"""Types of arrays and identifiers, for signatures."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
IndexArray = npt.NDArray[np.intp]
BoolArray = npt.NDArray[np.bool_]
Name = Hashable  # of a cloud or of a landmark

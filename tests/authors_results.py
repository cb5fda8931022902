"""Results of the authors' own program, stored in tests/data."""

from __future__ import annotations

from pathlib import Path

import numpy as np


def authors_results(dimension):
    """(points, arrays) of the stored file; tests/data/README.md explains the arrays."""
    with np.load(Path(__file__).parent / "data" / f"authors_{dimension}d.npz") as arrays:
        data = {key: arrays[key] for key in arrays}
    return data["points"], data

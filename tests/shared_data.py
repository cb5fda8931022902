"""Data that lie beside the repository on some machines and never in it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared"


def load(name):
    """The arrays of ``shared/name``; the test skips where the folder is absent."""
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"{name} is not beside this checkout")
    with np.load(path) as arrays:
        return {key: arrays[key] for key in arrays}

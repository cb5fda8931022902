"""Warnings point at the caller's own line, however deep inside the package they arise."""

from __future__ import annotations

import inspect
import warnings

import numpy as np
import pytest

from fixed_settings import fixed_kernel
from kernelgpa import RigidGPA


@pytest.mark.parametrize("model", [RigidGPA(), fixed_kernel()])
def test_a_warning_points_at_the_line_that_called_the_library(model):
    rng = np.random.default_rng(0)
    body = rng.standard_normal((12, 3))
    points = np.array([body + 0.01 * rng.standard_normal(body.shape) for _ in range(4)])
    points[1:, -1] = np.nan  # a landmark that one cloud alone saw
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        line = inspect.currentframe().f_lineno + 1
        model.fit(points)
    assert [(one.filename, one.lineno) for one in caught] == [(__file__, line)]

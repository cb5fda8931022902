"""Warnings point at the caller's own line, however deep inside the package they arise."""

from __future__ import annotations

import inspect
import warnings
from pathlib import Path

import numpy as np
import pytest

from fixed_settings import fixed_kernel
from kernelgpa import RigidGPA, errors


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


def test_a_package_whose_name_begins_alike_is_the_callers_code():
    file = f"{Path(errors.__file__).parent}_x/own.py"
    code = compile("from kernelgpa.errors import warn\nwarn('here')", file, "exec")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        exec(code, {"__name__": "own"})
    assert [one.filename for one in caught] == [file]


def test_silenced_warnings_are_those_of_the_library_alone():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with errors.silenced_warnings():
            errors.warn("of the library")
            warnings.warn("of another one", UserWarning, stacklevel=1)
        errors.warn("later")
    assert [str(one.message) for one in caught] == ["of another one", "later"]


def recorded_before_an_error():
    recording = errors.recorded_warnings()
    messages = recording.__enter__()
    errors.warn("first")
    warnings.warn("of another one", UserWarning, stacklevel=1)
    errors.warn("second")
    assert not recording.__exit__(KeyError, KeyError(), None)  # the error is passed on
    return messages


def test_recorded_warnings_are_not_issued_and_survive_an_error():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        messages = recorded_before_an_error()
    assert messages == ["first", "second"]
    assert caught == []

"""Frames of a simulated liver, and what a run of ``kernelgpa stream`` prints and writes."""

from __future__ import annotations

import json
import sys
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

from fixed_settings import fixed_kernel
from kernelgpa import StreamingGPA, io
from kernelgpa.gauge.rotations import nearest_rotation
from stream_and_batch import with_gamma

CLOUDS, LANDMARKS = 12, 40
TIMEOUT = 60  # seconds


def lines_in(printed):
    return [json.loads(line, parse_constant=pytest.fail) for line in printed.splitlines()]


def map_in(folder):
    (own,) = io.read(folder / "map.csv").clouds
    return dict(zip(own.labels, own.points, strict=True))


def batch_map(clouds, checkpoint):
    """The map of a batch fit with the gamma of the stream whose checkpoint is given."""
    gamma = StreamingGPA.resume(checkpoint).gamma_
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # landmarks that a single cloud observed
        gpa = with_gamma(fixed_kernel(), gamma).fit(np.array(clouds))
    return {str(j + 1): position for j, position in enumerate(gpa.map_)}


def assert_same_shape(found, expected, tolerance=1e-8):
    """Two maps that differ by a rigid motion only."""
    assert found.keys() == expected.keys()
    source, target = (np.array([positions[name] for name in expected]) for positions in (found, expected))
    source, target = source - source.mean(axis=0), target - target.mean(axis=0)
    assert_allclose(
        source @ nearest_rotation(target.T @ source).T, target, rtol=0, atol=tolerance * np.abs(target).max()
    )


def assert_same_folder(found, expected):
    """The same map in the same frame, and the same poses; no frame is repeated or lost."""
    one, other = map_in(found), map_in(expected)
    assert one.keys() == other.keys()
    size = np.abs(list(other.values())).max()
    assert_allclose([one[name] for name in other], list(other.values()), rtol=0, atol=1e-8 * size)
    assert_allclose(np.loadtxt(found / "poses.tum"), np.loadtxt(expected / "poses.tum"), rtol=0, atol=1e-8 * size)
    updates = [lines_in((folder / "updates.jsonl").read_text()) for folder in (found, expected)]
    assert [line["frame"] for line in updates[0]] == [line["frame"] for line in updates[1]]


FIXED = ["--bandwidth", "0.25", "--smoothing", "0.1"]  # as fixed_kernel has them
PROGRAM = [sys.executable, "-m", "kernelgpa", "stream", *FIXED]

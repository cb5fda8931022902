"""Measured motions improve the poses of a stream; wrong ones are reported and rejected."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from conftest import random_rotation, scene
from fixed_settings import fixed_stream
from kernelgpa import InvalidObservations, Measured
from moving_liver import moving_liver, odometry
from stream_and_batch import add

pytestmark = pytest.mark.filterwarnings("ignore::kernelgpa.KernelGPAWarning")


def pose_errors(stream, liver):
    """Root mean square error of the motions between consecutive clouds."""
    rotations, translations = stream.rotations_, stream.translations_
    errors = []
    for s, u in zip(range(len(rotations) - 1), range(1, len(rotations)), strict=True):
        step = rotations[s].T @ (translations[u] - translations[s])
        true = liver.rotations[s].T @ (liver.translations[u] - liver.translations[s])
        errors.append(np.sum((step - true) ** 2))
    return np.sqrt(np.mean(errors))


@pytest.fixture(scope="module")
def liver():
    return moving_liver()


def registered(liver, motion=None):
    stream, rng = fixed_stream(smoothing=0.1), np.random.default_rng(0)
    for t, cloud in enumerate(liver.points):
        add(stream, cloud, measured=() if motion is None or t == 0 else motion(t, rng))
    stream.update()
    return stream


def test_odometry_reduces_the_error_of_the_poses(liver):
    without, with_it = registered(liver), registered(liver, lambda t, rng: odometry(liver, t, rng))
    assert pose_errors(with_it, liver) < 0.7 * pose_errors(without, liver)
    assert_allclose(with_it.map_, without.map_)  # the map is that of the clouds
    assert "measured motion" not in {finding.kind for finding in with_it.diagnose()}


def test_poses_of_a_tracker_reduce_it_too(liver):
    rotation, translation = random_rotation(3, np.random.default_rng(5)), np.array([10.0, -300.0, 50.0])

    def tracker(t, rng):
        position = rotation @ liver.translations[t] + translation + 0.5 * rng.standard_normal(3)
        return Measured(rotation @ liver.rotations[t], position, 0.5, 0.1)

    assert pose_errors(registered(liver, tracker), liver) < 0.7 * pose_errors(registered(liver), liver)


@pytest.mark.parametrize("accuracy", [1.0, 1e-3])
def test_wrong_odometry_is_reported_and_rejected(liver, accuracy):
    """Also if it claims to be accurate."""

    def motion(t, rng):
        right = odometry(liver, t, rng)
        return right if t != 7 else replace(right, translation=right.translation + 60.0, accuracy=accuracy)

    stream = registered(liver, motion)
    (finding,) = [one for one in stream.diagnose() if one.kind == "measured motion"]
    assert finding.found.startswith(
        "1 of 15 measured motions contradict the clouds and are rejected; that of cloud 7 from 6"
    )
    assert pose_errors(stream, liver) < pose_errors(registered(liver), liver)


@pytest.mark.parametrize(
    ("motion", "message"),
    [
        (Measured(np.eye(2), np.zeros(3), 1, 1), "has a rotation of shape"),
        (Measured(np.diag([1, 1, -1]), np.zeros(3), 1, 1), "not a rotation"),
        (Measured(np.eye(3), np.zeros(3), 0, 1), "accuracies above 1e-12"),
        (Measured(np.eye(3), np.zeros(3), 1, 1, source=99), "starts from cloud 99"),
        (Measured(np.eye(3), np.zeros(3), 1, 1, source=[0]), "starts from cloud"),
        (Measured(np.eye(3), [1e290, 0, 0], 1, 1), "expected finite numbers"),
        (Measured(np.eye(3), np.zeros(3), "x", 1), "parts that are not numbers"),
    ],
)
def test_invalid_motions_are_refused(motion, message):
    stream = fixed_stream()
    with pytest.raises(InvalidObservations, match=message):
        add(stream, scene(n=2, m=10, hidden=0.0)[0][0], measured=motion)
    assert stream.keys_ == ()

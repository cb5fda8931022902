"""Landmarks that the current frame of a stream did not see are predicted in its own coordinates."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from conftest import scene
from fixed_settings import fixed_stream
from kernelgpa import RigidGPA, simulate
from kernelgpa.errors import InvalidObservations
from kernelgpa.observations.cloud import Cloud
from kernelgpa.warps import reduce
from stream_and_batch import add, rigid_distance, seen_of

pytestmark = pytest.mark.filterwarnings("ignore::kernelgpa.KernelGPAWarning")


def streamed(points, hidden=(), **settings):
    """A stream of the clouds, the last one without the hidden landmarks, and the key of that one."""
    stream, last = fixed_stream(**settings), points[-1].copy()
    last[list(hidden)] = np.nan
    for cloud in [*points[:-1], last]:
        key = add(stream, cloud)
    stream.update()
    return stream, key


def rows(stream, landmarks):
    return stream.map_[[stream.landmarks_.index(f"L{j:03d}") for j in landmarks]]


def test_unseen_landmarks_are_predicted_better_than_by_the_pose():
    liver = simulate.liver(clouds=12, landmarks=80, hidden=0.0, noise=0.3, vertices=400)
    hidden = np.arange(0, 80, 9)
    stream, key = streamed(liver.points, hidden)
    positions = rows(stream, hidden)
    rotation, translation = stream.pose(key)
    truth = liver.points[-1][hidden]
    errors = np.linalg.norm(stream.predict(positions, key) - truth, axis=1)
    by_pose = np.linalg.norm((positions - translation) @ rotation - truth, axis=1)
    assert np.mean(errors) < 0.7 * np.mean(by_pose)


def test_predictions_are_those_of_the_warp_from_the_map_into_the_cloud():
    points, _ = scene(n=6, m=30, hidden=0.2, noise=0.01, bend=0.1)
    stream, key = streamed(points)
    seen = seen_of(points[-1])
    known = [j for j in seen if f"L{j:03d}" in stream.landmarks_]
    positions = rows(stream, known)
    cloud = Cloud(key, np.arange(len(known)), positions, np.ones(len(known)))
    (warp,) = reduce(stream._require_running().family, cloud).fit_all([points[-1][known]])
    assert_allclose(stream.predict(stream.map_, key), warp(stream.map_), rtol=0, atol=1e-9)


@pytest.mark.parametrize("model", [None, RigidGPA()])
def test_rigid_copies_are_predicted_exactly(model):
    points, _ = scene(n=5, m=25, hidden=0.0, bend=0.0)
    stream, key = streamed(points, [3, 7, 11], **({} if model is None else {"estimator": model}))
    assert_allclose(stream.predict(rows(stream, [3, 7, 11]), key), points[-1][[3, 7, 11]], rtol=0, atol=1e-8)


def test_a_cloud_outside_the_map_is_predicted_too():
    points, _ = scene(n=6, m=30, hidden=0.0, noise=0.01)
    stream, _ = streamed(points[:5])
    stream.freeze()
    key = add(stream, np.where(np.arange(30)[:, None] < 4, np.nan, points[5]))
    predicted = stream.predict(rows(stream, range(30)), key)
    assert rigid_distance(predicted, points[5]) < 0.1


def test_a_cloud_that_shares_too_little_is_an_error():
    points, _ = scene(n=4, m=20, hidden=0.0)
    stream, _ = streamed(points)
    key = stream.add(points[0][:4], ["a", "b", "c", "L000"])
    with pytest.raises(InvalidObservations, match="shares too few landmarks with the map"):
        stream.predict(stream.map_, key)
    with pytest.raises(InvalidObservations, match="there is no cloud with key 99"):
        stream.predict(stream.map_, 99)

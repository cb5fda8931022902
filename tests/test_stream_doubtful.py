"""Streams with noisy, articulated and mirrored clouds: whatever happened before, the map is that of a batch fit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from doubtful_clouds import KINDS, MIRROR, clouds_of
from fixed_settings import fixed_kernel, fixed_stream
from kernelgpa import StreamingGPA
from kernelgpa.gauge.faithful import SUFFICIENT
from stream_and_batch import add, batch_of, rigid_distance, used_share

pytestmark = pytest.mark.filterwarnings("ignore::kernelgpa.KernelGPAWarning")

CLOUDS = 10
kinds = pytest.mark.parametrize("kind", KINDS)


def drawn_clouds(data, kind, most_mirrored=4):
    """Clouds of a kind, some of them mirrored."""
    points = clouds_of(kind, CLOUDS, data.draw(st.integers(0, 1000)))
    mirrored = data.draw(st.lists(st.integers(0, CLOUDS - 1), max_size=most_mirrored, unique=True))
    points[mirrored] *= MIRROR
    return points


def assert_same_result_as_batch(stream, clouds):
    """The same mirror images, map, poses and warps as a batch fit with the gamma of the stream, mirror images too."""
    keys, gpa = batch_of(stream, fixed_kernel(), clouds)
    assert stream.mirrored_ == [keys[t] for t in gpa.mirrored_]
    of_batch = dict(zip(gpa.observations_.landmarks, gpa.map_, strict=True))
    expected = np.array([of_batch[name] for name in stream.landmarks_])
    assert rigid_distance(stream.map_, expected) < 1e-8
    rotations = dict(zip(keys, gpa.rotations_, strict=True))
    (turn,) = {key: stream.pose(key)[0] @ rotations[key].T for key in keys[:1]}.values()
    for key in keys:
        assert_allclose(stream.pose(key)[0], turn @ rotations[key], atol=1e-7)
    assert np.isfinite(stream.translations_).all()


def assert_gamma_is_within_the_rule(stream, gamma):
    used = used_share(stream, gamma)
    assert used <= 1 + 1e-6
    # the search also ends if a gamma twice as large is beyond the allowed increase
    assert used >= SUFFICIENT - 1e-6 or used_share(stream, 2 * gamma) > 1


@kinds
@settings(max_examples=5, deadline=None)
@given(data=st.data())
def test_the_result_is_that_of_a_batch_fit_after_any_additions_drops_and_returns(kind, data):
    points = drawn_clouds(data, kind)
    stream, clouds, inside = fixed_stream(), {}, {}
    for t in range(4):
        inside[t] = add(stream, points[t])
        clouds[inside[t]] = points[t]
    stream.update()
    for _ in range(data.draw(st.integers(3, 10))):
        t = data.draw(st.integers(0, CLOUDS - 1))
        if t in inside and len(inside) > 4:
            stream.drop(inside.pop(t))
        elif t not in inside:  # new, or added again
            inside[t] = add(stream, points[t])
            clouds[inside[t]] = points[t]
        if data.draw(st.booleans()):
            stream.update()
    stream.update()
    assert_same_result_as_batch(stream, clouds)


@kinds
@settings(max_examples=4, deadline=None)
@given(data=st.data())
def test_gamma_is_one_that_a_free_batch_fit_may_choose(kind, data):
    """The gammas of the stream and of a free batch fit are both within the rule for the same clouds."""
    points = drawn_clouds(data, kind, most_mirrored=2)
    stream, clouds = fixed_stream(window=7), {}
    for t, cloud in enumerate(points):
        clouds[add(stream, cloud)] = cloud
        if t >= 4:
            stream.update()
    free = batch_of(stream, fixed_kernel(), clouds, gamma=np.nan)[1].registration_.faithful.gamma
    for gamma in (stream.gamma_, free):
        assert_gamma_is_within_the_rule(stream, gamma)


@kinds
@settings(max_examples=3, deadline=None)
@given(data=st.data())
def test_a_stream_that_is_resumed_decides_as_one_that_was_not_interrupted(kind, data, tmp_path_factory):
    points, path = drawn_clouds(data, kind), tmp_path_factory.mktemp("state") / "stream.npz"
    first, second, clouds = fixed_stream(window=7), fixed_stream(window=7), {}
    for t, cloud in enumerate(points):
        for stream in (first, second):
            clouds[add(stream, cloud)] = cloud
            if t >= 4:
                stream.update()
        if t in (2, 5, 8):
            second.checkpoint(path)
            second = StreamingGPA.resume(path)
    assert second.mirrored_ == first.mirrored_
    assert second.gamma_ == pytest.approx(first.gamma_, rel=1e-6)
    assert_allclose(second.map_, first.map_, rtol=0, atol=1e-8 * np.abs(first.map_).max())
    assert_same_result_as_batch(second, clouds)

"""Which clouds participate does not depend on whether they came one by one or all at once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import scene
from doubtful_clouds import KINDS, MIRROR, clouds_of
from fixed_settings import fixed_kernel, fixed_stream
from stream_and_batch import add, assert_equals_batch, seen_of

pytestmark = pytest.mark.filterwarnings("ignore::kernelgpa.KernelGPAWarning")


def batch_decision(stream, clouds):
    pairs = [(clouds[key][seen_of(clouds[key])], [f"L{j:03d}" for j in seen_of(clouds[key])]) for key in stream.keys_]
    gpa = fixed_kernel().fit(pairs)
    return [stream.keys_[t] for t in gpa.mirrored_]


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=4, deadline=None)
@given(data=st.data())
def test_the_same_clouds_are_mirror_images_as_in_a_batch_fit(kind, data):
    n = 14
    points = clouds_of(kind, n, data.draw(st.integers(0, 1000)))
    flipped = data.draw(st.lists(st.integers(0, n - 1), max_size=5, unique=True))
    points[flipped] *= MIRROR
    stream, clouds = fixed_stream(window=data.draw(st.sampled_from([6, 20]))), {}
    for t, cloud in enumerate(points):
        clouds[add(stream, cloud)] = cloud
        if t >= 4:
            stream.update()
            assert stream.mirrored_ == batch_decision(stream, clouds)
    assert np.isfinite(stream.rotations_).all()
    assert np.isfinite(stream.translations_).all()
    inside = {key: clouds[key] for key in stream.keys_ if key not in stream.mirrored_}
    for key in list(stream.mirrored_):
        stream.drop(key)
    stream.update()
    assert_equals_batch(stream, fixed_kernel(), inside)


def test_a_mirror_image_among_the_first_two_clouds_is_found_later():
    points, _ = scene(n=8, m=30, hidden=0.0, noise=0.005, bend=0.05)
    points[0] *= [1, 1, -1]
    stream = fixed_stream(automatic=True)
    for cloud in points:
        add(stream, cloud)
    assert stream.mirrored_ == [0]
    assert sorted(stream._require_running().participating) == list(range(1, 8))


def test_the_map_turns_over_when_mirror_images_become_the_majority():
    points, _ = scene(n=14, m=30, hidden=0.0, noise=0.005, bend=0.05)
    points[6:] *= [1, 1, -1]
    stream = fixed_stream(window=6, automatic=True)
    found = []
    for cloud in points:
        add(stream, cloud)
        found.append(stream.mirrored_)
    assert found[6] == [6]
    assert found[8] == [6, 7, 8]  # of clouds 3 to 8: as many as the others, of which one is the first
    assert found[9] == [4, 5]  # of clouds 4 to 9
    assert found[-1] == []

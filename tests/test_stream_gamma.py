"""The default map of a stream: its gamma is kept while the rule accepts it, and found anew otherwise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from conftest import scene
from fixed_settings import fixed_kernel, fixed_stream
from kernelgpa import StreamingGPA
from kernelgpa.gauge.faithful import SUFFICIENT
from kernelgpa.gauge.rigid import RigidSystem, solve_rigid
from stream_and_batch import add, assert_equals_batch, batch_of, rigid_distance, seen_of, used_share

pytestmark = pytest.mark.filterwarnings("ignore:landmark")  # the first updates have landmarks seen by one cloud only


@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 1000), hidden=st.sampled_from([0.0, 0.3]), bend=st.sampled_from([0.02, 0.2]))
def test_the_gamma_of_every_update_is_one_that_a_batch_fit_may_choose(seed, hidden, bend):
    points, _ = scene(n=16, m=30, hidden=hidden, noise=0.02, bend=bend, seed=seed)
    stream, clouds, gammas = fixed_stream(window=6), {}, []
    for t, cloud in enumerate(points):
        clouds[add(stream, cloud)] = cloud
        if t < 2:
            continue
        stream.update()
        gammas.append(stream.gamma_)
        used = used_share(stream, stream.gamma_)
        assert used <= 1 + 1e-6
        # the search also ends if a gamma twice as large is beyond the allowed increase
        assert used >= SUFFICIENT - 1e-6 or used_share(stream, 2 * stream.gamma_) > 1
    assert len(set(gammas)) < len(gammas)
    assert_equals_batch(stream, fixed_kernel(), {key: clouds[key] for key in stream.keys_})


def test_the_map_differs_from_a_free_batch_fit_by_less_than_that_from_the_rigid_map():
    """Both maps use 0.7 to 1 of the same allowed increase, so that they lie close together."""
    points, _ = scene(n=30, m=40, hidden=0.3, noise=0.02, bend=0.1)
    stream, clouds = fixed_stream(window=12), {}
    for t, cloud in enumerate(points):
        clouds[add(stream, cloud)] = cloud
        if t:
            stream.update()
    free = fixed_kernel().fit([(clouds[k][seen_of(clouds[k])], seen_of(clouds[k]).tolist()) for k in stream.keys_])
    running = stream._require_running()
    start = np.array([stream.pose(key)[0] for key in running.participating])
    rigid = solve_rigid(RigidSystem(running.stacked()), running.stacked(), start).gauge.map
    row_of = {running.names[index]: row for row, index in enumerate(running.landmarks)}
    rigid = rigid[[row_of[name] for name in stream.landmarks_]]
    assert rigid_distance(stream.map_, free.map_) < 0.5 * rigid_distance(rigid, free.map_)


def test_a_gamma_that_the_rule_no_longer_accepts_is_found_anew():
    stiff, _ = scene(n=6, m=30, hidden=0.0, noise=0.02, bend=0.0, seed=1)
    bent, _ = scene(n=6, m=30, hidden=0.0, noise=0.001, bend=0.3, seed=1)
    stream, clouds = fixed_stream(window=6), {}
    for cloud in stiff:
        clouds[add(stream, cloud)] = cloud
    stream.update()
    before = stream.gamma_
    for cloud in bent:
        clouds[add(stream, cloud)] = cloud
        stream.update()
    assert stream.gamma_ != before
    assert used_share(stream, before) > 1
    _, gpa = batch_of(stream, fixed_kernel(), clouds)
    assert rigid_distance(stream.map_, gpa.map_) < 1e-8


def test_a_checkpoint_keeps_gamma(tmp_path):
    points, _ = scene(n=8, m=30, hidden=0.2, noise=0.02, bend=0.1)
    stream = fixed_stream(window=5)
    for t, cloud in enumerate(points[:6]):
        add(stream, cloud)
        if t:
            stream.update()
    stream.checkpoint(tmp_path / "state.npz")
    again = StreamingGPA.resume(tmp_path / "state.npz")
    assert again.gamma_ == stream.gamma_
    for one in (stream, again):
        add(one, points[6])
        one.update()
    assert again.gamma_ == pytest.approx(stream.gamma_, rel=1e-6)
    assert rigid_distance(again.map_, stream.map_) < 1e-8


def test_other_modes_have_no_gamma():
    points, _ = scene(n=4, m=20, hidden=0.0)
    stream = fixed_stream(modes="paper")
    for cloud in points:
        add(stream, cloud)
    stream.update()
    assert np.isnan(stream.gamma_)


def test_eigenvalues_belong_to_the_map_even_if_they_are_asked_for_later():
    points, _ = scene(n=7, m=30, hidden=0.2, noise=0.01, bend=0.1)
    asked, later = fixed_stream(), fixed_stream()
    for cloud in points[:5]:
        add(asked, cloud), add(later, cloud)
    asked.update(), later.update()
    expected = asked.eigenvalues_
    keys = [add(later, cloud) for cloud in points[5:]]
    later.drop(keys[0])
    later.drop(0)
    assert_allclose(later.eigenvalues_, expected, rtol=1e-9, atol=1e-12 * len(points))

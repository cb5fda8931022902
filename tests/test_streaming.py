"""Clouds that are added and dropped: the map is that of a batch fit to the same clouds, whatever happened before."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from conftest import random_rotation, scene
from fixed_settings import fixed_kernel, fixed_stream, fixed_tps
from kernelgpa import (
    AffineGPA,
    InvalidObservations,
    Measured,
    NotFitted,
    RigidGPA,
    StreamingGPA,
    WeaklyConnected,
    simulate,
)
from kernelgpa.gauge.rotations import nearest_rotation
from stream_and_batch import (
    add,
    assert_equals_batch,
    assert_equals_batch_map,
    batch_of,
    rigid_distance,
    seen_of,
    with_gamma,
)

pytestmark = pytest.mark.filterwarnings("ignore::kernelgpa.KernelGPAWarning")


MODELS = {
    "kernel, paper": lambda: fixed_kernel(modes="program", smoothing=0.05),
    "kernel, auto": lambda: fixed_kernel(smoothing=0.05),
    "kernel, 5 modes": lambda: fixed_kernel(modes=5, smoothing=0.05),
    "thin-plate": lambda: fixed_tps(control_points=3, modes="program"),
    "affine": lambda: AffineGPA(modes="program", scale_method="closed-form"),
    "inducing": lambda: fixed_kernel(modes="program", inducing=12),
}


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=6, deadline=None)
@given(data=st.data())
def test_the_map_is_that_of_a_batch_fit_after_any_additions_and_drops(name, data):
    seed = data.draw(st.integers(0, 100))
    points, _ = scene(n=9, m=36, hidden=0.35, noise=0.02, bend=0.1, seed=seed)
    stream, clouds, inside = fixed_stream(MODELS[name]()), {}, {}
    for t in range(4):
        inside[t] = add(stream, points[t])
        clouds[inside[t]] = points[t]
    stream.update()
    for _ in range(data.draw(st.integers(2, 8))):
        t = data.draw(st.integers(0, 8))
        if t in inside and len(inside) > 3:
            stream.drop(inside.pop(t))
        elif t not in inside:  # new, or added again
            inside[t] = add(stream, points[t])
            clouds[inside[t]] = points[t]
        if data.draw(st.booleans()):
            stream.update()
    stream.update()
    assert_equals_batch(stream, MODELS[name](), clouds)


@pytest.mark.parametrize(
    "model", [fixed_kernel(robust="huber"), RigidGPA(), fixed_kernel(modes="program", scale_method="pairwise")]
)
def test_estimators_that_do_not_solve_from_the_sum_are_fitted_anew(model):
    points, _ = scene(n=5, m=30, hidden=0.2, noise=0.01)
    stream = fixed_stream(model)
    clouds = {add(stream, cloud): cloud for cloud in points}
    stream.update()
    assert not stream.incremental
    keys, gpa = batch_of(stream, model, clouds)
    assert rigid_distance(stream.map_, gpa.map_) < 1e-12
    assert len(stream.warps_) == len(keys) == 5


def test_a_window_drops_the_oldest_cloud_and_its_landmarks():
    points, _ = scene(n=12, m=40, hidden=0.3, noise=0.01)
    points[:4, 35:] = np.nan  # first seen later
    points[6:, :5] = np.nan  # last seen early
    stream, clouds = fixed_stream(window=5, automatic=True), {}
    for cloud in points:
        clouds[add(stream, cloud)] = cloud
    assert stream.keys_ == (7, 8, 9, 10, 11)
    assert "L000" not in stream.landmarks_
    assert "L039" in stream.landmarks_
    assert_equals_batch(stream, fixed_kernel(), {key: clouds[key] for key in stream.keys_})


def test_the_oldest_cloud_is_that_of_the_earliest_time():
    points, _ = scene(n=4, m=20, hidden=0.0)
    stream = fixed_stream(window=3)
    keys = [add(stream, cloud, time=time) for cloud, time in zip(points, (5.0, 1.0, 4.0, 6.0), strict=True)]
    assert stream.keys_ == (keys[2], keys[0], keys[3])
    assert_allclose(stream.times_, [4, 5, 6])


def test_many_drops_leave_no_rounding_errors_in_the_sum():
    points, _ = scene(n=3, m=16, hidden=0.0, noise=0.01)
    stream = fixed_stream(modes="program", smoothing=1e-3)
    for cloud in points:
        add(stream, cloud)
    stream.update()
    before = stream._running.cost().matrix.copy()
    rng = np.random.default_rng(0)
    for _ in range(300):
        other = add(stream, points[0] * 10 ** rng.uniform(-1, 1) + rng.standard_normal(3))
        stream._running.update_participation()
        stream.drop(other)
    assert_allclose(stream._running.cost().matrix, before, rtol=0, atol=4 * np.finfo(float).eps * np.abs(before).max())


def test_a_cloud_waits_until_it_shares_enough_landmarks():
    points, _ = scene(n=4, m=30, hidden=0.0, noise=0.01)
    points[3, 2:] = np.nan
    apart = points[3].copy()
    apart[10:] = scene(n=1, m=30, hidden=0.0, seed=3)[0][0][10:]
    stream = fixed_stream()
    for cloud in points[:3]:
        add(stream, cloud)
    own = apart[seen_of(apart)]
    late = stream.add(own, [f"L{j:03d}" if j < 2 else f"X{j}" for j in seen_of(apart)])
    stream.update()
    assert stream.waiting_ == [late]
    assert np.isnan(stream.pose(late)[0]).all()
    assert "waiting" in {finding.kind for finding in stream.diagnose()}
    with pytest.raises(InvalidObservations, match="shares too few landmarks with the map"):
        stream.warp(late)
    # a cloud that observes landmarks of both lets it participate
    stream.add(
        np.vstack([points[0], own[2:]]), [*(f"L{j:03d}" for j in range(30)), *(f"X{j}" for j in seen_of(apart)[2:])]
    )
    stream.update()
    assert stream.waiting_ == []


def test_a_group_that_is_not_connected_with_the_map_waits():
    points, _ = scene(n=7, m=40, hidden=0.0, noise=0.01)
    points[:3, 20:], points[3:6, :20] = np.nan, np.nan
    stream, clouds = fixed_stream(), {}
    for cloud in points[:3]:
        clouds[add(stream, cloud)] = cloud
    stream.update()
    before = stream.map_
    for cloud in points[3:6]:
        clouds[add(stream, cloud)] = cloud
    stream.update()
    assert stream.waiting_ == [3, 4, 5]
    assert_allclose(stream.map_, before, atol=1e-12)
    clouds[add(stream, points[6])] = points[6]  # observes landmarks of both
    stream.update()
    assert stream.waiting_ == []
    assert_equals_batch(stream, fixed_kernel(), clouds)


def test_without_a_map_disconnected_groups_are_an_error():
    points, _ = scene(n=6, m=40, hidden=0.0, noise=0.01)
    stream = fixed_stream()
    for t, cloud in enumerate(points):
        stream.add(cloud[:20] if t < 3 else cloud[20:], [f"{t // 3}.{j}" for j in range(20)])
    with pytest.raises(WeaklyConnected, match="fall into 2 groups"):
        stream.update()


def test_a_new_map_in_its_own_frame_is_an_event():
    points, _ = scene(n=6, m=40, hidden=0.0, noise=0.01)
    stream = fixed_stream(window=3)
    for cloud in points[:3]:
        stream.add(cloud[:20], [f"a{j}" for j in range(20)])
    stream.update()
    for cloud in points[3:]:
        stream.add(cloud[20:], [f"b{j}" for j in range(20)])
    (event,) = stream.update().events
    assert "a new map begins" in event


def test_a_window_of_two_clouds_is_solved():
    points, _ = scene(n=6, m=30, hidden=0.2, noise=0.01)
    stream, clouds = fixed_stream(window=2), {}
    for t, cloud in enumerate(points):
        clouds[add(stream, cloud)] = cloud
        if t:
            stream.update()
            assert_equals_batch(stream, fixed_kernel(), {key: clouds[key] for key in stream.keys_})


@pytest.mark.parametrize("model", [fixed_kernel(robust="geman-mcclure"), fixed_tps(robust="tukey"), RigidGPA()])
def test_warps_of_estimators_that_are_fitted_anew_are_those_of_the_batch_fit(model, tmp_path):
    points, _ = scene(n=6, m=50, hidden=0.1, noise=0.01)
    points[2, :4] += 2.0  # wrong matches
    stream, clouds = fixed_stream(model), {}
    for t, cloud in enumerate(points):
        clouds[add(stream, cloud)] = cloud
        if t > 2:
            stream.update()
    stream.checkpoint(tmp_path / "state.npz")
    _, gpa = batch_of(stream, model, clouds)
    probe = np.random.default_rng(0).standard_normal((10, 3))
    for one in (stream, StreamingGPA.resume(tmp_path / "state.npz")):
        for key in one.keys_:
            assert rigid_distance(one.transform(probe, key), gpa.transform(probe, key)) < 1e-6


def test_a_mirror_image_is_left_out_of_the_map():
    points, _ = scene(n=6, m=30, hidden=0.0, noise=0.005, bend=0.05)
    stream, clouds = fixed_stream(automatic=True), {}
    for cloud in points[:4]:
        clouds[add(stream, cloud)] = cloud
    mirrored = add(stream, points[4] * [1, 1, -1])
    clouds[add(stream, points[5])] = points[5]
    assert stream.mirrored_ == [mirrored]
    assert "mirror image" in {finding.kind for finding in stream.diagnose()}
    keys = [key for key in stream.keys_ if key != mirrored]
    own = with_gamma(fixed_kernel(), stream.gamma_)
    gpa = own.fit([(clouds[key], [f"L{j:03d}" for j in range(30)]) for key in keys])
    assert rigid_distance(stream.map_, gpa.map_) < 1e-8
    stream.drop(mirrored)
    # and one among the first clouds
    fresh = fixed_stream()
    odd = add(fresh, points[0] * [-1, 1, 1])
    for cloud in points[1:]:
        add(fresh, cloud)
    fresh.update()
    assert fresh.mirrored_ == [odd]
    assert np.isfinite(fresh.pose(odd)[0]).all()


# -- the frame of the map --


def test_the_frame_does_not_jump():
    """The map moves between updates by as much as the batch maps differ after rigid alignment."""
    liver = simulate.liver(clouds=20, landmarks=60, hidden=0.3, noise=1.0, vertices=400)
    stream, clouds, before = fixed_stream(window=10), {}, None
    for t, cloud in enumerate(liver.points):
        clouds[add(stream, cloud)] = cloud
        if t < 5:
            continue
        moved = stream.update().moved
        _, gpa = batch_of(stream, fixed_kernel(), clouds)
        after = dict(zip(gpa.observations_.landmarks, gpa.map_, strict=True))
        if before is not None:
            common = sorted(set(before) & set(after))
            new, old = (np.array([which[name] for name in common]) for which in (after, before))
            rotation = nearest_rotation((old - old.mean(0)).T @ (new - new.mean(0)))
            change = np.sqrt(np.mean(np.sum(((new - new.mean(0)) @ rotation.T + old.mean(0) - old) ** 2, axis=1)))
            assert moved == pytest.approx(change, rel=1e-4, abs=1e-9)
        before = after


def test_closing_a_loop_is_an_event():
    """A ring of landmarks, of which each cloud observes a part; noise drifts until the first part is seen again."""
    rng = np.random.default_rng(1)
    angle = np.linspace(0, 2 * np.pi, 120, endpoint=False)
    ring = np.column_stack([100 * np.cos(angle), 100 * np.sin(angle), 10 * rng.standard_normal(120)])
    ring += 10 * rng.standard_normal(ring.shape)
    stream, events = fixed_stream(AffineGPA()), []
    for t in range(30):
        seen = (np.arange(16) + 4 * t) % 120
        points = ring[seen] + 0.8 * rng.standard_normal((16, 3))
        points = (points - ring[seen[0]]) @ random_rotation(3, rng).T
        stream.add(points, seen.tolist())
        if t > 1:
            events.append(stream.update().events)
    updates = [t + 2 for t, one in enumerate(events) if one]
    assert updates
    assert min(updates) >= 26  # the clouds that observe the first landmarks again
    assert "a loop was closed" in events[updates[0] - 2][0]


# -- frozen maps --


def test_a_frozen_map_does_not_change_and_new_clouds_are_warped_onto_it():
    points, _ = scene(n=7, m=40, hidden=0.2, noise=0.01)
    stream, clouds = fixed_stream(), {}
    for cloud in points[:5]:
        clouds[add(stream, cloud)] = cloud
    with pytest.raises(NotFitted, match="no map yet"):
        stream.freeze()
    stream.update()
    before = stream.map_
    stream.freeze()
    for cloud in points[5:]:
        clouds[add(stream, cloud)] = cloud
    stream.update()
    assert_allclose(stream.map_, before)
    seen = seen_of(points[5])
    known = [j for j in seen if f"L{j:03d}" in stream.landmarks_]
    target = before[[stream.landmarks_.index(f"L{j:03d}") for j in known]]
    residual = stream.transform(points[5][known], 5) - target
    assert np.sqrt(np.mean(residual**2)) < 0.1 * np.std(target)
    assert stream.unfreeze().clouds == 7
    assert_equals_batch(stream, fixed_kernel(), clouds)


# -- dropped, mirrored and later clouds --


def test_a_drop_that_disconnects_the_clouds_leaves_the_map_with_one_group():
    points, _ = scene(n=7, m=60, hidden=0.0, noise=0.02)
    points[:3, 30:], points[3:6, :30] = np.nan, np.nan  # the last observes landmarks of both
    for model in (AffineGPA(modes="program"), fixed_kernel(modes="program"), fixed_kernel()):
        stream = fixed_stream(model)
        keys = [add(stream, cloud) for cloud in points]
        stream.update()
        before = dict(zip(stream.landmarks_, stream.map_, strict=True))
        stream.drop(keys[-1])
        stream.update()
        assert len(stream.waiting_) == 3
        after = np.array([before[name] for name in stream.landmarks_])
        assert rigid_distance(stream.map_, after) < 0.2


def test_indices_of_landmarks_that_left_are_used_again():
    points, _ = scene(n=5, m=30, hidden=0.0, noise=0.01)
    stream = fixed_stream(window=4)
    for t in range(60):
        names = [f"{j}.{(t + j) // 10}" for j in range(30)]  # each is observed by ten clouds
        stream.add(points[t % 5], names)
        if t:
            stream.update()
    assert len(stream._running.names) <= 60
    assert len(stream._running.index) <= 30 + 4 * 3 + 3


def test_the_majority_decides_which_clouds_are_mirror_images():
    points, _ = scene(n=9, m=30, hidden=0.0, noise=0.005, bend=0.05)
    stream = fixed_stream(window=6, automatic=True)
    for t, cloud in enumerate(points):
        add(stream, cloud * [1, 1, -1] if t < 2 else cloud)
    stream.update()
    assert stream.mirrored_ == []
    assert len(stream._running.participating) == 6


def test_a_mirror_image_added_while_frozen_is_left_out_too():
    points, _ = scene(n=6, m=30, hidden=0.0, noise=0.005, bend=0.05)
    stream = fixed_stream()
    for cloud in points[:4]:
        add(stream, cloud)
    stream.update()
    stream.freeze()
    odd = add(stream, points[4] * [1, 1, -1])
    add(stream, points[5])
    assert stream.unfreeze().clouds == 5
    assert stream.mirrored_ == [odd]


def test_warps_belong_to_the_map_with_which_they_were_solved():
    points, _ = scene(n=5, m=30, hidden=0.3, noise=0.01)
    early, late = fixed_stream(), fixed_stream()
    for stream in (early, late):
        for cloud in points:
            add(stream, cloud)
        stream.update()
    probe = points[0][seen_of(points[0])]
    before = early.transform(probe, 0)
    for key in (1, 2):
        late.drop(key)
    assert_allclose(late.transform(probe, 0), before, atol=1e-10)


def test_2d_streams():
    points, _ = scene(n=5, m=25, d=2, hidden=0.2, noise=0.01)
    stream = fixed_stream(automatic=True)
    clouds = {add(stream, cloud, measured=Measured(np.eye(2), np.zeros(2), 1.0, 90.0)): cloud for cloud in points}
    assert_equals_batch_map(stream, clouds)


def test_points_are_warped_into_the_map_and_back():
    points, _ = scene(n=4, m=40, hidden=0.0, noise=0.005, bend=0.05)
    stream = fixed_stream(automatic=True)
    for cloud in points:
        add(stream, cloud)
    warped = stream.transform(points[1], 1)
    assert_allclose(stream.inverse_transform(warped, 1), points[1], atol=1e-6)

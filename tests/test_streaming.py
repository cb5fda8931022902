"""Clouds that are added and dropped: the map is that of a batch fit to the same clouds, whatever happened before."""

from __future__ import annotations

import doctest
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from conftest import random_rotation, scene
from kernelgpa import (
    TPSGPA,
    AffineGPA,
    DegenerateCloud,
    FormatError,
    InvalidObservations,
    InvalidSetting,
    KernelGPA,
    Measured,
    NotFitted,
    NumericalFailure,
    RigidGPA,
    StreamingGPA,
    TooLarge,
    WeaklyConnected,
    simulate,
)
from kernelgpa.gauge.rotations import nearest_rotation
from kernelgpa.streaming import estimator
from kernelgpa.streaming.memory import MemoryLimits

pytestmark = pytest.mark.filterwarnings("ignore::kernelgpa.KernelGPAWarning")


def seen_of(cloud):
    return np.flatnonzero(~np.isnan(cloud[:, 0]))


def add(stream, cloud, **more):
    seen = seen_of(cloud)
    return stream.add(cloud[seen], [f"L{j:03d}" for j in seen], **more)


def rigid_distance(a, b):
    """The largest distance between two maps after the best rigid motion, relative to their size."""
    assert (np.isnan(a) == np.isnan(b)).all()
    known = np.isfinite(a).all(axis=1)
    mean_a, mean_b = a[known].mean(axis=0), b[known].mean(axis=0)
    rotation = nearest_rotation((b[known] - mean_b).T @ (a[known] - mean_a))
    return np.abs((a[known] - mean_a) @ rotation.T + mean_b - b[known]).max() / np.abs(b[known] - mean_b).max()


def batch_of(stream, estimator, clouds):
    """A batch fit to the clouds in the stream, given by key."""
    keys = [key for key in stream.keys_ if key not in stream.waiting_]
    pairs = [(clouds[key][seen_of(clouds[key])], [f"L{j:03d}" for j in seen_of(clouds[key])]) for key in keys]
    return keys, estimator.fit(pairs)


def assert_equals_batch(stream, estimator, clouds, tolerance=1e-8):
    keys, gpa = batch_of(stream, estimator, clouds)
    assert stream.landmarks_ == gpa.observations_.landmarks
    assert rigid_distance(stream.map_, gpa.map_) < tolerance
    assert_allclose(stream.scales_, gpa.scales_, rtol=tolerance)
    assert_allclose(stream.eigenvalues_, gpa.eigenvalues_, rtol=1e-7, atol=1e-12 * len(keys))
    # poses and warps, up to the same rigid motion
    for key, rotation in zip(keys[:3], gpa.rotations_[:3], strict=False):
        first, own = stream.pose(keys[0])[0], stream.pose(key)[0]
        assert_allclose(first.T @ own, gpa.rotations_[0].T @ rotation, atol=1e-7)
    size = np.nanmax(np.abs(gpa.map_))
    steps = np.linalg.norm(np.diff([stream.pose(key)[1] for key in keys], axis=0), axis=1)
    assert_allclose(steps, np.linalg.norm(np.diff(gpa.translations_, axis=0), axis=1), atol=1e-7 * size)
    probe = clouds[keys[0]][seen_of(clouds[keys[0]])][:5] + 0.01
    expected, warped = gpa.transform(probe, 0), stream.transform(probe, keys[0])
    assert_allclose(
        np.linalg.norm(np.diff(warped, axis=0), axis=1),
        np.linalg.norm(np.diff(expected, axis=0), axis=1),
        atol=1e-7 * size,
    )


MODELS = {
    "kernel, paper": lambda: KernelGPA(modes="program", smoothing=0.05),
    "kernel, auto": lambda: KernelGPA(smoothing=0.05),
    "kernel, 5 modes": lambda: KernelGPA(modes=5, smoothing=0.05),
    "thin-plate": lambda: TPSGPA(control_points=3, modes="program"),
    "affine": lambda: AffineGPA(modes="program", scale_method="closed-form"),
    "inducing": lambda: KernelGPA(modes="program", inducing=12),
}


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=6, deadline=None)
@given(data=st.data())
def test_the_map_is_that_of_a_batch_fit_after_any_additions_and_drops(name, data):
    seed = data.draw(st.integers(0, 100))
    points, _ = scene(n=9, m=36, hidden=0.35, noise=0.02, bend=0.1, seed=seed)
    stream, clouds, inside = StreamingGPA(MODELS[name]()), {}, {}
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
    "model", [KernelGPA(robust="huber"), RigidGPA(), KernelGPA(modes="program", scale_method="pairwise")]
)
def test_estimators_that_do_not_solve_from_the_sum_are_fitted_anew(model):
    points, _ = scene(n=5, m=30, hidden=0.2, noise=0.01)
    stream = StreamingGPA(model)
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
    stream, clouds = StreamingGPA(window=5, automatic=True), {}
    for cloud in points:
        clouds[add(stream, cloud)] = cloud
    assert stream.keys_ == (7, 8, 9, 10, 11)
    assert "L000" not in stream.landmarks_
    assert "L039" in stream.landmarks_
    assert_equals_batch(stream, KernelGPA(), {key: clouds[key] for key in stream.keys_})


def test_the_oldest_cloud_is_that_of_the_earliest_time():
    points, _ = scene(n=4, m=20, hidden=0.0)
    stream = StreamingGPA(window=3)
    keys = [add(stream, cloud, time=time) for cloud, time in zip(points, (5.0, 1.0, 4.0, 6.0), strict=True)]
    assert stream.keys_ == (keys[2], keys[0], keys[3])
    assert_allclose(stream.times_, [4, 5, 6])


def test_many_drops_leave_no_rounding_errors_in_the_sum():
    points, _ = scene(n=3, m=16, hidden=0.0, noise=0.01)
    stream = StreamingGPA(modes="program", smoothing=1e-3)
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
    stream = StreamingGPA()
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
    stream, clouds = StreamingGPA(), {}
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
    assert_equals_batch(stream, KernelGPA(), clouds)


def test_without_a_map_disconnected_groups_are_an_error():
    points, _ = scene(n=6, m=40, hidden=0.0, noise=0.01)
    stream = StreamingGPA()
    for t, cloud in enumerate(points):
        stream.add(cloud[:20] if t < 3 else cloud[20:], [f"{t // 3}.{j}" for j in range(20)])
    with pytest.raises(WeaklyConnected, match="fall into 2 groups"):
        stream.update()


def test_a_new_map_in_its_own_frame_is_an_event():
    points, _ = scene(n=6, m=40, hidden=0.0, noise=0.01)
    stream = StreamingGPA(window=3)
    for cloud in points[:3]:
        stream.add(cloud[:20], [f"a{j}" for j in range(20)])
    stream.update()
    for cloud in points[3:]:
        stream.add(cloud[20:], [f"b{j}" for j in range(20)])
    (event,) = stream.update().events
    assert "a new map begins" in event


def test_a_window_of_two_clouds_is_solved():
    points, _ = scene(n=6, m=30, hidden=0.2, noise=0.01)
    stream, clouds = StreamingGPA(window=2), {}
    for t, cloud in enumerate(points):
        clouds[add(stream, cloud)] = cloud
        if t:
            stream.update()
            assert_equals_batch(stream, KernelGPA(), {key: clouds[key] for key in stream.keys_})


@pytest.mark.parametrize("model", [KernelGPA(robust="geman-mcclure"), TPSGPA(robust="tukey"), RigidGPA()])
def test_warps_of_estimators_that_are_fitted_anew_are_those_of_the_batch_fit(model, tmp_path):
    points, _ = scene(n=6, m=50, hidden=0.1, noise=0.01)
    points[2, :4] += 2.0  # wrong matches
    stream, clouds = StreamingGPA(model), {}
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
    stream, clouds = StreamingGPA(automatic=True), {}
    for cloud in points[:4]:
        clouds[add(stream, cloud)] = cloud
    mirrored = add(stream, points[4] * [1, 1, -1])
    clouds[add(stream, points[5])] = points[5]
    assert stream.mirrored_ == [mirrored]
    assert "mirror image" in {finding.kind for finding in stream.diagnose()}
    keys = [key for key in stream.keys_ if key != mirrored]
    gpa = KernelGPA().fit([(clouds[key], [f"L{j:03d}" for j in range(30)]) for key in keys])
    assert rigid_distance(stream.map_, gpa.map_) < 1e-8
    stream.drop(mirrored)
    # and one among the first clouds
    fresh = StreamingGPA()
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
    stream, clouds, before = StreamingGPA(window=10), {}, None
    for t, cloud in enumerate(liver.points):
        clouds[add(stream, cloud)] = cloud
        if t < 5:
            continue
        moved = stream.update().moved
        _, gpa = batch_of(stream, KernelGPA(), clouds)
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
    stream, events = StreamingGPA(AffineGPA()), []
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
    stream, clouds = StreamingGPA(), {}
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
    assert_equals_batch(stream, KernelGPA(), clouds)


# -- measured motions --


def pose_errors(stream, liver):
    """Root mean square error of the motions between consecutive clouds."""
    rotations, translations = stream.rotations_, stream.translations_
    errors = []
    for s, u in zip(range(len(rotations) - 1), range(1, len(rotations)), strict=True):
        step = rotations[s].T @ (translations[u] - translations[s])
        true = liver.rotations[s].T @ (liver.translations[u] - liver.translations[s])
        errors.append(np.sum((step - true) ** 2))
    return np.sqrt(np.mean(errors))


def odometry(liver, t, rng, shift=1.0, degrees=0.2):
    from scipy.spatial.transform import Rotation

    between = liver.rotations[t - 1].T @ liver.rotations[t]
    step = liver.rotations[t - 1].T @ (liver.translations[t] - liver.translations[t - 1])
    noise = Rotation.from_rotvec(np.radians(degrees) * rng.standard_normal(3)).as_matrix()
    return Measured(between @ noise, step + shift * rng.standard_normal(3), shift, degrees, source=t - 1)


@pytest.fixture(scope="module")
def moving_liver():
    return simulate.liver(clouds=16, landmarks=80, hidden=0.3, noise=1.0, bend=12.0, vertices=600)


def registered(liver, motion=None):
    stream, rng = StreamingGPA(smoothing=0.1), np.random.default_rng(0)
    for t, cloud in enumerate(liver.points):
        add(stream, cloud, measured=() if motion is None or t == 0 else motion(t, rng))
    stream.update()
    return stream


def test_odometry_reduces_the_error_of_the_poses(moving_liver):
    without, with_it = registered(moving_liver), registered(moving_liver, lambda t, rng: odometry(moving_liver, t, rng))
    assert pose_errors(with_it, moving_liver) < 0.7 * pose_errors(without, moving_liver)
    assert_allclose(with_it.map_, without.map_)  # the map is that of the clouds
    assert "measured motion" not in {finding.kind for finding in with_it.diagnose()}


def test_poses_of_a_tracker_reduce_it_too(moving_liver):
    rotation, translation = random_rotation(3, np.random.default_rng(5)), np.array([10.0, -300.0, 50.0])

    def tracker(t, rng):
        position = rotation @ moving_liver.translations[t] + translation + 0.5 * rng.standard_normal(3)
        return Measured(rotation @ moving_liver.rotations[t], position, 0.5, 0.1)

    assert pose_errors(registered(moving_liver, tracker), moving_liver) < 0.7 * pose_errors(
        registered(moving_liver), moving_liver
    )


@pytest.mark.parametrize("accuracy", [1.0, 1e-3])
def test_wrong_odometry_is_reported_and_rejected(moving_liver, accuracy):
    """Also if it claims to be accurate."""

    def motion(t, rng):
        right = odometry(moving_liver, t, rng)
        return right if t != 7 else replace(right, translation=right.translation + 60.0, accuracy=accuracy)

    stream = registered(moving_liver, motion)
    (finding,) = [one for one in stream.diagnose() if one.kind == "measured motion"]
    assert finding.found.startswith(
        "1 of 15 measured motions contradict the clouds and are rejected; that of cloud 7 from 6"
    )
    assert pose_errors(stream, moving_liver) < pose_errors(registered(moving_liver), moving_liver)


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
    stream = StreamingGPA()
    with pytest.raises(InvalidObservations, match=message):
        add(stream, scene(n=2, m=10, hidden=0.0)[0][0], measured=motion)
    assert stream.keys_ == ()


# -- checkpoints --


def test_a_stream_resumes_from_its_checkpoint(tmp_path, moving_liver):
    path, rng = tmp_path / "stream.npz", np.random.default_rng(0)
    first, second = StreamingGPA(window=8, automatic=True), StreamingGPA(window=8, automatic=True)
    for t, cloud in enumerate(moving_liver.points):
        motion = () if t == 0 else odometry(moving_liver, t, rng)
        for stream in (first, second):
            add(stream, cloud, measured=motion, time=0.1 * t)
        if t in (0, 3, 9):
            second.checkpoint(path)
            second = StreamingGPA.resume(path)
    assert second.landmarks_ == first.landmarks_
    assert second.keys_ == first.keys_
    assert_allclose(second.map_, first.map_, atol=1e-8 * np.abs(first.map_).max())
    assert_allclose(second.translations_, first.translations_, atol=1e-6)
    assert [path.name for path in tmp_path.iterdir()] == ["stream.npz"]


def test_a_frozen_stream_is_frozen_after_it_is_resumed(tmp_path):
    points, _ = scene(n=5, m=30, hidden=0.1, noise=0.01)
    stream = StreamingGPA()
    for cloud in points[:4]:
        add(stream, cloud)
    stream.update()
    stream.freeze()
    add(stream, points[4])
    stream.checkpoint(tmp_path / "frozen.npz")
    again = StreamingGPA.resume(tmp_path / "frozen.npz")
    assert again.frozen
    assert_allclose(again.map_, stream.map_)
    assert_allclose(again.pose(4)[1], stream.pose(4)[1], atol=1e-10)
    assert again.unfreeze().clouds == 5


def test_files_that_are_not_checkpoints_are_refused(tmp_path):
    path = tmp_path / "stream.npz"
    with pytest.raises(FormatError, match="there is no such file"):
        StreamingGPA.resume(path)
    path.write_bytes(b"nonsense")
    with pytest.raises(FormatError):
        StreamingGPA.resume(path)
    np.savez(path, header=np.array('{"stream": 1}'))
    with pytest.raises(FormatError, match="no checkpoint of a stream"):
        StreamingGPA.resume(path)
    stream = StreamingGPA()
    stream.add(np.random.default_rng(0).standard_normal((8, 3)), [(1, j) for j in range(8)])
    with pytest.raises(InvalidSetting, match="cannot be saved"):
        stream.checkpoint(path)


# -- errors --


def test_a_drop_that_disconnects_the_clouds_leaves_the_map_with_one_group():
    points, _ = scene(n=7, m=60, hidden=0.0, noise=0.02)
    points[:3, 30:], points[3:6, :30] = np.nan, np.nan  # the last observes landmarks of both
    for model in (AffineGPA(modes="program"), KernelGPA(modes="program"), KernelGPA()):
        stream = StreamingGPA(model)
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
    stream = StreamingGPA(window=4)
    for t in range(60):
        names = [f"{j}.{(t + j) // 10}" for j in range(30)]  # each is observed by ten clouds
        stream.add(points[t % 5], names)
        if t:
            stream.update()
    assert len(stream._running.names) <= 60
    assert len(stream._running.index) <= 30 + 4 * 3 + 3


def test_the_majority_decides_which_clouds_are_mirror_images():
    points, _ = scene(n=9, m=30, hidden=0.0, noise=0.005, bend=0.05)
    stream = StreamingGPA(window=6, automatic=True)
    for t, cloud in enumerate(points):
        add(stream, cloud * [1, 1, -1] if t < 2 else cloud)
    stream.update()
    assert stream.mirrored_ == []
    assert len(stream._running.participating) == 6


def test_a_mirror_image_added_while_frozen_is_left_out_too():
    points, _ = scene(n=6, m=30, hidden=0.0, noise=0.005, bend=0.05)
    stream = StreamingGPA()
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
    early, late = StreamingGPA(), StreamingGPA()
    for stream in (early, late):
        for cloud in points:
            add(stream, cloud)
        stream.update()
    probe = points[0][seen_of(points[0])]
    before = early.transform(probe, 0)
    for key in (1, 2):
        late.drop(key)
    assert_allclose(late.transform(probe, 0), before, atol=1e-10)


class FailingFamily:
    """The family of another estimator, which raises errors where ``fails(stage, cloud)`` asks for them."""

    def __init__(self, family, fails):
        self.smoothing, self.features, self.neighbours = family.smoothing, family.features, family.neighbours
        self._family, self._fails = family, fails

    def prepare(self, cloud):
        self._fails("prepare", cloud)
        prepared = self._family.prepare(cloud)
        return SimpleNamespace(
            reduce=lambda smoothing, weights: self._reduced(prepared.reduce(smoothing, weights), cloud)
        )

    def _reduced(self, reduced, cloud):
        def cost_matrix():
            self._fails("cost", cloud)
            return reduced.cost_matrix()

        return SimpleNamespace(cost_matrix=cost_matrix, fit_all=reduced.fit_all)


def failing(fails):
    """KernelGPA with a family that fails."""

    class FailingGPA(KernelGPA):
        def _family(self):
            return FailingFamily(super()._family(), fails)

    return FailingGPA()


def test_a_cloud_that_cannot_be_reduced_leaves_the_others_unaffected():
    points, _ = scene(n=5, m=20, hidden=0.2, noise=0.01)

    def fails(stage, cloud):
        if stage == "prepare" and cloud.name == 1:
            raise NumericalFailure("its kernel matrix is singular")

    stream, clouds = StreamingGPA(failing(fails), automatic=True), {}
    for cloud in points:
        clouds[add(stream, cloud)] = cloud
    assert stream.waiting_ == [1]
    assert "cloud 1 cannot be reduced: its kernel matrix is singular" in {one.found for one in stream.diagnose()}
    assert_equals_batch(stream, KernelGPA(), clouds)


def test_a_cloud_older_than_a_full_window_is_refused():
    points, _ = scene(n=4, m=20, hidden=0.0)
    stream = StreamingGPA(window=3)
    for cloud, time in zip(points, (5.0, 6.0, 7.0), strict=False):
        add(stream, cloud, time=time)
    with pytest.raises(InvalidObservations, match="before the window, which is full and begins at 5"):
        add(stream, points[3], time=1.0)
    assert_allclose(stream.times_, [5, 6, 7])


def test_a_cloud_that_is_refused_changes_nothing():
    stream, rng = StreamingGPA(), np.random.default_rng(0)
    good = rng.standard_normal((8, 3))
    key = stream.add(good, range(8))
    with pytest.raises(InvalidObservations, match="given more than once"):
        stream.add(good, [0, 1, 2, 3, 4, 5, 6, 6])
    with pytest.raises(InvalidObservations, match="there are 3 ids"):
        stream.add(good, range(3))
    with pytest.raises(DegenerateCloud):
        stream.add(good[:3], range(3))
    with pytest.raises(InvalidObservations, match="expected 3D"):
        stream.add(good[:, :2], range(8))
    with pytest.raises(InvalidObservations, match="a set, which has no order"):
        stream.add(good, set(range(8)))
    with pytest.raises(InvalidObservations, match="weights range from 1 to 1e\\+50"):
        stream.add(good, range(8), weights=np.full(8, 1e50))
    with pytest.raises(InvalidObservations, match="measured is 5"):
        stream.add(good, range(8), measured=5)
    with pytest.raises(InvalidObservations, match="time is nan"):
        stream.add(good, range(8), time=float("nan"))
    with pytest.raises(InvalidObservations, match="at least 2 are needed"):
        stream.update()
    with pytest.raises(InvalidObservations, match="there is no cloud with key 77"):
        stream.drop(77)
    assert stream.keys_ == (key,)
    with pytest.raises(NotFitted):
        _ = stream.map_
    with pytest.raises(NotFitted, match="no cloud was added"):
        StreamingGPA().update()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"estimator": KernelGPA(), "bandwidth": 1.0}, "an estimator and bandwidth are given"),
        ({"estimator": "kernel"}, "expected KernelGPA"),
        ({"window": 1}, "window is 1"),
        ({"smoothing": -1.0}, "smoothing"),
    ],
)
def test_settings_are_checked(arguments, message):
    with pytest.raises(InvalidSetting, match=message):
        StreamingGPA(**arguments)


def test_2d_streams():
    points, _ = scene(n=5, m=25, d=2, hidden=0.2, noise=0.01)
    stream = StreamingGPA(automatic=True)
    clouds = {add(stream, cloud, measured=Measured(np.eye(2), np.zeros(2), 1.0, 90.0)): cloud for cloud in points}
    assert_equals_batch_map(stream, clouds)


def assert_equals_batch_map(stream, clouds):
    assert rigid_distance(stream.map_, batch_of(stream, KernelGPA(), clouds)[1].map_) < 1e-8


def test_points_are_warped_into_the_map_and_back():
    points, _ = scene(n=4, m=40, hidden=0.0, noise=0.005, bend=0.05)
    stream = StreamingGPA(automatic=True)
    for cloud in points:
        add(stream, cloud)
    warped = stream.transform(points[1], 1)
    assert_allclose(stream.inverse_transform(warped, 1), points[1], atol=1e-6)


# -- too little memory --


class LimitedStream(StreamingGPA):
    """A stream on a machine with ``available`` bytes of free memory."""

    available = 10**9

    @property
    def memory_limits(self):
        return MemoryLimits(unchecked=0, available=lambda: self.available)


@pytest.mark.parametrize("window", [None, 3])
def test_a_cloud_without_memory_for_it_changes_nothing(window):
    points = scene(n=5, m=40, hidden=0.2, bend=0.05, noise=0.01)[0]
    stream = LimitedStream(window=window)
    for cloud in points[:3]:
        add(stream, cloud)
    stream.update()
    before, keys = stream.map_, stream.keys_
    stream.available = 1000
    found = r"a frame of \d+ landmarks would take 0.00 GB of 0.00 GB free, because \d+ landmarks are shared by"
    with pytest.raises(TooLarge, match=found):
        add(stream, points[3])
    assert stream.keys_ == keys
    assert_allclose(stream.map_, before, rtol=0, atol=0)
    stream.available = 10**9
    key = add(stream, points[3])
    stream.available = 1000
    with pytest.raises(TooLarge, match="this update would take"):
        stream.update()
    assert_allclose(stream.map_, before, rtol=0, atol=0)
    stream.available = 10**9
    stream.update()
    assert stream.keys_[-1] == key
    assert_equals_batch(stream, KernelGPA(), points)


def test_only_shared_landmarks_take_memory():
    """A cloud of many landmarks that no other cloud observes is added; so is one for which others leave the window."""
    rng = np.random.default_rng(0)
    stream = LimitedStream(window=2)
    stream.available = 3_000_000  # 12 x 150^2 numbers
    stream.add(rng.standard_normal((400, 3)), range(400))
    with pytest.raises(TooLarge):
        stream.add(rng.standard_normal((400, 3)), range(400))
    stream.add(rng.standard_normal((100, 3)), range(100))
    stream.add(rng.standard_normal((100, 3)), range(100))
    assert len(stream.keys_) == 2


@pytest.mark.parametrize("problem", [MemoryError("Unable to allocate"), KeyboardInterrupt()], ids=repr)
@pytest.mark.parametrize("calls", [1, 2, 4])
def test_an_update_that_is_cut_short_can_be_repeated(problem, calls):
    points = scene(n=5, m=40, hidden=0.2, bend=0.05, noise=0.01)[0]
    remaining = float("inf")

    def fails(stage, cloud):
        nonlocal remaining
        remaining -= stage == "cost"
        if remaining <= 0:
            raise problem

    stream = StreamingGPA(failing(fails))
    for cloud in points[:3]:
        add(stream, cloud)
    stream.update()
    before = stream.map_
    for cloud in points[3:]:
        add(stream, cloud)
    remaining = calls
    with pytest.raises(TooLarge if isinstance(problem, MemoryError) else KeyboardInterrupt):
        stream.update()
    remaining = float("inf")
    assert_allclose(stream.map_, before, rtol=0, atol=0)
    stream.update()
    assert_equals_batch(stream, KernelGPA(), points)


def test_the_example_of_the_docstring_runs():
    failed, tried = doctest.testmod(estimator)
    assert failed == 0
    assert tried

"""Observations return what they were given, cannot be changed, and refuse invalid data."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from conftest import scene
from kernelgpa import DegenerateCloud, InvalidObservations, Observations
from kernelgpa.observations.collection import as_observations, reweighted

CLOUDS = ("ann", "bob", "cid")
LANDMARKS = ("chin", "ear", "eye", "lip", "nose", "brow")
SCENES = st.builds(
    lambda n, m, d, seed: scene(n, m, d, seed=seed)[0],
    st.integers(2, 5),
    st.integers(20, 30),
    st.sampled_from([2, 3]),
    st.integers(0, 10_000),
)


def faces(d=2):
    return np.random.default_rng(5).standard_normal((3, 6, d))


def as_pairs(points, ids):
    """One (points, ids) pair per cloud, with only the landmarks that it saw, each in its own order."""
    pairs = []
    for t, cloud in enumerate(points):
        order = np.random.default_rng(t).permutation(len(cloud))
        rows = [j for j in order if np.isfinite(cloud[j]).all()]
        pairs.append((cloud[rows], [ids[j] for j in rows]))
    return pairs


def assert_same(a, b):
    assert a.names == b.names
    assert a.landmarks == b.landmarks
    assert a.dimension == b.dimension
    assert_array_equal(a.points, b.points)
    assert_array_equal(a.weights, b.weights)


# -- what is given is returned --


@given(points=SCENES)
def test_an_array_is_returned_as_it_was_given(points):
    observations = Observations.from_array(points)
    seen = np.isfinite(points).all(axis=2)
    assert_array_equal(observations.points, points)
    assert_array_equal(observations.visible, seen)
    assert_array_equal(observations.weights, seen.astype(float))
    assert_array_equal(observations.counts, seen.sum(axis=0))
    assert observations.dimension == points.shape[2]
    assert observations.names == tuple(range(len(points)))
    assert observations.landmarks == tuple(range(points.shape[1]))


@given(points=SCENES)
def test_an_array_and_shuffled_pairs_are_the_same_observations(points):
    ids = list(range(points.shape[1]))
    assert_same(Observations.from_array(points), Observations.from_clouds(as_pairs(points, ids)))


@given(points=SCENES, seed=st.integers(0, 1000))
def test_weights_follow_their_observations(points, seed):
    n, m, _ = points.shape
    rng = np.random.default_rng(seed)
    per_observation = rng.uniform(0.1, 2, (n, m))
    seen = np.isfinite(points).all(axis=2)
    dense = Observations.from_array(points, weights=per_observation)
    assert_array_equal(dense.weights, np.where(seen, per_observation, 0))
    per_landmark = Observations.from_array(points, weights=per_observation[0])
    assert_array_equal(per_landmark.weights, np.where(seen, per_observation[0], 0))
    pairs = as_pairs(points, list(range(m)))
    per_cloud = [per_observation[t, ids] for t, (_, ids) in enumerate(pairs)]
    assert_same(dense, Observations.from_clouds(pairs, weights=per_cloud))


@given(points=SCENES, seed=st.integers(0, 1000))
def test_a_weight_of_zero_means_not_seen(points, seed):
    hidden = np.random.default_rng(seed).random(points.shape[:2]) < 0.1
    weighted = Observations.from_array(points, weights=np.where(hidden, 0.0, 1.0))
    blanked = points.copy()
    blanked[hidden] = np.nan
    assert_same(weighted, Observations.from_array(blanked))
    assert_same(weighted, Observations.from_array(points).hide(hidden))
    assert_same(weighted, reweighted(Observations.from_array(points), np.where(hidden, 0.0, 1.0)))


def test_names_of_clouds_and_landmarks_are_kept():
    observations = Observations.from_array(faces(), clouds=CLOUDS, landmarks=LANDMARKS)
    assert observations.names == CLOUDS
    assert observations.landmarks == LANDMARKS
    assert [cloud.name for cloud in observations.clouds] == list(CLOUDS)


def test_numpy_names_become_python_objects():
    observations = Observations.from_array(faces(), clouds=np.array(CLOUDS), landmarks=np.arange(6) + 10)
    assert [type(name) for name in observations.names + observations.landmarks] == [str] * 3 + [int] * 6


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        ([7, 3, 5, 1, 9, 2], (1, 2, 3, 5, 7, 9)),
        (["eye", "chin", "nose", "lip", "ear", "brow"], ("brow", "chin", "ear", "eye", "lip", "nose")),
        ([("b", 2), ("a", 9), ("a", 1), ("c", 0), ("b", 1), ("c", 4)], None),
        ([7, "eye", 5, ("a", 1), 9, 2], (7, "eye", 5, ("a", 1), 9, 2)),
    ],
    ids=["numbers", "text", "tuples", "mixed"],
)
def test_ids_are_sorted_if_they_can_be_compared_and_rows_follow_them(ids, expected):
    points = faces()
    observations = as_observations([(cloud, ids) for cloud in points])
    assert observations.landmarks == (expected or tuple(sorted(ids)))
    for j, landmark in enumerate(observations.landmarks):
        assert_array_equal(observations.points[:, j], points[:, ids.index(landmark)])


def test_landmarks_seen_by_different_clouds_are_joined():
    points = faces()
    observations = Observations.from_clouds(
        [(points[0][:4], [0, 1, 2, 3]), (points[1][1:5], [1, 2, 3, 4]), (points[2][2:], [2, 3, 4, 5])],
        names=CLOUDS,
    )
    assert observations.landmarks == (0, 1, 2, 3, 4, 5)
    assert_array_equal(observations.counts, [1, 2, 3, 3, 2, 1])
    assert observations.names == CLOUDS


@pytest.mark.parametrize("whole", [True, False], ids=["one masked array", "a list of masked arrays"])
def test_masked_points_are_not_seen(whole):
    hidden = np.zeros((3, 6), dtype=bool)
    hidden[0, 2] = hidden[2, 5] = True
    masked = np.ma.array(faces(), mask=np.repeat(hidden[:, :, None], 2, axis=2))
    observations = as_observations(masked if whole else list(masked))
    assert_array_equal(observations.visible, ~hidden)
    pairs = Observations.from_clouds([(cloud, range(6)) for cloud in masked])
    assert_array_equal(pairs.visible, ~hidden)


def test_masked_integers_are_not_seen():
    whole = np.ma.array((10 * faces()).astype(int), mask=False)
    whole[1, 3] = np.ma.masked
    observations = Observations.from_array(whole)
    assert not observations.visible[1, 3]
    assert observations.visible.sum() == 17


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int64, np.uint8])
def test_the_resolution_is_that_of_the_given_type(kind):
    points = (100 + 20 * faces()).astype(kind)
    epsilon = np.finfo(kind if np.issubdtype(kind, np.floating) else np.float64).eps
    for cloud in Observations.from_array(points).clouds:
        assert cloud.points.dtype == np.float64
        assert cloud.resolution == epsilon * np.abs(cloud.points).max()


@pytest.mark.parametrize("offset", [0.0, 1e6, 1e9])
def test_new_weights_change_nothing_else(offset):
    observations = Observations.from_array(faces(3) + offset)
    changed = reweighted(observations, np.full(6, 2.0))
    assert_array_equal(changed.weights, 2 * observations.weights)
    assert_same(reweighted(changed, np.ones(6)), observations)
    assert [c.resolution for c in changed.clouds] == [c.resolution for c in observations.clouds]
    assert [c.frame.rank for c in changed.clouds] == [3, 3, 3]


def test_every_input_format_gives_the_same_observations():
    points = faces()
    weights = np.random.default_rng(0).uniform(1, 2, (3, 6))
    made = Observations.from_array(points, weights)
    assert as_observations(made) is made
    assert_same(as_observations(points, weights), made)
    assert_same(as_observations(points.tolist(), weights), made)
    assert_same(as_observations([(cloud, range(6)) for cloud in points], weights), made)
    assert_same(as_observations([(cloud.tolist(), list(range(6))) for cloud in points], list(weights)), made)
    assert_same(as_observations(Observations.from_array(points), weights), made)


def test_clouds_of_two_landmarks_are_not_mistaken_for_pairs():
    with pytest.raises(DegenerateCloud, match=r"cloud 0 sees 2 landmarks, and at least 3"):
        as_observations([[[0.0, 1.0], [1.0, 0.0]], [[0.0, 2.0], [2.0, 0.0]]])


# -- read-only --


def test_observations_are_read_only():
    observations = Observations.from_array(faces())
    cloud = observations.clouds[0]
    for array in (cloud.points, cloud.weights, cloud.seen):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    with pytest.raises(dataclasses.FrozenInstanceError):
        cloud.points = None
    with pytest.raises(dataclasses.FrozenInstanceError):
        observations.clouds = ()


def test_observations_are_a_copy_of_the_given_array():
    points, weights = faces(), np.ones((3, 6))
    observations = Observations.from_array(points, weights)
    before = observations.points
    points += 1
    weights += 1
    assert_array_equal(observations.points, before)
    assert_array_equal(observations.weights, np.ones((3, 6)))


def test_returned_arrays_are_copies():
    observations = Observations.from_array(faces())
    observations.points[:] = 0
    observations.weights[:] = 0
    assert np.abs(observations.points).min() > 0
    assert_array_equal(observations.weights, np.ones((3, 6)))


# -- fewer observations --


@given(points=SCENES, seed=st.integers(0, 1000))
def test_a_subset_has_the_requested_rows_in_the_requested_order(points, seed):
    m = points.shape[1]
    wanted = np.random.default_rng(seed).permutation(m)[: m - 2]
    observations = Observations.from_array(points, landmarks=[f"l{j}" for j in range(m)])
    by_name = observations.subset([f"l{j}" for j in wanted])
    assert by_name.landmarks == tuple(f"l{j}" for j in wanted)
    assert_array_equal(by_name.points, points[:, wanted])
    assert_same(observations.subset(wanted), by_name)


def test_a_mask_of_landmarks_is_a_subset():
    points = faces()
    observations = Observations.from_array(points, landmarks=LANDMARKS)
    mask = np.array([True, False, True, True, False, True])
    assert_same(observations.subset(mask), observations.subset(["chin", "eye", "lip", "brow"]))
    assert_same(observations.subset(mask.tolist()), observations.subset(mask))


def test_landmarks_named_by_tuples_are_found():
    names = [("left", 1), ("left", 2, "upper"), "chin", 4, ("right", 1), ("right", 2)]
    observations = Observations.from_array(faces(), landmarks=names)
    wanted = [("right", 1), ("left", 2, "upper"), "chin"]
    assert observations.subset(wanted).landmarks == tuple(wanted)


def test_without_keeps_the_other_clouds_unchanged():
    observations = Observations.from_array(faces(), clouds=CLOUDS, landmarks=LANDMARKS)
    fewer = observations.without(["bob"])
    assert fewer.names == ("ann", "cid")
    assert_array_equal(fewer.points, observations.points[[0, 2]])
    assert fewer.clouds[1] is observations.clouds[2]
    assert_same(observations.without([1]), fewer)
    assert_same(observations.without([-2]), fewer)


def test_fewer_observations_keep_their_resolution():
    observations = Observations.from_array(faces() + 1e6)
    resolutions = [cloud.resolution for cloud in observations.clouds]
    hidden = np.zeros((3, 6), dtype=bool)
    hidden[:, 0] = True
    for fewer in (observations.hide(hidden), observations.subset(range(1, 6))):
        assert [cloud.resolution for cloud in fewer.clouds] == resolutions


def test_names_take_precedence_over_indices():
    observations = Observations.from_array(faces(), clouds=[2, 0, 1])
    assert [observations.cloud_index(name) for name in (2, 0, 1)] == [0, 1, 2]
    assert observations.cloud_index(np.int64(2)) == 0
    with pytest.raises(InvalidObservations, match="no cloud -1"):  # if names are numbers, a number is a name
        observations.cloud_index(-1)

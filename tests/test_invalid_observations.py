"""Invalid data are refused with a message that names the cloud, the landmark and the remedy."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from kernelgpa import DegenerateCloud, InvalidObservations, KernelGPAError, Observations
from kernelgpa.io.landmark_file import LabelledCloud, LandmarkFile
from kernelgpa.io.matching import match_clouds
from kernelgpa.observations.collection import as_observations, reweighted

CLOUDS = ("ann", "bob", "cid")
LANDMARKS = ("chin", "ear", "eye", "lip", "nose", "brow")


def faces(d=2):
    return np.random.default_rng(5).standard_normal((3, 6, d))


def assert_same(a, b):
    assert a.names == b.names
    assert a.landmarks == b.landmarks
    assert a.dimension == b.dimension
    assert_array_equal(a.points, b.points)
    assert_array_equal(a.weights, b.weights)


def broken(change, d=2):
    """Faces with one change."""
    points = faces(d)
    change(points)
    return points


def put(*where, value):
    def change(points):
        points[where] = value

    return change


HERE = ("cloud 'bob'", "landmark 'lip'")
BAD_POINTS = {
    "NaN in one coordinate": (put(1, 3, 0, value=np.nan), InvalidObservations, (*HERE, "NaN in some", "1 such")),
    "NaN beside infinity": (put(1, 3, value=[np.nan, np.inf]), InvalidObservations, (*HERE, "not finite", "inf")),
    "infinity": (put(1, 3, 1, value=np.inf), InvalidObservations, (*HERE, "not finite", "inf")),
    "minus infinity": (put(1, 3, value=-np.inf), InvalidObservations, (*HERE, "not finite", "-inf")),
    "two landmarks left": (
        put(1, slice(2, None), value=np.nan),
        DegenerateCloud,
        ("cloud 'bob'", "sees 2 landmarks", "at least 3", "2D"),
    ),
    "nothing left": (put(1, value=np.nan), DegenerateCloud, ("cloud 'bob'", "sees 0 landmarks", "at least 3")),
    "coinciding points": (put(1, value=[4.0, 2.0]), DegenerateCloud, ("cloud 'bob'", "6 points coincide", "4. 2.")),
}


def assert_refused(error, parts, make, *args, **kwargs):
    with pytest.raises(error) as caught:
        make(*args, **kwargs)
    assert type(caught.value) is error
    assert isinstance(caught.value, KernelGPAError)
    assert isinstance(caught.value, ValueError)
    for part in parts:
        assert part in str(caught.value)


@pytest.mark.parametrize("case", BAD_POINTS)
@pytest.mark.parametrize("kind", ["array", "pairs"])
def test_the_error_for_bad_points_names_cloud_and_landmark(case, kind):
    change, error, parts = BAD_POINTS[case]
    points = broken(change)
    if kind == "array":
        assert_refused(error, parts, Observations.from_array, points, clouds=CLOUDS, landmarks=LANDMARKS)
    else:
        pairs = [(cloud, LANDMARKS) for cloud in points]
        assert_refused(error, parts, Observations.from_clouds, pairs, names=CLOUDS)


def test_three_points_are_too_few_in_3d():
    points = broken(put(2, slice(3, None), value=np.nan), d=3)
    parts = ("cloud 2", "sees 3 landmarks", "at least 4", "3D")
    assert_refused(DegenerateCloud, parts, Observations.from_array, points)


def test_points_that_differ_only_by_rounding_coincide():
    points = faces() + 1e9
    points[1] = 1e9 + np.spacing(1e9) * np.random.default_rng(0).integers(0, 2, (6, 2))
    assert np.ptp(points[1]) > 0
    parts = ("cloud 1", "6 points coincide")
    assert_refused(DegenerateCloud, parts, Observations.from_array, points)


WRONG_KINDS = {
    "complex": (lambda p: p + 1j, "complex128"),
    "text": (lambda p: p.astype(str), "<U"),
    "objects": (lambda p: p.astype(object), "object"),
    "dates": (lambda p: p.astype("datetime64[s]"), "datetime64"),
    "None inside": (lambda p: [[[None, 1.0]] * 6] * 3, "object"),
}


@pytest.mark.parametrize("kind", WRONG_KINDS)
def test_coordinates_must_be_real_numbers(kind):
    make, found = WRONG_KINDS[kind]
    points = make(faces())
    assert_refused(InvalidObservations, ("points", found, "real numbers"), Observations.from_array, points)
    pairs = [(faces()[0], range(6)), (points[1], range(6))]
    parts = ("cloud 'bob'", found, "real numbers")
    assert_refused(InvalidObservations, parts, Observations.from_clouds, pairs, names=CLOUDS[:2])


@pytest.mark.parametrize("shape", [(), (6,), (6, 2), (1, 3, 6, 2)], ids=str)
def test_arrays_of_another_shape_are_refused(shape):
    parts = (str(shape), "(clouds, landmarks, dimension)")
    assert_refused(InvalidObservations, parts, Observations.from_array, np.ones(shape))


@pytest.mark.parametrize("n", [0, 1])
def test_one_cloud_is_not_enough(n):
    parts = (f"clouds: found {n}", "at least 2")
    assert_refused(InvalidObservations, parts, Observations.from_array, faces()[:n])
    pairs = [(cloud, range(6)) for cloud in faces()[:n]]
    assert_refused(InvalidObservations, parts, Observations.from_clouds, pairs)


@pytest.mark.parametrize("d", [0, 1, 4])
def test_points_have_two_or_three_coordinates(d):
    parts = (f"dimension {d}", "2 or 3")
    assert_refused(InvalidObservations, parts, Observations.from_array, np.ones((3, 6, d)))
    pairs = [(np.ones((6, d)), range(6))] * 2
    assert_refused(InvalidObservations, parts, Observations.from_clouds, pairs)


def test_all_clouds_have_the_same_dimension():
    pairs = [(faces(2)[0], range(6)), (faces(3)[1], range(6))]
    parts = ("cloud 'bob' has dimension 3", "cloud 'ann' has 2")
    assert_refused(InvalidObservations, parts, Observations.from_clouds, pairs, names=CLOUDS[:2])


def test_the_error_for_ragged_lists_gives_the_remedy():
    ragged = [faces()[0].tolist(), faces()[1][:4].tolist()]
    parts = ("not a rectangular array", "NaN", "(points, ids) pairs")
    assert_refused(InvalidObservations, parts, as_observations, ragged)
    pairs = [(faces()[0], [0, 1, 2, 3, 4, 5]), ([[0.0, 1.0], [2.0]], [0, 1])]
    assert_refused(InvalidObservations, ("cloud 1", "not a rectangular array"), as_observations, pairs)


def test_clouds_of_files_are_not_an_array():
    matched = match_clouds([("a.csv", LandmarkFile((LabelledCloud("a", faces()[0], tuple(LANDMARKS)),), True))])
    parts = ("found a value of type MatchedClouds", "give its observations")
    assert_refused(InvalidObservations, parts, as_observations, matched)


BAD_PAIRS = {
    "too few ids": ((faces()[1], range(5)), ("cloud 'bob'", "(6, 2)", "5 ids")),
    "points in a row": ((faces()[1].ravel(), range(6)), ("cloud 'bob'", "(12,)", "6 ids")),
    "an id twice": ((faces()[1], ["a", "b", "c", "b", "e", "f"]), ("cloud 'bob'", "landmark id 'b'", "more than once")),
    "ids without order": ((faces()[1], set(range(6))), ("cloud 'bob'", "set", "list")),
    "unhashable ids": ((faces()[1], [[1], [2], [3], [4], [5], [6]]), ("cloud 'bob'", "landmark ids", "hashable")),
    "ids are text": ((faces()[1], "abcdef"), ("'abcdef'", "list of names")),
    "ids are a number": ((faces()[1], 6), ("found 6", "list of names")),
    "no ids": ((faces()[1],), ("cloud 'bob'", "1 items", "(points, ids)")),
}


@pytest.mark.parametrize("case", BAD_PAIRS)
def test_the_error_for_bad_pairs_names_the_cloud(case):
    pair, parts = BAD_PAIRS[case]
    good = (faces()[0], range(6))
    assert_refused(InvalidObservations, parts, Observations.from_clouds, [good, pair], names=CLOUDS[:2])


BAD_WEIGHTS = {
    "negative": (-0.5, "weight -0.5"),
    "NaN": (np.nan, "weight nan"),
    "infinite": (np.inf, "weight inf"),
}


@pytest.mark.parametrize("case", BAD_WEIGHTS)
def test_the_error_for_bad_weights_names_cloud_and_landmark(case):
    value, found = BAD_WEIGHTS[case]
    weights = np.ones((3, 6))
    weights[1, 3] = value
    parts = (*HERE, found, "weights are finite and not negative")
    names = {"clouds": CLOUDS, "landmarks": LANDMARKS}
    assert_refused(InvalidObservations, parts, Observations.from_array, faces(), weights, **names)
    pairs = [(cloud, LANDMARKS) for cloud in faces()]
    assert_refused(InvalidObservations, parts, Observations.from_clouds, pairs, list(weights), names=CLOUDS)
    made = Observations.from_array(faces(), **names)
    assert_refused(InvalidObservations, parts, reweighted, made, weights)
    per_landmark = ("cloud 'ann'", "landmark 'lip'", found)
    assert_refused(InvalidObservations, per_landmark, Observations.from_array, faces(), weights[1], **names)


def test_the_weight_of_an_unseen_landmark_has_no_effect():
    points, weights = broken(put(1, 3, value=np.nan)), np.ones((3, 6))
    weights[1, 3] = np.nan
    assert_same(Observations.from_array(points, weights), Observations.from_array(points))


@pytest.mark.parametrize("shape", [(), (3,), (5,), (6, 3), (2, 6), (3, 6, 1)], ids=str)
def test_weights_of_another_shape_are_refused(shape):
    parts = (f"weights have shape {shape}", "(6,)", "(3, 6)")
    assert_refused(InvalidObservations, parts, Observations.from_array, faces(), np.ones(shape))
    assert_refused(InvalidObservations, parts, reweighted, Observations.from_array(faces()), np.ones(shape))


@pytest.mark.parametrize(
    ("weights", "parts"),
    [
        ([np.ones(6), np.ones(4), np.ones(6)], ("cloud 'bob': weights", "(4,)", "(6,)")),
        ([np.ones(6), ["a"] * 6, np.ones(6)], ("cloud 'bob': weights", "<U1", "real numbers")),
        ([np.ones(6), [1, [2, 3]], np.ones(6)], ("cloud 'bob': weights", "rectangular")),
        ([np.ones(6), np.ones(6)], ("weights: found 2 for 3 clouds",)),
        (2.0, ("weights: found 2.0 for 3 clouds",)),
    ],
    ids=["short", "text", "ragged", "one missing", "a number"],
)
def test_weights_of_pairs_are_one_vector_per_cloud(weights, parts):
    pairs = [(cloud, range(6)) for cloud in faces()]
    assert_refused(InvalidObservations, parts, Observations.from_clouds, pairs, weights, names=CLOUDS)


def test_weights_that_hide_too_much_are_refused():
    weights = np.ones((3, 6))
    weights[2, 2:] = 0
    parts = ("cloud 'cid'", "sees 2 landmarks")
    assert_refused(DegenerateCloud, parts, Observations.from_array, faces(), weights, clouds=CLOUDS)
    made = Observations.from_array(faces(), clouds=CLOUDS)
    assert_refused(DegenerateCloud, parts, reweighted, made, weights)
    assert_refused(DegenerateCloud, parts, made.hide, weights == 0)
    assert_refused(DegenerateCloud, ("cloud 'ann'", "sees 2 landmarks"), made.subset, [0, 1])


@pytest.mark.parametrize(
    ("names", "parts"),
    [
        ({"clouds": ["a", "b", "a"]}, ("cloud name 'a'", "more than once")),
        ({"landmarks": [0, 1, 2, 3, 3, 5]}, ("landmark name 3", "more than once")),
        ({"clouds": ["a", "b"]}, ("2 cloud names for 3 clouds",)),
        ({"landmarks": range(7)}, ("7 landmark names for 6 landmarks",)),
        ({"clouds": "abc"}, ("'abc'", "list of names")),
        ({"landmarks": [[0], [1], [2], [3], [4], [5]]}, ("landmark names", "hashable")),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_names_are_unique_and_complete(names, parts):
    assert_refused(InvalidObservations, parts, Observations.from_array, faces(), **names)


def test_names_of_pairs_are_unique():
    pairs = [(cloud, range(6)) for cloud in faces()]
    parts = ("cloud name 'a'", "more than once")
    assert_refused(InvalidObservations, parts, Observations.from_clouds, pairs, names=["a", "b", "a"])


@pytest.mark.parametrize("unknown", ["dan", 3, -4, 1.5, None, ("ann",), ["ann"]], ids=repr)
def test_the_error_for_an_unknown_cloud_or_landmark_lists_the_known_ones(unknown):
    observations = Observations.from_array(faces(), clouds=CLOUDS, landmarks=[f"l{j}" for j in range(6)])
    parts = (f"no cloud {unknown!r}", "there are 3", "'ann', 'bob', 'cid'")
    assert_refused(InvalidObservations, parts, observations.cloud_index, unknown)
    assert_refused(InvalidObservations, parts, observations.without, [unknown])
    if unknown not in (3, -4):  # there are six landmarks
        parts = (f"no landmark {unknown!r}", "there are 6", "'l0', 'l1', 'l2', 'l3', 'l4', ...")
        assert_refused(InvalidObservations, parts, observations.subset, [0, 1, 2, unknown])


def test_a_subset_has_each_landmark_once():
    observations = Observations.from_array(faces(), landmarks=LANDMARKS)
    parts = ("landmark 'eye'", "more than once")
    assert_refused(InvalidObservations, parts, observations.subset, ["eye", "chin", "ear", 2])


def test_a_mask_has_one_entry_per_landmark():
    observations = Observations.from_array(faces())
    assert_refused(InvalidObservations, ("5 entries", "6"), observations.subset, [True] * 5)


@pytest.mark.parametrize(
    "mask", [np.zeros((3, 6)), np.zeros((3, 5), dtype=bool), np.zeros(6, dtype=bool)], ids=["real", "short", "flat"]
)
def test_hide_takes_one_boolean_per_observation(mask):
    parts = (f"shape {mask.shape} and type {mask.dtype}", "(3, 6) and bool")
    assert_refused(InvalidObservations, parts, Observations.from_array(faces()).hide, mask)


def test_a_single_name_is_not_a_list_of_names():
    observations = Observations.from_array(faces(), clouds=CLOUDS, landmarks=LANDMARKS)
    assert_refused(InvalidObservations, ("'ann'", "list of names"), observations.without, "ann")
    assert_refused(InvalidObservations, ("'eye'", "list of names"), observations.subset, "eye")


def test_at_least_two_clouds_must_remain():
    observations = Observations.from_array(faces(), clouds=CLOUDS)
    assert_refused(InvalidObservations, ("clouds: found 1",), observations.without, ["ann", "bob"])


@pytest.mark.parametrize("unit", [1e-150, 1e150])
def test_sizes_that_double_precision_cannot_square_are_refused(unit):
    with pytest.raises(InvalidObservations, match="use another unit"):
        Observations.from_array(faces() * unit)


def test_weights_with_too_large_a_ratio_are_refused_for_observations_too():
    observations = Observations.from_array(faces())
    weights = np.where(np.arange(len(observations.landmarks)) < 2, 1e16, 1.0)
    with pytest.raises(InvalidObservations, match="Use weight 0 for observations that should not count"):
        as_observations(observations, weights)


def test_coarse_numbers_do_not_make_a_body_flat():
    body = np.random.default_rng(0).standard_normal((3, 40, 3)) + 1e6
    clouds = Observations.from_array(body.astype(np.float32)).clouds
    assert [cloud.frame.rank for cloud in clouds] == [3, 3, 3]

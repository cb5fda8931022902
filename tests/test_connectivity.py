"""Shared landmarks connect clouds, and frames find the dimensions that a cloud spans."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.linalg import norm
from numpy.testing import assert_allclose

from conftest import random_rotation
from fixed_settings import fixed_kernel
from kernelgpa import AffineGPA, Observations, RigidGPA, WeaklyConnected
from kernelgpa.observations.connectivity import SureConnections, connected_groups, require_connected
from kernelgpa.observations.geometry import frame_of

EPS = np.finfo(float).eps
every_dimension = pytest.mark.parametrize("d", [2, 3], ids=["2D", "3D"])
every_kind = pytest.mark.parametrize("kind", [np.float64, np.float32])
# at an offset of 1e6, float32 does not resolve a cloud of size 2
every_kind_and_offset = pytest.mark.parametrize(
    ("kind", "offset"), [(np.float64, 0.0), (np.float64, 1e6), (np.float32, 0.0), (np.float32, 10.0)]
)


def template(d, m=40, flat=False, seed=0):
    points = np.random.default_rng(seed).standard_normal((m, d)) * np.array([2.0, 1.5, 1.0])[:d]
    if flat:
        points[:, -1] = 0
    return points


def seen_by(shape, sights, bend=0.0, kind=np.float64, offset=0.0, seed=0):
    """Observations: cloud t sees the landmarks sights[t], rotated, translated, and bent a little."""
    rng = np.random.default_rng(seed)
    m, d = shape.shape
    points = np.full((len(sights), m, d), np.nan)
    for t, seen in enumerate(sights):
        seen = list(seen)
        bent = shape[seen] + bend * np.sin(shape[seen] @ rng.standard_normal((d, d)))
        points[t, seen] = bent @ random_rotation(d, rng).T + rng.standard_normal(d) + offset
    return Observations.from_array(points.astype(kind), clouds=[f"c{t}" for t in range(len(sights))])


def members(observations):
    return [group.members for group in connected_groups(observations)]


def halves(shared, first=12, second=14):
    """Two sets of landmarks that have the given number in common."""
    return range(first), range(first - shared, first - shared + second)


# -- two groups --


@pytest.mark.parametrize(("d", "count"), [(d, count) for d in (2, 3) for count in range(d + 1)])
@pytest.mark.parametrize("bend", [0.0, 0.1], ids=["rigid", "bent"])
def test_the_error_for_groups_that_share_too_few_landmarks_lists_them(d, bend, count):
    a, b = halves(count)
    observations = seen_by(template(d), [a, a, b, a, b], bend)
    with pytest.raises(WeaklyConnected) as caught:
        require_connected(observations)
    assert caught.value.groups == [["c0", "c1", "c3"], ["c2", "c4"]]
    message = str(caught.value)
    for part in (
        "2 groups",
        "group 1: 'c0', 'c1', 'c3'",
        "group 2: 'c2', 'c4'",
        f"share {count} landmarks, {list(range(12 - count, 12))}" if count else "share no landmark and",
        f"need {d + 1}",
        "line" if d == 2 else "plane",
    ):
        assert part in message


@every_dimension
@pytest.mark.parametrize("estimator", [RigidGPA(), AffineGPA(), fixed_kernel()], ids=lambda e: type(e).__name__)
def test_no_estimator_registers_groups_that_are_not_connected(d, estimator):
    a, b = halves(d)
    with pytest.raises(WeaklyConnected, match=r"'c0', 'c1'.*'c2', 'c3'"):
        estimator.fit(seen_by(template(d), [a, a, b, b], bend=0.05))


@every_dimension
@every_kind_and_offset
def test_one_more_landmark_connects_the_groups(d, kind, offset):
    a, b = halves(d + 1)
    observations = seen_by(template(d), [a, b, a, b], kind=kind, offset=offset)
    assert members(observations) == [(0, 1, 2, 3)]
    require_connected(observations)


@every_dimension
@every_kind
@pytest.mark.parametrize("count", [4, 6])
def test_shared_landmarks_in_one_plane_or_line_do_not_connect(d, count, kind):
    """In a plane of space, on a line of the plane; the rounding error of float32 is not thickness."""
    shape = template(d)
    a, b = halves(count)
    shape[12 - count : 12, -1] = 0.5 * shape[12 - count : 12, 0] + 0.3
    observations = seen_by(shape, [a, b], kind=kind)
    assert members(observations) == [(0,), (1,)]
    with pytest.raises(WeaklyConnected, match=f"share {count} landmarks"):
        require_connected(observations)
    shape[11, -1] += 0.01
    assert members(seen_by(shape, [a, b], kind=kind)) == [(0, 1)]


# -- flat clouds --


@every_kind_and_offset
def test_three_landmarks_not_on_a_line_connect_flat_clouds(kind, offset):
    a, b = halves(3)
    assert members(seen_by(template(3, flat=True), [a, b], kind=kind, offset=offset)) == [(0, 1)]


@every_kind
@pytest.mark.parametrize("count", [3, 5])
def test_landmarks_on_a_line_do_not_connect_flat_clouds(count, kind):
    shape = template(3, flat=True)
    shape[12 - count : 12, 1] = 0.5 * shape[12 - count : 12, 0]
    assert members(seen_by(shape, halves(count), kind=kind)) == [(0,), (1,)]


def test_two_landmarks_do_not_connect_flat_clouds():
    assert members(seen_by(template(3, flat=True), halves(2))) == [(0,), (1,)]


def test_two_landmarks_connect_clouds_on_a_line():
    shape = template(2, flat=True)
    assert members(seen_by(shape, halves(2))) == [(0, 1)]
    assert members(seen_by(shape, halves(1))) == [(0,), (1,)]


def test_three_landmarks_connect_a_flat_cloud_to_a_body():
    shape = template(3)
    shape[9:20, 2] = 0
    for sights in ([range(12), range(9, 20)], [range(9, 20), range(12)]):
        assert members(seen_by(shape, sights)) == [(0, 1)]
    assert members(seen_by(shape, [range(11), range(9, 20)])) == [(0,), (1,)]


@every_kind
def test_the_union_of_flat_clouds_is_flat(kind):
    """Two flat clouds form a flat group, and three landmarks still connect it to a body."""
    shape = template(3)
    shape[8:24, 2] = 0.4 * shape[8:24, 0]
    flat, flatter, body = range(8, 18), range(12, 24), [*range(8), 9, 10, 20]
    assert members(seen_by(shape, [flat, body], kind=kind, offset=3.0)) == [(0,), (1,)]
    for order in itertools.permutations((flat, flatter, body)):
        assert members(seen_by(shape, order, kind=kind, offset=3.0)) == [(0, 1, 2)]


# -- more than two groups --


@every_dimension
def test_clouds_connected_through_others_are_one_group(d):
    sights = [range(8 * t, 8 * t + 8 + d + 1) for t in range(4)]
    for order in itertools.permutations(range(4)):
        assert members(seen_by(template(d, m=44), [sights[t] for t in order])) == [(0, 1, 2, 3)]


@every_dimension
def test_a_cloud_connected_only_to_the_union_of_two_others_is_accepted_in_any_order(d):
    """It shares too few landmarks with either, but the two are connected, and it shares enough with both."""
    first, second = [*range(0, 10)], [*range(4, 16)]
    third = [0, 1, 14, 15, *range(20, 28)][4 - d - 1 :]
    shape = template(d)
    for pair in ((first, third), (second, third)):
        assert members(seen_by(shape, pair)) == [(0,), (1,)]
    for order in itertools.permutations((first, second, third)):
        assert members(seen_by(shape, order)) == [(0, 1, 2)]


@every_dimension
def test_a_cloud_connected_only_through_a_third_is_accepted_in_any_order(d):
    """c connects a and b, which share nothing; the three connect e, which shares at most d landmarks with a pair."""
    sights = [range(0, 8), range(12, 20), [*range(4, 16)], [0, 1, 18, 19, *range(30, 36)]]
    for order in itertools.permutations(sights):
        assert members(seen_by(template(d), order)) == [(0, 1, 2, 3)]


def ring(d, last):
    """Three clouds, each two of which share d landmarks, but the last two share ``last``."""
    own = [range(20, 26), range(26, 32), range(32, 38)]
    shared = [range(0, d), range(d, 2 * d), range(2 * d, 2 * d + last)]
    return [[*shared[0], *shared[1], *own[0]], [*shared[0], *shared[2], *own[1]], [*shared[1], *shared[2], *own[2]]]


@every_dimension
@pytest.mark.parametrize("bend", [0.0, 0.1], ids=["rigid", "bent"])
def test_a_ring_of_clouds_no_two_of_which_are_connected_is_accepted(d, bend):
    """Each pair leaves one affine direction per coordinate undetermined, and all three together determine it."""
    for order in itertools.permutations(ring(d, d)):
        require_connected(seen_by(template(d), order, bend))
    for pair in itertools.combinations(ring(d, d), 2):
        with pytest.raises(WeaklyConnected):
            require_connected(seen_by(template(d), pair, bend))


@every_dimension
@pytest.mark.parametrize("bend", [0.0, 0.1], ids=["rigid", "bent"])
def test_a_ring_that_does_not_close_is_refused(d, bend):
    for order in itertools.permutations(ring(d, 1)):
        with pytest.raises(WeaklyConnected, match="3 groups"):
            require_connected(seen_by(template(d), order, bend))


@every_dimension
def test_groups_are_sorted_by_size_and_their_clouds_by_index(d):
    a, b, c = range(0, 10), range(10, 20), range(20, 30)
    observations = seen_by(template(d), [c, b, a, b, a, b])
    assert members(observations) == [(1, 3, 5), (2, 4), (0,)]
    with pytest.raises(WeaklyConnected, match="3 groups") as caught:
        require_connected(observations)
    assert caught.value.groups == [["c1", "c3", "c5"], ["c2", "c4"], ["c0"]]


def test_long_groups_are_abbreviated_in_the_message_only():
    a, b = halves(2)
    with pytest.raises(WeaklyConnected, match=r"'c5' and 4 more") as caught:
        require_connected(seen_by(template(3), [a] * 10 + [b] * 2))
    assert caught.value.groups[0] == [f"c{t}" for t in range(10)]


def test_the_error_survives_pickling():
    with pytest.raises(WeaklyConnected) as caught:
        require_connected(seen_by(template(3), halves(2)))
    again = pickle.loads(pickle.dumps(caught.value))
    assert again.groups == caught.value.groups
    assert str(again) == str(caught.value)


@every_dimension
@given(data=st.data())
def test_groups_do_not_depend_on_the_order_of_the_clouds(d, data):
    sights = data.draw(st.lists(st.sets(st.integers(0, 15), min_size=d + 2), min_size=2, max_size=5))
    order = data.draw(st.permutations(range(len(sights))))
    shape = template(d, m=16)
    groups = {frozenset(group) for group in members(seen_by(shape, [sorted(s) for s in sights]))}
    shuffled = members(seen_by(shape, [sorted(sights[t]) for t in order], seed=1))
    assert {frozenset(order[i] for i in group) for group in shuffled} == groups


def is_connected(observations):
    try:
        require_connected(observations)
    except WeaklyConnected:
        return False
    return True


@every_dimension
@given(data=st.data())
def test_clouds_are_connected_if_and_only_if_no_other_than_affine_maps_have_cost_0(d, data):
    """The definition of connectivity: the affine cost of exact copies vanishes on d + 1 directions only."""
    sight = st.sets(st.integers(0, 15), min_size=d + 2, max_size=8)
    sights = data.draw(st.lists(sight, min_size=2, max_size=6))
    observations = seen_by(template(d, m=16), [sorted(s) for s in sights])
    seen = np.flatnonzero(observations.counts)
    Q = np.zeros((16, 16))
    for cloud in observations.clouds:
        X = np.column_stack([cloud.points - cloud.points.mean(axis=0), np.ones(len(cloud.seen))])
        Q[np.ix_(cloud.seen, cloud.seen)] += np.eye(len(X)) - X @ np.linalg.pinv(X)
    null = int(np.sum(np.linalg.eigvalsh(Q[np.ix_(seen, seen)]) < 1e-9))
    assert null >= d + 1
    assert is_connected(observations) == (null == d + 1)


# -- frames --


SHAPES = {
    "body": (3, np.eye(3)),
    "flat": (2, np.diag([1.0, 1.0, 0.0])),
    "line": (1, np.diag([1.0, 0.0, 0.0])),
    "area": (2, np.eye(2)),
    "line in the plane": (1, np.diag([1.0, 0.0])),
}


@pytest.mark.parametrize("name", SHAPES)
@given(
    seed=st.integers(0, 10_000),
    s=st.integers(5, 40),
    size=st.sampled_from([1e-150, 1e-9, 1.0, 1e150]),
    offset=st.sampled_from([0.0, 1.0, 1e6]),
    kind=st.sampled_from([np.float64, np.float32]),
)
def test_the_rank_of_a_cloud_does_not_depend_on_its_offset_size_and_type(name, seed, s, size, offset, kind):
    rank, squeeze = SHAPES[name]
    d, rng = len(squeeze), np.random.default_rng(seed)
    points = rng.uniform(-1, 1, (s, d)) @ squeeze @ random_rotation(d, rng).T
    if kind is np.float32:
        size, offset = 1.0, min(offset, 1.0)  # at 1e6, float32 does not resolve a body of size 1
    points = (size * (points + offset * rng.standard_normal(d))).astype(kind)
    resolution = np.finfo(kind).eps * np.abs(points).max()
    assert frame_of(points.astype(np.float64), float(resolution)).rank == rank


def test_rounding_counts_as_thickness_only_if_the_resolution_is_unknown():
    rng = np.random.default_rng(0)
    flat = rng.standard_normal((30, 3)) @ SHAPES["flat"][1] @ random_rotation(3, rng).T + 10
    single = flat.astype(np.float32).astype(np.float64)
    assert frame_of(single).rank == 3
    assert frame_of(single, float(np.finfo(np.float32).eps) * np.abs(single).max()).rank == 2


@pytest.mark.parametrize("thickness", [1e-2, 1e-5, 1e-7])
def test_thin_is_not_flat(thickness):
    points = template(3)
    points[:, 2] *= thickness
    assert frame_of(points, EPS * np.abs(points).max()).rank == 3


@pytest.mark.parametrize("thickness", [1e-9, 1e-12, 0.0])
def test_a_billionth_of_the_length_counts_as_flat(thickness):
    points = template(3)
    points[:, 2] *= thickness
    assert frame_of(points).rank == 2


def test_coinciding_points_have_rank_0():
    frame = frame_of(np.full((7, 3), 0.1), EPS * 0.1)
    assert frame.rank == 0
    assert np.isfinite(frame.to_unit(np.full((1, 3), 0.1))).all()


@pytest.mark.parametrize(("s", "rank"), [(1, 0), (2, 1), (3, 2), (4, 3)])
def test_few_points_span_one_dimension_fewer_than_they_are(s, rank):
    points = template(3)[:s]
    frame = frame_of(points, EPS * np.abs(points).max())
    assert frame.rank == rank
    assert frame.axes.shape == (3, 3)


@pytest.mark.parametrize("name", SHAPES)
@given(seed=st.integers(0, 10_000), size=st.sampled_from([1e-150, 1.0, 1e150]), offset=st.sampled_from([0.0, 1e3]))
def test_a_frame_centres_and_scales_and_its_axes_are_the_principal_ones(name, seed, size, offset):
    squeeze = SHAPES[name][1]
    d, rng = len(squeeze), np.random.default_rng(seed)
    turn = random_rotation(d, rng)
    points = size * (rng.standard_normal((20, d)) * np.array([4.0, 2.0, 1.0])[:d] @ squeeze @ turn.T + offset)
    frame = frame_of(points)
    unit = frame.to_unit(points)
    lost = 100 * EPS * (1 + offset)
    assert_allclose(unit.mean(axis=0), 0, rtol=0, atol=lost)
    assert norm(unit) ** 2 / len(points) == pytest.approx(1, abs=lost)
    assert_allclose(frame.axes @ frame.axes.T, np.eye(d), rtol=0, atol=100 * EPS)
    spread = norm(unit @ frame.axes.T, axis=0)
    assert np.diff(spread).max() <= lost
    moments = frame.axes @ unit.T @ unit @ frame.axes.T
    assert_allclose(moments, np.diag(np.diag(moments)), rtol=0, atol=len(points) * lost)


@given(seed=st.integers(0, 10_000), sign=st.sampled_from([-1.0, 1.0]))
def test_the_frame_of_a_mirror_image_is_the_mirror_image_of_the_frame(seed, sign):
    rng = np.random.default_rng(seed)
    points = rng.standard_normal((20, 3)) * np.array([4.0, 2.0, 1.0]) @ random_rotation(3, rng).T
    mirror = np.diag([1.0, 1.0, sign])
    here, there = frame_of(points), frame_of(points @ mirror)
    assert there.rank == here.rank == 3
    assert there.size == pytest.approx(here.size, rel=10 * EPS)
    assert_allclose(there.centre, here.centre @ mirror, rtol=0, atol=100 * EPS)
    gaps = np.diff(norm((points - here.centre) @ here.axes.T, axis=0)[::-1] ** 2).min()
    overlap = np.abs(there.axes @ mirror @ here.axes.T)
    assert_allclose(overlap, np.eye(3), rtol=0, atol=100 * EPS * norm(points) ** 2 / gaps)


@pytest.mark.parametrize("d", [2, 3])
@given(data=st.data())
def test_clouds_that_are_surely_connected_are_connected_whatever_came_and_went(d, data):
    shape = template(d, m=14)
    sights = [data.draw(st.lists(st.integers(0, 13), min_size=d + 2, unique=True)) for _ in range(8)]
    everything = seen_by(shape, [sorted(one) for one in sights]).clouds
    connections = SureConnections()
    present: dict[int, object] = {}
    for t, cloud in enumerate(everything):
        present[t] = cloud
        if data.draw(st.booleans()) and len(present) > 2:
            del present[data.draw(st.sampled_from(sorted(present)))]
        if len(present) > 1 and connections.hold_for(present):
            together = Observations(tuple(present.values()), tuple(range(14)), d)
            assert len(connected_groups(together)) == 1

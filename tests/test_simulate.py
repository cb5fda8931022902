"""Simulated scenes are repeatable, have the requested sizes, and state the truth."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fixed_settings import fixed_kernel
from kernelgpa import InvalidSetting, metrics, simulate
from small_scenes import EPS, SMALL

MESHES = {
    "liver": simulate.liver_mesh,
    "head": simulate.head_mesh,
    "lungs": simulate.lungs_mesh,
    "small head": lambda: simulate.head_mesh(500),
}


@pytest.fixture(params=SMALL)
def small(request):
    return SMALL[request.param]


def edge_counts(corners):
    """How often each directed edge occurs."""
    return Counter(map(tuple, np.concatenate([corners[:, [0, 1]], corners[:, [1, 2]], corners[:, [2, 0]]]).tolist()))


# -- every scene --


def test_the_same_seed_makes_the_same_scene(small):
    for one, other in zip(vars(small(seed=3)).values(), vars(small(seed=3)).values(), strict=True):
        assert_array_equal(one, other)


def test_another_seed_makes_another_scene(small):
    one, other = small(seed=3), small(seed=4)
    seen = np.isfinite(one.points) & np.isfinite(other.points)
    assert np.abs(one.points - other.points)[seen].min() > 0


def test_landmarks_are_vertices(small):
    scene = small(noise=0.0)
    assert len(np.unique(scene.landmarks)) == len(scene.landmarks)
    assert_array_equal(scene.template, scene.vertices[scene.landmarks])
    seen = np.isfinite(scene.points)
    assert_array_equal(scene.points[seen], scene.surfaces[:, scene.landmarks][seen])


def test_noise_has_the_requested_size(small):
    scene = small(noise=0.5)
    error = scene.points - scene.surfaces[:, scene.landmarks]
    error = error[np.isfinite(error)]
    assert abs(np.std(error) - 0.5) < 5 * 0.5 / np.sqrt(2 * len(error))  # five standard errors


@pytest.mark.parametrize("name", ["liver", "face", "sheet"])
def test_the_hidden_share_is_the_requested_share(name):
    unseen = np.isnan(SMALL[name](hidden=0.3).points).any(axis=2)
    assert abs(unseen.mean() - 0.3) < 5 * np.sqrt(0.3 * 0.7 / unseen.size)


def test_poses_are_rotations(small):
    rotations = small().rotations
    assert_allclose(rotations @ rotations.transpose(0, 2, 1) - np.eye(3), 0, atol=50 * EPS)
    assert_allclose(np.linalg.det(rotations), 1)


@pytest.mark.parametrize("name", MESHES)
def test_surfaces_are_closed_and_oriented_outwards(name):
    vertices, corners = MESHES[name]()
    edges = edge_counts(corners)
    assert set(edges.values()) == {1}
    assert all((b, a) in edges for a, b in edges)
    assert_array_equal(np.unique(corners), np.arange(len(vertices)))
    parts = 2 if name == "lungs" else 1
    for half in range(parts):  # each closed part has a positive volume
        a, b, c = vertices[corners[half * len(corners) // parts : (half + 1) * len(corners) // parts]].swapaxes(0, 1)
        assert np.sum(a * np.cross(b, c)) / 6 > 0
    assert len(vertices) - len(edges) // 2 + len(corners) == 2 * parts  # Euler: spheres


@pytest.mark.parametrize(
    ("make", "settings", "expected"),
    [
        ("liver", {"noise": -1.0}, "noise is -1.0; expected 0 or more mm"),
        ("liver", {"bend": np.inf}, "bend is inf"),
        ("liver", {"seed": -1}, "seed is -1"),
        ("liver", {"clouds": 1}, "at least 2 clouds"),
        ("liver", {"deformation": "melt"}, "expected one of smooth, arap"),
        ("liver", {"mesh": 3}, "not a pair"),
        ("liver", {"stretch": 0.5}, "stretch is 0.5; expected from 0 to 0.2"),
        ("liver", {"bump_width": 0.0}, "bump_width is 0.0; expected a share of the body's length, from 0.05 to 1"),
        ("liver", {"handle_radius": -1.0}, "handle_radius is -1.0"),
        ("face", {"strength": [1.0, 2.0]}, "strength has 2 values; expected one, or one for each of 5 clouds"),
        ("face", {"bend": [1, 1, 1, 1, -1]}, "bend is -1"),
        ("face", {"stretch": 0.3}, "stretch is 0.3"),
        ("ct", {"bump_width": 2.0}, "bump_width is 2.0"),
        ("ct", {"wrong": 0.1, "wrong_within": -1.0}, "within is -1.0"),
        ("face", {"expressions": ["smile", "frown"]}, "expression 'frown' is unknown"),
        ("face", {"expressions": ["smile"]}, "at least 2 clouds"),
        ("face", {"landmarks": 5000}, "5000 landmarks on .* of the face side"),
        ("face", {"vertices": 20}, "vertices is 20"),
        ("face", {"hidden": 1.0}, "0 <= hidden < 1"),
        ("face", {"noise": np.nan}, "noise is nan"),
        ("ct", {"clouds": 2.5}, "clouds is 2.5; expected a whole number"),
        ("ct", {"clouds": 3}, "4 clouds of 3"),
        ("ct", {"seen_in": {2: -1, 3: 20}}, "landmarks seen in 2 clouds is -1"),
        ("ct", {"seen_in": {0: 20}}, "expected a whole number, 1 or more"),
        ("ct", {"seen_in": {}}, "0 landmarks"),
        ("ct", {"seen_in": 3}, "seen_in is 3"),
        ("ct", {"seen_in": {4: 500}}, "500 landmarks on 40[0-9] vertices inside"),
        ("ct", {"wrong": 1.5}, "0 <= wrong < 1"),
        ("ct", {"differ": 3.0}, "from 0 to 2"),
        ("ct", {"bend": -2.0}, "bend is -2.0"),
        ("sheet", {"radius": 60.0}, "use a larger radius"),
        ("sheet", {"radius": 0.0}, "more than 0 mm"),
        ("sheet", {"tilt": -5.0}, "0 or more degrees"),
        ("sheet", {"spacing": 0.0}, "spacing is 0.0"),
        ("sheet", {"landmarks": 3}, "from 4 landmarks"),
        ("sheet", {"seed": 0.5}, "seed is 0.5"),
    ],
)
def test_invalid_settings_are_refused(make, settings, expected):
    with pytest.raises(InvalidSetting, match=expected):
        SMALL[make](**settings)


# -- registration --


@pytest.mark.parametrize(("name", "error"), [("face", 3.0), ("ct", 8.0), ("sheet", 8.0)])
def test_scenes_can_be_registered(name, error):
    scene = SMALL[name](noise=0.0)
    model = fixed_kernel().fit(scene.points)
    assert metrics.map_error(model.map_, scene.template) < error

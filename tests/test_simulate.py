"""Simulated scenes are repeatable, have the requested sizes, and state the truth."""

from __future__ import annotations

import doctest
import sys
from collections import Counter

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.transform import Rotation

from kernelgpa import InvalidSetting, KernelGPA, io, metrics, simulate
from kernelgpa.simulate.ct import SEEN_IN
from kernelgpa.simulate.displacements import random_stretch, smooth_field
from kernelgpa.simulate.face import EXPRESSIONS, MOUTH, face_side
from kernelgpa.simulate.liver import _bend_as_rigidly_as_possible, _handles
from kernelgpa.simulate.sheet import roll
from shared_data import SHARED

EPS = np.finfo(float).eps
FEW = {2: 20, 3: 30, 4: 10}
SMALL = {
    "liver": lambda **more: simulate.liver(**{"clouds": 5, "landmarks": 40, "vertices": 302, "noise": 0.5, **more}),
    "face": lambda **more: simulate.face(**{"landmarks": 60, "vertices": 1002, "noise": 0.5, **more}),
    "ct": lambda **more: simulate.ct(**{"clouds": 4, "seen_in": FEW, "vertices": 602, "noise": 0.5, **more}),
    "sheet": lambda **more: simulate.sheet(**{"clouds": 4, "landmarks": 40, "spacing": 10.0, "noise": 0.5, **more}),
}
MESHES = {
    "liver": simulate.liver_mesh,
    "head": simulate.head_mesh,
    "lungs": simulate.lungs_mesh,
    "small head": lambda: simulate.head_mesh(500),
}


@pytest.fixture(params=SMALL)
def small(request):
    return SMALL[request.param]


@pytest.fixture(scope="module")
def faces():
    return simulate.face()


@pytest.fixture(scope="module")
def scans():
    return simulate.ct()


@pytest.fixture(scope="module")
def views():
    return simulate.sheet()


def in_world_frame(scene):
    """All vertices of all clouds, transformed to the world by the true poses."""
    return np.einsum("nvi,nji->nvj", scene.surfaces, scene.rotations) + scene.translations[:, None]


def edge_counts(corners):
    """How often each directed edge occurs."""
    return Counter(map(tuple, np.concatenate([corners[:, [0, 1]], corners[:, [1, 2]], corners[:, [2, 0]]]).tolist()))


def windings(points, vertices, corners):
    """How often a surface winds around each point: 1 inside, 0 outside (solid angles over 4 pi)."""
    total = np.zeros(len(points))
    for triangle in vertices[corners]:
        a, b, c = (corner - points for corner in triangle)
        la, lb, lc = (np.linalg.norm(v, axis=1) for v in (a, b, c))
        below = la * lb * lc + np.sum(a * b, 1) * lc + np.sum(b * c, 1) * la + np.sum(c * a, 1) * lb
        total += 2 * np.arctan2(np.sum(a * np.cross(b, c), 1), below)
    return total / (4 * np.pi)


# -- every scene --


@pytest.mark.parametrize("name", ["liver", "face", "ct", "sheet", "mismatches"])
def test_the_examples_in_docstrings_run(name):
    failed, tried = doctest.testmod(sys.modules[f"kernelgpa.simulate.{name}"])
    assert tried
    assert not failed


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


# -- liver --


def test_the_poses_take_an_undeformed_liver_back_to_its_template():
    scene = SMALL["liver"](bend=0.0)
    assert_allclose(in_world_frame(scene) - scene.vertices, 0, atol=1e4 * EPS)


def test_a_stretch_alone_is_undone_by_affine_maps():
    scene = SMALL["liver"](bend=0.0, stretch=0.05, noise=0.0)
    homogeneous = np.column_stack([scene.vertices, np.ones(len(scene.vertices))])
    for body in scene.surfaces:
        left = body - homogeneous @ np.linalg.lstsq(homogeneous, body, rcond=None)[0]
        assert np.abs(left).max() < 1e4 * EPS * np.abs(body).max()
    assert metrics.consistency(in_world_frame(scene)).max() > 1  # mm: the bodies do differ


def test_the_stretch_is_symmetric_and_has_the_requested_size():
    matrices = np.stack([random_stretch(0.1, np.random.default_rng(seed)) for seed in range(500)])
    assert_array_equal(matrices, matrices.transpose(0, 2, 1))
    deviations = matrices - np.eye(3)
    # the standard error of a standard deviation from 500 draws is 1 / sqrt(1000) of it; four of these
    assert_allclose(deviations.std(axis=0), 0.1, rtol=4 / np.sqrt(1000))


@pytest.mark.parametrize("radius", [0.0, 15.0])
def test_handles_are_separate_and_move_as_one(radius):
    igl = pytest.importorskip("igl")
    assert igl
    vertices, corners = simulate.liver_mesh(1002)
    regions = _handles(vertices, radius, np.random.default_rng(3))
    assert len(regions) == 6
    assert len(np.unique(np.concatenate(regions))) == sum(map(len, regions))
    bent = _bend_as_rigidly_as_possible(vertices, corners, 8.0, np.random.default_rng(3), radius) - vertices
    for region in regions:
        assert_allclose(np.linalg.norm(bent[region], axis=1), 8.0, rtol=1e-9)
        assert_allclose(bent[region], np.broadcast_to(bent[region[0]], (len(region), 3)), atol=1e-9)


def test_pulled_regions_make_no_spikes():
    """Around a single pulled vertex the surface stretches by more than around a pulled region."""
    pytest.importorskip("igl")
    vertices, corners = simulate.liver_mesh(1002)
    edges = np.concatenate([corners[:, [0, 1]], corners[:, [1, 2]], corners[:, [2, 0]]])

    def largest_stretch(radius):
        bent = _bend_as_rigidly_as_possible(vertices, corners, 8.0, np.random.default_rng(0), radius)
        lengths = [np.linalg.norm(body[edges[:, 0]] - body[edges[:, 1]], axis=1) for body in (vertices, bent)]
        return np.max(lengths[1] / lengths[0])

    assert largest_stretch(15.0) < largest_stretch(0.0)


def test_regions_without_room_are_refused():
    pytest.importorskip("igl")
    with pytest.raises(InvalidSetting, match="handle_radius is 60 mm, which leaves no room for 6 separate regions"):
        simulate.liver(clouds=2, deformation="arap", handle_radius=60.0)


@pytest.fixture
def organ():
    """A closed mesh of 300 mm far from the origin."""
    vertices, corners = simulate.liver_mesh(202)
    return vertices * (1.5, 1, 1) + 1000.0, corners


@pytest.mark.parametrize("deformation", ["smooth", "arap"])
def test_another_mesh_can_be_used(organ, deformation):
    pytest.importorskip("igl")
    vertices, corners = organ
    scene = simulate.liver(clouds=4, landmarks=50, bend=6.0, mesh=(vertices.tolist(), corners), deformation=deformation)
    assert_array_equal(scene.vertices, vertices)
    assert_array_equal(scene.faces, corners)
    moved = np.linalg.norm(in_world_frame(scene) - vertices, axis=2)
    assert 0.5 < np.sqrt(np.mean(moved**2)) < 12
    # the sensor looks at the organ from a distance of one and a half times its length
    assert_allclose(scene.surfaces.mean(axis=1)[:, 2], 1.5 * np.ptp(vertices[:, 0]), rtol=0.1)


def test_the_real_liver_can_be_used():
    path = SHARED / "data" / "liver.obj"
    if not path.exists():
        pytest.skip("liver.obj is not beside this checkout; a stretched procedural liver is tested everywhere")
    contents = io.read(path)
    points = contents.clouds[0].points
    points = points * 200 / np.ptp(points, axis=0).max()
    scene = simulate.liver(clouds=3, mesh=(points, contents.faces))
    assert scene.surfaces.shape == (3, len(points), 3)


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (lambda v, f: (v, f[1:]), "3 of .* edges do not lie in two faces"),
        (lambda v, f: (v[:, :2], f), r"expected finite coordinates in mm of shape \(v, 3\)"),
        (lambda v, f: (np.where(v > 1100, np.nan, v), f), "finite"),
        (lambda v, f: (v, f + 1), "expected 0 to 201"),
        (lambda v, f: (v, f.astype(float)), "type float64"),
        (lambda v, f: (v, f[:, :2]), r"shape \(f, 3\)"),
        (lambda v, f: (np.vstack([v, v[:2]]), f), "2 of 204 vertices lie in no face"),
        (lambda v, f: (v, None), "expected indices"),
    ],
)
def test_invalid_meshes_are_refused(organ, damage, expected):
    with pytest.raises(InvalidSetting, match=expected):
        simulate.liver(mesh=damage(*organ))


def test_more_landmarks_than_the_mesh_has_vertices_are_refused(organ):
    with pytest.raises(InvalidSetting, match="203 landmarks on 202 vertices"):
        simulate.liver(landmarks=203, mesh=organ)


# -- face --


def test_a_face_has_the_counts_and_dimensions_of_a_head(faces):
    assert faces.points.shape == (5, 326, 3)
    assert faces.surfaces.shape == (5, 5118, 3)
    assert faces.expressions == ("smile", "lip left", "lip right", "cheeks blown", "mouth open")
    width, height, depth = np.ptp(faces.vertices, axis=0)
    assert 235 < height < 245
    assert 140 < width < 170
    assert 180 < depth < 230
    assert np.argmax(faces.vertices[:, 2]) == faces.landmarks[0]  # the tip of the nose
    assert abs(faces.template[0, 0]) < 3


def test_landmarks_of_a_face_lie_on_its_front(faces):
    assert face_side(faces.template).all()
    assert faces.template[:, 2].min() > 0
    nearest = np.sort(np.linalg.norm(faces.template[:, None] - faces.template, axis=2), axis=1)[:, 1]
    assert nearest.min() > 5  # evenly spread: 326 landmarks on 5 dm^2


def test_the_poses_take_a_face_back_to_the_head_with_its_expression(faces):
    for body, name in zip(in_world_frame(faces), faces.expressions, strict=True):
        moved, full = body - faces.vertices, EXPRESSIONS[name](faces.vertices)
        strength = np.sum(moved * full) / np.sum(full**2)
        assert 0.9 <= strength <= 1.1
        assert_allclose(moved, strength * full, atol=1e4 * EPS)


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_expressions_are_local(faces, name):
    moved = np.linalg.norm(EXPRESSIONS[name](faces.vertices), axis=1)
    away = np.linalg.norm(faces.vertices - MOUTH, axis=1)
    assert 10 < moved.max() < 15 / 1.1  # the largest displacement is at most 15 mm
    assert moved[away > 100].max() == 0  # the skull, the ears
    assert moved[faces.vertices[:, 1] > -5].max() == 0  # the eyes, the brow
    assert np.mean(moved > 0) < 0.3
    assert moved[away < 25].max() > 3


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_expressions_do_not_fold_the_skin(faces, name):
    """The determinant of the displaced coordinates' Jacobian is positive at each vertex, by finite differences."""
    step = 1e-4
    slopes = [
        (EXPRESSIONS[name](faces.vertices + step * axis) - EXPRESSIONS[name](faces.vertices - step * axis)) / (2 * step)
        for axis in np.eye(3)
    ]
    assert np.linalg.det(np.eye(3) + 1.1 * np.stack(slopes, axis=1)).min() > 0


def test_the_left_and_the_right_lip_are_mirror_images(faces):
    mirror = np.array([-1, 1, 1])
    assert_allclose(
        EXPRESSIONS["lip right"](faces.vertices * mirror), EXPRESSIONS["lip left"](faces.vertices) * mirror, atol=1e-12
    )


def test_strength_bend_and_stretch_belong_to_one_cloud_each():
    plain = SMALL["face"](noise=0.0)
    rest = SMALL["face"](noise=0.0, strength=0.0)
    changed = SMALL["face"](noise=0.0, strength=[2, 1, 1, 1, 1], bend=[0, 3, 0, 0, 0], stretch=[0, 0, 0.05, 0, 0])
    before, after, template = in_world_frame(plain), in_world_frame(changed), in_world_frame(rest)
    moved = np.abs(after - before).max(axis=(1, 2))
    rounding = 1e3 * EPS * np.abs(before).max()
    assert (moved[:3] > 0.1).all()
    assert (moved[3:] <= rounding).all()
    assert_allclose(after[0] - template[0], 2 * (before[0] - template[0]), atol=1e-9)
    assert np.sqrt(np.mean(np.sum((after[1] - before[1]) ** 2, axis=1))) == pytest.approx(3.0)
    assert_allclose(template, np.broadcast_to(plain.vertices, template.shape), atol=rounding)


def test_expressions_can_be_chosen_and_repeated():
    scene = SMALL["face"](expressions=["smile", "smile", "mouth open"], noise=0.0)
    assert scene.expressions == ("smile", "smile", "mouth open")
    assert len(scene.points) == 3


# -- ct --


def test_lungs_have_the_counts_and_dimensions_of_lungs(scans):
    assert scans.points.shape == (6, 1320, 3)
    width, height, depth = np.ptp(scans.vertices, axis=0)
    assert 290 < width < 310
    assert 240 < height < 300
    assert 150 < depth < 190
    assert np.abs(scans.vertices[:, 0]).min() > 15  # the heart and the spine lie between the lungs


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("wrong", [0.0, 0.1])
def test_landmarks_have_the_requested_numbers_of_views(seed, wrong):
    scene = simulate.ct(seed=seed, wrong=wrong)
    seen = np.isfinite(scene.points).all(axis=2)
    assert_array_equal(seen.sum(axis=0), scene.seen_in)
    assert dict(zip(*np.unique(scene.seen_in, return_counts=True), strict=True)) == dict(SEEN_IN)
    assert seen.sum(axis=1).min() > 800


def test_points_of_the_lungs_lie_inside(scans):
    surface = scans.faces.max() + 1
    inside = scans.vertices[surface:][::10]
    assert_allclose(windings(inside, scans.vertices, scans.faces), 1, atol=1e-6)
    assert scans.landmarks.min() >= surface


def test_people_without_differences_have_the_lungs_of_the_template():
    scene = SMALL["ct"](differ=0.0, bend=0.0)
    assert_allclose(in_world_frame(scene) - scene.vertices, 0, atol=1e4 * EPS)


def test_people_differ_by_sizes_shear_and_breath():
    """Without bumps, bodies are affine in (x, y, z, e^2), where e is the share of the height below the apex."""
    scene = SMALL["ct"](bend=0.0)
    height = scene.vertices[:, 1]
    below = (height.max() - height) / np.ptp(height)
    basis = np.column_stack([scene.vertices, below**2, np.ones(len(height))])
    for body in in_world_frame(scene):
        slopes, *_ = np.linalg.lstsq(basis, body, rcond=None)
        assert_allclose(basis @ slopes, body, atol=1e-9)
        assert_allclose(slopes[[0, 0, 2, 2], [1, 2, 0, 1]], 0, atol=1e-9)  # no other shear
        assert 0.8 < slopes[0, 0] < 1.2
    breaths = [np.linalg.lstsq(basis, body, rcond=None)[0][3, 1] for body in in_world_frame(scene)]
    assert np.ptp(breaths) > 3


def test_the_smooth_field_has_the_requested_size():
    vertices = simulate.lungs_mesh(400)[0]
    moved = smooth_field(vertices, 5.0, np.random.default_rng(0))
    assert np.sqrt(np.mean(np.sum(moved**2, axis=1))) == pytest.approx(5.0)


def test_mismatches_are_marked(scans):
    scene = simulate.ct(wrong=0.2)
    seen = np.isfinite(scene.points).all(axis=2)
    differs = seen & (scene.points != scans.points).any(axis=2)
    assert_array_equal(differs, scene.wrong)
    assert scene.wrong.sum() / seen.sum() == pytest.approx(0.2, abs=0.001)
    assert not scans.wrong.any()


def test_near_mismatches_lie_within_the_distance(scans):
    points, wrong = simulate.exchanged(scans.points, 0.2, seed=1, within=40.0)
    moved = np.linalg.norm(points - scans.points, axis=2)
    assert 0 < moved[wrong].max() <= 40.0
    assert np.nanmax(np.where(wrong, np.nan, moved)) == 0
    seen = np.isfinite(scans.points).all(axis=2)
    assert wrong.sum() / seen.sum() == pytest.approx(0.2, abs=0.005)
    assert_array_equal(np.sort(points[:, :, 0], axis=1), np.sort(scans.points[:, :, 0], axis=1))  # exchanged, not lost


def test_observations_without_a_neighbour_are_not_exchanged(scans):
    points, wrong = simulate.exchanged(scans.points, 0.2, seed=1, within=1e-3)
    assert not wrong.any()
    assert_array_equal(points, scans.points)


# -- sheet --


def test_a_sheet_has_the_requested_counts_and_dimensions(views):
    assert views.points.shape == (8, 155, 2)
    assert views.template.shape == (155, 2)
    assert views.bent.shape == (8, len(views.vertices), 3)
    assert_array_equal(np.ptp(views.vertices, axis=0), [300, 200])
    a, b, c = (views.vertices[views.faces[:, i]] for i in range(3))
    areas = ((b - a)[:, 0] * (c - a)[:, 1] - (b - a)[:, 1] * (c - a)[:, 0]) / 2
    assert areas.min() > 0
    assert areas.sum() == pytest.approx(300 * 200)


def test_views_are_projections_of_the_bent_sheet(views):
    for own, bent, rotation, translation in zip(
        views.surfaces, views.bent, views.rotations, views.translations, strict=True
    ):
        assert_allclose(own, ((bent - translation) @ rotation)[:, :2], atol=1e4 * EPS)
        assert np.degrees(np.arccos(rotation[2, 2])) <= 12


def test_bending_changes_no_length_on_the_sheet(views):
    """The chord of an arc of length h and curvature k is shorter by (k h)^2 / 24, here at most (7.1 / 200)^2 / 24."""
    a, b = views.faces[:, :2].T
    flat = np.linalg.norm(views.vertices[a] - views.vertices[b], axis=1)
    bent = np.linalg.norm(views.bent[:, a] - views.bent[:, b], axis=2)
    assert ((bent - flat) / flat).max() < 1e-12
    assert ((flat - bent) / flat).max() <= (7.1 / 200) ** 2 / 24


def test_the_sheet_lies_on_a_cylinder():
    flat = simulate.sheet_mesh(20.0)[0]
    x, y, z = roll(flat, 0.0, 1 / 200).T
    assert_allclose(np.hypot(x, z - 200), 200)
    assert_array_equal(y, flat[:, 1])


def test_axis_and_curvature_change_over_the_views(views):
    depth = np.ptp(views.bent[:, :, 2], axis=1)
    assert depth.min() > 3
    assert depth.max() > 25
    x, y = views.vertices.T
    quadric = np.column_stack([x * x, 2 * x * y, y * y, x, y, np.ones_like(x)])
    angles = []
    for bent in views.bent:
        xx, xy, yy = np.linalg.lstsq(quadric, bent[:, 2], rcond=None)[0][:3]
        angles.append(
            np.arctan2(2 * xy, xx - yy) / 2 + (np.pi / 2 if xx + yy < 0 else 0)
        )  # the direction of the curvature
    turns = np.diff(np.unwrap(angles, period=np.pi))
    assert_allclose(turns, np.pi / 8, atol=0.05)


def test_a_flat_sheet_seen_from_the_front_is_only_rotated_and_shifted():
    scene = simulate.sheet(radius=np.inf, tilt=0.0, spacing=20.0, landmarks=40)
    for own, rotation, translation in zip(scene.surfaces, scene.rotations, scene.translations, strict=True):
        assert_allclose(own @ rotation[:2, :2].T + translation[:2], scene.vertices, atol=1e4 * EPS)


def test_no_part_of_the_sheet_is_seen_from_behind():
    for seed in range(5):
        scene = simulate.sheet(radius=170.0, seed=seed)
        a, b, c = (scene.surfaces[:, scene.faces[:, i]] for i in range(3))
        areas = (b - a)[..., 0] * (c - a)[..., 1] - (b - a)[..., 1] * (c - a)[..., 0]
        assert areas.min() > 0


# -- registration --


@pytest.mark.parametrize(("name", "error"), [("face", 3.0), ("ct", 8.0), ("sheet", 8.0)])
def test_scenes_can_be_registered(name, error):
    scene = SMALL[name](noise=0.0)
    model = KernelGPA().fit(scene.points)
    assert metrics.map_error(model.map_, scene.template) < error


def test_aligning_the_skull_gives_the_poses_of_the_face(faces):
    """The skull is rigid, because expressions do not move it."""
    above = faces.vertices[:, 1] > 0
    for own, rotation in zip(faces.surfaces, faces.rotations, strict=True):
        skull, moved = faces.vertices[above], own[above]
        found, _ = Rotation.align_vectors(skull - skull.mean(axis=0), moved - moved.mean(axis=0))
        assert_allclose(found.as_matrix(), rotation, atol=1e-9)

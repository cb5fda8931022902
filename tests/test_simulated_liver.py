"""The simulated liver: its poses, and other meshes in its place."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from kernelgpa import InvalidSetting, io, simulate
from shared_data import SHARED
from small_scenes import EPS, SMALL, in_world_frame


def test_the_poses_take_an_undeformed_liver_back_to_its_template():
    scene = SMALL["liver"](bend=0.0)
    assert_allclose(in_world_frame(scene) - scene.vertices, 0, atol=1e4 * EPS)


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

"""The simulated face: dimensions of a head, and expressions that are local and do not fold the skin."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.spatial.transform import Rotation

from kernelgpa import simulate
from kernelgpa.simulate.face import EXPRESSIONS, MOUTH, face_side
from small_scenes import EPS, SMALL, in_world_frame


@pytest.fixture(scope="module")
def faces():
    return simulate.face()


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


def test_expressions_can_be_chosen_and_repeated():
    scene = SMALL["face"](expressions=["smile", "smile", "mouth open"], noise=0.0)
    assert scene.expressions == ("smile", "smile", "mouth open")
    assert len(scene.points) == 3


def test_aligning_the_skull_gives_the_poses_of_the_face(faces):
    """The skull is rigid, because expressions do not move it."""
    above = faces.vertices[:, 1] > 0
    for own, rotation in zip(faces.surfaces, faces.rotations, strict=True):
        skull, moved = faces.vertices[above], own[above]
        found, _ = Rotation.align_vectors(skull - skull.mean(axis=0), moved - moved.mean(axis=0))
        assert_allclose(found.as_matrix(), rotation, atol=1e-9)

"""Which clouds are called mirror images: solid bodies only, and never a cloud of a real set that has none."""

from __future__ import annotations

import warnings
from itertools import combinations

import numpy as np
import pytest

from conftest import random_rotation
from kernelgpa import KernelGPAWarning, RigidGPA
from shared_data import load

SETS = {
    "paper": ("data/surfaces/kinect_paper.npz", "points"),
    "cushion": ("data/surfaces/cushion.npz", "points"),
    "apes": ("data/automatic/apes.npz", "manual"),
    "brains": ("data/landmarks/brains.npz", None),
    "faces": ("data/faces.npz", None),
    "freeform": ("data/mocap/freeform.npz", "points"),
    "squat": ("data/mocap/squat.npz", "points"),
}
SOLID = ["apes", "brains", "faces"]


def real(name, clouds=40):
    file, key = SETS[name]
    arrays = load(file)
    points = np.asarray(arrays[key or next(iter(arrays))], dtype=float)
    points = points[:, np.isnan(points[:, :, 0]).mean(axis=0) < 0.3]
    return points[np.unique(np.linspace(0, len(points) - 1, min(len(points), clouds)).astype(int))]


def mirrored(points):
    """The clouds that are called mirror images."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KernelGPAWarning)
        return RigidGPA().fit(points).mirrored_


@pytest.mark.parametrize("name", SETS)
def test_no_cloud_of_a_real_set_is_left_out(name):
    points = real(name)
    assert mirrored(points) == []
    groups = [*combinations(range(len(points)), 2), *combinations(range(len(points)), 3)]
    for group in np.random.default_rng(0).permutation(len(groups))[:60]:
        some = points[list(groups[group])]
        if np.sum(~np.isnan(some[:, :, 0]).any(axis=0)) > 20:  # few frames may share too few markers
            assert mirrored(some) == []


@pytest.mark.parametrize("name", SOLID)
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_a_mirrored_copy_of_a_solid_body_is_found(name, axis):
    points = real(name, 12)
    for t in range(0, len(points), 3):
        flipped = points.copy()
        flipped[t, :, axis] *= -1
        assert mirrored(flipped) == [t]


def test_an_articulated_figure_is_not_called_mirrored():
    rng = np.random.default_rng(0)
    limbs = [rng.standard_normal((8, 3)) * [0.1, 0.1, 0.5] + offset for offset in np.eye(3)[[0, 0, 1, 1, 2]] * 0.5]
    frames = []
    for _ in range(20):
        joined = np.concatenate([limb @ random_rotation(3, rng).T for limb in limbs])
        frames.append(joined @ random_rotation(3, rng).T)
    assert mirrored(np.stack(frames)) == []


def test_two_clouds_are_never_refused_for_their_handedness():
    body = np.random.default_rng(0).standard_normal((30, 3))
    pair = np.stack([body, body * [-1, 1, 1]])
    with pytest.warns(KernelGPAWarning, match="would fit better as a mirror image"):
        gpa = RigidGPA().fit(pair)
    assert gpa.mirrored_ == []
    assert np.isfinite(gpa.rotations_).all()

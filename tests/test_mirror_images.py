"""Which clouds are called mirror images: solid bodies only, and never a cloud of a real set that has none."""

from __future__ import annotations

import warnings
from itertools import combinations

import numpy as np
import pytest
from sklearn.base import clone

from conftest import random_rotation
from fixed_settings import fixed_kernel
from kernelgpa import (
    TPSGPA,
    AffineGPA,
    InvalidObservations,
    InvalidSetting,
    KernelGPAWarning,
    RigidGPA,
    ShapeModel,
    StreamingGPA,
    save,
    simulate,
)
from kernelgpa import (
    load as load_model,
)
from kernelgpa.gauge.rotations import motion_onto
from kernelgpa.streaming.frames.json_lines import FrameLine
from kernelgpa.streaming.frames.pipeline import FramePipeline
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


# -- what happens to them --

MODELS = [RigidGPA(), AffineGPA(), TPSGPA(smoothing=0.01), fixed_kernel()]
ODD = 2  # the mirrored cloud of one_mirrored


def one_mirrored(clouds=5):
    rng = np.random.default_rng(1)
    body = rng.standard_normal((30, 3))
    points = np.stack([body @ random_rotation(3, rng).T + rng.standard_normal(3) for _ in range(clouds)])
    points[ODD, :, 0] *= -1
    return points + 0.01 * rng.standard_normal(points.shape)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_mirror_images_are_left_out_kept_or_refused_as_asked(model, tmp_path):
    points = one_mirrored()
    participating = {}
    for choice, message in (("leave-out", "left out of the map"), ("keep", "kept in the map")):
        model.set_params(mirrored=choice)
        with pytest.warns(KernelGPAWarning, match=f"cloud {ODD} is a mirror image.*{message}"):
            gpa = model.fit(points)
        save(gpa, tmp_path / choice)
        for one in (gpa, load_model(tmp_path / choice)):
            assert one.mirrored_ == [ODD]
            assert one.mirrored == choice
            participating[choice] = one.registration_.problem.participating.tolist()
        assert_proper(gpa.rotations_)
        # the best proper rotation onto the map, whether the cloud takes part in it or not
        expected = motion_onto(points[ODD], gpa.map_)
        np.testing.assert_allclose(gpa.rotations_[ODD], expected[0], rtol=0, atol=1e-6)
    assert participating == {"leave-out": [0, 1, 3, 4], "keep": [0, 1, 2, 3, 4]}
    with pytest.raises(InvalidObservations, match=f"cloud {ODD} is a mirror image"):
        model.set_params(mirrored="error").fit(points)
    with pytest.raises(InvalidSetting, match="mirrored is 'drop'; expected one of leave-out, keep, error"):
        model.set_params(mirrored="drop").fit(points)
    model.set_params(mirrored="leave-out")


@pytest.mark.parametrize("choice", ["leave-out", "keep"])
@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_the_table_of_poses_says_which_clouds_participate(model, choice):
    pytest.importorskip("pandas")
    with pytest.warns(KernelGPAWarning, match="a mirror image"):
        gpa = clone(model).set_params(mirrored=choice).fit(one_mirrored())
    in_map = gpa.poses_frame()["in_map"].to_numpy()
    assert np.flatnonzero(in_map).tolist() == gpa.registration_.problem.participating.tolist()


@pytest.mark.parametrize("choice", ["leave-out", "keep"])
def test_the_noise_of_a_cloud_counts_in_its_residuals_unless_it_participates(choice):
    """A residual from the mean of k other views of equal weight has the noise as k / (k + 1) of its variance."""
    with pytest.warns(KernelGPAWarning, match="a mirror image"):
        gpa = RigidGPA(mirrored=choice).fit(one_mirrored())
    n = len(gpa.registration_.problem.participating)
    expected = np.full(gpa.residuals_.shape, np.sqrt(1 - 1 / n))
    expected[gpa.registration_.problem.left_out] = 1.0
    np.testing.assert_allclose(gpa.scaled_residuals_, gpa.residuals_ * expected, rtol=1e-12)


def assert_proper(rotations):
    np.testing.assert_allclose(
        rotations @ np.swapaxes(rotations, 1, 2), np.tile(np.eye(3), (len(rotations), 1, 1)), atol=1e-10
    )
    assert (np.linalg.det(rotations) > 0).all()


def test_every_frame_of_a_stream_gets_a_pose_and_mirror_images_are_named():
    points = one_mirrored(6)
    pipeline = FramePipeline(StreamingGPA(fixed_kernel()))
    ids = [str(j) for j in range(points.shape[1])]
    order = [0, 1, 3, 4, ODD, 5]
    reports = []
    for t in order:
        pipeline.add(FrameLine(t, float(t), ids, points[t]), line=t)
        reports.append(pipeline.update().as_json())
    odd = reports[order.index(ODD)]
    assert odd["mirrored"]
    assert sum("mirror image" in event for report in reports for event in report["events"]) == 1
    assert [report["frame"] for report in reports if "mirrored" in report] == [ODD]
    assert all(report["pose"] is not None for report in reports[1:])
    stream = pipeline.stream
    assert len(stream.mirrored_) == 1
    assert_proper(stream.rotations_)
    key = stream.mirrored_[0]
    expected = motion_onto(points[ODD], stream.map_[[stream.landmarks_.index(one) for one in ids]])
    np.testing.assert_allclose(stream.pose(key)[0], expected[0], rtol=0, atol=1e-10)


def test_a_stream_keeps_or_refuses_mirror_images_as_asked():
    points = one_mirrored()
    ids = list(range(points.shape[1]))
    for choice in ("keep", "error"):
        stream = StreamingGPA(fixed_kernel(mirrored=choice))
        for t in (0, 1, 3):
            stream.add(points[t], ids)
        stream.update()
        if choice == "error":
            before = stream.keys_
            with pytest.raises(InvalidObservations, match="cloud 3 is a mirror image"):
                stream.add(points[ODD], ids)
            assert stream.keys_ == before
            stream.add(points[4], ids)  # the stream is as it was
            assert stream.update().clouds == 4
        else:
            key = stream.add(points[ODD], ids)
            assert stream.update().clouds == 4
            assert stream.mirrored_ == [key]
            assert_proper(stream.rotations_)


def test_a_cloud_outside_the_map_has_no_pose_only_if_it_shares_too_few_landmarks():
    points = one_mirrored()
    stream = StreamingGPA(fixed_kernel())
    for t in (0, 1, 3):
        stream.add(points[t], range(30))
    stream.update()
    stream.freeze()
    poor = stream.add(points[4][:8], [0, 1, 2, *range(100, 105)])
    enough = stream.add(points[4][:8], [0, 1, 2, 3, *range(100, 104)])
    assert np.isnan(stream.pose(poor)[0]).all()
    assert np.isfinite(stream.pose(enough)[0]).all()


@pytest.mark.parametrize("seed", range(3))
def test_no_frame_of_a_walking_figure_is_called_mirrored(seed):
    """Half a step later, the frames nearly are mirror images of each other."""
    assert mirrored(simulate.walker(seed=seed).points) == []


@pytest.mark.filterwarnings("ignore::kernelgpa.KernelGPAWarning")  # of the mirror image
def test_a_landmark_that_only_a_mirror_image_saw_is_an_error():
    """It has no position in the mean shape, and would make every number of the model NaN."""
    rng = np.random.default_rng(0)
    points = rng.standard_normal((20, 3)) + 0.03 * rng.standard_normal((10, 20, 3))
    points[3, :, 0] *= -1
    points[np.arange(10) != 3, 14] = np.nan
    for given in (points, RigidGPA().fit(points)):
        with pytest.raises(InvalidObservations, match="only mirror images saw 1 of the landmarks: 14"):
            ShapeModel(shrinkage=0.2, bandwidth=0.5, noise=0.01).fit(given)

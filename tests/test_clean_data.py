"""Clean data read as clean, every cloud gets a pose, and what the diagnosis leaves out is said."""

from __future__ import annotations

import warnings
from itertools import combinations

import numpy as np
import pytest

from conftest import run
from fixed_settings import fixed_kernel
from kernelgpa import TPSGPA, AffineGPA, KernelGPA, KernelGPAError, KernelGPAWarning, RigidGPA, StreamingGPA, simulate
from kernelgpa.simulate import exchanged
from kernelgpa.trust.diagnosis import outliers
from shared_data import load
from test_mirror_images import SETS, real

SIMULATED = {
    "sheet": lambda: simulate.bending_sheet(clouds=8, noise=0.3, seed=3).points,
    "specimens": lambda: simulate.specimens(clouds=6, placeholders=0, seed=3).points,
    "face": lambda: simulate.face(landmarks=40, noise=0.3, seed=3).points,
    "liver": lambda: simulate.liver(clouds=6, landmarks=40, vertices=602, noise=0.5, seed=3).points,
    "walker": lambda: simulate.walker(clouds=8, noise=1.0, seed=3).points,
}
EVERY = [*SIMULATED, *SETS]


def points_of(name):
    return SIMULATED[name]() if name in SIMULATED else real(name, 8)


def groups_of(points):
    """All clouds, some pairs and triples, each as it is and with one coordinate of its first cloud negated."""
    rng = np.random.default_rng(0)
    groups = [list(range(len(points)))]
    for size in (2, 3):
        every = list(combinations(range(len(points)), size))
        groups += [list(every[i]) for i in rng.permutation(len(every))[:3]]
    for group in groups:
        some = points[group]
        seen = some[:, ~np.isnan(some[:, :, 0]).any(axis=0)]
        if seen.shape[1] > 2 * points.shape[2]:  # few frames may share too few markers
            yield seen
            mirrored = seen.copy()
            mirrored[0, :, 0] *= -1
            yield np.concatenate([seen, mirrored[:1]])


def assert_poses(rotations, translations):
    identity = np.broadcast_to(np.eye(rotations.shape[1]), rotations.shape)
    # products of orthogonal matrices: d eps, and a few factors
    np.testing.assert_allclose(rotations @ rotations.swapaxes(1, 2), identity, atol=1e-12)
    assert np.all(np.linalg.det(rotations) > 0)
    assert np.isfinite(translations).all()


@pytest.mark.filterwarnings("ignore::kernelgpa.KernelGPAWarning")
@pytest.mark.parametrize("name", EVERY)
def test_every_cloud_gets_a_pose_in_a_batch(name):
    for points in groups_of(points_of(name)):
        gpa = RigidGPA().fit(points)
        assert_poses(gpa.rotations_, gpa.translations_)
        gpa = AffineGPA().fit(points)
        assert_poses(gpa.rotations_, gpa.translations_)


@pytest.mark.filterwarnings("ignore::kernelgpa.KernelGPAWarning")
@pytest.mark.parametrize("name", EVERY)
def test_every_cloud_gets_a_pose_in_a_stream(name):
    for points in groups_of(points_of(name)):
        stream = StreamingGPA(RigidGPA())
        keys = [stream.add(one, range(points.shape[1])) for one in points]
        stream.update()
        poses = [stream.pose(key) for key in keys]
        assert_poses(np.stack([one[0] for one in poses]), np.stack([one[1] for one in poses]))


@pytest.mark.parametrize("name", EVERY)
def test_every_cloud_has_a_row_of_poses_tum(name, tmp_path, monkeypatch):
    *_, last = groups_of(points_of(name))  # a triple with a mirrored copy
    pair = last[[0, -1]]  # a cloud and its mirror image
    for label, points in (("triple", last), ("pair", pair)):
        file, out = tmp_path / f"{label}.csv", tmp_path / label
        rows = [
            f"{t},{j},{x!r},{y!r},{z!r}" for t, one in enumerate(points.tolist()) for j, (x, y, z) in enumerate(one)
        ]
        file.write_text("\n".join(["cloud,landmark,x,y,z", *rows]))
        assert run(monkeypatch, "register", file, "-o", out, "--method", "rigid") == 0
        poses = np.loadtxt(out / "poses.tum")
        assert poses.shape == (len(points), 8)
        # quaternions are printed with at least nine digits
        np.testing.assert_allclose(np.linalg.norm(poses[:, 4:], axis=1), 1.0, atol=1e-8)


@pytest.mark.parametrize(
    ("name", "model"),
    [(name, model) for name in ("sheet", "paper") for model in (RigidGPA(), AffineGPA(), KernelGPA())]
    + [("paper", TPSGPA())],
    ids=repr,
)
def test_a_clean_sheet_reads_as_clean(name, model):
    points = SIMULATED["sheet"]() if name == "sheet" else load(SETS["paper"][0])["points"]
    with warnings.catch_warnings():
        warnings.simplefilter("error", KernelGPAWarning)
        warnings.filterwarnings("ignore", "the bottom eigenvalues nearly coincide")
        findings = model.fit(points).diagnose()
    assert [one.kind for one in findings if not one.is_note] == []


@pytest.mark.parametrize("name", ["sheet", "paper"])
def test_a_stream_of_a_clean_sheet_has_no_findings(name):
    stream = StreamingGPA(RigidGPA())
    for points in points_of(name):
        stream.add(points, range(len(points)))
    with warnings.catch_warnings():
        warnings.simplefilter("error", KernelGPAWarning)
        stream.update()
    assert stream.diagnose() == []
    assert stream.mirrored_ == []


@pytest.mark.filterwarnings("ignore::kernelgpa.KernelGPAWarning")
@pytest.mark.parametrize("pair", [(1, 2), (1, 3)])
def test_strong_bending_is_no_collapsed_map(pair):
    points = load(SETS["cushion"][0])["points"][list(pair)]
    assert "collapsed map" not in {one.kind for one in KernelGPA().fit(points).diagnose()}


@pytest.mark.filterwarnings("ignore::kernelgpa.KernelGPAWarning")
@pytest.mark.parametrize("name", ["cushion", "liver", "face"])
def test_a_map_that_collapsed_is_found_whatever_the_clouds(name):
    gpa = fixed_kernel(bandwidth=1.5, smoothing=1e-9, modes="program").fit(points_of(name))
    assert "collapsed map" in {one.kind for one in gpa.diagnose()}


def test_only_a_finding_that_promises_no_gain_is_a_note():
    points = exchanged(SIMULATED["liver"](), 0.1, 0)[0]
    findings = {one.kind: one for one in fixed_kernel().fit(points).diagnose()}
    assert not findings["exchanged landmarks"].is_note
    assert "(severity" in str(findings["exchanged landmarks"])


def test_of_many_clouds_those_with_large_residuals_are_judged_and_the_others_are_counted():
    rng = np.random.default_rng(0)
    body = 10 * rng.standard_normal((30, 3))
    clouds = outliers.MOST_JUDGED_CLOUDS + 20
    points = body + 0.1 * rng.standard_normal((clouds, 30, 3))
    points[7, [2, 5]] = points[7, [5, 2]]
    findings = {one.kind: one for one in RigidGPA().fit(points).diagnose()}
    assert "cloud 7 " in findings["exchanged landmarks"].found
    not_run = findings["checks that could not run"]
    assert f"{30 * outliers.MOST_JUDGED_CLOUDS} of {30 * clouds} observations were judged" in not_run.found
    assert not not_run.is_note


def test_a_judge_that_cannot_be_fitted_is_reported(monkeypatch):
    def refuse(self, points):
        raise KernelGPAError("no map")

    points = exchanged(SIMULATED["liver"](), 0.1, 0)[0]
    gpa = RigidGPA().fit(points)
    monkeypatch.setattr(outliers.KernelGPA, "fit", refuse)
    not_run = {one.kind: one for one in gpa.diagnose()}["checks that could not run"]
    assert "wrong matches" in not_run.found
    assert "kernel warps, which cannot be fitted to these data (no map)" in not_run.found

"""The diagnosis names the cause of an error once, before its symptoms, and never accuses clean data."""

from __future__ import annotations

import csv
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import chi

from conftest import random_rotation, scene
from fixed_settings import fixed_kernel
from kernelgpa import AffineGPA, KernelGPA, KernelGPAWarning, Observations, RigidGPA, save, simulate
from kernelgpa.cli.messages import with_option_names
from kernelgpa.errors import collected_warnings, warn
from kernelgpa.estimators.problem.sizes import of_another_size, relative_sizes, weighted_medians
from kernelgpa.simulate import exchanged
from kernelgpa.trust.diagnosis.evidence import Evidence
from kernelgpa.trust.diagnosis.learned_shape import learned_residuals
from kernelgpa.trust.diagnosis.outliers import SPREADS, limits
from kernelgpa.trust.diagnosis.symptoms import folded_warps
from shared_data import load

ESTIMATORS = [RigidGPA(), RigidGPA(scaling=True), AffineGPA(), fixed_kernel(bandwidth=0.5)]
CAUSES = {"placeholder coordinates", "exchanged landmarks", "possible wrong matches", "another unit"}


def clouds(n=12, m=40, seed=1):
    return scene(n=n, m=m, hidden=0.0, seed=seed, bend=0.03, noise=0.005)[0]


def symmetric_clouds(n=10, seed=0):
    """Noisy copies of a body with 12 landmarks on each side of a plane, not quite symmetric."""
    rng = np.random.default_rng(seed)
    left = rng.standard_normal((12, 3)) + np.array([1.5, 0, 0])
    body = np.concatenate([left, left * [-1, 1, 1]]) + 0.03 * rng.standard_normal((24, 3))
    turned = np.stack([body @ random_rotation(3, rng).T for _ in range(n)])
    return turned + 0.01 * rng.standard_normal(turned.shape)


def diagnosis(model, points):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KernelGPAWarning)
        return {finding.kind: finding for finding in model.fit(points).diagnose()}


def farthest_pair(points):
    distances = np.linalg.norm(points[:, None] - points[None], axis=2)
    return sorted(int(i) for i in np.unravel_index(np.argmax(distances), distances.shape))


@pytest.mark.parametrize("model", ESTIMATORS, ids=repr)
def test_placeholders_are_named_with_their_landmark_and_clouds(model):
    points = clouds()
    points[[2, 5, 7], 9] = (77, 77, -77)
    found = diagnosis(model, points)
    finding = found["placeholder coordinates"]
    assert "landmark 9 in clouds 2, 5, 7" in finding.found
    assert "NaN" in finding.action
    assert "--missing 77,77,-77 " in with_option_names(finding.action)
    assert next(iter(found)) == "placeholder coordinates"
    assert not {"unusual size factors", "folded warps", "collapsed map", "possible wrong matches"} & set(found)


@pytest.mark.parametrize("model", [RigidGPA(), fixed_kernel()], ids=repr)
def test_zeros_inside_of_centred_clouds_are_placeholders_and_one_warning(model):
    points = clouds() - clouds().mean(axis=1, keepdims=True)
    unseen = np.random.default_rng(0).random(points.shape[:2]) < 0.2
    unseen[::3] = False
    points[unseen] = 0.0
    with pytest.warns(
        KernelGPAWarning, match="and so have landmarks of 7 other clouds; if they were not seen"
    ) as caught:
        found = [one for one in model.fit(points).diagnose() if not one.is_note]
    assert len(caught) == 1
    assert found[0].kind == "placeholder coordinates"
    assert f"{unseen.sum()} observations have the same coordinates (0, 0, 0)" in found[0].found
    assert "warning of the fit" not in {one.kind for one in found}


@pytest.mark.parametrize("model", ESTIMATORS, ids=repr)
def test_an_exchanged_pair_is_named_with_the_residuals_before_and_after(model):
    points = clouds()
    pair = farthest_pair(points[3])
    points[3, pair] = points[3, pair[::-1]]
    found = diagnosis(model, points)
    assert f"landmarks {pair[0]} and {pair[1]} in cloud 3 are exchanged" in found["exchanged landmarks"].found
    assert "robust='tukey'" in found["exchanged landmarks"].action
    repaired = diagnosis(model, clouds())
    assert not CAUSES & set(repaired)


def test_the_severity_falls_once_a_robust_fit_has_handled_the_wrong_matches():
    points, _ = exchanged(clouds(), 0.1)
    plain, robust = (diagnosis(fixed_kernel(robust=loss), points) for loss in (None, "tukey"))
    assert plain["exchanged landmarks"].severity > 0.1
    assert robust["exchanged landmarks"].severity < 0.01
    assert "robust=" not in robust["exchanged landmarks"].action


@pytest.mark.parametrize("model", [RigidGPA(), fixed_kernel()], ids=repr)
def test_left_and_right_are_told_from_a_mirror_image(model):
    points = symmetric_clouds()
    assert not {"left and right exchanged", "mirror images"} & set(diagnosis(model, points))
    sides, mirrored = points.copy(), points.copy()
    sides[4] = sides[4, np.r_[12:24, 0:12]]
    mirrored[4, :, 0] *= -1
    found = diagnosis(model, sides)
    assert "cloud 4, exchanging 12 pairs of landmarks (0 and 12, 1 and 13" in found["left and right exchanged"].found
    assert "it was left out of the map" in found["left and right exchanged"].found
    assert "mirror images" not in found
    assert "left and right exchanged" not in diagnosis(model, mirrored)


@pytest.mark.parametrize("model", [RigidGPA(), RigidGPA(scaling=True), fixed_kernel()], ids=repr)
def test_another_unit_is_found_and_explains_the_residuals_of_its_cloud(model):
    points = clouds()
    points[6] *= 10
    found = diagnosis(model, points)
    assert "cloud 6" in found["another unit"].found
    assert "mm and cm" in found["another unit"].found
    assert not {"possible wrong matches", "unusual size factors"} & set(found)


@pytest.mark.parametrize("model", [RigidGPA(), AffineGPA(), fixed_kernel()], ids=repr)
@pytest.mark.parametrize("ratio", [0.1, 10.0])
def test_another_unit_is_no_note_whichever_unit_is_larger(model, ratio):
    """The residuals of a small cloud are small in its own frame, however wrong its unit is."""
    points = clouds()
    points[6] *= ratio
    assert not diagnosis(model, points)["another unit"].is_note


def test_observations_of_vanishing_weight_say_nothing_about_the_size_of_a_cloud():
    points = clouds()
    far = np.zeros(points.shape[:2], dtype=bool)
    far[6, :31] = True  # most of the cloud, and an odd number remains
    missing = Observations.from_array(np.where(far[:, :, None], np.nan, points))
    points[far] += 50 * np.random.default_rng(0).standard_normal((31, 3))
    vanishing = Observations.from_array(points, weights=np.where(far, 1e-9, 1.0))
    positions = clouds().mean(axis=0)
    assert_allclose(relative_sizes(vanishing, positions), relative_sizes(missing, positions), rtol=1e-12)
    assert not of_another_size(relative_sizes(vanishing, positions)).any()
    assert np.flatnonzero(of_another_size(relative_sizes(Observations.from_array(points), positions))) == [6]


@pytest.mark.parametrize("seed", range(5))
def test_the_weighted_median_is_the_median_of_repeated_values(seed):
    rng = np.random.default_rng(seed)
    values, repeats = rng.standard_normal(9), rng.integers(1, 6, 9)
    repeated = np.sort(np.repeat(values, repeats))
    # of an even number of values, the lower of the two in the middle
    assert weighted_medians(values[None], repeats[None].astype(float)) == repeated[(len(repeated) - 1) // 2]


@pytest.mark.parametrize("model", [RigidGPA(), fixed_kernel()], ids=repr)
def test_a_cloud_that_is_given_twice_is_found_wherever_it_was_moved(model):
    points = clouds()
    points[8] = points[3] @ random_rotation(3, np.random.default_rng(5)).T + 2.0
    assert "3 and 8" in diagnosis(model, points)["same cloud twice"].found
    assert "same cloud twice" not in diagnosis(model, np.stack([points[0]] * 6))  # every cloud is a copy


def test_articulated_motion_is_better_served_by_a_shape_model():
    """Two rigid halves that overlap in space and turn about a common axis: no smooth function of space describes it."""
    rng = np.random.default_rng(0)
    body = rng.standard_normal((40, 3))
    points = []
    for angle in np.linspace(-0.4, 0.4, 30):
        c, s = np.cos(angle), np.sin(angle)
        one = body.copy()
        one[::2] = one[::2] @ np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]]).T
        points.append(one @ random_rotation(3, rng).T)
    points = np.stack(points) + 0.002 * rng.standard_normal((30, 40, 3))
    found = diagnosis(KernelGPA(), points)
    assert "kernelgpa.ShapeModel" in found["a shape model suits better"].action
    assert not CAUSES & set(found)
    independent = body + 0.05 * rng.standard_normal((30, 40, 3))
    assert "a shape model suits better" not in diagnosis(KernelGPA(), independent)


def test_a_walking_figure_is_told_to_use_a_shape_model_and_not_other_settings():
    found = diagnosis(KernelGPA(), simulate.walker().points)
    assert next(iter(found)) == "a shape model suits better"
    assert "folded warps" in found["a shape model suits better"].found
    assert not {"collapsed map", "folded warps"} & set(found)


def test_the_share_of_landmarks_that_do_not_come_back_is_that_of_the_round_trip():
    points = scene(n=6, m=40, hidden=0.0, seed=1, bend=0.3, noise=0.05)[0]
    gpa = fixed_kernel(bandwidth=0.6, smoothing=1e-5).fit(points)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KernelGPAWarning)
        back = np.stack([gpa.inverse_transform(gpa.transform(own, t), t) for t, own in enumerate(points)])
    lost = ~(np.linalg.norm(back - points, axis=2) < 1e-6)
    (finding,) = folded_warps(Evidence(gpa))
    worst = int(np.argmax(lost.sum(axis=1)))
    assert lost[worst].any()
    assert f"{lost[worst].mean():.0%} of the landmarks of cloud {worst} back" in finding.found
    assert f"{lost.mean():.1%} of those of all clouds" in finding.found
    assert "use predict" in finding.action
    assert "kernelgpa impute" in with_option_names(finding.action)
    assert 0 <= finding.severity < 1
    assert folded_warps(Evidence(fixed_kernel().fit(clouds()))) == []


@pytest.mark.parametrize("model", [RigidGPA(), fixed_kernel()], ids=repr)
def test_a_cloud_that_shares_landmarks_on_one_line_only_is_a_warning_and_a_finding(model):
    points = clouds(n=6, m=40)
    points[5, :30] = np.nan
    points[5, :8] = np.linspace(-1, 1, 8)[:, None] * [1.0, 0.5, 0.2]
    points[:5, :8] = points[5, :8]
    points[:5, 30:] = np.nan
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", KernelGPAWarning)
        gpa = model.fit(points)
    message = "cloud 5 is connected with the others by landmarks on one line only"
    assert sum(message in str(one.message) for one in caught) == 1
    kinds = [finding.kind for finding in gpa.diagnose()]
    assert kinds.count("undetermined turn") == 1
    assert "weakly connected cloud" not in kinds
    assert "warning of the fit" not in kinds


def test_learned_residuals_do_not_depend_on_the_pose_and_vanish_for_motions_that_are_learned():
    rng = np.random.default_rng(0)
    positions, mode = rng.standard_normal((2, 20, 3))
    factors = rng.standard_normal(24)
    displacements = factors[:, None, None] * mode
    seen = np.ones((24, 20), dtype=bool)
    assert np.max(learned_residuals(displacements, positions, seen)) < 0.02 * np.abs(displacements).mean()
    shifted = displacements + rng.standard_normal((24, 1, 3))  # a translation is free
    np.testing.assert_allclose(
        learned_residuals(shifted, positions, seen), learned_residuals(displacements, positions, seen), atol=0.1
    )


def test_every_warning_of_a_fit_is_a_finding():
    points = clouds()
    points[1:, 5] = np.nan
    points[2, :4] = points[2, 0]
    with pytest.warns(KernelGPAWarning) as caught:
        gpa = fixed_kernel().fit(points)
    assert gpa.registration_.warnings == tuple(dict.fromkeys(str(one.message) for one in caught))
    found = [str(finding) for finding in gpa.diagnose()]
    assert any("seen by one cloud: 1" in one for one in found)
    assert any("have the same position" in one for one in found)


@pytest.mark.parametrize("model", [RigidGPA(), AffineGPA(), fixed_kernel(), KernelGPA()], ids=repr)
def test_scattered_views_of_few_deforming_faces_are_no_wrong_matches(model):
    """The residuals differ in size between the faces and between their parts, and landmarks have two or three views."""
    for seed in range(3):
        points = simulate.face(landmarks=80, noise=0.3, seed=seed).points
        hidden = np.random.default_rng(seed).random(points.shape[:2]) < 0.4
        found = diagnosis(model, np.where(hidden[:, :, None], np.nan, points))
        assert not CAUSES & set(found)


@pytest.mark.parametrize("model", [RigidGPA(), RigidGPA(scaling=True), AffineGPA(), fixed_kernel()], ids=repr)
def test_single_observations_are_judged_alike_whatever_the_estimator(model):
    """A rigid map sees the bending of a sheet as well as its wrong matches; what is suspicious is in the data."""
    points, wrong = exchanged(simulate.bending_sheet(noise=0.3, seed=3).points, 0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KernelGPAWarning)
        found, expected = (Evidence(one.fit(points)).suspicious for one in (model, KernelGPA()))
    assert np.array_equal(found, expected)
    assert np.mean(found[wrong]) > 0.9
    assert np.mean(found[~wrong]) < 0.01


def test_clouds_with_too_few_landmarks_to_tell_which_is_wrong_are_not_judged():
    """Of five landmarks in 3D, any four determine an affine map, whichever of them is wrong."""
    points = clouds()
    points[3, 5:] = np.nan
    pair = farthest_pair(points[3, :5])
    points[3, pair] = points[3, pair[::-1]]
    found = diagnosis(RigidGPA(), points)
    assert not CAUSES & set(found)
    assert "cloud 3 saw too few landmarks" in found["checks that could not run"].found
    assert "6 landmarks or more" in found["checks that could not run"].action


def test_the_usual_length_of_residuals_is_that_of_their_cloud_and_their_neighbourhood():
    """Residuals that differ by a factor for each cloud and one for each part of the map hide no outlier."""
    rng = np.random.default_rng(0)
    positions = rng.standard_normal((60, 3))
    lengths = np.linalg.norm(rng.standard_normal((10, 60, 3)), axis=2)
    factors = np.geomspace(1, 30, 10)[:, None] * np.where(positions[:, 0] > 0, 5.0, 1.0)
    still = np.zeros((10, 60, 3))
    assert np.all(lengths * factors < limits(lengths * factors, still, positions, 0.0))
    uneven = (lengths * factors)[-1]  # a limit from all residuals alike would call some of them outliers
    assert np.any(uneven > SPREADS * np.median(lengths * factors) / chi(3).median())
    lengths[2, 7] *= 100
    assert np.argwhere(lengths * factors > limits(lengths * factors, still, positions, 0.0)).tolist() == [[2, 7]]


def test_an_inner_collection_of_warnings_hides_them_from_the_outer_one():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with collected_warnings() as outer:
            warn("first")
            with collected_warnings() as inner:
                warn("second")
            warn("first")
    assert (outer, inner) == (["first"], ["second"])


def test_checks_that_could_not_run_are_named():
    few, many = (scene(n=4, m=m, hidden=0.0, seed=1, bend=0.02)[0] for m in (60, 450))
    assert diagnosis(RigidGPA(), few) == {}
    found = diagnosis(RigidGPA(), many)
    assert list(found) == ["checks that could not run"]
    assert "left and right: pairs of left and right landmarks are searched among up to" in found.popitem()[1].found


def test_the_result_folder_lists_all_observations_by_residual(tmp_path):
    points, _ = exchanged(clouds(), 0.1)
    gpa = fixed_kernel(robust="tukey").fit(points)
    with (save(gpa, tmp_path / "out") / "suspicious.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    residuals = [float(row["residual"]) for row in rows]
    assert len(rows) == np.isfinite(gpa.residuals_).sum()
    assert residuals == sorted(residuals, reverse=True)
    first = gpa.suspicious_observations(1)[0]
    assert (rows[0]["cloud"], rows[0]["landmark"]) == (str(first.cloud), str(first.landmark))
    assert float(rows[0]["weight_share"]) < 0.1


REAL = {
    "kinect_paper": ("data/surfaces/kinect_paper.npz", "points"),
    "cushion": ("data/surfaces/cushion.npz", "points"),
    "apes": ("data/automatic/apes.npz", "manual"),
    "brains": ("data/landmarks/brains.npz", "points"),
    "plethodon": ("data/landmarks/plethodon.npz", "points"),
    "faces": ("data/faces.npz", "vertices"),
}


def real(name):
    file, key = REAL[name]
    points = load(file)[key]
    return points[:, ::10] if name == "faces" else points


@pytest.mark.parametrize("model", [RigidGPA(), RigidGPA(scaling=True), KernelGPA()], ids=repr)
@pytest.mark.parametrize("name", REAL)
def test_clean_real_data_are_not_accused(name, model):
    found = diagnosis(model, real(name))
    assert not {"placeholder coordinates", "exchanged landmarks", "left and right exchanged", "another unit"} & set(
        found
    )
    assert "possible wrong matches" not in found or found["possible wrong matches"].severity < 0.2


@pytest.mark.parametrize("name", ["freeform", "squat"])
@pytest.mark.parametrize("frames", ["spread", "consecutive"])
def test_motion_capture_is_better_served_by_a_shape_model(name, frames):
    points = load(f"data/mocap/{name}.npz")["points"]
    points = points[np.linspace(0, len(points) - 1, 60).astype(int)] if frames == "spread" else points[300:360]
    found = diagnosis(KernelGPA(), points)
    assert next(iter(found)) == "a shape model suits better"
    assert "possible wrong matches" not in found or found["possible wrong matches"].severity < 0.2


def test_placeholders_in_real_skulls_are_found_by_similarities():
    points = real("apes").copy()
    points[[3, 11, 20, 33], 7] = (1998, 1998, -1998)
    found = diagnosis(RigidGPA(scaling=True), points)
    assert "landmark 7 in clouds 3, 11, 20, 33" in found["placeholder coordinates"].found
    assert found["placeholder coordinates"].severity > 0.5
    assert "unusual size factors" not in found

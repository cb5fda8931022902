"""Settings that a fit chooses by itself: near the best ones, the same in every frame and unit, robust when needed."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

from conftest import random_rotation, scene
from fixed_settings import fixed_kernel, fixed_tps
from kernelgpa import (
    TPSGPA,
    AffineGPA,
    InvalidSetting,
    KernelGPA,
    KernelGPAWarning,
    StreamingGPA,
    load,
    metrics,
    save,
    simulate,
)
from stream_and_batch import add, assert_equals_batch, used_share

BANDWIDTHS, SMOOTHINGS = np.geomspace(0.1, 2.0, 8), np.geomspace(1e-6, 10.0, 8)


def sensor_error(gpa, bodies):
    return float(np.mean(metrics.sensor_error(gpa.transform_clouds(bodies), gpa.jacobians(bodies))))


def exchanged(points, share, seed=0):
    """The points with some matches of each cloud exchanged, and which."""
    rng, changed = np.random.default_rng(seed), points.copy()
    wrong = np.zeros(points.shape[:2], dtype=bool)
    for t in range(len(points)):
        seen = np.flatnonzero(~np.isnan(points[t, :, 0]))
        some = rng.choice(seen, round(share * len(seen)), replace=False)
        changed[t, some] = points[t, np.roll(some, 1)]
        wrong[t, some] = True
    return changed, wrong


@pytest.mark.parametrize(("noise", "hidden"), [(0.0, 0.0), (1.0, 0.3)])
def test_the_chosen_settings_are_close_to_the_best_of_a_grid(noise, hidden):
    liver = simulate.liver(clouds=12, landmarks=80, vertices=402, noise=noise, hidden=hidden, seed=1)
    found = sensor_error(KernelGPA().fit(liver.points), liver.surfaces)
    errors = []
    for bandwidth in BANDWIDTHS:
        for smoothing in SMOOTHINGS:
            errors.append(
                sensor_error(fixed_kernel(bandwidth=bandwidth, smoothing=smoothing).fit(liver.points), liver.surfaces)
            )
    # smooth fields without noise have no best smoothing: the smaller the better, down to rounding
    assert found < (1.05 if noise else 1.5) * min(errors)
    assert found < sensor_error(fixed_kernel().fit(liver.points), liver.surfaces)
    assert found < sensor_error(TPSGPA().fit(liver.points), liver.surfaces)


@pytest.mark.parametrize("model", [KernelGPA(), TPSGPA(control_points=3), KernelGPA(inducing=15)], ids=repr)
def test_the_choice_depends_neither_on_frames_nor_on_the_unit_nor_on_the_order(model):
    points = scene(n=6, m=40, bend=0.2, noise=0.01, hidden=0.2, seed=2)[0]
    rng = np.random.default_rng(0)
    clouds, landmarks = rng.permutation(6), rng.permutation(40)
    moved = np.stack([1000 * one @ random_rotation(3, rng).T + rng.standard_normal(3) for one in points])
    first, second = clone(model).fit(points), clone(model).fit(moved[clouds][:, landmarks])
    unit = 1000.0 if isinstance(model, TPSGPA) else 1.0  # length^(4 - d)
    assert_allclose(second.smoothing_, unit * first.smoothing_, rtol=1e-12)
    assert second.robust_ == first.robust_
    assert_allclose(np.sort(second.scales_), 1000 * np.sort(first.scales_), rtol=1e-6)


def test_settings_that_are_given_are_used():
    points = scene(bend=0.1, noise=0.01, seed=3)[0]
    gpa = KernelGPA(bandwidth=0.7, robust=None).fit(points)
    assert (gpa.bandwidth_, gpa.robust_) == (0.7, None)
    assert set(gpa.automatic_.settings) == {"smoothing"}
    again = KernelGPA(bandwidth=0.7, smoothing=gpa.smoothing_, robust=None).fit(points)
    assert again.automatic_ is None
    assert_allclose(again.map_, gpa.map_, rtol=0, atol=1e-12)


@pytest.mark.parametrize("model", [KernelGPA(bandwidth=0.4), TPSGPA(control_points=3, robust="auto")], ids=repr)
def test_one_smoothing_per_cloud_goes_with_other_automatic_settings(model):
    points = scene(n=4, bend=0.1, noise=0.01, seed=3)[0]
    given = [0.1, 0.2, 0.1, 0.3]
    assert clone(model).set_params(smoothing=given).fit(points).smoothing_ == tuple(given)


@pytest.mark.parametrize("share", [0.02, 0.1, 0.3])
def test_exchanged_matches_turn_the_robust_loss_on(share):
    liver = simulate.liver(clouds=12, landmarks=80, vertices=402, noise=0.5, seed=4)
    clean = KernelGPA().fit(liver.points)
    assert clean.robust_ is None
    points, wrong = exchanged(liver.points, share)
    gpa = KernelGPA().fit(points)
    assert gpa.robust_ == "tukey"
    assert "'tukey' was used" in str(gpa.automatic_)
    assert metrics.map_error(gpa.map_, liver.template) < 2 * metrics.map_error(clean.map_, liver.template)
    listed = [(one.cloud, one.landmark) for one in gpa.suspicious_observations(int(wrong.sum()))]
    assert np.mean([wrong[t, j] for t, j in listed]) > 0.95


def test_an_affine_registration_decides_about_a_robust_loss_too():
    rng = np.random.default_rng(0)
    body = rng.standard_normal((40, 3))
    points = np.stack([body @ (np.eye(3) + 0.1 * rng.standard_normal((3, 3))) for _ in range(8)])
    points += 0.01 * rng.standard_normal(points.shape)
    assert AffineGPA(robust="auto").fit(points).robust_ is None
    assert AffineGPA(robust="auto").fit(exchanged(points, 0.1)[0]).robust_ == "tukey"


def test_rigid_copies_get_the_stiffest_settings_whatever_the_rounding():
    choices = set()
    for seed in range(5):
        gpa = KernelGPA().fit(scene(bend=0.0, noise=0.0, hidden=0.0, seed=seed)[0])
        choices.add((gpa.bandwidth_, gpa.smoothing_, gpa.robust_))
    assert choices == {(0.4, 1.0, None)}


def test_a_loaded_model_has_the_settings_that_were_used(tmp_path):
    gpa = KernelGPA().fit(scene(bend=0.1, noise=0.01, seed=6)[0])
    save(gpa, tmp_path / "out")
    again = load(tmp_path / "out")
    assert (again.bandwidth, again.bandwidth_, again.smoothing_) == ("auto", gpa.bandwidth_, gpa.smoothing_)
    assert again.automatic_ == gpa.automatic_ or np.isnan(gpa.automatic_.gain)
    assert str(again.automatic_) == str(gpa.automatic_)


def test_a_stream_chooses_its_settings_from_its_clouds_and_equals_the_batch_fit_with_them():
    points = scene(n=10, m=30, bend=0.2, noise=0.01, hidden=0.1, seed=7)[0]
    stream, clouds = StreamingGPA(automatic=True), {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KernelGPAWarning)
        for cloud in points:
            clouds[add(stream, cloud)] = cloud
        used = stream.estimator
        fixed = fixed_kernel(bandwidth=used.bandwidth, smoothing=used.smoothing)
        assert used.bandwidth != "auto"
        assert_equals_batch(stream, fixed, clouds)  # with the gamma of the stream
        free = fixed.fit(points)
    # a free fit chooses another gamma; the rule accepts both for these clouds
    for gamma in (stream.gamma_, free.registration_.faithful.gamma):
        assert used_share(stream, gamma) <= 1 + 1e-6


@pytest.mark.parametrize("settings", [{"bandwidth": "best"}, {"smoothing": "Auto"}, {"robust": "automatic"}])
def test_other_words_are_refused(settings):
    with pytest.raises(InvalidSetting, match=r"'auto'|expected one of"):
        KernelGPA(**settings).fit(scene()[0])


def test_a_number_keeps_the_meaning_of_the_paper_for_thin_plates():
    points = scene(bend=0.1, noise=0.01, seed=8)[0]
    assert fixed_tps().fit(points).smoothing_ == 0.01
    assert TPSGPA().fit(points).automatic_ is not None

"""On simulated livers: faithful maps, errors that reveal a collapsed map, robust fits, and uncertainty.

The scenes are smaller than those of benchmarks/trust.py, which prints the tables of docs/trust.md.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.metrics import average_precision_score

from conftest import random_rotation
from conftest import scene as blob
from fixed_settings import fixed_kernel
from kernelgpa import InvalidSetting, RigidGPA, metrics, selection, simulate, uncertainty
from kernelgpa.estimators.robust import LEAST_FACTOR, LOSSES
from kernelgpa.gauge.faithful import AllowedIncrease, allowed_increase, faithful_registration
from kernelgpa.gauge.initial import Start
from kernelgpa.spectrum.total import total_cost

SCENES = [(0.0, 0.0), (0.3, 0.0), (0.0, 1.0), (0.3, 1.0)]
every_scene = pytest.mark.parametrize(("hidden", "noise"), SCENES)


@cache
def liver(hidden, noise):
    return simulate.liver(clouds=24, landmarks=100, hidden=hidden, noise=noise, deformation="arap", vertices=602)


def sensor_rms(gpa, scene):
    points = scene.surfaces[:, np.setdiff1d(np.arange(602), scene.landmarks)]
    return np.sqrt(np.mean(metrics.sensor_error(gpa.transform_clouds(points), gpa.jacobians(points)) ** 2))


@every_scene
def test_the_default_map_is_as_accurate_as_the_rigid_one_whatever_the_settings(hidden, noise):
    scene = liver(hidden, noise)
    rigid = metrics.map_error(RigidGPA().fit(scene.points).map_, scene.template)
    for bandwidth in (0.1, 0.5, 1.5):
        for smoothing in (1e-4, 1e-2, 1.0):
            gpa = fixed_kernel(bandwidth=bandwidth, smoothing=smoothing).fit(scene.points)
            assert metrics.map_error(gpa.map_, scene.template) <= 1.2 * rigid


def few_views(seed, views):
    """Lungs of six people: the landmarks that ``views`` of them share, and other landmarks to test on."""
    scans = simulate.ct(seen_in={views: 150, 6: 100}, noise=0.5, seed=seed)
    own = scans.seen_in == views
    return scans.points[:, own], scans.template[own], scans.surfaces[:, scans.landmarks[~own]]


def sensor_median(warps, test):
    images = np.stack([warp(points) for warp, points in zip(warps, test, strict=True)])
    jacobians = np.stack([warp.sensor_jacobian(points) for warp, points in zip(warps, test, strict=True)])
    return np.median(metrics.sensor_error(images, jacobians))


def own_error_only(stacked):
    """The rule for gamma without its second term."""
    return AllowedIncrease(allowed_increase(stacked).own_error, 0.0)


def warps_by_rule(gpa, rule):
    """The warps of a fit onto the faithful map of another rule for gamma."""
    reduced = [gpa._reduced_cloud(name) for name in gpa.observations_.names]
    cost = total_cost(reduced, len(gpa.map_))
    rotations = gpa.registration_.gauge.rotations
    found = faithful_registration(gpa.observations_.stacked, cost, Start(rotations), rule=rule).faithful
    return [cloud.fit_all([found.gauge.map[cloud.seen]])[0] for cloud in reduced]


@pytest.mark.parametrize("bandwidth", [0.25, 1.0])
@pytest.mark.parametrize("views", [3, 4])
@pytest.mark.parametrize("seed", range(4))
def test_a_map_of_few_views_is_smooth(views, bandwidth, seed):
    """Neighbouring landmarks are seen by different people; the rigid map jumps between them, the default must not."""
    points, truth, test = few_views(seed, views)
    default = fixed_kernel(bandwidth=bandwidth).fit(points)
    paper = fixed_kernel(bandwidth=bandwidth, modes="program").fit(points)
    near_rigid = warps_by_rule(default, own_error_only)
    smooth, ours, jagged = (sensor_median(warps, test) for warps in (paper.warps_, default.warps_, near_rigid))
    # the second term of the rule removes most of the excess over the paper's map that the first term alone leaves
    assert jagged > 1.1 * smooth
    assert ours - smooth < 0.4 * (jagged - smooth)
    errors = [metrics.map_error(gpa.map_, truth) for gpa in (default, RigidGPA().fit(points))]
    assert errors[0] < errors[1]


def test_an_observation_of_vanishing_weight_has_the_influence_of_a_missing_one():
    points, _, test = few_views(0, 3)
    everything = np.where(np.isnan(points), np.nanmean(points, axis=1, keepdims=True), points)
    everything += np.random.default_rng(0).normal(0, 5, points.shape) * np.isnan(points)
    weights = np.where(np.isnan(points[:, :, 0]), 1e-9, 1.0)
    missing, vanishing = fixed_kernel().fit(points), fixed_kernel().fit(everything, weights=weights)
    assert vanishing.registration_.faithful.excess == pytest.approx(missing.registration_.faithful.excess, rel=0.1)
    # the width of a kernel is measured over all points, whatever their weights
    assert sensor_median(vanishing.warps_, test) == pytest.approx(sensor_median(missing.warps_, test), rel=0.2)


@pytest.mark.parametrize("seed", range(3))
def test_robust_maps_of_two_views_do_not_depend_on_the_order_of_clouds(seed):
    """Two views that disagree support each other alike, and the first has no more right than the second."""
    rng = np.random.default_rng(seed)
    points, _ = blob(n=6, m=60, hidden=0.0, bend=0.1, noise=0.01, seed=seed)
    points[np.argsort(rng.random((6, 60)), axis=0) >= 2] = np.nan
    maps = [fixed_kernel(robust="geman-mcclure").fit(points[order]).map_ for order in (range(6), rng.permutation(6))]
    assert metrics.map_error(maps[1], maps[0]) < 1e-6 * np.linalg.norm(maps[0], axis=1).max()


def test_noise_alone_does_not_flatten_a_thin_map():
    """The rigid map is jagged by noise, of few views, and thin; too large a gamma would remove its last axis."""
    rng = np.random.default_rng(0)
    template = rng.uniform(-1, 1, (200, 3)) * [100, 70, 5]
    points = np.stack([(template + 4 * rng.standard_normal((200, 3))) @ random_rotation(3, rng).T for _ in range(40)])
    points[np.argsort(rng.random((40, 200)), axis=0) >= 4] = np.nan
    rigid, thin = RigidGPA().fit(points), np.linalg.svd(template - template.mean(axis=0), compute_uv=False)[2]
    for settings in ({}, {"bandwidth": 1.0, "smoothing": 1e-3}):
        default = fixed_kernel(**settings).fit(points)
        assert metrics.map_error(default.map_, template) < 1.1 * metrics.map_error(rigid.map_, template)
        assert default.scales_[2] > 0.85 * thin


def test_the_sensor_error_reveals_the_collapse_of_the_papers_map_and_consistency_does_not():
    scene = liver(0.3, 1.0)
    settings = {"bandwidth": 1.0, "smoothing": 1e-4}
    paper, default = (
        fixed_kernel(**settings, modes="program").fit(scene.points),
        fixed_kernel(**settings).fit(scene.points),
    )
    reference = fixed_kernel(bandwidth=0.5, smoothing=0.1, modes="program").fit(scene.points)
    assert metrics.map_error(paper.map_, scene.template) > 5 * metrics.map_error(default.map_, scene.template)
    consistency = [metrics.consistency(g.transform_clouds(scene.surfaces)).mean() for g in (paper, reference)]
    assert consistency[0] < consistency[1]  # the paper's score prefers the collapsed map
    assert sensor_rms(paper, scene) > 3 * sensor_rms(reference, scene)


@pytest.mark.slow
@every_scene
def test_tuning_finds_settings_near_the_best_of_the_grid(hidden, noise):
    scene = liver(hidden, noise)
    grid = {"bandwidth": (0.1, 0.5), "smoothing": (1e-2, 1e-1, 10.0)}
    tuned = selection.tune(scene.points, grid=grid, folds=5, rounds=1).best
    trials = [
        fixed_kernel(bandwidth=b, smoothing=s).fit(scene.points) for b in grid["bandwidth"] for s in grid["smoothing"]
    ]
    assert sensor_rms(tuned, scene) <= 1.1 * min(sensor_rms(gpa, scene) for gpa in trials)
    assert metrics.map_error(tuned.map_, scene.template) <= 1.1 * min(
        metrics.map_error(g.map_, scene.template) for g in trials
    )


@pytest.mark.parametrize("loss", ["geman-mcclure", "tukey"])
@pytest.mark.parametrize(("hidden", "noise"), [(0.0, 0.0), (0.3, 1.0)])
def test_robust_fits_find_wrong_matches_and_keep_the_map(hidden, noise, loss):
    scene = liver(hidden, noise)
    clean = fixed_kernel(bandwidth=0.5, robust=loss).fit(scene.points)
    points, wrong = simulate.exchanged(scene.points, 0.2)
    gpa = fixed_kernel(bandwidth=0.5, robust=loss).fit(points)
    seen = ~np.isnan(points[:, :, 0])
    assert average_precision_score(wrong[seen], gpa.residuals_[seen]) >= 0.98
    assert metrics.map_error(gpa.map_, scene.template) <= 1.15 * metrics.map_error(clean.map_, scene.template)
    assert sensor_rms(gpa, scene) <= 1.15 * sensor_rms(clean, scene)
    first = gpa.suspicious_observations(int(wrong.sum()))
    assert np.mean([wrong[one.cloud, one.landmark] for one in first]) > 0.95
    assert np.nanmax(gpa.weights_) <= 1
    assert gpa.weights_[seen].min() >= LEAST_FACTOR


@pytest.mark.parametrize("loss", LOSSES)
def test_a_robust_fit_of_exact_copies_is_exact(loss):
    scene = simulate.liver(clouds=5, landmarks=40, bend=0.0, vertices=202)
    gpa = fixed_kernel(robust=loss).fit(scene.points)
    assert metrics.map_error(gpa.map_, scene.template) < 1e-8 * 200
    assert_allclose(gpa.weights_, 1, atol=1e-9)


def test_an_unknown_loss_raises():
    with pytest.raises(InvalidSetting, match="robust is 'cauchy'; expected one of huber, tukey, geman-mcclure"):
        fixed_kernel(robust="cauchy").fit(liver(0.0, 0.0).points)


def test_weights_of_known_accuracy_improve_the_map():
    scene = liver(0.0, 0.0)
    rng = np.random.default_rng(0)
    deviation = np.where(rng.random(scene.points.shape[:2]) < 0.5, 0.5, 5.0)
    points = scene.points + deviation[:, :, None] * rng.standard_normal(scene.points.shape)
    weights = deviation**-2 / np.mean(deviation**-2)
    plain, weighted = (
        metrics.map_error(fixed_kernel(bandwidth=0.5).fit(points, weights=w).map_, scene.template)
        for w in (None, weights)
    )
    assert weighted <= 0.8 * plain


@pytest.mark.slow
@every_scene
def test_regions_have_the_stated_coverage(hidden, noise):
    scene = liver(hidden, noise)
    points = scene.points
    order, levels = np.random.default_rng(0).permutation(100), (0.5, 0.9, 0.95)
    hits, count = np.zeros(3), 0
    for i in range(4):  # every landmark is left out once
        out = np.zeros(100, dtype=bool)
        out[order[i::4]] = True
        estimate = uncertainty(selection.cross_validate(fixed_kernel(bandwidth=0.5), points[:, ~out], folds=15))
        images = estimate.validation.fitted.transform_clouds(points[:, out])
        distances = np.linalg.norm(images - metrics.mean_of_others(images), axis=2)
        for t in range(len(points)):
            seen = np.isfinite(distances[t])
            radii = [estimate.radius(points[t, out][seen], t, level) for level in levels]
            hits += [np.sum(distances[t, seen] <= radius) for radius in radii]
            count += seen.sum()
    assert np.all(np.abs(hits / count - levels) <= [0.05, 0.03, 0.025])

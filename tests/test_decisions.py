"""Rounding errors decide nothing: rotating, moving, rescaling or reordering the clouds changes no decision.

For each degenerate scene the errors, warnings, findings, ranks and reasons for termination are the same whatever the
poses, the unit and the order of the clouds.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter

import numpy as np
import pytest
from numpy.testing import assert_allclose

from conftest import STANDARD_MODELS, random_rotation, scene
from degenerate_scenes import SCENES, grid, one_flat_cloud, thin
from fixed_settings import fixed_kernel, fixed_tps
from kernelgpa import TPSGPA, AffineGPA, KernelGPAError, Observations, RigidGPA, selection
from kernelgpa.observations.geometry import frame_of
from kernelgpa.observations.sampling import DISTANCE_SAMPLE, farthest_points, mean_pairwise_distance
from kernelgpa.spectrum.eigenpairs import Uniqueness
from kernelgpa.streaming import StreamingGPA
from kernelgpa.warps.leave_out import leave_one_out

MODELS = [*STANDARD_MODELS, fixed_kernel(inducing=12), fixed_kernel(robust="tukey")]
NUMBER = re.compile(r"[-+]?\b\d[\d.]*(e[-+]?\d+)?\b")


def words(text):
    """The words of a message without its numbers, sorted because clouds may be listed in any order."""
    return " ".join(sorted(re.sub(r"[^\w# ]", " ", NUMBER.sub("#", text)).split()))


def decisions(model, points, names, diagnosed=True):
    """All discrete results of a fit, and those of its diagnosis, which takes most of the time."""
    landmarks = [f"landmark {chr(97 + j // 26)}{chr(97 + j % 26)}" for j in range(points.shape[1])]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            gpa = model.fit(Observations.from_array(points, clouds=names, landmarks=landmarks))
        except KernelGPAError as error:
            return type(error).__name__, words(str(error))
        found = gpa.diagnose() if diagnosed else []
        findings = Counter((finding.kind, words(finding.found)) for finding in found)
    spectrum = getattr(gpa, "spectrum_", None)
    return (
        tuple(sorted(words(str(one.message)) for one in caught)),
        tuple(sorted(findings.items())),
        tuple(sorted(gpa.mirrored_)),
        tuple(sorted((cloud.name, cloud.frame.rank) for cloud in gpa.observations_.clouds)),
        int(np.sum(gpa.scales_ > 1e-8 * gpa.scales_[0])),
        None if spectrum is None else (spectrum.dimension, spectrum.uniqueness, len(spectrum.values)),
        gpa.registration_.gauge.termination,
        bool(np.all(np.linalg.det(gpa.rotations_) > 0)),
    )


def moved(points, rng):
    """The same clouds in random poses, another unit and another order; and that order and unit."""
    n, _, d = points.shape
    unit = 10 ** rng.uniform(-6, 6)
    turned = np.stack([unit * (one @ random_rotation(d, rng).T + rng.standard_normal(d)) for one in points])
    order = rng.permutation(n)
    return turned[order], order, unit


def in_unit(model, unit, dimension):
    """The model that gives the same result in another unit: the bending energy of thin-plate warps has a unit."""
    if isinstance(model, TPSGPA):
        return fixed_tps(**{**model.get_params(), "smoothing": model.smoothing * unit ** (4 - dimension)})
    return model


def assert_same_decisions(name, model, draws, diagnosed=True):
    points = SCENES[name]()
    names = [f"cloud {chr(97 + t)}" for t in range(len(points))]
    rng = np.random.default_rng(0)
    found = Counter()
    for _ in range(draws):
        turned, order, unit = moved(points, rng)
        found[decisions(in_unit(model, unit, points.shape[2]), turned, [names[t] for t in order], diagnosed)] += 1
    assert len(found) == 1, f"{name}, {model}: {found}"


OFTEN = [RigidGPA(scaling=True), AffineGPA(modes="program"), fixed_kernel()]  # tested in every run; the others are slow


def slow_unless_often(models):
    often = {repr(model) for model in OFTEN}
    return [
        pytest.param(model, marks=[] if repr(model) in often else pytest.mark.slow, id=repr(model)) for model in models
    ]


@pytest.mark.parametrize("model", slow_unless_often(MODELS))
@pytest.mark.parametrize("name", SCENES)
def test_rotating_moving_rescaling_and_reordering_change_no_decision(name, model):
    assert_same_decisions(name, model, 4)


@pytest.mark.slow
@pytest.mark.parametrize("model", OFTEN, ids=repr)
@pytest.mark.parametrize("name", SCENES)
def test_a_hundred_rotations_change_no_decision(name, model):
    assert_same_decisions(name, model, 100, diagnosed=False)
    assert_same_decisions(name, model, 20)


@pytest.mark.parametrize("thickness", [0.0, 1e-12, 1e-10, 1e-6])
def test_a_flat_cloud_among_bodies_is_never_reported_as_mirrored(thickness):
    points, rng = one_flat_cloud(thickness), np.random.default_rng(1)
    for _ in range(100):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert RigidGPA().fit(moved(points, rng)[0]).mirrored_ == []


@pytest.mark.parametrize("thickness", [1e-6, 1e-5, 1e-4])
def test_copies_of_a_thin_body_keep_their_scales(thickness):
    points, rng = thin(thickness), np.random.default_rng(0)
    expected = RigidGPA().fit(points).scales_
    for _ in range(10):
        turned, _, unit = moved(points, rng)
        # rounding rotates a thin body by eps / thickness, which changes its smallest scale by that fraction
        for model in (AffineGPA(modes="program"), fixed_kernel(modes="program")):
            assert_allclose(model.fit(turned).scales_ / unit, expected, rtol=1e-12 / thickness)


@pytest.mark.parametrize("thickness", [0.7e-8, 1e-8, 1.3e-8, 1.6e-8, 2e-8])
def test_copies_at_the_threshold_of_flatness_are_registered(thickness):
    """Whether they count as flat may depend on rounding; whether they are registered may not."""
    points, rng = thin(thickness), np.random.default_rng(0)
    for _ in range(20):
        turned, _, unit = moved(points, rng)
        for model in (RigidGPA(), AffineGPA(), fixed_kernel()):
            assert_allclose(model.fit(turned).scales_[:2] / unit, RigidGPA().fit(thin(0.0)).scales_[:2], rtol=1e-6)


def test_one_thin_cloud_does_not_make_the_map_ambiguous():
    points, _ = scene(n=6, m=60, hidden=0.0, seed=3)
    points[5, :, 2] *= 1e-7
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gpa = fixed_kernel(smoothing=1e-4).fit(points)
    assert gpa.spectrum_.uniqueness is Uniqueness.UNIQUE


def test_coarsely_rounded_points_do_not_count_as_coinciding():
    rng = np.random.default_rng(0)
    body = rng.uniform(0, 60, (800, 3))
    points = np.stack([body + 0.1 * np.sin(body + t) + 5e5 for t in range(3)]).astype(np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        RigidGPA().fit(points)


# -- equal values --


@pytest.mark.parametrize(("dimension", "raised"), [(2, False), (2, True), (3, False)])
def test_axes_of_coinciding_spreads_are_chosen_by_the_points(dimension, raised):
    points, rng = grid(dimension, raised)[0], np.random.default_rng(0)
    along = [
        frame.to_unit(turned) @ frame.axes[: frame.rank].T
        for turned in (points @ random_rotation(points.shape[1], rng).T for _ in range(20))
        for frame in [frame_of(turned)]
    ]
    # the sign of the last axis of a flat grid is not decided by its points
    assert_allclose(np.abs(along), np.broadcast_to(np.abs(along[0]), np.shape(along)), rtol=0, atol=1e-12)


@pytest.mark.parametrize("model", [RigidGPA(), AffineGPA(), fixed_kernel(), fixed_tps(control_points=3)], ids=repr)
def test_the_map_of_a_regular_grid_does_not_depend_on_its_rotation(model):
    rng, maps = np.random.default_rng(0), []
    for _ in range(10):
        points = np.stack([one @ random_rotation(3, rng).T for one in grid(3)])
        maps.append(model.fit(points).map_)
    assert_allclose(maps, np.broadcast_to(maps[0], np.shape(maps)), rtol=0, atol=1e-7 * np.abs(maps[0]).max())


def test_of_equally_distant_points_the_first_is_chosen():
    points, rng = grid(3)[0], np.random.default_rng(0)
    chosen = farthest_points(points, 20)
    for _ in range(20):
        assert np.array_equal(farthest_points(points @ random_rotation(3, rng).T, 20), chosen)


def test_the_sampled_mean_distance_does_not_depend_on_the_sign_of_an_axis():
    points = np.random.default_rng(0).standard_normal((2 * DISTANCE_SAMPLE + 1001, 3)) * [3, 2, 1]
    points[:, 0] += 0.1 * points[:, 0] ** 2  # not symmetric
    assert_allclose(mean_pairwise_distance(-points), mean_pairwise_distance(points), rtol=1e-12)


def test_of_settings_with_equal_scores_the_first_is_chosen():
    copies, rng = SCENES["copies of a body"](), np.random.default_rng(0)
    grid_of_settings = {"bandwidth": (0.5, 0.25), "smoothing": (1.0, 0.1)}
    for _ in range(5):
        tuning = selection.tune(moved(copies, rng)[0], grid=grid_of_settings, folds=5, rounds=0)
        assert tuning.settings == {"bandwidth": 0.5, "smoothing": 1.0}


@pytest.mark.parametrize("smoothing", [0.1, 1e-4, 1e-6])
def test_an_observation_without_which_the_warp_is_undetermined_has_no_residual(smoothing):
    rng = np.random.default_rng(0)
    corner = np.vstack([scene(n=2, m=12, hidden=0.0)[0][0] * [1, 1, 0], [[0.3, 0.2, 1.0]]])  # one point outside a plane
    for _ in range(20):
        points = np.stack([corner @ random_rotation(3, rng).T for _ in range(3)])
        gpa = fixed_kernel(bandwidth=0.5, smoothing=smoothing).fit(points)
        residuals = leave_one_out(gpa._reduced_cloud(0), gpa.map_)
        assert np.isnan(residuals[-1]).all()
        assert np.isfinite(residuals[:-1]).all()


def test_a_map_that_does_not_move_has_no_events():
    points, rng = scene(n=20, m=30, hidden=0.0, bend=0.0)[0], np.random.default_rng(0)
    stream = StreamingGPA(fixed_kernel())
    for one in points:
        stream.add(one * 1e3 + rng.standard_normal(3), range(30))
        if len(stream.keys_) > 1:
            assert stream.update().events == ()

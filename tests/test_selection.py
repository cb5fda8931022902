"""Cross-validation predicts what the solve never saw; tuning returns the best setting, and the same one each time."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from authors_results import authors_results
from conftest import random_rotation, scene
from fixed_settings import fixed_kernel, fixed_tps
from kernelgpa import AffineGPA, InvalidObservations, InvalidSetting, KernelGPA, RigidGPA, plotting, selection
from kernelgpa.estimators.problem.screening import screen
from kernelgpa.observations.collection import as_observations
from kernelgpa.simulate import exchanged
from kernelgpa.trust.cross_validation import cross_validate_problem
from kernelgpa.trust.folds import landmark_folds
from kernelgpa.trust.grid import GridSearch
from kernelgpa.trust.trials import Scoring
from kernelgpa.warps.kernels import Kernel
from shared_data import load

STIFF = [RigidGPA(), RigidGPA(scaling=True), AffineGPA()]
MODELS = [*STIFF, fixed_tps(control_points=3), fixed_kernel(), fixed_kernel(inducing=12)]
every_model = pytest.mark.parametrize("model", MODELS, ids=repr)


def test_the_authors_cross_validation_error_is_reproduced(dimension):
    points, data = authors_results(dimension)
    model = fixed_kernel(bandwidth=0.3, smoothing=0.05, modes="program")
    result = selection.cross_validate(model, points, folds=10)
    assert_allclose(result.cve, data["KERNEL_cve"][0], rtol=1e-8)


@pytest.mark.parametrize("model", [RigidGPA(), AffineGPA(modes="program"), AffineGPA(modes=5)], ids=repr)
def test_predictions_are_those_of_a_fit_that_never_saw_the_fold(model):
    points, _ = scene(n=5, m=24, seed=3, hidden=0.1)
    result = selection.cross_validate(model, points, folds=6)
    for i in range(6):
        out = np.arange(i, 24, 6)
        gpa = model.fit(np.delete(points, out, axis=1))
        expected = gpa.transform_clouds(points[:, out])
        assert_allclose(result.predictions[:, out], expected, rtol=0, atol=1e-7)
        assert_allclose(
            result.jacobians[:, out],
            np.where(np.isnan(expected)[..., None], np.nan, gpa.jacobians(points[:, out])),
            atol=1e-7,
        )


@every_model
@pytest.mark.parametrize("folds", [4, "leave-one-out", "regions"])
def test_every_observation_is_tested_once(model, folds):
    points, _ = scene(n=5, m=30, seed=1, hidden=0.1)
    result = selection.cross_validate(model, points, folds=folds)
    assert np.array_equal(np.isnan(result.predictions), np.isnan(points))
    assert np.isfinite(result.cve)
    assert result.sensor_rms > 0


def test_folds_given_as_lists_and_solved_in_threads_are_those_given_by_number():
    points, _ = scene(n=5, m=30, seed=1, hidden=0.0)
    lists = [list(range(i, 30, 4)) for i in range(4)]
    by_number = selection.cross_validate(fixed_kernel(), points, folds=4)
    by_list = selection.cross_validate(fixed_kernel(), points, folds=lists, n_jobs=2)
    assert np.array_equal(by_list.predictions, by_number.predictions)


def test_flexible_warps_predict_deforming_clouds_better():
    points, _ = scene(n=8, m=60, seed=2, bend=0.1, hidden=0.1)
    scores = [
        selection.cross_validate(model, points, folds=6).sensor_rms
        for model in (RigidGPA(), AffineGPA(), fixed_kernel(bandwidth=1.0, smoothing=0.01))
    ]
    assert scores[0] > scores[1] > scores[2]


def test_tuning_returns_the_best_trial_and_is_repeatable():
    points, _ = scene(n=5, m=40, seed=2, bend=0.1, hidden=0.1)
    grid = {"bandwidth": (0.25, 1.0), "smoothing": (1e-3, 1.0)}
    reported = []
    tuning = selection.tune(
        points, grid=grid, folds=4, rounds=1, progress=lambda done, _total, trial: reported.append((done, trial))
    )
    again = selection.tune(points, grid=grid, folds=4, rounds=1)
    scores = [trial.score for trial in tuning.trials]
    assert [trial.score for trial in again.trials] == scores
    assert [done for done, _ in reported] == list(range(1, len(scores) + 1))
    assert len(scores) > 4  # the second round refines the grid
    best = min(tuning.trials, key=lambda trial: trial.score)
    assert {name: getattr(tuning.best, name) for name in grid} == best.settings == tuning.settings
    assert_allclose(selection.cross_validate(tuning.best, points, folds=4).sensor_rms, best.sensor_rms, rtol=1e-9)
    assert best.sensor_median < best.sensor_rms
    assert best.sensor_trimmed < best.sensor_rms


def test_several_families_of_warps_are_searched_at_once():
    points, _ = scene(n=5, m=40, seed=2, bend=0.1, hidden=0.0)
    tuning = selection.tune(
        points,
        grid=[
            (AffineGPA(), {"modes": ("auto",)}),
            (fixed_kernel(), {"kernel": ("gaussian", "matern52"), "bandwidth": (1.0,)}),
        ],
        folds=4,
        rounds=0,
    )
    assert isinstance(tuning.best, KernelGPA)
    assert len(tuning.trials) == 3


def test_a_setting_that_cannot_be_computed_scores_infinity_and_reports_why():
    points, _ = scene(n=4, m=30, hidden=0.0)
    tuning = selection.tune(points, grid={"smoothing": (1e-18, 0.1), "bandwidth": (100.0,)}, folds=3, rounds=0)
    assert tuning.trials[0].sensor_rms == np.inf
    assert "raise smoothing" in tuning.trials[0].failure
    assert tuning.best.smoothing == 0.1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"folds": 41}, "folds is 41; with 40 landmarks"),
        ({"folds": 1}, "folds is 1"),
        ({"folds": "some"}, "folds is 'some'"),
        ({"grid": {"width": (1.0,)}}, "KernelGPA has bandwidth"),
        ({"grid": []}, "grid is empty"),
        ({"grid": {"bandwidth": ()}}, "expected a list of values"),
        ({"grid": {"bandwidth": 0.3}}, "expected a list of values"),
        ({"grid": {"kernel": "gaussian"}}, "expected a list of values"),
        ({"grid": [AffineGPA()]}, "a list of .estimator, values. pairs"),
        ({"grid": [(fixed_kernel(), {"band": (1,)})]}, "grid names .'band'."),
        ({"rounds": -1}, "rounds is -1"),
        ({"rounds": 1.5}, "rounds is 1.5"),
        ({"rounds": True}, "rounds is True"),
        ({"n_jobs": 0}, "n_jobs is 0"),
        ({"folds": 5.0}, "folds is 5.0"),
        ({"folds": None}, "folds is None"),
        ({"folds": [[]]}, "nothing is tested"),
        ({"estimator": KernelGPA}, "with parentheses"),
        ({"grid": {"smoothing": (-1.0,)}}, "smoothing is -1.0"),
        ({"weights": np.full(40, -1.0)}, "weights are finite and not negative"),
    ],
    ids=str,
)
def test_invalid_arguments_raise_and_are_named(arguments, words):
    error = InvalidObservations if "weights" in arguments else InvalidSetting
    with pytest.raises(error, match=words):
        selection.tune(scene()[0], **arguments)


def test_one_cloud_cannot_be_tuned():
    with pytest.raises(InvalidObservations, match="at least 2 are needed"):
        selection.tune(scene()[0][:1])


def test_a_fold_that_leaves_a_cloud_too_few_landmarks_is_named():
    points, _ = scene(n=4, m=12, hidden=0.0)
    points[2, 6:] = np.nan
    with pytest.raises(InvalidSetting, match="leaves cloud 2 with"):
        selection.cross_validate(AffineGPA(), points, folds=3)


def test_tuning_on_real_faces_avoids_collapsed_maps():
    from kernelgpa.observations.sampling import farthest_points

    vertices = load("data/faces.npz")["vertices"].astype(np.float64)
    points = vertices[:, farthest_points(vertices[0], 80)]
    best = selection.tune(
        points, grid={"bandwidth": (0.25, 1.0), "smoothing": (1e-4, 1e-2, 1.0)}, folds=5, rounds=0
    ).best
    assert not [finding for finding in best.diagnose() if finding.kind in ("collapsed map", "folded warps")]


def test_a_fold_that_disconnects_the_clouds_or_flattens_one_is_named():
    rng = np.random.default_rng(0)
    body = rng.standard_normal((40, 3))
    points = np.stack([body @ random_rotation(3, rng).T for _ in range(4)])
    groups = points.copy()
    groups[:2, 24:] = np.nan
    groups[2:, :16] = np.nan
    for model in MODELS:
        with pytest.raises(InvalidSetting, match="without fold 0 the clouds are not connected"):
            selection.cross_validate(model, groups, folds=[range(16, 24)])
    body[2:, 2] = 0
    flat = np.stack([body @ random_rotation(3, rng).T for _ in range(4)])
    for model in MODELS:
        with pytest.raises(InvalidSetting, match="fold 0 leaves cloud 0 flat"):
            selection.cross_validate(model, flat, folds=[[0, 1]])


@pytest.mark.parametrize("model", [AffineGPA(), fixed_tps(control_points=3), fixed_kernel(bandwidth=1.0)], ids=repr)
def test_flat_clouds_in_space_are_scored_as_in_the_plane(model):
    flat, _ = scene(n=5, m=40, d=2, seed=2, hidden=0.0, bend=0.05)
    rng = np.random.default_rng(0)
    raised = np.concatenate([flat, np.zeros((5, 40, 1))], axis=2)
    turned = np.stack([one @ random_rotation(3, rng).T for one in raised])
    in_space, in_plane = (selection.cross_validate(model, points, folds=5).sensor_rms for points in (turned, flat))
    assert in_space == pytest.approx(in_plane, rel=0.5)


def test_wrong_matches_do_not_change_the_tuned_setting_of_a_robust_fit():
    clean, _ = scene(n=10, m=60, seed=2, bend=0.1, noise=0.01, hidden=0.0)
    wrong, _ = exchanged(clean, 0.1)
    grid = {"bandwidth": (0.25, 1.0), "smoothing": (1e-3, 0.1, 10.0)}
    model = fixed_kernel(robust="geman-mcclure")
    of_clean, of_wrong = (selection.tune(points, model, grid, folds=5, rounds=0) for points in (clean, wrong))
    scores = {tuple(trial.settings.values()): trial.score for trial in of_clean.trials}
    assert (  # two of the settings are nearly as good as each other
        scores[tuple(of_wrong.settings.values())] < 1.1 * of_clean.best_trial.score < 0.8 * max(scores.values())
    )


def test_tuning_in_processes_gives_the_same_trials_and_refines_whole_numbers():
    points, _ = scene(n=5, m=40, seed=2, bend=0.1, hidden=0.1)
    grid = {"smoothing": (1, 10), "bandwidth": (0.5, 1.0)}
    in_one, in_two = (selection.tune(points, grid=grid, folds=4, rounds=1, n_jobs=n_jobs) for n_jobs in (None, 2))
    assert [t.settings for t in in_one.trials] == [t.settings for t in in_two.trials]
    assert_allclose([t.sensor_rms for t in in_one.trials], [t.sensor_rms for t in in_two.trials], rtol=1e-9)
    assert any(1 < trial.settings["smoothing"] < 10 for trial in in_one.trials)
    assert "smoothing" in in_one.at_edge


def test_the_number_of_settings_is_known_from_the_start_of_a_round():
    reported = []
    selection.tune(
        scene(n=4, m=30, hidden=0.0)[0],
        grid={"bandwidth": (0.25, 0.5, 1.0)},
        folds=3,
        rounds=1,
        progress=lambda done, total, _: reported.append((done, total)),
    )
    assert reported[:3] == [(1, 3), (2, 3), (3, 3)]
    assert reported[-1][0] == reported[-1][1]


def test_a_setting_that_is_invalid_for_the_data_does_not_end_the_search():
    tuning = selection.tune(scene(n=4, m=30, hidden=0.0)[0], grid={"modes": (100, "auto")}, folds=3, rounds=0)
    assert tuning.trials[0].sensor_rms == np.inf
    assert "modes is 100" in tuning.trials[0].failure
    assert tuning.best.modes == "auto"


def test_a_prediction_does_not_depend_on_observations_of_its_fold():
    points, _ = scene(n=5, m=30, seed=1, hidden=0.1)
    moved = points.copy()
    moved[2, 7] += 5.0  # an observation that is left out
    first, second = (selection.cross_validate(AffineGPA(modes="program"), p, folds=[[7]]) for p in (points, moved))
    others = np.arange(5) != 2
    assert_allclose(second.predictions[others, 7], first.predictions[others, 7], rtol=0, atol=1e-9)


def test_the_repr_of_a_cross_validation_shows_its_score():
    result = selection.cross_validate(fixed_kernel(), scene()[0], folds=4)
    assert f"sensor_rms={result.sensor_rms:.6g}" in repr(result)


def test_the_tuning_surface_is_plotted():
    points, _ = scene(n=5, m=40, seed=2, bend=0.1, hidden=0.1)
    grid = {"bandwidth": (0.25, 100.0), "smoothing": (1e-18, 1e-2, 1.0)}
    tuning = selection.tune(points, grid=grid, folds=4, rounds=0)
    ax = plotting.tuning_surface(tuning, unit="mm")
    assert "best: bandwidth" in ax.get_title()
    failed = sum(not np.isfinite(trial.sensor_rms) for trial in tuning.trials)
    assert failed > 0
    assert len(ax.lines[0].get_xdata()) == failed


class _UnpicklableKernel(Kernel):
    """A kernel that cannot be sent to another process."""

    def value(self, r):
        return np.exp(-r)

    def derivative_over_r(self, r):
        return -np.exp(-r) / np.maximum(r, 1e-12)

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        raise TypeError("cannot be pickled")


def test_a_kernel_that_cannot_be_sent_to_other_processes_is_named():
    points = scene(n=4, m=30, hidden=0.0)[0]
    with pytest.raises(InvalidSetting, match="cannot be sent to other processes"):
        selection.tune(points, fixed_kernel(kernel=_UnpicklableKernel()), {"bandwidth": [0.3, 0.5]}, rounds=0, n_jobs=2)


def test_more_processes_than_settings_are_not_started():
    points = scene(n=4, m=30, hidden=0.0)[0]
    assert len(selection.tune(points, fixed_kernel(), {"bandwidth": [0.3]}, rounds=0, n_jobs=10**6).trials) == 1


def test_an_array_in_place_of_an_estimator_is_named_in_one_line():
    points = scene(n=4, m=30, hidden=0.0)[0]
    with pytest.raises(InvalidSetting, match="expected RigidGPA") as caught:
        selection.tune(fixed_kernel(), points)
    assert len(str(caught.value)) < 200


def test_a_setting_whose_score_is_nan_does_not_win():
    problem = screen(as_observations(scene(n=4, m=30, hidden=0.0, noise=0.01)[0]))

    def validate(estimator, *arguments):
        result = cross_validate_problem(estimator, *arguments)
        if estimator.bandwidth == 0.2:
            return SimpleNamespace(weights=None, scores=lambda *_: (np.nan, np.nan, np.nan))
        return result

    scoring = Scoring(problem, landmark_folds(3, problem), robust=False, validate=validate)
    searches = [GridSearch(fixed_kernel(), {"bandwidth": [0.2, 0.5]})]
    tuning = selection.search_settings(searches, scoring, rounds=0)
    assert tuning.best_trial.settings == {"bandwidth": 0.5}
    assert "double precision" in tuning.trials[0].failure


def test_a_bandwidth_below_all_distances_raises():
    with pytest.raises(InvalidSetting, match="bandwidth is 1e-300"):
        fixed_kernel(bandwidth=1e-300).fit(scene()[0])


def test_a_progress_that_cannot_be_called_raises_at_once():
    with pytest.raises(InvalidSetting, match="progress"):
        selection.tune(scene()[0], fixed_kernel(), {"bandwidth": [0.5]}, progress=3)


def test_any_positive_number_of_jobs_is_accepted():
    points = scene(n=4, m=30, hidden=0.0)[0]
    fixed_kernel(n_jobs=10**30).fit(points)
    for n_jobs in (0, True, "a", 1.5):
        with pytest.raises(InvalidSetting, match="n_jobs"):
            fixed_kernel(n_jobs=n_jobs).fit(points)


def test_a_robust_fit_is_not_preferred_for_rejecting_what_deforms():
    """A third of the landmarks moves independently, and stiff warps agree perfectly about the others."""
    rng = np.random.default_rng(0)
    template = rng.standard_normal((60, 3))
    points = np.repeat(template[None], 8, axis=0)
    near = np.linalg.norm(template - template[0], axis=1)
    moving = near <= np.sort(near)[20]
    bump = np.exp(-((near / near[moving].max()) ** 2))[:, None]
    for cloud in points:
        cloud += 0.8 * bump * moving[:, None] * rng.standard_normal(3)
    points += 0.002 * rng.standard_normal(points.shape)
    grid = {"bandwidth": [0.5], "smoothing": [1e-3, 1e2]}
    tuning = selection.tune(points, fixed_kernel(robust="geman-mcclure"), grid, folds=5, rounds=0)
    assert tuning.settings["smoothing"] == 1e-3
    flexible, stiff = (fixed_kernel(bandwidth=0.5, smoothing=s, robust="geman-mcclure") for s in (1e-3, 1e2))
    scores = [selection.cross_validate(model, points, folds=5).sensor_rms for model in (flexible, stiff)]
    assert scores[1] < scores[0]  # by the weights of their own fits the stiff warps would have won


def test_the_scores_are_those_of_the_lengths_of_the_residuals():
    result = selection.cross_validate(fixed_kernel(), scene(n=6, m=40, hidden=0.2, noise=0.02)[0], folds=4)
    lengths = np.linalg.norm(result.residuals, axis=2)
    lengths = np.sort(lengths[~np.isnan(lengths)])
    assert_allclose(result.sensor_rms, np.sqrt(np.mean(lengths**2)), rtol=1e-12)
    middle = lengths[(len(lengths) - 1) // 2 : len(lengths) // 2 + 1]
    assert middle.min() <= result.sensor_median <= middle.max()
    kept = -(-9 * len(lengths) // 10)  # nine tenths, rounded up
    assert_allclose(result.sensor_trimmed, lengths[:kept].mean(), rtol=2 / len(lengths))


def test_rigid_motions_win_by_default_where_nothing_deforms():
    rng = np.random.default_rng(0)
    body = rng.standard_normal((15, 3))
    points = np.stack([body @ random_rotation(3, rng).T for _ in range(5)]) + 0.05 * rng.standard_normal((5, 15, 3))
    tuning = selection.tune(points, folds=3, rounds=1)
    assert {trial.model for trial in tuning.trials} == {"KernelGPA", "RigidGPA", "AffineGPA"}
    assert isinstance(tuning.best, RigidGPA)
    sizes = np.array([1.0, 1.3, 0.8, 1.1, 0.9])
    scaled = selection.tune(sizes[:, None, None] * points, folds=3, rounds=0)
    assert scaled.best_trial.model == "RigidGPA"
    assert scaled.settings == {"scaling": True}
    only = selection.tune(points, grid={"bandwidth": (0.5,)}, folds=3, rounds=0)
    assert {trial.model for trial in only.trials} == {"KernelGPA"}


def test_failures_are_counted():
    points, _ = scene(n=4, m=30, hidden=0.0)
    tuning = selection.tune(points, grid={"smoothing": (1e-18, 0.1), "bandwidth": (100.0,)}, folds=3, rounds=0)
    assert tuning.failures == 1


def test_clouds_that_take_part_are_the_same_for_all_settings():
    points, _ = scene(n=4, m=30, hidden=0.0)
    with pytest.raises(InvalidSetting, match="differ in mirrored"):
        selection.tune(points, grid=[(RigidGPA(), {}), (AffineGPA(mirrored="keep"), {})])
    with pytest.raises(InvalidSetting, match="grid names mirrored"):
        selection.tune(points, RigidGPA(), {"mirrored": ["keep"]})

"""Laws of ShapeModel: PCA, conditioning, invariance, calibration, bad input."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2
from sklearn.base import clone
from sklearn.decomposition import PCA

from kernelgpa import (
    InvalidObservations,
    InvalidSetting,
    KernelGPA,
    KernelGPAError,
    NotFitted,
    Observations,
    RigidGPA,
    ShapeModel,
    simulate,
)
from kernelgpa.shape.alignment import aligned
from kernelgpa.shape.gaussian import DenseGaussian
from shared_data import load

FIXED = {"shrinkage": 0.2, "bandwidth": 0.5, "noise": 0.01}


def rotation(rng, d=3):
    Q, R = np.linalg.qr(rng.standard_normal((d, d)))
    Q = Q * np.sign(np.diag(R))
    Q[:, 0] *= np.sign(np.linalg.det(Q))
    return Q


def gaussian_shapes(seed=0, n=40, m=15, d=3, hidden=0.0, modes=4, noise=0.02):
    """Clouds of random pose whose shapes have a known mean and few modes."""
    rng = np.random.default_rng(seed)
    mean = rng.standard_normal((m, d)) * [3.0, 2.0, 1.0][:d]
    basis = rng.standard_normal((modes, m, d)) / np.sqrt(m)
    scores = rng.standard_normal((n, modes)) / np.arange(1, modes + 1)
    shapes = mean + np.einsum("nk,kmd->nmd", scores, basis) + noise * rng.standard_normal((n, m, d))
    points = np.stack([one @ rotation(rng, d).T + rng.standard_normal(d) for one in shapes])
    mask = rng.random((n, m)) < hidden
    return np.where(mask[:, :, None], np.nan, points), points, mask


@pytest.fixture(scope="module")
def incomplete():
    points, truth, mask = gaussian_shapes(hidden=0.15)
    return points, truth, mask, ShapeModel().fit(points)


@pytest.mark.parametrize("scaling", [False, True])
def test_complete_data_without_a_kernel_give_principal_components(scaling):
    points, _, _ = gaussian_shapes()
    model = ShapeModel(shrinkage=0.0, noise=0.01, bandwidth=0.5, scaling=scaling, robust=False).fit(points)
    flat = model.aligned_.reshape(len(points), -1)
    count = len(model.variances_)
    pca = PCA(n_components=count).fit(flat)
    np.testing.assert_allclose(model.mean_.ravel(), pca.mean_, atol=1e-8)
    np.testing.assert_allclose(model.variances_, pca.explained_variance_, atol=1e-8)
    np.testing.assert_allclose(model.explained_variance_ratio_, pca.explained_variance_ratio_, atol=1e-8)
    first = model.modes_[:4].reshape(4, -1)
    signs = np.sign(np.sum(first * pca.components_[:4], axis=1))
    np.testing.assert_allclose(first, signs[:, None] * pca.components_[:4], atol=1e-8)
    np.testing.assert_allclose(model.scores_[:, :4], signs * pca.transform(flat)[:, :4], atol=1e-8)


@pytest.mark.parametrize("scaling", [False, True])
def test_new_clouds_get_the_scores_of_the_same_clouds_in_the_fit(scaling):
    points, _, _ = gaussian_shapes()
    model = ShapeModel(scaling=scaling, robust=False, **FIXED).fit(points)
    scale = np.sqrt(model.variances_[0])
    # the rotations of a registration are stationary to the root of rounding error
    np.testing.assert_allclose(model.transform(points), model.scores_, atol=1e-5 * scale)


@pytest.mark.parametrize("scaling", [False, True])
def test_new_clouds_are_registered_to_the_mean_shape(scaling):
    points, _, mask = gaussian_shapes(hidden=0.1)
    model = ShapeModel(scaling=scaling, robust=False, **FIXED).fit(points)
    found = model.align(points[:5])
    assert np.array_equal(np.isnan(found[:, :, 0]), mask[:5])
    rng = np.random.default_rng(1)
    turned = 3.0**scaling * points[:5] @ rotation(rng).T + rng.standard_normal(3)
    np.testing.assert_allclose(model.align(turned), found, atol=1e-9)
    mean = model.mean_
    for one in found:  # no motion of it is closer to the mean shape
        seen = ~np.isnan(one[:, 0])
        offset = one[seen] - mean[seen]
        np.testing.assert_allclose(offset.mean(axis=0), 0, atol=1e-9)
        moments = one[seen].T @ offset
        np.testing.assert_allclose(moments, moments.T, atol=1e-9)


def test_seen_landmarks_are_returned_bit_for_bit(incomplete):
    points, _, mask, model = incomplete
    complete, covariances = model.impute(return_cov=True)
    assert np.array_equal(complete[~mask], points[~mask])
    assert not covariances[~mask].any()
    assert np.isfinite(complete).all()
    assert (np.linalg.eigvalsh(covariances[mask]) > 0).all()


def test_unseen_landmarks_are_predicted_within_their_regions(incomplete):
    _, truth, mask, model = incomplete
    complete, covariances = model.impute(return_cov=True)
    error = (truth - complete)[mask]
    squares = np.einsum("ki,ki->k", error, np.linalg.solve(covariances[mask], error[..., None])[..., 0])
    share, count = np.mean(squares <= chi2(3).ppf(0.9)), mask.sum()
    assert abs(share - 0.9) < 4 * np.sqrt(0.09 / count) + 0.03  # 3 %: the calibration has an error of its own
    assert np.sqrt(np.mean(error**2)) < 0.3 * np.sqrt(np.mean((truth - truth.mean(axis=0)) ** 2))


def test_the_expected_error_contains_the_long_tail_of_the_errors():
    """One landmark moves freely, so that errors far above ten medians are usual."""
    points, truth, mask = gaussian_shapes(n=60, hidden=0.15, noise=0.005)
    free = np.random.default_rng(1).standard_normal((60, 3))
    points[:, 3] += free
    truth[:, 3] += free
    model = ShapeModel(robust=False, shrinkage=0.05, bandwidth=0.5, noise=1e-4).fit(points)
    error = np.sqrt(np.mean(np.sum((model.impute() - truth)[mask] ** 2, axis=1)))
    assert model.expected_error_.rms > 10 * model.expected_error_.median
    # 9 unseen observations of the free landmark make up the true error; a mean of so few squares is known to a third
    assert 0.5 < model.expected_error_.rms / error < 2


def test_the_expected_error_is_that_in_the_frames_of_clouds_of_different_size():
    points, truth, mask = gaussian_shapes(n=60, hidden=0.15)
    factors = np.geomspace(0.1, 10, 60)[:, None, None]
    model = ShapeModel(scaling=True, **FIXED).fit(factors * points)
    errors = np.linalg.norm(model.impute() - factors * truth, axis=2)[mask]
    # the size of the mean shape is 3.3 times the median of those of the clouds
    assert 0.7 < model.expected_error_.median / np.median(errors) < 1.4


def test_motions_names_and_order_change_nothing(incomplete):
    points, *_ = incomplete
    rng = np.random.default_rng(5)
    reference = ShapeModel(**FIXED).fit(points)
    complete, covariances = reference.impute(return_cov=True)
    order, columns = rng.permutation(len(points)), rng.permutation(points.shape[1])
    turns, shifts = np.stack([rotation(rng) for _ in points]), rng.standard_normal((len(points), 3))
    moved = np.einsum("nij,nmj->nmi", turns, points) + shifts[:, None]
    names = [f"cloud {t}" for t in order]
    other = ShapeModel(**FIXED).fit(
        Observations.from_array(moved[np.ix_(order, columns)], clouds=names, landmarks=[f"{j}" for j in columns])
    )
    found, spread = other.impute(return_cov=True)
    expected = (np.einsum("nij,nmj->nmi", turns, complete) + shifts[:, None])[np.ix_(order, columns)]
    scale = np.sqrt(reference.variances_[0])
    np.testing.assert_allclose(found, expected, atol=1e-5 * scale)
    np.testing.assert_allclose(other.variances_, reference.variances_, atol=1e-5 * scale**2)
    turned = np.einsum("nij,nmjk,nlk->nmil", turns, covariances, turns)[np.ix_(order, columns)]
    np.testing.assert_allclose(spread, turned, atol=1e-5 * scale**2)


def test_units_change_lengths_alone(incomplete):
    points, _, _, model = incomplete
    other = ShapeModel().fit(1000 * points)
    assert (other.shrinkage_, other.bandwidth_, other.noise_) == (model.shrinkage_, model.bandwidth_, model.noise_)
    np.testing.assert_allclose(other.variances_[:4], 1e6 * model.variances_[:4], rtol=1e-5)
    np.testing.assert_allclose(other.impute() / 1000, model.impute(), atol=1e-5)


def test_scores_and_shapes_are_inverse_to_each_other():
    model = ShapeModel(robust=False, **FIXED).fit(gaussian_shapes()[0])
    scores = np.random.default_rng(1).standard_normal((3, len(model.variances_))) * 0.01 * np.sqrt(model.variances_)
    back = model.transform(model.inverse_transform(scores))
    # a shape that is posed anew loses what looks like a motion: second order in the scores
    np.testing.assert_allclose(back[:, :3], scores[:, :3], atol=1e-2 * np.abs(scores).max())


def test_samples_have_the_variances_of_the_modes(incomplete):
    *_, model = incomplete
    samples = model.sample(4000, random_state=0)
    scores = np.einsum("nmd,kmd->nk", samples - model.mean_, model.modes_[:3])
    np.testing.assert_allclose(scores.var(axis=0), model.variances_[:3], rtol=5 * np.sqrt(2 / 4000))


def test_scores_of_clouds_with_unseen_landmarks_are_less_certain(incomplete):
    *_, mask, model = incomplete
    complete = ~mask.any(axis=1)
    assert not model.score_deviations_[complete].any()
    assert (model.score_deviations_[~complete, 0] > 0).all()


def test_a_likelier_shape_has_the_larger_likelihood(incomplete):
    *_, model = incomplete
    typical = model.inverse_transform(np.sqrt(model.variances_[:1]))
    far = model.inverse_transform(20 * np.sqrt(model.variances_[:1]))
    assert model.log_likelihood(typical)[0] > model.log_likelihood(far)[0]


def test_new_clouds_are_completed(incomplete):
    points, truth, mask, _ = incomplete
    t = int(np.argmax(mask.any(axis=1)))
    one = ShapeModel(**FIXED).fit(np.delete(points, t, axis=0))
    complete, covariances = one.impute(points[[t]], return_cov=True)
    assert np.array_equal(complete[0, ~mask[t]], points[t, ~mask[t]])
    error = np.linalg.norm(complete[0] - truth[t], axis=1)[mask[t]]
    assert (error < 10 * np.sqrt(np.trace(covariances[0, mask[t]], axis1=1, axis2=2))).all()


def test_exchanged_landmarks_are_rejected_and_do_not_steer_the_modes():
    points, _, _ = gaussian_shapes(n=60)
    along = np.argsort(ShapeModel(robust=False, **FIXED).fit(points).mean_[:, 0])
    # far apart: within the usual variation an exchange cannot be told; and one that is repeated would be a mode
    wrong, pairs = points.copy(), {t: (along[k], along[-1 - k]) for k, t in enumerate((3, 17, 40))}
    for t, (i, j) in pairs.items():
        wrong[t, [i, j]] = wrong[t, [j, i]]
    clean, model = ShapeModel().fit(points), ShapeModel().fit(wrong)
    moved = {(t, j) for t, pair in pairs.items() for j in pair}
    rejected = {tuple(one) for one in np.argwhere(model._fit.clouds.rejected)}
    assert moved <= rejected
    assert len(rejected) <= len(moved) + 2
    assert {(one.cloud, one.landmark) for one in model.suspicious_observations(6)} == moved
    np.testing.assert_allclose(model.variances_[0], clean.variances_[0], rtol=0.05)


@pytest.mark.filterwarnings("ignore::kernelgpa.KernelGPAWarning")  # of the mirror image
@pytest.mark.parametrize("mirrored", ["leave-out", "keep"])
def test_a_mirror_image_counts_if_the_registration_kept_it(mirrored):
    rng = np.random.default_rng(0)
    points = rng.standard_normal((20, 3)) + 0.03 * rng.standard_normal((10, 20, 3))
    points[3, :, 0] *= -1
    gpa = RigidGPA(mirrored=mirrored).fit(points)
    assert gpa.mirrored_ == [3]
    model = ShapeModel(robust=False, **FIXED).fit(gpa)
    assert model._fit.clouds.weights.tolist() == [float(t != 3 or mirrored == "keep") for t in range(10)]


def test_a_cloud_counts_less_if_it_is_badly_predicted_without_its_rejected_observations():
    points, _, _ = gaussian_shapes(n=60)
    points[17, [3, 14]] = points[17, [14, 3]]
    points[40] += 0.3 * np.random.default_rng(1).standard_normal(points[40].shape)
    model = ShapeModel(**FIXED).fit(points)
    assert model._fit.clouds.rejected[17].sum() == 2
    assert model.badly_predicted_ == np.flatnonzero(model._fit.clouds.weights < 1).tolist()
    assert 40 in model.badly_predicted_
    assert 17 not in model.badly_predicted_


@pytest.mark.filterwarnings("ignore::kernelgpa.KernelGPAWarning")  # a walker nearly is its own mirror image
def test_a_landmark_that_would_be_rejected_often_keeps_its_observations():
    """Markers of a walker in gaps of 20 frames: parts of the motion are shown by no other frame, and are no error."""
    truth = simulate.walker(clouds=100, gap=1, hidden=0.0, noise=1.0, seed=13).points
    hidden = np.isnan(simulate.walker(clouds=100, gap=20, hidden=0.1, seed=13).points[:, :, 0])
    model = ShapeModel(shrinkage=0.00625, bandwidth=0.6, noise=0.02)
    model.fit(np.where(hidden[:, :, None], np.nan, truth))
    rejected, seen = model._fit.clouds.rejected.sum(axis=0), (~hidden).sum(axis=0)
    assert (rejected <= np.maximum(2, 0.1 * seen)).all()


@pytest.mark.parametrize("d", [2, 3])
def test_two_and_three_dimensions(d):
    points, truth, mask = gaussian_shapes(d=d, hidden=0.1, n=25)
    complete = ShapeModel().fit(points).impute()
    assert np.sqrt(np.mean((complete - truth)[mask] ** 2)) < 0.3


def test_many_landmarks_use_the_low_rank_form_and_predict_as_well():
    rng = np.random.default_rng(0)
    mean = rng.standard_normal((700, 3)) * [3, 2, 1]
    waves = np.stack([np.sin(mean @ rng.standard_normal((3, 3)) + rng.uniform(0, 6, 3)) for _ in range(4)])
    truth = mean + np.einsum("nk,kmd->nmd", 0.3 * rng.standard_normal((20, 4)), waves)
    truth += 0.01 * rng.standard_normal(truth.shape)
    mask = rng.random(truth.shape[:2]) < 0.2
    model = ShapeModel(shrinkage=0.1, bandwidth=0.5, noise=0.01).fit(np.where(mask[:, :, None], np.nan, truth))
    assert not isinstance(model._fit.frozen.gaussian, DenseGaussian)
    error = np.sqrt(np.mean((model.impute() - truth)[mask] ** 2))
    assert error < 0.3 * np.sqrt(np.mean((truth - truth.mean(axis=0)) ** 2))


def test_a_registration_can_be_given(incomplete):
    points, *_ = incomplete
    gpa = RigidGPA().fit(points)
    model = ShapeModel(**FIXED).fit(gpa)
    assert model.alignment_ == "RigidGPA"
    np.testing.assert_array_equal(model._fit.frozen.shapes.positions, aligned(gpa, gpa.observations_).positions)


@pytest.mark.parametrize(
    ("points", "message"),
    [
        (gaussian_shapes(n=2)[0], "2 clouds"),
        (np.repeat(gaussian_shapes(n=1)[0], 5, axis=0), "equal"),
        (np.where(np.arange(15)[:, None] == 4, np.nan, gaussian_shapes()[0]), "no cloud saw"),
    ],
)
def test_clouds_without_a_distribution_of_shapes_are_refused(points, message):
    with pytest.raises(InvalidObservations, match=message):
        ShapeModel().fit(points)


@pytest.mark.parametrize(
    "settings",
    [
        {"n_modes": 40},
        {"n_modes": 0},
        {"n_modes": 2.5},
        {"shrinkage": 1.5},
        {"shrinkage": "none"},
        {"noise": -1.0},
        {"scaling": "yes"},
        {"n_jobs": "all"},
    ],
)
def test_settings_out_of_range_are_refused(settings):
    with pytest.raises(InvalidSetting, match=next(iter(settings))):
        ShapeModel(**settings).fit(gaussian_shapes()[0])


def test_scores_and_clouds_that_are_not_valid_are_refused(incomplete):
    *_, model = incomplete
    with pytest.raises(InvalidObservations, match="NaN"):
        model.inverse_transform([[np.nan]])
    with pytest.raises(InvalidObservations, match="shape"):
        model.inverse_transform(np.zeros((1, 99)))
    for scores in (["a"], [[1.0], [1.0, 2.0]]):
        with pytest.raises(InvalidObservations, match="numbers"):
            model.inverse_transform(scores)
    for count in (0, -1, 2.5, True):
        with pytest.raises(InvalidSetting, match="number of samples"):
            model.sample(count)
        with pytest.raises(InvalidSetting, match="number of observations"):
            model.suspicious_observations(count)
    with pytest.raises(InvalidObservations, match="shape"):
        model.transform(np.zeros((2, 3, 3)))
    with pytest.raises(NotFitted):
        clone(model).impute()


def test_landmarks_that_were_never_seen_together_are_named():
    points, _, _ = gaussian_shapes()
    points[:20, 3], points[20:, 8] = np.nan, np.nan
    with pytest.warns(UserWarning, match="never seen in the same cloud"):
        model = ShapeModel(**FIXED).fit(points)
    assert np.isfinite(model.impute()).all()


def test_a_landmark_that_is_never_seen_with_others_is_an_error():
    points, _, _ = gaussian_shapes()
    points[0, 1:], points[1:, 0] = np.nan, np.nan  # cloud 0 sees landmark 0 alone, and no other cloud sees it
    with pytest.raises(KernelGPAError, match="cloud 0"):
        ShapeModel(**FIXED).fit(points)


def test_weights_that_are_all_multiplied_by_a_number_change_nothing(incomplete):
    points, _, mask, _ = incomplete
    weights = np.where(np.random.default_rng(2).random(mask.shape) < 0.2, 0.25, 1.0)
    one, other = (ShapeModel(**FIXED).fit(points, weights=factor * weights) for factor in (1.0, 4.0))
    np.testing.assert_array_equal(other.impute(), one.impute())
    np.testing.assert_array_equal(other.variances_, one.variances_)


def test_an_observation_of_vanishing_weight_counts_as_unseen(incomplete):
    points, truth, mask, _ = incomplete
    wrong = points.copy()
    wrong[5, 2] = truth[5, 2] + 1.0
    assert not mask[5, 2]
    weights = np.ones(mask.shape)
    weights[5, 2] = 1e-9
    hidden = points.copy()
    hidden[5, 2] = np.nan
    settings = {**FIXED, "robust": False}
    light, unseen = ShapeModel(**settings).fit(wrong, weights=weights), ShapeModel(**settings).fit(hidden)
    plain = ShapeModel(**settings).fit(wrong)
    scale = np.sqrt(unseen.variances_[0])
    # the expected order is 1e-9, times the 1e4 by which the pose variance exceeds the noise
    np.testing.assert_allclose(light.mean_, unseen.mean_, atol=1e-4 * scale)
    np.testing.assert_allclose(light.variances_[:3], unseen.variances_[:3], rtol=1e-4)
    assert np.abs(plain.mean_ - unseen.mean_).max() > 1e-2 * scale


def test_ape_skulls_are_predicted_better_than_by_kernels():
    points = load("data/automatic/apes.npz")["manual"].astype(float)
    mask = np.random.default_rng(0).random(points.shape[:2]) < 0.2
    given = np.where(mask[:, :, None], np.nan, points)
    learned = np.linalg.norm(ShapeModel(scaling=True).fit(given).impute() - points, axis=2)[mask].mean()
    kernel = np.linalg.norm(KernelGPA().fit(given).impute() - points, axis=2)[mask].mean()
    assert learned < 0.85 * kernel


def test_the_mean_of_clouds_without_size_is_the_full_procrustes_mean():
    """In the plane it is the first eigenvector of the sum of z z* over the clouds, as complex numbers of unit size."""
    points, _, _ = gaussian_shapes(d=2, n=30)
    z = points[:, :, 0] + 1j * points[:, :, 1]
    z = z - z.mean(axis=1, keepdims=True)
    z = z / np.linalg.norm(z, axis=1, keepdims=True)
    expected = np.linalg.eigh(z.T @ z.conj())[1][:, -1]
    mean = ShapeModel(shrinkage=0.0, bandwidth=0.5, noise=0.01, scaling=True, robust=False).fit(points).mean_
    found = mean[:, 0] + 1j * mean[:, 1]
    # sizes and rotations are optimised in turn until a relative change of 1e-12, which linear convergence makes 1e-8
    np.testing.assert_allclose(abs(np.vdot(found, expected)), np.linalg.norm(found), rtol=1e-8)

"""Estimators follow scikit-learn's conventions, check their settings, and give results that can be stored."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

from conftest import scene
from fixed_settings import fixed_kernel, fixed_tps
from kernelgpa import (
    AffineGPA,
    InvalidObservations,
    InvalidSetting,
    KernelGPAError,
    NotFitted,
    NumericalFailure,
    Observations,
    RigidGPA,
    StreamingGPA,
    load,
    save,
)
from kernelgpa.warps import reduce
from kernelgpa.warps.kernels import Gaussian

MODELS = [RigidGPA(), AffineGPA(), fixed_tps(control_points=3), fixed_kernel(), fixed_kernel(inducing=10)]
every_model = pytest.mark.parametrize("model", MODELS, ids=repr)


@every_model
def test_clone_copies_the_settings_and_no_results(model):
    fitted = model.fit(scene()[0])
    copy = clone(fitted)
    assert copy.get_params() == fitted.get_params()
    assert not [name for name in vars(copy) if name.endswith("_")]


@every_model
def test_fitted_attributes_have_the_documented_shapes(model, dimension):
    points, _ = scene(n=6, m=40, d=dimension)
    gpa = model.fit(points)
    assert gpa.map_.shape == (40, dimension)
    assert gpa.scales_.shape == (dimension,)
    assert gpa.rotations_.shape == (6, dimension, dimension)
    assert gpa.translations_.shape == (6, dimension)
    assert gpa.eigenvalues_.shape == (dimension + 1,)
    assert len(gpa.warps_) == 6


@every_model
def test_an_array_a_list_and_observations_give_the_same_map(model):
    points, _ = scene()
    seen = ~np.isnan(points[:, :, 0])
    pairs = [(points[t, seen[t]], np.flatnonzero(seen[t])) for t in range(len(points))]
    from_array = model.fit(points).map_
    assert np.array_equal(model.fit(pairs).map_, from_array)
    assert np.array_equal(model.fit(Observations.from_array(points)).map_, from_array)


def test_clouds_are_selected_by_name_or_index():
    points, _ = scene()
    observations = Observations.from_array(points, clouds=list("abcdef"))
    gpa = fixed_kernel().fit(observations)
    query = np.zeros((2, 3))
    assert np.array_equal(gpa.transform(query, "c"), gpa.transform(query, 2))
    assert np.array_equal(gpa.transform(query, -1), gpa.transform(query, "f"))
    with pytest.raises(InvalidObservations, match="no cloud 'z'"):
        gpa.transform(query, "z")


@every_model
def test_a_pickled_estimator_transforms_points_identically(model):
    gpa = model.fit(scene()[0])
    query = np.random.default_rng(0).standard_normal((5, 3))
    assert np.array_equal(pickle.loads(pickle.dumps(gpa)).transform(query, 1), gpa.transform(query, 1))


@every_model
def test_weights_by_inverse_variance_lower_the_map_error(model):
    points, template = scene(n=8, m=40, hidden=0.0, seed=3, bend=0.0)
    rng = np.random.default_rng(0)
    noisy = points.copy()
    noisy[:, :20] += 0.2 * rng.standard_normal((8, 20, 3))
    weights = np.where(np.arange(40) < 20, 1 / 0.2**2, 1e4)

    def error(gpa):  # of the accurate landmarks, after alignment
        truth, found = (x[20:] - x[20:].mean(axis=0) for x in (template, gpa.map_))
        left, _, right = np.linalg.svd(found.T @ truth)
        return np.linalg.norm(found @ left @ right - truth)

    unweighted = error(model.fit(noisy))
    assert error(model.fit(noisy, weights=weights / weights.mean())) < 0.5 * unweighted


FAINT_WEIGHT_MODELS = [
    RigidGPA(),
    AffineGPA(),
    AffineGPA(modes="program"),
    fixed_kernel(),
    fixed_kernel(modes="program"),
]


@pytest.mark.parametrize("model", FAINT_WEIGHT_MODELS, ids=repr)
def test_a_vanishing_weight_tends_to_an_unseen_landmark(model):
    points, _ = scene(n=8, m=60, seed=3, hidden=0.1, bend=0.02)
    faint = np.where(np.arange(60) < 20, 1e-9, 1.0)
    kept = model.fit(points[:, 20:]).map_
    found = model.fit(points, weights=faint).map_[20:]
    found, kept = found - found.mean(axis=0), kept - kept.mean(axis=0)
    left, _, right = np.linalg.svd(found.T @ kept)
    # the allowed cost of the default map depends on the number of landmarks, and the kernel width on all points
    exact = isinstance(model, RigidGPA) or model is FAINT_WEIGHT_MODELS[2]
    tolerance = 1e-4 if exact else 0.05
    assert np.abs(found @ left @ right - kept).max() < tolerance * np.abs(kept).max()


@pytest.mark.parametrize("model", [RigidGPA(), AffineGPA(modes="program")], ids=repr)
def test_a_weight_of_two_equals_a_repeated_cloud(model):
    points, _ = scene(n=5, m=40, seed=3, hidden=0.1)
    weights = np.ones((5, 40))
    weights[2] = 2
    twice = model.fit(np.concatenate([points, points[[2]]])).map_
    assert_allclose(model.fit(points, weights=weights).map_, twice, atol=1e-3 * np.abs(twice).max())


def test_equal_weights_do_not_change_rigid_and_affine_maps():
    points, _ = scene()
    for model in (RigidGPA(), AffineGPA(), AffineGPA(modes="program")):
        plain = model.fit(points).map_
        heavy = model.fit(points, weights=np.full(40, 7.0)).map_
        assert_allclose(heavy, plain, atol=1e-10 * np.abs(plain).max())


@every_model
def test_an_unfitted_model_raises_not_fitted(model):
    with pytest.raises(NotFitted, match="call fit"):
        clone(model).transform(np.zeros((1, 3)), 0)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (fixed_kernel(kernel="cubic"), "kernel 'cubic' is unknown"),
        (fixed_kernel(bandwidth=0), "bandwidth is 0"),
        (fixed_kernel(bandwidth="wide"), "bandwidth is 'wide'"),
        (fixed_kernel(bandwidth=1e308), "bandwidth is 1e[+]308; above 1e[+]100"),
        (fixed_kernel(smoothing=-1.0), "smoothing is -1.0"),
        (fixed_kernel(smoothing=np.nan), "smoothing is nan"),
        (fixed_kernel(modes="many"), "modes is 'many'"),
        (fixed_kernel(modes=2), "between 3 and 38"),
        (fixed_kernel(modes=39), "between 3 and 38"),
        (fixed_kernel(scale_method="guess"), "scale_method is 'guess'"),
        (fixed_kernel(scale_method=["refined"]), "scale_method is .'refined'."),
        (fixed_kernel(modes=np.array([1, 2])), "modes is array"),
        (fixed_kernel(scale_method="pairwise"), "belongs to modes='paper'"),
        (fixed_kernel(inducing=0), "inducing is 0"),
        (fixed_tps(control_points=1), "control_points is 1"),
        (fixed_tps(smoothing=None), "smoothing is None"),
        (fixed_kernel(smoothing=[0.1, -1.0]), "smoothing is -1.0"),
        (fixed_kernel(smoothing=[]), "smoothing is \\[\\]"),
        (AffineGPA(method="qr"), "method is 'qr'"),
        (AffineGPA(method="svd", modes=7), "method='svd' takes modes"),
        (AffineGPA(method="svd"), "every landmark seen by every cloud"),
    ],
    ids=lambda value: value if isinstance(value, str) else repr(value),
)
def test_an_invalid_setting_is_named_with_the_expected_values(model, message):
    with pytest.raises(KernelGPAError, match=message):
        model.fit(scene()[0])


OWN_SMOOTHING = [0.02, 0.1, 1.0, 1e10, 0.05, 0.3]
SMOOTHED = [fixed_kernel(), fixed_kernel(inducing=12), fixed_kernel(modes="paper"), fixed_tps(control_points=3)]


@pytest.mark.parametrize("model", SMOOTHED, ids=repr)
@pytest.mark.parametrize("kind", [list, tuple, np.array])
def test_each_cloud_can_have_its_own_smoothing(model, kind):
    points, _ = scene(seed=1, hidden=0.2)
    gpa = clone(model).set_params(smoothing=kind(OWN_SMOOTHING)).fit(points)
    Q = np.zeros((40, 40))
    for t, (cloud, mu) in enumerate(zip(gpa.observations_.clouds, OWN_SMOOTHING, strict=True)):
        one = reduce(clone(model).set_params(smoothing=mu)._family(), cloud)
        Q[np.ix_(cloud.seen, cloud.seen)] += one.cost_matrix()
        assert_allclose(gpa._reduced_cloud(t).cost_matrix(), one.cost_matrix(), rtol=0, atol=1e-12)
        expected = one.fit_all([gpa.map_[cloud.seen]])[0](cloud.points)
        assert_allclose(gpa.warps_[t](cloud.points), expected, rtol=0, atol=1e-10)
    assert_allclose(gpa.eigenvalues_, np.linalg.eigvalsh(Q)[1:5], rtol=1e-7)
    assert gpa.smoothing_ == tuple(OWN_SMOOTHING)
    bending = [warp.energy for warp in gpa.warps_]
    assert np.argmin(bending) == 3


@pytest.mark.parametrize("model", SMOOTHED, ids=repr)
def test_equal_smoothing_of_all_clouds_is_one_smoothing(model):
    points, _ = scene(seed=1, hidden=0.2)
    one, each = (clone(model).set_params(smoothing=mu).fit(points) for mu in (0.07, [0.07] * 6))
    assert np.array_equal(one.map_, each.map_, equal_nan=True)


def test_smoothing_of_each_cloud_needs_as_many_values_as_clouds():
    points, _ = scene(seed=1)
    with pytest.raises(InvalidSetting, match="smoothing has 2 values for 6 clouds"):
        fixed_kernel(smoothing=[0.1, 0.2]).fit(points)
    with pytest.raises(InvalidSetting, match="clouds that come one at a time need a single value"):
        StreamingGPA(smoothing=[0.1, 0.2])


def test_smoothing_of_each_cloud_is_saved(tmp_path):
    points, _ = scene(seed=1, hidden=0.2)
    gpa = fixed_kernel(smoothing=np.array(OWN_SMOOTHING)).fit(points)
    save(gpa, tmp_path / "out")
    loaded = load(tmp_path / "out")
    assert loaded.smoothing_ == gpa.smoothing_
    assert loaded.smoothing == OWN_SMOOTHING
    assert np.array_equal(loaded._reduced_cloud(3).cost_matrix(), gpa._reduced_cloud(3).cost_matrix())
    assert "smoothing = [" in (tmp_path / "out" / "settings.toml").read_text(encoding="utf-8")


def test_a_smoothing_below_double_precision_is_refused():
    with pytest.raises(NumericalFailure, match="raise smoothing or lower bandwidth"):
        fixed_kernel(bandwidth=100.0, smoothing=1e-18).fit(scene(hidden=0.0)[0])


@pytest.mark.parametrize("points", [np.zeros((2, 4)), np.zeros((5, 2)), [["a", "b", "c"]], np.zeros(3)], ids=str)
def test_points_to_transform_are_checked(points):
    gpa = fixed_kernel().fit(scene()[0])
    with pytest.raises(InvalidObservations, match="points to warp"):
        gpa.transform(points, 0)


def test_unseen_query_points_stay_nan():
    points, _ = scene()
    warped = fixed_kernel().fit(points).transform_clouds(points)
    assert np.array_equal(np.isnan(warped), np.isnan(points))


def test_a_function_can_be_the_kernel():
    points, _ = scene()
    by_name = fixed_kernel(kernel="gaussian").fit(points).map_
    assert_allclose(fixed_kernel(kernel=lambda r: np.exp(-(r**2) / 2)).fit(points).map_, by_name, rtol=1e-12)
    assert np.array_equal(fixed_kernel(kernel=Gaussian()).fit(points).map_, by_name)


def test_settings_errors_are_value_errors():
    with pytest.raises(ValueError, match="bandwidth"):
        fixed_kernel(bandwidth=-1).fit(scene()[0])
    assert issubclass(InvalidSetting, KernelGPAError)


@pytest.mark.parametrize("smoothing", [1e-15, 1e-12])
def test_a_warp_dominated_by_rounding_is_refused(smoothing):
    points, _ = scene(m=60, hidden=0.0, bend=0.0)
    with pytest.raises(NumericalFailure, match="raise smoothing or lower bandwidth"):
        fixed_kernel(bandwidth=100.0, smoothing=smoothing).fit(points)


def test_weights_with_too_large_a_range_are_refused():
    weights = np.ones(40)
    weights[3] = 1e-12
    with pytest.raises(InvalidObservations, match="weights range from 1e-12 to 1"):
        fixed_kernel().fit(scene()[0], weights=weights)


UNSUPPORTED = {
    "scaling": RigidGPA(scaling="no"),
    "bandwidth": fixed_kernel(bandwidth=10**400),
    "control_points": fixed_tps(control_points=1000),
}


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_an_unsupported_setting_is_named(name):
    with pytest.raises(InvalidSetting, match=f"{name} is "):
        UNSUPPORTED[name].fit(scene()[0])

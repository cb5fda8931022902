"""Metrics agree with their definitions, also if clouds see only part of the points."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from conftest import random_rotation
from kernelgpa import InvalidObservations, InvalidSetting, metrics


@given(st.integers(0, 1000))
def test_consistency_is_the_spread_about_the_mean_of_the_clouds_that_saw_a_point(seed):
    rng = np.random.default_rng(seed)
    clouds = rng.standard_normal((5, 8, 3))
    clouds[rng.random((5, 8)) < 0.4] = np.nan
    clouds[:, 0] = np.nan
    delta, mean = metrics.consistency(clouds), metrics.mean_map(clouds)
    for j in range(8):
        seen = clouds[~np.isnan(clouds[:, j, 0]), j]
        if len(seen) == 0:
            assert np.isnan(delta[j])
            assert np.isnan(mean[j]).all()
            continue
        assert_allclose(mean[j], seen.mean(axis=0), rtol=1e-12, atol=1e-15)
        assert_allclose(delta[j], np.sqrt(np.mean(np.sum((seen - seen.mean(axis=0)) ** 2, axis=1))), atol=1e-15)


@given(st.floats(0.01, 100), st.integers(0, 100))
def test_consistency_scales_with_the_map(factor, seed):
    clouds = np.random.default_rng(seed).standard_normal((4, 6, 2))
    assert_allclose(metrics.consistency(factor * clouds), factor * metrics.consistency(clouds), rtol=1e-12)


def test_wrong_shapes_raise():
    with pytest.raises(InvalidObservations, match="expected \\(clouds, points, dimension\\)"):
        metrics.consistency(np.zeros((3, 2)))


def warped(seed):
    rng = np.random.default_rng(seed)
    clouds = rng.standard_normal((5, 8, 3))
    clouds[rng.random((5, 8)) < 0.3] = np.nan
    return clouds, rng.standard_normal((5, 8, 3, 3)) + 3 * np.eye(3)


@given(st.integers(0, 1000))
def test_sensor_error_is_the_difference_from_the_others_in_the_cloud_s_own_frame(seed):
    clouds, jacobians = warped(seed)
    errors = metrics.sensor_error(clouds, jacobians)
    for j in range(8):
        seen = np.flatnonzero(~np.isnan(clouds[:, j, 0]))
        if len(seen) < 2:
            assert np.isnan(errors[j])
            continue
        squares = []
        for t in seen:
            others = np.mean([clouds[u, j] for u in seen if u != t], axis=0)
            squares.append(np.sum(np.linalg.solve(jacobians[t, j], clouds[t, j] - others) ** 2))
        assert_allclose(errors[j], np.sqrt(np.mean(squares)), rtol=1e-10)


@given(st.integers(0, 100), st.floats(0.01, 100))
def test_the_sensor_error_does_not_change_with_the_scale_of_the_map(seed, factor):
    clouds, jacobians = warped(seed)
    plain = metrics.sensor_error(clouds, jacobians)
    assert_allclose(metrics.sensor_error(factor * clouds, factor * jacobians), plain, rtol=1e-9)


def test_a_singular_jacobian_gives_an_infinite_error():
    clouds, jacobians = warped(0)
    clouds[:2, 0] = 1.0
    clouds[1, 0] = 2.0
    jacobians[0, 0] = np.diag([1.0, 1.0, 0.0])
    assert metrics.sensor_error(clouds, jacobians)[0] == np.inf
    with pytest.raises(InvalidObservations, match="one matrix per point"):
        metrics.sensor_error(clouds, jacobians[:, :3])


def test_the_mean_of_others_is_weighted():
    rng = np.random.default_rng(0)
    clouds, weights = rng.standard_normal((5, 7, 3)), rng.uniform(0, 2, (5, 7))
    clouds[1, 2] = np.nan
    weights[3] = 0.0
    expected = np.full_like(clouds, np.nan)
    for t in range(5):
        for j in range(7):
            rest = [s for s in range(5) if s != t and not np.isnan(clouds[s, j, 0])]
            expected[t, j] = np.average(clouds[rest, j], axis=0, weights=weights[rest, j])
    assert_allclose(metrics.mean_of_others(clouds, weights), expected, atol=1e-12)
    with pytest.raises(InvalidObservations, match="weights have shape"):
        metrics.mean_of_others(clouds, -weights)


def test_the_map_error_ignores_landmarks_that_either_map_lacks():
    rng = np.random.default_rng(0)
    truth = rng.standard_normal((9, 3))
    found = truth @ random_rotation(3, rng).T + 1.0
    found[4] = np.nan
    assert metrics.map_error(found, truth) == pytest.approx(0.0, abs=1e-12)
    with pytest.raises(InvalidObservations, match="2 landmarks are known"):
        metrics.map_error(found[3:6], truth[3:6])


def test_the_sensor_error_of_tiny_maps_does_not_underflow():
    clouds = np.random.default_rng(0).standard_normal((4, 6, 3))
    jacobians = np.broadcast_to(np.diag([1.0, 2.0, 0.5]), (4, 6, 3, 3))
    tiny = metrics.sensor_error(1e-120 * clouds, 1e-120 * jacobians)
    assert_allclose(tiny, metrics.sensor_error(clouds, jacobians), rtol=1e-12)


def test_the_sensor_error_of_residuals_is_their_root_mean_square():
    residuals = np.array([[3.0, np.nan], [4.0, np.nan]])
    assert_allclose(metrics.sensor_error(residuals=residuals), [np.sqrt(12.5), np.nan])
    with pytest.raises(InvalidSetting, match="or residuals alone"):
        metrics.sensor_error(np.zeros((2, 3, 2)), residuals=residuals)
    with pytest.raises(InvalidObservations, match="expected lengths"):
        metrics.sensor_error(residuals=-residuals)

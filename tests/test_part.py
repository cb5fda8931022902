"""Leaving observations out by a Schur complement is the same as never having had them."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from conftest import scene
from kernelgpa import Observations
from kernelgpa.kernels import Gaussian
from kernelgpa.warps import AffineFamily
from kernelgpa.warps.kernel import DualCloud
from kernelgpa.warps.part import PartOfCloud, leave_one_out
from kernelgpa.warps.thin import ThinCloud, energy_features


def reducers(cloud):
    """Reduced forms whose settings do not depend on how many points there are."""
    unit = cloud.frame.to_unit(cloud.points)
    features = energy_features(Gaussian(), unit[:12], 0.8)

    def thin(one):
        moved = features._replace(
            centres=one.frame.to_unit(cloud.points[:12]), sigma=0.8 * cloud.frame.size / one.frame.size
        )
        return ThinCloud(one, moved, 0.1)

    return {
        "affine": AffineFamily().reduce,
        "dual": lambda one: DualCloud(one, Gaussian(), 0.8 * cloud.frame.size / one.frame.size, 0.1),
        "thin": thin,
    }


@pytest.fixture(params=["unit", "unequal"])
def cloud(request, dimension):
    points, _ = scene(n=2, m=25, d=dimension, hidden=0.0)
    weights = None if request.param == "unit" else np.random.default_rng(0).uniform(0.2, 3.0, (2, 25))
    return Observations.from_array(points, weights).clouds[0]


@pytest.mark.parametrize("form", ["affine", "dual", "thin"])
def test_a_part_is_the_cloud_without_the_rest(form, cloud):
    reduce = reducers(cloud)[form]
    kept = np.ones(25, dtype=bool)
    kept[[3, 8, 20, 21]] = False
    renumbered = np.cumsum(kept) - 1
    part = PartOfCloud(reduce(cloud), kept, renumbered)
    alone = reduce(cloud.only(kept, renumbered))
    scale = np.abs(alone.form()).max()
    assert np.array_equal(part.seen, alone.seen)
    assert_allclose(part.form(), alone.form(), rtol=0, atol=1e-9 * scale)
    targets = np.random.default_rng(1).standard_normal((21, cloud.points.shape[1]))
    expected = alone.fit(targets)(cloud.points[~kept])
    assert_allclose(part.predict(targets), expected, rtol=0, atol=1e-8)
    assert_allclose(part.fit(targets)(cloud.points), alone.fit(targets)(cloud.points), rtol=0, atol=1e-8)


@pytest.mark.parametrize("form", ["affine", "dual", "thin"])
def test_leave_one_out_residuals_are_those_of_refitting(form, cloud):
    reduce = reducers(cloud)[form]
    targets = np.random.default_rng(2).standard_normal((25, cloud.points.shape[1]))
    closed = leave_one_out(reduce(cloud), targets)
    for j in range(25):
        kept = np.arange(25) != j
        refitted = reduce(cloud.only(kept, np.cumsum(kept) - 1)).fit(targets[kept])
        assert_allclose(closed[j], targets[j] - refitted(cloud.points[[j]])[0], rtol=0, atol=1e-8)


@pytest.mark.parametrize("form", ["affine", "dual", "thin"])
def test_variance_of_a_point_left_out_is_that_of_the_fit_plus_noise(form, cloud):
    reduce = reducers(cloud)[form]
    kept = np.arange(25) != 7
    part = PartOfCloud(reduce(cloud), kept, np.cumsum(kept) - 1)
    alone = reduce(cloud.only(kept, np.cumsum(kept) - 1))
    expected = alone.variance(cloud.points[[7]]) + 1 / cloud.weights[7]
    if form == "thin":  # a thin fit cannot see what its features do not express, the variance adds it
        assert part.rest_variance <= expected * (1 + 1e-9)
    else:
        assert_allclose(part.rest_variance, expected, rtol=1e-7)


def test_kriging_variance_is_that_of_a_gaussian_process_with_a_vague_affine_mean(dimension):
    points, _ = scene(n=2, m=20, d=dimension, hidden=0.0)
    cloud = Observations.from_array(points).clouds[0]
    reduced = DualCloud(cloud, Gaussian(), 0.8, 0.1)
    unit, query = cloud.frame.to_unit(cloud.points), np.random.default_rng(0).standard_normal((6, dimension))

    def covariance(a, b):
        affine = np.column_stack([a, np.ones(len(a))]) @ np.column_stack([b, np.ones(len(b))]).T
        return np.exp(-0.5 * np.sum((a[:, None] - b) ** 2, axis=2) / 0.8**2) + 1e7 * affine

    known = covariance(unit, unit) + 0.1 * np.eye(20)
    across = covariance(query, unit)
    oracle = np.diag(covariance(query, query) - across @ np.linalg.solve(known, across.T)) / 0.1
    there = query * cloud.frame.size + cloud.frame.centre
    assert_allclose(reduced.variance(there), oracle, rtol=1e-3)

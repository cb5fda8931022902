"""Laws of the Gaussian of shapes: conditioning, weights, leaving out, low rank, expectation maximisation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import pdist

from kernelgpa import KernelGPA
from kernelgpa.observations.cloud import Cloud
from kernelgpa.shape.learning import ShapeSettings, TrainingClouds, learn
from kernelgpa.shape.patterns import Patterns
from kernelgpa.shape.spaces import BasisSpace, FullSpace, Shapes, motions


def scene(seed=0, m=12, d=3):
    rng = np.random.default_rng(seed)
    positions = rng.standard_normal((m, d))
    root = rng.standard_normal((m * d, m * d))
    shapes = Shapes(positions, motions(positions, False), 0.7)
    return rng, shapes, root @ root.T / (m * d)


def joint_covariance(gaussian, shapes, covariance):
    motions_part = gaussian.pose_variance * shapes.motions @ shapes.motions.T
    return covariance + motions_part + gaussian.noise * np.eye(len(covariance))


def gaussians(shapes, covariance, rng):
    """The same distribution in both forms, with the matrix whose columns the covariances of the second refer to."""
    D = len(covariance)
    low = BasisSpace(shapes, np.linalg.qr(rng.standard_normal((D, D)))[0], len(shapes.positions))
    dense = FullSpace(shapes).gaussian(covariance, 0.1)
    return [(dense, np.eye(D)), (low.gaussian(low.basis.T @ covariance @ low.basis, 0.1), low.basis)]


@pytest.mark.parametrize("form", [0, 1])
def test_conditioning_is_that_of_the_joint_covariance(form):
    rng, shapes, covariance = scene()
    gaussian, basis = gaussians(shapes, covariance, rng)[form]
    joint = joint_covariance(gaussian, shapes, covariance)
    seen = np.repeat(rng.random((4, 12)) < 0.7, 3, axis=1)
    y = np.where(seen, rng.standard_normal(seen.shape), 0.0)
    found = gaussian.predict(y, Patterns.of(seen), 3)
    filled = gaussian.fill(y, Patterns.of(seen), np.ones(4))
    scatter, tolerance = np.zeros_like(joint), 1e-14 * np.linalg.cond(joint)
    for t in range(4):
        o, h = seen[t], ~seen[t]
        gain = joint[np.ix_(h, o)] @ np.linalg.inv(joint[np.ix_(o, o)])
        np.testing.assert_allclose(found.values[t, h], gain @ y[t, o], atol=10 * tolerance)
        conditional = joint[np.ix_(h, h)] - gain @ joint[np.ix_(o, h)]
        first = np.flatnonzero(h)[0] // 3
        own = 10 * tolerance * gaussian.pose_variance
        np.testing.assert_allclose(found.covariances[t, first], conditional[:3, :3], atol=own)
        scatter[np.ix_(h, h)] += conditional - gaussian.noise * np.eye(h.sum())
    np.testing.assert_allclose(filled.residuals, found.values, atol=tolerance)
    own = 40 * tolerance * gaussian.pose_variance
    np.testing.assert_allclose(basis @ filled.scatter @ basis.T, scatter, atol=own)
    assert not found.covariances[np.repeat(seen[:, ::3], 1, axis=1)].any()


@pytest.mark.parametrize("form", [0, 1])
def test_an_observation_of_less_weight_has_more_noise(form):
    """The law: a coordinate of weight w is seen with noise of variance s2 / w instead of s2."""
    rng, shapes, covariance = scene()
    gaussian, _ = gaussians(shapes, covariance, rng)[form]
    joint = joint_covariance(gaussian, shapes, covariance)
    weights = np.repeat(rng.choice([0.0, 0.02, 0.5, 1.0], (5, 12), p=[0.2, 0.2, 0.2, 0.4]), 3, axis=1)
    y = np.where(weights > 0, rng.standard_normal(weights.shape), 0.0)
    found = gaussian.predict(y, Patterns.of(weights), 3)
    tolerance = 1e-13 * np.linalg.cond(joint)
    for t, w in enumerate(weights):
        o, rest = w > 0, w < 1
        extra = np.diag(gaussian.noise * (1 / w[o] - 1))
        gain = joint[:, o] @ np.linalg.inv(joint[np.ix_(o, o)] + extra)
        np.testing.assert_allclose(found.values[t], gain @ y[t, o], atol=tolerance)
        conditional = (joint - gain @ joint[o])[np.ix_(rest, rest)]
        first = np.flatnonzero(rest)[0] // 3
        own = tolerance * gaussian.pose_variance
        np.testing.assert_allclose(found.covariances[t, first], conditional[:3, :3], atol=own)


def test_leave_one_out_residuals_are_those_of_leaving_out():
    rng, shapes, covariance = scene()
    gaussian = FullSpace(shapes).gaussian(covariance, 0.1)
    seen = np.repeat(rng.random((2, 12)) < 0.8, 3, axis=1)
    y = np.where(seen, rng.standard_normal(seen.shape), 0.0)
    found = gaussian.leave_one_out(y, Patterns.of(seen), 3)
    for t, j in np.argwhere(seen[:, ::3]):
        remaining = seen[t].copy()
        remaining[3 * j : 3 * j + 3] = False
        left = gaussian.predict(np.where(remaining, y[t], 0.0)[None], Patterns.of(remaining[None]), 3)
        columns = slice(3 * j, 3 * j + 3)
        np.testing.assert_allclose(found.values[t, columns], y[t, columns] - left.values[0, columns], atol=1e-8)
        np.testing.assert_allclose(found.covariances[t, j], left.covariances[0, j], rtol=1e-7)


def test_the_low_rank_form_equals_the_dense_form():
    rng, shapes, covariance = scene()
    (dense, _), (low_rank, basis) = gaussians(shapes, covariance, rng)
    seen = np.repeat(rng.random((5, 12)) < 0.8, 3, axis=1)
    seen[3] = True
    y = np.where(seen, rng.standard_normal((5, 36)), 0.0)
    patterns, weights = Patterns.of(seen), rng.random(5)
    tolerance = 1e-14 * dense.pose_variance / dense.noise * 100
    a, b = dense.fill(y, patterns, weights), low_rank.fill(y, patterns, weights)
    np.testing.assert_allclose(b.residuals, a.residuals, atol=tolerance)
    np.testing.assert_allclose(basis @ b.scatter @ basis.T, a.scatter, atol=tolerance)
    directions = rng.standard_normal((2, 36))
    for one, other in [
        *zip(dense.predict(y, patterns, 3), low_rank.predict(y, patterns, 3), strict=True),
        *zip(dense.leave_one_out(y, patterns, 3), low_rank.leave_one_out(y, patterns, 3), strict=True),
        (dense.squares(y, patterns), low_rank.squares(y, patterns)),
        (dense.log_densities(y, patterns), low_rank.log_densities(y, patterns)),
        (dense.projected_variances(patterns, directions), low_rank.projected_variances(patterns, directions)),
    ]:
        np.testing.assert_allclose(other, one, atol=tolerance)


def test_patterns_describe_every_cloud_once():
    rng = np.random.default_rng(0)
    weights = rng.choice([0.0, 0.3, 1.0], (50, 4), p=[0.2, 0.2, 0.6])
    again = np.full(weights.shape, np.nan)
    for hidden, own, clouds in Patterns.of(weights):
        again[clouds] = 1.0
        again[np.ix_(clouds, hidden)] = own
    np.testing.assert_array_equal(again, weights)


def test_a_basis_at_all_landmarks_contains_the_kernel():
    _, shapes, _ = scene()
    full = FullSpace(shapes).prior(0.5)
    basis = BasisSpace.of(shapes, 0.5, lambda space: np.zeros((3, 36)), inducing=12)
    np.testing.assert_allclose(basis.basis @ basis.prior(0.5) @ basis.basis.T, full, atol=1e-9)


def test_a_kernel_alone_with_a_free_affine_part_is_the_warp_from_the_map_into_the_cloud():
    rng = np.random.default_rng(3)
    M = rng.standard_normal((30, 3))
    y = 0.1 * rng.standard_normal((30, 3))
    shapes = Shapes(M, motions(M, False), float(np.mean(y**2)))
    bandwidth, noise, affine = 0.6, 0.05, 1e7
    gaussian = FullSpace(shapes, affine).gaussian(FullSpace(shapes, affine).prior(bandwidth), noise)
    hidden = np.repeat(np.arange(30) >= 24, 3)
    prediction = gaussian.predict(np.where(hidden, 0.0, y.ravel())[None], Patterns.of(~hidden[None]), 3)
    found = prediction.values.reshape(-1, 3)[24:]
    own = bandwidth * pdist(M).mean() / pdist(M[:24]).mean()  # widths are multiples of each cloud's own mean distance
    warp = _kernel_warp(M[:24], (M + y)[:24], own, noise)
    # the affine part is free up to a penalty of 1 / affine
    np.testing.assert_allclose(M[24:] + found, warp(M[24:]), atol=1e-4)


def _kernel_warp(points, targets, bandwidth, smoothing):
    cloud = Cloud("map", np.arange(len(points)), points, np.ones(len(points)))
    reduced = (
        KernelGPA(bandwidth=bandwidth, smoothing=smoothing)._family().prepare(cloud).reduce(smoothing, cloud.weights)
    )
    (warp,) = reduced.fit_all([targets])
    return warp


def test_expectation_maximisation_on_complete_data_is_the_empirical_covariance():
    rng, shapes, _ = scene()
    y = rng.standard_normal((9, 36))
    clouds = TrainingClouds.of(y, np.ones_like(y, dtype=bool), np.ones(9), np.zeros(36))
    found = learn(clouds, FullSpace(shapes), ShapeSettings(0.5, 0.1, 0.3), rounds=5)
    np.testing.assert_allclose(found.covariance, np.cov(y.T), atol=1e-12)
    np.testing.assert_allclose(found.mean, y.mean(axis=0), atol=1e-14)


def log_posterior(y, seen, u, learned, shapes, prior, a):
    """The logarithm of the density that eq. 27 maximises, up to a constant (theory, section 17)."""
    gaussian, U = learned.gaussian, u.sum()
    T = prior * a + (1 - a) * learned.covariance
    T = T + gaussian.pose_variance * shapes.motions @ shapes.motions.T + gaussian.noise * np.eye(len(T))
    total = 0.0
    for row, o, weight in zip(y, seen, u, strict=True):
        own, e = T[np.ix_(o, o)], (row - learned.mean)[o]
        total -= 0.5 * weight * (np.linalg.slogdet(own)[1] + e @ np.linalg.solve(own, e))
    count = (U - 1) / (1 - a)
    hidden = np.diag(u @ ~seen)
    scale = a * prior + gaussian.pose_variance * shapes.motions @ shapes.motions.T
    scale = scale + gaussian.noise * (np.eye(len(T)) - hidden / count)
    return total - 0.5 * (count - U) * np.linalg.slogdet(T)[1] - 0.5 * count * np.trace(np.linalg.solve(T, scale))


@pytest.mark.parametrize("a", [0.0, 0.3, 0.8])
@pytest.mark.parametrize("low_rank", [False, True])
def test_no_round_of_expectation_maximisation_lowers_the_posterior_density(a, low_rank):
    rng, shapes, covariance = scene(m=6)
    n, D = 30, 18
    y = rng.multivariate_normal(np.zeros(D), covariance, n)
    seen = np.repeat(rng.random((n, 6)) < 0.7, 3, axis=1)
    y, u = np.where(seen, y, 0.0), rng.uniform(0.3, 1.0, n)
    full = FullSpace(shapes)
    space = BasisSpace.of(shapes, 0.5, lambda _: y, inducing=6) if low_rank else full
    basis = space.basis if low_rank else np.eye(D)
    assert basis.shape == (D, D)  # otherwise the low-rank form is another model
    clouds = TrainingClouds.of(y, seen, u, np.zeros(D))
    densities = []
    for rounds in range(1, 12):
        found = learn(clouds, space, ShapeSettings(0.5, 0.2, a), rounds)
        found = found._replace(covariance=basis @ found.covariance @ basis.T)
        densities.append(log_posterior(y, seen, u, found, shapes, full.prior(0.5), a))
    rounding = 1e-10 * abs(densities[0])  # the condition number of T is about 1e4
    assert np.diff(densities).min() > -rounding
    assert densities[-1] > densities[0] + 1e3 * rounding

"""Add the seen landmarks of a cloud to a stream, and compare the stream with a batch fit to the same clouds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.testing import assert_allclose
from sklearn.base import clone

from fixed_settings import fixed_kernel
from kernelgpa.gauge.faithful import allowed_increase
from kernelgpa.gauge.principal_axes import rigid_cost
from kernelgpa.gauge.rigid import RigidSystem, solve_rigid
from kernelgpa.gauge.rotations import nearest_rotation


def seen_of(cloud):
    return np.flatnonzero(~np.isnan(cloud[:, 0]))


def add(stream, cloud, **more):
    seen = seen_of(cloud)
    return stream.add(cloud[seen], [f"L{j:03d}" for j in seen], **more)


def rigid_distance(a, b):
    """The largest distance between two maps after the best rigid motion, relative to their size."""
    assert (np.isnan(a) == np.isnan(b)).all()
    known = np.isfinite(a).all(axis=1)
    mean_a, mean_b = a[known].mean(axis=0), b[known].mean(axis=0)
    rotation = nearest_rotation((b[known] - mean_b).T @ (a[known] - mean_a))
    return np.abs((a[known] - mean_a) @ rotation.T + mean_b - b[known]).max() / np.abs(b[known] - mean_b).max()


def with_gamma(estimator, gamma):
    """The estimator, whose default map has this gamma instead of the one that the rule finds; NaN: by the rule."""
    solve = estimator._solve if np.isfinite(gamma) else None
    if solve is not None:
        estimator._solve = lambda stacked, cost, start: solve(
            stacked, cost, replace(start, gamma=gamma, gamma_is_fixed=True)
        )
    return estimator


def batch_of(stream, estimator, clouds, gamma=None):
    """A batch fit to the clouds in the stream, given by key, with the gamma of the stream; NaN: a free fit."""
    keys = [key for key in stream.keys_ if key not in stream.waiting_]
    pairs = [(clouds[key][seen_of(clouds[key])], [f"L{j:03d}" for j in seen_of(clouds[key])]) for key in keys]
    return keys, with_gamma(clone(estimator), stream.gamma_ if gamma is None else gamma).fit(pairs)


def assert_equals_batch(stream, estimator, clouds, tolerance=1e-8):
    keys, gpa = batch_of(stream, estimator, clouds)
    assert stream.landmarks_ == gpa.observations_.landmarks
    assert rigid_distance(stream.map_, gpa.map_) < tolerance
    assert_allclose(stream.scales_, gpa.scales_, rtol=tolerance)
    assert_allclose(stream.eigenvalues_, gpa.eigenvalues_, rtol=1e-7, atol=1e-12 * len(keys))
    # poses and warps, up to the same rigid motion
    for key, rotation in zip(keys[:3], gpa.rotations_[:3], strict=False):
        first, own = stream.pose(keys[0])[0], stream.pose(key)[0]
        assert_allclose(first.T @ own, gpa.rotations_[0].T @ rotation, atol=1e-7)
    size = np.nanmax(np.abs(gpa.map_))
    steps = np.linalg.norm(np.diff([stream.pose(key)[1] for key in keys], axis=0), axis=1)
    assert_allclose(steps, np.linalg.norm(np.diff(gpa.translations_, axis=0), axis=1), atol=1e-7 * size)
    probe = clouds[keys[0]][seen_of(clouds[keys[0]])][:5] + 0.01
    expected, warped = gpa.transform(probe, 0), stream.transform(probe, keys[0])
    assert_allclose(
        np.linalg.norm(np.diff(warped, axis=0), axis=1),
        np.linalg.norm(np.diff(expected, axis=0), axis=1),
        atol=1e-7 * size,
    )


def assert_equals_batch_map(stream, clouds):
    assert rigid_distance(stream.map_, batch_of(stream, fixed_kernel(), clouds)[1].map_) < 1e-8


def used_share(stream, gamma):
    """The increase of the rigid cost by the map with this gamma, as a share of the allowed one (theory, eq. 16a)."""
    running = stream._require_running()
    stacked, cost = running.stacked(), running.cost()
    start = np.array([stream.pose(key)[0] for key in running.participating])
    system = RigidSystem(stacked)
    rigid = solve_rigid(system, stacked, start).gauge
    gauge = solve_rigid(system.penalised(cost, gamma), stacked, start).gauge
    rho, rho_0 = (np.vdot(one.map, cost.apply(one.map)) for one in (gauge, rigid))
    own, sampling = allowed_increase(stacked)
    return (rigid_cost(gauge, stacked) / rigid_cost(rigid, stacked) - 1) / (
        own + max(1 - rho / rho_0, 0) ** 2 * sampling
    )

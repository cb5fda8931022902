"""Families of warps for the tests, and the plain dense formulas of their costs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.linalg import norm
from scipy.linalg import null_space
from scipy.spatial.distance import cdist, pdist

from conftest import random_rotation
from kernelgpa.observations.cloud import Cloud
from kernelgpa.warps import AffineFamily, KernelFamily, ThinPlateFamily
from kernelgpa.warps.kernels import KERNELS, FunctionKernel, ThinPlate

EPS = np.finfo(float).eps


def rational(r):
    return 1 / (1 + r**2)


EXACT = {
    **{name: KernelFamily(kernel, 0.5, 0.1) for name, kernel in KERNELS.items()},
    "function": KernelFamily(FunctionKernel(rational), 0.5, 0.1),
}
SPLINES = {
    "thin-plate": ThinPlateFamily(3, 0.002),
    "thin-plate, stiff": ThinPlateFamily(4, 1.0),
    "thin-plate, two per axis": ThinPlateFamily(2, 0.002),
}
INDUCED = {
    f"{name} at {share} points": replace(EXACT[name], inducing=count)
    for name in ("gaussian", "laplacian", "wendland", "function")
    for share, count in (("8", 8), ("all", 1000))
}
FAMILIES = {
    "affine": AffineFamily(),
    **SPLINES,
    **EXACT,
    **INDUCED,
}
BENDING = [name for name in FAMILIES if name != "affine"]

every_family = pytest.mark.parametrize("name", FAMILIES)
every_dimension = pytest.mark.parametrize("d", [2, 3], ids=["2D", "3D"])
every_shape = pytest.mark.parametrize("flat", [False, True], ids=["body", "flat"])
every_weighting = pytest.mark.parametrize("weighted", [False, True], ids=["unit", "weighted"])


def everywhere(test):
    return every_family(every_dimension(every_shape(every_weighting(test))))


def make_cloud(d, flat=False, weighted=False, seed=0, s=25):
    rng = np.random.default_rng(seed)
    points = rng.standard_normal((s, d)) * np.array([2.0, 1.4, 1.0])[:d]
    if flat:
        points[:, -1] = 0
    points = points @ random_rotation(d, rng).T + rng.standard_normal(d)
    weights = rng.uniform(0.2, 3, s) if weighted else np.ones(s)
    return Cloud("t", np.arange(s), points, weights, EPS * np.abs(points).max())


def bent(cloud, seed=1):
    """Targets that no affine function reaches."""
    rng = np.random.default_rng(seed)
    d = cloud.points.shape[1]
    return cloud.points @ rng.standard_normal((d, d)) + np.sin(cloud.points @ rng.standard_normal((d, d)))


# -- plain dense formulas, in the data's own coordinates --


def affine_functions(points):
    return np.column_stack([points, np.ones(len(points))])


def affine_cost(cloud):
    """W minus its projection on the affine functions."""
    root = np.sqrt(cloud.weights)
    left, spread, _ = np.linalg.svd(root[:, None] * affine_functions(cloud.points), full_matrices=False)
    left = left[:, spread > 1e-10 * spread[0]]
    return root[:, None] * (np.eye(len(root)) - left @ left.T) * root


def kernel_width(family, cloud):
    return family.bandwidth * pdist(cloud.points).mean()


def kernel_matrix(family, cloud, centres):
    sigma = kernel_width(family, cloud)
    return family.kernel.value(cdist(cloud.points, centres) / sigma)


def farthest(points, count):
    """The outermost point, then each next one the farthest from those before, by the definition."""
    chosen = [int(np.argmax(norm(points - points.mean(axis=0), axis=1)))]
    while len(chosen) < min(count, len(points)):
        chosen.append(int(np.argmax(cdist(points, points[chosen]).min(axis=1))))
    return points[chosen]


def dual_cost(family, cloud):
    """mu V (V' (K + mu / W) V)^-1 V'  with V a basis of the weights that annihilate affine functions."""
    A = kernel_matrix(family, cloud, cloud.points) + family.smoothing * np.diag(1 / cloud.weights)
    V = null_space(affine_functions(cloud.points).T, rcond=1e-10)
    return family.smoothing * V @ np.linalg.inv(V.T @ A @ V) @ V.T


def eliminated_cost(features, penalty, weights):
    """The Schur complement  W - W F (F'WF + R)^+ F'W,  by an orthonormal basis of [W^(1/2) F; R^(1/2)]."""
    values, vectors = np.linalg.eigh(penalty)
    root = np.sqrt(weights)
    stacked = np.vstack([root[:, None] * features, np.sqrt(np.maximum(values, 0))[:, None] * vectors.T])
    left, spread, _ = np.linalg.svd(stacked, full_matrices=False)
    top = left[: len(weights), spread > 1e-11 * spread[0]]
    return root[:, None] * (np.eye(len(weights)) - top @ top.T) * root


def inducing_cost(family, cloud):
    centres = farthest(cloud.points, family.inducing)
    affine = affine_functions(cloud.points)
    penalty = np.zeros((affine.shape[1] + len(centres),) * 2)
    k = family.kernel.value(cdist(centres, centres) / kernel_width(family, cloud))
    penalty[affine.shape[1] :, affine.shape[1] :] = family.smoothing * k
    features = np.hstack([affine, kernel_matrix(family, cloud, centres)])
    return eliminated_cost(features, penalty, cloud.weights)


def control_points(family, cloud):
    centre = cloud.points.mean(axis=0)
    _, spread, axes = np.linalg.svd(cloud.points - centre)
    along = (cloud.points - centre) @ axes.T
    shares = np.arange(1, family.control_points + 1) / (family.control_points + 1)
    ticks = [
        low + span * (shares if s > 1e-8 * spread[0] else np.array([0.5]))
        for low, span, s in zip(along.min(axis=0), np.ptp(along, axis=0), spread, strict=True)
    ]
    grid = np.stack(np.meshgrid(*ticks, indexing="ij"), axis=-1).reshape(-1, len(centre))
    return grid @ axes + centre


def spline_parts(family, cloud):
    """Features (weights are the images of the control points) and penalty, as published."""
    c, d = control_points(family, cloud), cloud.points.shape[1]
    rho = ThinPlate(d).value
    K_inverse = np.linalg.pinv(rho(cdist(c, c)))
    C = affine_functions(c).T
    N = np.linalg.pinv(C @ K_inverse @ C.T, rcond=1e-10) @ C @ K_inverse
    E = K_inverse - K_inverse @ C.T @ N
    beta = np.hstack([rho(cdist(cloud.points, c)), affine_functions(cloud.points)]) @ np.vstack([E, N])
    return beta, 8 * np.pi * family.smoothing * len(cloud.seen) * E


def spline_cost(family, cloud):
    beta, penalty = spline_parts(family, cloud)
    W = np.diag(cloud.weights)
    return W - W @ beta @ np.linalg.pinv(beta.T @ W @ beta + penalty, rcond=1e-13) @ beta.T @ W


def plain_cost(family, cloud):
    if isinstance(family, AffineFamily):
        return affine_cost(cloud)
    if isinstance(family, ThinPlateFamily):
        return spline_cost(family, cloud)
    return dual_cost(family, cloud) if family.inducing is None else inducing_cost(family, cloud)


def conditioning(family, cloud):
    """The condition of the system relative to its penalty, by which rounding is multiplied."""
    if isinstance(family, AffineFamily):
        return 1.0
    if isinstance(family, ThinPlateFamily):
        beta, penalty = spline_parts(family, cloud)
        return np.linalg.cond(beta.T @ (cloud.weights[:, None] * beta) + penalty)
    K = kernel_matrix(family, cloud, cloud.points)
    return 1 + norm(K, 2) * cloud.weights.max() / family.smoothing


def rounding(family, cloud):
    return 100 * EPS * cloud.weights.max() * conditioning(family, cloud)

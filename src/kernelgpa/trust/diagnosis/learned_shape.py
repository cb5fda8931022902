"""How well a learned covariance would predict the landmarks: closed form, and cross-fitted over the clouds.

Kernel warps know only that near points move alike.  With many clouds, how landmarks move together can be learned.  Let
y_t (md values) be the displacements of cloud t from the map after its rigid motion, S their covariance over clouds that
do not contain t, and G the infinitesimal motions of the map, which the pose of cloud t leaves free:

    Sigma = S + v I + kappa G G',  kappa large;        r_tj = ((Sigma^-1)_jj)^-1 (Sigma^-1 y_t)_j

r_tj is the leave-one-out residual of landmark j, as in eq. 17, with d x d blocks.  Each cloud is predicted by a
covariance of the clouds outside its part of the data.
"""

from __future__ import annotations

import numpy as np

from ...typing import Array, BoolArray

LEAST_CLOUDS = 12  # from which a covariance is worth learning
MOST_COORDINATES = 900  # m d up to which the covariance is a small matrix
CLOUD_PARTS = 3  # of the clouds
NOISE_SHARES = (1e-4, 1e-3, 1e-2, 1e-1)  # of the mean variance, tried for v


def learned_residuals(
    displacements: Array,  # (n, m, d), complete
    positions: Array,  # (m, d)
    seen: BoolArray,  # (n, m)
) -> Array:  # (n, m)
    """Lengths of the leave-one-out residuals, with the v that makes their mean over the seen landmarks smallest."""
    candidates = []
    for share in NOISE_SHARES:
        lengths = np.full(seen.shape, np.nan)
        for part in range(CLOUD_PARTS):
            test = np.arange(len(displacements)) % CLOUD_PARTS == part
            residuals = _left_out(displacements[~test], displacements[test], positions, share)
            lengths[test] = np.linalg.norm(residuals, axis=2)
        candidates.append(np.where(seen, lengths, np.nan))
    return min(candidates, key=lambda lengths: float(np.nanmean(lengths)))


def _left_out(training: Array, tested: Array, positions: Array, share: float) -> Array:  # (k, m, d)
    (_, m, d), count = training.shape, len(tested)
    mean = training.mean(axis=0)
    centred = (training - mean).reshape(len(training), -1)
    covariance = centred.T @ centred / len(centred)
    variance = max(float(np.trace(covariance)) / (m * d), np.finfo(np.float64).tiny)
    motions = _motions(positions)
    covariance += share * variance * np.eye(m * d) + 1e3 * m * d * variance * motions @ motions.T
    precision = np.linalg.inv(covariance)
    products = ((tested - mean).reshape(count, -1) @ precision).reshape(count, m, d)
    blocks = precision.reshape(m, d, m, d)[np.arange(m), :, np.arange(m)]
    return np.asarray(np.linalg.solve(blocks[None], products[..., None])[..., 0])


def _motions(positions: Array) -> Array:  # (m, d) -> (m d, q), orthonormal columns
    """Infinitesimal translations and rotations of the map."""
    m, d = positions.shape
    columns = [np.tile(np.eye(d)[a], (m, 1)) for a in range(d)]
    centred = positions - positions.mean(axis=0)
    for a in range(d):
        for b in range(a):
            turned = np.zeros((m, d))
            turned[:, a], turned[:, b] = centred[:, b], -centred[:, a]
            columns.append(turned)
    return np.linalg.qr(np.stack([column.ravel() for column in columns], axis=1))[0]

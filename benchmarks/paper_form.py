"""KernelGPA as the paper writes it, in plain NumPy: the reference for the library's speed.

Projectors, selection matrices, explicit inverses and a full eigen-decomposition, cloud by cloud.  The formulas are
evaluated in the order in which they are printed, neither rearranged nor made slower on purpose.

For a cloud with points P (s, d), P~ = [P, 1], kernel matrix K and smoothing mu,

    Pi = I - P~ (P~'P~)^-1 P~'                      projector onto the complement of the affine functions
    G = (K Pi K + mu K)^-1,   Q_t = Pi - Pi K G K Pi
    Omega_t = G K Pi M_t,     C_t = (P~'P~)^-1 P~' (M_t - K Omega_t)

Q = sum_t S_t' Q_t S_t, where S_t selects the landmarks that cloud t saw; the map is the d eigenvectors after the
constant one, times scales that are estimated in turn with the rotations.
"""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import cdist, pdist


def fit(points, bandwidth=0.25, smoothing=0.1, rounds=50):
    """Return the map (m, d) and the warps for points (n, m, d), NaN if unseen; a warp is (sigma, centres, Omega, C)."""
    n, m, d = points.shape
    visible = ~np.isnan(points[:, :, 0])
    Q, parts = np.zeros((m, m)), []
    for t in range(n):
        select = np.eye(m)[visible[t]]
        P = points[t, visible[t]]
        affine = np.column_stack([P, np.ones(len(P))])
        sigma = bandwidth * pdist(P).mean()
        K = np.exp(-cdist(P, P, "sqeuclidean") / (2 * sigma**2))
        to_affine = np.linalg.inv(affine.T @ affine) @ affine.T
        projector = np.eye(len(P)) - affine @ to_affine
        G = np.linalg.inv(K @ projector @ K + smoothing * K)
        Q += select.T @ (projector - projector @ K @ G @ K @ projector) @ select
        parts.append((P, sigma, K, to_affine, projector, G))
    vectors = np.linalg.eigh(Q)[1][:, 1 : d + 1]
    M = vectors * scales(points, visible, vectors, rounds)
    warps = []
    for t, (P, sigma, K, to_affine, projector, G) in enumerate(parts):
        targets = M[visible[t]]
        omega = G @ K @ projector @ targets
        warps.append((sigma, P, omega, to_affine @ (targets - K @ omega)))
    return M, warps


def scales(points, visible, X, rounds):
    """Return scales, estimated in turn with the rotations; the better of both signs of the last axis is kept."""
    d = X.shape[1]
    P = np.where(visible[:, :, None], points - np.nanmean(points, axis=1, keepdims=True), 0.0)
    G = np.where(visible[:, :, None], X, np.nan)
    G = np.where(visible[:, :, None], G - np.nanmean(G, axis=1, keepdims=True), 0.0)
    cross, modes = np.einsum("tmk,tmd->tkd", G, P), np.einsum("tmk,tmk->k", G, G)
    candidates = []
    for sign in (1.0, -1.0):
        scale = np.full(d, np.nanstd(points) * np.sqrt(len(X))) * np.append(np.ones(d - 1), sign)
        for _ in range(rounds):
            U, _, Vt = np.linalg.svd(scale[None, :, None] * cross)
            U[:, :, -1] *= np.sign(np.linalg.det(U @ Vt))[:, None]
            correlation = np.einsum("tke,tek->k", cross, np.swapaxes(U @ Vt, 1, 2))
            scale = correlation / modes
        candidates.append((float(correlation @ scale), scale))
    return max(candidates, key=lambda candidate: candidate[0])[1]

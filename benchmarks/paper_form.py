"""KernelGPA as the paper writes it, in plain NumPy: what the library's speed is measured against.

Projectors, selection matrices, explicit inverses and a full eigen-decomposition, cloud by cloud.  Nothing is
wasted on purpose and nothing is rearranged: the formulas are multiplied out in the order in which they stand.

For a cloud with points P (s, d), P~ = [P, 1], kernel matrix K and smoothing mu,

    Pi = I - P~ (P~'P~)^-1 P~'                      projector off the affine functions
    G = (K Pi K + mu K)^-1,   Q_t = Pi - Pi K G K Pi
    Omega_t = G K Pi M_t,     C_t = (P~'P~)^-1 P~' (M_t - K Omega_t)

Q = sum_t S_t' Q_t S_t with S_t the selection of what cloud t saw; the map is the d eigenvectors after the constant
one, times scales found in turn with the rotations.
"""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import cdist, pdist


def fit(points, bandwidth=0.25, smoothing=0.1, rounds=50):
    """(map (m, d), warps) for points (n, m, d) with NaN where unseen; a warp is (sigma, centres, Omega, C)."""
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
        off = np.eye(len(P)) - affine @ to_affine
        G = np.linalg.inv(K @ off @ K + smoothing * K)
        Q += select.T @ (off - off @ K @ G @ K @ off) @ select
        parts.append((P, sigma, K, to_affine, off, G))
    vectors = np.linalg.eigh(Q)[1][:, 1 : d + 1]
    M = vectors * scales(points, visible, vectors, rounds)
    warps = []
    for t, (P, sigma, K, to_affine, off, G) in enumerate(parts):
        targets = M[visible[t]]
        omega = G @ K @ off @ targets
        warps.append((sigma, P, omega, to_affine @ (targets - K @ omega)))
    return M, warps


def scales(points, visible, X, rounds):
    """Scales and rotations in turn, for both hands of the last axis; the better one is kept."""
    d = X.shape[1]
    P = np.where(visible[:, :, None], points - np.nanmean(points, axis=1, keepdims=True), 0.0)
    G = np.where(visible[:, :, None], X, np.nan)
    G = np.where(visible[:, :, None], G - np.nanmean(G, axis=1, keepdims=True), 0.0)
    cross, modes = np.einsum("tmk,tmd->tkd", G, P), np.einsum("tmk,tmk->k", G, G)
    ends = []
    for hand in (1.0, -1.0):
        scale = np.full(d, np.nanstd(points) * np.sqrt(len(X))) * np.append(np.ones(d - 1), hand)
        for _ in range(rounds):
            U, _, Vt = np.linalg.svd(scale[None, :, None] * cross)
            U[:, :, -1] *= np.sign(np.linalg.det(U @ Vt))[:, None]
            pull = np.einsum("tke,tek->k", cross, np.swapaxes(U @ Vt, 1, 2))
            scale = pull / modes
        ends.append((float(pull @ scale), scale))
    return max(ends, key=lambda end: end[0])[1]

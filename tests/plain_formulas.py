"""The paper's formulas, written down plainly: an oracle that shares no code with the library.

Projectors, explicit inverses and a full eigen-decomposition, landmark by landmark and cloud by cloud;
only for small, well-posed data.
"""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import cdist, pdist


def paper_map(points, method, *, bandwidth=0.25, smoothing=0.1, control_points=5):
    """(eigenvalues, scales, map) of the paper for points (n, m, d) with NaN where unseen."""
    n, m, d = points.shape
    visible = ~np.isnan(points[:, :, 0])
    Q = np.zeros((m, m))
    for t in range(n):
        select = np.eye(m)[visible[t]]
        Q += select.T @ left_of_cost(points[t, visible[t]], method, bandwidth, smoothing, control_points) @ select
    values, vectors = np.linalg.eigh(Q)
    X = vectors[:, 1 : d + 1]
    scales = refined_scales(points, visible, X)
    return values[1 : d + 2], scales, X * scales


def left_of_cost(P, method, bandwidth, smoothing, control_points):  # (s, d) -> (s, s)
    s = len(P)
    affine = np.column_stack([P, np.ones(s)])
    if method == "affine":
        return np.eye(s) - affine @ np.linalg.pinv(affine)
    if method == "tps":
        beta, E = spline(P, P, control_points)
        penalty = 8 * np.pi * smoothing * s * E
        return np.eye(s) - beta @ np.linalg.inv(beta.T @ beta + penalty) @ beta.T
    sigma = bandwidth * pdist(P).mean()
    K = np.exp(-cdist(P, P, "sqeuclidean") / (2 * sigma**2))
    off = np.eye(s) - affine @ np.linalg.pinv(affine)
    # minimise |Y - affine c - K w|^2 + smoothing w'Kw with c eliminated
    G = np.linalg.inv(K @ off @ K + smoothing * K)
    return off - off @ K @ G @ K @ off


def spline(P, query, per_axis):
    d = P.shape[1]
    centre = P.mean(axis=0)
    axes = np.linalg.eigh((P - centre).T @ (P - centre))[1]
    along = (P - centre) @ axes
    low, span = along.min(axis=0), np.ptp(along, axis=0)
    ticks = [low[i] + span[i] * np.arange(1, per_axis + 1) / (per_axis + 1) for i in range(d)]
    control = np.array(np.meshgrid(*ticks)).reshape(d, -1).T @ axes.T + centre

    def rho(x, y):
        r = cdist(x, y)
        return -r if d == 3 else r**2 * np.log(np.where(r > 0, r, 1) ** 2)

    K = np.linalg.pinv(rho(control, control))
    C = np.column_stack([control, np.ones(len(control))]).T
    N = np.linalg.pinv(C @ K @ C.T) @ C @ K
    E = K - K @ C.T @ N
    return np.column_stack([rho(query, control), query, np.ones(len(query))]) @ np.vstack([E, N]), E


def refined_scales(points, visible, X):
    """Scales and rotations in turn, from several starts, for both hands; the best is kept."""
    n, d = len(points), X.shape[1]
    best_cost, best = np.inf, None
    for hand in (1.0, -1.0):
        scales = np.ones(d) * np.nanstd(points) * np.sqrt(len(X))
        scales[-1] *= hand
        for _ in range(3000):
            top, bottom, cost = np.zeros(d), np.zeros(d), 0.0
            for t in range(n):
                P = points[t, visible[t]] - points[t, visible[t]].mean(axis=0)
                G = X[visible[t]] - X[visible[t]].mean(axis=0)
                U, _, Vt = np.linalg.svd((G * scales).T @ P)
                R = U @ np.diag([1.0] * (d - 1) + [np.linalg.det(U @ Vt)]) @ Vt
                top += np.sum((P @ R.T) * G, axis=0)
                bottom += np.sum(G**2, axis=0)
                cost += np.sum((P @ R.T - G * scales) ** 2)
            if np.abs(top / bottom - scales).max() < 1e-13 * np.abs(scales).max():
                break
            scales = top / bottom
        if cost < best_cost:
            best_cost, best = cost, scales
    return best

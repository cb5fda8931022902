"""The formulas of the paper in their simplest form: a reference that shares no code with the library.

It uses projectors, explicit inverses, a full eigen-decomposition and loops over clouds, and is meant for small,
well-conditioned data.
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
        Q += select.T @ cost_matrix(points[t, visible[t]], method, bandwidth, smoothing, control_points) @ select
    values, vectors = np.linalg.eigh(Q)
    X = vectors[:, 1 : d + 1]
    scales = refined_scales(points, visible, X)
    return values[1 : d + 2], scales, X * scales


def cost_matrix(P, method, bandwidth, smoothing, control_points):  # (s, d) -> (s, s)
    s = len(P)
    affine = np.column_stack([P, np.ones(s)])
    if method == "affine":
        return np.eye(s) - affine @ np.linalg.pinv(affine)
    if method == "tps":
        beta, E = spline(P, P, control_points)
        penalty = 8 * np.pi * smoothing * s * E
        return np.eye(s) - beta @ np.linalg.inv(beta.T @ beta + penalty) @ beta.T
    return kernel_cost(gaussian(P, bandwidth), affine, smoothing)


def gaussian(P, bandwidth):  # (s, d) -> (s, s)
    sigma = bandwidth * pdist(P).mean()
    return np.exp(-cdist(P, P, "sqeuclidean") / (2 * sigma**2))


def kernel_cost(K, T, mu):  # (s, s), (s, d + 1) -> (s, s)
    """Q with y'Qy = min over c, w of  |y - T c - K w|^2 + mu w'Kw.

    The derivatives vanish where  K (y - T c - K w - mu w) = 0  and  T'(y - T c - K w) = 0.  K is invertible, so with
    A = K + mu I the first is  A w = y - T c;  then the residual is mu w and the second is  T'w = 0.  Hence
    c = (T'A^-1 T)^-1 T'A^-1 y  and  w = H y  with  H = A^-1 - A^-1 T (T'A^-1 T)^-1 T'A^-1.  The minimum is
    mu^2 w'w + mu w'Kw = mu w'A w = mu w'(y - T c) = mu w'y,  that is  Q = mu H.

    ``published_kernel_cost`` is the same in exact arithmetic.  It inverts  K Pi K + mu K,  whose condition number is
    about the square of that of A (5e5 against 1e2 in the tests), and the smallest eigenvalues of its Q, which make
    the map, then agree between processors to no more than eight digits.
    """
    A_inverse = np.linalg.inv(K + mu * np.eye(len(K)))
    return mu * (A_inverse - A_inverse @ T @ np.linalg.inv(T.T @ A_inverse @ T) @ T.T @ A_inverse)


def published_kernel_cost(K, T, mu):  # (s, s), (s, d + 1) -> (s, s)
    """Q as in the paper: c is eliminated first, by the projector Pi onto the complement of the affine functions."""
    Pi = np.eye(len(K)) - T @ np.linalg.pinv(T)
    return Pi - Pi @ K @ np.linalg.inv(K @ Pi @ K + mu * K) @ K @ Pi


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
    """Scales and rotations in turn until both converge, from both signs of the last scale; the better one is kept."""
    n, d = len(points), X.shape[1]
    best_cost, best = np.inf, None
    for sign in (1.0, -1.0):
        scales = np.ones(d) * np.nanstd(points) * np.sqrt(len(X))
        scales[-1] *= sign
        for _ in range(100):
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
        else:
            raise AssertionError(
                "the scales do not converge in 100 iterations: this scene is too hard for the reference"
            )
        if cost < best_cost:
            best_cost, best = cost, scales
    return best

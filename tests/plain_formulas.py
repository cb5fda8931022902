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
    Pi = np.eye(len(K)) - affine_projector(T)
    return Pi - Pi @ K @ np.linalg.inv(K @ Pi @ K + mu * K) @ K @ Pi


def affine_projector(T):  # (s, d + 1) -> (s, s)
    """The projector on the affine functions, whatever their number."""
    return T @ np.linalg.pinv(T, rcond=1e-10)


def published_H(K, T, mu):
    """H = (I - P) K S^-1 with S = K (I - P) K + mu K, which gives the weights of the warp: w = H y."""
    rest = np.eye(len(K)) - affine_projector(T)
    return rest @ K @ np.linalg.inv(K @ rest @ K + mu * K)


def joint_cost(K, T, mu):
    """I - [T, K] Delta^+ [T, K]', with the affine part and the kernel weights eliminated at once (section 6.2)."""
    both = np.hstack([T, K])
    Delta = both.T @ both
    Delta[T.shape[1] :, T.shape[1] :] += mu * K
    return np.eye(len(K)) - both @ np.linalg.pinv(Delta, rcond=1e-13, hermitian=True) @ both.T


def projector_cost(K, T, mu):
    """The first block of I - C^+ C with C = [T', 0; K, (mu K)^(1/2)]: what least squares leaves (appendix C)."""
    s, values, vectors = len(K), *np.linalg.eigh(K)
    root = vectors * np.sqrt(mu * values) @ vectors.T
    C = np.block([[T.T, np.zeros((T.shape[1], s))], [K, root]])
    return (np.eye(2 * s) - np.linalg.pinv(C, rcond=1e-10) @ C)[:s, :s]


def block_inverse_cost(K, T, mu):
    """The joint form with the blocks of Delta^+ written out by the Schur complement S (appendices E, F)."""
    inverse_of_T, S = np.linalg.pinv(T.T @ T, rcond=1e-12, hermitian=True), K @ K + mu * K
    S_inverse = np.linalg.inv(S - K @ T @ inverse_of_T @ T.T @ K)
    corner = inverse_of_T @ T.T @ K @ S_inverse
    pseudo_inverse = np.block([[inverse_of_T + corner @ K @ T @ inverse_of_T, -corner], [-corner.T, S_inverse]])
    both = np.hstack([T, K])
    return np.eye(len(K)) - both @ pseudo_inverse @ both.T


def conference_cost(K, T, mu):
    """Residual plus penalty, as in the conference paper (Lemma 14, appendix I)."""
    H, rest = published_H(K, T, mu), np.eye(len(K)) - affine_projector(T)
    residual = H @ K - np.eye(len(K))
    return residual @ rest @ residual.T + mu * H @ K @ H.T


def inverse_kernel_cost(K, T, mu):
    """(I - P) - (I - P) ((I - P) + mu K^-1)^-1 (I - P): how mu controls the influence of K (section 9.1)."""
    rest = np.eye(len(K)) - affine_projector(T)
    return rest - rest @ np.linalg.inv(rest + mu * np.linalg.inv(K)) @ rest


PUBLISHED_COSTS = {
    "projector and S, section 6.2": published_kernel_cost,
    "affine part and weights at once, section 6.2": joint_cost,
    "mu H, Proposition 2": lambda K, T, mu: mu * published_H(K, T, mu),
    "mu H', Proposition 2": lambda K, T, mu: mu * published_H(K, T, mu).T,
    "inverse of K, section 9.1": inverse_kernel_cost,
    "projector of least squares, appendix C": projector_cost,
    "blocks of the pseudo-inverse, appendices E and F": block_inverse_cost,
    "residual plus penalty, appendix I": conference_cost,
}


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

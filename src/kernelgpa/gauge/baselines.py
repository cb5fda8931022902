"""Methods for comparison only: the pairwise scales of 2022 and the classical factorisation."""

from __future__ import annotations

import numpy as np

from ..errors import InvalidObservations
from ..observations.stacked import StackedClouds
from ..spectrum.eigenpairs import Spectrum
from ..spectrum.operator import CostOperator
from ..typing import Array
from .rotations import nearest

TOGETHER = 1e-10  # spread of shared landmarks, as a share of their squared distances from the centre: they say nothing


def pairwise_scales(stacked: StackedClouds) -> Array:  # (d,), descending
    """The scales of 2022, from clouds completed one pair at a time; unseen points stay unseen.

    Each cloud is completed by the others, moved onto it by similarities: where it saw a landmark its
    own point stands, elsewhere the mean of those that did.  The common direction of the completed clouds'
    scales is their top singular vector, the size their mean size.  Weights do not count.
    """
    scales = np.linalg.svd(_completed(stacked), compute_uv=False)  # (n, d)
    sizes = np.linalg.norm(scales, axis=1)
    direction = np.abs(np.linalg.svd(scales / sizes[:, None])[2][0])
    return direction * sizes.mean()


def _completed(stacked: StackedClouds) -> Array:  # (n, m, d) centred, zeros where nobody placed a landmark
    """Every cloud with the others' points where it saw none."""
    n, m, d = stacked.centred.shape
    seen = (stacked.weights > 0).astype(np.float64)  # (m, n)
    points = np.swapaxes(stacked.centred, 0, 1).reshape(m, n * d)
    motions, shifts, enough = _onto_each_other(points, seen)
    moved = points @ motions.transpose(1, 3, 0, 2).reshape(n * d, n * d)
    moved += seen @ np.swapaxes(shifts, 0, 1).reshape(n, n * d)
    count = np.repeat(seen @ enough.T, d, axis=1)
    moved /= np.maximum(count, 1.0)
    completed = np.where(np.repeat(seen, d, axis=1) > 0, points, moved)
    completed -= np.where(count > 0, completed.sum(axis=0) / (count > 0).sum(axis=0), 0.0)
    return np.swapaxes(completed.reshape(m, n, d), 0, 1)


def _onto_each_other(points: Array, seen: Array) -> tuple[Array, Array, Array]:  # (m, n d), (m, n)
    """The similarities q = B p + b that take every cloud onto every other, from the landmarks that they share.

    B (n, n, d, d) and b (n, n, d) stand at [fixed, moving], with zeros where too few are shared, or these too near each
    other, to determine them.
    """
    n, d = seen.shape[1], points.shape[1] // seen.shape[1]
    shared = seen.T @ seen
    centres = (seen.T @ points).reshape(n, n, d) / np.maximum(shared, 1.0)[:, :, None]  # of the moving cloud's points
    there = np.swapaxes(centres, 0, 1)
    pull = (points.T @ points).reshape(n, d, n, d).transpose(0, 2, 1, 3)
    pull = pull - (shared[:, :, None] * there)[:, :, :, None] * centres[:, :, None, :]
    squares = seen.T @ (points**2).reshape(-1, n, d).sum(axis=2)
    spread = squares - shared * np.sum(centres**2, axis=2)
    enough = (shared >= d) & (spread > TOGETHER * squares)
    turns = nearest(pull.reshape(n * n, d, d)).reshape(n, n, d, d)
    factors = np.sum(turns * pull, axis=(2, 3)) / np.where(enough, spread, np.inf)
    motions = factors[:, :, None, None] * turns
    shifts = there - (motions @ centres[:, :, :, None])[:, :, :, 0]
    return motions, np.where(enough[:, :, None], shifts, 0.0), enough.astype(np.float64)


def factorisation(stacked: StackedClouds, cost: CostOperator) -> Spectrum:
    """The classical factorisation: left singular vectors of all clouds side by side.

    Instead of eigenvalues it reports the cost that each vector leaves, x' Q x.
    """
    if stacked.weights.min() == 0 or np.ptp(stacked.weights) > 0:
        raise InvalidObservations(
            "method='svd' needs every landmark seen by every cloud, with equal weights; use method='spectral'"
        )
    n, d = stacked.means.shape
    left = np.linalg.svd(np.hstack(list(stacked.centred)), full_matrices=False)[0]
    X, rank = left[:, : d + 1], stacked.rank
    values = np.einsum("mk,mk->k", X, cost.apply(X))
    return Spectrum(values, X[:, :rank], float(n), rank, "classical factorisation", thinness=stacked.thinness)

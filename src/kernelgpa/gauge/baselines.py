"""Methods that are here for comparison only: the pairwise scales of 2022, and the classical factorisation.

Pairwise scales (Bai and Bartoli, 2022).  Each cloud is completed by the others, which are moved onto it by the
similarities  q = B p + b  that the shared landmarks determine.  The scales are the common direction of the singular
values of the completed clouds, multiplied by their mean size.  The published program stores unseen points as zeros and
moves them like the others, which adds b at landmarks that the moved cloud did not see.  ``pairwise`` adds b at seen
landmarks only; ``pairwise-published`` is the program, with which the paper compares its scales (Figure 3).

Factorisation (Tomasi and Kanade).  The left singular vectors of all clouds side by side,  [P_1 ... P_n] = U S V',  are
used instead of the eigenvectors (section 11 of the paper).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..errors import InvalidObservations
from ..observations.stacked import StackedClouds
from ..spectrum.eigenpairs import Spectrum
from ..spectrum.operator import CostOperator
from ..typing import Array
from .closed_form import ScaleProblem, ScaleSolution, mode_rotation, with_rotations
from .rotations import nearest_rotation

CONCENTRATED = (
    1e-10  # shared landmarks whose variance is below this fraction of their mean square determine no similarity
)


class Similarities(NamedTuple):
    """q = B p + b of every cloud onto every other, at [fixed, moving]; zeros if the pair does not determine it."""

    linear: Array  # (n, n, d, d)  B
    translations: Array  # (n, n, d)  b
    determined: Array  # (n, n) 1 or 0


def pairwise_scales(problem: ScaleProblem) -> ScaleSolution:
    """The scales of 2022, along the axes of the modes (inside a block of coinciding eigenvalues, those of eq. 13)."""
    return _along_the_modes(problem, scales_of_completed_clouds(problem.stacked))


def published_pairwise_scales(problem: ScaleProblem) -> ScaleSolution:
    """The same with the translations at unseen landmarks too; they depend on the origin of each cloud's coordinates."""
    return _along_the_modes(problem, scales_of_completed_clouds(problem.stacked, move_unseen=True))


BASELINE_SCALES = {"pairwise": pairwise_scales, "pairwise-published": published_pairwise_scales}


def _along_the_modes(problem: ScaleProblem, scales: Array) -> ScaleSolution:
    return with_rotations(problem.moments, mode_rotation(problem.moments, problem.blocks) * scales)


def scales_of_completed_clouds(stacked: StackedClouds, move_unseen: bool = False) -> Array:  # (d,), descending
    """The scales from clouds that are completed pair by pair; observation weights have no influence.

    A completed cloud has its own points at the landmarks that it saw, and the mean of the moved points of the others
    elsewhere.  The common direction of the scales is the top singular vector of the normalised scales of all clouds.
    With ``move_unseen`` a landmark that a cloud did not see is moved from the origin of its coordinates, as published.
    """
    scales = np.linalg.svd(_completed(stacked, move_unseen), compute_uv=False)  # (n, d)
    sizes = np.linalg.norm(scales, axis=1)
    direction = np.abs(np.linalg.svd(scales / sizes[:, None])[2][0])
    return direction * sizes.mean()


def _completed(stacked: StackedClouds, move_unseen: bool) -> Array:  # (n, m, d)
    """Each cloud completed by the others and centred; zeros for landmarks that no other cloud provides."""
    n, m, d = stacked.centred.shape
    seen = (stacked.weights > 0).astype(np.float64)  # (m, n)
    points = np.swapaxes(stacked.centred, 0, 1).reshape(m, n * d)
    pairs = _similarities(points, seen)
    moved = points @ pairs.linear.transpose(1, 3, 0, 2).reshape(n * d, n * d)
    moved += seen @ np.swapaxes(pairs.translations, 0, 1).reshape(n, n * d)
    if move_unseen:
        moved += (1 - seen) @ np.swapaxes(_moved_origins(pairs, stacked.means), 0, 1).reshape(n, n * d)
    count = np.repeat(seen @ pairs.determined.T, d, axis=1)
    moved /= np.maximum(count, 1.0)
    completed = np.where(np.repeat(seen, d, axis=1) > 0, points, moved)
    completed -= np.where(count > 0, completed.sum(axis=0) / (count > 0).sum(axis=0), 0.0)
    return np.swapaxes(completed.reshape(m, n, d), 0, 1)


def _moved_origins(pairs: Similarities, means: Array) -> Array:  # (n, n, d)
    """b of the similarities between uncentred clouds: where they move the origin of each cloud's coordinates."""
    origins = pairs.translations + means[:, None] - np.einsum("fmde,me->fmd", pairs.linear, means)
    return np.asarray(pairs.determined[:, :, None] * origins)


def _similarities(points: Array, seen: Array) -> Similarities:  # (m, n d), (m, n)
    """The least-squares similarities between all pairs of clouds, from the landmarks that both see.

    A pair that shares fewer than d landmarks, or landmarks that coincide to rounding, determines none.
    """
    n, d = seen.shape[1], points.shape[1] // seen.shape[1]
    shared = seen.T @ seen
    moving = (seen.T @ points).reshape(n, n, d) / np.maximum(shared, 1.0)[:, :, None]  # centres of the shared points
    fixed = np.swapaxes(moving, 0, 1)
    cross = (points.T @ points).reshape(n, d, n, d).transpose(0, 2, 1, 3)
    cross = cross - (shared[:, :, None] * fixed)[:, :, :, None] * moving[:, :, None, :]
    squares = seen.T @ (points**2).reshape(-1, n, d).sum(axis=2)
    variances = squares - shared * np.sum(moving**2, axis=2)
    determined = (shared >= d) & (variances > CONCENTRATED * squares)
    rotations = nearest_rotation(cross.reshape(n * n, d, d)).reshape(n, n, d, d)
    factors = np.sum(rotations * cross, axis=(2, 3)) / np.where(determined, variances, np.inf)
    linear = factors[:, :, None, None] * rotations
    translations = fixed - (linear @ moving[:, :, :, None])[:, :, :, 0]
    return Similarities(linear, np.where(determined[:, :, None], translations, 0.0), determined.astype(np.float64))


def factorisation(stacked: StackedClouds, cost: CostOperator) -> Spectrum:
    """The left singular vectors of all clouds side by side, with their cost x' Q x instead of eigenvalues."""
    if stacked.weights.min() == 0 or np.ptp(stacked.weights) > 0:
        raise InvalidObservations(
            "method='svd' needs every landmark seen by every cloud, with equal weights; use method='spectral'"
        )
    n, d = stacked.means.shape
    left = np.linalg.svd(np.hstack(list(stacked.centred)), full_matrices=False)[0]
    X, rank = left[:, : d + 1], stacked.rank
    values = np.einsum("mk,mk->k", X, cost.apply(X))
    return Spectrum(values, X[:, :rank], float(n), rank, "classical factorisation", thinness=stacked.thinness)

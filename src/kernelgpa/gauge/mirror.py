"""Clouds that fit the others as a mirror image and not by a rotation.

With A of eq. 13, let  s_1 >= ... >= s_d  be the singular values of the cross-covariance C_t A of cloud t and its part
of the map, divided by the sizes of both, and S their sum.  With a free size, the better of a rotation and a reflection
leaves the fraction 1 - S^2 of the cloud's squared size, and the other one leaves more by

    S^2 - (S - 2 s_d)^2 = 4 s_d (S - s_d)                                      (theory, section 12)

The sign of det(C_t A) is the handedness of the cloud.

A sheet that is bent the other way is its own mirror image to 1 %, and an articulated body comes near it.  Only solid
bodies, and in the plane all but curves, are therefore called mirrored, and only if the reflection leaves at most a
tenth of what a rotation leaves.  In real sets without mirror images, whole or in pairs and triples, the reflection of
a solid cloud never left less than a quarter (a person moving freely); that of a mirrored skull, brain or face leaves
at most a twenty-seventh.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..observations.cloud import Cloud
from ..observations.geometry import SHEET
from ..observations.stacked import StackedClouds
from ..spectrum.eigenpairs import Spectrum
from ..typing import Array, BoolArray, IndexArray
from .closed_form import closed_form_matrix, mode_moments

SOLID = {2: SHEET**2, 3: 0.45**2}  # least s_d / s_(d-1) of a solid body, a square of lengths; in the plane: of no curve
NEARLY_SOLID = 0.5  # of that least ratio: a cloud that is less round fits no map as a solid body
DECISIVE_RATIO = 0.1  # largest ratio of the better cost to the worse one for which the handedness counts as determined


def find_mirror_images(spectrum: Spectrum, stacked: StackedClouds) -> IndexArray:
    """Indices of the solid clouds that fit the others as a mirror image and not by a rotation, whatever their size.

    The handedness of the majority of the solid clouds for which it is determined is right, and that of the first of
    them if both are equally frequent.
    """
    none = np.zeros(0, dtype=np.intp)
    rank, dimension = stacked.rank, stacked.means.shape[1]
    if rank < dimension:
        return none
    moments = mode_moments(stacked, spectrum.vectors[:, :dimension])
    every_mode = np.arange(dimension)
    A = closed_form_matrix(moments, [(every_mode, every_mode)])  # with R_g
    cross = moments.cross @ A  # (n, d, d)
    map_squares = np.einsum("ke,tkl,le->t", A, moments.modes, A)
    own_squares = np.trace(stacked.moments, axis1=1, axis2=2)
    determined, solid = _handedness(cross, own_squares, map_squares, np.count_nonzero(stacked.weights, axis=0))
    determined &= stacked.ranks == dimension  # a flat cloud is its own mirror image
    signs = np.where(determined, np.linalg.slogdet(cross)[0], 0)
    votes = signs[determined & solid]
    if not len(votes):
        return none
    wrong = signs == -(np.sign(votes.sum()) or votes[0])
    return np.flatnonzero(wrong & solid)


def is_mirror_image(cloud: Cloud, targets: Array) -> bool:  # (s, d)
    """Whether a cloud fits given positions as a mirror image, by the rule of :func:`find_mirror_images`."""
    normalised = cloud.weights / cloud.weights.sum()
    centred = targets - normalised @ targets
    cross = centred.T @ (cloud.weights[:, None] * cloud.centred)
    own_squares, map_squares = (np.sum(cloud.weights[:, None] * one**2) for one in (cloud.centred, centred))
    determined, solid = _handedness(cross, own_squares, map_squares, len(cloud.seen))
    return bool(np.linalg.det(cross) < 0 and determined and solid and cloud.frame.rank == len(cross))


def may_be_mirrored(stacked: StackedClouds, spreads: Array, M: Array) -> BoolArray:  # (n, d), (m, d) -> (n,)
    """Which nearly solid clouds do not decisively fit a map by a rotation.

    Whether they are solid is decided by the clouds alone, because a map of bodies and their mirror images is flat.
    """
    d = M.shape[1]
    cross = (stacked.weighted_points.T @ M).reshape(-1, d, d)
    means = (stacked.weights.T @ M) / stacked.total_weights[:, None]
    map_squares = stacked.weights.T @ np.sum(M**2, axis=1) - stacked.total_weights * np.sum(means**2, axis=1)
    counts = np.count_nonzero(stacked.weights, axis=0)
    determined, _ = _handedness(cross, stacked.squared_sizes, map_squares, counts)
    solid = spreads[:, -1] ** 2 >= NEARLY_SOLID * SOLID[d] * spreads[:, -2] ** 2
    return np.asarray(solid & ~(determined & (np.linalg.det(cross) > 0)))


def _handedness(
    cross: Array,  # (..., d, d) cross-covariances of clouds and their targets
    own_squares: npt.ArrayLike,  # (...,) squared sizes of the clouds
    map_squares: npt.ArrayLike,  # (...,) squared sizes of the targets
    counts: npt.ArrayLike,  # (...,) number of points
) -> tuple[BoolArray, BoolArray]:
    """Whether the handedness of each cloud is determined, and whether the cloud is solid.

    Sums over m points have rounding errors of m eps, hence the cost 1 - S^2 and the difference 4 s_d (S - s_d) have
    errors of a few d m eps.  For a flat cloud both are rounding errors.  The handedness is determined only if the
    difference exceeds the cost by more than these.
    """
    own_squares, map_squares = np.asarray(own_squares), np.asarray(map_squares)
    s = np.linalg.svd(cross, compute_uv=False) / (np.sqrt(own_squares) * np.sqrt(map_squares))[..., None]
    total, smallest = s.sum(axis=-1), s[..., -1]
    difference = 4 * smallest * (total - smallest)
    cost = 1 - total**2
    rounding = 8 * cross.shape[-1] * np.finfo(np.float64).eps * np.asarray(counts)
    # cost < DECISIVE_RATIO * (cost + difference), beyond rounding
    determined = (1 - DECISIVE_RATIO) * cost + rounding < DECISIVE_RATIO * difference
    return np.asarray(determined), np.asarray(smallest >= SOLID[cross.shape[-1]] * s[..., -2])

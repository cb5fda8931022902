"""Which clouds fit the others as a mirror image and not by a rotation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..observations.cloud import Cloud
from ..observations.collection import Observations
from ..observations.geometry import SHEET
from ..spectrum.eigenpairs import Spectrum
from ..typing import Array, BoolArray, IndexArray
from .closed_form import closed_form_matrix, coinciding_blocks, mode_moments

MIRROR_THICKNESS = SHEET**2  # squared spread along the thinnest axis, as a share of that along the next
MIRROR_RATIO = 0.5  # how much better a mirror image must fit to be called one


@dataclass(frozen=True)
class MirrorImages:
    """Clouds of the wrong hand: those that are sure, and those too thin to be sure."""

    mirrored: IndexArray
    doubtful: IndexArray


def find_mirror_images(spectrum: Spectrum, observations: Observations) -> MirrorImages:
    """Clouds that fit the others as a mirror image and not by a rotation, whatever their size.

    The hand of a cloud is the sign of its determinant against the bottom eigenvectors.  It is decided where
    the mirror image fits much better than a rotation; the hand of most decided clouds is right, in a tie
    that of the first.  A thin sheet that bends up in one cloud and down in another fits as a mirror image too,
    so thin clouds are only doubted.
    """
    none = np.zeros(0, dtype=np.intp)
    rank, dimension = observations.stacked.rank, observations.dimension
    if rank < dimension:
        return MirrorImages(none, none)
    moments = mode_moments(observations.stacked, spectrum.vectors[:, :dimension])
    A = closed_form_matrix(moments, coinciding_blocks(spectrum, rank))
    pulls = moments.cross @ A  # (n, d, d)
    placed = np.einsum("ke,tkl,le->t", A, moments.modes, A)
    own = np.trace(observations.stacked.moments, axis1=1, axis2=2)
    decided, thick = _reflection_decides(pulls, own, placed, np.count_nonzero(observations.stacked.weights, axis=0))
    decided &= observations.stacked.ranks == dimension  # a flat cloud is its own mirror image
    hand = np.where(decided, np.linalg.slogdet(pulls)[0], 0)
    voters = hand[decided & thick] if (decided & thick).any() else hand[decided]
    if not len(voters):
        return MirrorImages(none, none)
    wrong = hand == -(np.sign(voters.sum()) or voters[0])
    return MirrorImages(np.flatnonzero(wrong & thick), np.flatnonzero(wrong & ~thick))


def is_mirror_image(cloud: Cloud, places: Array) -> bool:  # (s, d)
    """Whether a cloud fits given places as a mirror image and not by a rotation, by the rule of :func:`hands`."""
    share = cloud.weights / cloud.weights.sum()
    target = places - share @ places
    pull = target.T @ (cloud.weights[:, None] * cloud.centred)
    own, placed = (np.sum(cloud.weights[:, None] * one**2) for one in (cloud.centred, target))
    decided, thick = _reflection_decides(pull, own, placed, len(cloud.seen))
    return bool(np.linalg.det(pull) < 0 and decided and thick and cloud.frame.rank == len(pull))


def _reflection_decides(
    pulls: Array,  # (..., d, d) cross-covariances of clouds and the places they are fitted to
    own: npt.ArrayLike,  # (...,) squared sizes of the clouds
    placed: npt.ArrayLike,  # (...,) and of those places
    counts: npt.ArrayLike,  # (...,) points
) -> tuple[BoolArray, BoolArray]:
    """Whether turning a cloud over makes a decisive difference to its fit, and whether the cloud is thick.

    With the singular values s_1 >= ... >= s_d of the normalised cross-covariance and S their sum, the better of a
    rotation and a reflection leaves the share 1 - S^2 of a cloud (its size is free), and the other one more by

        S^2 - (S - 2 s_d)^2 = 4 s_d (S - s_d).

    Sums over m points are known to m eps, so 1 - S^2 and this gain are known to a few d m eps.  Of a flat cloud both
    are nothing but rounding; the gain decides only where it exceeds the cost by more than rounding can.
    """
    own, placed = np.asarray(own), np.asarray(placed)
    s = np.linalg.svd(pulls, compute_uv=False) / (np.sqrt(own) * np.sqrt(placed))[..., None]
    total, thinnest = s.sum(axis=-1), s[..., -1]
    gain = 4 * thinnest * (total - thinnest)
    cost = 1 - total**2
    rounding = 8 * pulls.shape[-1] * np.finfo(np.float64).eps * np.asarray(counts)
    decided = (1 - MIRROR_RATIO) * cost + rounding < MIRROR_RATIO * gain  # cost < MIRROR_RATIO * (cost + gain)
    return np.asarray(decided), np.asarray(thinnest >= MIRROR_THICKNESS * s[..., -2])

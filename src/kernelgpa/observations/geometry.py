"""The frame of one cloud: its centre, its size, its principal axes and the number of dimensions that it spans.

A cloud far from the origin, or of size 1e-9, loses its digits in computations with its own coordinates.  Therefore
all algebra on a cloud uses

    u = (p - centre) / size                                            (theory, eq. 4)

and an affine function of p is an affine function of u, so that the projector on the affine functions stays the same
(Lemma 5 of the paper).  ``orthonormal_affine`` returns an orthonormal basis T of
W^(1/2) [u, 1]; a flat cloud has fewer columns than d + 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..typing import Array, IndexArray

FLAT = 1e-8  # a spread below this share of the largest one counts as 0
THIN = 1e-3  # a spread below this share of the largest one cannot be computed from second moments
SHEET = 0.2  # a cloud thinner than this share of its next wider axis is a sheet (in 2D a curve)
RESOLUTION_MARGIN = 2.0  # a spread below this many units in the last place of the coordinates counts as 0
COINCIDING = 1e-8  # the axes of spreads that differ by less than this share of the largest are undetermined
ORTHONORMALISATIONS = 4  # each resolves eight more digits of thinness
CLEAR_DISTANCE = 1 / np.pi  # of the largest distance; irrational, so that no point of a regular grid is at it


@dataclass(frozen=True)
class Frame:
    """Centre and size of a cloud, and its principal axes (rows), widest first."""

    centre: Array  # (d,)
    size: float
    axes: Array  # (d, d)
    rank: int  # dimensions spanned: 0 a point, 1 a line, 2 a plane, 3 a body
    spread: Array  # (d,), root mean square along each axis, descending

    def to_unit(self, points: Array) -> Array:  # (k, d) -> (k, d)
        return (points - self.centre) / self.size

    @property
    def thinness(self) -> float:
        """The smallest spread divided by the largest one, over the dimensions that are spanned."""
        return float(self.spread[self.rank - 1] / self.spread[0]) if self.rank else 1.0

    @property
    def reliable_rank(self) -> int:
        """The dimensions in which the cloud is thick enough to determine how a warp stretches space.

        A sheet bends rather than stretches.  Across it, a warp follows the bending and not the deformation of space.
        """
        sheet = self.rank > 1 and self.spread[self.rank - 1] < SHEET * self.spread[self.rank - 2]
        return self.rank - 1 if sheet else self.rank


def frame_of(
    points: Array,  # (s, d)
    resolution: float = 0.0,
) -> Frame:
    """The frame of a cloud; ``resolution`` is the spacing of the numbers in which it was given."""
    centre = points.mean(axis=0)
    centred = points - centre
    largest = np.abs(centred).max(initial=0.0)
    if largest == 0:
        return Frame(centre, 1.0, np.eye(points.shape[1]), 0, np.zeros(points.shape[1]))
    # division by the largest entry keeps the squares of 1e-200 and 1e200 representable
    spread, axes = _principal_axes(centred / largest)
    size = float(largest * np.sqrt(np.sum(spread**2) / len(points)))
    rounding = RESOLUTION_MARGIN * np.sqrt(len(points)) * resolution / largest
    floor = FLAT * spread[0] + rounding
    axes = axes_by_rule(centred / largest, spread, axes, COINCIDING * spread[0] + rounding)
    return Frame(centre, size, axes, int(np.sum(spread > floor)), largest * spread / np.sqrt(len(points)))


def frames_of(
    clouds: Sequence[Array],  # (s_t, d) each
    resolutions: Array,  # (g,)
) -> list[Frame]:
    """The frames of several clouds.

    The second moments of all clouds are decomposed in one call.  A thin cloud, and one with equal spreads, is treated
    alone.
    """
    sizes = np.array([len(points) for points in clouds])
    inside = np.arange(sizes.max()) < sizes[:, None]  # (g, s), false behind the last point of a cloud
    stacked = np.zeros((*inside.shape, clouds[0].shape[1]))
    stacked[inside] = np.concatenate(clouds)
    centres = stacked.sum(axis=1) / sizes[:, None]
    centred = (stacked - centres[:, None]) * inside[:, :, None]
    largest = np.abs(centred).max(axis=(1, 2))
    centred /= np.where(largest > 0, largest, 1.0)[:, None, None]
    squares, axes = np.linalg.eigh(np.swapaxes(centred, 1, 2) @ centred)
    spread, axes = np.sqrt(np.maximum(squares[:, ::-1], 0.0)), np.swapaxes(axes, 1, 2)[:, ::-1]
    root = np.sqrt(sizes)
    rounding = RESOLUTION_MARGIN * root * resolutions / np.where(largest > 0, largest, 1.0)
    thick = squares[:, 0] > THIN**2 * squares[:, -1]
    distinct = np.all(-np.diff(spread) > (COINCIDING * spread[:, 0] + rounding)[:, None], axis=1)
    lengths = largest * np.linalg.norm(spread, axis=1) / root
    ranks = np.sum(spread > (FLAT * spread[:, 0] + rounding)[:, None], axis=1)
    spread *= (largest / root)[:, None]
    return [
        Frame(centres[t], float(lengths[t]), axes[t], int(ranks[t]), spread[t])
        if thick[t] and distinct[t]
        else frame_of(clouds[t], float(resolutions[t]))
        for t in range(len(clouds))
    ]


def _principal_axes(centred: Array) -> tuple[Array, Array]:
    """Singular values, descending, and the axes as rows.

    The d x d matrix of second moments is fast, but loses digits with the square of the thinness.  Therefore thin
    clouds are decomposed themselves.
    """
    squares, axes = np.linalg.eigh(centred.T @ centred)
    if squares[0] > THIN**2 * squares[-1]:
        return np.sqrt(squares[::-1]), axes.T[::-1]
    # rows of zeros complete the axes if there are fewer points than dimensions
    padded = np.vstack([centred, np.zeros((centred.shape[1], centred.shape[1]))])
    spread, axes = np.linalg.svd(padded, full_matrices=False)[1:]
    return spread, axes


def axes_by_rule(
    centred: Array,  # (s, d)
    spread: Array,  # (d,) descending
    axes: Array,  # (d, d) rows
    tolerance: float,  # spreads that differ by less are equal
) -> Array:  # (d, d)
    """The axes; those of equal spreads are determined by the order of the points and not by rounding.

    Such axes may be rotated among themselves.  The first of them is rotated towards the first point that lies at a
    clear distance from the centre in their plane or space, the next one towards the first point at a clear distance
    from that axis.
    """
    distinct = -np.diff(spread) > tolerance
    if distinct.all():
        return axes
    chosen, rounding = axes.copy(), tolerance / np.sqrt(len(centred))  # of one point
    for block in np.split(np.arange(len(spread)), np.flatnonzero(distinct) + 1):
        if len(block) > 1 and spread[block[-1]] > tolerance:
            chosen[block] = _rotation_by_rule(centred @ axes[block].T, rounding) @ axes[block]
    return chosen


def _rotation_by_rule(along: Array, rounding: float) -> Array:  # (s, g) -> (g, g)
    """A rotation whose rows point to the first points at a clear distance from the span of the rows before."""
    rows = list[Array]()
    for _ in range(along.shape[1] - 1):
        lengths = np.linalg.norm(along, axis=1)
        if lengths.max() <= rounding:  # the remaining lengths are rounding errors
            return np.eye(along.shape[1])
        first = along[np.argmax(lengths > CLEAR_DISTANCE * lengths.max())]
        rows.append(first / np.linalg.norm(first))
        along = along - np.outer(along @ rows[-1], rows[-1])
    last = np.linalg.svd(np.array(rows))[2][-1]
    return np.vstack([*rows, np.sign(np.linalg.det(np.vstack([*rows, last]))) * last])


@dataclass(frozen=True)
class AffineBasis:
    """T = W^(1/2) [u, 1] E with T'T = I."""

    columns: Array  # (s, r)  T
    coefficients: Array  # (d + 1, r)  E


def orthonormal_affine(
    unit_points: Array,  # (s, d)
    weights: Array,  # (s,)
    rank: int,
) -> AffineBasis:
    """An orthonormal basis of the affine functions on a cloud, the constant first."""
    stack = orthonormal_affine_stack(unit_points[None], weights[None], rank)
    return AffineBasis(stack.columns[0], stack.coefficients[0])


def orthonormal_affine_stack(
    unit_points: Array,  # (g, s, d)
    weights: Array,  # (g, s), 0 behind the last point of a cloud
    rank: int,
) -> AffineBasis:  # (g, s, r), (g, d + 1, r)
    """The bases of several clouds of the same rank."""
    root = np.sqrt(weights)
    mean = (weights[:, None] @ unit_points) / weights.sum(axis=1)[:, None, None]  # (g, 1, d)
    left, spread, right = np.linalg.svd(root[:, :, None] * (unit_points - mean), full_matrices=False)
    slopes = np.swapaxes(right[:, :rank], 1, 2) / spread[:, None, :rank]
    constant = 1 / np.linalg.norm(root, axis=1)
    coefficients = np.zeros((len(root), unit_points.shape[2] + 1, rank + 1))
    coefficients[:, -1, 0] = constant
    coefficients[:, :-1, 1:] = slopes
    coefficients[:, -1:, 1:] = -mean @ slopes
    columns = np.empty((*root.shape, rank + 1))
    columns[:, :, 0] = constant[:, None] * root
    columns[:, :, 1:] = left[:, :, :rank]
    return AffineBasis(columns, coefficients)


def orthonormal_slopes(
    centred: Array,  # (n, m, d) points of several clouds, minus their weighted means
    weights: Array,  # (n, m)
    moments: Array,  # (n, d, d) weighted second moments
    ranks: IndexArray,  # (n,) number of dimensions that each cloud spans
) -> Array:  # (n, m, d)
    """Linear functions L_t of the points of each cloud with L_t' W_t L_t = I; the first d - rank columns are zero.

    W_t^(1/2) L_t spans what the slopes of :func:`orthonormal_affine` span, in a third of the time for many clouds.
    The second moments determine the directions of a thin cloud only to the square of its thinness.  Therefore the
    functions are orthonormalised again, from their own moments, until these are those of a thick cloud.
    """
    d = centred.shape[2]
    spanned = np.arange(d) >= d - ranks[:, None]  # eigenvalues are ascending
    functions = centred
    for _ in range(ORTHONORMALISATIONS):
        squares, axes = np.linalg.eigh(moments)
        squares = np.maximum(squares, np.finfo(np.float64).eps * squares[:, -1:])  # smaller ones are rounding errors
        shrink = np.where(spanned, 1 / np.sqrt(np.where(spanned, squares, 1.0)), 0.0)
        functions = functions @ (axes * shrink[:, None, :])
        if not np.any(spanned & (squares < SHEET**2 * squares[:, -1:])):
            break
        moments = np.swapaxes(functions, 1, 2) @ (functions * weights[:, :, None])
    return functions

"""The frame in which one cloud is computed, and how many dimensions it spans.

A cloud far from the origin, or of size 1e-9, loses its digits if it is used as it is.  All algebra on a cloud
therefore happens in

    u = (p - centre) / size                                            (theory, eq. 4)

and an affine function of p is an affine function of u.  ``orthonormal_affine`` returns an orthonormal basis T of
W^(1/2) [u, 1]; a flat cloud has fewer columns than d + 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..typing import Array, IndexArray

FLAT = 1e-8  # a spread below this share of the largest one counts as none
THIN = 1e-3  # a spread below this share of the largest is not read off second moments
SHEET = 0.2  # a cloud thinner than this share of its next wider axis is a sheet (in 2D a curve)
ROUNDING = 2.0  # units in the last place of the coordinates that count as none
COINCIDING = 1e-8  # spreads that differ by less, as a share of the largest, leave their axes to rounding
ORTHONORMALISATIONS = 4  # each resolves eight more digits of thinness
CLEARLY_OFF = 1 / np.pi  # of the largest distance; irrational, so that no point of a regular grid lies just there


@dataclass(frozen=True)
class Frame:
    """Centre and size of a cloud, and its principal axes (rows), widest first."""

    centre: Array  # (d,)
    size: float
    axes: Array  # (d, d)
    rank: int  # dimensions spanned: 0 a point, 1 a line, 2 a plane, 3 a body
    spread: Array  # (d,) along the axes, descending, root mean square

    def to_unit(self, points: Array) -> Array:  # (k, d) -> (k, d)
        return (points - self.centre) / self.size

    @property
    def thinness(self) -> float:
        """The least spread as a share of the largest, among the dimensions that are spanned."""
        return float(self.spread[self.rank - 1] / self.spread[0]) if self.rank else 1.0

    @property
    def reliable_rank(self) -> int:
        """The dimensions in which the cloud is thick enough to say how a warp stretches space.

        A sheet bends rather than stretches: across it a warp follows the bending and says nothing of space.
        """
        return (
            self.rank - 1
            if self.rank > 1 and self.spread[self.rank - 1] < SHEET * self.spread[self.rank - 2]
            else self.rank
        )


def frame_of(
    points: Array,  # (s, d)
    resolution: float = 0.0,
) -> Frame:
    """Centre, root-mean-square size and axes of a cloud; ``resolution`` is the spacing of its numbers."""
    centre = points.mean(axis=0)
    centred = points - centre
    largest = np.abs(centred).max(initial=0.0)
    if largest == 0:
        return Frame(centre, 1.0, np.eye(points.shape[1]), 0, np.zeros(points.shape[1]))
    # dividing by the largest entry first keeps squares of 1e-200 and 1e200 representable
    spread, axes = _principal_axes(centred / largest)
    size = float(largest * np.sqrt(np.sum(spread**2) / len(points)))
    rounding = ROUNDING * np.sqrt(len(points)) * resolution / largest
    floor = FLAT * spread[0] + rounding
    axes = axes_by_rule(centred / largest, spread, axes, COINCIDING * spread[0] + rounding)
    return Frame(centre, size, axes, int(np.sum(spread > floor)), largest * spread / np.sqrt(len(points)))


def _principal_axes(centred: Array) -> tuple[Array, Array]:
    """Singular values, descending, and the axes as rows.

    The d x d matrix of second moments tells them to rounding over the square of the thinness, so thin clouds take
    the long way.
    """
    squares, axes = np.linalg.eigh(centred.T @ centred)
    if squares[0] > THIN**2 * squares[-1]:
        return np.sqrt(squares[::-1]), axes.T[::-1]
    # rows of zeros make the axes complete where there are fewer points than dimensions
    padded = np.vstack([centred, np.zeros((centred.shape[1], centred.shape[1]))])
    spread, axes = np.linalg.svd(padded, full_matrices=False)[1:]
    return spread, axes


def axes_by_rule(
    centred: Array,  # (s, d)
    spread: Array,  # (d,) descending
    axes: Array,  # (d, d) rows
    tolerance: float,  # spreads that differ by less cannot be told apart
) -> Array:  # (d, d)
    """The axes, with those of coinciding spreads chosen by the points, in their order, and not by rounding.

    Any turn of such axes among themselves is as good.  The first of them is turned towards the first point that lies
    clearly off the centre in their plane or space, the next towards the first that lies clearly off that axis.
    """
    apart = -np.diff(spread) > tolerance
    if apart.all():
        return axes
    chosen, rounding = axes.copy(), tolerance / np.sqrt(len(centred))  # of one point
    for block in np.split(np.arange(len(spread)), np.flatnonzero(apart) + 1):
        if len(block) > 1 and spread[block[-1]] > tolerance:
            chosen[block] = _turn_by_rule(centred @ axes[block].T, rounding) @ axes[block]
    return chosen


def _turn_by_rule(along: Array, rounding: float) -> Array:  # (s, g) -> (g, g)
    """A rotation whose first rows point to the first points that lie clearly off those before."""
    rows = list[Array]()
    for _ in range(along.shape[1] - 1):
        lengths = np.linalg.norm(along, axis=1)
        if lengths.max() <= rounding:  # nothing but rounding is left to choose by
            return np.eye(along.shape[1])
        first = along[np.argmax(lengths > CLEARLY_OFF * lengths.max())]
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
    root = np.sqrt(weights)
    mean = weights @ unit_points / weights.sum()
    left, spread, right = np.linalg.svd(root[:, None] * (unit_points - mean), full_matrices=False)
    slopes = right[:rank].T / spread[:rank]
    constant = 1 / np.linalg.norm(root)
    coefficients = np.zeros((unit_points.shape[1] + 1, rank + 1))
    coefficients[-1, 0] = constant
    coefficients[:-1, 1:] = slopes
    coefficients[-1, 1:] = -mean @ slopes
    return AffineBasis(np.column_stack([constant * root, left[:, :rank]]), coefficients)


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

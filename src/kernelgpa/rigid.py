"""Rigid registration of all clouds, and the start that needs no guess.

With every map point free, the map and the translations are eliminated from

    min over M, R_t, t_t, s_t of   sum_t |W_t^(1/2) (s_t P_t R_t' + 1 t_t' - M_t)|^2   (theory, eq. 15)

exactly: with points centred by weight, D the total weight of each landmark, w_t the weights of a
cloud as a vector over landmarks,

    M = D^-1 (sum_t s_t W_t P_t R_t' + w_t tau_t'),      Laplacian tau = w' D^-1 sum_t s_t W_t P_t R_t'

where the Laplacian diag(|w_t|) - w' D^-1 w ties the clouds.  What is left is a quadratic form in the
rotations.  The start is the affine solution, whose spectrum is global.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.linalg import cho_factor, cho_solve

from .forms import DenseForm, Form, form_of
from .frames import CLEARLY_OFF, SHEET, Array, BoolArray, IndexArray, regions
from .gauge import (
    Gauge,
    closed_form_matrix,
    coinciding,
    deliver,
    fix_gauge,
    moments_of,
)
from .iterated import Apply
from .observations import Cloud, Observations
from .rotations import Ending, Operator, climb, nearest
from .spectral import Spectrum, metric_of, smallest
from .together import Together

SIMILARITY_ROUNDS = 500
SETTLED = 1e-12  # relative change of the clouds' sizes that ends the rounds
MIRROR_THICKNESS = SHEET**2  # squared spread along the thinnest axis, as a share of that along the next
MANY_MOTIONS = 100_000  # entries of a matrix over all motions, above which few steps go without it
UNDECIDED = 1e-6  # of the farthest: a cloud that lies on neither side of a division
MIRROR_RATIO = 0.5  # how much better a mirror image must fit to be called one


@dataclass(frozen=True)
class Start:
    """The affine solution: a global starting point for everything that iterates."""

    spectrum: Spectrum
    gauge: Gauge


def affine_start(observations: Observations) -> Start:
    """Rotations and map of the affine registration in closed form, then refined."""
    spectrum = affine_spectrum(observations, observations.dimension)
    return Start(spectrum, fix_gauge(spectrum, observations.together))


def affine_spectrum(observations: Observations, modes: int) -> Spectrum:
    together = observations.together
    return smallest(affine_form(together), together.rank, modes, *metric_of(together))


def affine_form(together: Together) -> Form:
    """What affine warps leave of the cost, for all clouds at once.

    W_t^(1/2) P_t is made orthonormal by the second moments of each cloud.  They know a thin cloud to the square of its
    thinness only, so there it is done once more, with what the first time left.
    """
    squares, axes = np.linalg.eigh(together.moments)  # ascending
    squares = np.maximum(squares, np.finfo(np.float64).eps * squares[:, -1:])  # as far as they are known
    n, m, d = together.centred.shape
    spanned = np.arange(d) >= d - together.ranks[:, None]  # a flat cloud has fewer directions
    shrink = np.where(spanned, 1 / np.sqrt(np.where(spanned, squares, 1.0)), 0.0)
    slopes = together.centred @ (axes * shrink[:, None, :])  # (n, m, d)
    if np.any(spanned & (squares < SHEET**2 * squares[:, -1:])):
        left, turns = np.linalg.eigh(np.swapaxes(slopes, 1, 2) @ (slopes * together.weights.T[:, :, None]))
        # about 1, or as far off as the first squares were; exactly 0 for directions that are not spanned
        slopes = slopes @ (turns / np.sqrt(np.where(left > 1e-3, left, np.inf))[:, None, :])
    constants = np.broadcast_to(1 / np.sqrt(together.mass)[:, None, None], (n, m, 1))
    basis = np.concatenate([slopes, constants], axis=2) * together.weights.T[:, :, None]
    return form_of(together.weights.sum(axis=1), np.swapaxes(basis, 0, 1).reshape(m, n * (d + 1)))


def torn_apart(observations: Observations) -> tuple[IndexArray, IndexArray]:
    """The two groups of clouds that come apart most easily.

    The next eigenvector of the affine registration is nearly an affine function of the map within each cloud.
    Where it is another one in one group of clouds than in the rest, only that group's few ties oppose.
    """
    spectrum = affine_spectrum(observations, observations.dimension + 1)
    rank = spectrum.dimension
    functions = np.column_stack([spectrum.vectors[:, :rank], np.ones(len(spectrum.vectors))])
    weak = spectrum.vectors[:, rank]
    said = [functions @ np.linalg.lstsq(functions[c.seen], weak[c.seen], rcond=1e-6)[0] for c in observations.clouds]
    off = np.array(said) - np.mean(said, axis=0)
    along = np.linalg.svd(off, full_matrices=False)[0][:, 0]
    along *= np.sign(along[np.argmax(np.abs(along) > CLEARLY_OFF * np.abs(along).max())])
    other = along < -UNDECIDED * np.abs(along).max()  # a cloud in the middle stays with the first group
    return np.flatnonzero(~other), np.flatnonzero(other)


@dataclass(frozen=True)
class Hands:
    """Clouds of the wrong hand: those that are sure, and those too thin to be sure."""

    mirrored: IndexArray
    doubtful: IndexArray


def hands(spectrum: Spectrum, observations: Observations) -> Hands:
    """Clouds that fit the others as a mirror image and not by a rotation, whatever their size.

    The hand of a cloud is the sign of its determinant against the bottom eigenvectors.  It is decided where
    the mirror image fits much better than a rotation; the hand of most decided clouds is right, in a tie
    that of the first.  A thin sheet that bends up in one cloud and down in another fits as a mirror image too,
    so thin clouds are only doubted.
    """
    none = np.zeros(0, dtype=np.intp)
    rank, dimension = observations.together.rank, observations.dimension
    if rank < dimension:
        return Hands(none, none)
    moments = moments_of(observations.together, spectrum.vectors[:, :dimension])
    A = closed_form_matrix(moments, coinciding(spectrum, rank), dimension)
    pulls = moments.cross @ A  # (n, d, d)
    placed = np.einsum("ke,tkl,le->t", A, moments.modes, A)
    own = np.trace(observations.together.moments, axis1=1, axis2=2)
    decided, thick = _reflection_decides(pulls, own, placed, np.count_nonzero(observations.together.weights, axis=0))
    decided &= observations.together.ranks == dimension  # a flat cloud is its own mirror image
    hand = np.where(decided, np.linalg.slogdet(pulls)[0], 0)
    voters = hand[decided & thick] if (decided & thick).any() else hand[decided]
    if not len(voters):
        return Hands(none, none)
    wrong = hand == -(np.sign(voters.sum()) or voters[0])
    return Hands(np.flatnonzero(wrong & thick), np.flatnonzero(wrong & ~thick))


def mirrored_onto(cloud: Cloud, places: Array) -> bool:  # (s, d)
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


class RigidSystem:
    """Eq. 15 with the map and the translations eliminated, or eq. 16 where the map has a price.

    The map of any rotations is linear in them, and is solved for once, for the unit motions of every cloud; or, where
    few steps are to be expected and clouds are many, anew for the motions of every step.
    """

    def __init__(self, together: Together, few_steps: bool = False) -> None:
        n, m, d = together.centred.shape
        self._shape = (n, d, d)
        self._stepwise = few_steps and n * d * min(n * d, m) > MANY_MOTIONS
        self._weights, self._pull = together.weights, together.pull
        total = self._weights.sum(axis=1)
        columns = self._weights / np.sqrt(self._weights.sum(axis=0))
        lifted = np.full(len(total), np.sqrt(total.mean() / len(total)))  # the map's own position is free
        self._tied = total, columns, lifted
        self._settle(self._free())

    def penalised(self, form: Form, gamma: float) -> RigidSystem:
        """The same clouds with the price gamma tr(M' Q M) on the map."""
        priced = copy(self)
        priced._settle(self._inverse_with(form, gamma))
        return priced

    def _inverse_with(self, form: Form, gamma: float) -> Apply:
        """The translations eliminated first, then the map: gamma Q + D - sum_t w_t w_t' / |w_t|, lifted."""
        return form.inverse(gamma, *self._tied)

    def _settle(self, settled: Apply) -> None:
        self._settled = settled
        if self._stepwise:
            return
        self._places = settled(self._pull)  # (m, n d): the map that each unit motion makes
        m, motions = self._places.shape
        self._support = self._pull.T @ self._places if motions <= m else None  # (n d, n d)

    def _free(self) -> Apply:
        """(m, c) weighted sums -> (m, c) map points, where each map point is free."""
        m, n = self._weights.shape
        if m < n:  # the smaller of the two systems
            return self._inverse_with(DenseForm(np.zeros((m, m))), 0.0)
        total = self._weights.sum(axis=1)[:, None]
        laplacian = np.diag(self._weights.sum(axis=0)) - self._weights.T @ (self._weights / total)
        # the map's own position is free: lifting the constants fixes it at the origin
        size = np.trace(laplacian)
        ties = cho_factor(laplacian + size / n**2 + 1e-15 * size * np.eye(n))

        def settled(moved: Array) -> Array:
            offsets = cho_solve(ties, self._weights.T @ (moved / total))
            return (moved + self._weights @ offsets) / total

        return settled

    def map_of(self, motions: Array) -> Array:  # (n, d, d) s_t R_t -> (m, d)
        stacked = self._stacked(motions)
        return self._settled(self._pull @ stacked) if self._stepwise else self._places @ stacked

    def operator(self, motions: Array) -> Array:
        stacked = self._stacked(motions)
        if self._stepwise:
            settled = self._settled(self._pull @ stacked)
            return np.swapaxes((self._pull.T @ settled).reshape(self._shape), 1, 2)
        pulled = self._pull.T @ (self._places @ stacked) if self._support is None else self._support @ stacked
        return np.swapaxes(pulled.reshape(self._shape), 1, 2)

    def _stacked(self, motions: Array) -> Array:  # (n, d, d) -> (n d, d), one above the other, transposed
        return np.swapaxes(motions, 1, 2).reshape(-1, self._shape[2])

    def resized(self, factors: Array) -> Operator:
        """The operator with the clouds' sizes multiplied by ``factors`` (n,)."""
        s = factors[:, None, None]
        return lambda rotations: s * self.operator(s * rotations)

    def mutual_pull(self, rotations: Array) -> Array:  # (n, d, d) -> (n, n)
        """How far the clouds' sizes support each other: eq. 15 is sum_t s_t^2 |P_t|^2 - s' N s."""
        m, (n, d, _) = len(self._pull), self._shape
        moved = np.einsum("mtd,ted->tem", self._pull.reshape(m, n, d), rotations)
        placed = np.einsum("mtd,ted->tem", self._places.reshape(m, n, d), rotations)
        return moved.reshape(n, -1) @ placed.reshape(n, -1).T


def rigid_registration(observations: Observations, start: Array) -> Gauge:
    """The optimum of eq. 15 with s_t = 1, from the given rotations."""
    return registered(RigidSystem(observations.together), observations.together, start)


def registered(system: RigidSystem, together: Together, start: Array) -> Gauge:
    """The best rotations of a system, and its map, delivered."""
    end = climb(system.operator, start)
    return deliver(system.map_of(end.rotations), together, end.rotations, end.iterations, end.ending)


def similarity_registration(observations: Observations, start: Array) -> tuple[Gauge, Array]:
    """The optimum of eq. 15 with the clouds' sizes free, and the factors s_t.

    Sizes are measured against each other only: sum_t s_t^2 |P_t|^2 = sum_t |P_t|^2.  For given
    rotations the best s is the top eigenvector of the clouds' mutual pull.
    """
    system = RigidSystem(observations.together)
    size = np.sqrt(np.trace(observations.together.moments, axis1=1, axis2=2))
    rotations, factors = start, np.ones(len(size))
    iterations, ending = 0, Ending.LIMIT
    for _ in range(SIMILARITY_ROUNDS):
        end = climb(system.resized(factors), rotations)
        rotations, iterations = end.rotations, iterations + end.iterations
        renewed = _best_factors(system, rotations, size)
        change = np.abs(renewed / factors - 1).max()
        factors = renewed
        if change < SETTLED:
            ending = end.ending
            break
    M = system.map_of(factors[:, None, None] * rotations)
    return deliver(M, observations.together, rotations, iterations, ending, factors), factors


def _best_factors(system: RigidSystem, rotations: Array, size: Array) -> Array:
    pull = system.mutual_pull(rotations) / np.outer(size, size)
    vector = np.linalg.eigh(0.5 * (pull + pull.T))[1][:, -1]
    return vector * np.sign(vector.sum()) / size * np.linalg.norm(size)


def pose_onto(cloud: Cloud, target: Array) -> tuple[Array, Array]:  # target (s, d)
    """R and t that bring a cloud nearest to given places."""
    share = cloud.weights / cloud.weights.sum()
    there = share @ target
    rotation = nearest((target - there).T @ (cloud.weights[:, None] * cloud.centred))
    return rotation, there - rotation @ cloud.mean


def jackknifed_poses(cloud: Cloud, places: Array, count: int) -> list[tuple[Array, Array]]:  # (s, d)
    """The poses onto given places without each of ``count`` regions of the cloud.

    Deformation moves whole regions, so landmarks do not err one by one, and regions are what is left out.
    """
    order = np.lexsort(cloud.points.T)  # the same regions in whatever order the landmarks come
    labels = np.empty(len(order), dtype=np.intp)
    labels[order] = regions(cloud.points[order], count)
    poses = []
    for keep in (labels != label for label in np.unique(labels)):
        if np.sum(keep) > cloud.points.shape[1]:
            part = Cloud(cloud.name, np.flatnonzero(keep), cloud.points[keep], cloud.weights[keep])
            poses.append(pose_onto(part, places[keep]))
    return poses


def jackknife_covariance(moves: Array) -> Array:  # (k, q) -> (q, q)
    """Covariance of an estimate, from what it is without each of k parts."""
    centred = moves - moves.mean(axis=0)
    return np.asarray((len(moves) - 1) / len(moves) * centred.T @ centred)

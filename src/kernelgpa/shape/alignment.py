"""Clouds after the poses of a registration: the residuals that a shape model is learned from.

With the mean shape M and the pose of cloud t (size factor s_t, rotation R_t, translation t_t),

    y_t = s_t R_t p_t + t_t - M         for each landmark that cloud t saw                           (theory, eq. 23)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from sklearn.base import clone

from ..errors import KernelGPAError, silenced_warnings
from ..estimators import KernelGPA, RigidGPA
from ..estimators.base import GPA
from ..gauge.rotations import nearest_rotation
from ..observations import Observations
from ..typing import Array, BoolArray, IndexArray
from .spaces import Shapes, motions


@dataclass(frozen=True)
class Pose:
    """The similarity  p -> linear @ p + translation  from a cloud to the mean shape."""

    linear: Array  # (d, d), a rotation times a size factor
    translation: Array  # (d,)

    @property
    def size_factor(self) -> float:
        return float(abs(np.linalg.det(self.linear)) ** (1 / len(self.linear)))

    def __call__(self, points: Array) -> Array:  # (k, d) -> (k, d)
        return points @ self.linear.T + self.translation

    def back(self, points: Array) -> Array:  # (k, d) -> (k, d)
        return np.asarray(np.linalg.solve(self.linear, (points - self.translation).T).T)

    def covariances_back(self, covariances: Array) -> Array:  # (k, d, d) -> (k, d, d)
        inverse = np.linalg.inv(self.linear)
        return inverse @ covariances @ inverse.T


def procrustes(points: Array, targets: Array, scaling: bool, gain: float = 1.0) -> Pose:  # (k, d), (k, d)
    """The pose that brings points closest to targets; with ``scaling`` its size factor is multiplied by ``gain``."""
    mean, aim = points.mean(axis=0), targets.mean(axis=0)
    centred, wanted = points - mean, targets - aim
    moments = wanted.T @ centred
    R = nearest_rotation(moments)
    factor = gain * float(np.sum(R * moments) / np.sum(centred**2)) if scaling else 1.0
    return Pose(factor * R, aim - factor * R @ mean)


@dataclass(frozen=True)
class Alignment:
    """All clouds in the frame of their mean shape."""

    positions: Array  # (m, d) M, without NaN
    poses: tuple[Pose, ...]  # (n,)
    residuals: Array  # (n, D), 0 where unseen
    weights: Array  # (n, m) of the observations: 0 where unseen, at most 1
    scaling: bool
    gain: float  # of the size factors over those of a regression on M
    participating: BoolArray  # (n,) False for mirror images that were left out of the map

    @property
    def dimension(self) -> int:
        return int(self.positions.shape[1])

    @cached_property
    def seen(self) -> BoolArray:  # (n, m)
        return np.asarray(self.weights > 0)

    @cached_property
    def entries(self) -> BoolArray:  # (n, D)
        """Which coordinates were seen."""
        return np.repeat(self.seen, self.dimension, axis=1)

    @cached_property
    def entry_weights(self) -> Array | BoolArray:  # (n, D)
        """The weights of the coordinates; truth values if all observations that were made count alike."""
        if np.array_equal(self.weights, self.seen):
            return self.entries
        return np.repeat(self.weights, self.dimension, axis=1)

    @cached_property
    def shapes(self) -> Shapes:
        variance = float(np.mean(self.residuals[self.entries] ** 2))
        return Shapes(self.positions, motions(self.positions, self.scaling), variance)

    @property
    def distances(self) -> Array:  # (n, m)
        """Of the observations from the mean shape, NaN where unseen."""
        lengths = np.linalg.norm(self.residuals.reshape(len(self.seen), -1, self.dimension), axis=2)
        return np.where(self.seen, lengths, np.nan)

    def without(self, rejected: BoolArray) -> Alignment:  # (n, m)
        """The same poses, as if some observations had not been made."""
        weights = np.where(rejected, 0.0, self.weights)
        residuals = np.where(np.repeat(rejected, self.dimension, axis=1), 0.0, self.residuals)
        return replace(self, residuals=residuals, weights=weights)

    def part(self, clouds: IndexArray, landmarks: IndexArray) -> Alignment:
        """Some clouds and landmarks, of which all observations count alike."""
        d = self.dimension
        entries = (landmarks[:, None] * d + np.arange(d)).ravel()
        return Alignment(
            self.positions[landmarks],
            tuple(self.poses[t] for t in clouds),
            self.residuals[np.ix_(clouds, entries)],
            self.seen[np.ix_(clouds, landmarks)].astype(np.float64),
            self.scaling,
            self.gain,
            self.participating[clouds],
        )


def aligned(gpa: GPA, observations: Observations) -> Alignment:
    """The observations, of which some may be hidden from ``gpa``, in the frame of its map."""
    points, M = observations.points, gpa.map_
    scaling = gpa._sizes_differ
    linear = gpa.size_factors_[:, None, None] * gpa.rotations_
    poses = tuple(Pose(A, t) for A, t in zip(linear, gpa.translations_, strict=True))
    residuals = np.stack([pose(own) for pose, own in zip(poses, points, strict=True)]) - M
    weights = observations.weights / observations.weights.max()
    participating = np.isin(np.arange(len(points)), gpa.registration_.problem.participating)
    gain = _size_gain(gpa, points, weights > 0) if scaling else 1.0
    return Alignment(M, poses, np.nan_to_num(residuals).reshape(len(points), -1), weights, scaling, gain, participating)


def _size_gain(gpa: GPA, points: Array, seen: BoolArray) -> float:
    """By what the size factors of a registration exceed those of a regression of each cloud on the mean shape."""
    ratios = []
    for t, own in enumerate(points):
        pose = procrustes(own[seen[t]], gpa.map_[seen[t]], scaling=True)
        ratios.append(gpa.size_factors_[t] / pose.size_factor)
    return float(np.median(ratios))


def estimator(kind: str, scaling: bool) -> GPA:
    """The registration of a kind: rigid (or similarity), or the faithful map of kernel warps."""
    return RigidGPA(scaling=scaling) if kind == "rigid" else KernelGPA(bandwidth=0.25, smoothing=0.1, robust=None)


def mean_without(gpa: GPA, observations: Observations, kept: IndexArray, M: Array) -> Array | None:  # (m, d)
    """The mean shape of some clouds alone, moved onto that of all; None if these cannot be registered.

    NaN for landmarks that none of them saw.
    """
    with silenced_warnings():  # they were issued for all clouds
        try:
            own = clone(gpa).fit(observations.at(kept)).map_
        except KernelGPAError:
            return None
    known = ~np.isnan(own[:, 0])
    moved = np.full(M.shape, np.nan)
    moved[known] = procrustes(own[known], M[known], scaling=False)(own[known])
    return moved

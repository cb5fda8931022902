"""sqrt(Lambda) R_g in closed form, from second moments of the clouds with the eigenvectors.

A map is  M = X A  with X (m, k) the k bottom eigenvectors.  With points and rows of X centred by weight in each cloud,

    C_t = P_t' W_t X_t  (d, k),      S_t = X_t' W_t X_t  (k, k),      B_t = C_t S_t^+,

    A A' = L = (1/n) sum_t B_t' B_t                                                     (theory, eq. 13)

if the clouds are rigid copies of the map (section 7.3 of the paper, whose R_g' Lambda R_g is A A').  With
L = V Lambda V', the paper's closed form is  A = V sqrt(Lambda):  the columns of V are R_g'.  The authors' program
leaves R_g out, A = sqrt(Lambda).  Eigenvectors whose eigenvalues coincide to rounding are an arbitrary basis of their
span (section 8.1), so that R_g is needed there in any case: R_g is block diagonal, with one block for each group of
coinciding eigenvalues, and for the paper's formulation one block in all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..observations.stacked import StackedClouds
from ..spectrum.eigenpairs import Spectrum
from ..typing import Array, IndexArray
from .rotations import RotationOptimum, nearest_rotation

Block = tuple[IndexArray, IndexArray]  # the rows and the columns of one block of A


@dataclass(frozen=True)
class ModeMoments:
    """Second moments of each cloud with its rows of X, centred by weight."""

    cross: Array  # (n, d, k)  C_t
    modes: Array  # (n, k, k)  S_t
    ranks: IndexArray  # (n,) number of dimensions that each cloud spans


@dataclass(frozen=True)
class ScaleProblem:
    """What A and the rotations are determined from."""

    stacked: StackedClouds
    moments: ModeMoments
    blocks: list[Block]
    start: Array | None = None  # (n, d, d) rotations close to the solution, if they are known


@dataclass(frozen=True)
class ScaleSolution:
    """A with the rotation of each cloud onto X A, and how the rotations were found."""

    matrix: Array  # (k, d)  A
    rotations: Array  # (n, d, d)
    optimum: RotationOptimum | None = None  # None: closed form


def mode_moments(stacked: StackedClouds, X: Array) -> ModeMoments:
    """C_t and S_t of all clouds."""
    (n, d), k = stacked.means.shape, X.shape[1]
    cross = (stacked.weighted_points.T @ X).reshape(n, d, k)  # the points are centred, therefore X need not be
    means = (stacked.weights.T @ X) / stacked.total_weights[:, None]
    products = (X[:, :, None] * X[:, None, :]).reshape(len(X), k * k)
    modes = (stacked.weights.T @ products).reshape(n, k, k)
    modes -= stacked.total_weights[:, None, None] * means[:, :, None] * means[:, None, :]
    return ModeMoments(cross, modes, stacked.ranks)


def coinciding_blocks(spectrum: Spectrum, axes: IndexArray) -> list[Block]:
    """As many modes as the map has dimensions, in blocks of eigenvalues that coincide to rounding (section 8.1)."""
    boundaries = np.flatnonzero(np.abs(np.diff(spectrum.values[axes])) > spectrum.rounding) + 1
    return [(block, block) for block in np.split(np.arange(len(axes)), boundaries)]


def closed_form_matrix(moments: ModeMoments, blocks: list[Block]) -> Array:  # (k, d)
    """A = R_g' sqrt(Lambda), with Lambda the eigenvalues of the right-hand side of eq. 13, largest first."""
    scales = np.sqrt(np.maximum(np.linalg.eigvalsh(mean_square(moments))[::-1], 0.0))
    columns = moments.cross.shape[1]
    return mode_rotation(moments, blocks) * np.append(scales, np.zeros(columns))[:columns]


def mode_rotation(moments: ModeMoments, blocks: list[Block]) -> Array:  # (k, d)
    """R_g': the eigenvectors of the right-hand side of eq. 13 in each block, largest eigenvalue first."""
    rotation = np.eye(moments.cross.shape[2], moments.cross.shape[1])
    if all(len(rows) == 1 for rows, _ in blocks):
        return rotation
    square = mean_square(moments)
    for rows, columns in blocks:
        rotation[np.ix_(rows, columns)] = np.linalg.eigh(square[np.ix_(rows, rows)])[1][:, ::-1]
    return rotation


def mean_square(moments: ModeMoments) -> Array:  # (k, k)
    """(1/n) sum_t B_t' B_t over the clouds of full rank: a flat cloud does not determine the last scale."""
    B = np.swapaxes(np.linalg.pinv(moments.modes, hermitian=True) @ np.swapaxes(moments.cross, 1, 2), 1, 2)
    full = B[moments.ranks == moments.ranks.max()]
    return np.mean(np.swapaxes(full, 1, 2) @ full, axis=0)


def rotations_onto(moments: ModeMoments, A: Array) -> Array:  # (n, d, d)
    """The rotation of each cloud that brings it nearest to the map X A."""
    return nearest_rotation(np.swapaxes(moments.cross @ A, 1, 2))


def reflected(A: Array) -> Array:
    """A with the last axis of the map reversed."""
    return A * np.append(np.ones(A.shape[1] - 1), -1.0)


def with_rotations(moments: ModeMoments, A: Array) -> ScaleSolution:
    """A or its mirror image, whichever the clouds fit better by rotations, with these rotations."""
    options = [(one, rotations_onto(moments, one)) for one in (A, reflected(A))]
    return ScaleSolution(*max(options, key=lambda pair: float(np.einsum("tdk,ke,ted->", moments.cross, *pair))))


def closed_form_scales(problem: ScaleProblem) -> ScaleSolution:
    """The scales of eq. 13, and one nearest rotation for each cloud."""
    return with_rotations(problem.moments, closed_form_matrix(problem.moments, problem.blocks))

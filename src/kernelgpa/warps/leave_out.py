"""A reduced cloud with some of its observations left out.

What is left of the cost without the targets Y_B is the least that it can be over all Y_B.  With the rows
split into kept A and left out B that is a Schur complement, for every family of warps,

    Q_A|B = Q_AA - Q_AB Q_BB^-1 Q_BA,      attained at   Y_B = -Q_BB^-1 Q_BA Y_A            (theory, eq. 17)

and Y_B is what the warp fitted without B predicts at B.  So one factorisation serves every fold of a
cross-validation, and leaving out a single observation j gives the residual (Q Y)_j / Q_jj.  Its error has the
covariance sigma^2 Q_BB^-1, noise included.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dpotrf, dtrtri

from ..errors import NumericalFailure
from ..typing import Array, IndexArray
from .protocols import CloudCost


@dataclass(frozen=True)
class LeftOut:
    """The rows B of a reduced cloud left out, its rows A kept."""

    rows: IndexArray  # B
    kept: IndexArray  # A
    root: Array  # (b, a)  L^-1 Q_BA with Q_BB = L L': what Q_AA loses is root' root
    inverse: Array  # (b, b)  L^-1

    def predict(self, targets: Array) -> Array:  # of A -> at B
        """-Q_BB^-1 Q_BA Y_A"""
        return -self.inverse.T @ (self.root @ targets)

    @property
    def variance(self) -> Array:  # (b,)
        """Of the predictions' errors, in units of the noise variance, noise included."""
        return np.einsum("ij,ij->j", self.inverse, self.inverse)


def leave_out(reduced: CloudCost, rows: IndexArray) -> LeftOut:
    """What leaving some observations out does to a reduced cloud."""
    Q_B = reduced.rows(rows)
    staying = np.ones(Q_B.shape[1], dtype=bool)
    staying[rows] = False
    kept = np.flatnonzero(staying)
    lower, info = dpotrf(Q_B[:, rows], lower=True)
    if info or np.any(np.diag(lower) ** 2 <= reduced.rounding):
        raise NumericalFailure(
            "what a fold leaves of a cloud does not determine its warp; use more folds, or raise smoothing"
        )
    inverse = dtrtri(lower, lower=True)[0]
    return LeftOut(rows, kept, inverse @ Q_B[:, kept], inverse)


def leave_one_out(reduced: CloudCost, targets: Array) -> Array:  # (s, d) -> (s, d)
    """The residual that each observation would have if its cloud had been fitted without it.

    NaN for an observation that its warp cannot do without, such as each of the d + 1 landmarks of an affine one.
    """
    own = reduced.diagonal()
    sure = own > reduced.rounding
    residuals = np.full_like(targets, np.nan)
    residuals[sure] = reduced.apply(targets)[sure] / own[sure, None]
    return residuals

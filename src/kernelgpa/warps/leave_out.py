"""A reduced cloud with some of its observations left out.

Without the targets Y_B, the cost is its minimum over all Y_B.  With the rows split into kept A and left out B, that
minimum is a Schur complement, for every family of warps:

    Q_A|B = Q_AA - Q_AB Q_BB^-1 Q_BA,      attained at   Y_B = -Q_BB^-1 Q_BA Y_A            (theory, eq. 17)

Y_B is the prediction at B of the warp fitted without B, and its error has the covariance sigma^2 Q_BB^-1, noise
included.  Therefore one factorisation serves every fold of a cross-validation.  For a single observation j the
residual is (Q Y)_j / Q_jj.
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
    root: Array  # (b, a)  L^-1 Q_BA with Q_BB = L L', therefore Q_A|B = Q_AA - root' root
    inverse: Array  # (b, b)  L^-1

    def predict(self, targets: Array) -> Array:  # (a, d) -> (b, d)
        """-Q_BB^-1 Q_BA Y_A"""
        return -self.inverse.T @ (self.root @ targets)

    @property
    def variance(self) -> Array:  # (b,)
        """The variance of the prediction errors in units of the noise variance, noise included."""
        return np.einsum("ij,ij->j", self.inverse, self.inverse)


def leave_out(cost: CloudCost, rows: IndexArray) -> LeftOut:
    """Leave out the observations in the given rows of a cloud."""
    Q_B = cost.rows(rows)
    staying = np.ones(Q_B.shape[1], dtype=bool)
    staying[rows] = False
    kept = np.flatnonzero(staying)
    lower, info = dpotrf(Q_B[:, rows], lower=True)
    if info or np.any(np.diag(lower) ** 2 <= cost.rounding):
        raise NumericalFailure(
            f"the {len(kept)} observations of a cloud that are not in a fold do not determine its warp; "
            "use more folds, or raise smoothing"
        )
    inverse = dtrtri(lower, lower=True)[0]
    return LeftOut(rows, kept, inverse @ Q_B[:, kept], inverse)


def leave_one_out(cost: CloudCost, targets: Array) -> Array:  # (s, d) -> (s, d)
    """The residual of each observation from the warp that is fitted without it.

    NaN for an observation without which the warp is not determined, such as each of d + 1 landmarks of an affine warp.
    """
    diagonal = cost.diagonal()
    determined = diagonal > cost.rounding
    if determined.all():
        return np.asarray(cost.apply(targets) / diagonal[:, None])
    residuals = np.full_like(targets, np.nan)
    residuals[determined] = cost.apply(targets)[determined] / diagonal[determined, None]
    return residuals

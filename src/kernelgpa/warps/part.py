"""A reduced cloud with some of its observations left out.

What is left of the cost without the targets Y_B is the least that it can be over all Y_B.  With the rows
split into kept A and left out B that is a Schur complement, for every family of warps,

    Q_A|B = Q_AA - Q_AB Q_BB^-1 Q_BA,      attained at   Y_B = -Q_BB^-1 Q_BA Y_A            (theory, eq. 17)

and Y_B is what the warp fitted without B predicts at B.  So one factorisation serves every fold of a
cross-validation, and leaving out a single observation j gives the residual (Q Y)_j / Q_jj.  Its error has the
covariance sigma^2 Q_BB^-1, noise included.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from ..frames import Array, BoolArray, IndexArray
from .base import ReducedCloud, Warp


class PartOfCloud:
    """The observations ``kept`` of a reduced cloud, with settings and width those of the whole."""

    def __init__(self, whole: ReducedCloud, kept: BoolArray, renumbered: IndexArray) -> None:
        self._whole, self._kept = whole, kept
        self.seen: IndexArray = renumbered[whole.seen[kept]]
        Q = whole.form()
        self._form = Q[np.ix_(kept, kept)]
        self._to_rest = np.zeros((0, int(kept.sum())))
        self.rest_variance = np.zeros(0)  # of the points left out, in units of the noise variance
        if not kept.all():
            across = Q[np.ix_(~kept, kept)]
            factor = cho_factor(Q[np.ix_(~kept, ~kept)], lower=True)
            self._to_rest = -cho_solve(factor, across)
            self._form = self._form + across.T @ self._to_rest
            self.rest_variance = np.diag(cho_solve(factor, np.eye(len(across))))

    def form(self) -> Array:
        return self._form

    def variance(self, points: Array) -> Array:
        """That of the whole cloud, which is a little less than without what was left out."""
        return self._whole.variance(points)

    def factor(self) -> None:
        return None

    def predict(self, targets: Array) -> Array:  # (kept, d) -> (left out, d)
        """Where the warp fitted to the kept targets takes the points left out."""
        return self._to_rest @ targets

    def fit(self, targets: Array) -> Warp:
        complete = np.empty((len(self._kept), targets.shape[1]))
        complete[self._kept] = targets
        complete[~self._kept] = self.predict(targets)
        return self._whole.fit(complete)


def leave_one_out(reduced: ReducedCloud, targets: Array) -> Array:  # (s, d) -> (s, d)
    """The residual that each observation would have if its cloud had been fitted without it."""
    Q = reduced.form()
    return (Q @ targets) / np.diag(Q)[:, None]

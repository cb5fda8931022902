"""Wrong matches and outlying clouds, found by the residuals of models that never saw the cloud.

The leave-one-out residual of a landmark is its distance from the prediction by the other landmarks of its cloud and by
the model without the fold of that cloud; divided by its standard deviation it is a Mahalanobis length.  An observation
is rejected if that is more than REJECTED times the median length and, because real motion has long tails too, the
residual itself is longer than DISPLACED times the median distance of all observations from the mean shape.  A wrong
match also disturbs the predictions of its neighbours; therefore only the observations that are worst within their cloud
are rejected at a time; then all are looked at again, and one that is well predicted is taken back.  If the
folds are blocks of consecutive clouds, a landmark of which more than OFTEN of the observations would be rejected moves
as the clouds outside of the block do not show, and keeps them all.

A cloud is an outlier if the root mean square of its lengths exceeds

    median exp(3.5 * 1.4826 * median |log score - median log score|),    and twice the median;

its weight in eq. 27 is the square of threshold over score.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..typing import Array, BoolArray
from .cross_fitting import CrossFit, mahalanobis_squares
from .learning import Learned

REJECTED = 8.0  # times the median Mahalanobis length
DISPLACED = 4.0  # times the median distance from the mean shape
WORST = 0.5  # of the largest length of a cloud: how long the others that are rejected with it must be
OFTEN = 0.1  # share of the observations of a landmark
DEVIATIONS = 3.5
MAD_TO_DEVIATION = 1.4826
LEAST_RATIO = 2.0  # of a threshold to the median


class LeaveOneOut(NamedTuple):
    """Leave-one-out residuals of all observations, NaN where unseen."""

    lengths: Array  # (n, m) in the frame of the mean shape
    mahalanobis: Array  # (n, m)
    distances: Array  # (n,) Mahalanobis distance of each cloud from the mean, per square root of a coordinate


def leave_one_out(fit: CrossFit, models: Sequence[Learned]) -> LeaveOneOut:
    """The residual of each observation from its prediction by the others of its cloud."""
    alignment, d = fit.alignment, fit.alignment.dimension
    lengths, mahalanobis = np.full(alignment.seen.shape, np.nan), np.full(alignment.seen.shape, np.nan)
    distances = np.empty(len(lengths))
    for k, model in enumerate(models):
        held, patterns = fit.held_out(k), fit.held_patterns(k)
        centred = np.where(alignment.entries[held], alignment.residuals[held] - model.mean, 0.0)
        found, seen = model.gaussian.leave_one_out(centred, patterns, d), alignment.seen[held]
        t, j = held[np.nonzero(seen)[0]], np.nonzero(seen)[1]
        errors = found.values.reshape(len(held), -1, d)[seen]
        lengths[t, j] = np.linalg.norm(errors, axis=1)
        mahalanobis[t, j] = np.sqrt(mahalanobis_squares(errors, found.covariances[seen]))
        distances[held] = np.sqrt(model.gaussian.squares(centred, patterns) / alignment.entries[held].sum(axis=1))
    return LeaveOneOut(lengths, mahalanobis, distances)


def rejected(
    found: LeaveOneOut,  # with the residuals of what was rejected before
    distances: Array,  # (n, m) from the mean shape, NaN where unseen
    before: BoolArray,  # (n, m) rejected before
) -> BoolArray:  # (n, m)
    """The observations whose residual no shape explains; one that was rejected before may prove to be good."""
    with np.errstate(invalid="ignore"):
        far = found.mahalanobis > REJECTED * np.nanmedian(found.mahalanobis)
        displaced = found.lengths > DISPLACED * np.nanmedian(distances)
        kept = np.where(before, -np.inf, np.nan_to_num(found.mahalanobis, nan=-np.inf))
        worst = kept > WORST * np.max(kept, axis=1, keepdims=True)
    return np.asarray(far & displaced & (worst | before))


def often_rejected(far: BoolArray, seen: BoolArray) -> BoolArray:  # (n, m), (n, m) -> (m,)
    """Landmarks with a share of rejected observations that is so large that these are real motion."""
    return np.asarray(far.sum(axis=0) > np.maximum(2, OFTEN * seen.sum(axis=0)), dtype=bool)


def threshold(scores: Array) -> float:  # (n,)
    """The score above which a cloud is an outlier."""
    logs = np.log(np.maximum(scores, np.finfo(np.float64).tiny))
    middle = np.median(logs)
    spread = MAD_TO_DEVIATION * np.median(np.abs(logs - middle))
    return float(np.exp(middle) * max(np.exp(DEVIATIONS * spread), LEAST_RATIO))


def cloud_scores(mahalanobis: Array) -> Array:  # (n, m) -> (n,)
    """Root mean square of the Mahalanobis lengths of a cloud, in units of the median of all."""
    return np.asarray(np.sqrt(np.nanmean(mahalanobis**2, axis=1)) / np.nanmedian(mahalanobis))

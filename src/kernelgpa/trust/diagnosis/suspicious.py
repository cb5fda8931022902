"""Observations and landmarks ranked by their leave-one-out residuals."""

from __future__ import annotations

import numpy as np

from ...typing import Array, Name
from .finding import FittedRegistration, SuspiciousObservation

INLIER_SHARE = 0.1  # a robust fit rejected an observation if it kept no more than this share of its weight


def weight_shares(gpa: FittedRegistration) -> Array:  # (n, m)
    """Return the weights of the last solve as shares of the weights given; NaN where unseen."""
    given = gpa.observations_.weights
    return np.divide(gpa.weights_, given, out=np.full_like(given, np.nan), where=given > 0)


def suspicious_observations(gpa: FittedRegistration, count: int | None = None) -> list[SuspiciousObservation]:
    """Return observations by the length of their leave-one-out residuals, longest first."""
    residuals, shares, observations = gpa.residuals_, weight_shares(gpa), gpa.observations_
    known = int(np.sum(~np.isnan(residuals)))
    order = np.argsort(-np.nan_to_num(residuals, nan=-1.0), axis=None)[:known][:count]
    return [
        SuspiciousObservation(
            observations.names[t], observations.landmarks[j], float(residuals[t, j]), float(shares[t, j])
        )
        for t, j in zip(*np.unravel_index(order, residuals.shape), strict=True)
    ]


def suspicious_landmarks(gpa: FittedRegistration) -> list[tuple[Name, float]]:
    """Return landmarks and the medians of their leave-one-out residuals over the clouds, largest first."""
    known = np.flatnonzero(~np.isnan(gpa.residuals_).all(axis=0))
    medians = np.nanmedian(gpa.residuals_[:, known], axis=0)
    order = np.argsort(-medians, kind="stable")
    return [(gpa.observations_.landmarks[known[i]], float(medians[i])) for i in order]

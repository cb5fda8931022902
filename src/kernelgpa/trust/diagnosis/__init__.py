"""What may be wrong with a fitted registration, by cause.

In:   a fitted estimator (``finding.FittedRegistration``).
Out:  findings, most severe first (``checks.diagnose``); observations ranked by their residuals (``suspicious``).
Equations of docs/theory.md: none; leave-one-out residuals (17) are the evidence.

Causes come before symptoms: wrong data explain a model that does not suit, and both explain warps that fold.
"""

from .checks import diagnose
from .finding import Finding, FittedRegistration, SuspiciousObservation
from .suspicious import INLIER_SHARE, suspicious_landmarks, suspicious_observations, weight_shares

__all__ = [
    "INLIER_SHARE",
    "Finding",
    "FittedRegistration",
    "SuspiciousObservation",
    "diagnose",
    "suspicious_landmarks",
    "suspicious_observations",
    "weight_shares",
]

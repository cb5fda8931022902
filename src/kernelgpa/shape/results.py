"""The typed result of a fit of shapes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ..observations import Observations
from ..typing import Array, BoolArray
from .alignment import Pose
from .gaussian import ShapeDistribution
from .learning import ShapeSettings
from .spaces import Shapes


class ExpectedError(NamedTuple):
    """The error of predicted landmarks by cross-fitting, in the frames of the clouds.

    Attributes
    ----------
    mean, median, rms : float
        Of all errors, the largest too; settings are compared by errors that are clipped (theory, eq. 28).
    """

    mean: float
    median: float
    rms: float


@dataclass(frozen=True)
class Frozen:
    """What new clouds need: the model of all clouds."""

    shapes: Shapes
    mean: Array  # (D,) mu, from the positions of the shapes
    gaussian: ShapeDistribution
    settings: ShapeSettings
    calibration: float  # c of eq. 28
    scaling: bool
    gain: float  # of size factors
    modes: Array  # (k, D), rows of length 1
    variances: Array  # (k,)
    total_variance: float

    @property
    def dimension(self) -> int:
        return int(self.shapes.positions.shape[1])


@dataclass(frozen=True)
class CloudResults:
    """What was found for each of the clouds that the model was learned from."""

    poses: tuple[Pose, ...]  # (n,)
    completed: Array  # (n, m, d) in the frames of the clouds: seen landmarks as seen, others as predicted
    covariances: Array  # (n, m, d, d) of the predictions, 0 where seen
    scores: Array  # (n, k)
    score_deviations: Array  # (n, k) what the unseen landmarks leave open; 0 for complete clouds
    residuals: Array  # (n, m) lengths of the leave-one-out residuals, NaN where unseen
    mahalanobis: Array  # (n, m) the same in units of their standard deviations
    distances: Array  # (n,) Mahalanobis distances from the mean
    rejected: BoolArray  # (n, m) observations that were not used
    weights: Array  # (n,) of the clouds


@dataclass(frozen=True)
class ShapeFit:
    """Everything that a fit of shapes found."""

    observations: Observations
    registration: str  # "rigid", "similarity", "faithful" or the class that was given
    frozen: Frozen
    clouds: CloudResults
    expected: ExpectedError

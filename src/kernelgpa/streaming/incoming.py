"""Checks of what is added to a stream: the cloud, its weights beside those of the others, and measured motions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from ..errors import InvalidObservations
from ..observations.checks import MOST_RATIO, MOST_WEIGHT
from ..observations.cloud import Cloud
from ..observations.collection import Observations
from .odometry import Measured, validated
from .running_sum import CloudKey

WeightRange = tuple[float, float]  # least and largest weight of a cloud


def weight_range(cloud: Cloud, dimension: int, others: Iterable[WeightRange]) -> WeightRange:
    """The weights of a cloud; an error if the cloud is not valid or its weights do not compare with the others."""
    d = cloud.points.shape[1]
    if d not in (2, 3) or d != dimension:
        raise InvalidObservations(f"cloud {cloud.name}: its points are in {d}D; expected {dimension}D")
    Observations((cloud,), tuple(range(len(cloud.seen))), d)._checked()
    own = float(cloud.weights.min()), float(cloud.weights.max())
    ranges = [own, *others]
    lightest, heaviest = min(low for low, _ in ranges), max(high for _, high in ranges)
    if heaviest > MOST_RATIO * lightest or heaviest > MOST_WEIGHT:
        raise InvalidObservations(
            f"cloud {cloud.name}: with it the weights range from {lightest:.3g} to {heaviest:.3g}, a ratio above "
            f"the {MOST_RATIO:g} that double precision carries; give weight 0 to observations that should not count"
        )
    return own


def measured_motions(
    measured: Measured | Sequence[Measured], dimension: int, known: Collection[CloudKey]
) -> list[Measured]:
    """Motions as a list; an error unless each is valid and starts from a known cloud."""
    motions = [measured] if isinstance(measured, Measured) else measured
    if not isinstance(motions, Sequence) or not all(isinstance(one, Measured) for one in motions):
        raise InvalidObservations(f"measured is {measured!r}; expected Measured(...), or a list of them")
    return [validated(one, dimension, known) for one in motions]

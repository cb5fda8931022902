"""From clouds to a shape model: align, choose settings, reject outliers, learn, calibrate, predict.

The steps of :func:`fit_shapes` in order; each is a few lines and calls one module.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from sklearn.base import clone

from .._numerics.progress import progress
from ..errors import InvalidObservations, KernelGPAError, TooLarge, silenced_warnings
from ..estimators.base import GPA
from ..observations import Observations
from ..observations.identifiers import abbreviated
from ..observations.sampling import farthest_points
from ..typing import Array, BoolArray, IndexArray
from .alignment import Alignment, aligned, estimator, mean_without
from .cross_fitting import (
    FINAL_PARTS,
    MOST_EVALUATIONS,
    ROUNDS,
    Choice,
    CloudFolds,
    CrossFit,
    choose,
    mahalanobis_squares,
)
from .gaussian import PredictedCoordinates
from .learning import Learned, ShapeSettings, TrainingClouds, learn
from .outliers import LeaveOneOut, cloud_scores, leave_one_out, often_rejected, rejected, threshold
from .patterns import Patterns
from .results import CloudResults, ExpectedError, Frozen, ShapeFit
from .spaces import MOST_DENSE, MOST_LANDMARKS, BasisSpace, FullSpace, Space, forecast_shapes

FEW = 30  # clouds, up to which the registration is repeated without each fold
MOST_CLOUDS = 400  # from which settings are chosen
MOST_SCREENINGS = 12  # times that outliers are looked for; usually nothing changes before that
MOST_LISTED = 10  # landmarks in a message
EQUAL = 1e-9  # residuals as a share of the size of the mean shape that are those of equal clouds


@dataclass(frozen=True)
class Options:
    """What the user fixed."""

    scaling: bool
    fixed: dict[str, float]  # settings that are not chosen
    robust: bool
    modes: int | None


class RegistrationCandidate(NamedTuple):
    """A registration of the clouds, and the settings that suit it."""

    kind: str
    gpa: GPA
    alignment: Alignment
    choice: Choice


def fit_shapes(observations: Observations, given: GPA | None, options: Options) -> ShapeFit:
    """Learn a shape model from clouds, or from those of a registration that is given."""
    require_valid(observations)
    _require_memory(observations)
    weights = np.ones(len(observations.clouds))
    dropped = np.zeros((len(observations.clouds), len(observations.landmarks)), dtype=bool)
    exempt = np.zeros(len(observations.landmarks), dtype=bool)  # landmarks that keep all their observations
    best = _best_candidate(observations, given, options)
    for _ in range(MOST_SCREENINGS if options.robust else 0):
        fit = _cross_fit(best, observations, weights, dropped)
        models = fit.models(best.choice.settings, ROUNDS)
        found = leave_one_out(fit, models)
        weights = _weights(found.mahalanobis)
        _add_rejected(found, fit, models, observations, dropped)
        may_lose = _may_lose(best.alignment.seen, observations.dimension) | dropped
        far = rejected(found, best.alignment.distances, dropped) & may_lose
        if fit.folds.margin:  # a model that does not see a whole block does not know what moves in it alone
            exempt |= often_rejected(far, best.alignment.seen | dropped)
        far &= ~exempt
        if np.array_equal(far, dropped):
            break
        dropped = far
        best = _registered_without(best, observations, dropped)
    if dropped.any():
        choice = _choice(best.gpa, observations.hide(dropped), best.alignment, options)
        best = best._replace(choice=choice)
    return _final(best, observations, weights, dropped, options)


def require_valid(observations: Observations) -> None:
    """Raise an error unless the clouds can have a distribution of shapes."""
    n, counts = len(observations.clouds), observations.counts
    if n < 3:
        raise InvalidObservations(f"{n} clouds are given, and a shape model needs at least 3; give more clouds")
    never = [observations.landmarks[j] for j in np.flatnonzero(counts == 0)]
    if never:
        shown = abbreviated(never, MOST_LISTED)
        raise InvalidObservations(
            f"no cloud saw {len(never)} of the landmarks: {shown}; leave them out with observations.subset(counts > 0)"
        )


def _require_mean(gpa: GPA) -> None:
    """Raise an error unless the map has every landmark."""
    unknown = [gpa.observations_.landmarks[j] for j in np.flatnonzero(np.isnan(gpa.map_[:, 0]))]
    if unknown:
        raise InvalidObservations(
            f"only mirror images saw {len(unknown)} of the landmarks: {abbreviated(unknown, MOST_LISTED)}; negate one "
            "coordinate of these clouds, or leave the landmarks out"
        )


def _require_memory(observations: Observations) -> None:
    needed = forecast_shapes(len(observations.clouds), len(observations.landmarks), observations.dimension)
    if not needed.fits:
        raise TooLarge(f"this shape model would take {needed}; use fewer clouds or landmarks")


def _best_candidate(observations: Observations, given: GPA | None, options: Options) -> RegistrationCandidate:
    """The registration given, or the one whose left-out errors are smallest."""
    if given is not None:
        return _candidate(type(given).__name__, given, observations, options)
    rigid = estimator("rigid", options.scaling).fit(observations)
    found = [_candidate("similarity" if options.scaling else "rigid", rigid, observations, options)]
    if not options.scaling and len(observations.clouds) <= FEW:
        with silenced_warnings():
            try:
                faithful = estimator("faithful", False).fit(observations)
            except KernelGPAError:
                return found[0]
        if not faithful.mirrored_:
            found.append(_candidate("faithful", faithful, observations, options))
    return min(found, key=lambda one: one.choice.error)


def _candidate(kind: str, gpa: GPA, observations: Observations, options: Options) -> RegistrationCandidate:
    _require_mean(gpa)
    alignment = aligned(gpa, observations)
    size = np.sqrt(np.mean((alignment.positions - alignment.positions.mean(axis=0)) ** 2))
    if np.sqrt(alignment.shapes.variance) < EQUAL * size:
        raise InvalidObservations("all clouds are equal up to their poses; a shape model needs clouds that differ")
    return RegistrationCandidate(kind, gpa, alignment, _choice(gpa, observations, alignment, options))


def _weights(mahalanobis: Array) -> Array:  # (n,)
    """The weights of the clouds in eq. 27: 1 unless a cloud is an outlier."""
    scores = cloud_scores(mahalanobis)
    limit = threshold(scores)
    return np.where(scores > limit, (limit / scores) ** 2, 1.0)


def _registered_without(
    best: RegistrationCandidate, observations: Observations, dropped: BoolArray
) -> RegistrationCandidate:
    """The same kind of registration, with the same settings, without the observations that were rejected."""
    with silenced_warnings():  # they were issued for all observations
        gpa = clone(best.gpa).fit(observations.hide(dropped))
    return best._replace(gpa=gpa, alignment=aligned(gpa, observations).without(dropped))


def _may_lose(seen: BoolArray, d: int) -> BoolArray:  # (n, m)
    """Observations that can be rejected: enough others remain for the cloud and for the landmark."""
    return seen & (seen.sum(axis=1, keepdims=True) > 2 * (d + 1)) & (seen.sum(axis=0, keepdims=True) > 3)


def _choice(gpa: GPA, observations: Observations, alignment: Alignment, options: Options) -> Choice:
    """Settings from all clouds and landmarks, or from a sample of many."""
    n, m = alignment.seen.shape
    clouds = np.flatnonzero(alignment.participating)
    if len(clouds) > MOST_CLOUDS:
        clouds = np.sort(np.random.default_rng(1).choice(clouds, MOST_CLOUDS, replace=False))
    landmarks = np.arange(m)
    if m * alignment.dimension > MOST_DENSE:
        landmarks = np.sort(farthest_points(alignment.positions, MOST_LANDMARKS))
    part = alignment.part(clouds, landmarks)
    means = _means_without(gpa, observations, part, landmarks) if len(clouds) == n and n <= FEW else []
    fit = CrossFit(part, FullSpace(part.shapes), np.ones(len(clouds)), means)
    with progress("settings of the shape model, at most", MOST_EVALUATIONS) as step:
        return choose(fit, options.fixed, step)


def _means_without(
    gpa: GPA, observations: Observations, alignment: Alignment, landmarks: IndexArray
) -> Sequence[Array | None]:
    """The mean shape without each fold, of the same registration."""
    folds, means = CloudFolds.of(alignment), []
    whole = np.full((len(observations.landmarks), alignment.dimension), np.nan)
    whole[landmarks] = alignment.positions
    for k in range(folds.count):
        own = mean_without(gpa, observations.select(landmarks), np.flatnonzero(folds.training(k)), alignment.positions)
        means.append(own)
    return means


def _space(alignment: Alignment, settings: ShapeSettings, weights: Array) -> Space:
    if alignment.residuals.shape[1] <= MOST_DENSE:
        return FullSpace(alignment.shapes)

    def fill(space: BasisSpace) -> Array:
        start = np.zeros(alignment.residuals.shape[1])
        clouds = TrainingClouds.of(alignment.residuals, alignment.entry_weights, weights, start)
        learned = learn(clouds, space, settings._replace(shrinkage=1.0), space.rounds)
        return learned.gaussian.fill(clouds.centred(learned.mean), clouds.patterns, weights).residuals

    return BasisSpace.of(alignment.shapes, settings.bandwidth, fill)


def _cross_fit(best: RegistrationCandidate, observations: Observations, weights: Array, dropped: BoolArray) -> CrossFit:
    weights = np.where(best.alignment.participating, weights, 0.0)
    space = _space(best.alignment, best.choice.settings, weights)
    every = np.arange(len(observations.landmarks))
    hidden = observations.hide(dropped) if dropped.any() else observations
    few = len(observations.clouds) <= FEW
    means = _means_without(best.gpa, hidden, best.alignment, every) if few else []
    return CrossFit(best.alignment, space, weights, means)


def _final(
    best: RegistrationCandidate, observations: Observations, weights: Array, dropped: BoolArray, options: Options
) -> ShapeFit:
    fit = _cross_fit(best, observations, weights, dropped)
    alignment, settings = best.alignment, best.choice.settings
    models = fit.models(settings, fit.space.rounds)
    left_out = fit.left_out(models, max(1, 2000 // fit.folds.count), FINAL_PARTS)
    factors = np.array([pose.size_factor for pose in alignment.poses])
    lengths = left_out.lengths / factors[left_out.clouds]
    expected = ExpectedError(*map(float, (lengths.mean(), np.median(lengths), np.sqrt(np.mean(lengths**2)))))
    calibration = left_out.calibration(alignment.dimension)
    completed, covariances = _completed(fit, models, observations, calibration)
    start = np.zeros(alignment.residuals.shape[1])
    used = np.where(alignment.participating, weights, 0.0)
    training = TrainingClouds.of(alignment.residuals, alignment.entry_weights, used, start)
    learned = learn(training, fit.space, settings, fit.space.rounds)
    frozen = _frozen(learned, fit.space, alignment, settings, calibration, options.modes, used)
    scores, deviations = scores_of(frozen, training)
    single = leave_one_out(fit, models)
    _add_rejected(single, fit, models, observations, dropped)
    clouds = CloudResults(
        alignment.poses,
        completed,
        covariances,
        scores,
        deviations,
        *_of_all(single, alignment, calibration),
        dropped,
        used,
    )
    return ShapeFit(observations, best.kind, frozen, clouds, expected)


def _add_rejected(
    single: LeaveOneOut, fit: CrossFit, models: Sequence[Learned], observations: Observations, dropped: BoolArray
) -> None:
    """The residuals of rejected observations from their predictions, as if they had not been seen."""
    alignment, d, points = fit.alignment, fit.alignment.dimension, observations.points
    for k, model in enumerate(models):
        held = fit.held_out(k)[dropped[fit.held_out(k)].any(axis=1)]
        if not len(held):
            continue
        found = _predicted(alignment, held, model)
        for row, t in enumerate(held):
            own = alignment.poses[t](points[t]) - alignment.positions
            errors = (own - found.values[row].reshape(-1, d))[dropped[t]]
            covariances = found.covariances[row, dropped[t]]
            single.lengths[t, dropped[t]] = np.linalg.norm(errors, axis=1)
            single.mahalanobis[t, dropped[t]] = np.sqrt(mahalanobis_squares(errors, covariances))


def _predicted(alignment: Alignment, clouds: IndexArray, model: Learned) -> PredictedCoordinates:
    """Residuals of some clouds, from the positions of the mean shape, with what they did not see predicted."""
    centred = np.where(alignment.entries[clouds], alignment.residuals[clouds] - model.mean, 0.0)
    found = model.gaussian.predict(centred, Patterns.of(alignment.entry_weights[clouds]), alignment.dimension)
    return found._replace(values=found.values + model.mean)


def _of_all(single: LeaveOneOut, alignment: Alignment, calibration: float) -> tuple[Array, Array, Array]:
    """Residuals in the frames of the clouds, and calibrated Mahalanobis lengths and distances."""
    factors = np.array([pose.size_factor for pose in alignment.poses])
    root = np.sqrt(calibration)
    return single.lengths / factors[:, None], single.mahalanobis / root, single.distances / root


def _completed(
    fit: CrossFit, models: Sequence[Learned], observations: Observations, calibration: float
) -> tuple[Array, Array]:
    """All landmarks in the frame of each cloud, predicted by the model that never saw it."""
    alignment, d = fit.alignment, fit.alignment.dimension
    completed = observations.points.copy()
    covariances = np.zeros((*completed.shape, d))
    for k, model in enumerate(models):
        unseen = np.isnan(completed[:, :, 0])
        held = fit.held_out(k)[unseen[fit.held_out(k)].any(axis=1)]
        if not len(held):
            continue
        found = _predicted(alignment, held, model)
        for row, t in enumerate(held):  # rejected observations stay as they were seen
            values = (alignment.positions + found.values[row].reshape(-1, d))[unseen[t]]
            completed[t, unseen[t]] = alignment.poses[t].back(values)
            own = alignment.poses[t].covariances_back(found.covariances[row, unseen[t]])
            covariances[t, unseen[t]] = calibration * own
    return completed, covariances


def _frozen(
    learned: Learned,
    space: Space,
    alignment: Alignment,
    settings: ShapeSettings,
    calibration: float,
    wanted: int | None,
    weights: Array,
) -> Frozen:
    values, vectors = space.eigenpairs(learned.covariance)
    total = space.trace(learned.covariance)
    most = min(int(np.sum(weights > 0)) - 1, len(values))
    count = most if wanted is None else min(wanted, most)
    count = min(count, int(np.sum(values > 1e-12 * values[0])))
    modes = _signed(vectors[:count])
    return Frozen(
        alignment.shapes,
        learned.mean,
        learned.gaussian,
        settings,
        calibration,
        alignment.scaling,
        alignment.gain,
        modes,
        values[:count].copy(),
        total,
    )


def _signed(vectors: Array) -> Array:  # (k, D)
    """The largest entry of each mode is positive."""
    largest = np.argmax(np.abs(vectors), axis=1)
    return vectors * np.sign(vectors[np.arange(len(vectors)), largest])[:, None]


def scores_of(frozen: Frozen, clouds: TrainingClouds) -> tuple[Array, Array]:  # (n, k), (n, k)
    """Scores of clouds by the model, and the standard deviations that their unseen landmarks leave open."""
    filled = frozen.gaussian.fill(clouds.centred(frozen.mean), clouds.patterns, np.zeros(len(clouds.seen)))
    variances = frozen.calibration * frozen.gaussian.projected_variances(clouds.patterns, frozen.modes)
    return filled.residuals @ frozen.modes.T, np.sqrt(np.maximum(variances, 0.0))

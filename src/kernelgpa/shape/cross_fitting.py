"""Cross-fitting: a cloud is only ever predicted by a model that never saw it.

The clouds are divided into folds at random.  For each fold a model is learned from the other clouds; in each cloud of
the fold, a fifth of the seen landmarks at a time is predicted from its other ones (a tenth for c and for the expected
error, so that almost as much remains as the cloud saw).  With e the lengths of the errors
and z^2 = e' cov^-1 e,

    error(settings) = mean min(e, 10 median),      c = (90 % quantile of z^2) / (that of chi^2 with d degrees)
                                                                                                     (theory, eq. 28)

The settings minimise the error, and covariances are multiplied by c.  Errors are clipped for the choice alone: real
errors have long tails, which the expected error must contain.  A few clouds share in their own mean shape, and
the choice would be fooled by that; then the registration is repeated without each fold, too.

What is left out must resemble what is missing.  If landmarks are missing in long runs of consecutive clouds, as in a
recording, the nearly equal neighbours of a cloud do not help there, and values that were filled in for them would only
confirm those of the cloud itself; then the folds are blocks of consecutive clouds, and the models do not see the clouds
beside their block either, as many as a median run.
Otherwise folds follow the sizes of the clouds and the distances of the landmarks from the centre, not their order in
the data, so that a result does not depend on that order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.stats import chi2

from ..errors import NumericalFailure
from ..estimators.prediction.backward import CALIBRATED_PROBABILITY
from ..typing import Array, BoolArray, IndexArray
from .alignment import Alignment
from .learning import Learned, ShapeSettings, TrainingClouds, learn
from .patterns import MOST_ENTRIES, Patterns
from .spaces import Space

MOST_FOLDS = 10  # of clouds
LEAST_FOLDS = 4  # blocks of consecutive clouds
LONG_RUN = 5  # clouds; the median length of the runs in which landmarks are missing, for folds that are blocks
MARGIN_SHARE = 8  # the clouds beside a block that are left out are at most one in this many on each side
LANDMARK_PARTS = 5  # of the landmarks of a cloud, while settings are compared
FINAL_PARTS = 10  # for calibration and the expected error, where what remains must resemble what a cloud saw
DIVISIONS = 8  # random orders of the landmarks that clouds use in turn; clouds with the same one share their patterns
ROUNDS = 5  # of eq. 27 while settings are compared
CLIPPED_ERROR = 10.0  # errors count as at most this many medians
MANY = 40  # clouds, from which not all folds are needed to compare settings
COMPARED = 5  # folds in which settings are compared, if there are enough clouds in each
MOST_PER_FOLD = 12  # clouds that are predicted while settings are compared
LOWEST = ShapeSettings(0.1, 1e-5, 3e-3)  # less shrinkage is better on average and far worse at its worst
HIGHEST = ShapeSettings(3.0, 1.0, 1.0)
KERNEL_GRID = [ShapeSettings(b, s, 1.0) for b in (0.15, 0.3, 0.6, 1.5) for s in (1e-3, 1e-2, 1e-1, 0.5)]
SEARCH_FACTORS = (ShapeSettings(2.0, 4.0, 4.0), ShapeSettings(1.5, 2.0, 2.0))  # factors, coarse and fine
WORTH = 0.995  # of the error, below which a step is taken
MOST_EVALUATIONS = 80


@dataclass(frozen=True)
class CloudFolds:
    """The division of the clouds, and of the seen landmarks of each cloud."""

    of_cloud: IndexArray  # (n,)
    order: IndexArray  # (n, m) the position of each seen landmark in a random order, which divides them into parts
    margin: int = 0  # clouds beside a block that its model does not see either

    @classmethod
    def of(cls, alignment: Alignment) -> CloudFolds:
        n, d = len(alignment.seen), alignment.dimension
        posed = alignment.residuals.reshape(n, -1, d) + alignment.positions
        squares = np.sum((posed - posed.mean(axis=1, keepdims=True)) ** 2, axis=2)
        rank = np.argsort(np.argsort(np.sum(squares * alignment.seen, axis=1), kind="stable"))
        centred = alignment.positions - alignment.positions.mean(axis=0)
        order = np.argsort(np.argsort(np.sum(centred**2, axis=1), kind="stable"))
        run, margin = median_run(alignment.seen), 0
        if run > LONG_RUN:
            margin = int(min(run, n // MARGIN_SHARE))
            count = int(np.clip(n // run, min(n, LEAST_FOLDS), MOST_FOLDS))
            of_cloud = np.arange(n) * count // n
        else:
            of_cloud = (np.random.default_rng(1).permutation(n) % min(n, MOST_FOLDS))[rank]
        keys = np.stack([np.random.default_rng(i).permutation(len(order))[order] for i in range(DIVISIONS)])
        own = np.where(alignment.seen, keys[rank % DIVISIONS], len(order))
        return cls(of_cloud, np.argsort(np.argsort(own, axis=1, kind="stable"), axis=1), margin)

    def training(self, k: int) -> BoolArray:  # (n,)
        """The clouds that the model without fold k is learned from."""
        held = self.of_cloud == k
        for step in range(1, self.margin + 1):
            held[:-step] |= self.of_cloud[step:] == k
            held[step:] |= self.of_cloud[:-step] == k
        return ~held

    @property
    def count(self) -> int:
        return int(self.of_cloud.max()) + 1


def median_run(seen: BoolArray) -> float:  # (n, m)
    """The median, over unseen observations, of the number of consecutive clouds in which the landmark is unseen."""
    runs: list[IndexArray] = []
    for column in ~seen.T:
        edges = np.flatnonzero(np.diff(np.concatenate([[0], column.astype(np.int8), [0]])))
        lengths = edges[1::2] - edges[::2]
        runs.append(np.repeat(lengths, lengths))
    found = np.concatenate(runs)
    return float(np.median(found)) if len(found) else 0.0


class LeftOutErrors(NamedTuple):
    """Errors of the landmarks that were left out."""

    lengths: Array  # in the frame of the mean shape
    squares: Array  # z^2
    clouds: IndexArray

    @property
    def error(self) -> float:
        """The criterion of eq. 28."""
        return float(np.mean(clipped(self.lengths)))

    def calibration(self, d: int) -> float:
        """c of eq. 28."""
        return float(np.quantile(self.squares, CALIBRATED_PROBABILITY) / chi2(d).ppf(CALIBRATED_PROBABILITY))


def clipped(lengths: Array) -> Array:
    """Lengths, each at most CLIPPED_ERROR medians."""
    return np.minimum(lengths, CLIPPED_ERROR * np.median(lengths))


class CrossFit:
    """The models without each fold of one alignment."""

    def __init__(
        self,
        alignment: Alignment,
        space: Space,
        weights: Array,  # (n,)
        means: Sequence[Array | None],  # (m, d) the mean shape without each fold; None: that of all clouds
    ) -> None:
        self.alignment, self.space, self.folds = alignment, space, CloudFolds.of(alignment)
        self._training: list[TrainingClouds] = []
        self._known: list[BoolArray] = []  # for each fold, which landmarks the other clouds saw
        self._questions: dict[tuple[int, int, int], list[Question]] = {}
        self._held_patterns: dict[int, Patterns] = {}
        for k in range(self.folds.count):
            rest = self.folds.training(k) & (weights > 0)
            own = means[k] if len(means) else None
            start = np.zeros(alignment.positions.size)
            if own is not None:
                start = np.nan_to_num(own - alignment.positions).ravel()
            own_weights = alignment.entry_weights[rest]
            self._training.append(TrainingClouds.of(alignment.residuals[rest], own_weights, weights[rest], start))
            self._known.append(np.asarray(alignment.seen[rest].any(axis=0), dtype=bool))

    def models(self, settings: ShapeSettings, rounds: int, most: int | None = None) -> list[Learned]:
        """The models without each fold, or without each of the first ones."""
        return [learn(clouds, self.space, settings, rounds) for clouds in self._training[:most]]

    def held_out(self, k: int) -> IndexArray:
        return np.flatnonzero(self.folds.of_cloud == k)

    def held_patterns(self, k: int) -> Patterns:
        """The visibility patterns of the clouds of a fold, whatever the weights of their observations."""
        if k not in self._held_patterns:
            self._held_patterns[k] = Patterns.of(self.alignment.entries[self.held_out(k)])
        return self._held_patterns[k]

    def left_out(
        self, models: Sequence[Learned], most: int | None = None, parts: int = LANDMARK_PARTS
    ) -> LeftOutErrors:
        """Errors of one part of the landmarks at a time, for at most the given number of clouds of each fold."""
        lengths, squares, clouds, d = [], [], [], self.alignment.dimension
        for k, model in enumerate(models):
            for question in self._questions_of(k, most or len(self.folds.of_cloud), parts):
                errors, covariances = question.errors(model, self.alignment.residuals, d)
                lengths.append(np.linalg.norm(errors, axis=1))
                squares.append(mahalanobis_squares(errors, covariances))
                clouds.append(question.clouds[np.nonzero(question.left)[0]])
        return LeftOutErrors(np.concatenate(lengths), np.concatenate(squares), np.concatenate(clouds))

    def _questions_of(self, k: int, most: int, parts: int) -> list[Question]:
        """The same for all settings that are compared, so that patterns are looked for once."""
        key = (k, most, parts)
        if key not in self._questions:
            held = self.held_out(k)
            some = held[np.linspace(0, len(held) - 1, min(most, len(held))).astype(int)]
            size = max(1, MOST_ENTRIES // (parts * self.alignment.positions.size * self.alignment.dimension))
            chunks = np.split(some, range(size, len(some), size))
            self._questions[key] = [self._question(chunk, self._known[k], parts) for chunk in chunks]
        return self._questions[key]

    def _question(self, clouds: IndexArray, known: BoolArray, parts: int) -> Question:
        rows, part = np.repeat(clouds, parts), np.tile(np.arange(parts), len(clouds))
        left = (self.folds.order[rows] % parts == part[:, None]) & self.alignment.seen[rows]
        out = np.repeat(left, self.alignment.dimension, axis=1)
        weights = self.alignment.entry_weights[rows]
        weights[out] = 0
        return Question(rows, left & known, self.alignment.entries[rows] & ~out, Patterns.of(weights))


@dataclass(frozen=True)
class Question:
    """Which landmarks of which clouds are left out, one row per cloud and part of its landmarks."""

    clouds: IndexArray  # (q,)
    left: BoolArray  # (q, m) the landmarks that were left out and that the other clouds saw
    remaining: BoolArray  # (q, D) the coordinates that were seen and not left out
    patterns: Patterns

    def errors(self, model: Learned, residuals: Array, d: int) -> tuple[Array, Array]:  # (e, d), (e, d, d)
        """The errors of the predictions, and their covariances."""
        centred = residuals[self.clouds] - model.mean
        found = model.gaussian.predict(np.where(self.remaining, centred, 0.0), self.patterns, d)
        errors = (centred - found.values).reshape(*self.left.shape, d)
        return errors[self.left], found.covariances[self.left]


def mahalanobis_squares(errors: Array, covariances: Array) -> Array:  # (k, d), (k, d, d) -> (k,)
    return np.einsum("ki,ki->k", errors, np.linalg.solve(covariances, errors[..., None])[..., 0])


class Choice(NamedTuple):
    settings: ShapeSettings
    error: float


def choose(fit: CrossFit, fixed: dict[str, float], step: Callable[[], None]) -> Choice:
    """The settings of the smallest error: kernels alone on a coarse grid, then steps along each setting in turn."""
    known: dict[ShapeSettings, float] = {}
    some = COMPARED if len(fit.folds.of_cloud) >= MANY else None

    def error(settings: ShapeSettings) -> float:
        key = ShapeSettings(*(float(f"{value:.6g}") for value in settings))._replace(**fixed)
        if key not in known:
            step()
            try:
                known[key] = fit.left_out(fit.models(key, ROUNDS, some), MOST_PER_FOLD).error
            except (NumericalFailure, np.linalg.LinAlgError):
                known[key] = np.inf
        return known[key]

    kernel = min(KERNEL_GRID, key=error)
    learned = [
        kernel._replace(noise=kernel.noise / 5, shrinkage=0.1),
        kernel._replace(noise=kernel.noise / 2, shrinkage=0.5),
    ]
    best = min([kernel, *learned], key=error)
    for factors in SEARCH_FACTORS:
        best = _descend(best, factors, error, lambda: len(known) < MOST_EVALUATIONS)
    best = best._replace(**fixed)
    return Choice(best, error(best))


def _descend(
    best: ShapeSettings, factors: ShapeSettings, error: Callable[[ShapeSettings], float], may_go_on: Callable[[], bool]
) -> ShapeSettings:
    improved = True
    while improved and may_go_on():
        improved = False
        for name in ("shrinkage", "noise", "bandwidth"):
            for sign in (1, -1):
                moved = False
                while may_go_on():
                    value = getattr(best, name) * getattr(factors, name) ** sign
                    value = min(max(value, getattr(LOWEST, name)), getattr(HIGHEST, name))
                    trial = best._replace(**{name: value})
                    if not error(trial) < WORTH * error(best):
                        break
                    best, moved = trial, True
                improved |= moved
                if moved:
                    break
    return best

"""Registrations with warps that bend: reduce every cloud, take the bottom of the spectrum, fix the gauge."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from .._numerics.progress import with_progress
from .._numerics.threads import parallel_map, require_jobs, worker_count
from ..errors import InvalidObservations, InvalidSetting, TooLarge, warn
from ..gauge.faithful import Faithful, faithful_registration
from ..gauge.principal_axes import Gauge
from ..gauge.scales import SCALE_METHODS, fix_gauge
from ..observations.cloud import Cloud
from ..observations.collection import Observations, reweighted
from ..observations.stacked import StackedClouds
from ..spectrum.eigenpairs import Spectrum, Uniqueness, bottom_eigenpairs, metric_of
from ..spectrum.forecast import Forecast, forecast
from ..spectrum.operators import CostOperator, total_cost, without
from ..trust.diagnosis import SuspiciousObservation, suspicious_landmarks, suspicious_observations
from ..typing import Array, BoolArray, IndexArray, Name
from ..warps import Family, ReducedCloud, Warp
from ..warps.leave_out import LeftOut, leave_one_out, leave_out
from ..warps.warp import sensor_jacobians
from .base import GPA, Prediction, Prepared, Solution, Work, results
from .robust import MOST_ROUNDS, SETTLED, Annealing, consensus, require_loss
from .screening import Problem

HARDLY_TIED = (
    "some clouds share landmarks with the rest that fix an affine map between them hardly better than noise blurs it; "
    "the map of modes='paper' may be wrong: see diagnose(), and use modes='auto'"
)
SEVERAL_FROM = 400  # landmarks of a cloud from which several clouds are worked on at a time
FEW_CENTRES = 400  # inducing points where all points are too many for the memory
MOST_LEFT_OUT = 2e8  # numbers that the folds predicted together may hold
ROUNDING = 1e-6  # of the map's size: residuals below this are those of exact copies


@dataclass(frozen=True)
class WarmStart:
    """What is known from a solve of nearly the same clouds."""

    space: Array | None  # (m, ...) near the bottom of the spectrum


@dataclass(frozen=True)
class Round:
    """One solve: the observations with their weights, every cloud reduced, their sum, and the solution."""

    restricted: Observations
    reduced: list[ReducedCloud]
    cost: CostOperator  # of the clouds that take part
    solution: Solution


class DeformableGPA(GPA):
    """Closed form up to the scales: reduce every cloud, take the bottom of the spectrum, fix the gauge."""

    modes: str | int
    scale_method: str
    robust: str | None
    n_jobs: int | None

    family_: Family
    smoothing_: float
    spectrum_: Spectrum
    faithful_: Faithful | None
    shared_landmarks_: IndexArray  # the landmarks that the map was solved from
    weights_: Array  # (n, m) as the last solve used them
    residuals_: Array  # (n, m) leave-one-out
    inducing_errors_: Array  # (n,) what a warp at inducing points may miss, in the map; 0 where it misses nothing
    standardised_residuals_: Array  # (n, m) the same in units of what is expected for an observation that far away

    bends = True

    @property
    def solves_from_sum(self) -> bool:
        return self.robust is None and self.scale_method != "pairwise"

    def prepare(self, problem: Problem) -> Prepared:
        family = self._within_memory(self.family(), problem)
        return Prepared(family, parallel_map(family.prepare, problem.restricted.clouds, self._jobs(problem.restricted)))

    def _within_memory(self, family: Family, problem: Problem) -> Family:
        """The family, or a smaller one where it would take more memory than there is."""
        needed = _memory_forecast(family, problem)
        if needed.fits:
            return family
        smaller = self.smaller(family)
        if smaller is None:
            raise TooLarge(f"this fit would take {needed}; use fewer landmarks or clouds, or fewer features a cloud")
        instead = _memory_forecast(smaller, problem)
        if not instead.fits:
            raise TooLarge(
                f"exact warps would take {needed}; those at {FEW_CENTRES} inducing points {instead}; use fewer "
                "landmarks or clouds, or a smaller inducing"
            )
        warn(f"exact warps would take {needed}; inducing={FEW_CENTRES} is used instead, {instead}")
        return smaller

    def smaller(self, family: Family) -> Family | None:
        """The same with FEW_CENTRES features a cloud, if that can be."""
        return None

    def fit_problem(self, problem: Problem, prepared: Prepared) -> Work:
        self.warn_if_weakly_connected(problem)
        last = self._rounds(problem, prepared)
        if last.solution.spectrum is None:  # rounds with a known gamma do without
            spectrum = self._spectrum(last.restricted.at(problem.part).stacked, last.cost)
            last = replace(last, solution=replace(last.solution, spectrum=spectrum))
        places = last.solution.gauge.map
        warps = [cloud.fit_all([places[cloud.seen]])[0] for cloud in last.reduced]
        self._keep(
            {
                **results(problem, last.solution, warps),
                **_results_of(problem, last),
                "inducing_errors_": _inducing_errors(last.reduced, warps),
                "family_": prepared.family,
                "smoothing_": self.family().smoothing,
            }
        )
        return Work(last.restricted.at(problem.part), [last.reduced[t] for t in problem.part], last.cost)

    def _round(
        self,
        problem: Problem,
        prepared: Prepared,
        restricted: Observations,
        start: Array,
        gamma: float | None = None,
    ) -> Round:
        """One solve with the weights as they stand."""
        smoothing = self.family().smoothing  # which may differ from the one that the clouds were prepared with
        pairs = list(zip(prepared.clouds, restricted.clouds, strict=True))
        reduced = parallel_map(
            lambda pair: pair[0].reduce(smoothing, pair[1].weights), pairs, self._jobs(restricted), "clouds"
        )
        cost = total_cost([reduced[t] for t in problem.part], len(restricted.landmarks))
        return Round(restricted, reduced, cost, self.solve(restricted.at(problem.part).stacked, cost, start, gamma))

    def _jobs(self, observations: Observations) -> int | None:
        """How many clouds are worked on at a time: small ones take less time than threads do to change over."""
        small = max(len(cloud.seen) for cloud in observations.clouds) < SEVERAL_FROM
        return 1 if self.n_jobs is None and small else self.n_jobs

    def warn_if_weakly_connected(self, problem: Problem) -> None:
        if self.modes == "paper" and problem.weakly_connected:
            warn(HARDLY_TIED)

    def _rounds(self, problem: Problem, prepared: Prepared) -> Round:
        """One solve; robust ones with less and less weight on what does not fit, until the weights settle."""
        last = self._round(problem, prepared, problem.restricted, problem.initial.gauge.rotations)
        if (loss := self.robust) is None:
            return last
        rounding = ROUNDING * float(last.solution.gauge.scales[0])
        annealing = Annealing(loss, problem.restricted.dimension, rounding)
        given, factors = problem.restricted.weights, np.ones_like(problem.restricted.weights)
        for _ in with_progress(range(MOST_ROUNDS), f"robust={loss!r}, at most", MOST_ROUNDS):
            places = last.solution.gauge.map
            posed = posed_observations(problem.core, last.solution.gauge)
            rigid = np.linalg.norm(posed - places, axis=2)
            if not annealing.arrived:
                places = consensus(posed, max(2 * float(np.nanmedian(rigid)), rounding))
            lengths = residual_lengths(last.reduced, places, given.shape)
            # what a warp cannot do without has no residual, and keeps its weight
            renewed = np.where(np.isnan(lengths), 1.0, annealing.weights(lengths, rigid))
            change = float(np.sqrt(np.mean((renewed - factors)[~np.isnan(lengths)] ** 2)))
            factors = renewed
            known = last.solution.faithful if annealing.arrived else None  # the price of the map has settled too
            rotations, gamma = last.solution.gauge.rotations, None if known is None else known.gamma
            del last  # its matrices make room for the next
            last = self._round(problem, prepared, reweighted(problem.restricted, given * factors), rotations, gamma)
            if annealing.arrived and change < SETTLED:
                return last
        warn(f"robust={loss!r}: after {MOST_ROUNDS} solves the weights still change by {change:.2g}")
        return last

    def solve(
        self,
        core: StackedClouds,
        cost: CostOperator,
        start: Array,
        gamma: float | None = None,
        warm: WarmStart | None = None,
    ) -> Solution:
        """The map of clouds that are known to be sound and tied, from what they leave of the cost.

        ``gamma`` is the price of the faithful map where it is known already.  ``warm`` is what is known of nearly the
        same clouds; then ``start`` is theirs too, and no other needs to be tried.
        """
        if self.modes == "auto":
            spectrum = self._spectrum(core, cost, warm) if gamma is None else None
            faithful = faithful_registration(core, cost, start, gamma, warm is not None)
            return Solution(faithful.gauge, spectrum, faithful)
        spectrum = self._spectrum(core, cost, warm)
        modes = None if self.modes == "paper" else int(self.modes)
        begin = start if warm is not None or modes is not None else None
        gauge = fix_gauge(spectrum, core, modes=modes, scale_method=self.scale_method, start=begin, costed=warm is None)
        return Solution(gauge, spectrum)

    def predict_left_out(self, work: Work, folds: Sequence[IndexArray], n_jobs: int | None) -> list[Prediction]:
        """One factorisation of each cloud serves all folds (theory, eq. 17)."""
        tested = np.bincount(np.concatenate(folds), minlength=len(work.core.landmarks))  # (m,) how often
        left_out = sum(int(tested[cloud.seen].sum()) * len(cloud.seen) for cloud in work.core.clouds)
        stacked = max(1, int(MOST_LEFT_OUT * len(folds) / max(1, left_out)))
        groups = [folds[first : first + stacked] for first in range(0, len(folds), stacked)]
        done = (
            self._predict_group(work, group, n_jobs) for group in with_progress(groups, "groups of folds", len(groups))
        )
        return [prediction for group in done for prediction in group]

    def _predict_group(self, work: Work, folds: Sequence[IndexArray], n_jobs: int | None) -> list[Prediction]:
        clouds = list(zip(work.core.clouds, work.reduced, strict=True))
        out = np.zeros((len(folds), len(work.core.landmarks)), dtype=bool)
        for f, fold in enumerate(folds):
            out[f, fold] = True
        parts = [[_leave_out(cloud, reduced, fold) for fold in out] for cloud, reduced in clouds]
        solves = zip(without(work.cost, work.reduced, parts, folds), folds, strict=True)
        tasks = (delayed(self._map_without)(work.core.stacked, cost, fold) for cost, fold in solves)
        done = Parallel(n_jobs=worker_count(n_jobs, len(folds)), prefer="threads", return_as="generator")(tasks)
        maps = with_progress(done, "folds", len(folds))
        predictions = [Prediction.empty(one, len(clouds), len(fold)) for one, fold in zip(maps, folds, strict=True)]
        for t, cloud in enumerate(work.core.clouds):
            _predict(cloud, work.reduced[t], parts[t], folds, t, predictions)
        return predictions

    def _map_without(self, core: StackedClouds, cost: CostOperator, left_out: IndexArray) -> Array:
        m, d = core.centred.shape[1:]
        kept = np.delete(np.arange(m), left_out)
        rest, start = core.only(kept), self.gauge_.rotations
        if self.faithful_ is None:
            places = self.solve(rest, cost, start).gauge.map
        else:
            places = faithful_registration(rest, cost, start, self.faithful_.gamma).gauge.map
        whole = np.full((m, d), np.nan)
        whole[kept] = places
        return whole

    @abstractmethod
    def family(self) -> Family:
        """The warps, with their settings checked."""

    def _spectrum(self, core: StackedClouds, cost: CostOperator, warm: WarmStart | None = None) -> Spectrum:
        (m, d), rank = core.centred.shape[1:], core.rank
        if m < d + 2:
            raise InvalidObservations(
                f"{m} landmarks are seen by two or more clouds; warps that deform need at least {d + 2} in "
                f"{d}D (RigidGPA does with fewer)"
            )
        if not isinstance(self.modes, str) and not rank <= self.modes <= m - 2:
            raise InvalidSetting(f"modes is {self.modes}; with these data it lies between {rank} and {m - 2}")
        modes = d if isinstance(self.modes, str) else max(d, int(self.modes))
        begun = None if warm is None else warm.space
        spectrum = bottom_eigenpairs(cost, rank, modes, *metric_of(core), values_only=self.modes == "auto", begun=begun)
        if self.modes == "paper" and spectrum.uniqueness is Uniqueness.NO_GAP:
            warn(spectrum.uniqueness.value)
        return spectrum

    def suspicious_observations(self, count: int | None = None) -> list[SuspiciousObservation]:
        """Observations that do not fit, by leave-one-out residual, the most suspicious first."""
        self._require_fitted()
        if count is not None and (not isinstance(count, Integral) or count < 0):
            raise InvalidSetting(f"count is {count!r}; expected None for all, or how many to list")
        return suspicious_observations(self, count)

    def suspicious_landmarks(self) -> list[tuple[Name, float]]:
        """Landmarks by their median leave-one-out residual over the clouds, the most suspicious first."""
        self._require_fitted()
        return suspicious_landmarks(self)

    def reduced_cloud(self, cloud: Name) -> ReducedCloud:
        """One cloud of the fit with its warp eliminated; its landmark j is landmark shared_landmarks_[j] of all."""
        self._require_fitted()
        t = self.observations_.cloud_index(cloud)
        restricted = self.problem_.restricted.clouds[t]
        return self.family_.prepare(restricted).reduce(
            self.smoothing_, self.weights_[t, self.shared_landmarks_[restricted.seen]]
        )

    def check_settings(self) -> None:
        if self.modes not in ("auto", "paper") and (
            not isinstance(self.modes, Integral) or isinstance(self.modes, bool)
        ):
            raise InvalidSetting(f"modes is {self.modes!r}; expected 'auto', 'paper' or a whole number")
        if self.scale_method not in SCALE_METHODS:
            raise InvalidSetting(f"scale_method is {self.scale_method!r}; expected one of {', '.join(SCALE_METHODS)}")
        if self.scale_method != "refined" and self.modes != "paper":
            raise InvalidSetting(
                f"scale_method {self.scale_method!r} belongs to modes='paper'; with modes={self.modes!r} use 'refined'"
            )
        if self.robust is not None:
            require_loss(self.robust)
        require_jobs(self.n_jobs)
        self.family()


def _memory_forecast(family: Family, problem: Problem) -> Forecast:
    core = problem.core
    share = sum(len(cloud.seen) for cloud in core.clouds) / (len(core.clouds) * len(core.landmarks))
    near = family.neighbours(max(core.clouds, key=lambda cloud: len(cloud.seen)))
    return forecast(len(core.clouds), len(core.landmarks), core.dimension, family.features(core.dimension), share, near)


def _leave_out(cloud: Cloud, reduced: ReducedCloud, out: BoolArray) -> LeftOut | None:
    rows = np.flatnonzero(out[cloud.seen])
    return leave_out(reduced, rows) if len(rows) else None


def _predict(
    cloud: Cloud,
    reduced: ReducedCloud,
    parts: Sequence[LeftOut | None],
    folds: Sequence[IndexArray],
    t: int,
    predictions: Sequence[Prediction],
) -> None:
    """Enter what cloud t says of the landmarks of every fold."""
    wanted, held = [], []
    for part, fold, prediction in zip(parts, folds, predictions, strict=True):
        if part is None:
            continue
        targets = prediction.map[cloud.seen]
        targets[part.rows] = part.predict(targets[part.kept])
        columns = np.searchsorted(fold, cloud.seen[part.rows])
        prediction.points[t, columns], prediction.spreads[t, columns] = targets[part.rows], part.variance
        wanted.append(targets)
        held.append((prediction, columns, part.rows))
    if wanted:
        which = np.repeat(np.arange(len(held)), [len(rows) for *_, rows in held])
        own = cloud.points[np.concatenate([rows for *_, rows in held])]
        jacobians = np.split(sensor_jacobians(reduced.fit_all(wanted), own, which), np.flatnonzero(np.diff(which)) + 1)
        for (prediction, columns, _), some in zip(held, jacobians, strict=True):
            prediction.jacobians[t, columns] = some


def _results_of(problem: Problem, last: Round) -> dict[str, Any]:
    """What warps that bend deliver beyond the rest."""
    solution, shape = last.solution, (len(problem.observations.clouds), len(problem.observations.landmarks))
    weights, residuals, firmness = np.zeros(shape), np.full(shape, np.nan), np.full(shape, np.nan)
    weights[:, problem.landmarks] = last.restricted.weights
    residuals[:, problem.landmarks] = residual_lengths(last.reduced, solution.gauge.map, last.restricted.weights.shape)
    for t, cloud in enumerate(last.reduced):
        firmness[t, problem.landmarks[cloud.seen]] = _firmness(cloud, problem.restricted.clouds[t].weights)
    return {
        "spectrum_": solution.spectrum,
        "faithful_": solution.faithful,
        "shared_landmarks_": problem.landmarks,
        "weights_": weights,
        "residuals_": residuals,
        "standardised_residuals_": residuals * firmness,
    }


def _inducing_errors(reduced: Sequence[ReducedCloud], warps: Sequence[Warp]) -> Array:  # (n,)
    """|f(u) - f_l(u)| <= missed(u) |f| for the best f_l at the inducing points, with |f| that of the warp found."""
    pairs = zip(reduced, warps, strict=True)
    return np.array(
        [
            cloud.approximation_error * np.sqrt(warp.energy) if cloud.approximation_error else 0.0
            for cloud, warp in pairs
        ]
    )


def _firmness(cloud: ReducedCloud, given: Array) -> Array:  # (s,)
    """Noise as a share of the deviation expected of each leave-one-out residual, at the weights given.

    The residual of j has the variance 1 / Q_jj: the noise 1 / w_j and what the others leave open.
    """
    own = cloud.diagonal()
    open_ = 1 / np.maximum(own, np.finfo(np.float64).tiny) - 1 / cloud.weights
    with np.errstate(over="ignore"):  # what a warp cannot do without has no firmness at all
        return np.asarray(1 / np.sqrt(1 + given * np.maximum(open_, 0.0)))


def residual_lengths(reduced: Sequence[ReducedCloud], places: Array, shape: tuple[int, ...]) -> Array:
    """|leave-one-out residual| of every observation (n, m), NaN where unseen."""
    lengths = np.full(shape, np.nan)
    for t, cloud in enumerate(reduced):
        lengths[t, cloud.seen] = np.linalg.norm(leave_one_out(cloud, places[cloud.seen]), axis=1)
    return lengths


def posed_observations(core: Observations, gauge: Gauge) -> Array:  # (n, m, d), NaN where unseen
    """Every observation after its cloud's rigid motion."""
    posed = np.full((len(core.clouds), len(core.landmarks), core.dimension), np.nan)
    for t, cloud in enumerate(core.clouds):
        posed[t, cloud.seen] = cloud.points @ gauge.rotations[t].T + gauge.translations[t]
    return posed

"""Registrations with warps that bend: reduce every cloud, take the bottom of the spectrum, fix the gauge."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, Self

import numpy as np
from joblib import Parallel, delayed

from .diagnosis import Suspicion, suspicions, suspicious_landmarks
from .errors import InvalidObservations, InvalidSetting, KernelGPAWarning
from .faithful import faithful_registration
from .forms import Form, accumulate
from .frames import Array, IndexArray
from .gauge import SCALE_METHODS, Gauge, fix_gauge
from .names import Name
from .observations import Cloud, Observations, as_observations, reweighted
from .registration import GPA, Prepared, Refit, Solution
from .robust import MOST_ROUNDS, SETTLED, Annealing, require_loss
from .scene import Scene, open_scene
from .spectral import Spectrum, Uniqueness, metric_of, smallest
from .threads import blas_threads_for
from .warps import Family, ReducedCloud
from .warps.part import PartOfCloud, leave_one_out

HARDLY_TIED = (
    "some clouds share landmarks with the rest that fix an affine map between them hardly better than noise blurs it; "
    "the map of modes='paper' may be wrong: see diagnose(), and use modes='auto'"
)
ROUNDING = 1e-6  # of the map's size: residuals below this are those of exact copies


@dataclass(frozen=True)
class Round:
    """One solve: the observations with their weights, every cloud reduced, and the solution."""

    restricted: Observations
    reduced: list[ReducedCloud]
    solution: Solution


class DeformableGPA(GPA):
    """Closed form up to the scales: reduce every cloud, take the bottom of the spectrum, fix the gauge."""

    modes: str | int
    scale_method: str
    robust: str | None
    n_jobs: int | None

    def fit(self, points: Any, weights: Any = None) -> Self:
        """Register the clouds: (n, m, d) with NaN, a list of (points, ids), or Observations.

        weights : one number a landmark (m,) or an observation (n, m); 0 means not seen.  A known standard
            deviation s is the weight 1 / s^2, up to a common factor that ``smoothing`` answers to.
        """
        self._check_settings()
        observations = as_observations(points, weights)
        with blas_threads_for(len(observations.landmarks)):
            scene = open_scene(observations)
            if self.modes == "paper" and scene.hardly_tied:
                warnings.warn(HARDLY_TIED, KernelGPAWarning, stacklevel=2)
            last = self._round(scene, scene.restricted, scene.start.gauge.rotations)
            if self.robust is not None:
                last = self._reweighted_rounds(scene, last, self.robust)
            places = last.solution.gauge.map
            self._deliver(scene, last.solution, [cloud.fit(places[cloud.seen]) for cloud in last.reduced])
            self._deliver_residuals(scene, last)
        return self

    def _round(self, scene: Scene, restricted: Observations, start: Array, gamma: float | None = None) -> Round:
        """One solve with the weights as they stand."""
        reduced = self.reduce(restricted.clouds)
        solution = self.solve(restricted.at(scene.part), [reduced[t] for t in scene.part], start, gamma)
        return Round(restricted, reduced, solution)

    def _reweighted_rounds(self, scene: Scene, last: Round, loss: str) -> Round:
        """Solves with less and less weight on what does not fit, until the weights settle."""
        rounding = ROUNDING * float(last.solution.gauge.scales[0])
        annealing = Annealing(loss, scene.restricted.dimension, rounding)
        given, factors = scene.restricted.weights, np.ones_like(scene.restricted.weights)
        for _ in range(MOST_ROUNDS):
            lengths = residual_lengths(last.reduced, last.solution.gauge.map, given.shape)
            rigid = rigid_lengths(scene.restricted.at(scene.part), last.solution.gauge)
            renewed = np.where(np.isnan(lengths), 0.0, annealing.weights(lengths, rigid))
            change = float(np.sqrt(np.mean((renewed - factors)[~np.isnan(lengths)] ** 2)))
            factors = renewed
            known = last.solution.faithful if annealing.arrived else None  # the price of the map has settled too
            last = self._round(
                scene,
                reweighted(scene.restricted, given * factors),
                last.solution.gauge.rotations,
                None if known is None else known.gamma,
            )
            if annealing.arrived and change < SETTLED:
                return last
        warnings.warn(
            f"robust={loss!r}: after {MOST_ROUNDS} solves the weights still change by {change:.2g}",
            KernelGPAWarning,
            stacklevel=3,
        )
        return last

    def reduce(self, clouds: Sequence[Cloud]) -> list[ReducedCloud]:
        """Every cloud with its warp eliminated."""
        family = self.family()
        # threads: the work is in BLAS and LAPACK, which let go of the interpreter
        return list(Parallel(n_jobs=self.n_jobs, prefer="threads")(delayed(family.reduce)(c) for c in clouds))

    def prepared(self, scene: Scene) -> Prepared:
        core = reweighted(scene.restricted, self.weights_[:, scene.landmarks]).at(scene.part)
        return Prepared(core, scene.landmarks, scene.part, self.reduce(core.clouds), self.gauge_.rotations)

    def refit(self, prepared: Prepared, kept: IndexArray) -> Refit:
        renumbered = np.full(len(prepared.core.landmarks), -1, dtype=np.intp)
        renumbered[kept] = np.arange(len(kept))
        parts = [PartOfCloud(cloud, renumbered[cloud.seen] >= 0, renumbered) for cloud in prepared.reduced]
        gamma = None if self.faithful_ is None else self.faithful_.gamma
        gauge = self.solve(prepared.core.select(kept), parts, prepared.start, gamma).gauge
        warps = [part.fit(gauge.map[part.seen]) for part in parts]
        return Refit(gauge, warps, [part.rest_variance for part in parts])

    def solve(
        self,
        core: Observations,
        reduced: Sequence[ReducedCloud],
        start: Array,
        gamma: float | None = None,
    ) -> Solution:
        """The map of clouds that are known to be sound and tied, from their reduced forms.

        ``gamma`` is the price of the faithful map where it is known already.
        """
        form = accumulate(reduced, len(core.landmarks))
        rank = max(cloud.frame.rank for cloud in core.clouds)
        spectrum = self._spectrum(core, form, rank)
        if self.modes == "auto":
            faithful = faithful_registration(core, form, start, gamma)
            return Solution(faithful.gauge, spectrum, faithful)
        modes = None if self.modes == "paper" else int(self.modes)
        begin = None if modes is None else start
        gauge = fix_gauge(spectrum, core.clouds, rank, modes=modes, scale_method=self.scale_method, start=begin)
        return Solution(gauge, spectrum)

    @abstractmethod
    def family(self) -> Family:
        """The warps, with their settings checked."""

    def _spectrum(self, core: Observations, form: Form, rank: int) -> Spectrum:
        m, d = len(core.landmarks), core.dimension
        if m < d + 2:
            raise InvalidObservations(
                f"{m} landmarks are seen by two or more clouds; warps that deform need at least {d + 2} in "
                f"{d}D (RigidGPA does with fewer)"
            )
        if not isinstance(self.modes, str) and not rank <= self.modes <= m - 2:
            raise InvalidSetting(f"modes is {self.modes}; with these data it lies between {rank} and {m - 2}")
        modes = d if isinstance(self.modes, str) else max(d, int(self.modes))
        spectrum = smallest(form, rank, modes, *metric_of(core))
        if self.modes == "paper" and spectrum.uniqueness is Uniqueness.NO_GAP:
            warnings.warn(spectrum.uniqueness.value, KernelGPAWarning, stacklevel=4)
        return spectrum

    def suspicions(self, count: int | None = None) -> list[Suspicion]:
        """Observations that do not fit, by leave-one-out residual, the most suspicious first."""
        self._require_fitted()
        return suspicions(self, count)

    def suspicious_landmarks(self) -> list[tuple[Name, float]]:
        """Landmarks by their median leave-one-out residual over the clouds, the most suspicious first."""
        self._require_fitted()
        return suspicious_landmarks(self)

    def reduced_cloud(self, cloud: Name) -> ReducedCloud:
        """One cloud of the fit with its warp eliminated; its landmark j is landmark solved_[j] of all."""
        self._require_fitted()
        t = self.observations_.cloud_index(cloud)
        restricted = self.observations_.select(self.solved_).clouds[t]
        weighted = replace(restricted, weights=self.weights_[t, self.solved_[restricted.seen]])
        return self.family().reduce(weighted)

    def _deliver_residuals(self, scene: Scene, last: Round) -> None:
        self.solved_ = scene.landmarks
        shape = scene.observations.visible.shape
        self.spectrum_, self.faithful_ = last.solution.spectrum, last.solution.faithful
        self.weights_ = np.zeros(shape)
        self.weights_[:, scene.landmarks] = last.restricted.weights
        self.residuals_ = np.full(shape, np.nan)
        self.residuals_[:, scene.landmarks] = residual_lengths(
            last.reduced, last.solution.gauge.map, last.restricted.visible.shape
        )

    def _check_settings(self) -> None:
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
        if self.n_jobs is not None and (not isinstance(self.n_jobs, Integral) or self.n_jobs == 0):
            raise InvalidSetting(f"n_jobs is {self.n_jobs!r}; expected None, a positive number, or -1 for all cores")
        self.family()


def residual_lengths(reduced: Sequence[ReducedCloud], places: Array, shape: tuple[int, ...]) -> Array:
    """|leave-one-out residual| of every observation (n, m), NaN where unseen."""
    lengths = np.full(shape, np.nan)
    for t, cloud in enumerate(reduced):
        lengths[t, cloud.seen] = np.linalg.norm(leave_one_out(cloud, places[cloud.seen]), axis=1)
    return lengths


def rigid_lengths(core: Observations, gauge: Gauge) -> Array:  # (n, m), NaN where unseen
    """Distance of every observation from the map after its cloud's rigid motion."""
    lengths = np.full((len(core.clouds), len(core.landmarks)), np.nan)
    for t, cloud in enumerate(core.clouds):
        posed = cloud.points @ gauge.rotations[t].T + gauge.translations[t]
        lengths[t, cloud.seen] = np.linalg.norm(posed - gauge.map[cloud.seen], axis=1)
    return lengths

"""RigidGPA, AffineGPA, TPSGPA, KernelGPA: ``fit`` reads like the paper's algorithm."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from joblib import Parallel, delayed
from sklearn.base import BaseEstimator

from .errors import InvalidObservations, InvalidSetting, KernelGPAWarning, NotFitted
from .faithful import Faithful, faithful_registration
from .forms import Form, accumulate
from .frames import Array, IndexArray
from .gauge import SCALE_METHODS, Gauge, fix_gauge
from .kernels import Kernel, as_kernel
from .observations import Cloud, Name, Observations, as_observations, reweighted
from .rigid import pose_onto, rigid_registration, similarity_registration
from .robust import MOST_ROUNDS, SETTLED, Annealing, require_loss
from .scene import Scene, open_scene
from .spectral import Spectrum, Uniqueness, factorisation, smallest
from .warps import AffineFamily, Family, KernelFamily, ReducedCloud, ThinPlateFamily, Warp
from .warps.affine import affine_warp
from .warps.inverse import inverse
from .warps.part import PartOfCloud, leave_one_out


@dataclass(frozen=True)
class Solution:
    """The map and poses of the clouds that took part, and where they come from."""

    gauge: Gauge
    spectrum: Spectrum | None = None  # None: rigid
    faithful: Faithful | None = None  # None: not the faithful map
    factors: Array | None = None  # (n,) sizes; None: all 1


@dataclass(frozen=True)
class Round:
    """One solve: the observations with their weights, every cloud reduced, and the solution."""

    restricted: Observations
    reduced: list[ReducedCloud]
    solution: Solution


@dataclass(frozen=True)
class Prepared:
    """A fitted scene, ready to be solved again without some landmarks."""

    core: Observations  # the clouds and landmarks that took part, with their last weights
    landmarks: IndexArray  # the places of its landmarks among all
    part: IndexArray  # the places of its clouds among all
    reduced: list[ReducedCloud]  # nothing for rigid warps
    start: Array  # (n, d, d) the rotations of the fit


@dataclass(frozen=True)
class Refit:
    """A solve without some landmarks."""

    gauge: Gauge
    warps: list[Warp]
    spreads: list[Array]  # a cloud: variance of its points left out, in units of its noise; NaN for rigid warps


class GPA(BaseEstimator):
    """What every registration delivers, and how its warps are used."""

    def transform(self, points: npt.ArrayLike, cloud: Name) -> Array:  # (k, d) -> (k, d)
        """Points of one cloud (index or name), landmarks or not, taken into the map."""
        return self._warp_of(cloud)(points)

    def inverse_transform(self, points: npt.ArrayLike, cloud: Name) -> Array:  # (k, d) -> (k, d)
        """Points of the map taken back into one cloud; NaN, with a warning, where there is no one answer."""
        warp = self._warp_of(cloud)
        targets = warp.checked(points)
        found = inverse(warp, targets)
        lost = int(np.sum(np.isnan(found).any(axis=1) & np.isfinite(targets).all(axis=1)))
        if lost:
            warnings.warn(
                f"cloud {cloud!r}: {lost} of {len(found)} points cannot be taken back, because the warp folds or does "
                "not reach them; they are NaN",
                KernelGPAWarning,
                stacklevel=2,
            )
        return found

    def transform_clouds(self, points: npt.ArrayLike) -> Array:  # (n, k, d) -> (n, k, d)
        """The same k points as each cloud has them, all taken into the map; NaN stays NaN."""
        return np.stack([warp(one) for warp, one in self._each(points)])

    def jacobians(self, points: npt.ArrayLike) -> Array:  # (n, k, d) -> (n, k, d, d)
        """The Jacobian of each cloud's warp at its own points, as :func:`metrics.sensor_error` takes them."""
        return np.stack([warp.jacobian(one) for warp, one in self._each(points)])

    def _each(self, points: npt.ArrayLike) -> list[tuple[Warp, Array]]:
        self._require_fitted()
        array = np.asarray(points)
        if array.ndim != 3 or len(array) != len(self.warps_):
            raise InvalidObservations(
                f"points have shape {array.shape}; expected ({len(self.warps_)}, points, dimension)"
            )
        return list(zip(self.warps_, array, strict=True))

    def prepared(self, scene: Scene) -> Prepared:
        """What refitting without some landmarks shares with this fit."""
        raise NotImplementedError

    def refit(self, prepared: Prepared, kept: IndexArray) -> Refit:
        """Map, poses and warps from the landmarks ``kept`` alone, with the settings and widths of this fit."""
        raise NotImplementedError

    def _deliver(self, scene: Scene, solution: Solution, warps: list[Warp]) -> None:
        """Everything a user reads, in the order of all clouds and landmarks."""
        observations, gauge = scene.observations, solution.gauge
        self.observations_, self.gauge_, self.warps_ = observations, gauge, warps
        self.scales_ = gauge.scales
        self.mirrored_ = [observations.names[t] for t in scene.mirrored]
        self.rotations_, self.translations_ = _all_poses(scene, gauge)
        spectrum = scene.start.spectrum if solution.spectrum is None else solution.spectrum
        self.eigenvalues_ = _padded(spectrum.values, observations.dimension + 1)
        self.map_ = np.full((len(observations.landmarks), observations.dimension), np.nan)
        self.map_[scene.landmarks] = gauge.map
        alone = scene.counts == 1
        for t in scene.part:
            cloud = observations.clouds[t]
            once = alone[cloud.seen]
            self.map_[cloud.seen[once]] = warps[t](cloud.points[once])

    def _warp_of(self, cloud: Name) -> Warp:
        self._require_fitted()
        return self.warps_[self.observations_.cloud_index(cloud)]

    def _require_fitted(self) -> None:
        if not hasattr(self, "warps_"):
            raise NotFitted(f"this {type(self).__name__} is not fitted; call fit(points) first")


class RigidGPA(GPA):
    """Rotations and translations, and one size a cloud if ``scaling``.

    The start is the affine registration, whose spectrum is global; the cost is then iterated to
    convergence.  With ``scaling`` the poses read  factors_[t] * rotations_[t] p + translations_[t].
    """

    def __init__(self, scaling: bool = False) -> None:
        self.scaling = scaling

    def fit(self, points: Any, weights: Any = None) -> Self:
        """Register the clouds rigidly: (n, m, d) with NaN, a list of (points, ids), or Observations."""
        scene = open_scene(as_observations(points, weights))
        solution = self.solve(scene.core, scene.start.gauge.rotations)
        self.factors_ = np.ones(len(scene.observations.clouds))
        if solution.factors is not None:
            self.factors_[scene.part] = solution.factors
        rotations, translations = _all_poses(scene, solution.gauge)
        motions = zip(scene.observations.clouds, self.factors_, rotations, translations, strict=True)
        self._deliver(scene, solution, [affine_warp(cloud, s * R, t) for cloud, s, R, t in motions])
        return self

    def prepared(self, scene: Scene) -> Prepared:
        return Prepared(scene.core, scene.landmarks, scene.part, [], self.gauge_.rotations)

    def refit(self, prepared: Prepared, kept: IndexArray) -> Refit:
        core = prepared.core.select(kept)
        solution = self.solve(core, prepared.start)
        gauge, factors = solution.gauge, solution.factors
        sizes = np.ones(len(core.clouds)) if factors is None else factors
        motions = zip(core.clouds, sizes, gauge.rotations, gauge.translations, strict=True)
        warps = [affine_warp(cloud, s * R, t) for cloud, s, R, t in motions]
        return Refit(gauge, warps, [np.full(1, np.nan)] * len(warps))

    def solve(self, core: Observations, start: Array) -> Solution:
        """The rigid map of clouds that are known to be sound and tied."""
        if not self.scaling:
            return Solution(rigid_registration(core, start))
        gauge, factors = similarity_registration(core, start)
        return Solution(gauge, factors=factors)


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
        scene = open_scene(as_observations(points, weights))
        last = self._round(scene, scene.restricted, scene.start.gauge.rotations)
        if self.robust is not None:
            last = self._reweighted_rounds(scene, last, self.robust)
        places = last.solution.gauge.map
        self._deliver(scene, last.solution, [cloud.fit(places[cloud.seen]) for cloud in last.reduced])
        self._deliver_residuals(scene, last)
        return self

    def _round(self, scene: Scene, restricted: Observations, start: Array) -> Round:
        """One solve with the weights as they stand."""
        reduced = self.reduce(restricted.clouds)
        solution = self.solve(restricted.at(scene.part), [reduced[t] for t in scene.part], start)
        return Round(restricted, reduced, solution)

    def _reweighted_rounds(self, scene: Scene, last: Round, loss: str) -> Round:
        """Solves with less and less weight on what does not fit, until the weights settle."""
        annealing = Annealing(loss, scene.restricted.dimension)
        given, factors = scene.restricted.weights, np.ones_like(scene.restricted.weights)
        for _ in range(MOST_ROUNDS):
            lengths = residual_lengths(last.reduced, last.solution.gauge.map, given.shape)
            rigid = rigid_lengths(scene.restricted.at(scene.part), last.solution.gauge)
            renewed = np.where(np.isnan(lengths), 0.0, annealing.weights(lengths, rigid))
            change = float(np.abs(renewed - factors)[~np.isnan(lengths)].max())
            factors = renewed
            last = self._round(scene, reweighted(scene.restricted, given * factors), last.solution.gauge.rotations)
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

    def family(self) -> Family:
        """The warps, with their settings checked."""
        raise NotImplementedError

    def _spectrum(self, core: Observations, form: Form, rank: int) -> Spectrum:
        m, d = len(core.landmarks), core.dimension
        if m < d + 2:
            raise InvalidObservations(
                f"{m} landmarks are seen by two or more clouds; warps that deform need at least {d + 2} in "
                f"{d}D (RigidGPA does with fewer)"
            )
        if not isinstance(self.modes, str) and not rank <= self.modes <= m - 2:
            raise InvalidSetting(f"modes is {self.modes}; with these data it lies between {rank} and {m - 2}")
        spectrum = smallest(form, rank, d if isinstance(self.modes, str) else max(d, int(self.modes)))
        if self.modes == "paper" and spectrum.uniqueness is Uniqueness.NO_GAP:
            warnings.warn(spectrum.uniqueness.value, KernelGPAWarning, stacklevel=4)
        return spectrum

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
        if self.modes not in ("auto", "paper") and not isinstance(self.modes, Integral):
            raise InvalidSetting(f"modes is {self.modes!r}; expected 'auto', 'paper' or a whole number")
        if self.scale_method not in SCALE_METHODS:
            raise InvalidSetting(f"scale_method is {self.scale_method!r}; expected one of {', '.join(SCALE_METHODS)}")
        if self.scale_method != "refined" and self.modes != "paper":
            raise InvalidSetting(
                f"scale_method {self.scale_method!r} belongs to modes='paper'; with modes={self.modes!r} use 'refined'"
            )
        if self.robust is not None:
            require_loss(self.robust)
        self.family()


class AffineGPA(DeformableGPA):
    """Affine warps.  ``method="svd"`` is the classical factorisation (Tomasi-Kanade), for full visibility."""

    def __init__(
        self,
        method: str = "spectral",
        modes: str | int = "auto",
        scale_method: str = "refined",
        robust: str | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.method = method
        self.modes = modes
        self.scale_method = scale_method
        self.robust = robust
        self.n_jobs = n_jobs

    def family(self) -> Family:
        if self.method not in ("spectral", "svd"):
            raise InvalidSetting(f"method is {self.method!r}; expected 'spectral' or 'svd'")
        if self.method == "svd" and (self.modes not in ("auto", "paper") or self.robust is not None):
            raise InvalidSetting("method='svd' takes modes='auto' or 'paper' and no robust loss")
        return AffineFamily()

    def solve(
        self,
        core: Observations,
        reduced: Sequence[ReducedCloud],
        start: Array,
        gamma: float | None = None,
    ) -> Solution:
        if self.method == "spectral":
            return super().solve(core, reduced, start, gamma)
        rank = max(cloud.frame.rank for cloud in core.clouds)
        spectrum = factorisation(core, accumulate(reduced, len(core.landmarks)), rank)
        # "auto" mixes the d vectors freely, as the classical method does
        modes, begin = (None, None) if self.modes == "paper" else (rank, start)
        gauge = fix_gauge(spectrum, core.clouds, rank, modes=modes, scale_method=self.scale_method, start=begin)
        return Solution(gauge, spectrum)


class TPSGPA(DeformableGPA):
    """Thin-plate warps on a grid of ``control_points``^d points (DefGPA, 2022).

    ``smoothing`` weighs the bending energy and carries a unit: length^(4 - d) of the data.
    """

    def __init__(
        self,
        control_points: int = 5,
        smoothing: float = 0.01,
        modes: str | int = "auto",
        scale_method: str = "refined",
        robust: str | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.control_points = control_points
        self.smoothing = smoothing
        self.modes = modes
        self.scale_method = scale_method
        self.robust = robust
        self.n_jobs = n_jobs

    def family(self) -> Family:
        count = _whole("control_points", self.control_points, least=2)
        return ThinPlateFamily(count, _positive("smoothing", self.smoothing))


class KernelGPA(DeformableGPA):
    """Kernel warps (KernelGPA, 2023): the most flexible, and the default.

    kernel : "gaussian", "laplacian", "matern32", "matern52", "wendland", a kernel object, or any
        positive definite function of distance / sigma.
    bandwidth : sigma of a cloud as a multiple of the mean distance between its points; unit-free.
    smoothing : mu, the price of leaving the affine map; large values give the affine solution.
    modes : "auto", the faithful map; "paper", the published one; or how many eigenvectors to use.
    inducing : kernels at so many farthest points of each cloud instead of at all.
    robust : "huber", "tukey" or "geman-mcclure": give wrong matches less weight, from solve to solve.
    """

    def __init__(
        self,
        kernel: str | Kernel | Callable[[Array], Array] = "gaussian",
        bandwidth: float = 0.25,
        smoothing: float = 0.1,
        modes: str | int = "auto",
        scale_method: str = "refined",
        inducing: int | None = None,
        robust: str | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.smoothing = smoothing
        self.modes = modes
        self.scale_method = scale_method
        self.inducing = inducing
        self.robust = robust
        self.n_jobs = n_jobs

    def family(self) -> Family:
        return KernelFamily(
            as_kernel(self.kernel),
            _positive("bandwidth", self.bandwidth),
            _positive("smoothing", self.smoothing),
            None if self.inducing is None else _whole("inducing", self.inducing, least=1),
        )


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


def _all_poses(scene: Scene, gauge: Gauge) -> tuple[Array, Array]:
    """Poses of all clouds; those left out of the map are laid onto it."""
    n, d = len(scene.observations.clouds), scene.observations.dimension
    rotations, translations = np.empty((n, d, d)), np.empty((n, d))
    rotations[scene.part], translations[scene.part] = gauge.rotations, gauge.translations
    for t in scene.mirrored:
        cloud = scene.restricted.clouds[t]
        rotations[t], translations[t] = pose_onto(cloud, gauge.map[cloud.seen])
    return rotations, translations


def _positive(name: str, value: Any) -> float:
    if not isinstance(value, Real) or isinstance(value, bool) or not 0 < float(value) < np.inf:
        raise InvalidSetting(f"{name} is {value!r}; expected a positive number")
    return float(value)


def _whole(name: str, value: Any, least: int) -> int:
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise InvalidSetting(f"{name} is {value!r}; expected a whole number of at least {least}")
    return int(value)


def _padded(values: Array, count: int) -> Array:
    """The first ``count`` values, NaN for those that do not exist."""
    return np.concatenate([values[:count], np.full(max(0, count - len(values)), np.nan)])

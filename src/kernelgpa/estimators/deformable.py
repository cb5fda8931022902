"""Registration with warps that deform: reduce every cloud, sum the costs, and minimise them over maps and rotations.

With modes="auto" the map minimises eq. 16 of docs/theory.md; with the other modes it is built from the bottom
eigenvectors of the summed cost (eqs. 10 to 14).
"""

from __future__ import annotations

from functools import partial
from numbers import Integral
from typing import Self

from sklearn.base import clone

from .._numerics.threads import parallel_map
from ..errors import InvalidObservations, InvalidSetting, TooLarge, warn
from ..gauge.baselines import BASELINE_SCALES
from ..gauge.faithful import faithful_registration
from ..gauge.initial import Start
from ..gauge.scales import D_MODES, SCALE_METHODS, fix_gauge, flat_map_fits_best
from ..observations import Observations
from ..observations.stacked import StackedClouds
from ..spectrum.eigenpairs import Metric, Spectrum, Uniqueness, bottom_eigenpairs, bottom_eigenvalues
from ..spectrum.forecast import Forecast, forecast
from ..spectrum.operator import LIMITS, CostOperator, OperatorLimits
from ..spectrum.total import total_cost
from ..typing import Array, Name
from ..warps import Family, ReducedCloud, smoothing_per_cloud
from ..warps.automatic import Search
from ..warps.exact import reduce_clouds
from .automatic import automatic_settings, fit_automatically
from .base import GPA, PreparedClouds, SolvedProblem
from .prediction.backward import BackwardWarps, fit_backward
from .prediction.left_out import DeformableFolds
from .problem import Problem
from .registration import (
    Registration,
    Solution,
    WarpStatistics,
    all_poses,
    residual_lengths,
    warn_if_not_converged,
    whole_map,
)
from .robust import Reweighting
from .settings import is_automatic

WEAKLY_CONNECTED = (
    "some clouds share so few or so thinly spread landmarks with the rest that noise hides the affine map between "
    "them, and the map of this setting of modes may be wrong; see diagnose(), and use modes='auto'"
)
NEARLY_COINCIDING = (
    "the bottom eigenvalues nearly coincide, so that noise decides the axes of the map and with R_g = I its shape too; "
    "use modes='paper', which rotates the axes, or modes='auto'"
)
NOT_FLAT = (
    "all clouds are flat, but by the cost of modes='program' a map that is not flat would fit them better; the flat "
    "map is kept. Use modes='auto' for clouds of a flat body; images of a body need depths"
)
# where numbers are needed before the data are known
PROVISIONAL_BANDWIDTH, PROVISIONAL_SMOOTHING = 0.25, 0.1
SEARCHED = ("bandwidth", "smoothing")  # the settings of a search, in its order; thin-plate warps have the last alone
PARALLEL_LANDMARKS = 400  # landmarks per cloud from which several clouds are worked on at the same time


class DeformableGPA(GPA):
    """Registration with warps of one family; a subclass supplies the family, and how its settings are searched."""

    scale_method: str
    _limits: OperatorLimits = LIMITS

    @property
    def _solves_from_sum(self) -> bool:
        return (self.robust is None or is_automatic(self.robust)) and self.scale_method not in BASELINE_SCALES

    # -- the algorithm --

    def _fit_problem(self, problem: Problem, prepared: PreparedClouds | None = None) -> SolvedProblem[DeformableFolds]:
        """Register the clouds of a screened problem, with settings that are chosen first if they are automatic."""
        if automatic_settings(self):
            return fit_automatically(self, problem)
        return self._register(problem, self._prepare_clouds(problem) if prepared is None else prepared)

    def _register(self, problem: Problem, prepared: PreparedClouds) -> SolvedProblem[DeformableFolds]:
        """Register the clouds with the settings as they are, none of them automatic; nothing is stored."""
        if self.modes in D_MODES and problem.weakly_connected:
            warn(WEAKLY_CONNECTED)
        weighting = Reweighting(self.robust, problem)
        while True:  # once, if robust is None
            observations = weighting.current.observations
            participants = observations.at(problem.participating)
            clouds = self._reduce(prepared, observations)
            cost = total_cost([clouds[t] for t in problem.participating], len(observations.landmarks), self._limits)
            solution = self._solve(participants.stacked, cost, weighting.current.start)
            if not weighting.update(partial(residual_lengths, clouds), solution):
                break
            del clouds, cost, solution  # frees their matrices before the next solve
        warn_if_not_converged(solution.gauge)
        # solves with a known gamma do without the spectrum
        spectrum = solution.spectrum or self._spectrum(participants.stacked, cost)
        registration = self._registration(problem, prepared.family, observations, clouds, solution, spectrum)
        map_of_fold = partial(self._map_of_fold, registration)
        participating = [clouds[t] for t in problem.participating]
        return SolvedProblem(registration, DeformableFolds(participants, participating, cost, map_of_fold))

    def _solve(
        self,
        stacked: StackedClouds,  # connected clouds of the same handedness
        cost: CostOperator,  # their sum
        start: Start,
        with_spectrum: bool = True,  # False: the default map does without its eigenvalues, too
    ) -> Solution:
        """The map and poses of clouds, from the sum of their costs."""
        if self.modes == "auto":
            gamma_is_known = start.gamma is not None and start.gamma_is_fixed
            wanted = with_spectrum and not gamma_is_known
            spectrum = self._spectrum(stacked, cost, start.subspace) if wanted else None
            faithful, optimum = faithful_registration(stacked, cost, start)
            return Solution(faithful.gauge, spectrum, faithful, optimum=optimum)
        spectrum = self._spectrum(stacked, cost, start.subspace)
        # with d modes the closed form is the better start, unless nearly the same clouds were solved before
        rotations = start.rotations if start.is_warm or self.modes not in D_MODES else None
        gauge, optimum = fix_gauge(spectrum, stacked, self.modes, self.scale_method, rotations)
        flat = self.modes == "program" and stacked.rank < stacked.means.shape[1]
        if flat and self.scale_method == "refined" and not flat_map_fits_best(gauge, spectrum, stacked):
            warn(NOT_FLAT)
        return Solution(gauge, spectrum, optimum=optimum)

    def _spectrum(self, stacked: StackedClouds, cost: CostOperator, subspace: Array | None = None) -> Spectrum:
        (m, d), rank = stacked.centred.shape[1:], stacked.rank
        require_landmarks(m, d)
        if not isinstance(self.modes, str) and not rank <= self.modes <= m - 2:
            raise InvalidSetting(f"modes is {self.modes}; with these data it lies between {rank} and {m - 2}")
        modes = d if isinstance(self.modes, str) else max(d, int(self.modes))
        bottom = bottom_eigenvalues if self.modes == "auto" else bottom_eigenpairs
        spectrum = bottom(cost, rank, modes, Metric.of_clouds(stacked), subspace)
        if self.modes in D_MODES and spectrum.uniqueness is Uniqueness.NO_GAP:
            warn(spectrum.uniqueness.value)
        if self.modes == "program" and spectrum.nearly_coinciding:
            warn(NEARLY_COINCIDING)
        return spectrum

    # -- per cloud --

    def _prepare(self, problem: Problem) -> PreparedClouds | None:
        """What the clouds compute once for all values of ``smoothing`` and all weights; None if the fit chooses."""
        return None if automatic_settings(self) else self._prepare_clouds(problem)

    def _prepare_clouds(self, problem: Problem, like: Family | None = None) -> PreparedClouds:
        """``like`` is a family whose fit to the same clouds was within the memory."""
        family = self._family_within_memory(problem) if like is None else self._family_like(like, problem)
        clouds = problem.restricted.clouds
        return PreparedClouds(family, parallel_map(family.prepare, clouds, self._threads(problem.restricted)))

    def _reduce(self, prepared: PreparedClouds, observations: Observations) -> list[ReducedCloud]:
        """Every cloud with its warp eliminated, by the present smoothing and weights."""
        smoothing = smoothing_per_cloud(self._family().smoothing, len(observations.clouds))
        weights = [cloud.weights for cloud in observations.clouds]
        return reduce_clouds(prepared.clouds, smoothing, weights, self._threads(observations))

    def _threads(self, observations: Observations) -> int | None:
        """One thread for small clouds, which take less time than switching between threads."""
        small = max(len(cloud.seen) for cloud in observations.clouds) < PARALLEL_LANDMARKS
        return 1 if self.n_jobs is None and small else self.n_jobs

    def _reduced_cloud(self, cloud: Name) -> ReducedCloud:
        """One cloud of the fit with its warp eliminated; its landmark j is landmark shared_landmarks_[j] of all."""
        t = self.observations_.cloud_index(cloud)
        restricted = self.registration_.problem.restricted.clouds[t]
        weights = self.weights_[t, self.shared_landmarks_[restricted.seen]]
        return self.registration_.family.prepare(restricted).reduce(
            smoothing_per_cloud(self.smoothing_, len(self.warps_))[t], weights
        )

    # -- results --

    def _registration(
        self,
        problem: Problem,
        family: Family,
        used: Observations,  # all clouds on the shared landmarks, with the weights of the last solve
        clouds: list[ReducedCloud],  # (n,)
        solution: Solution,
        spectrum: Spectrum,
    ) -> Registration:
        gauge = solution.gauge
        warps = [cloud.fit_all([gauge.map[cloud.seen]])[0] for cloud in clouds]
        rotations, translations = all_poses(problem, gauge)
        return Registration(
            problem,
            gauge,
            spectrum,
            warps,
            whole_map(problem, gauge, warps),
            rotations,
            translations,
            problem.unit_sizes,
            WarpStatistics.of_warps(problem, used, clouds, gauge.map, warps),
            family,
            self._family().smoothing,
            self.get_params(deep=False),
            solution.faithful,
            solution.certificate(),
        )

    def _map_of_fold(self, registration: Registration, stacked: StackedClouds, cost: CostOperator) -> Array:
        """The map without some landmarks, with the settings and the gamma of a fit to all of them."""
        gamma = None if registration.faithful is None else registration.faithful.gamma
        start = Start(registration.gauge.rotations, gamma=gamma, gamma_is_fixed=True)
        return self._solve(stacked, cost, start).gauge.map

    def _fit_backward(self, registration: Registration) -> BackwardWarps:
        return fit_backward(registration, self._search(registration.gauge.map, free=True))

    # -- settings and memory --

    def _search(self, positions: Array, free: bool = False) -> Search:  # (m, d)
        """The family as a function of its settings, and the values to try against a map with the given positions.

        Settings that were given as numbers are searched only if ``free``.
        """
        return Search(lambda _: self._family(), ())

    def _with_provisional_settings(self) -> Self:
        automatic = automatic_settings(self)
        family = self._family()
        values = {"bandwidth": PROVISIONAL_BANDWIDTH, "smoothing": family.smoothing, "robust": None}
        return clone(self).set_params(**{name: values[name] for name in automatic}) if automatic else self

    def _with_settings(self, settings: tuple[float, ...], loss: str | None) -> Self:
        """A copy with the settings of a search in place of automatic ones, and a robust loss."""
        names, given = SEARCHED[len(SEARCHED) - len(settings) :], self.get_params(deep=False)
        found = {name: value for name, value in zip(names, settings, strict=True) if is_automatic(given[name])}
        return clone(self).set_params(**found, robust=loss)

    def _searched_settings(self, count: int) -> tuple[float, ...]:
        """The numbers of the ``count`` settings of a search."""
        given = self.get_params(deep=False)
        return tuple(float(given[name]) for name in SEARCHED[len(SEARCHED) - count :])

    def _check_settings(self) -> None:
        named = isinstance(self.modes, str) and self.modes in ("auto", *D_MODES)
        if not named and (not isinstance(self.modes, Integral) or isinstance(self.modes, bool)):
            raise InvalidSetting(f"modes is {self.modes!r}; expected 'auto', 'paper', 'program' or a whole number")
        if not isinstance(self.scale_method, str) or self.scale_method not in SCALE_METHODS:
            raise InvalidSetting(f"scale_method is {self.scale_method!r}; expected one of {', '.join(SCALE_METHODS)}")
        if self.scale_method != "refined" and self.modes not in D_MODES:
            raise InvalidSetting(
                f"scale_method {self.scale_method!r} belongs to modes='paper' and 'program'; with modes={self.modes!r} "
                "use 'refined'"
            )
        super()._check_settings()
        self._family()

    def _family_like(self, like: Family, problem: Problem) -> Family:
        """The family with the features of another one: the smaller one if that was needed for memory."""
        family, dimension = self._family(), problem.participants.dimension
        same = family.features(dimension) == like.features(dimension)
        return family if same else self._smaller_family(family) or family

    def _family_within_memory(self, problem: Problem) -> Family:
        """The family, or a smaller one if it would need more memory than is available."""
        family = self._family()
        needed = _memory_forecast(family, problem)
        if needed.fits:
            return family
        smaller = self._smaller_family(family)
        if smaller is None:
            raise TooLarge(f"this fit would take {needed}; use fewer landmarks or clouds, or fewer features per cloud")
        instead = _memory_forecast(smaller, problem)
        count = smaller.features(problem.participants.dimension)
        if not instead.fits:
            raise TooLarge(
                f"exact warps would take {needed}; those at {count} inducing points {instead}; use fewer "
                "landmarks or clouds, or a smaller inducing"
            )
        warn(f"exact warps would take {needed}; inducing={count} is used instead, {instead}")
        return smaller


def require_landmarks(m: int, d: int) -> None:
    """An error if m landmarks in d dimensions are too few for warps that deform."""
    if m < d + 2:
        raise InvalidObservations(
            f"{m} landmarks are seen by two or more clouds; warps that deform need at least {d + 2} in {d}D; use "
            "RigidGPA, or add landmarks"
        )


def _memory_forecast(family: Family, problem: Problem) -> Forecast:
    participants = problem.participants
    n, m = len(participants.clouds), len(participants.landmarks)
    share = sum(len(cloud.seen) for cloud in participants.clouds) / (n * m)
    neighbours = family.neighbours(max(participants.clouds, key=lambda cloud: len(cloud.seen)))
    return forecast(n, m, participants.dimension, family.features(participants.dimension), share, neighbours)

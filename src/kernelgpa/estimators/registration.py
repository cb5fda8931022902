"""The typed result of a fit, whatever the family of warps, and the fitted attributes that are read from it.

n clouds, m landmarks, d dimension.  Arrays over clouds and landmarks follow the order of ``observations_``; what is
unknown is NaN.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import NotFitted, warn
from ..gauge.certificate import Certificate, certify
from ..gauge.faithful import Faithful
from ..gauge.poses import pose_onto
from ..gauge.principal_axes import Gauge
from ..gauge.rotations import RotationOptimum, Termination
from ..observations import Observations
from ..spectrum.eigenpairs import Spectrum
from ..typing import Array, IndexArray, Name
from ..warps import Family, ReducedCloud, Smoothing, Warp
from ..warps.leave_out import leave_one_out
from .problem import Problem

if TYPE_CHECKING:
    from .automatic import AutomaticChoice


@dataclass(frozen=True)
class Solution:
    """The map and poses of the participating clouds, and the eigenpairs they come from."""

    gauge: Gauge
    spectrum: Spectrum | None = None  # None: not computed
    faithful: Faithful | None = None  # None: not the faithful map
    size_factors: Array | None = None  # (n,); None: all 1
    optimum: RotationOptimum | None = None  # over the rotations; None: they do not maximise one quadratic form

    def certificate(self) -> Certificate | None:
        """Whether the rotations are the global optimum; None if they do not maximise one quadratic form."""
        return None if self.optimum is None else certify(self.optimum.operator, self.optimum.rotations)


@dataclass(frozen=True)
class WarpStatistics:
    """Weights and leave-one-out residuals of the observations."""

    weights: Array  # (n, m) of the last solve; 0 for landmarks that were not seen or not shared
    residuals: Array  # (n, m) lengths of the leave-one-out residuals, in the map
    scaled_residuals: Array  # (n, m) the same times sd(noise) / sd(expected of each): lengths that compare
    inducing_errors: Array  # (n,) what inducing points may miss of a warp, in the map; 0 if nothing

    @classmethod
    def of_motions(
        cls,
        problem: Problem,
        used: Observations,  # the clouds on the shared landmarks, with the weights of the last solve
        lengths: Array,  # (n, k) leave-one-out lengths on the shared landmarks
    ) -> WarpStatistics:
        """Of rigid motions or similarities.

        A residual from the mean of the other clouds has the variance of the noise 1 / w_tj plus that of this mean:
        the noise has the share 1 - w_tj / sum_t w_tj of it.
        """
        weights, residuals = np.zeros(problem.shape), np.full(problem.shape, np.nan)
        weights[:, problem.landmarks] = used.weights
        residuals[:, problem.landmarks] = lengths
        given = problem.observations.weights
        total = given[problem.participating].sum(axis=0)
        shares = np.sqrt(np.maximum(1 - given / np.where(total > 0, total, 1.0), 0.0))
        shares[problem.left_out] = 1.0  # their noise is not in the mean
        return cls(weights, residuals, residuals * shares, np.zeros(len(weights)))

    @classmethod
    def of_warps(
        cls,
        problem: Problem,
        used: Observations,  # the clouds on the shared landmarks, with the weights of the last solve
        clouds: Sequence[ReducedCloud],
        positions: Array,  # (k, d) of the shared landmarks in the map
        warps: Sequence[Warp],
    ) -> WarpStatistics:
        weights = np.zeros(problem.shape)
        residuals, shares = np.full(problem.shape, np.nan), np.full(problem.shape, np.nan)
        weights[:, problem.landmarks] = used.weights
        residuals[:, problem.landmarks] = residual_lengths(clouds, positions)
        for t, cloud in enumerate(clouds):
            shares[t, problem.landmarks[cloud.seen]] = _noise_share(cloud, problem.restricted.clouds[t].weights)
        return cls(weights, residuals, residuals * shares, _inducing_errors(clouds, warps))


@dataclass(frozen=True)
class Registration:
    """Everything that a fit found."""

    problem: Problem
    gauge: Gauge  # of the participating clouds and the shared landmarks
    spectrum: Spectrum
    warps: list[Warp]  # (n,)
    map: Array  # (m, d)
    rotations: Array  # (n, d, d)
    translations: Array  # (n, d)
    size_factors: Array  # (n,)
    statistics: WarpStatistics
    family: Family
    smoothing: Smoothing
    settings: Mapping[str, Any]  # parameters of the estimator, with the values that were used
    faithful: Faithful | None = None
    certificate: Certificate | None = None  # of the rotations; None: they do not maximise one quadratic form
    choice: AutomaticChoice | None = None  # of automatic settings; None: all were given
    warnings: tuple[str, ...] = ()  # that the fit issued

    @property
    def eigenvalues(self) -> Array:  # (d + 1,)
        return padded(self.spectrum.values, self.problem.observations.dimension + 1)


class FittedAttributes:
    """The fitted attributes of every registration, read from one record."""

    registration_: Registration

    @property
    def _fitted(self) -> Registration:
        try:
            return self.registration_
        except AttributeError:
            raise NotFitted(f"this {type(self).__name__} is not fitted; call fit(points) first") from None

    @property
    def observations_(self) -> Observations:
        """The checked data."""
        return self._fitted.problem.observations

    @property
    def spectrum_(self) -> Spectrum:
        """Bottom eigenpairs of the summed cost; for RigidGPA those of the affine initial estimate."""
        return self._fitted.spectrum

    @property
    def smoothing_(self) -> Smoothing:
        """The smoothing of the last fit: one number, or one per cloud."""
        return self._fitted.smoothing

    @property
    def robust_(self) -> str | None:
        """The robust loss that was used; None if none was."""
        loss: str | None = self._fitted.settings.get("robust")
        return loss

    @property
    def automatic_(self) -> AutomaticChoice | None:
        """The settings that the fit chose, and why; None if all were given."""
        return self._fitted.choice

    @property
    def warps_(self) -> list[Warp]:
        """One warp per cloud, from the cloud's frame into the map."""
        return self._fitted.warps

    @property
    def map_(self) -> Array:  # (m, d)
        """The map, one row per landmark; NaN for landmarks that no participating cloud saw."""
        return self._fitted.map

    @property
    def scales_(self) -> Array:  # (d,)
        """Root of the sum of squares of the map along its axes, largest first."""
        return self._fitted.gauge.scales

    @property
    def rotations_(self) -> Array:  # (n, d, d)
        """Rotation of each cloud's pose."""
        return self._fitted.rotations

    @property
    def translations_(self) -> Array:  # (n, d)
        """Translation of each cloud's pose."""
        return self._fitted.translations

    @property
    def size_factors_(self) -> Array:  # (n,)
        """Size factor of each cloud; 1 unless ``RigidGPA(scaling=True)``."""
        return self._fitted.size_factors

    @property
    def eigenvalues_(self) -> Array:  # (d + 1,)
        """Bottom eigenvalues, the constant one left out."""
        return self._fitted.eigenvalues

    @property
    def certificate_(self) -> Certificate | None:
        """Whether the rotations are the global optimum, and by how much they could miss it."""
        return self._fitted.certificate

    @property
    def certified_(self) -> bool | None:
        """Whether the rotations are proven to be the global optimum; None if no certificate is defined for them."""
        return None if self.certificate_ is None else self.certificate_.certified

    @property
    def mirrored_(self) -> list[Name]:
        """Names of the clouds that are mirror images of the others, left out of the map or kept in it."""
        return [self.observations_.names[t] for t in self._fitted.problem.mirrored]

    @property
    def shared_landmarks_(self) -> IndexArray:
        """Indices of the landmarks that two or more participating clouds saw."""
        return self._fitted.problem.landmarks

    @property
    def weights_(self) -> Array:  # (n, m)
        """Weights of the last solve: as given, lowered by a robust loss."""
        return self._fitted.statistics.weights

    @property
    def residuals_(self) -> Array:  # (n, m)
        """Lengths of the leave-one-out residuals, in the map."""
        return self._fitted.statistics.residuals

    @property
    def scaled_residuals_(self) -> Array:  # (n, m)
        """Residuals scaled to a common standard deviation, so that they can be compared between observations."""
        return self._fitted.statistics.scaled_residuals

    @property
    def inducing_errors_(self) -> Array:  # (n,)
        """Bound on the error of each warp that the inducing points cause, in the map; 0 without them."""
        return self._fitted.statistics.inducing_errors


def warn_if_not_converged(gauge: Gauge) -> None:
    """The iteration over rotations has a limit; a map from there is still returned."""
    if gauge.termination is Termination.LIMIT:
        warn(gauge.termination.value)


def whole_map(problem: Problem, gauge: Gauge, warps: Sequence[Warp]) -> Array:  # (m, d)
    """The map; landmarks that one cloud saw lie where that cloud's warp takes them, those of no cloud are NaN."""
    observations = problem.observations
    positions = np.full((len(observations.landmarks), observations.dimension), np.nan)
    positions[problem.landmarks] = gauge.map
    seen_once = problem.counts == 1
    for t in problem.participating if seen_once.any() else ():
        cloud = observations.clouds[t]
        once = seen_once[cloud.seen]
        positions[cloud.seen[once]] = warps[t](cloud.points[once])
    return positions


def all_poses(problem: Problem, gauge: Gauge) -> tuple[Array, Array]:  # (n, d, d), (n, d)
    """Poses of all clouds; those left out of the map are registered to it."""
    n, d = len(problem.observations.clouds), problem.observations.dimension
    rotations, translations = np.empty((n, d, d)), np.empty((n, d))
    rotations[problem.participating], translations[problem.participating] = gauge.rotations, gauge.translations
    for t in problem.left_out:
        cloud = problem.restricted.clouds[t]
        rotations[t], translations[t] = pose_onto(cloud, gauge.map[cloud.seen])
    return rotations, translations


def residual_lengths(clouds: Sequence[ReducedCloud], positions: Array) -> Array:  # (k, d) -> (n, k)
    """Lengths of the leave-one-out residuals of all observations, NaN where unseen (theory, eq. 17)."""
    lengths = np.full((len(clouds), len(positions)), np.nan)
    for t, cloud in enumerate(clouds):
        lengths[t, cloud.seen] = np.linalg.norm(leave_one_out(cloud, positions[cloud.seen]), axis=1)
    return lengths


def posed_observations(
    observations: Observations,
    gauge: Gauge,
    size_factors: Array | None = None,  # (n,); None: all 1
) -> Array:  # (n, m, d), NaN where unseen
    """Every observation after the rigid motion, or the similarity, of its cloud."""
    factors = np.ones(len(observations.clouds)) if size_factors is None else size_factors
    posed = np.full((len(observations.clouds), len(observations.landmarks), observations.dimension), np.nan)
    for t, cloud in enumerate(observations.clouds):
        posed[t, cloud.seen] = factors[t] * cloud.points @ gauge.rotations[t].T + gauge.translations[t]
    return posed


def padded(values: Array, count: int) -> Array:
    """The first ``count`` values, NaN for those that do not exist."""
    return np.concatenate([values[:count], np.full(max(0, count - len(values)), np.nan)])


def _noise_share(cloud: ReducedCloud, given: Array) -> Array:  # (s,)
    """The standard deviation of the noise as a share of that expected of each leave-one-out residual.

    The residual of landmark j has the variance 1 / Q_jj: the noise 1 / w_j plus the uncertainty of the prediction from
    the other landmarks.  ``given`` are the weights before a robust fit lowered them.
    """
    prediction = 1 / np.maximum(cloud.diagonal(), np.finfo(np.float64).tiny) - 1 / cloud.weights
    with np.errstate(over="ignore"):  # a landmark that the warp interpolates cannot be predicted from the others
        return np.asarray(1 / np.sqrt(1 + given * np.maximum(prediction, 0.0)))


def _inducing_errors(clouds: Sequence[ReducedCloud], warps: Sequence[Warp]) -> Array:  # (n,)
    """|f(u) - f_l(u)| <= e |f| for the best f_l at the inducing points, with |f| of the warp found."""
    pairs = zip(clouds, warps, strict=True)
    return np.array([c.approximation_error * np.sqrt(w.energy) if c.approximation_error else 0.0 for c, w in pairs])

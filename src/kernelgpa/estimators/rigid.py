"""RigidGPA: rotations and translations, and one size factor per cloud if asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, NamedTuple

import numpy as np
from joblib import Parallel, delayed

from .._numerics.threads import worker_count
from ..errors import InvalidSetting
from ..gauge.certificate import Certificate, certify
from ..gauge.rigid import RigidSystem, rigid_registration, similarity_registration
from ..observations import Observations
from ..observations.collection import reweighted
from ..typing import Array, IndexArray
from ..warps import AffineFamily, Warp
from ..warps.affine import affine_warp
from .automatic import HEAVY_TAIL, LEAST_GAIN, LOSS, TAIL_QUANTILE, AutomaticChoice
from .base import GPA, PreparedClouds, SolvedProblem
from .prediction.backward import BackwardWarps, rigid_backward
from .prediction.left_out import Prediction
from .prediction.motion_residuals import motion_residual_lengths
from .problem import Problem
from .registration import (
    Registration,
    Solution,
    WarpStatistics,
    all_poses,
    warn_if_not_converged,
    whole_map,
)
from .robust import Reweighting
from .settings import is_automatic

EXACT_SHARE = 1e-9  # of the map's size: smaller residuals are rounding errors


class RigidGPA(GPA):
    """Rigid or similarity registration of all clouds: generalised Procrustes analysis with missing landmarks.

    Parameters
    ----------
    scaling : bool, default=False
        Whether each cloud has a size factor of its own.  Sizes are relative: the total size of all clouds is kept.
    robust : {"huber", "tukey", "geman-mcclure", "auto"} or None, default=None
        Loss by which observations far from the others are down-weighted.  "auto": one is used if the residuals have
        heavy tails and most of them are smaller with it.
    mirrored : {"leave-out", "keep", "error"}, default="leave-out"
        What happens to mirror images, as in :class:`KernelGPA`.

    Attributes
    ----------
    map_ : array (m, d)
        The mean shape, centred, in its principal axes; NaN for landmarks that no participating cloud saw.
    rotations_, translations_, size_factors_ : arrays (n, d, d), (n, d), (n,)
        Poses: ``size_factors_[t] * rotations_[t] @ p + translations_[t]`` lies near the map.
    scales_ : array (d,)
        Root of the sum of squares of the map along its axes, largest first.
    eigenvalues_, spectrum_ : array (d + 1,), Spectrum
        Bottom eigenvalues of the affine registration that gives the initial rotations (theory, eq. 10), and these with
        their eigenvectors.
    warps_ : list of Warp
        The poses as functions of points.
    observations_ : Observations
        The checked data.
    shared_landmarks_ : array of int
        Landmarks that two or more participating clouds saw; the map is solved from these.
    weights_ : array (n, m)
        Weights of the last solve: as given, lowered by a robust loss.
    mirrored_ : list
        Names of the clouds that are mirror images of the others, whether they were left out of the map or kept.
    residuals_ : array (n, m)
        Distance of each observation, after its motion, from the mean of the other clouds; NaN where unseen.
    scaled_residuals_ : array (n, m)
        The same, times the standard deviation of the noise over that expected of each residual: lengths that compare.
    sensor_residuals_ : array (n, m)
        The residuals in the frame and the unit of each cloud.
    robust_, automatic_ : str or None, AutomaticChoice or None
        The loss that was used, and why if it was "auto".
    certified_ : bool or None
        Whether the rotations are proven to be the global optimum of their cost (theory, eqs. 16b and 16c).  None with
        ``scaling=True``, where rotations and sizes are optimised in turn.
    certificate_ : Certificate or None
        The same with ``gap``, a bound on how much larger the explained sum of squares could be, as a share of it.
    smoothing_, inducing_errors_ : float, array (n,)
        0: rigid motions have no such settings.
    registration_ : Registration
        The record from which all of these are read.

    Notes
    -----
    The initial rotations are those of the affine registration, whose eigenvalue problem has a global solution; the
    cost (theory, eq. 15) is then minimised over the rotations until convergence.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelgpa import RigidGPA
    >>> shape = np.random.default_rng(0).standard_normal((10, 3))
    >>> turn = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    >>> gpa = RigidGPA().fit([shape, shape @ turn.T + 5.0])
    >>> bool(np.allclose(gpa.transform(shape, cloud=0), gpa.map_))
    True
    """

    _deforms: ClassVar[bool] = False
    modes = "rigid"
    n_jobs = None

    def __init__(self, scaling: bool = False, robust: str | None = None, mirrored: str = "leave-out") -> None:
        self.scaling = scaling
        self.robust = robust
        self.mirrored = mirrored

    @property
    def _sizes_differ(self) -> bool:  # type: ignore[override]
        return bool(self.scaling)

    def _fit_problem(self, problem: Problem, prepared: PreparedClouds | None = None) -> SolvedProblem[RigidFolds]:
        choice = None
        if is_automatic(self.robust):
            solve, loss, choice = self._choose_loss(problem)
        else:
            loss = self.robust
            solve = self._solve_robustly(problem, loss)
        gauge = solve.solution.gauge
        warn_if_not_converged(gauge)
        rotations, translations = all_poses(problem, gauge)
        registration = Registration(
            problem,
            gauge,
            problem.initial.spectrum,
            solve.motions,
            whole_map(problem, gauge, solve.motions),
            rotations,
            translations,
            _size_factors(problem, solve.solution),
            WarpStatistics.of_motions(problem, solve.observations, solve.lengths),
            self._family(),
            smoothing=0.0,
            settings={**self.get_params(deep=False), "robust": loss},
            choice=choice,
        )
        participants = solve.observations.at(problem.participating)
        return SolvedProblem(registration, RigidFolds(self, participants, gauge.rotations))

    def _choose_loss(self, problem: Problem) -> tuple[MotionSolve, str | None, AutomaticChoice]:
        """A plain solve, or a robust one if the residuals have heavy tails and it makes most of them smaller."""
        plain = self._solve_robustly(problem, None)
        known = plain.lengths[np.isfinite(plain.lengths)]
        median = float(np.median(known))
        exact = median <= EXACT_SHARE * float(plain.solution.gauge.scales[0])
        tail = np.nan if exact else float(np.quantile(known, TAIL_QUANTILE)) / median
        solve, loss, gain = plain, None, np.nan
        if tail > HEAVY_TAIL:
            robust = self._solve_robustly(problem, LOSS)
            gain = 1 - robust.typical_length / plain.typical_length
            if gain > LEAST_GAIN:
                solve, loss = robust, LOSS
        error = float(np.nanmean(solve.lengths))
        return solve, loss, AutomaticChoice({"robust": loss}, error, tail, gain)

    def _solve_robustly(self, problem: Problem, loss: str | None) -> MotionSolve:
        """Solve, and with a loss solve again with renewed weights until they settle."""
        weighting = Reweighting(loss, problem, within_clouds=True)
        while True:
            observations, rotations = weighting.current.observations, weighting.current.start.rotations
            solution = self._solve(observations.at(problem.participating), rotations)
            motions = _motions(
                problem.observations, _size_factors(problem, solution), *all_poses(problem, solution.gauge)
            )
            lengths_against = partial(motion_residual_lengths, problem, motions, self.scaling)
            if not weighting.update(lengths_against, solution):
                return MotionSolve(observations, solution, motions, lengths_against(solution.gauge.map))

    @property
    def certificate_(self) -> Certificate | None:
        """As for every registration; computed when first read, because for hundreds of clouds it takes long."""
        found = self._fitted
        if found.certificate is None and not self.scaling:
            problem = found.problem
            used = reweighted(problem.restricted, found.statistics.weights[:, problem.landmarks])
            operator = RigidSystem(used.at(problem.participating).stacked).operator
            self._store(replace(found, certificate=certify(operator, found.gauge.rotations)))
        return self._fitted.certificate

    def _solve(self, participants: Observations, rotations: Array) -> Solution:
        """The rigid map of connected clouds of the same handedness, from initial rotations (n, d, d)."""
        if not self.scaling:
            return Solution(rigid_registration(participants, rotations).gauge)
        gauge, factors = similarity_registration(participants, rotations)
        return Solution(gauge, size_factors=factors)

    def _fit_backward(self, registration: Registration) -> BackwardWarps:
        """The inverse motions."""
        return rigid_backward(registration)

    def _family(self) -> AffineFamily:
        """The family that rigid motions and similarities belong to."""
        return AffineFamily()

    def _check_settings(self) -> None:
        if not isinstance(self.scaling, (bool, np.bool_)):
            raise InvalidSetting(f"scaling is {self.scaling!r}; expected True or False")
        super()._check_settings()


class MotionSolve(NamedTuple):
    """One solve: the observations with their weights, the map, the motions of all clouds, their residuals."""

    observations: Observations  # all clouds on the shared landmarks
    solution: Solution
    motions: list[Warp]  # (n,)
    lengths: Array  # (n, k) leave-one-out, on the shared landmarks

    @property
    def typical_length(self) -> float:
        """Eq. 22a."""
        return float(np.nanmean(np.sqrt(self.lengths)))


def _size_factors(problem: Problem, solution: Solution) -> Array:  # (n,)
    factors = problem.unit_sizes
    if solution.size_factors is not None:
        factors[problem.participating] = solution.size_factors
    return factors


@dataclass(frozen=True)
class RigidFolds:
    """A rigid registration, repeated without each fold of landmarks."""

    estimator: RigidGPA
    participants: Observations
    rotations: Array  # (n, d, d), initial

    def predict(self, folds: Sequence[IndexArray], n_jobs: int | None) -> list[Prediction]:
        tasks = (delayed(self._without)(fold) for fold in folds)
        return list(Parallel(n_jobs=worker_count(n_jobs, len(folds)), prefer="threads")(tasks))

    def _without(self, fold: IndexArray) -> Prediction:
        participants = self.participants
        kept = np.delete(np.arange(len(participants.landmarks)), fold)
        rest = participants.select(kept)
        solution = self.estimator._solve(rest, self.rotations)
        gauge, factors = solution.gauge, solution.size_factors
        sizes = np.ones(len(participants.clouds)) if factors is None else factors
        whole = np.full((len(participants.landmarks), participants.dimension), np.nan)
        whole[kept] = gauge.map
        prediction = Prediction.unknown(whole, len(participants.clouds), len(fold))
        for t, warp in enumerate(_motions(rest, sizes, gauge.rotations, gauge.translations)):
            cloud = participants.clouds[t]
            _, rows, columns = np.intersect1d(cloud.seen, fold, assume_unique=True, return_indices=True)
            prediction.points[t, columns] = warp(cloud.points[rows])
            prediction.jacobians[t, columns] = warp.sensor_jacobian(cloud.points[rows])
        return prediction


def _motions(observations: Observations, factors: Array, rotations: Array, translations: Array) -> list[Warp]:
    motions = zip(observations.clouds, factors, rotations, translations, strict=True)
    return [affine_warp(cloud, s * R, t) for cloud, s, R, t in motions]

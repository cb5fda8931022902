"""RigidGPA, AffineGPA, TPSGPA, KernelGPA: what users construct."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from numbers import Integral, Real
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from .._numerics.threads import worker_count
from ..errors import InvalidSetting
from ..gauge.baselines import factorisation
from ..gauge.rigid import rigid_registration, similarity_registration
from ..gauge.scales import fix_gauge
from ..observations.collection import Observations
from ..observations.stacked import StackedClouds
from ..spectrum.operators import CostOperator, DenseCost
from ..typing import Array, IndexArray
from ..warps import AffineFamily, Family, KernelFamily, ThinPlateFamily, Warp
from ..warps.affine import affine_warp
from ..warps.kernels import Kernel, as_kernel
from .base import GPA, Prediction, Prepared, Solution, Work, all_poses, results
from .deformable import FEW_CENTRES, DeformableGPA, WarmStart
from .screening import Problem

LEAST_BANDWIDTH, MOST_BANDWIDTH = 1e-12, 1e100
MOST_CONTROL_POINTS = 25  # an axis: 15,625 in space


class RigidGPA(GPA):
    """Rotations and translations, and one size a cloud if ``scaling``.

    The start is the affine registration, whose spectrum is global; the cost is then iterated to
    convergence.  With ``scaling`` the poses read  size_factors_[t] * rotations_[t] p + translations_[t].
    """

    size_factors_: Array  # (n,)
    bends = False

    def __init__(self, scaling: bool = False) -> None:
        self.scaling = scaling

    @property
    def sizes_differ(self) -> bool:  # type: ignore[override]
        return bool(self.scaling)

    def prepare(self, problem: Problem) -> Prepared:
        return Prepared(None, [])

    def fit_problem(self, problem: Problem, prepared: Prepared) -> Work:
        solution = self.solve(problem.core, problem.initial.gauge.rotations)
        factors = np.ones(len(problem.observations.clouds))
        if solution.factors is not None:
            factors[problem.part] = solution.factors
        warps = _motions(problem.observations, factors, *all_poses(problem, solution.gauge))
        self._keep({**results(problem, solution, warps), "size_factors_": factors})
        return Work(problem.core, [], DenseCost(np.zeros((0, 0))))

    def predict_left_out(self, work: Work, folds: Sequence[IndexArray], n_jobs: int | None) -> list[Prediction]:
        core = work.core
        tasks = (delayed(self._without)(core, fold) for fold in folds)
        return list(Parallel(n_jobs=worker_count(n_jobs, len(folds)), prefer="threads")(tasks))

    def _without(self, core: Observations, left_out: IndexArray) -> Prediction:
        kept = core.select(np.delete(np.arange(len(core.landmarks)), left_out))
        solution = self.solve(kept, self.gauge_.rotations)
        gauge, factors = solution.gauge, solution.factors
        sizes = np.ones(len(core.clouds)) if factors is None else factors
        whole = np.full((len(core.landmarks), core.dimension), np.nan)
        whole[np.delete(np.arange(len(whole)), left_out)] = gauge.map
        prediction = Prediction.empty(whole, len(core.clouds), len(left_out))
        for t, warp in enumerate(_motions(kept, sizes, gauge.rotations, gauge.translations)):
            cloud = core.clouds[t]
            _, rows, columns = np.intersect1d(cloud.seen, left_out, assume_unique=True, return_indices=True)
            prediction.points[t, columns] = warp(cloud.points[rows])
            prediction.jacobians[t, columns] = warp.sensor_jacobian(cloud.points[rows])
        return prediction

    def check_settings(self) -> None:
        if not isinstance(self.scaling, (bool, np.bool_)):
            raise InvalidSetting(f"scaling is {self.scaling!r}; expected True or False")

    def solve(self, core: Observations, start: Array) -> Solution:
        """The rigid map of clouds that are known to be sound and tied."""
        if not self.scaling:
            return Solution(rigid_registration(core, start))
        gauge, factors = similarity_registration(core, start)
        return Solution(gauge, factors=factors)


def _motions(observations: Observations, factors: Array, rotations: Array, translations: Array) -> list[Warp]:
    motions = zip(observations.clouds, factors, rotations, translations, strict=True)
    return [affine_warp(cloud, s * R, t) for cloud, s, R, t in motions]


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
        core: StackedClouds,
        cost: CostOperator,
        start: Array,
        gamma: float | None = None,
        warm: WarmStart | None = None,
    ) -> Solution:
        if self.method == "spectral":
            return super().solve(core, cost, start, gamma, warm)
        spectrum = factorisation(core, cost)
        # "auto" mixes the d vectors freely, as the classical method does
        modes, begin = (None, None) if self.modes == "paper" else (core.rank, start)
        gauge = fix_gauge(spectrum, core, modes=modes, scale_method=self.scale_method, start=begin)
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
        if count > MOST_CONTROL_POINTS:
            raise InvalidSetting(f"control_points is {count} an axis; more than {MOST_CONTROL_POINTS} is out of reach")
        return ThinPlateFamily(count, _positive("smoothing", self.smoothing))


class KernelGPA(DeformableGPA):
    """Kernel warps (KernelGPA, 2023): the most flexible, and the default.

    kernel : "gaussian", "laplacian", "matern32", "matern52", "wendland", a kernel object, or any
        positive definite function of distance / sigma.
    bandwidth : sigma of a cloud as a multiple of the mean distance between its points; unit-free.
    smoothing : mu, the price of leaving the affine map; large values give the affine solution.
    modes : "auto", the faithful map; "paper", the published one; or how many eigenvectors to use.
    inducing : kernels at so many farthest points of each cloud instead of at all; None: at all while memory lasts.
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
            _bandwidth(self.bandwidth),
            _positive("smoothing", self.smoothing),
            None if self.inducing is None else _whole("inducing", self.inducing, least=1),
        )

    def smaller(self, family: Family) -> Family | None:
        if isinstance(family, KernelFamily) and family.inducing is None:
            return replace(family, inducing=FEW_CENTRES)
        return None


def _bandwidth(value: Any) -> float:
    bandwidth = _positive("bandwidth", value)
    if bandwidth < LEAST_BANDWIDTH:
        raise InvalidSetting(f"bandwidth is {value!r}; below {LEAST_BANDWIDTH:g} of a cloud no kernel reaches anything")
    if bandwidth > MOST_BANDWIDTH:
        raise InvalidSetting(f"bandwidth is {value!r}; above {MOST_BANDWIDTH:g} its square leaves double precision")
    return bandwidth


def _positive(name: str, value: Any) -> float:
    try:
        number = float(value) if isinstance(value, Real) and not isinstance(value, bool) else np.nan
    except OverflowError:  # a whole number beyond double precision
        number = np.inf
    if not 0 < number < np.inf:
        raise InvalidSetting(f"{name} is {value!r}; expected a positive number")
    return number


def _whole(name: str, value: Any, least: int) -> int:
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise InvalidSetting(f"{name} is {value!r}; expected a whole number of at least {least}")
    return int(value)

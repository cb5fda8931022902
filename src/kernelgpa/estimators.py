"""RigidGPA, AffineGPA, TPSGPA, KernelGPA: ``fit`` reads like the paper's algorithm."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from joblib import Parallel, delayed
from sklearn.base import BaseEstimator

from .errors import InvalidObservations, InvalidSetting, KernelGPAWarning, NotFitted
from .faithful import faithful_registration
from .forms import Form, accumulate
from .frames import Array
from .gauge import SCALE_METHODS, Gauge, fix_gauge
from .kernels import Kernel, as_kernel
from .observations import Name, as_observations
from .rigid import pose_onto, rigid_registration, similarity_registration
from .scene import Scene, open_scene
from .spectral import Spectrum, Uniqueness, factorisation, smallest
from .warps import AffineFamily, Family, KernelFamily, ReducedCloud, ThinPlateFamily, Warp
from .warps.affine import affine_warp


class _GPA(BaseEstimator):
    """What every registration delivers, and how its warps are used."""

    def transform(self, points: npt.ArrayLike, cloud: Name) -> Array:  # (k, d) -> (k, d)
        """Points of one cloud (index or name), landmarks or not, taken into the map."""
        return self._warp_of(cloud)(points)

    def transform_clouds(self, points: npt.ArrayLike) -> Array:  # (n, k, d) -> (n, k, d)
        """The same k points as each cloud has them, all taken into the map; NaN stays NaN."""
        self._require_fitted()
        array = np.asarray(points)
        if array.ndim != 3 or len(array) != len(self.warps_):
            raise InvalidObservations(
                f"points have shape {array.shape}; expected ({len(self.warps_)}, points, dimension)"
            )
        return np.stack([warp(one) for warp, one in zip(self.warps_, array, strict=True)])

    def _deliver_poses(self, scene: Scene, gauge: Gauge) -> None:
        observations = scene.observations
        n, d = len(observations.clouds), observations.dimension
        self.observations_, self.gauge_ = observations, gauge
        self.scales_ = gauge.scales
        self.rotations_, self.translations_ = np.empty((n, d, d)), np.empty((n, d))
        self.rotations_[scene.part], self.translations_[scene.part] = gauge.rotations, gauge.translations
        for t in scene.mirrored:
            cloud = scene.restricted.clouds[t]
            self.rotations_[t], self.translations_[t] = pose_onto(cloud, gauge.map[cloud.seen])
        self.mirrored_ = [observations.names[t] for t in scene.mirrored]

    def _deliver_map(self, scene: Scene, warps: list[Warp]) -> None:
        observations = scene.observations
        self.warps_ = warps
        self.map_ = np.full((len(observations.landmarks), observations.dimension), np.nan)
        self.map_[scene.landmarks] = self.gauge_.map
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


class RigidGPA(_GPA):
    """Rotations and translations, and one size a cloud if ``scaling``.

    The start is the affine registration, whose spectrum is global; the cost is then iterated to
    convergence.  With ``scaling`` the poses read  factors_[t] * rotations_[t] p + translations_[t].
    """

    def __init__(self, scaling: bool = False) -> None:
        self.scaling = scaling

    def fit(self, points: Any, weights: Any = None) -> Self:
        """Register the clouds rigidly: (n, m, d) with NaN, a list of (points, ids), or Observations."""
        scene = open_scene(as_observations(points, weights))
        start = scene.start.gauge.rotations
        self.factors_ = np.ones(len(scene.observations.clouds))
        if self.scaling:
            gauge, self.factors_[scene.part] = similarity_registration(scene.core, start)
        else:
            gauge = rigid_registration(scene.core, start)
        self._deliver_poses(scene, gauge)
        self.eigenvalues_ = _padded(scene.start.spectrum.values, scene.observations.dimension + 1)
        motions = zip(scene.observations.clouds, self.factors_, self.rotations_, self.translations_, strict=True)
        self._deliver_map(scene, [affine_warp(cloud, s * R, t) for cloud, s, R, t in motions])
        return self


class _DeformableGPA(_GPA):
    """Closed form up to the scales: reduce every cloud, take the bottom of the spectrum, fix the gauge."""

    modes: str | int
    scale_method: str
    n_jobs: int | None

    def fit(self, points: Any, weights: Any = None) -> Self:
        """Register the clouds: (n, m, d) with NaN, a list of (points, ids), or Observations.

        weights : one number a landmark (m,) or an observation (n, m); 0 means not seen.
        """
        family = self._family()
        self._check_gauge_settings()
        scene = open_scene(as_observations(points, weights))
        reduced = self._reduce(family, scene)
        form = accumulate([reduced[t] for t in scene.part], len(scene.landmarks))
        self.spectrum_ = self._spectrum(scene, form)
        gauge = self._gauge(scene, form)
        self._deliver_poses(scene, gauge)
        self._deliver_map(scene, [cloud.fit(gauge.map[cloud.seen]) for cloud in reduced])
        self.eigenvalues_ = _padded(self.spectrum_.values, scene.observations.dimension + 1)
        return self

    def _gauge(self, scene: Scene, form: Form) -> Gauge:
        """The map and the poses from the spectrum, or from the form where the map is the faithful one."""
        start = scene.start.gauge.rotations
        if self.modes == "auto":
            self.faithful_ = faithful_registration(scene.core, form, start)
            return self.faithful_.gauge
        modes = None if self.modes == "paper" else int(self.modes)
        return fix_gauge(
            self.spectrum_,
            scene.core.clouds,
            rank=scene.rank,
            modes=modes,
            scale_method=self.scale_method,
            start=None if modes is None else start,
        )

    def _family(self) -> Family:
        """The warps, with their settings checked."""
        raise NotImplementedError

    def _reduce(self, family: Family, scene: Scene) -> list[ReducedCloud]:
        # threads: the work is in BLAS and LAPACK, which let go of the interpreter
        jobs = (delayed(family.reduce)(cloud) for cloud in scene.restricted.clouds)
        return list(Parallel(n_jobs=self.n_jobs, prefer="threads")(jobs))

    def _spectrum(self, scene: Scene, form: Form) -> Spectrum:
        m, d = len(scene.landmarks), scene.observations.dimension
        if m < d + 2:
            raise InvalidObservations(
                f"{m} landmarks are seen by two or more clouds; warps that deform need at least {d + 2} in "
                f"{d}D (RigidGPA does with fewer)"
            )
        if not isinstance(self.modes, str) and not scene.rank <= self.modes <= m - 2:
            raise InvalidSetting(f"modes is {self.modes}; with these data it lies between {scene.rank} and {m - 2}")
        modes = d if isinstance(self.modes, str) else max(d, int(self.modes))
        spectrum = smallest(form, scene.rank, modes)
        if self.modes == "paper" and spectrum.uniqueness is Uniqueness.NO_GAP:
            warnings.warn(spectrum.uniqueness.value, KernelGPAWarning, stacklevel=3)
        return spectrum

    def _check_gauge_settings(self) -> None:
        if self.modes not in ("auto", "paper") and not isinstance(self.modes, Integral):
            raise InvalidSetting(f"modes is {self.modes!r}; expected 'auto', 'paper' or a whole number")
        if self.scale_method not in SCALE_METHODS:
            raise InvalidSetting(f"scale_method is {self.scale_method!r}; expected one of {', '.join(SCALE_METHODS)}")
        if self.scale_method != "refined" and self.modes != "paper":
            raise InvalidSetting(
                f"scale_method {self.scale_method!r} belongs to modes='paper'; with modes={self.modes!r} use 'refined'"
            )


class AffineGPA(_DeformableGPA):
    """Affine warps.  ``method="svd"`` is the classical factorisation (Tomasi-Kanade), for full visibility."""

    def __init__(
        self,
        method: str = "spectral",
        modes: str | int = "auto",
        scale_method: str = "refined",
        n_jobs: int | None = None,
    ) -> None:
        self.method = method
        self.modes = modes
        self.scale_method = scale_method
        self.n_jobs = n_jobs

    def _family(self) -> Family:
        if self.method not in ("spectral", "svd"):
            raise InvalidSetting(f"method is {self.method!r}; expected 'spectral' or 'svd'")
        if self.method == "svd" and self.modes not in ("auto", "paper"):
            raise InvalidSetting(f"modes is {self.modes!r}; method='svd' has its own, use 'auto' or 'paper'")
        return AffineFamily()

    def _spectrum(self, scene: Scene, form: Form) -> Spectrum:
        spectrum = super()._spectrum(scene, form)
        return spectrum if self.method == "spectral" else factorisation(scene.core, form, scene.rank)

    def _gauge(self, scene: Scene, form: Form) -> Gauge:
        if self.method == "svd" and self.modes == "auto":  # as many vectors as dimensions, mixed freely
            start = scene.start.gauge.rotations
            return fix_gauge(self.spectrum_, scene.core.clouds, scene.rank, modes=scene.rank, start=start)
        return super()._gauge(scene, form)


class TPSGPA(_DeformableGPA):
    """Thin-plate warps on a grid of ``control_points``^d points (DefGPA, 2022).

    ``smoothing`` weighs the bending energy and carries a unit: length^(4 - d) of the data.
    """

    def __init__(
        self,
        control_points: int = 5,
        smoothing: float = 0.01,
        modes: str | int = "auto",
        scale_method: str = "refined",
        n_jobs: int | None = None,
    ) -> None:
        self.control_points = control_points
        self.smoothing = smoothing
        self.modes = modes
        self.scale_method = scale_method
        self.n_jobs = n_jobs

    def _family(self) -> Family:
        count = _whole("control_points", self.control_points, least=2)
        return ThinPlateFamily(count, _positive("smoothing", self.smoothing))


class KernelGPA(_DeformableGPA):
    """Kernel warps (KernelGPA, 2023): the most flexible, and the default.

    kernel : "gaussian", "laplacian", "matern32", "matern52", "wendland", a kernel object, or any
        positive definite function of distance / sigma.
    bandwidth : sigma of a cloud as a multiple of the mean distance between its points; unit-free.
    smoothing : mu, the price of leaving the affine map; large values give the affine solution.
    modes : "auto", the faithful map; "paper", the published one; or how many eigenvectors to use.
    inducing : kernels at so many farthest points of each cloud instead of at all.
    """

    def __init__(
        self,
        kernel: str | Kernel | Callable[[Array], Array] = "gaussian",
        bandwidth: float = 0.25,
        smoothing: float = 0.1,
        modes: str | int = "auto",
        scale_method: str = "refined",
        inducing: int | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.smoothing = smoothing
        self.modes = modes
        self.scale_method = scale_method
        self.inducing = inducing
        self.n_jobs = n_jobs

    def _family(self) -> Family:
        return KernelFamily(
            as_kernel(self.kernel),
            _positive("bandwidth", self.bandwidth),
            _positive("smoothing", self.smoothing),
            None if self.inducing is None else _whole("inducing", self.inducing, least=1),
        )


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

"""What every registration offers: ``fit``, the fitted attributes, and the use of the warps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, Self, TypeVar

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.utils.metadata_routing import UNUSED

from .._numerics.threads import limit_threads, one_blas_thread, require_jobs
from ..errors import InvalidObservations, InvalidSetting, collected_warnings, warn
from ..observations import as_observations
from ..observations.arrays import masked_as_nan
from ..typing import Array, Name
from ..warps import Family, PreparedCloud, Warp
from ..warps.inverse import inverse
from .prediction.backward import BackwardWarps
from .prediction.left_out import FoldSolver
from .problem import Problem
from .problem.screening import screen
from .registration import FittedAttributes, Registration
from .robust import require_loss
from .settings import is_automatic, require_mirrored

if TYPE_CHECKING:
    from ..trust.diagnosis import Finding, SuspiciousObservation


@dataclass(frozen=True)
class PreparedClouds:
    """What the clouds compute once for all values of ``smoothing`` and all weights."""

    family: Family
    clouds: Sequence[PreparedCloud]  # (n,)


Folds = TypeVar("Folds", bound=FoldSolver, covariant=True)


class SolvedProblem(NamedTuple, Generic[Folds]):
    """A registration, and what solves the same problem again without some landmarks."""

    registration: Registration
    fold_solver: Folds


class GPA(FittedAttributes, BaseEstimator, ABC):
    """What every registration offers: ``fit``, the fitted attributes, and the use of the warps."""

    _deforms: ClassVar[bool] = True  # False: the warps are rigid motions or similarities
    _sizes_differ = False  # whether clouds of any size are expected
    modes: str | int
    robust: str | None
    mirrored: str
    n_jobs: int | None
    _known_backward: tuple[Registration, BackwardWarps] | None = None

    # scikit-learn routes no metadata to these methods, so that they need no set_..._request
    __metadata_request__fit: ClassVar = {"points": UNUSED, "weights": UNUSED}
    __metadata_request__transform: ClassVar = {"points": UNUSED, "cloud": UNUSED}
    __metadata_request__inverse_transform: ClassVar = {"points": UNUSED, "cloud": UNUSED}
    __metadata_request__predict: ClassVar = {"points": UNUSED, "cloud": UNUSED, "return_cov": UNUSED}

    def fit(self, points: Any, weights: Any = None) -> Self:
        """Register the clouds.

        Parameters
        ----------
        points : array (n, m, d) with NaN for unseen landmarks, list of (points, ids) pairs, or Observations
            Also a pandas DataFrame or an xarray DataArray, as :meth:`Observations.from_frame` takes them.
        weights : array (m,) or (n, m), optional
            One weight per landmark or per observation; 0 means not seen.  An observation of known standard deviation s
            has the weight 1 / s^2, up to a common factor that ``smoothing`` is relative to.

        Returns
        -------
        self
        """
        self._check_settings()
        with one_blas_thread(), limit_threads(self.n_jobs), collected_warnings() as messages:
            # who takes part; initial estimate
            problem = screen(as_observations(points, weights), self._sizes_differ, self.mirrored)
            registration = self._fit_problem(problem).registration
        self._store(replace(registration, warnings=tuple(messages)))
        return self

    @abstractmethod
    def _fit_problem(self, problem: Problem, prepared: PreparedClouds | None = None) -> SolvedProblem[FoldSolver]:
        """Register the clouds of a screened problem; nothing is stored."""

    def _check_settings(self) -> None:
        """Raise an error unless every setting has a value that the method is defined for."""
        if self.robust is not None and not is_automatic(self.robust):
            require_loss(self.robust)
        require_mirrored(self.mirrored)
        require_jobs(self.n_jobs)

    @property
    def _solves_from_sum(self) -> bool:
        """Whether the map follows from the summed cost, which clouds can enter and leave one at a time."""
        return False

    @abstractmethod
    def _family(self) -> Family:
        """The family of warps, with its settings checked."""

    def _with_provisional_settings(self) -> Self:
        """The estimator itself, or a copy with provisional numbers for settings that only data can determine."""
        return self

    def _smaller_family(self, family: Family) -> Family | None:
        """The same family with fewer features per cloud, for memory; None if there is none."""
        return None

    def _prepare(self, problem: Problem) -> PreparedClouds | None:
        """What the clouds compute once for all values of ``smoothing`` and all weights; None if nothing."""
        return None

    def transform(self, points: npt.ArrayLike, cloud: Name) -> Array:  # (k, d) -> (k, d)
        """Take points of one cloud into the map, by the warp of that cloud.

        Parameters
        ----------
        points : array (k, d)
            Points in the frame of the cloud, landmarks or not; NaN stays NaN.
        cloud : hashable
            The index or the name of the cloud.

        Returns
        -------
        array (k, d)
            The points in the map.
        """
        return self._warp_of(cloud)(points)

    def inverse_transform(self, points: npt.ArrayLike, cloud: Name) -> Array:  # (k, d) -> (k, d)
        """Take points of the map back into one cloud, by the inverse of its warp.

        Parameters
        ----------
        points : array (k, d)
            Points of the map, landmarks or not.
        cloud : hashable
            The index or the name of the cloud.

        Returns
        -------
        array (k, d)
            The points in the frame of the cloud.  NaN, with a warning, if there is no unique answer within three
            median distances between neighbours from the landmarks of the cloud; :meth:`predict` has an answer there.
        """
        t = self.observations_.cloud_index(cloud)
        warp = self.warps_[t]
        targets = warp.checked(points)
        found = inverse(warp, targets, self.observations_.clouds[t].points)
        unanswered = int(np.sum(np.isnan(found).any(axis=1) & np.isfinite(targets).all(axis=1)))
        if unanswered:
            warn(
                f"cloud {cloud!r}: {unanswered} of {len(found)} points cannot be taken back and are NaN, because they "
                "are far from the landmarks or the warp folds; use predict, which has an answer everywhere"
            )
        return found

    def predict(
        self, points: npt.ArrayLike, cloud: Name, return_cov: bool = False
    ) -> Array | tuple[Array, Array]:  # (k, d) -> (k, d) and (k, d, d)
        """Where points of the map lie in one cloud, by the warp fitted from the map into that cloud.

        Parameters
        ----------
        points : array (k, d)
            Points of the map, landmarks or not.
        cloud : hashable
            The index or the name of the cloud.
        return_cov : bool, default=False
            Also return the calibrated covariance of each prediction, noise included.

        Returns
        -------
        predictions : array (k, d)
            In the frame and the unit of the cloud; NaN only where ``points`` is.
        covariances : array (k, d, d)
            Only with ``return_cov=True``.

        Notes
        -----
        Theory, eqs. 20 to 22.  Unlike :meth:`inverse_transform`, the inverse of the warp into the map, it has an answer
        everywhere, also where that warp folds and across a sheet.
        """
        t = self.observations_.cloud_index(cloud)
        backward = self._backward()
        one = backward.warps[t].warp
        targets = one.checked(points)
        predicted = one(targets)
        return (predicted, backward.covariances(targets, t)) if return_cov else predicted

    def impute(self, return_cov: bool = False) -> Array | tuple[Array, Array]:  # (n, m, d) and (n, m, d, d)
        """All landmarks in the frame of each cloud: seen ones as they were seen, unseen ones by :meth:`predict`.

        An observation of weight 0 counts as not seen.  Landmarks that no participating cloud saw stay NaN.  With
        ``return_cov=True`` also the covariance of each predicted landmark; it is 0 for seen ones.
        """
        observations, backward = self.observations_, self._backward()
        complete = observations.points.copy()
        covariances = np.zeros((*complete.shape, complete.shape[2]))
        for t in range(len(complete)):
            unseen = np.isnan(complete[t, :, 0])
            complete[t, unseen] = backward.warps[t].warp(self.map_[unseen])
            if return_cov:
                covariances[t, unseen] = backward.covariances(self.map_[unseen], t)
        return (complete, covariances) if return_cov else complete

    @property
    def sensor_residuals_(self) -> Array:  # (n, m)
        """Lengths of the leave-one-out residuals of the warps from the map, each in the frame of its cloud.

        As :func:`metrics.sensor_error` takes them; NaN for landmarks that a cloud did not see or no other one saw.
        """
        return self._backward().residuals

    def transform_clouds(self, points: npt.ArrayLike) -> Array:  # (n, k, d) -> (n, k, d)
        """Take the same k points, as each cloud has them, into the map; NaN stays NaN."""
        return np.stack([warp(one) for warp, one in self._with_warps(points)])

    def jacobians(self, points: npt.ArrayLike) -> Array:  # (n, k, d) -> (n, k, d, d)
        """The Jacobian of each cloud's warp at its own points, as :func:`metrics.sensor_error` takes them.

        A cloud that is a sheet does not determine how space stretches across it: there the Jacobians continue like a
        rotation.
        """
        return np.stack([warp.sensor_jacobian(one) for warp, one in self._with_warps(points)])

    def diagnose(self, points: npt.ArrayLike | None = None, cloud: Name | None = None) -> list[Finding]:
        """What may be wrong with the registration, most severe first; an empty list if every check ran and passed.

        With ``points`` (k, d) of a ``cloud``, also whether they lie too far from its landmarks to be warped.  A finding
        has a ``kind``, a ``severity`` from 0 to 1 (the share of the leave-one-out error that correcting it is expected
        to remove), what was ``found``, and an ``action`` to take.  A check that could not run is a finding too.
        """
        from ..trust.diagnosis import diagnose

        self._require_fitted()
        if (points is None) != (cloud is None):
            raise InvalidSetting("diagnose takes points together with the cloud they belong to; one of them is missing")
        return diagnose(self, points, cloud)

    def suspicious_observations(self, count: int | None = None) -> list[SuspiciousObservation]:
        """Observations by leave-one-out residual, largest first.

        Each has the names of its ``cloud`` and ``landmark``, its ``residual`` in the map, and its ``weight`` as a share
        of the weight given.  ``count`` limits their number; by default all are listed.
        """
        from ..trust.diagnosis import suspicious_observations

        self._require_fitted()
        return suspicious_observations(self, count)

    def suspicious_landmarks(self) -> list[tuple[Name, float]]:
        """Landmarks by their median leave-one-out residual over the clouds, largest first."""
        from ..trust.diagnosis import suspicious_landmarks

        self._require_fitted()
        return suspicious_landmarks(self)

    def to_frame(self) -> Any:
        """The map as a pandas DataFrame: positions, standard deviations over the clouds, how many saw each landmark."""
        from ..trust.frames import map_frame

        return map_frame(self)

    def residuals_frame(self) -> Any:
        """A pandas DataFrame with one row per observation: what was seen, its residuals and its weight."""
        from ..trust.frames import residuals_frame

        return residuals_frame(self)

    def poses_frame(self) -> Any:
        """A pandas DataFrame with the pose of each cloud: translation, quaternion (in 2D an angle), size factor."""
        from ..trust.frames import poses_frame

        return poses_frame(self)

    def to_xarray(self) -> Any:
        """An xarray Dataset over cloud, landmark and axis: points, posed points, map, residuals, poses."""
        from ..trust.frames import dataset

        return dataset(self)

    def _backward(self) -> BackwardWarps:
        """The warps from the map into the clouds, fitted when they are first needed."""
        registration, known = self._fitted, self._known_backward
        if known is None or known[0] is not registration:
            with one_blas_thread(), limit_threads(self.n_jobs):
                known = registration, self._fit_backward(registration)
            self._known_backward = known
        return known[1]

    @abstractmethod
    def _fit_backward(self, registration: Registration) -> BackwardWarps:
        """Fit the warps from the map into the clouds."""

    def _store(self, registration: Registration) -> None:
        """All results at once, so that an interrupted fit leaves the previous ones complete."""
        self.registration_ = registration

    def _warp_of(self, cloud: Name) -> Warp:
        return self.warps_[self.observations_.cloud_index(cloud)]

    def _with_warps(self, points: npt.ArrayLike) -> list[tuple[Warp, Array]]:
        array = masked_as_nan(points)
        if array.ndim != 3 or len(array) != len(self.warps_):
            raise InvalidObservations(
                f"points have shape {array.shape}; expected ({len(self.warps_)}, points, dimension)"
            )
        return list(zip(self.warps_, array, strict=True))

    def _require_fitted(self) -> None:
        _ = self._fitted

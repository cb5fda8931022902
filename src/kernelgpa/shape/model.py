"""ShapeModel: what users construct."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.utils.metadata_routing import UNUSED

from .._numerics.threads import limit_threads, one_blas_thread, require_jobs
from ..errors import InvalidObservations, InvalidSetting, NotFitted, warn
from ..estimators.base import GPA
from ..observations import Observations, as_observations
from ..typing import Array, Name
from .fitting import Options, fit_shapes, scores_of
from .new_clouds import NewClouds, pose_new
from .outliers import cloud_scores, threshold
from .results import ExpectedError, ShapeFit
from .statistics import ProcrustesStatistics, shape_statistics

PAIR_ROWS = 500  # landmarks whose pairs with all others are counted at once


class ObservationResidual(NamedTuple):
    """The leave-one-out residual of one observation.

    Attributes
    ----------
    cloud, landmark : hashable
        Names of the cloud and of the landmark.
    residual : float
        Its length in the unit of the cloud.
    deviations : float
        The same in units of its standard deviation.
    rejected : bool
        Whether the fit did not use the observation.
    """

    cloud: Name
    landmark: Name
    residual: float
    deviations: float
    rejected: bool


class ShapeModel(BaseEstimator):
    """The distribution of the shapes of many clouds, learned also from clouds with unseen landmarks.

    Parameters
    ----------
    shrinkage : "auto" or float between 0 and 1, default="auto"
        a of eq. 24: 1 is a spatial kernel alone, as in :meth:`KernelGPA.predict`; 0 is the learned covariance alone,
        which is principal component analysis if every cloud is complete.
    n_modes : int, optional
        How many modes are kept; all by default.
    scaling : bool, default=False
        Whether the sizes of the clouds are removed.
    bandwidth, noise : "auto" or float, default="auto"
        Width of the kernel as a multiple of the mean distance between landmarks, and variance of the noise as a share
        of the mean square of the residuals.
    robust : bool, default=True
        Whether wrong matches are rejected and outlying clouds down-weighted.
    n_jobs : int, optional
        How many threads the registration uses.

    Attributes
    ----------
    mean_ : array (m, d)
        The mean shape.
    modes_ : array (k, m, d)
        Principal directions of the learned covariance, each of length 1.
    variances_, explained_variance_ratio_ : arrays (k,)
        Their variances, and these as shares of the total variance.
    scores_, score_deviations_ : arrays (n, k)
        Coordinates of the clouds along the modes, and what unseen landmarks leave open of them.
    aligned_ : array (n, m, d)
        The clouds after their poses; unseen landmarks as :meth:`impute` predicts them.
    centroid_sizes_, procrustes_distances_ : arrays (n,)
        Root of the sum of squared distances from the centroid, in the unit of the clouds, and partial Procrustes
        distance from the mean shape, as a registration reports them.
    outliers_ : list
        The names of the clouds whose Procrustes distance exceeds the threshold of ``statistics_``, Tukey's rule.
    statistics_ : ProcrustesStatistics
        All of these, as arrays, with the threshold.
    mahalanobis_distances_ : array (n,)
        Distances of the clouds from the mean shape by models that never saw the cloud.
    outlier_scores_ : array (n,)
        How badly the other clouds predict the landmarks of a cloud, without rejected observations; typically 1 to 1.5.
    outlier_threshold_ : float
        The score above which a cloud is down-weighted.
    badly_predicted_ : list
        The names of these clouds.
    residuals_ : array (n, m)
        Leave-one-out residuals of the observations, in the unit of the clouds; NaN where unseen.
    expected_error_ : ExpectedError
        Mean, median and root mean square of the errors of predicted landmarks in the frames of their clouds, by
        cross-fitting.
    shrinkage_, bandwidth_, noise_ : floats
        The settings that were used.
    alignment_ : str
        The registration that gave the poses: "rigid", "similarity" or "faithful", or the class that was given.
    observations_ : Observations
        The checked data.

    Notes
    -----
    Theory, eqs. 23 to 28.  Every cloud is predicted by a model that never saw it.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelgpa import ShapeModel
    >>> rng = np.random.default_rng(0)
    >>> mean, mode = rng.standard_normal((2, 12, 3))
    >>> points = mean + 0.2 * rng.standard_normal((20, 1, 1)) * mode + 0.01 * rng.standard_normal((20, 12, 3))
    >>> points[4, 7] = np.nan
    >>> model = ShapeModel().fit(points)
    >>> complete, covariances = model.impute(return_cov=True)
    >>> bool(np.isfinite(complete).all())
    True
    """

    __metadata_request__fit: ClassVar = {"points": UNUSED, "weights": UNUSED}
    __metadata_request__transform: ClassVar = {"points": UNUSED, "return_deviations": UNUSED}
    __metadata_request__inverse_transform: ClassVar = {"scores": UNUSED}
    _fit: ShapeFit

    def __init__(
        self,
        shrinkage: str | float = "auto",
        n_modes: int | None = None,
        scaling: bool = False,
        bandwidth: str | float = "auto",
        noise: str | float = "auto",
        robust: bool = True,
        n_jobs: int | None = None,
    ) -> None:
        self.shrinkage = shrinkage
        self.n_modes = n_modes
        self.scaling = scaling
        self.bandwidth = bandwidth
        self.noise = noise
        self.robust = robust
        self.n_jobs = n_jobs

    def fit(self, points: Any, weights: Any = None) -> Self:
        """Learn the model from clouds as :meth:`KernelGPA.fit` takes them, or from a fitted registration.

        An observation of weight w has noise of variance 1 / w, in the registration and in the covariance that is
        learned; weights that are all multiplied by the same number give the same model.  Settings are chosen, and
        outliers found, from all observations alike.
        """
        given = points if isinstance(points, GPA) else None
        observations = given.observations_ if given is not None else as_observations(points, weights)
        options = self._options(observations)
        with one_blas_thread(), limit_threads(self.n_jobs):
            self._fit = fit_shapes(observations, given, options)
        _warn_of_pairs(observations)
        return self

    def transform(self, points: Any, return_deviations: bool = False) -> Array | tuple[Array, Array]:  # (k, modes)
        """Scores of new clouds; with ``return_deviations`` also what their unseen landmarks leave open."""
        found = self._posed(points)
        scores, deviations = scores_of(self._fitted.frozen, found.clouds)
        return (scores, deviations) if return_deviations else scores

    def align(self, points: Any) -> Array:  # (k, m, d)
        """Register new clouds to the mean shape, which does not change: their seen landmarks after their poses.

        Points are as in :meth:`impute`; unseen landmarks are NaN.
        """
        found = self._posed(points)
        return np.stack([pose(own) for pose, own in zip(found.poses, found.points, strict=True)])

    def inverse_transform(self, scores: npt.ArrayLike) -> Array:  # (k, modes) -> (k, m, d)
        """The shapes that have given scores; fewer scores than modes are those of the first modes."""
        try:
            values = np.atleast_2d(np.asarray(scores, dtype=np.float64))
        except (TypeError, ValueError):
            raise InvalidObservations("scores are not a table of numbers; give one row per shape") from None
        modes = self.modes_
        if values.ndim != 2 or not 0 < values.shape[1] <= len(modes):
            raise InvalidObservations(f"scores have shape {values.shape}; expected (shapes, at most {len(modes)})")
        if not np.isfinite(values).all():
            raise InvalidObservations("scores contain NaN or infinite values; give finite scores")
        return self.mean_ + np.einsum("nk,kmd->nmd", values, modes[: values.shape[1]])

    def impute(self, points: Any = None, return_cov: bool = False) -> Array | tuple[Array, Array]:
        """All landmarks in the frame of each cloud: seen ones as they were seen, unseen ones predicted.

        Parameters
        ----------
        points : optional
            New clouds, as :meth:`fit` takes them; by default the clouds of the fit, each predicted by a model that
            never saw it.
        return_cov : bool, default=False
            Also return the calibrated covariances (n, m, d, d) of the predictions, noise included; 0 where seen.

        Returns
        -------
        points : array (n, m, d)
        covariances : array (n, m, d, d)
        """
        if points is None:
            completed, covariances = self._fitted.clouds.completed.copy(), self._fitted.clouds.covariances.copy()
        else:
            completed, covariances = self._posed(points).completed(self._fitted.frozen)
        return (completed, covariances) if return_cov else completed

    def sample(self, count: int, random_state: int | None = None) -> Array:  # (count, m, d)
        """Shapes drawn from the distribution of the modes."""
        _require_count(count, "samples")
        scores = np.random.default_rng(random_state).standard_normal((int(count), len(self.variances_)))
        return self.inverse_transform(scores * np.sqrt(self.variances_))

    def log_likelihood(self, points: Any) -> Array:  # (k,)
        """The log-density of what each cloud saw, whatever its pose; per coordinate, it compares clouds."""
        found, frozen = self._posed(points), self._fitted.frozen
        return frozen.gaussian.log_densities(found.clouds.centred(frozen.mean), found.clouds.patterns)

    def suspicious_observations(self, count: int | None = None) -> list[ObservationResidual]:
        """Observations by their leave-one-out residual in units of its standard deviation, largest first."""
        fit = self._fitted
        if count is not None:
            _require_count(count, "observations")
        order = np.argsort(-np.nan_to_num(fit.clouds.mahalanobis, nan=-1.0), axis=None)
        listed = []
        for t, j in zip(*np.unravel_index(order[:count], fit.clouds.mahalanobis.shape), strict=True):
            if np.isfinite(fit.clouds.mahalanobis[t, j]):
                names = fit.observations.names[t], fit.observations.landmarks[j]
                values = float(fit.clouds.residuals[t, j]), float(fit.clouds.mahalanobis[t, j])
                listed.append(ObservationResidual(*names, *values, bool(fit.clouds.rejected[t, j])))
        return listed

    # -- fitted attributes --

    @property
    def _fitted(self) -> ShapeFit:
        try:
            return self._fit
        except AttributeError:
            raise NotFitted("this ShapeModel is not fitted; call fit(points) first") from None

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_fit")

    @property
    def mean_(self) -> Array:  # (m, d)
        frozen = self._fitted.frozen
        return frozen.shapes.positions + frozen.mean.reshape(-1, frozen.dimension)

    @property
    def modes_(self) -> Array:  # (k, m, d)
        frozen = self._fitted.frozen
        return frozen.modes.reshape(len(frozen.modes), -1, frozen.dimension)

    @property
    def variances_(self) -> Array:  # (k,)
        return self._fitted.frozen.variances

    @property
    def explained_variance_ratio_(self) -> Array:  # (k,)
        return self.variances_ / self._fitted.frozen.total_variance

    @property
    def scores_(self) -> Array:  # (n, k)
        return self._fitted.clouds.scores

    @property
    def score_deviations_(self) -> Array:  # (n, k)
        return self._fitted.clouds.score_deviations

    @property
    def aligned_(self) -> Array:  # (n, m, d)
        clouds = self._fitted.clouds
        return np.stack([pose(own) for pose, own in zip(clouds.poses, clouds.completed, strict=True)])

    @property
    def statistics_(self) -> ProcrustesStatistics:
        return shape_statistics(self._fitted.observations.points, self.mean_)

    @property
    def centroid_sizes_(self) -> Array:  # (n,)
        return self.statistics_.centroid_sizes

    @property
    def procrustes_distances_(self) -> Array:  # (n,)
        return self.statistics_.distances

    @property
    def outliers_(self) -> list[Name]:
        return [self._fitted.observations.names[t] for t in np.flatnonzero(self.statistics_.is_outlier)]

    @property
    def mahalanobis_distances_(self) -> Array:  # (n,)
        return self._fitted.clouds.distances

    @property
    def outlier_scores_(self) -> Array:  # (n,)
        clouds = self._fitted.clouds
        return cloud_scores(np.where(clouds.rejected, np.nan, clouds.mahalanobis))

    @property
    def outlier_threshold_(self) -> float:
        return threshold(self.outlier_scores_)

    @property
    def badly_predicted_(self) -> list[Name]:
        far = np.flatnonzero(self.outlier_scores_ > self.outlier_threshold_)
        return [self._fitted.observations.names[t] for t in far]

    @property
    def residuals_(self) -> Array:  # (n, m)
        return self._fitted.clouds.residuals

    @property
    def expected_error_(self) -> ExpectedError:
        return self._fitted.expected

    @property
    def shrinkage_(self) -> float:
        return self._fitted.frozen.settings.shrinkage

    @property
    def bandwidth_(self) -> float:
        return self._fitted.frozen.settings.bandwidth

    @property
    def noise_(self) -> float:
        return self._fitted.frozen.settings.noise

    @property
    def alignment_(self) -> str:
        return self._fitted.registration

    @property
    def observations_(self) -> Observations:
        return self._fitted.observations

    # -- settings --

    def _options(self, observations: Observations) -> Options:
        fixed = {}
        for name, least, most in (("shrinkage", 0.0, 1.0), ("bandwidth", 1e-6, 1e6), ("noise", 1e-9, 1e9)):
            value = getattr(self, name)
            if isinstance(value, str) and value == "auto":
                continue
            if not isinstance(value, Real) or isinstance(value, bool) or not least <= float(value) <= most:
                raise InvalidSetting(f'{name} is {value!r}; expected "auto" or a number from {least:g} to {most:g}')
            fixed[name] = float(value)
        for name in ("scaling", "robust"):
            if not isinstance(getattr(self, name), (bool, np.bool_)):
                raise InvalidSetting(f"{name} is {getattr(self, name)!r}; expected True or False")
        require_jobs(self.n_jobs)
        return Options(bool(self.scaling), fixed, bool(self.robust), self._modes(observations))

    def _modes(self, observations: Observations) -> int | None:
        if self.n_modes is None:
            return None
        most = min(len(observations.clouds) - 1, len(observations.landmarks) * observations.dimension)
        if not isinstance(self.n_modes, (int, np.integer)) or isinstance(self.n_modes, bool):
            raise InvalidSetting(f"n_modes is {self.n_modes!r}; expected a whole number or None")
        if not 1 <= self.n_modes <= most:
            raise InvalidSetting(
                f"n_modes is {self.n_modes}; {len(observations.clouds)} clouds have at most {most} modes, "
                f"give a number from 1 to {most}"
            )
        return int(self.n_modes)

    def _posed(self, points: Any) -> NewClouds:
        fit = self._fitted
        return pose_new(points, fit.observations.landmarks, fit.frozen)


def _require_count(count: object, what: str) -> None:
    if not isinstance(count, (int, np.integer)) or isinstance(count, bool) or count < 1:
        raise InvalidSetting(f"the number of {what} is {count!r}; expected a positive whole number")


def _warn_of_pairs(observations: Observations) -> None:
    """Name landmarks that no cloud saw together: their covariance is that of the kernel alone."""
    visible = observations.visible.astype(np.float32)
    count, first = 0, None
    for begin in range(0, visible.shape[1], PAIR_ROWS):
        i, j = np.nonzero(np.triu(visible[:, begin : begin + PAIR_ROWS].T @ visible == 0, begin + 1))
        count += len(i)
        if len(i) and first is None:
            first = observations.landmarks[begin + i[0]], observations.landmarks[j[0]]
    if first is not None:
        warn(
            f"{count} pairs of landmarks, for example {first[0]!r} and {first[1]!r}, were never seen in the same "
            "cloud; how they move together comes from the spatial kernel alone"
        )

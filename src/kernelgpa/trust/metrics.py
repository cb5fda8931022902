"""Metrics of a registration: from arrays of warped points to numbers.

The argument ``clouds`` has the shape (n, k, d): the images in the map of the same k points under the warps of n
clouds, NaN where a cloud did not see a point.  With q_j the mean of the images of point j and q_j^(-t) the mean of the
images under all warps but that of cloud t (docs/theory.md, section 13):

    consistency of j     = root mean square over t of |y_t(p_tj) - q_j|
    sensor residual e_tj = J_t(p_tj)^-1 (y_t(p_tj) - q_j^(-t)),     J_t the Jacobian of the warp y_t
    sensor error of j    = root mean square over t of |e_tj|

Residuals of warps that were fitted from the map into the clouds (eq. 21) are lengths in the frames of the clouds
already.  They need no Jacobian, and stay finite where a warp into the map folds.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..errors import InvalidObservations, InvalidSetting
from ..gauge.rotations import motion_onto
from ..observations.arrays import finite_rows, masked_as_nan
from ..typing import Array, BoolArray


def mean_map(clouds: npt.ArrayLike) -> Array:
    """Return the mean image of each point over the clouds that saw it.

    Parameters
    ----------
    clouds : array_like of shape (n, k, d)
        Images of k points under the warps of n clouds, NaN where a cloud did not see a point.

    Returns
    -------
    ndarray of shape (k, d)
        NaN for a point that no cloud saw.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelgpa import metrics
    >>> metrics.mean_map([[[0.0, 1.0], [np.nan, np.nan]], [[2.0, 1.0], [5.0, 5.0]]])
    array([[1., 1.],
           [5., 5.]])
    """
    array = _checked_clouds(clouds)
    seen = finite_rows(array)
    total = np.where(seen[:, :, None], array, 0.0).sum(axis=0)
    count = seen.sum(axis=0).astype(np.float64)[:, None]
    return np.divide(total, count, out=np.full_like(total, np.nan), where=count > 0)


def consistency(clouds: npt.ArrayLike) -> Array:
    """Return the consistency of each point, delta in the paper: the spread of its images about their mean.

    The spread is measured in the map and therefore decreases if the map shrinks.  Read it beside
    :func:`sensor_error`, which does not.

    Parameters
    ----------
    clouds : array_like of shape (n, k, d)
        Images of k points under the warps of n clouds, NaN where a cloud did not see a point.

    Returns
    -------
    ndarray of shape (k,)
        Root mean square distance from the mean; 0 for a point that one cloud saw, NaN for a point that no cloud saw.

    Examples
    --------
    >>> from kernelgpa import metrics
    >>> metrics.consistency([[[0.0, 1.0]], [[2.0, 1.0]]])
    array([1.])
    """
    array = _checked_clouds(clouds)
    return root_mean(np.sum((array - mean_map(array)) ** 2, axis=2), axis=0)


def mean_of_others(clouds: npt.ArrayLike, weights: npt.ArrayLike | None = None) -> Array:
    """Return, for each cloud, the mean image of each point over all other clouds.

    Parameters
    ----------
    clouds : array_like of shape (n, k, d)
        Images of k points under the warps of n clouds, NaN where a cloud did not see a point.
    weights : array_like of shape (n, k), optional
        Weights of the images in the mean; by default all are equal.

    Returns
    -------
    ndarray of shape (n, k, d)
        NaN where no other cloud saw the point, or none with a positive weight.
    """
    array = _checked_clouds(clouds)
    seen = finite_rows(array)
    used = np.where(seen, _checked_weights(weights, seen), 0.0)
    seen_by_others = (seen.sum(axis=0) - seen)[:, :, None] > 0
    total = _sum_of_others(used[:, :, None] * np.where(seen[:, :, None], array, 0.0))
    weight = _sum_of_others(used)[:, :, None]
    return np.divide(total, weight, out=np.full_like(array, np.nan), where=seen_by_others & (weight > 0))


def _sum_of_others(values: Array) -> Array:  # (n, ...) -> (n, ...)
    """Sum over all clouds but one.

    The sum of the clouds before is added to that of the clouds after.  Subtracting each cloud from the total would
    leave rounding errors of the size of an outlier, even if its weight is nearly 0.
    """
    zero = np.zeros_like(values[:1])
    before = np.cumsum(np.concatenate([zero, values[:-1]]), axis=0)
    after = np.cumsum(np.concatenate([zero, values[:0:-1]]), axis=0)[::-1]
    return np.asarray(before + after)


def sensor_residuals(clouds: npt.ArrayLike, jacobians: npt.ArrayLike, weights: npt.ArrayLike | None = None) -> Array:
    """Return how far each image lies from the mean of the others, in the frame of its own cloud.

    Parameters
    ----------
    clouds : array_like of shape (n, k, d)
        Images of k points under the warps of n clouds, NaN where a cloud did not see a point.
    jacobians : array_like of shape (n, k, d, d)
        Jacobians of the warps at the points, as ``jacobians`` of a fitted estimator returns them.
    weights : array_like of shape (n, k), optional
        Weights of the images in the mean of the others; by default all are equal.

    Returns
    -------
    ndarray of shape (n, k, d)
        ``J^-1 (y - mean of the others)``; NaN where nothing can be compared, infinite where the Jacobian is singular.
    """
    array = _checked_clouds(clouds)
    matrices = np.asarray(jacobians, dtype=np.float64)
    expected = (*array.shape, array.shape[2])
    if matrices.shape != expected:
        raise InvalidObservations(f"jacobians have shape {matrices.shape}; expected {expected}, one matrix per point")
    differences = array - mean_of_others(array, weights)
    known = finite_rows(differences) & np.isfinite(matrices).all(axis=(2, 3))
    singular = known & _singular(np.where(known[:, :, None, None], matrices, np.eye(array.shape[2])))
    regular = known & ~singular
    residuals = np.full_like(array, np.nan)
    residuals[regular] = np.linalg.solve(matrices[regular], differences[regular][:, :, None])[:, :, 0]
    residuals[singular] = np.inf
    return residuals


def _singular(matrices: Array) -> BoolArray:  # (..., d, d) -> (...)
    """Whether determinants are 0; matrices are scaled first because products of small entries underflow."""
    size = np.abs(matrices).max(axis=(-2, -1), keepdims=True)
    return np.asarray(np.linalg.det(matrices / np.where(size > 0, size, 1.0)) == 0)


def sensor_error(
    clouds: npt.ArrayLike | None = None,
    jacobians: npt.ArrayLike | None = None,
    *,
    residuals: npt.ArrayLike | None = None,
) -> Array:
    """Return the root mean square of :func:`sensor_residuals`, or of other residuals, for each point.

    Scaling the map does not change this error, and it increases where a warp flattens or folds space.

    Parameters
    ----------
    clouds : array_like of shape (n, k, d)
        Images of k points under the warps of n clouds, NaN where a cloud did not see a point.
    jacobians : array_like of shape (n, k, d, d)
        Jacobians of the warps at the points.
    residuals : array_like of shape (n, k)
        In place of both: lengths of residuals in the frames of the clouds, NaN where there are none, such as
        ``sensor_residuals_`` of a fitted estimator.

    Returns
    -------
    ndarray of shape (k,)
        NaN for a point that fewer than two clouds saw.

    Examples
    --------
    >>> from kernelgpa import KernelGPA, metrics, simulate
    >>> scene = simulate.liver(clouds=5, landmarks=60, vertices=202)
    >>> gpa = KernelGPA().fit(scene.points)
    >>> surfaces = scene.surfaces  # points that are no landmarks, as each cloud has them
    >>> metrics.sensor_error(gpa.transform_clouds(surfaces), gpa.jacobians(surfaces)).shape
    (202,)
    >>> metrics.sensor_error(residuals=gpa.sensor_residuals_).shape  # of the landmarks, left out of one cloud each
    (60,)
    """
    if residuals is not None and clouds is None and jacobians is None:
        lengths = np.asarray(residuals, dtype=np.float64)
        if lengths.ndim != 2 or np.any(lengths < 0):
            raise InvalidObservations(f"residuals have shape {lengths.shape}; expected lengths (clouds, points)")
        return root_mean(lengths**2, axis=0)
    if residuals is not None or clouds is None or jacobians is None:
        raise InvalidSetting("sensor_error takes clouds and jacobians, or residuals alone")
    return root_mean(np.sum(sensor_residuals(clouds, jacobians) ** 2, axis=2), axis=0)


def map_error(estimate: npt.ArrayLike, truth: npt.ArrayLike) -> float:
    """Return the root mean square distance of a map from the true one after the best rotation and translation.

    Parameters
    ----------
    estimate, truth : array_like of shape (m, d)
        Landmark positions.  Landmarks with NaN in either map are ignored.

    Returns
    -------
    float
        In the unit of the data.

    Examples
    --------
    >>> from kernelgpa import metrics
    >>> round(metrics.map_error([[0, 0], [0, 1], [2, 0]], [[5, 5], [4, 5], [5, 7]]), 9)  # turned and moved
    0.0
    """
    found, true = (np.asarray(one, dtype=np.float64) for one in (estimate, truth))
    if found.shape != true.shape or found.ndim != 2:
        raise InvalidObservations(
            f"the maps have shapes {found.shape} and {true.shape}; expected two of (landmarks, dimension)"
        )
    both = finite_rows(found) & finite_rows(true)
    if both.sum() < found.shape[1]:
        raise InvalidObservations(f"{both.sum()} landmarks are known in both maps; {found.shape[1]} are needed")
    # centred first, because maps far from the origin lose digits otherwise
    found, true = found[both] - found[both].mean(axis=0), true[both] - true[both].mean(axis=0)
    differences = found @ motion_onto(found, true)[0].T - true
    return float(np.sqrt(np.mean(np.sum(differences**2, axis=1))))


def root_mean(squares: Array, axis: int) -> Array:
    """Return the square root of the mean along an axis of a matrix, ignoring NaN; NaN where all entries are."""
    known = ~np.isnan(squares)
    total, count = np.where(known, squares, 0.0).sum(axis=axis), known.sum(axis=axis)
    return np.sqrt(np.divide(total, count, out=np.full(len(count), np.nan), where=count > 0))


def _checked_weights(weights: npt.ArrayLike | None, seen: BoolArray) -> Array:
    if weights is None:
        return np.ones(seen.shape)
    array = np.asarray(weights, dtype=np.float64)
    if array.shape != seen.shape or not np.all(array[seen] >= 0):
        raise InvalidObservations(
            f"weights have shape {array.shape}; expected {seen.shape}, none of them negative or NaN where seen"
        )
    return array


def _checked_clouds(clouds: npt.ArrayLike) -> Array:
    array = masked_as_nan(clouds).astype(np.float64)
    if array.ndim != 3:
        raise InvalidObservations(f"clouds have shape {array.shape}; expected (clouds, points, dimension)")
    return array

"""Results as tables: pandas DataFrames and an xarray Dataset.  The libraries are imported when a table is asked for.

n clouds, m landmarks, d axes.  Clouds and landmarks are named as in ``observations_``.
"""

from __future__ import annotations

import importlib
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.spatial.transform import Rotation

from ..errors import InvalidSetting
from ..observations.tables import AXES
from ..typing import Array

if TYPE_CHECKING:  # estimators call this module
    from ..estimators.base import GPA


def map_frame(gpa: GPA) -> Any:
    """One row per landmark: its position, the standard deviation of its images over the clouds, how many saw it."""
    pandas = _library("pandas")
    from .agreement import Agreement

    agreement = Agreement(gpa)
    axes = AXES[: gpa.observations_.dimension]
    images = np.where(agreement.counted[:, :, None], agreement.warped, np.nan)
    columns = {
        **dict(zip(axes, gpa.map_.T, strict=True)),
        **{f"{axis}_sd": values for axis, values in zip(axes, _deviations(images).T, strict=True)},
        "clouds": gpa.observations_.counts,
    }
    return pandas.DataFrame(columns, index=_index(pandas, gpa.observations_.landmarks, "landmark"))


def _deviations(images: Array) -> Array:  # (n, m, d) -> (m, d)
    """Standard deviations over the clouds, NaN for landmarks with fewer than two images."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # NumPy warns of landmarks with one image
        return np.asarray(np.nanstd(images, axis=0, ddof=1))


def residuals_frame(gpa: GPA) -> Any:
    """One row per observation: what was seen, its leave-one-out residuals, its distance from the map, its weight."""
    pandas = _library("pandas")
    observations = gpa.observations_
    visible = observations.visible
    clouds, landmarks = np.nonzero(visible)
    axes = AXES[: observations.dimension]
    distances = np.linalg.norm(gpa.transform_clouds(observations.points) - gpa.map_, axis=2)
    columns = {
        "cloud": [observations.names[t] for t in clouds],
        "landmark": [observations.landmarks[j] for j in landmarks],
        **dict(zip(axes, observations.points[visible].T, strict=True)),
        "distance": distances[visible],
        "residual": gpa.residuals_[visible],
        "scaled_residual": gpa.scaled_residuals_[visible],
        "weight": gpa.weights_[visible],
    }
    return pandas.DataFrame(columns)


def poses_frame(gpa: GPA) -> Any:
    """One row per cloud, sensor to map: translation, quaternion (in 2D an angle in radians), size factor."""
    pandas = _library("pandas")
    rotations, translations = gpa.rotations_, gpa.translations_
    columns: dict[str, Any] = {f"t{axis}": values for axis, values in zip(AXES, translations.T, strict=False)}
    if translations.shape[1] == 3:
        quaternions = Rotation.from_matrix(rotations).as_quat()
        columns |= dict(zip(("qx", "qy", "qz", "qw"), quaternions.T, strict=True))
    else:
        columns["angle"] = np.arctan2(rotations[:, 1, 0], rotations[:, 0, 0])
    columns["size_factor"] = gpa.size_factors_
    columns["in_map"] = np.isin(np.arange(len(rotations)), gpa.registration_.problem.participating)
    return pandas.DataFrame(columns, index=_index(pandas, gpa.observations_.names, "cloud"))


def dataset(gpa: GPA) -> Any:
    """Everything over the dimensions cloud, landmark and axis: points, the same posed into the map, map, residuals."""
    xarray = _library("xarray")
    from .procrustes import procrustes_coordinates

    observations = gpa.observations_
    full, pairs = ("cloud", "landmark", "axis"), ("cloud", "landmark")
    variables = {
        "points": (full, observations.points),
        "aligned": (full, procrustes_coordinates(gpa)[0]),
        "map": (("landmark", "axis"), gpa.map_),
        "residual": (pairs, gpa.residuals_),
        "weight": (pairs, gpa.weights_),
        "rotation": (("cloud", "axis", "cloud_axis"), gpa.rotations_),
        "translation": (("cloud", "axis"), gpa.translations_),
        "size_factor": (("cloud",), gpa.size_factors_),
    }
    axes = list(AXES[: observations.dimension])
    coordinates = {
        "cloud": _labels(observations.names),
        "landmark": _labels(observations.landmarks),
        "axis": axes,
        "cloud_axis": axes,
    }
    return xarray.Dataset(variables, coords=coordinates)


def _index(pandas: Any, names: Any, name: str) -> Any:
    return pandas.Index(_labels(names), name=name)


def _labels(names: Any) -> Any:
    """Names in an array of one dimension; tuples would otherwise become a second one."""
    if all(isinstance(one, str) for one in names) or all(isinstance(one, int) for one in names):
        return np.array(list(names))
    labels = np.empty(len(names), dtype=object)
    labels[:] = list(names)
    return labels


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise InvalidSetting(f"{name} is not installed; install it with: pip install 'kernelgpa[tables]'") from None

"""A fitted shape model as the bytes of a file, and back.

``model.npz`` holds everything that was fitted, so that a loaded model answers as the original did.  Nothing is pickled.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..observations.collection import Observations
from ..shape import ShapeModel
from ..shape.alignment import Pose
from ..shape.gaussian import DenseGaussian, LowRankGaussian, ShapeDistribution
from ..shape.learning import ShapeSettings
from ..shape.results import CloudResults, ExpectedError, Frozen, ShapeFit
from ..shape.spaces import Shapes, motions
from .archive import Arrays, read_arrays
from .records import FileKind, Header, checked_dimension, clouds_from_arrays, clouds_to_arrays, require_saveable
from .validation import CheckedArrays, InvalidRecord, checked_names, checked_number

SHAPE_FILE = FileKind("shape_format", 1, "shape model", "expected model.npz of kernelgpa shape", "fit the model again")
TINY = np.finfo(np.float64).tiny


def to_bytes(model: ShapeModel) -> bytes:
    """Return a fitted shape model as the bytes of an NPZ file."""
    fit = model._fitted
    observations, frozen, clouds = fit.observations, fit.frozen, fit.clouds
    require_saveable((*observations.names, *observations.landmarks))
    header: Header = {
        "settings": {name: _plain(value) for name, value in model.get_params(deep=False).items()},
        "clouds": list(observations.names),
        "landmarks": list(observations.landmarks),
        "dimension": observations.dimension,
        "registration": fit.registration,
        "used": list(frozen.settings),
        "variance": frozen.shapes.variance,
        "calibration": frozen.calibration,
        "scaling": frozen.scaling,
        "gain": frozen.gain,
        "total_variance": frozen.total_variance,
        "expected": list(fit.expected),
    }
    arrays: Arrays = {
        **clouds_to_arrays(observations.clouds, observations.dimension),
        "positions": frozen.shapes.positions,
        "mean": frozen.mean,
        "modes": frozen.modes,
        "variances": frozen.variances,
        **frozen.gaussian.covariance_arrays(),
        "linear": np.stack([pose.linear for pose in clouds.poses]),
        "translations": np.stack([pose.translation for pose in clouds.poses]),
        "completed": clouds.completed,
        "covariances": clouds.covariances,
        "scores": clouds.scores,
        "score_deviations": clouds.score_deviations,
        "residuals": clouds.residuals,
        "mahalanobis": clouds.mahalanobis,
        "distances": clouds.distances,
        "rejected": clouds.rejected.astype(np.uint8),
        "weights": clouds.weights,
    }
    return SHAPE_FILE.pack(header, arrays)


def from_bytes(data: bytes, source: str) -> ShapeModel:
    """Return the model that :func:`to_bytes` wrote."""
    arrays = read_arrays(data, source)
    header = SHAPE_FILE.header(arrays, source)
    with SHAPE_FILE.checking(source):
        return _restored(header, CheckedArrays(arrays))


def is_shape_model(data: bytes) -> bool:
    """Whether a file is a shape model of this library, in whatever format."""
    return SHAPE_FILE.is_kind(data)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _restored(header: Header, arrays: CheckedArrays) -> ShapeModel:
    model = ShapeModel(**header["settings"])
    d = checked_dimension(header)
    names, landmarks = checked_names(header["clouds"], "clouds"), checked_names(header["landmarks"], "landmarks")
    observations = Observations(clouds_from_arrays(arrays, names, len(landmarks), d, d + 1), landmarks, d)._checked()
    model._options(observations)
    frozen = _frozen(header, arrays, len(landmarks), d)
    if not isinstance(header["registration"], str) or not isinstance(header["expected"], list):
        raise InvalidRecord("registration is no text, or expected no list")
    expected = ExpectedError(*(checked_number(one, "expected", least=0) for one in header["expected"]))
    clouds = _clouds(arrays, len(names), len(landmarks), d, len(frozen.variances))
    model._fit = ShapeFit(observations, header["registration"], frozen, clouds, expected)
    return model


def _frozen(header: Header, arrays: CheckedArrays, m: int, d: int) -> Frozen:
    positions = arrays.floats("positions", m, d)
    variance = checked_number(header["variance"], "variance", least=TINY)
    if not isinstance(header["scaling"], bool):
        raise InvalidRecord("scaling is neither true nor false")
    shapes = Shapes(positions, motions(positions, header["scaling"]), variance)
    bandwidth, noise, shrinkage = header["used"]
    settings = ShapeSettings(
        checked_number(bandwidth, "bandwidth", least=TINY),
        checked_number(noise, "noise", least=TINY),
        checked_number(shrinkage, "shrinkage", least=0),
    )
    if settings.shrinkage > 1:
        raise InvalidRecord(f"shrinkage is {settings.shrinkage:g}")
    variances = arrays.floats("variances", None, least=0)
    return Frozen(
        shapes,
        arrays.floats("mean", m * d),
        _gaussian(arrays, shapes, settings.noise * variance),
        settings,
        checked_number(header["calibration"], "calibration", least=TINY),
        header["scaling"],
        checked_number(header["gain"], "gain", least=TINY),
        arrays.floats("modes", len(variances), m * d),
        variances,
        checked_number(header["total_variance"], "total_variance", least=TINY),
    )


def _gaussian(arrays: CheckedArrays, shapes: Shapes, noise: float) -> ShapeDistribution:
    D = shapes.positions.size
    if "covariance" in arrays.arrays:
        covariance = arrays.floats("covariance", D, D)
        if not np.allclose(covariance, covariance.T, rtol=1e-6, atol=1e-9 * shapes.variance):
            raise InvalidRecord("covariance is not symmetric")
        gaussian = DenseGaussian(covariance, shapes.motions, shapes.pose_variance, noise)
        if not np.isfinite(gaussian.precision).all():
            raise InvalidRecord("covariance cannot be inverted")
        return gaussian
    basis = arrays.floats("basis", D, None)
    root = arrays.floats("root", basis.shape[1], basis.shape[1])
    return LowRankGaussian(basis, root, shapes.motions, shapes.pose_variance, noise)


def _clouds(arrays: CheckedArrays, n: int, m: int, d: int, k: int) -> CloudResults:
    linear = arrays.floats("linear", n, d, d)
    if np.any(np.linalg.det(linear) <= 0):
        raise InvalidRecord("linear holds a matrix that is no rotation times a size")
    translations = arrays.floats("translations", n, d)
    return CloudResults(
        tuple(Pose(A, t) for A, t in zip(linear, translations, strict=True)),
        arrays.floats("completed", n, m, d),
        arrays.floats("covariances", n, m, d, d),
        arrays.floats("scores", n, k),
        arrays.floats("score_deviations", n, k, least=0),
        arrays.floats("residuals", n, m, least=0, allow_nan=True),
        arrays.floats("mahalanobis", n, m, least=0, allow_nan=True),
        arrays.floats("distances", n, least=0),
        arrays.integers("rejected", n, m, most=1).astype(bool),
        arrays.floats("weights", n, least=0),
    )

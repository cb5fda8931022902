"""A fitted registration as the bytes of a file, and back.

``model.npz`` holds everything that was fitted, so that a loaded model answers as the original did: the observations,
the map, the poses, the warps, residuals and weights, the spectrum.  Only kernels that have a name can be saved.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..errors import InvalidSetting, silenced_warnings
from ..estimators.base import GPA
from ..estimators.methods import METHODS, method_name
from ..estimators.problem import Problem, problem_of
from ..estimators.registration import Registration, WarpStatistics
from ..estimators.robust import LEAST_FACTOR
from ..estimators.settings import AUTO
from ..gauge.faithful import Faithful
from ..gauge.principal_axes import Gauge
from ..observations.collection import Observations
from ..typing import Array
from ..warps import Family, Smoothing
from ..warps.kernels import KERNELS
from .archive import Arrays, read_arrays
from .records import (
    FileKind,
    Header,
    MapRecord,
    certificate_from_pair,
    certificate_to_pair,
    checked_dimension,
    choice_from_record,
    choice_to_record,
    clouds_from_arrays,
    clouds_to_arrays,
    gauge_from_arrays,
    gauge_to_arrays,
    require_saveable,
    spectrum_from_arrays,
    spectrum_to_arrays,
    warps_from_arrays,
    warps_to_arrays,
)
from .validation import LARGEST_NUMBER, CheckedArrays, InvalidRecord, checked_names, checked_number

MODEL_FILE = FileKind(
    "format", 4, "model", "expected model.npz of a result folder", "register again with settings.toml"
)


def to_bytes(gpa: GPA, about: dict[str, Any] | None = None) -> bytes:
    """Return a fitted registration as the bytes of an NPZ file; ``about`` is saved with it."""
    observations = gpa.observations_
    require_saveable((*observations.names, *observations.landmarks))
    gauge, gauge_arrays = gauge_to_arrays(gpa.registration_.gauge)
    spectrum, spectrum_arrays = spectrum_to_arrays(gpa.spectrum_)
    faithful = gpa.registration_.faithful
    header = {
        "class": class_name(gpa),
        "settings": settings_of(gpa),
        "used": settings_as_json(gpa.registration_.settings),
        "choice": choice_to_record(gpa.automatic_),
        "warnings": list(gpa.registration_.warnings),
        "clouds": list(observations.names),
        "landmarks": list(observations.landmarks),
        "dimension": observations.dimension,
        "gauge": gauge,
        "spectrum": spectrum,
        "smoothing": gpa.smoothing_,
        "features": gpa.registration_.family.features(observations.dimension),
        "faithful": None if faithful is None else [faithful.gamma, faithful.excess],
        "certificate": certificate_to_pair(gpa.certificate_),
        "about": about or {},
    }
    arrays: Arrays = {
        **clouds_to_arrays(observations.clouds, observations.dimension),
        "part": gpa.registration_.problem.participating,
        "mirrored": gpa.registration_.problem.mirrored,
        **gauge_arrays,
        **spectrum_arrays,
        **warps_to_arrays(gpa.warps_),
        **MapRecord(gpa.map_, gpa.rotations_, gpa.translations_).to_arrays(),
        "size_factors": gpa.size_factors_,
        "weights": gpa.weights_,
        "residuals": gpa.residuals_,
        "scaled_residuals": gpa.scaled_residuals_,
        "inducing_errors": gpa.inducing_errors_,
    }
    return MODEL_FILE.pack(header, arrays)


def from_bytes(data: bytes, source: str) -> tuple[GPA, dict[str, Any]]:
    """Return the registration that :func:`to_bytes` wrote, and what was saved with it."""
    return from_arrays(read_arrays(data, source), source)


def from_arrays(arrays: Arrays, source: str) -> tuple[GPA, dict[str, Any]]:
    """Return the same from the arrays of the file."""
    header = MODEL_FILE.header(arrays, source)
    with MODEL_FILE.checking(source):
        return _restored(header, CheckedArrays(arrays)), _about(header)


def is_model(data: bytes) -> bool:
    """Whether a file is a model of this library, in whatever format."""
    return MODEL_FILE.is_kind(data)


def class_name(gpa: GPA) -> str:
    """Return the name by which a file refers to the class of an estimator, which must be in the table of methods."""
    return METHODS[method_name(gpa)].estimator.__name__


def settings_of(gpa: GPA) -> dict[str, Any]:
    """Return the settings of an estimator as JSON can hold them."""
    return settings_as_json(gpa.get_params(deep=False))


def settings_as_json(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings as JSON can hold them."""
    settings = dict(given)
    kernel = settings.get("kernel", "gaussian")
    named = {value: name for name, value in KERNELS.items()}
    if not isinstance(kernel, str):
        if kernel not in named:
            raise InvalidSetting(f"kernel {kernel!r} has no name and cannot be saved; use one of {', '.join(KERNELS)}")
        settings["kernel"] = named[kernel]
    return {
        name: value.tolist() if isinstance(value, np.generic | np.ndarray) else value
        for name, value in settings.items()
    }


def estimator_of(header: Header) -> GPA:
    """Return the estimator of a header, not yet fitted."""
    classes = {method.estimator.__name__: method.estimator for method in METHODS.values()}
    gpa = classes[header["class"]](**header["settings"])
    gpa._check_settings()
    return gpa


def used_estimator_of(header: Header) -> GPA:
    """Return the estimator of a header with the values that were used in place of automatic settings."""
    given, used = header["settings"], header["used"]
    for name, value in given.items():
        if value != AUTO and used[name] != value:
            raise InvalidRecord(f"{name} is {used[name]!r}, which differs from the settings")
    return estimator_of({**header, "settings": used})


def _restored(header: Header, arrays: CheckedArrays) -> GPA:
    gpa, used = estimator_of(header), used_estimator_of(header)
    observations = _observations(header, arrays)
    n, m, d = len(observations.clouds), len(observations.landmarks), observations.dimension
    part = arrays.increasing("part", most=n - 1)
    mirrored = arrays.increasing("mirrored", most=n - 1)
    if not np.isin(np.setdiff1d(np.arange(n), part), mirrored).all():
        raise InvalidRecord("a cloud takes no part in the map and is no mirror image")
    with silenced_warnings():  # they were issued by the fit
        problem = problem_of(observations, part, mirrored)
    shared = len(problem.landmarks)
    gauge = gauge_from_arrays(header["gauge"], arrays, shared, len(part), d)
    family = _family(used, header["features"], d)
    mapped = MapRecord.from_arrays(arrays, m, n, d)
    _require_plausible_map(mapped.map, problem)
    gpa._store(
        Registration(
            problem,
            gauge,
            spectrum_from_arrays(header["spectrum"], arrays, shared, d),
            warps_from_arrays(arrays, family.kernel_of_warps(d), n, d),
            *mapped,
            arrays.floats("size_factors", n, least=1 / LARGEST_NUMBER),
            _statistics(arrays, problem),
            family,
            _smoothing(header["smoothing"], n),
            used.get_params(deep=False),
            _faithful(header["faithful"], gauge),
            certificate_from_pair(header["certificate"]),
            choice_from_record(header["choice"]),
            _warnings(header["warnings"]),
        )
    )
    return gpa


def _smoothing(value: Any, clouds: int) -> Smoothing:
    """Return the one smoothing of all clouds, or the tuple of those of each."""
    if not isinstance(value, list):
        return checked_number(value, "smoothing", least=0)
    if len(value) != clouds:
        raise InvalidRecord(f"smoothing has {len(value)} values for {clouds} clouds")
    return tuple(checked_number(one, "smoothing", least=0) for one in value)


def _observations(header: Header, arrays: CheckedArrays) -> Observations:
    d = checked_dimension(header)
    names, landmarks = checked_names(header["clouds"], "clouds"), checked_names(header["landmarks"], "landmarks")
    clouds = clouds_from_arrays(arrays, names, len(landmarks), d, least_seen=d + 1)
    return Observations(clouds, landmarks, d)._checked()._with_comparable_weights()


def _require_plausible_map(positions: Array, problem: Problem) -> None:
    seen = positions[problem.counts > 0]
    if not np.isfinite(seen).all():
        raise InvalidRecord("map has no position for a landmark that was seen")
    if not np.ptp(seen, axis=0).max() > 1 / LARGEST_NUMBER:
        raise InvalidRecord("all landmarks of map coincide")


def _family(gpa: GPA, features: object, dimension: int) -> Family:
    """Return the family of warps: that of the settings, or the smaller one if memory was short."""
    family = gpa._family()
    for one in (family, gpa._smaller_family(family)):
        if one is not None and one.features(dimension) == features:
            return one
    raise InvalidRecord(f"features is {features!r}, which differs from the settings")


def _statistics(arrays: CheckedArrays, problem: Problem) -> WarpStatistics:
    visible = problem.observations.visible
    n, m = visible.shape
    found = WarpStatistics(
        arrays.floats("weights", n, m, least=0),
        arrays.floats("residuals", n, m, least=0, allow_nan=True),
        arrays.floats("scaled_residuals", n, m, least=0, allow_nan=True),
        arrays.floats("inducing_errors", n, least=0, allow_nan=True),
    )
    if np.isfinite(found.residuals[~visible]).any() or np.isfinite(found.scaled_residuals[~visible]).any():
        raise InvalidRecord("a landmark that was not seen has a residual")
    used, given = found.weights[:, problem.landmarks], problem.observations.weights[:, problem.landmarks]
    if np.any(used > 2 * given) or np.any(used < 0.5 * LEAST_FACTOR * given):  # robust fits lower the given weights
        raise InvalidRecord("weights contradict the weights that were given")
    return found


def _faithful(pair: object, gauge: Gauge) -> Faithful | None:
    if pair is None:
        return None
    if not isinstance(pair, list) or len(pair) != 2:
        raise InvalidRecord("faithful is no pair")
    return Faithful(gauge, checked_number(pair[0], "gamma", least=0), checked_number(pair[1], "excess", allow_nan=True))


def _warnings(messages: object) -> tuple[str, ...]:
    if not isinstance(messages, list) or not all(isinstance(one, str) for one in messages):
        raise InvalidRecord("the warnings of the fit are not texts")
    return tuple(messages)


def _about(header: Header) -> dict[str, Any]:
    """Return what was saved with a model: a unit, a frame, a title, notes, and attributes of the clouds."""
    about = header["about"]
    if not isinstance(about, dict):
        raise InvalidRecord("about is no object")
    texts = [about.get(name) for name in ("unit", "frame", "title")]
    notes = about.get("notes", [])
    if not all(one is None or isinstance(one, str) for one in texts) or not isinstance(notes, list):
        raise InvalidRecord("the unit, frame, title and notes are not texts")
    if not all(isinstance(one, str) for one in notes):
        raise InvalidRecord("a note is no text")
    attributes = about.get("attributes", {})
    if not isinstance(about.get("kind", ""), str) or not isinstance(attributes, dict):
        raise InvalidRecord("the kind of the clouds is no text, or their attributes are no object")
    if not all(isinstance(one, list) and all(isinstance(text, str) for text in one) for one in attributes.values()):
        raise InvalidRecord("an attribute is no list of texts")
    return dict(about)

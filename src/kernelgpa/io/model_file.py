"""A fitted registration as arrays, and back.

``model.npz`` holds everything that was fitted, so that what is loaded answers as the original did: the observations,
the map, the poses, the warps, residuals and weights, the spectrum.  Numbers are arrays; names and settings are one JSON
text, ``header``.  Nothing is pickled, so kernels must be those that have a name.
"""

from __future__ import annotations

import json
import warnings
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import FormatError, InvalidSetting, KernelGPAError, KernelGPAWarning
from ..estimators import TPSGPA, AffineGPA, KernelGPA, RigidGPA
from ..estimators.base import GPA
from ..estimators.deformable import DeformableGPA
from ..estimators.problem import Problem, problem_of
from ..estimators.registration import Registration, WarpStatistics
from ..estimators.robust import LEAST_FACTOR
from ..gauge.faithful import Faithful
from ..gauge.principal_axes import Gauge
from ..gauge.rotations import Termination
from ..observations.arrays import frozen
from ..observations.checks import LEAST_WEIGHT
from ..observations.cloud import Cloud
from ..observations.collection import Observations
from ..observations.geometry import FLAT, Frame
from ..spectrum.eigenpairs import Spectrum
from ..version import __version__
from ..warps import AffineFamily, Family, KernelPart, Warp
from ..warps.kernels import KERNELS, Kernel, ThinPlate
from .checked import MOST, Numbers, Unsound, is_whole, names_of, number, split
from .npz import arrays_in, packed

FORMAT = 1  # raised when a reader of before would misunderstand
METHODS: dict[type[GPA], str] = {RigidGPA: "rigid", AffineGPA: "affine", TPSGPA: "tps", KernelGPA: "kernel"}
CLASSES = {one.__name__: one for one in METHODS}
STORED = ("map_", "rotations_", "translations_", "size_factors_")
STATISTICS = ("weights_", "residuals_", "standardised_residuals_", "inducing_errors_", "shared_landmarks_")
Arrays = dict[str, npt.NDArray[np.generic]]


def to_bytes(gpa: GPA, about: dict[str, Any] | None = None) -> bytes:
    """A fitted registration as the bytes of an NPZ file; ``about`` is kept with it."""
    names = gpa.observations_.names, gpa.observations_.landmarks
    for one in (*names[0], *names[1]):
        if not isinstance(one, str | int) or isinstance(one, bool):
            raise InvalidSetting(
                f"the name {one!r} cannot be saved; name clouds and landmarks by texts or whole numbers"
            )
    header = {
        "format": FORMAT,
        "kernelgpa": __version__,
        "class": type(gpa).__name__,
        "settings": settings_of(gpa),
        "clouds": list(names[0]),
        "landmarks": list(names[1]),
        "dimension": gpa.observations_.dimension,
        "ending": None if gpa.gauge_.termination is None else gpa.gauge_.termination.name,
        "about": about or {},
    }
    arrays: Arrays = {name: getattr(gpa, name) for name in (*STORED, *STATISTICS)}
    arrays |= _observations_to(gpa.observations_) | _gauge_to(gpa.gauge_) | {"part": gpa.problem_.part}
    arrays |= _warps_to(gpa.warps_)
    header["kernel"] = _kernel_name(gpa)
    header["smoothing"] = gpa.smoothing_
    header["inducing"] = getattr(gpa.family_, "inducing", None)
    header["faithful"] = None if gpa.faithful_ is None else [gpa.faithful_.gamma, gpa.faithful_.excess]
    spectrum = asdict(replace(gpa.spectrum_, subspace=None))
    del spectrum["subspace"]  # a help for solves that follow, and no result
    arrays |= {f"spectrum_{name}": spectrum.pop(name) for name in ("values", "vectors")}
    header["spectrum"] = spectrum
    return packed({"header": np.array(json.dumps(header)), **arrays})


def from_bytes(data: bytes, source: str) -> tuple[GPA, dict[str, Any]]:
    """The registration that :func:`to_bytes` wrote, and what was kept with it."""
    return from_arrays(arrays_in(data, source), source)


def from_arrays(arrays: Arrays, source: str) -> tuple[GPA, dict[str, Any]]:
    """The same from the arrays of the file."""
    header = _header(arrays, source)
    try:
        return _restored(header, Numbers(arrays)), _about(header)
    except KernelGPAError:
        raise
    except Unsound as error:
        raise FormatError(source, None, f"it is broken ({error})", "register again") from error
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise FormatError(source, None, f"it is broken ({type(error).__name__}: {error})", "register again") from error


def is_model(data: bytes) -> bool:
    """Whether a file is a model of this library, of whatever format."""
    try:
        return "kernelgpa" in json.loads(str(arrays_in(data, "model", ["header"])["header"]))
    except (KernelGPAError, KeyError, ValueError, TypeError, RecursionError):
        return False


def _header(arrays: Arrays, source: str) -> dict[str, Any]:
    try:
        header = json.loads(str(arrays["header"]))
        format_, version = int(header["format"]), str(header["kernelgpa"])
    except (KeyError, ValueError, TypeError, RecursionError, ArithmeticError):
        raise FormatError(
            source, None, "it is no model of kernelgpa", "expected model.npz of a result folder"
        ) from None
    if format_ != FORMAT:
        found = (
            f"it was written by kernelgpa {version[:20]} in format {format_}, and this release reads format {FORMAT}"
        )
        raise FormatError(source, None, found, "use that release, or register again with its settings.toml")
    return dict(header)


def _restored(header: dict[str, Any], arrays: Numbers) -> GPA:
    """The estimator; everything is checked on the way, so that what is returned can be used."""
    gpa: GPA = CLASSES[header["class"]](**header["settings"])
    gpa.check_settings()
    observations = _observations_from(header, arrays)
    n, m, d = len(observations.clouds), len(observations.landmarks), observations.dimension
    part = arrays.whole("part", None, most=n - 1)
    if np.any(np.diff(part) <= 0):
        raise Unsound("part is not in ascending order")
    with warnings.catch_warnings():  # they were given when it was fitted
        warnings.simplefilter("ignore", KernelGPAWarning)
        problem = problem_of(observations, part)
    gauge = _gauge_from(header, arrays, len(problem.landmarks), len(part), d)
    positions = arrays.floats("map_", m, d, unknown=True)
    known = positions[problem.counts > 0]
    if not np.isfinite(known).all():
        raise Unsound("map_ has no position for a landmark that was seen")
    if not np.ptp(known, axis=0).max() > 1 / MOST:
        raise Unsound("all landmarks of map_ coincide")
    if not gauge.scales[0] > 0:
        raise Unsound("the first of scales_ is 0")
    faithful = _faithful_from(header, gauge)
    gpa._store(
        Registration(
            problem,
            gauge,
            _spectrum_from(header, arrays, len(problem.landmarks), d),
            _warps_from(header, arrays, gpa, n, d),
            positions,
            arrays.rotations("rotations_", n, d, d),
            arrays.floats("translations_", n, d),
            arrays.floats("size_factors_", n, least=1 / MOST),
            _statistics_from(arrays, problem),
            _family_from(gpa, header),
            number(header["smoothing"], "smoothing", least=0),
            faithful,
        )
    )
    return gpa


def _family_from(gpa: GPA, header: dict[str, Any]) -> Family:
    if not isinstance(gpa, DeformableGPA):
        return AffineFamily()
    family = gpa.family()
    smaller = gpa.smaller_family(family)
    if header["inducing"] != getattr(family, "inducing", None) and smaller is not None:
        family = smaller  # memory was short when it was fitted
    if header["inducing"] != getattr(family, "inducing", None):
        raise Unsound(f"inducing is {header['inducing']!r}, which is not what the settings say")
    return family


def _statistics_from(arrays: Numbers, problem: Problem) -> WarpStatistics:
    visible = problem.observations.visible
    n, m = visible.shape
    found = WarpStatistics(
        arrays.floats("weights_", n, m, least=0),
        arrays.floats("residuals_", n, m, least=0, unknown=True),
        arrays.floats("standardised_residuals_", n, m, least=0, unknown=True),
        arrays.floats("inducing_errors_", n, least=0, unknown=True),
    )
    if not np.array_equal(arrays.whole("shared_landmarks_", None, most=m - 1), problem.landmarks):
        raise Unsound("shared_landmarks_ are not the landmarks that clouds share")
    if np.isfinite(found.residuals[~visible]).any() or np.isfinite(found.standardised_residuals[~visible]).any():
        raise Unsound("an observation that was not made has a residual")
    used, given = found.weights[:, problem.landmarks], problem.observations.weights[:, problem.landmarks]
    if np.any(used > 2 * given) or np.any(used < 0.5 * LEAST_FACTOR * given):  # robust fits lower what was given
        raise Unsound("weights_ do not fit the weights that were given")
    return found


def _faithful_from(header: dict[str, Any], gauge: Gauge) -> Faithful | None:
    price = header["faithful"]
    if price is None:
        return None
    if not isinstance(price, list) or len(price) != 2:
        raise Unsound("faithful is no pair")
    return Faithful(gauge, number(price[0], "gamma", least=0), number(price[1], "excess", unknown=True))


def _spectrum_from(header: dict[str, Any], arrays: Numbers, m: int, d: int) -> Spectrum:
    found = header["spectrum"]
    if not isinstance(found, dict) or set(found) - {"thinness"} != {"top", "dimension", "solver"}:
        raise Unsound("spectrum has other entries than a spectrum")
    thinness = number(found.get("thinness", 1.0), "thinness", least=FLAT)  # files of 0.1 have none
    if thinness > 1:
        raise Unsound(f"the thinness is {thinness:g}")
    if not is_whole(found["dimension"], 1, d) or not isinstance(found["solver"], str):
        raise Unsound(f"the spectrum has dimension {found['dimension']!r}")
    values, vectors = arrays.floats("spectrum_values", None), arrays.floats("spectrum_vectors", m, None)
    if len(values) <= found["dimension"]:
        raise Unsound(f"the spectrum has {len(values)} values")
    top = number(found["top"], "top", least=0)
    return Spectrum(values, vectors, top, found["dimension"], found["solver"], thinness=thinness)


def _about(header: dict[str, Any]) -> dict[str, Any]:
    """What was kept with a model: a unit, a frame, a title, and notes."""
    about = header["about"]
    if not isinstance(about, dict):
        raise Unsound("about is no object")
    texts = [about.get(name) for name in ("unit", "frame", "title")]
    notes = about.get("notes", [])
    if not all(one is None or isinstance(one, str) for one in texts) or not isinstance(notes, list):
        raise Unsound("the unit, frame, title and notes are not texts")
    if not all(isinstance(one, str) for one in notes):
        raise Unsound("a note is no text")
    return dict(about)


# -- the parts --


def settings_of(gpa: GPA) -> dict[str, Any]:
    settings = gpa.get_params(deep=False)
    kernel = settings.get("kernel", "gaussian")
    named = {value: name for name, value in KERNELS.items()}
    if not isinstance(kernel, str):
        if kernel not in named:
            raise InvalidSetting(f"kernel {kernel!r} has no name and cannot be saved; use one of {', '.join(KERNELS)}")
        settings["kernel"] = named[kernel]
    return {name: value.item() if isinstance(value, np.generic) else value for name, value in settings.items()}


def _kernel_name(gpa: GPA) -> str | None:
    kernel = getattr(gpa.family_, "kernel", None)
    return next((name for name, value in KERNELS.items() if value == kernel), None)


def _observations_to(observations: Observations) -> Arrays:
    clouds = observations.clouds
    return {
        "cloud_sizes": np.array([len(cloud.seen) for cloud in clouds]),
        "cloud_seen": np.concatenate([cloud.seen for cloud in clouds]),
        "cloud_points": np.concatenate([cloud.points for cloud in clouds]),
        "cloud_weights": np.concatenate([cloud.weights for cloud in clouds]),
        "cloud_resolutions": np.array([cloud.resolution for cloud in clouds]),
    }


def _observations_from(header: dict[str, Any], arrays: Numbers) -> Observations:
    d = header["dimension"]
    if not is_whole(d, 2, 3):
        raise Unsound(f"the dimension is {d!r}")
    names, landmarks = names_of(header["clouds"], "clouds"), names_of(header["landmarks"], "landmarks")
    n, m = len(names), len(landmarks)
    sizes = arrays.whole("cloud_sizes", n, least=d + 1, most=m)
    seen = split(arrays.whole("cloud_seen", None, most=m - 1), sizes, "cloud_seen")
    if any(np.any(np.diff(one) <= 0) for one in seen):
        raise Unsound("cloud_seen is not in ascending order")
    points = split(arrays.floats("cloud_points", None, d), sizes, "cloud_points")
    weights = split(arrays.floats("cloud_weights", None, least=LEAST_WEIGHT), sizes, "cloud_weights")
    resolutions = arrays.floats("cloud_resolutions", n, least=0)
    clouds = tuple(
        Cloud(names[t], frozen(seen[t], np.intp), frozen(points[t]), frozen(weights[t]), float(resolutions[t]))
        for t in range(n)
    )
    return Observations(clouds, landmarks, d)._checked()._with_comparable_weights()


def _gauge_to(gauge: Gauge) -> Arrays:
    return {
        "gauge_map": gauge.map,
        "gauge_scales": gauge.scales,
        "gauge_rotations": gauge.rotations,
        "gauge_translations": gauge.translations,
        "gauge_numbers": np.array([np.nan, gauge.iterations]),  # the first number was the cost, which is not kept
    }


def _gauge_from(header: dict[str, Any], arrays: Numbers, m: int, n: int, d: int) -> Gauge:
    """The map of m landmarks, from n clouds."""
    iterations = arrays.floats("gauge_numbers", 2, unknown=True).tolist()[1]
    return Gauge(
        arrays.floats("gauge_map", m, d),
        arrays.floats("gauge_scales", d, least=0),
        arrays.rotations("gauge_rotations", n, d, d),
        arrays.floats("gauge_translations", n, d),
        int(number(iterations, "the number of iterations", least=0)),
        None if header["ending"] is None else Termination[header["ending"]],
    )


def _warps_to(warps: list[Warp]) -> Arrays:
    d = warps[0].coefficients.shape[1]
    parts = [warp.kernel_part for warp in warps]
    none = np.zeros((0, d))
    return {
        "warp_coefficients": np.stack([warp.coefficients for warp in warps]),
        "warp_centre": np.stack([warp.frame.centre for warp in warps]),
        "warp_axes": np.stack([warp.frame.axes for warp in warps]),
        "warp_spread": np.stack([warp.frame.spread for warp in warps]),
        "warp_size": np.array([warp.frame.size for warp in warps]),
        "warp_rank": np.array([warp.frame.rank for warp in warps]),
        "kernel_sizes": np.array([-1 if part is None else len(part.centres) for part in parts]),
        "kernel_sigma": np.array([0.0 if part is None else part.sigma for part in parts]),
        "kernel_centres": np.concatenate([none if part is None else part.centres for part in parts]),
        "kernel_weights": np.concatenate([none if part is None else part.weights for part in parts]),
    }


def _warps_from(header: dict[str, Any], arrays: Numbers, gpa: GPA, n: int, d: int) -> list[Warp]:
    sizes = arrays.whole("kernel_sizes", n, least=-1)
    kernel = _kernel(header, gpa, d) if np.any(sizes >= 0) else None
    rows = np.maximum(sizes, 0)
    centres = split(arrays.floats("kernel_centres", None, d), rows, "kernel_centres")
    weights = split(arrays.floats("kernel_weights", None, d), rows, "kernel_weights")
    sigmas = arrays.floats("kernel_sigma", n, least=0)
    if np.any(sigmas[sizes >= 0] < 1 / MOST):
        raise Unsound("a kernel has no width")
    coefficients = arrays.floats("warp_coefficients", n, d + 1, d)
    frames = zip(
        arrays.floats("warp_centre", n, d),
        arrays.floats("warp_size", n, least=1 / MOST),
        arrays.orthonormal("warp_axes", n, d, d),
        arrays.whole("warp_rank", n, least=1, most=d),
        arrays.floats("warp_spread", n, d, least=0),
        strict=True,
    )
    warps = []
    for t, (centre, size, axes, rank, spread) in enumerate(frames):
        part = None if kernel is None or sizes[t] < 0 else KernelPart(kernel, centres[t], float(sigmas[t]), weights[t])
        warps.append(Warp(Frame(centre, float(size), axes, int(rank), spread), coefficients[t], part))
    return warps


def _kernel(header: dict[str, Any], gpa: GPA, dimension: int) -> Kernel:
    """The kernel of the warps, which must be that of the settings."""
    kernel = getattr(gpa.family(), "kernel", None) if isinstance(gpa, DeformableGPA) else None
    name = next((name for name, value in KERNELS.items() if value == kernel), None)
    if header.get("kernel") != name or isinstance(gpa, AffineGPA | RigidGPA):
        raise Unsound(f"the warps have the kernel {header.get('kernel')!r}, which is not what the settings say")
    return ThinPlate(dimension) if kernel is None else kernel

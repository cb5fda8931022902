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
from ..estimators.base import GPA
from ..estimators.deformable import DeformableGPA
from ..estimators.models import TPSGPA, AffineGPA, KernelGPA, RigidGPA
from ..estimators.robust import FAINTEST
from ..estimators.screening import Problem, problem_of
from ..gauge.faithful import Faithful
from ..gauge.principal_axes import Gauge
from ..gauge.rotations import Ending
from ..observations.arrays import frozen
from ..observations.checks import LEAST_WEIGHT
from ..observations.cloud import Cloud
from ..observations.collection import Observations
from ..observations.geometry import FLAT, Frame
from ..spectrum.eigenpairs import Spectrum
from ..version import __version__
from ..warps import KernelFamily, KernelPart, Warp
from ..warps.kernels import KERNELS, Kernel, ThinPlate
from .archive import pack_arrays, read_arrays
from .validation import LARGEST, CheckedArrays, InvalidRecord, checked_names, checked_number, is_integer, split_rows

FORMAT = 1  # raised when a reader of before would misunderstand
METHODS: dict[type[GPA], str] = {RigidGPA: "rigid", AffineGPA: "affine", TPSGPA: "tps", KernelGPA: "kernel"}
CLASSES = {one.__name__: one for one in METHODS}
PLAIN = ("map_", "scales_", "rotations_", "translations_", "eigenvalues_")
OF_BENT = ("weights_", "residuals_", "standardised_residuals_", "inducing_errors_", "shared_landmarks_")
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
        "ending": None if gpa.gauge_.ending is None else gpa.gauge_.ending.name,
        "about": about or {},
    }
    arrays: Arrays = {name: getattr(gpa, name) for name in PLAIN}
    arrays |= _observations_to(gpa.observations_) | _gauge_to(gpa.gauge_) | {"part": gpa.problem_.part}
    arrays |= _warps_to(gpa.warps_)
    if isinstance(gpa, DeformableGPA):
        arrays |= {name: getattr(gpa, name) for name in OF_BENT}
        header["kernel"] = _kernel_name(gpa)
        header["smoothing"] = gpa.smoothing_
        header["inducing"] = getattr(gpa.family_, "inducing", None)
        header["faithful"] = None if gpa.faithful_ is None else [gpa.faithful_.gamma, gpa.faithful_.excess]
        if gpa.spectrum_ is not None:
            spectrum = asdict(replace(gpa.spectrum_, space=None))
            del spectrum["space"]  # a help for solves that follow, and no result
            arrays |= {f"spectrum_{name}": spectrum.pop(name) for name in ("values", "vectors")}
            header["spectrum"] = spectrum
    elif isinstance(gpa, RigidGPA):
        arrays["size_factors_"] = gpa.size_factors_
    return pack_arrays({"header": np.array(json.dumps(header)), **arrays})


def from_bytes(data: bytes, source: str) -> tuple[GPA, dict[str, Any]]:
    """The registration that :func:`to_bytes` wrote, and what was kept with it."""
    return from_arrays(read_arrays(data, source), source)


def from_arrays(arrays: Arrays, source: str) -> tuple[GPA, dict[str, Any]]:
    """The same from the arrays of the file."""
    header = _header(arrays, source)
    try:
        return _restored(header, CheckedArrays(arrays)), _about(header)
    except KernelGPAError:
        raise
    except InvalidRecord as error:
        raise FormatError(source, None, f"it is broken ({error})", "register again") from error
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise FormatError(source, None, f"it is broken ({type(error).__name__}: {error})", "register again") from error


def is_model(data: bytes) -> bool:
    """Whether a file is a model of this library, of whatever format."""
    try:
        return "kernelgpa" in json.loads(str(read_arrays(data, "model", ["header"])["header"]))
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


def _restored(header: dict[str, Any], arrays: CheckedArrays) -> GPA:
    """The estimator; everything is checked on the way, so that what is returned can be used."""
    gpa: GPA = CLASSES[header["class"]](**header["settings"])
    gpa.check_settings()
    observations = _observations_from(header, arrays)
    n, m, d = len(observations.clouds), len(observations.landmarks), observations.dimension
    part = arrays.integers("part", None, most=n - 1)
    if np.any(np.diff(part) <= 0):
        raise InvalidRecord("part is not in ascending order")
    with warnings.catch_warnings():  # they were given when it was fitted
        warnings.simplefilter("ignore", KernelGPAWarning)
        problem = problem_of(observations, part)
    gauge = _gauge_from(header, arrays, len(problem.landmarks), len(part), d)
    fitted: dict[str, Any] = {
        "map_": arrays.floats("map_", m, d, allow_nan=True),
        "scales_": arrays.floats("scales_", d, least=0),
        "rotations_": arrays.rotations("rotations_", n, d, d),
        "translations_": arrays.floats("translations_", n, d),
        "eigenvalues_": arrays.floats("eigenvalues_", d + 1, allow_nan=True),
        "problem_": problem,
        "observations_": observations,
        "gauge_": gauge,
        "warps_": _warps_from(header, arrays, gpa, n, d),
        "mirrored_": [observations.names[t] for t in problem.mirrored],
    }
    places = fitted["map_"][problem.counts > 0]
    if not np.isfinite(places).all():
        raise InvalidRecord("map_ has no place for a landmark that was seen")
    if not np.ptp(places, axis=0).max() > 1 / LARGEST:
        raise InvalidRecord("all landmarks of map_ are in one place")
    if not fitted["scales_"][0] > 0:
        raise InvalidRecord("the first of scales_ is 0")
    if isinstance(gpa, DeformableGPA):
        fitted |= _bent_from(gpa, header, arrays, problem, gauge)
    else:
        fitted["size_factors_"] = arrays.floats("size_factors_", n, least=1 / LARGEST)
    gpa._keep(fitted)
    return gpa


def _bent_from(
    gpa: DeformableGPA, header: dict[str, Any], arrays: CheckedArrays, problem: Problem, gauge: Gauge
) -> dict[str, Any]:
    observations, visible = problem.observations, problem.observations.visible
    n, m = visible.shape
    family = gpa.family()
    smaller = gpa.smaller(family)
    if isinstance(family, KernelFamily) and header["inducing"] != family.inducing and smaller is not None:
        family = smaller  # memory was short when it was fitted
    if header["inducing"] != getattr(family, "inducing", None):
        raise InvalidRecord(f"inducing is {header['inducing']!r}, which is not what the settings say")
    found = {
        "weights_": arrays.floats("weights_", n, m, least=0),
        "residuals_": arrays.floats("residuals_", n, m, least=0, allow_nan=True),
        "standardised_residuals_": arrays.floats("standardised_residuals_", n, m, least=0, allow_nan=True),
        "inducing_errors_": arrays.floats("inducing_errors_", n, least=0, allow_nan=True),
        "shared_landmarks_": arrays.integers("shared_landmarks_", None, most=m - 1),
    }
    if not np.array_equal(found["shared_landmarks_"], problem.landmarks):
        raise InvalidRecord("shared_landmarks_ are not the landmarks that clouds share")
    if any(np.isfinite(found[name][~visible]).any() for name in ("residuals_", "standardised_residuals_")):
        raise InvalidRecord("an observation that was not made has a residual")
    used, given = found["weights_"][:, problem.landmarks], observations.weights[:, problem.landmarks]
    if np.any(used > 2 * given) or np.any(used < 0.5 * FAINTEST * given):  # robust fits lower what was given
        raise InvalidRecord("weights_ do not fit the weights that were given")
    price = header["faithful"]
    if price is not None and (not isinstance(price, list) or len(price) != 2):
        raise InvalidRecord("faithful is no pair")
    return {
        **found,
        "family_": family,
        "smoothing_": checked_number(header["smoothing"], "smoothing", least=0),
        "spectrum_": _spectrum_from(header, arrays, len(problem.landmarks), observations.dimension),
        "faithful_": None
        if price is None
        else Faithful(
            gauge, checked_number(price[0], "gamma", least=0), checked_number(price[1], "excess", allow_nan=True)
        ),
    }


def _spectrum_from(header: dict[str, Any], arrays: CheckedArrays, m: int, d: int) -> Spectrum | None:
    found = header.get("spectrum")
    if found is None:
        return None
    if not isinstance(found, dict) or set(found) - {"thinness"} != {"top", "dimension", "solver"}:
        raise InvalidRecord("spectrum has other entries than a spectrum")
    thinness = checked_number(found.get("thinness", 1.0), "thinness", least=FLAT)  # files of 0.1 have none
    if thinness > 1:
        raise InvalidRecord(f"the thinness is {thinness:g}")
    if not is_integer(found["dimension"], 1, d) or not isinstance(found["solver"], str):
        raise InvalidRecord(f"the spectrum has dimension {found['dimension']!r}")
    values, vectors = arrays.floats("spectrum_values", None), arrays.floats("spectrum_vectors", m, None)
    if len(values) <= found["dimension"]:
        raise InvalidRecord(f"the spectrum has {len(values)} values")
    top = checked_number(found["top"], "top", least=0)
    return Spectrum(values, vectors, top, found["dimension"], found["solver"], thinness=thinness)


def _about(header: dict[str, Any]) -> dict[str, Any]:
    """What was kept with a model: a unit, a frame, a title, and notes."""
    about = header["about"]
    if not isinstance(about, dict):
        raise InvalidRecord("about is no object")
    texts = [about.get(name) for name in ("unit", "frame", "title")]
    notes = about.get("notes", [])
    if not all(one is None or isinstance(one, str) for one in texts) or not isinstance(notes, list):
        raise InvalidRecord("the unit, frame, title and notes are not texts")
    if not all(isinstance(one, str) for one in notes):
        raise InvalidRecord("a note is no text")
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


def _kernel_name(gpa: DeformableGPA) -> str | None:
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


def _observations_from(header: dict[str, Any], arrays: CheckedArrays) -> Observations:
    d = header["dimension"]
    if not is_integer(d, 2, 3):
        raise InvalidRecord(f"the dimension is {d!r}")
    names, landmarks = checked_names(header["clouds"], "clouds"), checked_names(header["landmarks"], "landmarks")
    n, m = len(names), len(landmarks)
    sizes = arrays.integers("cloud_sizes", n, least=d + 1, most=m)
    seen = split_rows(arrays.integers("cloud_seen", None, most=m - 1), sizes, "cloud_seen")
    if any(np.any(np.diff(one) <= 0) for one in seen):
        raise InvalidRecord("cloud_seen is not in ascending order")
    points = split_rows(arrays.floats("cloud_points", None, d), sizes, "cloud_points")
    weights = split_rows(arrays.floats("cloud_weights", None, least=LEAST_WEIGHT), sizes, "cloud_weights")
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
        "gauge_numbers": np.array([gauge.cost, gauge.iterations]),
    }


def _gauge_from(header: dict[str, Any], arrays: CheckedArrays, m: int, n: int, d: int) -> Gauge:
    """The map of m landmarks, from n clouds."""
    cost, iterations = arrays.floats("gauge_numbers", 2, allow_nan=True).tolist()
    return Gauge(
        arrays.floats("gauge_map", m, d),
        arrays.floats("gauge_scales", d, least=0),
        arrays.rotations("gauge_rotations", n, d, d),
        arrays.floats("gauge_translations", n, d),
        cost,
        int(checked_number(iterations, "the number of iterations", least=0)),
        None if header["ending"] is None else Ending[header["ending"]],
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


def _warps_from(header: dict[str, Any], arrays: CheckedArrays, gpa: GPA, n: int, d: int) -> list[Warp]:
    sizes = arrays.integers("kernel_sizes", n, least=-1)
    kernel = _kernel(header, gpa, d) if np.any(sizes >= 0) else None
    rows = np.maximum(sizes, 0)
    centres = split_rows(arrays.floats("kernel_centres", None, d), rows, "kernel_centres")
    weights = split_rows(arrays.floats("kernel_weights", None, d), rows, "kernel_weights")
    sigmas = arrays.floats("kernel_sigma", n, least=0)
    if np.any(sigmas[sizes >= 0] < 1 / LARGEST):
        raise InvalidRecord("a kernel has no width")
    coefficients = arrays.floats("warp_coefficients", n, d + 1, d)
    frames = zip(
        arrays.floats("warp_centre", n, d),
        arrays.floats("warp_size", n, least=1 / LARGEST),
        arrays.orthonormal("warp_axes", n, d, d),
        arrays.integers("warp_rank", n, least=1, most=d),
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
        raise InvalidRecord(f"the warps have the kernel {header.get('kernel')!r}, which is not what the settings say")
    return ThinPlate(dimension) if kernel is None else kernel

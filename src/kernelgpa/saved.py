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

from .deformable import DeformableGPA
from .errors import FormatError, InvalidSetting, KernelGPAError, KernelGPAWarning
from .estimators import TPSGPA, AffineGPA, KernelGPA, RigidGPA
from .faithful import Faithful
from .frames import Array, Frame, IndexArray, frozen
from .gauge import Gauge
from .io.npz import arrays_in, packed
from .kernels import KERNELS, Kernel, ThinPlate
from .observations import Cloud, Observations
from .registration import GPA
from .rotations import Ending
from .scene import scene_of
from .spectral import Spectrum
from .version import __version__
from .warps import KernelFamily, KernelPart, Warp

FORMAT = 1  # raised when a reader of before would misunderstand
METHODS: dict[type[GPA], str] = {RigidGPA: "rigid", AffineGPA: "affine", TPSGPA: "tps", KernelGPA: "kernel"}
CLASSES = {one.__name__: one for one in METHODS}
PLAIN = ("map_", "scales_", "rotations_", "translations_", "eigenvalues_")
OF_BENT = ("weights_", "residuals_", "deviations_", "inducing_errors_", "solved_")
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
    arrays |= _observations_to(gpa.observations_) | _gauge_to(gpa.gauge_) | {"part": gpa.scene_.part}
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
        arrays["factors_"] = gpa.factors_
    return packed({"header": np.array(json.dumps(header)), **arrays})


def from_bytes(data: bytes, source: str) -> tuple[GPA, dict[str, Any]]:
    """The registration that :func:`to_bytes` wrote, and what was kept with it."""
    arrays = arrays_in(data, source)
    header = _header(arrays, source)
    try:
        return _restored(header, arrays), header["about"]
    except KernelGPAError:
        raise
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


def _restored(header: dict[str, Any], arrays: Arrays) -> GPA:
    gpa: GPA = CLASSES[header["class"]](**header["settings"])
    gpa.check_settings()
    observations = _observations_from(header, arrays)
    gauge = _gauge_from(header, arrays)
    with warnings.catch_warnings():  # they were given when it was fitted
        warnings.simplefilter("ignore", KernelGPAWarning)
        scene = scene_of(observations, _indices(arrays["part"]))
    fitted: dict[str, Any] = {name: _floats(arrays[name]) for name in PLAIN}
    fitted |= {
        "scene_": scene,
        "observations_": observations,
        "gauge_": gauge,
        "warps_": _warps_from(header, arrays),
        "mirrored_": [observations.names[t] for t in scene.mirrored],
    }
    if isinstance(gpa, DeformableGPA):
        fitted |= {name: _floats(arrays[name]) for name in OF_BENT} | {"solved_": _indices(arrays["solved_"])}
        fitted |= _bent_from(gpa, header, arrays, gauge)
    else:
        fitted["factors_"] = _floats(arrays["factors_"])
    _require_whole(fitted, observations)
    gpa._keep(fitted)
    return gpa


def _require_whole(fitted: dict[str, Any], observations: Observations) -> None:
    """Shapes that belong together, and warps that can be evaluated; a ValueError otherwise."""
    n, m, d = len(observations.clouds), len(observations.landmarks), observations.dimension
    shapes = {"map_": (m, d), "scales_": (d,), "rotations_": (n, d, d), "translations_": (n, d)}
    for name, shape in shapes.items():
        if fitted[name].shape != shape:
            raise ValueError(f"{name} has shape {fitted[name].shape}")
    if not np.isfinite(fitted["rotations_"]).all() or not np.isfinite(fitted["translations_"]).all():
        raise ValueError("a pose is not finite")
    if len(fitted["warps_"]) != n:
        raise ValueError(f"{len(fitted['warps_'])} warps for {n} clouds")
    for warp in fitted["warps_"]:
        parts = [warp.coefficients, warp.frame.centre, warp.weights, warp.centres]
        if not all(np.isfinite(part).all() for part in parts) or not 0 < warp.frame.size < np.inf:
            raise ValueError("a warp is not finite")
        if warp.kernel_part is not None and not 0 < warp.kernel_part.sigma < np.inf:
            raise ValueError("a kernel without a width")


def _bent_from(gpa: DeformableGPA, header: dict[str, Any], arrays: Arrays, gauge: Gauge) -> dict[str, Any]:
    family = gpa.family()
    smaller = gpa.smaller(family)
    if isinstance(family, KernelFamily) and header["inducing"] != family.inducing and smaller is not None:
        family = smaller  # memory was short when it was fitted
    spectrum = None
    if "spectrum" in header:
        values, vectors = (_floats(arrays[f"spectrum_{name}"]) for name in ("values", "vectors"))
        spectrum = Spectrum(values, vectors, **header["spectrum"])
    price = header["faithful"]
    return {
        "family_": family,
        "smoothing_": float(header["smoothing"]),
        "spectrum_": spectrum,
        "faithful_": None if price is None else Faithful(gauge, *map(float, price)),
    }


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


def _observations_from(header: dict[str, Any], arrays: Arrays) -> Observations:
    ends = np.cumsum(_indices(arrays["cloud_sizes"]))[:-1]
    seen, points, weights = (
        np.split(one, ends)
        for one in (
            _indices(arrays["cloud_seen"]),
            _floats(arrays["cloud_points"]),
            _floats(arrays["cloud_weights"]),
        )
    )
    clouds = tuple(
        Cloud(name, frozen(seen[t], np.intp), frozen(points[t]), frozen(weights[t]), float(resolution))
        for t, (name, resolution) in enumerate(zip(header["clouds"], _floats(arrays["cloud_resolutions"]), strict=True))
    )
    return Observations(clouds, tuple(header["landmarks"]), int(header["dimension"]))._checked()


def _gauge_to(gauge: Gauge) -> Arrays:
    return {
        "gauge_map": gauge.map,
        "gauge_scales": gauge.scales,
        "gauge_rotations": gauge.rotations,
        "gauge_translations": gauge.translations,
        "gauge_numbers": np.array([gauge.cost, gauge.iterations]),
    }


def _gauge_from(header: dict[str, Any], arrays: Arrays) -> Gauge:
    places, scales, rotations, translations = (
        _floats(arrays[f"gauge_{name}"]) for name in ("map", "scales", "rotations", "translations")
    )
    cost, iterations = _floats(arrays["gauge_numbers"])
    ending = None if header["ending"] is None else Ending[header["ending"]]
    return Gauge(places, scales, rotations, translations, float(cost), int(iterations), ending)


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


def _warps_from(header: dict[str, Any], arrays: Arrays) -> list[Warp]:
    sizes = _indices(arrays["kernel_sizes"])
    ends = np.cumsum(np.maximum(sizes, 0))[:-1]
    centres, weights = (np.split(_floats(arrays[f"kernel_{name}"]), ends) for name in ("centres", "weights"))
    frames = [_floats(arrays[f"warp_{name}"]) for name in ("centre", "size", "axes", "rank", "spread")]
    warps = []
    for t, coefficients in enumerate(_floats(arrays["warp_coefficients"])):
        centre, size, axes, rank, spread = (one[t] for one in frames)
        part = None
        if sizes[t] < -1:
            raise ValueError("a warp with fewer than no centres")
        if sizes[t] >= 0:
            kernel = _kernel(header["kernel"], int(header["dimension"]))
            part = KernelPart(kernel, centres[t], float(_floats(arrays["kernel_sigma"])[t]), weights[t])
        warps.append(Warp(Frame(centre, float(size), axes, int(rank), spread), coefficients, part))
    return warps


def _kernel(name: str | None, dimension: int) -> Kernel:
    return ThinPlate(dimension) if name is None else KERNELS[name]


def _floats(array: npt.NDArray[np.generic]) -> Array:
    return array.astype(np.float64)


def _indices(array: npt.NDArray[np.generic]) -> IndexArray:
    return array.astype(np.intp)

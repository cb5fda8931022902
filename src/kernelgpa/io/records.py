"""Records to named arrays and back, for saved models and for checkpoints of streams.

A file is an NPZ archive: numbers are arrays; names, settings and single values are one JSON text, ``header``.  Nothing
is pickled.  Everything is checked on reading, so that the records can be used without further checks.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import Any, NamedTuple

import numpy as np

from ..errors import FormatError, InvalidSetting, KernelGPAError
from ..estimators.automatic import AutomaticChoice
from ..gauge.certificate import Certificate
from ..gauge.principal_axes import Gauge
from ..gauge.rotations import Termination
from ..observations.arrays import frozen
from ..observations.checks import LEAST_WEIGHT
from ..observations.cloud import Cloud
from ..observations.geometry import FLAT, Frame
from ..spectrum.eigenpairs import Spectrum
from ..typing import Array, Name
from ..warps import KernelPart, Warp
from ..warps.kernels import Kernel
from .archive import Arrays, pack_arrays, read_arrays
from .validation import LARGEST_NUMBER, CheckedArrays, InvalidRecord, checked_number, is_integer, split_rows

Header = dict[str, Any]


# -- the file --


@dataclass(frozen=True)
class FileKind:
    """One kind of file: a saved model, or a checkpoint of a stream."""

    key: str  # of the header, under which the number of its format is stored
    format: int  # raised if an older reader would misunderstand the file
    what: str
    expected: str
    again: str  # what to do if the file cannot be read

    def pack(self, header: Header, arrays: Arrays) -> bytes:
        """Return the bytes of a file."""
        try:
            text = json.dumps({self.key: self.format, "kernelgpa": version("kernelgpa"), **header})
        except (TypeError, ValueError) as problem:
            raise InvalidSetting(
                f"what is saved beside the {self.what} cannot be written as JSON ({problem}); give numbers, strings, "
                "lists and dictionaries"
            ) from None
        return pack_arrays({"header": np.array(text), **arrays})

    def is_kind(self, data: bytes) -> bool:
        """Whether bytes are a file of this kind, in whatever format."""
        try:
            self._versions(read_arrays(data, self.what, ["header"]), self.what)
        except KernelGPAError:
            return False
        return True

    def header(self, arrays: Arrays, source: str) -> Header:
        """Return the header of a file in the format that this release reads."""
        header, format_, version = self._versions(arrays, source)
        if format_ != self.format:
            found = f"it was written by kernelgpa {version[:20]} in format {format_}, and this release reads format"
            raise FormatError(source, None, f"{found} {self.format}", f"use that release, or {self.again}")
        return header

    def _versions(self, arrays: Arrays, source: str) -> tuple[Header, int, str]:
        try:
            header = json.loads(str(arrays["header"]))
            return dict(header), int(header[self.key]), str(header["kernelgpa"])
        except (KeyError, ValueError, TypeError, RecursionError, ArithmeticError):
            raise FormatError(source, None, f"it is no {self.what} of kernelgpa", self.expected) from None

    @contextmanager
    def checking(self, source: str) -> Iterator[None]:
        """Report what is wrong with a corrupt file as a FormatError."""
        try:
            yield
        except KernelGPAError:
            raise
        except InvalidRecord as error:
            raise FormatError(source, None, f"it is corrupt ({error})", self.again) from error
        except (KeyError, IndexError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
            found = f"it is corrupt ({type(error).__name__}: {error})"
            raise FormatError(source, None, found, self.again) from error


def require_saveable(names: Iterable[Name]) -> None:
    """Raise an error unless JSON can hold the names."""
    for name in names:
        if not isinstance(name, str | int) or isinstance(name, bool):
            raise InvalidSetting(f"the name {name!r} cannot be saved; name clouds and landmarks by texts or integers")


def checked_dimension(header: Header) -> int:
    d = header["dimension"]
    if not is_integer(d, 2, 3):
        raise InvalidRecord(f"the dimension is {d!r}")
    return int(d)


# -- clouds --


def clouds_to_arrays(clouds: Sequence[Cloud], dimension: int) -> Arrays:
    return {
        "cloud_sizes": np.array([len(cloud.seen) for cloud in clouds], dtype=np.intp),
        "cloud_seen": np.concatenate([np.zeros(0, dtype=np.intp), *(cloud.seen for cloud in clouds)]),
        "cloud_points": np.concatenate([np.zeros((0, dimension)), *(cloud.points for cloud in clouds)]),
        "cloud_weights": np.concatenate([np.zeros(0), *(cloud.weights for cloud in clouds)]),
        "cloud_resolutions": np.array([cloud.resolution for cloud in clouds], dtype=np.float64),
    }


def clouds_from_arrays(
    arrays: CheckedArrays, names: Sequence[Name], landmarks: int, dimension: int, least_seen: int = 0
) -> tuple[Cloud, ...]:
    """Return the clouds with these names, over a number of landmarks."""
    n = len(names)
    sizes = arrays.integers("cloud_sizes", n, least=least_seen, most=landmarks)
    seen = split_rows(arrays.integers("cloud_seen", None, most=landmarks - 1), sizes, "cloud_seen")
    if any(np.any(np.diff(one) <= 0) for one in seen):
        raise InvalidRecord("cloud_seen is not in ascending order")
    points = split_rows(arrays.floats("cloud_points", None, dimension), sizes, "cloud_points")
    weights = split_rows(arrays.floats("cloud_weights", None, least=LEAST_WEIGHT), sizes, "cloud_weights")
    resolutions = arrays.floats("cloud_resolutions", n, least=0).tolist()
    return tuple(
        Cloud(names[t], frozen(seen[t], np.intp), frozen(points[t]), frozen(weights[t]), resolutions[t])
        for t in range(n)
    )


def on_seen_landmarks(clouds: Sequence[Cloud], names: Sequence[Name]) -> tuple[list[Cloud], list[Name]]:
    """Return clouds over the landmarks that at least one of them sees, and the names of these."""
    seen = np.unique(np.concatenate([np.zeros(0, dtype=np.intp), *(cloud.seen for cloud in clouds)]))
    renumbered = [replace(cloud, seen=np.searchsorted(seen, cloud.seen)) for cloud in clouds]
    return renumbered, [names[i] for i in seen.tolist()]


# -- maps and poses --


class MapRecord(NamedTuple):
    """A map and the poses of some clouds."""

    map: Array  # (m, d), NaN for landmarks without a position
    rotations: Array  # (n, d, d)
    translations: Array  # (n, d)

    def to_arrays(self) -> Arrays:
        return dict(self._asdict())

    @classmethod
    def from_arrays(cls, arrays: CheckedArrays, m: int, n: int, d: int) -> MapRecord:
        return cls(
            arrays.floats("map", m, d, allow_nan=True),
            arrays.rotations("rotations", n, d, d),
            arrays.floats("translations", n, d),
        )


def gauge_to_arrays(gauge: Gauge) -> tuple[Header, Arrays]:
    header = {
        "iterations": int(gauge.iterations),
        "termination": None if gauge.termination is None else gauge.termination.name,
    }
    names = ("map", "scales", "rotations", "translations")
    values = (gauge.map, gauge.scales, gauge.rotations, gauge.translations)
    return header, {f"gauge_{name}": value for name, value in zip(names, values, strict=True)}


def gauge_from_arrays(header: Header, arrays: CheckedArrays, m: int, n: int, d: int) -> Gauge:
    if not is_integer(header["iterations"], 0):
        raise InvalidRecord(f"the number of iterations is {header['iterations']!r}")
    scales = arrays.floats("gauge_scales", d, least=0)
    if not scales[0] > 0:
        raise InvalidRecord("the first of gauge_scales is 0")
    return Gauge(
        arrays.floats("gauge_map", m, d),
        scales,
        arrays.rotations("gauge_rotations", n, d, d),
        arrays.floats("gauge_translations", n, d),
        header["iterations"],
        None if header["termination"] is None else Termination[header["termination"]],
    )


def certificate_to_pair(certificate: Certificate | None) -> list[bool | float | None] | None:
    """Return the record; a gap that was not found is None, because JSON has no infinity."""
    if certificate is None:
        return None
    return [certificate.certified, certificate.gap if np.isfinite(certificate.gap) else None]


def choice_to_record(choice: AutomaticChoice | None) -> dict[str, Any] | None:
    """Return the choice of automatic settings as JSON can hold it."""
    if choice is None:
        return None
    numbers = {name: value if np.isfinite(value) else None for name, value in choice.numbers().items()}
    return {"settings": dict(choice.settings), **numbers}


def choice_from_record(record: object) -> AutomaticChoice | None:
    if record is None:
        return None
    if not isinstance(record, dict) or set(record) != {"settings", "error", "tail", "gain"}:
        raise InvalidRecord("choice is no record of automatic settings")
    settings = record["settings"]
    if not isinstance(settings, dict) or not set(settings) <= {"bandwidth", "smoothing", "robust"}:
        raise InvalidRecord("choice has settings that no fit chooses")
    for name, value in settings.items():
        if name == "robust" and not (value is None or isinstance(value, str)):
            raise InvalidRecord("choice has a robust loss that is no text")
        if name != "robust":
            checked_number(value, name, least=0)
    numbers = {
        name: np.nan if record[name] is None else checked_number(record[name], name)
        for name in ("error", "tail", "gain")
    }
    return AutomaticChoice(settings, **numbers)


def certificate_from_pair(pair: object) -> Certificate | None:
    if pair is None:
        return None
    if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[0], bool):
        raise InvalidRecord("certificate is no pair of a verdict and a gap")
    gap = np.inf if pair[1] is None else checked_number(pair[1], "the gap", least=0)
    if pair[0] and not gap < 1:
        raise InvalidRecord(f"the gap of a certified optimum is {gap:g}")
    return Certificate(pair[0], gap)


# -- spectrum --


def spectrum_to_arrays(spectrum: Spectrum) -> tuple[Header, Arrays]:
    """Return the record without its subspace, which only helps later solves."""
    header = {
        "top": float(spectrum.top),
        "dimension": int(spectrum.dimension),
        "solver": spectrum.solver,
        "thinness": float(spectrum.thinness),
    }
    return header, {"spectrum_values": spectrum.values, "spectrum_vectors": spectrum.vectors}


def spectrum_from_arrays(header: Header, arrays: CheckedArrays, m: int, d: int) -> Spectrum:
    if not isinstance(header, dict) or set(header) != {"top", "dimension", "solver", "thinness"}:
        raise InvalidRecord("spectrum has other entries than a spectrum")
    thinness = checked_number(header["thinness"], "thinness", least=FLAT)
    if thinness > 1:
        raise InvalidRecord(f"the thinness is {thinness:g}")
    if not is_integer(header["dimension"], 1, d) or not isinstance(header["solver"], str):
        raise InvalidRecord(f"the spectrum has dimension {header['dimension']!r}")
    values, vectors = arrays.floats("spectrum_values", None), arrays.floats("spectrum_vectors", m, None)
    if len(values) < min(header["dimension"] + 1, m - 1):  # a rigid fit may have d + 1 landmarks
        raise InvalidRecord(f"the spectrum has {len(values)} values")
    top = checked_number(header["top"], "top", least=0)
    return Spectrum(values, vectors, top, header["dimension"], header["solver"], thinness=thinness)


# -- warps --


def warps_to_arrays(warps: Sequence[Warp]) -> Arrays:
    d = warps[0].coefficients.shape[1]
    parts = [warp.kernel_part for warp in warps]
    empty = np.zeros((0, d))
    return {
        "warp_coefficients": np.stack([warp.coefficients for warp in warps]),
        "warp_centre": np.stack([warp.frame.centre for warp in warps]),
        "warp_axes": np.stack([warp.frame.axes for warp in warps]),
        "warp_spread": np.stack([warp.frame.spread for warp in warps]),
        "warp_size": np.array([warp.frame.size for warp in warps]),
        "warp_rank": np.array([warp.frame.rank for warp in warps]),
        "kernel_sizes": np.array([-1 if part is None else len(part.centres) for part in parts]),
        "kernel_sigma": np.array([0.0 if part is None else part.sigma for part in parts]),
        "kernel_centres": np.concatenate([empty if part is None else part.centres for part in parts]),
        "kernel_weights": np.concatenate([empty if part is None else part.weights for part in parts]),
    }


def warps_from_arrays(arrays: CheckedArrays, kernel: Kernel | None, n: int, d: int) -> list[Warp]:
    """Return warps with a kernel, or affine ones if it is None."""
    coefficients = arrays.floats("warp_coefficients", n, d + 1, d)
    frames = zip(
        arrays.floats("warp_centre", n, d),
        arrays.floats("warp_size", n, least=1 / LARGEST_NUMBER).tolist(),
        arrays.orthonormal("warp_axes", n, d, d),
        arrays.integers("warp_rank", n, least=1, most=d).tolist(),
        arrays.floats("warp_spread", n, d, least=0),
        strict=True,
    )
    parts = _kernel_parts(arrays, kernel, n, d)
    return [Warp(Frame(*frame), *more) for frame, *more in zip(frames, coefficients, parts, strict=True)]


def _kernel_parts(arrays: CheckedArrays, kernel: Kernel | None, n: int, d: int) -> list[KernelPart | None]:
    sizes = arrays.integers("kernel_sizes", n, least=-1)
    rows = np.maximum(sizes, 0)
    centres = split_rows(arrays.floats("kernel_centres", None, d), rows, "kernel_centres")
    weights = split_rows(arrays.floats("kernel_weights", None, d), rows, "kernel_weights")
    sigmas = arrays.floats("kernel_sigma", n, least=0)
    if kernel is None:
        if np.any(sizes >= 0):
            raise InvalidRecord("the warps have a kernel, which differs from the settings")
        return [None] * n
    if np.any(sigmas[sizes >= 0] < 1 / LARGEST_NUMBER):
        raise InvalidRecord("a kernel has no width")
    return [None if sizes[t] < 0 else KernelPart(kernel, centres[t], float(sigmas[t]), weights[t]) for t in range(n)]

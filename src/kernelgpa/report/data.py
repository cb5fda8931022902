"""A fitted registration as one plain structure that JSON can hold.

n clouds, m landmarks, d dimension, k landmarks whose images are drawn cloud by cloud.  Arrays travel as base64
of little-endian float32, divided by their largest entry where that is beyond the range of float32.

What the figures count: observations of clouds that take part in the map and, where the fit was robust, that it
did not set aside.  Landmarks that fewer than two such observations place have no figures.
"""

from __future__ import annotations

import base64
import platform
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InvalidSetting
from ..estimators.base import GPA
from ..observations.arrays import finite_rows
from ..trust.agreement import Agreement, Disagreement, distribution, json_number
from ..trust.selection import Trial, Tuning
from ..typing import Array, BoolArray, IndexArray
from ..version import __version__

Json = dict[str, Any]

MOST_NUMBERS = 1_000_000  # coordinates of warped points in the page: 5 MB
MOST_DRAWN = 20_000  # points that a browser turns smoothly
MOST_ROWS, MOST_COLUMNS = 300, 1000  # of the visibility picture
FAR = 1e15  # numbers beyond this, or below its inverse, are divided by the largest
MARGIN = 0.25  # of the map's extent: warped points farther out do not shrink the picture

WORDS = {
    "RigidGPA": "rigid motions",
    "AffineGPA": "affine warps",
    "TPSGPA": "thin-plate warps",
    "KernelGPA": "kernel warps",
}


def registration_data(
    gpa: GPA,
    title: str = "kernelgpa",
    unit: str | None = None,
    faces: npt.ArrayLike | None = None,
    tuning: Tuning | None = None,
    notes: Iterable[str] = (),
    settings: Mapping[str, Any] | None = None,
) -> Json:
    """Everything the page shows."""
    if not isinstance(gpa, GPA):
        raise InvalidSetting(f"a report is made of a fitted registration; found {type(gpa).__name__}")
    findings = gpa.diagnose()  # which also asks whether it is fitted
    figures = Agreement(gpa)
    observations = gpa.observations_
    return {
        "title": str(title),
        "unit": "" if unit is None else str(unit),
        "notes": [notes] if isinstance(notes, str) else [str(note) for note in notes],
        "dimension": observations.dimension,
        "clouds": [str(name) for name in observations.names],
        "landmarks": [str(name) for name in observations.landmarks],
        "method": {
            "name": type(gpa).__name__,
            "words": WORDS.get(type(gpa).__name__, "warps") + (" and sizes" if getattr(gpa, "scaling", False) else ""),
            "robust": _text(getattr(gpa, "robust", None) or ""),
            "settings": _pairs(gpa.get_params()),
        },
        "seen": int(figures.visible.sum()),
        "mirrored": [str(name) for name in gpa.mirrored_],
        "setAside": None if figures.weight_shares is None else int(np.sum(figures.visible & ~figures.inliers)),
        "summary": {
            "apart": distribution(figures.per_landmark.in_map),
            "sensed": distribution(figures.per_landmark.in_sensor_frame),
        },
        "findings": [
            {"kind": one.kind, "severity": float(one.severity), "found": one.found, "action": one.action}
            for one in findings
        ],
        "map": packed(gpa.map_),
        "frame": _frame(gpa.map_, figures.warped[figures.counted]),
        "faces": None if faces is None else _faces(faces, gpa.map_),
        **_drawn(gpa, figures),
        "visibility": _visibility(figures.visible),
        "eigenvalues": _eigenvalues(gpa),
        "poses": {"places": packed(gpa.translations_), "axes": packed(gpa.rotations_)},
        "tuning": None if tuning is None else _tuning(tuning),
        "landmarkTable": _landmark_table(figures),
        "cloudTable": _cloud_table(gpa, figures),
        "settings": _pairs(settings or {}),
        "versions": _versions(),
    }


# -- arrays --


def packed(values: npt.ArrayLike) -> Json:
    """An array as text: its shape, what to multiply by, and base64 of little-endian float32."""
    array = np.asarray(values, dtype=np.float64)
    finite = np.abs(array[np.isfinite(array)])
    largest = float(finite.max(initial=0.0))
    times = 1.0 if largest == 0 or 1 / FAR < largest < FAR else largest
    return {"shape": list(array.shape), "times": times, "data": _base64((array / times).astype("<f4"))}


def _base64(array: npt.NDArray[Any]) -> str:
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode("ascii")


def _median(values: Array, axis: int) -> Array:
    """Over what is known; NaN where nothing is."""
    rows = np.moveaxis(values, axis, 1)
    known = ~np.isnan(rows).all(axis=1)
    medians = np.full(len(rows), np.nan)
    medians[known] = np.nanmedian(rows[known], axis=1)
    return medians


# -- pictures --


def _frame(places: Array, warped: Array) -> list[list[float]]:
    """The range of each axis: the map, and what is warped not too far beyond it."""
    known = places[finite_rows(places)]
    low, high = known.min(axis=0), known.max(axis=0)
    room = MARGIN * (high - low).max()
    low = np.minimum(low, np.maximum(warped.min(axis=0), low - room))
    high = np.maximum(high, np.minimum(warped.max(axis=0), high + room))
    pad = 0.04 * (high - low).max()
    return [[float(a - pad), float(b + pad)] for a, b in zip(low, high, strict=True)]


def _faces(faces: npt.ArrayLike, places: Array) -> Json:
    """Triangles whose three corners the map knows."""
    array = np.asarray(faces)
    if array.ndim != 2 or array.shape[1] != 3 or array.dtype.kind not in "iu":
        raise InvalidSetting(
            f"faces have shape {array.shape} and type {array.dtype}; expected (triangles, 3) landmark indices"
        )
    if len(array) and not 0 <= array.min() <= array.max() < len(places):
        raise InvalidSetting(
            f"faces name landmarks {array.min()} to {array.max()}; there are {len(places)}, counted from 0"
        )
    kept = array[finite_rows(places)[array].all(axis=1)]
    return {"count": len(kept), "data": _base64(kept.astype("<i4"))}


def _drawn(gpa: GPA, figures: Agreement) -> Json:
    """The landmarks that are drawn, evenly chosen where they are too many, and their images."""
    n, m, d = figures.warped.shape
    most = max(1, min(MOST_DRAWN, MOST_NUMBERS // (n * d)))
    chosen: IndexArray = np.arange(m) if m <= most else np.linspace(0, m - 1, most).astype(np.intp)
    return {"drawn": None if m <= most else chosen.tolist(), "warped": packed(figures.warped[:, chosen])}


def _visibility(visible: BoolArray) -> Json:
    """The share seen of each block of clouds and landmarks, 0 to 255; blocks of one where there is room."""
    rows, columns = (_blocks(size, most) for size, most in zip(visible.shape, (MOST_ROWS, MOST_COLUMNS), strict=True))
    sums = np.add.reduceat(np.add.reduceat(visible.astype(np.float64), rows, axis=0), columns, axis=1)
    areas = np.outer(np.diff([*rows, visible.shape[0]]), np.diff([*columns, visible.shape[1]]))
    shares = np.round(255 * sums / areas).astype(np.uint8)
    return {"rows": rows.tolist(), "columns": columns.tolist(), "data": _base64(shares)}


def _blocks(size: int, most: int) -> IndexArray:
    """Where each block begins."""
    return (np.arange(min(size, most)) * size // min(size, most)).astype(np.intp)


def _eigenvalues(gpa: GPA) -> Json | None:
    if not gpa.bends:
        return None
    spectrum = gpa.spectrum_
    return {
        "values": [json_number(value) for value in spectrum.values],
        "dimension": int(spectrum.dimension),
        "rounding": float(spectrum.rounding),
        "gap": float(spectrum.gap) if len(spectrum.values) > spectrum.dimension else None,
    }


# -- tables --


def _landmark_table(figures: Agreement) -> list[Json]:
    columns = [_column("count", "seen by", figures.visible.sum(axis=0))]
    return columns + _figure_columns(figures, figures.per_landmark, 0)


def _cloud_table(gpa: GPA, figures: Agreement) -> list[Json]:
    columns = [_column("count", "landmarks seen", figures.visible.sum(axis=1))]
    columns += _figure_columns(figures, figures.per_cloud, 1)
    if getattr(gpa, "scaling", False):
        columns.append(_column("number", "size factor", getattr(gpa, "size_factors_", np.ones(len(figures.visible)))))
    if gpa.mirrored_:
        part = np.ones(len(figures.visible))
        part[gpa.problem_.mirrored] = 0.0
        columns.append(_column("part", "in the map", part))
    return columns


def _figure_columns(figures: Agreement, values: Disagreement, axis: int) -> list[Json]:
    columns = [
        _column("length", "disagreement", values.in_map),
        _column("length", "sensor error", values.in_sensor_frame),
    ]
    if figures.residuals is not None:
        columns.append(_column("length", "left out, off by", _median(figures.residuals, axis)))
    if figures.weight_shares is not None:
        known = figures.visible.sum(axis=axis)
        total = np.where(figures.visible, figures.weight_shares, 0.0).sum(axis=axis)
        mean = np.divide(total, known, out=np.full(len(known), np.nan), where=known > 0)
        columns.append(_column("share", "weight kept", mean))
    return columns


def _column(kind: str, label: str, values: npt.ArrayLike) -> Json:
    return {"kind": kind, "label": label, "values": packed(values)}


# -- settings --


def _tuning(tuning: Tuning) -> Json:
    best = tuning.best_trial
    return {
        "trials": [
            {
                "model": trial.model,
                "settings": _pairs(trial.settings),
                "sensed": json_number(trial.sensor_rms),
                "seconds": float(trial.seconds),
                "failure": trial.failure,
            }
            for trial in tuning.trials
        ],
        "best": tuning.trials.index(best),
        "edges": [str(name) for name in tuning.at_edge],
        "axes": _tuned_axes([trial for trial in tuning.trials if trial.model == best.model], best.model),
    }


def _tuned_axes(trials: list[Trial], model: str) -> Json | None:
    """The one or two numbers that were tuned, with their values in each trial of the best model."""
    names = list(dict.fromkeys(name for trial in trials for name in trial.settings))
    tried: dict[str, list[Any]] = {name: [trial.settings.get(name) for trial in trials] for name in names}
    varied = [name for name in names if len({_text(value) for value in tried[name]}) > 1]
    if not 1 <= len(varied) <= 2 or not all(_isnumber(value) for name in varied for value in tried[name]):
        return None
    return {
        "model": model,
        "names": [str(name) for name in varied],
        "values": [[float(value) for value in tried[name]] for name in varied],
        "sensed": [json_number(trial.sensor_rms) for trial in trials],
    }


def _isnumber(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and bool(np.isfinite(float(value)))


def _pairs(settings: Mapping[str, Any]) -> list[list[str]]:
    return [[str(name), _text(value)] for name, value in settings.items()]


def _text(value: Any) -> str:
    """A setting in words; a number with the digits that tell it."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return f"{value:.6g}"
    return "none" if value is None else str(value)


def _versions() -> list[list[str]]:
    packages = ("numpy", "scipy", "scikit-learn", "plotly")
    own = [["kernelgpa", __version__], ["Python", platform.python_version()]]
    return own + [[name, version(name)] for name in packages]

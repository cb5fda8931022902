"""The tables of landmarks and of clouds on the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..estimators.base import GPA
from ..trust.agreement import Agreement, Disagreement
from ..trust.procrustes import ProcrustesStatistics
from ..typing import Array


@dataclass(frozen=True)
class Column:
    """One column: its name for the scripts of the page, how its values are shown, its header."""

    name: str
    kind: str  # "count", "length", "number", "percentage", "membership", "flag" or "text"
    label: str
    values: Array | list[str]


def landmark_columns(agreement: Agreement) -> list[Column]:
    seen = _column("clouds", "count", "seen by (clouds)", agreement.visible.sum(axis=0))
    return [seen, *_error_columns(agreement, agreement.per_landmark, axis=0)]


def cloud_columns(
    gpa: GPA, agreement: Agreement, attributes: Mapping[str, Sequence[str]], statistics: ProcrustesStatistics
) -> list[Column]:
    seen = _column("landmarks", "count", "landmarks seen", agreement.visible.sum(axis=1))
    columns = [
        seen,
        _column("centroid_size", "length", "centroid size", statistics.centroid_sizes),
        _column("procrustes_distance", "number", "Procrustes distance", statistics.distances),
        _column("outlier", "flag", "outlier", statistics.is_outlier),
        *_error_columns(agreement, agreement.per_cloud, axis=1),
    ]
    if gpa._sizes_differ:
        columns.append(_column("size_factor", "number", "size factor", gpa.size_factors_))
    if len(gpa.registration_.problem.left_out):
        takes_part = np.ones(len(agreement.visible))
        takes_part[gpa.registration_.problem.left_out] = 0.0
        columns.append(_column("takes_part", "membership", "in the map", takes_part))
    return with_attributes(columns, attributes)


def with_attributes(columns: Sequence[Column], attributes: Mapping[str, Sequence[str]]) -> list[Column]:
    """Return the columns and those of attributes, renamed if their names are taken."""
    names = {column.name for column in columns}
    return [
        *columns,
        *(
            Column(name if name not in names else f"{name}_given", "text", name, list(texts))
            for name, texts in attributes.items()
        ),
    ]


def _error_columns(agreement: Agreement, errors: Disagreement, axis: int) -> list[Column]:
    columns = [
        _column("disagreement", "length", "disagreement", errors.in_map),
        _column("sensor_error", "length", "sensor-frame error", errors.in_sensor_frame),
    ]
    medians = known_medians(agreement.residuals, axis)
    columns.append(_column("left_out_residual", "length", "left-out residual", medians))
    if agreement.weight_shares is not None:
        shares = np.where(agreement.visible, agreement.weight_shares, 0.0).sum(axis=axis)
        counts = agreement.visible.sum(axis=axis)
        means = np.divide(shares, counts, out=np.full(len(counts), np.nan), where=counts > 0)
        columns.append(_column("remaining_weight", "percentage", "remaining weight", means))
    return columns


def known_medians(values: Array, axis: int) -> Array:  # (n, m) -> (m,) or (n,)
    """Medians along an axis of the values that are not NaN; NaN if there are none."""
    rows = np.moveaxis(values, axis, 1)
    known = ~np.isnan(rows).all(axis=1)
    medians = np.full(len(rows), np.nan)
    medians[known] = np.nanmedian(rows[known], axis=1)
    return medians


def _column(name: str, kind: str, label: str, values: npt.ArrayLike) -> Column:
    return Column(name, kind, label, np.asarray(values, dtype=np.float64))

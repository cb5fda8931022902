"""Recordings of motion capture: frames with numbers and times, and markers that are not measured in every frame."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..typing import Array, BoolArray, IndexArray
from .capabilities import Capabilities
from .landmark_file import LabelledCloud
from .text import is_one_line

UNEVEN = 1e-3  # of the time between two frames: differences of times are rounded to about this


def frames_of(
    points: Array,  # (n, m, 3)
    labels: tuple[str, ...],
    numbers: IndexArray,  # (n,)
    times: Array,  # (n,) seconds
) -> tuple[LabelledCloud, ...]:
    """Return one cloud per frame."""
    rows = zip(points, numbers.tolist(), times.tolist(), strict=True)
    return tuple(LabelledCloud(f"frame {number}", one, labels, time=time, number=number) for one, number, time in rows)


def unmeasured(points: Array, measured: BoolArray) -> tuple[Array, list[str]]:  # (n, m, 3), (n, m)
    """Return the points with NaN for those that were not measured, and notes on how that was found."""
    nan, zero = np.isnan(points).all(axis=2), (points == 0).all(axis=2)
    signs = {
        "a negative residual": ~measured,
        "empty or NaN coordinates": measured & nan,
        "all coordinates 0": measured & zero,
    }
    what = "points of the file not measured because of"
    notes = [f"{what} {sign}: {where.sum()}" for sign, where in signs.items() if where.any()]
    gone = ~measured | nan | zero
    return np.where(gone[..., None], np.nan, points), notes


def is_one_label(label: str) -> bool:
    """Whether a label is read back unchanged from a padded field."""
    return is_one_line(label) and "\0" not in label and label.isprintable()


def uniform_timing(clouds: Sequence[LabelledCloud], holds: Capabilities) -> tuple[int, float]:
    """Return the number of the first frame and the frames per second, of which the times of all frames follow."""
    times = [one.time for one in clouds]
    known = np.array([time for time in times if time is not None])
    if len(known) < len(times):
        return 1, 1.0
    steps = np.diff(known)
    if not len(steps):
        first = clouds[0].number
        return (first, (first - 1) / known[0]) if first and first > 1 and known[0] > 0 else (1, 1.0)
    step = float(steps.mean())
    if step <= 0 or np.abs(steps - step).max() > UNEVEN * step:
        raise holds.error("the frames are not evenly spaced in time", "write TRC, CSV or NPZ instead")
    first = round(float(known[0]) / step) + 1
    return (first if 1 <= first < 2**31 - len(times) else 1), 1 / step

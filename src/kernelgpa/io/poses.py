"""Poses of the clouds, sensor to map, as trajectory tools read them.

TUM: ``timestamp tx ty tz qx qy qz qw``; the time is that of a frame, or the index of the cloud, from 0.  KITTI: the
twelve numbers of [R t], row by row.  Clouds in two dimensions lie in the plane z = 0.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.spatial.transform import Rotation

from ..typing import Array
from .text import format_numbers


def tum(rotations: Array, translations: Array, times: Sequence[float] | None = None) -> str:  # (n, d, d), (n, d), (n,)
    stamps = range(len(rotations)) if times is None else times
    rows = [tum_row(*pose) for pose in zip(stamps, rotations, translations, strict=True)]
    return "# timestamp tx ty tz qx qy qz qw\n" + "".join(rows)


def tum_row(time: float, rotation: Array, translation: Array) -> str:  # (d, d), (d,)
    (R,), (t,) = _in_3d(rotation[None], translation[None])
    return f"{time!r} {format_numbers(t)} {format_numbers(Rotation.from_matrix(R).as_quat())}\n"


def kitti(rotations: Array, translations: Array) -> str:
    R, t = _in_3d(rotations, translations)
    return "".join(f"{format_numbers(np.column_stack(pose).ravel())}\n" for pose in zip(R, t, strict=True))


def _in_3d(rotations: Array, translations: Array) -> tuple[Array, Array]:
    n, d = translations.shape
    R, t = np.tile(np.eye(3), (n, 1, 1)), np.zeros((n, 3))
    R[:, :d, :d], t[:, :d] = rotations, translations
    return R, t

"""Specimens of different size, with placeholder coordinates for landmarks that could not be measured.

A specimen is  s (template + displacement)  in a pose of its own, where the logarithm of the size factor s is normal.
Files of such data often hold a fixed number, like -999, where a landmark is missing.  The same far-away coordinates
then occur in several specimens and pull the landmark, the sizes and the poses towards them.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real

import numpy as np

from ..errors import InvalidSetting
from ..observations.sampling import farthest_points
from ..typing import Array, BoolArray
from .checks import LARGEST_LENGTH, require_amount, require_counts, require_integer, require_observation_settings
from .displacements import smooth_field
from .liver import liver_mesh
from .poses import random_poses
from .simulation import Simulation, observe, to_sensor_frames

PLACEHOLDER = 1998.0  # mm; the coordinates are (p, p, -p)
MAX_ROTATION, MAX_SHIFT = 180.0, 100.0  # degrees and mm


@dataclass(frozen=True)
class Specimens(Simulation):
    """Simulated specimens: a :class:`Simulation` with their sizes and the placeholders.

    Attributes
    ----------
    sizes : array of shape (n,)
        The size of each specimen relative to the template.
    placeholders : bool array of shape (n, m)
        Which observations are placeholders and no measurements.
    """

    sizes: Array
    placeholders: BoolArray


def specimens(
    clouds: int = 20,
    landmarks: int = 40,
    differ: float = 0.15,
    bend: float = 4.0,
    placeholders: int = 4,
    placeholder: float = PLACEHOLDER,
    hidden: float = 0.0,
    noise: float = 0.5,
    seed: int = 0,
) -> Specimens:
    """Simulate specimens of different size; some have placeholder coordinates for one of the landmarks.

    Parameters
    ----------
    clouds, landmarks : int
        The numbers n of specimens and m of landmarks.
    differ : float
        Standard deviation of the logarithm of the sizes, from 0 to 1.
    bend : float
        Root mean square size in mm of the deformation of each specimen, before its size changes.
    placeholders : int
        How many specimens have a placeholder for the same landmark, at most n.
    placeholder : float
        The number p in mm; a placeholder has the coordinates (p, p, -p).
    hidden : float
        Share of the observations that are missing, 0 <= hidden < 1.
    noise : float
        Standard deviation of each coordinate in mm.
    seed : int
        The same seed gives the same scene.

    Returns
    -------
    Specimens
        The observations (n, m, 3) and the truth, in mm.

    Examples
    --------
    >>> from kernelgpa import simulate
    >>> scene = simulate.specimens(clouds=10, landmarks=30, placeholders=2)
    >>> scene.points.shape, int(scene.placeholders.sum())
    ((10, 30, 3), 2)
    """
    require_observation_settings(hidden, noise, seed)
    require_amount("differ", differ, unit="", most=1.0)
    require_amount("bend", bend)
    require_integer("placeholders", placeholders)
    if not (isinstance(placeholder, Real) and abs(placeholder) <= LARGEST_LENGTH):
        raise InvalidSetting(f"placeholder is {placeholder!r}; expected a finite number of mm")
    template, faces = liver_mesh(402)
    require_counts(clouds, landmarks, len(template))
    if placeholders > clouds:
        raise InvalidSetting(f"placeholders is {placeholders} for {clouds} specimens; use at most one per specimen")
    rng = np.random.default_rng(seed)
    chosen = farthest_points(template, landmarks, first=int(rng.integers(len(template))))
    sizes = np.exp(differ * rng.standard_normal(clouds))
    bodies = np.stack([size * (template + smooth_field(template, bend, rng)) for size in sizes])
    rotations, translations = random_poses(clouds, MAX_ROTATION, MAX_SHIFT, rng)
    surfaces = to_sensor_frames(bodies, rotations, translations)
    points = observe(surfaces[:, chosen], noise, hidden, rng)
    replaced = np.zeros(points.shape[:2], dtype=bool)
    replaced[rng.permutation(clouds)[:placeholders], rng.integers(landmarks)] = True
    points[replaced] = placeholder * np.array([1.0, 1.0, -1.0])
    truth = (template[chosen], chosen, template, faces, surfaces, rotations, translations)
    return Specimens(points, *truth, sizes, replaced)

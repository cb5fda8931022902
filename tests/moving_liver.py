"""A liver that moves before a sensor whose motions are measured."""

from __future__ import annotations

import numpy as np
from scipy.spatial.transform import Rotation

from kernelgpa import Measured, simulate


def odometry(liver, t, rng, shift=1.0, degrees=0.2):
    """The motion from cloud t - 1 to cloud t with noise, as an odometer measures it."""
    between = liver.rotations[t - 1].T @ liver.rotations[t]
    step = liver.rotations[t - 1].T @ (liver.translations[t] - liver.translations[t - 1])
    noise = Rotation.from_rotvec(np.radians(degrees) * rng.standard_normal(3)).as_matrix()
    return Measured(between @ noise, step + shift * rng.standard_normal(3), shift, degrees, source=t - 1)


def moving_liver():
    """A scene of 16 clouds, each of which sees about 70 % of the landmarks."""
    return simulate.liver(clouds=16, landmarks=80, hidden=0.3, noise=1.0, bend=12.0, vertices=600)

"""Poses with and without odometry, on a liver that deforms while the sensor moves around it.

    python benchmarks/odometry.py

60 clouds of 201 landmarks, 30 % hidden, 1 mm noise, deformed as rigidly as possible by handles pulled by 12 and 25 mm
(without libigl: bent smoothly by 12 mm); odometry between consecutive clouds with errors of 1 mm and 0.2 degrees.
Reported are errors of the motions between consecutive clouds, and of the positions after rigid alignment of the whole
trajectory.
"""

from __future__ import annotations

import warnings
from importlib.util import find_spec

import numpy as np
from scipy.spatial.transform import Rotation

from kernelgpa import KernelGPAWarning, Measured, StreamingGPA, simulate
from kernelgpa.gauge.rotations import motion_onto

ACCURACY, DEGREES = 1.0, 0.2


def report(line):
    print(line, flush=True)  # noqa: T201


def odometry(liver, t, rng):
    between = liver.rotations[t - 1].T @ liver.rotations[t]
    step = liver.rotations[t - 1].T @ (liver.translations[t] - liver.translations[t - 1])
    noise = Rotation.from_rotvec(np.radians(DEGREES) * rng.standard_normal(3)).as_matrix()
    return Measured(between @ noise, step + ACCURACY * rng.standard_normal(3), ACCURACY, DEGREES, source=t - 1)


def registered(liver, with_odometry):
    stream, rng = StreamingGPA(), np.random.default_rng(1)
    for t, cloud in enumerate(liver.points):
        seen = np.flatnonzero(~np.isnan(cloud[:, 0]))
        stream.add(cloud[seen], seen.tolist(), measured=odometry(liver, t, rng) if with_odometry and t else ())
    stream.update()
    return stream


def errors(stream, liver):
    """Root mean square errors: motion (mm), motion (degrees), position (mm)."""
    R, t, Rt, tt = stream.rotations_, stream.translations_, liver.rotations, liver.translations
    steps, turns = [], []
    for i in range(1, len(t)):
        steps.append(R[i - 1].T @ (t[i] - t[i - 1]) - Rt[i - 1].T @ (tt[i] - tt[i - 1]))
        turns.append(Rotation.from_matrix((Rt[i - 1].T @ Rt[i]).T @ R[i - 1].T @ R[i]).magnitude())
    rotation, translation = motion_onto(t, tt)
    residuals = t @ rotation.T + translation - tt
    rms = [np.sqrt(np.mean(np.sum(np.square(one), axis=1))) for one in (steps, residuals)]
    return rms[0], np.degrees(np.sqrt(np.mean(np.square(turns)))), rms[1]


def main():
    warnings.simplefilter("ignore", KernelGPAWarning)
    scenes = [("smooth", 12.0)] if find_spec("igl") is None else [("arap", 12.0), ("arap", 25.0)]
    for deformation, bend in scenes:
        liver = simulate.liver(hidden=0.3, noise=1.0, bend=bend, deformation=deformation)
        without, with_it = (errors(registered(liver, one), liver) for one in (False, True))
        for name, a, b in zip(("motion (mm)", "motion (degrees)", "position (mm)"), without, with_it, strict=True):
            report(
                f"{deformation}, {bend:g} mm, {name}: {a:.2f} without odometry, {b:.2f} with it, a ratio of {a / b:.1f}"
            )


if __name__ == "__main__":
    main()

"""Constants of the simulated scenes for which the rigid and the affine column have the paper's means.

    python benchmarks/calibrate.py liver          computes the constants of src/kernelgpa/experiments/scenes.py
    python benchmarks/calibrate.py face           and prints our numbers beside the paper's
    python benchmarks/calibrate.py ct
    python benchmarks/calibrate.py all --check    prints the numbers of the present constants, for the seeds 0, 1 and 2

Over the logarithms of the constants, the sum of squares of

    log(mean here / mean in the paper)    and    log(max here / max in the paper) / 10

is minimised over all rows of a table and the columns rigid and affine, for seed 0.  The columns thin-plate and kernel
are neither computed nor read.
"""

from __future__ import annotations

import argparse
import warnings
from dataclasses import replace
from functools import partial

import numpy as np
from scipy.optimize import least_squares

from kernelgpa import AffineGPA, KernelGPAWarning, RigidGPA, metrics
from kernelgpa.experiments import ct, face, liver, scenes
from kernelgpa.experiments.tables import paper_numbers

METHODS = {"rigid": RigidGPA(), "affine": AffineGPA(modes="program")}
SEEDS = (0, 1, 2)
MAX_WEIGHT = 0.1  # of the logarithm of a maximum, relative to that of a mean
STEP = 0.02  # relative step of the finite differences; exchanged matches change in small jumps
EXPRESSIONS = len(scenes.PAPER_EXPRESSIONS)


def write(line):
    print(line, flush=True)  # noqa: T201


# -- the columns rigid and affine: {(row, column): (mean, max)} --


def liver_columns(scene, seed, names=tuple(liver.MEASUREMENTS), deformation="arap"):
    found = {}
    for name in names:
        measurement = liver.MEASUREMENTS[name]
        clouds = scenes.liver(scene, deformation, liver.FULL.clouds, measurement, seed)
        test = scenes.noisy_vertices(clouds, measurement.noise, seed)
        for method, model in METHODS.items():
            values = metrics.consistency(model.fit(clouds.points).transform_clouds(test))
            found[name, method] = values.mean(), values.max()
    return found


def face_columns(scene, seed):
    heads = scenes.face(scene, face.FULL.vertices, seed)
    test = heads.surfaces[:, face.face_vertices(heads)]
    found = {}
    for method, model in METHODS.items():
        warped = model.fit(heads.points).transform_clouds(test)
        distances = np.linalg.norm(warped - metrics.mean_map(warped), axis=2)
        for name, values in zip(heads.expressions, distances, strict=True):
            found[name, method] = values.mean(), values.max()
    return found


def ct_columns(scene, seed):
    scans = scenes.ct(scene, ct.FULL.seen_in, seed)
    found = {}
    for count in ct.PAPER_COUNTS:
        own = scans.seen_in == count
        for method, model in METHODS.items():
            values = metrics.consistency(model.fit(scans.points[:, own]).transform_clouds(scans.points[:, ~own]))
            found[f"seen in {count}", method] = np.nanmean(values), np.nanmax(values)
    return found


# -- constants as vectors, and back --


def liver_scene(x, of=scenes.CALIBRATED_LIVER["arap"]):
    return replace(of, bend=float(x[0]), stretch=float(x[1]))


def face_scene(x):
    strength, bend, stretch = (tuple(float(value) for value in part) for part in np.split(x, 3))
    return scenes.FaceScene(strength, bend, stretch)


def ct_scene(x):
    differ, bend, wrong, wrong_within = (float(value) for value in x)
    return replace(scenes.CALIBRATED_CT, differ=differ, bend=bend, wrong=wrong, wrong_within=wrong_within)


FACE_START = np.concatenate([np.ones(EXPRESSIONS), np.full(EXPRESSIONS, 1.0), np.full(EXPRESSIONS, 0.01)])
FACE_LIMITS = np.repeat([[0.5, 0.05, 1e-4], [2.0, 5.0, 0.1]], EXPRESSIONS, axis=1)  # stronger expressions fold the skin
SMOOTH = partial(liver_scene, of=scenes.CALIBRATED_LIVER["smooth"])
TASKS = {  # columns, those used to calibrate, scene from constants, start, limits
    "liver": (
        liver_columns, partial(liver_columns, names=("exact",)), liver_scene, [4.0, 0.02], [[0.5, 1e-3], [20.0, 0.1]],
    ),
    "liver, smooth": (
        partial(liver_columns, deformation="smooth"), partial(liver_columns, names=("exact",), deformation="smooth"),
        SMOOTH, [4.0, 0.02], [[0.5, 1e-3], [20.0, 0.1]],
    ),
    "face": (face_columns, face_columns, face_scene, FACE_START, FACE_LIMITS),
    "ct": (ct_columns, ct_columns, ct_scene, [1.0, 13.0, 0.1, 60.0], [[0.1, 1.0, 0.01, 20.0], [2.0, 30.0, 0.5, 150.0]]),
}  # fmt: skip
TABLES = {"liver": "liver", "liver, smooth": "liver", "face": "face-expressions", "ct": "ct"}


def paper(task, row, column, statistic):
    return paper_numbers()[TABLES[task]][f"{row}: {statistic}"][column]


def residuals(x, task):
    _, columns, scene_of, _, _ = TASKS[task]
    logs = []
    for (row, column), (mean, largest) in columns(scene_of(np.exp(x)), 0).items():
        logs.append(np.log(mean / paper(task, row, column, "mean")))
        logs.append(MAX_WEIGHT * np.log(largest / paper(task, row, column, "max")))
    return np.array(logs)


def calibrate(task):
    _, _, scene_of, start, limits = TASKS[task]
    bounds = tuple(np.log(limits))
    found = least_squares(
        residuals, np.log(start), bounds=bounds, diff_step=STEP, xtol=1e-3, ftol=1e-4, max_nfev=25, args=(task,)
    )
    rounded = np.array([float(f"{value:.3g}") for value in np.exp(found.x)])
    return scene_of(rounded)


def table(task, scene, seed):
    write(f"\n| {task}, seed {seed} | column | mean | in the paper | deviation | max | in the paper |")
    write("|---|---|---|---|---|---|---|")
    for (row, column), (mean, largest) in TASKS[task][0](scene, seed).items():
        printed, printed_max = (paper(task, row, column, statistic) for statistic in ("mean", "max"))
        write(
            f"| {row} | {column} | {mean:.3f} | {printed:.3f} | {mean / printed - 1:+.1%} | {largest:.2f} "
            f"| {printed_max:.2f} |"
        )


PRESENT = {
    "liver": scenes.CALIBRATED_LIVER["arap"],
    "liver, smooth": scenes.CALIBRATED_LIVER["smooth"],
    "face": scenes.CALIBRATED_FACE,
    "ct": scenes.CALIBRATED_CT,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=[*TASKS, "all"])
    parser.add_argument("--check", action="store_true", help="print the present constants' numbers, for three seeds")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", KernelGPAWarning)
    for task in TASKS if arguments.task == "all" else [arguments.task]:
        if arguments.check:
            for seed in SEEDS:
                table(task, PRESENT[task], seed)
            continue
        scene = calibrate(task)
        write(f"\n{task}: {scene}")
        table(task, scene, 0)


if __name__ == "__main__":
    main()

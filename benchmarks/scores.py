"""By which score of held-out errors to choose settings: root mean square, trimmed mean or median (docs/trust.md).

    python benchmarks/scores.py FOLDER        FOLDER holds real sets as .npz

A fifth of the landmarks of each set is set aside.  Rigid motions, affine warps and nine settings of kernel warps are
cross-validated on the others, and each score chooses one.  Printed is the error of the chosen one at the landmarks set
aside, divided by the smallest error of all candidates: the geometric mean over the sets and two choices of landmarks.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np
from mirror import sets_of, write

from kernelgpa import AffineGPA, KernelGPA, KernelGPAError, KernelGPAWarning, RigidGPA, metrics, selection

SCORES = ("root mean square", "trimmed mean", "median")
CLOUDS, LANDMARKS = 12, 80  # of each set
SKIPPED = ("plethodon", "liver, pulled", "face", "ct", "sheet", "sheet, hidden")  # in the plane, or simulated


def candidates():
    kernels = [KernelGPA(bandwidth=b, smoothing=s, robust=None) for b in (0.15, 0.4, 1.0) for s in (1e-4, 1e-2, 1.0)]
    return [RigidGPA(), AffineGPA(), *kernels]


def scores_of(residuals):
    """The three scores of residuals (n, k, d)."""
    lengths = np.linalg.norm(residuals, axis=2)
    lengths = np.sort(lengths[~np.isnan(lengths)])
    return np.sqrt(np.mean(lengths**2)), np.mean(lengths[: int(0.9 * len(lengths))]), np.median(lengths)


def tried(model, points, aside):
    """Scores of cross-validation without the landmarks set aside, and the same statistics of the errors at these."""
    rest = np.delete(points, aside, axis=1)
    try:
        held_out = scores_of(selection.cross_validate(model, rest, folds=5).residuals)
        gpa = model.fit(rest)
        own = points[:, aside]
        return held_out, scores_of(metrics.sensor_residuals(gpa.transform_clouds(own), gpa.jacobians(own)))
    except KernelGPAError:
        return [(np.inf,) * len(SCORES)] * 2


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder with .npz files of real sets")
    folder = parser.parse_args().folder
    warnings.simplefilter("ignore", KernelGPAWarning)
    ratios = []
    for name, points in sets_of(folder):
        if name in SKIPPED:
            continue
        some = np.linspace(0, len(points) - 1, min(CLOUDS, len(points))).astype(int)
        thinned = points[some][:, :: -(-points.shape[1] // LANDMARKS)]
        for first in (0, 2):
            results = [tried(model, thinned, np.arange(first, thinned.shape[1], 5)) for model in candidates()]
            held_out, errors = (np.array([one[i] for one in results]) for i in (0, 1))
            ratios.append(errors[np.argmin(held_out, axis=0)] / errors.min(axis=0))
    write(f"| chosen by | {' | '.join(SCORES)} |")
    write("|---|---|---|---|")
    for name, row in zip(SCORES, np.exp(np.mean(np.log(ratios), axis=0)), strict=True):
        write(f"| {name} | {' | '.join(f'{ratio:.2f}' for ratio in row)} |")


if __name__ == "__main__":
    main()

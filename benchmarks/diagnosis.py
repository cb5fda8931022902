"""Error rates of the search for wrong matches: the table of "The diagnosis" in docs/trust.md.

    python benchmarks/diagnosis.py             seeds 100 to 104, which no limit was chosen on
    python benchmarks/diagnosis.py --seeds 20

Each scene is diagnosed as it is, and with 10 % of the observations of each cloud exchanged among themselves.  Counted
are the observations that the check calls suspicious, before a learned covariance excuses the usual motion.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
from timing import report

from kernelgpa import TPSGPA, AffineGPA, KernelGPA, KernelGPAWarning, RigidGPA, simulate
from kernelgpa.trust.diagnosis.evidence import Evidence

FIRST_SEED = 100
WRONG = 0.1
MODELS = {"rigid": RigidGPA, "affine": AffineGPA, "thin-plate": TPSGPA, "kernel": KernelGPA}
LIVER = {"clouds": 12, "landmarks": 80, "vertices": 602, "noise": 0.5}
SCENES = {
    "bent sheet": lambda seed: simulate.bending_sheet(noise=0.3, seed=seed),
    "bent sheet, 20 % hidden": lambda seed: simulate.bending_sheet(noise=0.3, hidden=0.2, seed=seed),
    "liver": lambda seed: simulate.liver(hidden=0.2, seed=seed, **LIVER),
    "liver, pulled by 25 mm": lambda seed: simulate.liver(deformation="arap", bend=25, seed=seed, **LIVER),
    "specimens": lambda seed: simulate.specimens(placeholders=0, seed=seed),
    "expressions of a face": lambda seed: simulate.face(landmarks=80, noise=0.3, seed=seed),
    "walker, 8 frames": lambda seed: simulate.walker(clouds=8, noise=1.0, seed=seed),
}


def suspicious(model, points):
    """The evidence of a fit, and which observations it calls suspicious."""
    evidence = Evidence(model().fit(points))
    return evidence, evidence.suspicious


def row(scene, model, seeds):
    observations = called = wrong = found = 0
    gains = []
    for seed in seeds:
        points = SCENES[scene](seed).points
        evidence, clean = suspicious(MODELS[model], points)
        observations += int(np.sum(~np.isnan(points[:, :, 0])))
        called += int(clean.sum())
        gains.append(evidence.gain(clean))
        exchanged, is_wrong = simulate.exchanged(points, WRONG, seed)
        wrong += int(is_wrong.sum())
        found += int((suspicious(MODELS[model], exchanged)[1] & is_wrong).sum())
    shares = f"{called / observations:.2%} | {max(gains):.2f} | {found / wrong:.0%}"
    report(f"| {scene} | {model} | {shares} |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    count = parser.parse_args().seeds
    warnings.simplefilter("ignore", KernelGPAWarning)
    report("| scene | warps | clean: called suspicious | largest severity | exchanged: found |")
    report("|---" * 5 + "|")
    for scene in SCENES:
        for model in MODELS:
            row(scene, model, range(FIRST_SEED, FIRST_SEED + count))

"""Error rates of the diagnosis: the tables of "The diagnosis" in docs/trust.md.

    python benchmarks/diagnosis.py                    simulated scenes: false findings, and flaws that are found
    python benchmarks/diagnosis.py FOLDER             the same for real sets (see real.py), whole and in parts
    python benchmarks/diagnosis.py --seeds 10 --models rigid kernel

The seeds start at 100; no limit of the diagnosis was chosen on them.  A false finding is one of WRONG_DATA in data
without flaws.  A flaw counts as found if the finding of its kind names the cloud or the landmark; for exchanged matches
the share of the observations that are called suspicious is given, and the share of the other observations.
"""

from __future__ import annotations

import argparse
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from real import SETS
from timing import report

from kernelgpa import TPSGPA, AffineGPA, KernelGPA, KernelGPAError, KernelGPAWarning, RigidGPA, simulate
from kernelgpa.trust.diagnosis.evidence import Evidence

FIRST_SEED = 100
WRONG = 0.1  # share of the observations of each cloud that are exchanged
HIDDEN = (0.0, 0.2, 0.4)
MODELS = {"rigid": RigidGPA, "affine": AffineGPA, "thin-plate": TPSGPA, "kernel": KernelGPA}
LIVER = {"clouds": 12, "landmarks": 80, "vertices": 602, "noise": 0.5}
SCENES = {
    "bent sheet, 10 x 90": lambda seed: simulate.bending_sheet(noise=0.3, seed=seed),
    "liver, 12 x 80": lambda seed: simulate.liver(seed=seed, **LIVER),
    "liver, pulled by 25 mm": lambda seed: simulate.liver(deformation="arap", bend=25, seed=seed, **LIVER),
    "specimens, 20 x 40": lambda seed: simulate.specimens(placeholders=0, seed=seed),
    "faces, 5 x 80": lambda seed: simulate.face(landmarks=80, noise=0.3, seed=seed),
    "walker, 8 frames": lambda seed: simulate.walker(clouds=8, noise=1.0, seed=seed),
    "walker, 40 frames": lambda seed: simulate.walker(noise=1.0, seed=seed),
}
CODE = (-999.0, -999.0, -999.0)
WRONG_DATA = (
    "placeholder coordinates",
    "mirror images",
    "left and right exchanged",
    "another unit",
    "same cloud twice",
    "exchanged landmarks",
    "possible wrong matches",
    "undetermined turn",
)
NOT_A_FLAW = ("landmarks seen once or never", "checks that could not run", "warning of the fit")
PARTS = 6  # random halves, and triples, of each real set


def hidden(points, share, seed):
    """Some observations hidden at random; landmarks that are then seen by fewer than two clouds are left out."""
    rng = np.random.default_rng([seed, 1])
    some = np.where((rng.random(points.shape[:2]) < share)[:, :, None], np.nan, points)
    return seen_twice(some)


def seen_twice(points):
    return points[:, np.sum(~np.isnan(points[:, :, 0]), axis=0) >= 2]


def two_sides(clouds=10, per_side=15, seed=0):
    """Solid bodies that are nearly symmetric, landmark j on the left and j + per_side on the right."""
    rng = np.random.default_rng([seed, 2])
    left = 30 * rng.standard_normal((per_side, 3)) + [45, 0, 0]
    body = np.concatenate([left, left * [-1, 1, 1]]) + rng.standard_normal((2 * per_side, 3))
    bent = body + 1e-3 * np.einsum("mi,nij,mj->nm", body, rng.standard_normal((clouds, 3, 3)), body)[:, :, None]
    turned = np.stack([one @ np.linalg.qr(rng.standard_normal((3, 3)))[0] for one in bent])
    turned[:, :, 0] *= np.sign([np.linalg.det(np.linalg.lstsq(body, one, rcond=None)[0]) for one in turned])[:, None]
    return turned + 0.5 * rng.standard_normal(turned.shape)


def findings_of(model, points):
    return Evidence(gpa := MODELS[model]().fit(points)), gpa.diagnose()


# -- false findings --


def parts_of(points, size, seed):
    """Random clouds, and the landmarks that two of them saw."""
    rng = np.random.default_rng([seed, size])
    return seen_twice(points[np.sort(rng.choice(len(points), size, replace=False))])


def false_findings(name, model, sets):
    """One row: in how many fits something was found that is wrong with the data, and what else was found."""
    wrong, others, fits, accused = Counter(), Counter(), 0, 0
    severities = dict.fromkeys(WRONG_DATA, 0.0)
    for points in sets:
        try:
            findings = findings_of(model, points)[1]
        except KernelGPAError:  # parts that share too few landmarks
            continue
        fits += 1
        kinds = {finding.kind for finding in findings}
        accused += bool(kinds.intersection(WRONG_DATA))
        wrong.update(kinds.intersection(WRONG_DATA))
        others.update(kinds.difference(WRONG_DATA, NOT_A_FLAW))
        for finding in findings:
            if finding.kind in severities:
                severities[finding.kind] = max(severities[finding.kind], finding.severity)
    listed = [f"{kind} {count} (severity up to {severities[kind]:.2f})" for kind, count in wrong.most_common()]
    also = [f"{kind} {count}" for kind, count in others.most_common()]
    report(f"| {name} | {model} | {accused} of {fits} | {', '.join(listed)} | {', '.join(also)} |")


def false_tables(folder, models, seeds):
    report("| clean data | warps | falsely accused | of what | models and symptoms |")
    report("|---" * 5 + "|")
    if folder is None:
        for name, scene in SCENES.items():
            for share in HIDDEN:
                for model in models:
                    sets = (hidden(scene(seed).points, share, seed) for seed in seeds)
                    false_findings(f"{name}, {share:.0%} hidden", model, sets)
        return
    for name, one in SETS.items():
        if name.startswith(("liver", "lungs")):
            continue
        points = one.load(folder)
        parts = {"whole": [points]} | {
            label: [parts_of(points, size, seed) for seed in range(PARTS)]
            for label, size in (("halves", len(points) // 2), ("triples", 3))
            if size < len(points)
        }
        for label, sets in parts.items():
            for model in models:
                false_findings(f"{name}, {label}", model, sets)


# -- flaws --


def flawed(points, seed) -> Iterator[tuple[str, str, np.ndarray, str]]:
    """The kind of each flaw, the kind of its finding, the data with the flaw, and the words that must be found."""
    t, j = seed % len(points), int(np.flatnonzero(~np.isnan(points[:, :, 0]).any(axis=0))[seed % 5])
    one = points.copy()
    one[[t, (t + 2) % len(points)], j] = CODE[: points.shape[2]]
    yield "placeholders", "placeholder coordinates", one, f"landmark {j} "
    doubled = np.concatenate([points, points[[t]]])
    yield "cloud twice", "same cloud twice", doubled, f"{t} and {len(points)}"
    one = points.copy()
    one[t] *= 10
    yield "unit", "another unit", one, f"cloud {t} "
    one = points.copy()
    one[t, :, 0] *= -1
    yield "mirrored", "mirror images", one, f"cloud {t} "


def found_flaws(name, model, sets):
    """One row: how often each flaw is found, and which share of exchanged matches."""
    hits, totals, called = Counter(), Counter(), np.zeros((2, 2))
    for seed, points in sets:
        for flaw, kind, one, words in flawed(points, seed):
            totals[flaw] += 1
            hits[flaw] += any(f.kind == kind and words in f.found + " " for f in findings_of(model, one)[1])
        exchanged, wrong = simulate.exchanged(points, WRONG, seed)
        evidence, findings = findings_of(model, exchanged)
        totals["exchanged"] += 1
        hits["exchanged"] += bool({"exchanged landmarks", "possible wrong matches"} & {f.kind for f in findings})
        for row, mask in enumerate((wrong, ~wrong & ~np.isnan(points[:, :, 0]))):
            called[row] += [int((evidence.suspicious & mask).sum()), int(mask.sum())]
    shares = f"{called[0, 0] / called[0, 1]:.0%} | {called[1, 0] / called[1, 1]:.1%}"
    counts = " | ".join(f"{hits[flaw]} of {totals[flaw]}" for flaw in totals)
    report(f"| {name} | {model} | {counts} | {shares} |")


def left_and_right(models, seeds):
    """Bodies in which the landmarks of one cloud are exchanged between left and right."""
    for model in models:
        found, false = 0, 0
        for seed in seeds:
            points = two_sides(seed=seed)
            half, t = points.shape[1] // 2, seed % len(points)
            false += "left and right exchanged" in {f.kind for f in findings_of(model, points)[1]}
            points[t] = np.roll(points[t], half, axis=0)
            findings = findings_of(model, points)[1]
            found += any(f.kind == "left and right exchanged" and f"cloud {t}," in f.found for f in findings)
        report(f"left and right exchanged, {model}: found {found} of {len(seeds)}; without the flaw {false}")


def flaw_tables(folder, models, seeds):
    report()
    flaws = "placeholders | cloud twice | unit | mirrored | exchanged"
    report(f"| data | warps | {flaws} | exchanged observations called suspicious | other observations |")
    report("|---" * 9 + "|")
    for name, scene in {} if folder else SCENES.items():
        for model in models:
            found_flaws(name, model, [(seed, scene(seed).points) for seed in seeds])
    for name, one in SETS.items() if folder else ():
        if not name.startswith(("liver", "lungs", "plethodon")):  # too few landmarks to be exchanged
            for model in models:
                found_flaws(name, model, [(seed, one.load(folder)) for seed in seeds])
    if folder is None:
        report()
        left_and_right(models, seeds)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="folder of the real sets")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=["rigid", "kernel"])
    parser.add_argument("--only", choices=["false", "flaws"])
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", KernelGPAWarning)
    every = range(FIRST_SEED, FIRST_SEED + arguments.seeds)
    if arguments.only != "flaws":
        false_tables(arguments.folder, arguments.models, every)
    if arguments.only != "false":
        flaw_tables(arguments.folder, arguments.models, every)

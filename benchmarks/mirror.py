"""Error rates of the rule that calls clouds mirror images (docs/theory.md, section 12).

    python benchmarks/mirror.py FOLDER        FOLDER holds real sets as .npz; without it, simulated scenes alone

No set contains a mirror image.  Counted are the clouds that are called mirrored all the same: in the whole set, in
pairs and in triples of its clouds.  The last two columns negate one coordinate of a cloud, in the whole set and in
triples, and count how often exactly this cloud is found.
"""

from __future__ import annotations

import argparse
import warnings
from itertools import combinations
from pathlib import Path

import numpy as np

from kernelgpa import KernelGPAError, KernelGPAWarning, simulate
from kernelgpa.estimators.problem.screening import screen
from kernelgpa.observations import as_observations

ARRAYS = ("points", "manual", "vertices")  # names of the array (n, m, d) in a file
MOST_CLOUDS, MOST_LANDMARKS = 100, 200
MOST_GROUPS = 2000  # pairs or triples of each set that are tried
MOST_MIRRORED = 40  # clouds that are mirrored in the whole set
MOST_UNSEEN = 0.5  # landmarks that more clouds did not see are dropped, so that triples share enough


def write(line):
    print(line, flush=True)  # noqa: T201


def sets_of(folder):
    """Names and points (n, m, d) of the real sets of a folder, thinned, and of simulated scenes."""
    for path in [] if folder is None else sorted(folder.rglob("*.npz")):
        with np.load(path) as arrays:
            name = next((one for one in ARRAYS if one in arrays and arrays[one].ndim == 3), None)
            if name is not None:
                yield path.stem, thinned(arrays[name].astype(np.float64))
    yield "liver", simulate.liver(clouds=30, landmarks=100, hidden=0.3, noise=1.0).points
    yield "liver, pulled", simulate.liver(clouds=30, landmarks=100, deformation="arap", bend=30.0).points
    yield "face", simulate.face(landmarks=100).points
    yield "ct", thinned(simulate.ct(seen_in={6: 100}).points)
    yield "sheet", simulate.sheet().points
    yield "sheet, hidden", simulate.sheet(clouds=20, radius=160.0, hidden=0.3, noise=1.0).points


def thinned(points):
    points = points[:, np.isnan(points[:, :, 0]).mean(axis=0) < MOST_UNSEEN]
    return points[evenly(len(points), MOST_CLOUDS)][:, evenly(points.shape[1], MOST_LANDMARKS)]


def evenly(count, most):
    return np.unique(np.linspace(0, count - 1, min(count, most)).astype(int))


def mirrored(points):
    """The clouds that are called mirror images; None if these clouds cannot be registered at all."""
    try:
        return screen(as_observations(points)).mirrored.tolist()
    except KernelGPAError:
        return None


def groups_of(points, size, rng):
    every = list(combinations(range(len(points)), size))
    return [points[list(every[i])] for i in rng.permutation(len(every))[:MOST_GROUPS]]


def called(groups):
    """How many groups have a cloud that is called mirrored, of those that can be registered."""
    answers = [answer for answer in map(mirrored, groups) if answer is not None]
    return f"{sum(bool(answer) for answer in answers)} of {len(answers)}"


def found(groups, clouds, rng):
    """How often exactly the cloud is found of which one coordinate was negated."""
    hits = total = 0
    for points, t in zip(groups, clouds, strict=True):
        changed = points.copy()
        changed[t, :, rng.integers(points.shape[2])] *= -1
        answer = mirrored(changed)
        hits, total = hits + (answer == [t]), total + (answer is not None)
    return f"{hits} of {total}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="folder with .npz files of real sets")
    folder = parser.parse_args().folder
    warnings.simplefilter("ignore", KernelGPAWarning)
    write(
        "| set | clouds x landmarks | called in the whole set | in pairs | in triples | negated: found | in triples |"
    )
    write("|---|---|---|---|---|---|---|")
    for name, points in sets_of(folder):
        rng = np.random.default_rng(0)
        pairs, triples = groups_of(points, 2, rng), groups_of(points, 3, rng)
        some = evenly(len(points), MOST_MIRRORED)
        cells = [
            f"{len(mirrored(points) or [])} of {len(points)}",
            *(called(pairs), called(triples)),
            found([points] * len(some), some, rng),
            found(triples, rng.integers(3, size=len(triples)), rng),
        ]
        write(f"| {name} | {len(points)} x {points.shape[1]} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()

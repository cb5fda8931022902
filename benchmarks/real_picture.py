"""Draw docs/images/real-data.png: mean errors at hidden observations of real sets, for four kinds of warp.

    python benchmarks/real_picture.py FOLDER               five seeds, some minutes
    python benchmarks/real_picture.py FOLDER --seeds 1

FOLDER holds the sets that benchmarks/real.py reads.  The picture shows figures only, and no data; the same figures are
in the first table of that benchmark.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from real import METHODS, SETS, errors_of, hide
from timing import report

from kernelgpa import KernelGPAWarning

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "images" / "real-data.png"
SHOWN = {  # sets measured in mm
    "kinect_paper": "sheet of\npaper",
    "cushion": "cushion",
    "faces": "faces",
    "apes": "ape skulls",
    "brains": "brains",
    "freeform, spread": "person moving\nfreely,\nframes spread",
    "squat, consecutive": "person squatting,\nconsecutive\nframes",
}
COLOURS = {"rigid": "0.75", "affine": "0.55", "thin-plate": "tab:orange", "kernel": "tab:blue"}


def mean_error(method, name, folder, seeds):
    one = SETS[name]
    complete = one.load(folder)
    errors = []
    for seed in range(seeds):
        points, hidden = hide(complete, one.hidden, seed)
        errors.append(errors_of(METHODS[method]().fit(points).impute(), complete, hidden))
    return np.concatenate(errors).mean()


def picture(means):  # {method: {set: mean error}}
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    ax = figure.add_subplot()
    width = 0.8 / len(means)
    for k, (method, errors) in enumerate(means.items()):
        at = np.arange(len(errors)) + (k - (len(means) - 1) / 2) * width
        bars = ax.bar(at, list(errors.values()), width, color=COLOURS[method], label=method)
        ax.bar_label(bars, [f"{error:.2g}" if error < 100 else f"{error:.0f}" for error in errors.values()], fontsize=7)
    ax.set_xticks(np.arange(len(SHOWN)), list(SHOWN.values()), fontsize=9)
    ax.set_yscale("log")
    ax.set_yticks([1, 10, 100], ["1", "10", "100"])
    ax.set_ylabel("mean error at hidden points (mm)")
    ax.legend(loc="upper left", ncols=len(means), frameon=False)
    ax.margins(x=0.01)
    ax.spines[["top", "right"]].set_visible(False)
    return figure


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder of the real sets")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("-o", "--output", type=Path, default=PICTURE)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", KernelGPAWarning)
    means = {method: {} for method in COLOURS}
    for name in SHOWN:
        for method, found in means.items():
            found[name] = mean_error(method, name, arguments.folder, arguments.seeds)
        report(f"{name}: " + ", ".join(f"{method} {found[name]:.3g} mm" for method, found in means.items()))
    picture(means).savefig(arguments.output, dpi=100)


if __name__ == "__main__":
    main()

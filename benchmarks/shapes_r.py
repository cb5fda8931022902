"""Compare superimposition with ``procGPA`` of the R package shapes (Debian: r-cran-shapes).

    python benchmarks/shapes_r.py FOLDER_OR_FILE...

For each input, with all landmarks seen: the largest deviations of the centroid sizes (relative), of the mean shape of
full Procrustes superimposition, of the coordinates of partial superimposition (specimens of unit size, as gpagen before
its projection; no scaling in procGPA), and of the Procrustes distances, 2 sin(rho / 2).  Shapes have unit size.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from kernelgpa import RigidGPA, io
from kernelgpa.trust.procrustes import procrustes_coordinates, procrustes_statistics
from kernelgpa.typing import Array

SCRIPT = """
suppressMessages(suppressWarnings(library(shapes)))
x <- as.matrix(read.table("points.txt")); n <- nrow(x); d <- DIMENSION; m <- ncol(x) / d
a <- array(0, c(m, d, n)); for (i in 1:n) a[,,i] <- matrix(x[i,], m, d, byrow = TRUE)
align <- function(a, scale) procGPA(a, scale = scale, reflect = FALSE, eigen2d = FALSE, tol1 = 1e-12, tol2 = 1e-12)
full <- align(a, TRUE)
for (i in 1:n) a[,,i] <- a[,,i] / centroid.size(a[,,i])
rotated <- align(a, FALSE)$rotated
save <- function(y, name) write.table(y, name, row.names = FALSE, col.names = FALSE)
save(full$mshape, "mean.txt"); save(full$size, "sizes.txt"); save(full$rho, "rho.txt")
save(t(sapply(1:n, function(i) as.vector(t(rotated[,,i])))), "partial.txt")
"""


def unit(shape: Array) -> Array:  # (m, d)
    centred = shape - shape.mean(axis=0)
    return centred / np.linalg.norm(centred)


def rotation(shape: Array, target: Array) -> Array:  # (m, d), (m, d) -> (d, d)
    U, _, V = np.linalg.svd(shape.T @ target)
    return U @ V


def compare(points: Array) -> dict[str, float]:  # (n, m, d)
    with tempfile.TemporaryDirectory() as folder:
        np.savetxt(f"{folder}/points.txt", points.reshape(len(points), -1), fmt="%.17g")
        script = SCRIPT.replace("DIMENSION", str(points.shape[2]))
        subprocess.run(["Rscript", "-e", script], cwd=folder, check=True, capture_output=True)
        mean, sizes, rho, partial = (np.loadtxt(f"{folder}/{one}.txt") for one in ("mean", "sizes", "rho", "partial"))
    gpa = RigidGPA(scaling=True).fit(points)
    statistics = procrustes_statistics(gpa)
    own, own_mean = procrustes_coordinates(gpa, "partial")
    theirs = partial.reshape(points.shape)
    theirs = (theirs - theirs.mean(axis=1, keepdims=True)) @ rotation(theirs.mean(axis=0), own_mean)
    full, own_full = unit(mean), unit(gpa.map_)
    return {
        "centroid size": float(np.abs(statistics.centroid_sizes / sizes - 1).max()),
        "mean shape": float(np.abs(full @ rotation(full, own_full) - own_full).max()),
        "partial coordinates": float(np.abs(theirs - own).max()),
        "distance": float(np.abs(2 * np.sin(rho / 2) - statistics.distances).max()),
    }


if __name__ == "__main__":
    for path in sys.argv[1:]:
        found = compare(io.read_clouds(path).points)
        texts = (f"{name} {value:.1g}" for name, value in found.items())
        sys.stdout.write(f"{Path(path).name}: {', '.join(texts)}\n")

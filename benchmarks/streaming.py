"""Latency of a streamed map, compared with a batch fit and a Cholesky factorisation in the same run.

    python benchmarks/streaming.py             both sizes, modes paper and auto
    python benchmarks/streaming.py large       500 clouds that each see 300 of 2000 landmarks
    python benchmarks/streaming.py small       300 clouds that each see 210 of 300 landmarks

Each step adds a cloud to a full window, so that the oldest leaves, and updates the map; the median is reported.
"""

from __future__ import annotations

import argparse
import time
import warnings
from statistics import median

import numpy as np
from scipy.linalg import cholesky

from fixed_settings import fixed_kernel
from kernelgpa import KernelGPAWarning, StreamingGPA
from kernelgpa._numerics.threads import blas_threads_for

SIZES = {"large": (2000, 300, 500), "small": (300, 210, 300)}  # landmarks, seen by each cloud, clouds
STEPS = 15


def report(line):
    print(line, flush=True)  # noqa: T201


def frames(landmarks, seen, seed=0):
    """Endless frames of a ball of landmarks that bends smoothly; each sees a part of it."""
    rng = np.random.default_rng(seed)
    template = 100 * rng.standard_normal((landmarks, 3))
    while True:
        waves, phases = rng.standard_normal((3, 3)) / 150, rng.uniform(0, 6, 3)
        bent = template + 8 * np.sin(template @ waves.T + phases)
        rotation = np.linalg.qr(rng.standard_normal((3, 3)))[0]
        rotation *= np.sign(np.linalg.det(rotation))
        ids = np.sort(rng.choice(landmarks, seen, replace=False))
        yield bent[ids] @ rotation.T + 0.5 * rng.standard_normal((seen, 3)), ids.tolist()


def cholesky_seconds(m):
    matrix = np.cov(np.random.default_rng(0).standard_normal((m, 2 * m))) + np.eye(m)
    with blas_threads_for(m):
        return median(timed(lambda: cholesky(matrix, lower=True, check_finite=False)) for _ in range(9))


def timed(call):
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def measure(size, modes):
    landmarks, seen, clouds = SIZES[size]
    source = frames(landmarks, seen)
    stream = StreamingGPA(window=clouds, modes=modes)
    for _ in range(clouds):
        stream.add(*next(source))
    stream.update()

    def step():
        stream.add(*next(source))
        stream.update()

    step()
    latency = median(timed(step) for _ in range(STEPS))
    observations = stream._require_running().observations()
    batch = timed(lambda: fixed_kernel(modes=modes).fit(observations))
    unit = cholesky_seconds(landmarks)
    return (
        f"{size}, modes={modes!r}: add and update {1e3 * latency:.0f} ms; a batch fit takes {batch / latency:.1f} "
        f"times that, a Cholesky factorisation of {landmarks} x {landmarks} 1/{latency / unit:.1f} of it"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("size", nargs="?", choices=[*SIZES, "all"], default="all")
    parser.add_argument("--modes", choices=["paper", "auto", "both"], default="both")
    options = parser.parse_args()
    warnings.simplefilter("ignore", KernelGPAWarning)
    for size in SIZES if options.size == "all" else [options.size]:
        for modes in ("paper", "auto") if options.modes == "both" else [options.modes]:
            report(measure(size, modes))


if __name__ == "__main__":
    main()

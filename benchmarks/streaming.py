"""Latency of a live map, against a batch fit and a Cholesky factorisation in the same run.

    python benchmarks/streaming.py             both sizes, modes paper and auto
    python benchmarks/streaming.py large       300 landmarks seen of 2000 known, 500 clouds
    python benchmarks/streaming.py small       300 landmarks, 300 clouds, 70 % seen

A cloud is added to a full window, so that the oldest goes, and the map is updated: the median of some such steps.
"""

from __future__ import annotations

import argparse
import time
import warnings
from statistics import median

import numpy as np
from scipy.linalg import cholesky

from kernelgpa import KernelGPA, KernelGPAWarning, StreamingGPA
from kernelgpa._numerics.threads import blas_threads_for

SIZES = {"large": (2000, 300, 500), "small": (300, 210, 300)}  # known, seen, clouds
STEPS = 15


def say(*words):
    print(*words, flush=True)  # noqa: T201


def frames(known, seen, seed=0):
    """A ball of landmarks that bends smoothly, each frame a part of it, without end."""
    rng = np.random.default_rng(seed)
    template = 100 * rng.standard_normal((known, 3))
    while True:
        waves, phases = rng.standard_normal((3, 3)) / 150, rng.uniform(0, 6, 3)
        bent = template + 8 * np.sin(template @ waves.T + phases)
        turn = np.linalg.qr(rng.standard_normal((3, 3)))[0]
        turn *= np.sign(np.linalg.det(turn))
        ids = np.sort(rng.choice(known, seen, replace=False))
        yield bent[ids] @ turn.T + 0.5 * rng.standard_normal((seen, 3)), ids.tolist()


def cholesky_seconds(m):
    matrix = np.cov(np.random.default_rng(0).standard_normal((m, 2 * m))) + np.eye(m)
    with blas_threads_for(m):
        return median(timed(lambda: cholesky(matrix, lower=True, check_finite=False)) for _ in range(9))


def timed(call):
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


def measure(size, modes):
    known, seen, clouds = SIZES[size]
    source = frames(known, seen)
    stream = StreamingGPA(window=clouds, modes=modes)
    for _ in range(clouds):
        stream.add(*next(source))
    stream.update()

    def step():
        stream.add(*next(source))
        stream.update()

    step()
    latency = median(timed(step) for _ in range(STEPS))
    observations = stream._living().batch()
    batch = timed(lambda: KernelGPA(modes=modes).fit(observations))
    unit = cholesky_seconds(known)
    return (
        f"{size}, modes={modes!r}: add and update {1e3 * latency:.0f} ms, batch {batch / latency:.1f} times that, "
        f"Cholesky of {known} x {known} {1e3 * unit:.2f} ms: {latency / unit:.1f} of them"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("size", nargs="?", choices=[*SIZES, "all"], default="all")
    parser.add_argument("--modes", choices=["paper", "auto", "both"], default="both")
    given = parser.parse_args()
    warnings.simplefilter("ignore", KernelGPAWarning)
    for size in SIZES if given.size == "all" else [given.size]:
        for modes in ("paper", "auto") if given.modes == "both" else [given.modes]:
            say(measure(size, modes))


if __name__ == "__main__":
    main()

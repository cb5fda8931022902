"""Processor time per frame of a stream, beside a batch fit and a Cholesky factorisation in the same run.

    python benchmarks/streaming.py               both simulated sizes, modes paper and auto, and batch fits
    python benchmarks/streaming.py large         500 clouds that each see 300 of 2000 landmarks
    python benchmarks/streaming.py small         300 clouds that each see 210 of 300 landmarks
    python benchmarks/streaming.py batch         fits of 60 x 201 and 4300 x 37
    python benchmarks/streaming.py replay FILE   a motion capture: FILE.npz with points (frames, markers, 3) and NaN
                                                 for gaps, window 100, default settings; the markers
                                                 that a frame did not see are predicted, too

Each step adds a cloud to a full window, so that the oldest leaves, and updates the map.  Frames of the first window are
not counted; the frames at which a stream chooses its settings anew are.
"""

from __future__ import annotations

import argparse
import time
import warnings
from statistics import median

import numpy as np
import paper_form
from scipy.linalg import cholesky
from timing import report, scene

from fixed_settings import fixed_kernel
from kernelgpa import KernelGPAWarning, RigidGPA, StreamingGPA
from kernelgpa._numerics.threads import one_blas_thread

SIZES = {"large": (2000, 300, 500), "small": (300, 210, 300)}  # landmarks, seen by each cloud, clouds
WINDOW = 100
STEPS = 15


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


def captured(path):
    """The frames of a motion capture, and the number of markers."""
    points = np.load(path)["points"]
    seen = [np.flatnonzero(np.isfinite(frame).all(axis=1)) for frame in points]
    return [(frame[one], one.tolist()) for frame, one in zip(points, seen, strict=True)]


def cholesky_seconds(m):
    matrix = np.cov(np.random.default_rng(0).standard_normal((m, 2 * m))) + np.eye(m)
    with one_blas_thread():
        repeats = max(1, 400 // m)  # the clock of a process is too coarse for one small factorisation
        times = [
            timed(lambda: [cholesky(matrix, lower=True, check_finite=False) for _ in range(repeats)]) for _ in range(9)
        ]
    return median(times) / repeats


def timed(call):
    """Seconds of processor time, of all threads."""
    start = time.process_time()
    call()
    return time.process_time() - start


def step_times(stream, source, predict=False):
    def step(frame):
        key = stream.add(*frame)
        stream.update()
        if predict:
            unseen = [row for row, name in enumerate(stream.landmarks_) if name not in frame[1]]
            stream.predict(stream.map_[unseen], key)

    return np.array([timed(lambda frame=frame: step(frame)) for frame in source])


def describe(name, times, stream, unit_size):
    """One row: median and 99th percentile per frame, in factorisations, and beside a batch fit to the last window."""
    observations = stream._require_running().observations()
    with one_blas_thread():
        batch = timed(lambda: stream.estimator.fit(observations))
    unit, middle, late = cholesky_seconds(unit_size), np.median(times), np.quantile(times, 0.99)
    return (
        f"{name}: median {1e3 * middle:.1f} ms, 99th percentile {1e3 * late:.1f} ms, longest {1e3 * times.max():.0f} "
        f"ms; the median is {middle / unit:.1f} Cholesky factorisations of {unit_size} x {unit_size}; a batch fit with "
        f"the same settings takes {batch / middle:.1f} times as long"
    )


def measure(size, modes):
    landmarks, seen, clouds = SIZES[size]
    source = frames(landmarks, seen)
    stream = StreamingGPA(fixed_kernel(modes=modes), window=clouds)
    for _ in range(clouds):
        stream.add(*next(source))
    stream.update()
    step_times(stream, [next(source)])
    times = step_times(stream, [next(source) for _ in range(STEPS)])
    return describe(f"{size}, modes={modes!r}", times, stream, landmarks)


def replay(path):
    source, stream = captured(path), StreamingGPA(window=WINDOW)
    stream.add(*source[0])
    step_times(stream, source[1:WINDOW])
    times = step_times(stream, source[WINDOW:], predict=True)
    return describe(f"{len(source)} frames, window {WINDOW}", times, stream, WINDOW)


def batch_rows():
    points = scene(60, 201, hidden=0.3)
    with one_blas_thread():
        ours = min(timed(lambda: fixed_kernel().fit(points)) for _ in range(7))
        paper = min(timed(lambda: paper_form.fit(points)) for _ in range(5))
    yield f"fit 60 x 201: {paper / ours:.1f} times faster than the paper form (ours {1e3 * ours:.0f} ms)"
    points = scene(4300, 37, hidden=0.1)
    yield f"fit 4300 x 37 with gaps: {timed(lambda: fixed_kernel().fit(points)):.2f} s"
    yield f"RigidGPA 4300 x 37 with gaps: {timed(lambda: RigidGPA().fit(points)):.2f} s"
    points = scene(4300, 37)
    yield f"RigidGPA 4300 x 37, complete: {timed(lambda: RigidGPA().fit(points)):.2f} s"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", nargs="?", choices=[*SIZES, "batch", "replay", "all"], default="all")
    parser.add_argument("file", nargs="?", help="of the motion capture to replay")
    parser.add_argument("--modes", choices=["paper", "auto", "both"], default="both")
    options = parser.parse_args()
    if (options.work == "replay") != (options.file is not None):
        parser.error("a file is needed for replay, and only there")
    warnings.simplefilter("ignore", KernelGPAWarning)
    if options.work == "replay":
        report(replay(options.file))
    for size in SIZES if options.work == "all" else {options.work} & set(SIZES):
        for modes in ("paper", "auto") if options.modes == "both" else [options.modes]:
            report(measure(size, modes))
    for line in batch_rows() if options.work in ("batch", "all") else ():
        report(line)


if __name__ == "__main__":
    main()

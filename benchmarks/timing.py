"""Times, memory, scenes and table rows that the benchmarks share."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

BUSY_LOOP = "while True: pass"


def report(*values):
    """Print at once, so that a reader sees each row when it is known."""
    print(*values, flush=True)  # noqa: T201


def row(work, figure, target, *times):
    report(f"| {work} | {figure} | {target} | {', '.join(times)} |")


def seconds_text(seconds):
    return f"{1000 * seconds:.0f} ms" if seconds < 10 else f"{seconds:.1f} s"


def run_times(function, repeats):
    """Return the seconds of each run."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return times


def best_time(function, repeats=3):
    """Return the least seconds of several runs."""
    return min(run_times(function, repeats))


def product_time():
    """Return the seconds of one 2000 x 2000 matrix product, the unit of several figures."""
    a = np.random.default_rng(0).standard_normal((2000, 2000))
    return best_time(lambda: a @ a, 7)


def peak_memory():
    """Return the peak memory of this process in bytes (getrusage would include the process that started it)."""
    status = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line.split()[1] for line in status if line.startswith("VmHWM:")))


@contextlib.contextmanager
def busy_processes(count):
    """Keep ``count`` cores busy with other processes."""
    processes = [subprocess.Popen([sys.executable, "-c", BUSY_LOOP]) for _ in range(count)]
    try:
        time.sleep(1.0)  # until they run
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def scene(n, m, hidden=0.0, noise=1.0, seed=0):
    """Return (n, m, 3) clouds of an ellipsoid of about 200 mm, deformed, rotated, shifted and partly hidden."""
    rng = np.random.default_rng(seed)
    body = rng.standard_normal((m, 3))
    body *= np.array([100.0, 70.0, 50.0]) / np.linalg.norm(body, axis=1)[:, None]
    points = np.empty((n, m, 3))
    for t in range(n):
        rotation = random_rotation(rng)
        deformed = body + 4 * np.sin(body / 40 + rng.uniform(0, 2 * np.pi, 3)) @ rng.standard_normal((3, 3))
        points[t] = (deformed + noise * rng.standard_normal((m, 3))) @ rotation.T + rng.uniform(-50, 50, 3)
        points[t, rng.random(m) < hidden] = np.nan
    return points


def random_rotation(rng):
    rotation = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    rotation[:, 0] *= np.linalg.det(rotation)
    return rotation


def cloud(t, landmarks):
    """Return cloud t and its landmark numbers, as a worker would read them from a file."""
    rng = np.random.default_rng(t)
    body = np.random.default_rng(0).standard_normal((landmarks, 3)) * [100, 70, 50]
    rotation = random_rotation(rng)
    deformed = body + 4 * np.sin(body / 40 + rng.uniform(0, 2 * np.pi, 3)) + rng.standard_normal((landmarks, 3))
    return deformed @ rotation.T, np.arange(landmarks)

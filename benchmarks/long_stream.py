"""Ten thousand frames through ``kernelgpa stream``: memory, latency, and lost frames if the process is killed.

    python benchmarks/long_stream.py FOLDER [--frames 10000] [--window 300] [--kills 5]

The frames show a body of 120 landmarks that bends while the sensor circles it; each sees 60 of them, and landmarks are
replaced by new ones all the time.  One run is not interrupted; another is killed (SIGKILL) and started again several
times; both must end with the same map.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

PAGE = 4096


def report(line):
    print(line, flush=True)  # noqa: T201


def write_frames(path, count, landmarks=120, seen=60):
    """Landmark j is replaced, under a new name, every 2000 frames."""
    rng = np.random.default_rng(0)
    template = 50 * rng.standard_normal((landmarks, 3))
    ages = rng.integers(0, 2000, landmarks)
    with path.open("w") as lines:
        for t in range(count):
            angle = 0.02 * t
            rotation = np.array([[np.cos(angle), -np.sin(angle), 0], [np.sin(angle), np.cos(angle), 0], [0, 0, 1]])
            bent = template + 4 * np.sin(template / 60 + 0.01 * t)
            chosen = np.sort(rng.choice(landmarks, seen, replace=False))
            points = (bent[chosen] + 0.3 * rng.standard_normal((seen, 3))) @ rotation.T
            ids = [f"{j}.{(t + ages[j]) // 2000}" for j in chosen]
            lines.write(
                json.dumps({"frame": t, "time": 0.04 * t, "ids": ids, "points": points.round(6).tolist()}) + "\n"
            )


def command(frames, folder, window):
    return [
        *(sys.executable, "-m", "kernelgpa", "stream", str(frames), "--window", str(window), "-o", str(folder)),
        *("--modes", "program", "--checkpoint", str(folder) + ".npz", "--checkpoint-every", "200"),
    ]


def run(frames, folder, window, count, kills=0):
    """Memory, and the time between updates, of a run that is killed and started again ``kills`` times."""
    stops = [count * (k + 1) // (kills + 1) + 37 for k in range(kills)]
    memory, moments = [], []
    while True:
        process = subprocess.Popen(command(frames, folder, window), stdout=subprocess.PIPE)
        for line in process.stdout:
            done = json.loads(line)["frame"]
            moments.append(time.perf_counter())
            if done % 100 == 0:
                resident = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1]) * PAGE
                memory.append((done, resident / 1e6))
            if stops and done >= stops[0]:
                stops.pop(0)
                process.send_signal(signal.SIGKILL)
                break
        code = process.wait()
        if code == 0:
            return memory, np.diff(moments)
        if code != -signal.SIGKILL:
            raise SystemExit(f"kernelgpa stream ended with {code}")


def map_in(folder):
    rows = [line.split(",") for line in (folder / "map.csv").read_text().splitlines()[1:]]
    return {row[1]: np.array(row[2:5], dtype=float) for row in rows}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--frames", type=int, default=10_000)
    parser.add_argument("--window", type=int, default=300)
    parser.add_argument("--kills", type=int, default=5)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    frames = options.folder / "frames.jsonl"
    write_frames(frames, options.frames)
    memory, steps = run(frames, options.folder / "uninterrupted", options.window, options.frames)
    warm = [size for done, size in memory if done >= 2 * options.window]
    report(
        f"memory: {warm[0]:.0f} MB after {2 * options.window} frames, {warm[-1]:.0f} MB at the end, "
        f"{max(warm):.0f} MB at most"
    )
    part = len(steps) // 4
    first, last = (
        1e3 * float(np.median(some)) for some in (steps[options.window : options.window + part], steps[-part:])
    )
    report(f"time per frame, median: {first:.1f} ms in the first quarter, {last:.1f} ms in the last")
    run(frames, options.folder / "killed", options.window, options.frames, options.kills)
    expected, found = map_in(options.folder / "uninterrupted"), map_in(options.folder / "killed")
    difference = max(float(np.abs(expected[name] - found[name]).max()) for name in expected)
    poses = [(options.folder / name / "poses.tum").read_text().splitlines() for name in ("uninterrupted", "killed")]
    posed = [len({line.split()[0] for line in one}) for one in poses]
    report(
        f"{options.kills} kills: maps of {len(expected)} and {len(found)} landmarks, which differ by {difference:.1e}"
    )
    report(
        f"{options.frames} frames: {posed[0]} poses (uninterrupted) and {posed[1]} (killed), in {len(poses[1])} lines"
    )


if __name__ == "__main__":
    main()

"""Ten thousand frames through ``kernelgpa stream``: memory, latency, lost frames, and kills on the way.

    python benchmarks/long_stream.py FOLDER [--frames 10000] [--window 300] [--kills 5]

The frames are a body of 120 landmarks that bends while the sensor circles it, 60 seen at a time; landmarks come and go
for ever.  One run goes through; another is killed (SIGKILL) and started again; both must end with the same map.
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


def say(*words):
    print(*words, flush=True)  # noqa: T201


def write_frames(path, count, known=120, seen=60):
    """Landmark j is renewed, under a new name, every few hundred frames."""
    rng = np.random.default_rng(0)
    template = 50 * rng.standard_normal((known, 3))
    ages = rng.integers(0, 2000, known)
    with path.open("w") as lines:
        for t in range(count):
            angle = 0.02 * t
            turn = np.array([[np.cos(angle), -np.sin(angle), 0], [np.sin(angle), np.cos(angle), 0], [0, 0, 1]])
            bent = template + 4 * np.sin(template / 60 + 0.01 * t)
            chosen = np.sort(rng.choice(known, seen, replace=False))
            points = (bent[chosen] + 0.3 * rng.standard_normal((seen, 3))) @ turn.T
            ids = [f"{j}.{(t + ages[j]) // 2000}" for j in chosen]
            lines.write(
                json.dumps({"frame": t, "time": 0.04 * t, "ids": ids, "points": points.round(6).tolist()}) + "\n"
            )


def command(frames, folder, window):
    return [
        *(sys.executable, "-m", "kernelgpa", "stream", str(frames), "--window", str(window), "-o", str(folder)),
        *("--modes", "paper", "--checkpoint", str(folder) + ".npz", "--checkpoint-every", "200"),
    ]


def run(frames, folder, window, count, kills=0):
    """Memory and the time of every update; killed so many times on the way."""
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
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    frames = given.folder / "frames.jsonl"
    write_frames(frames, given.frames)
    memory, steps = run(frames, given.folder / "whole", given.window, given.frames)
    warm = [size for done, size in memory if done >= 2 * given.window]
    say(f"memory after {2 * given.window} frames {warm[0]:.0f} MB, at the end {warm[-1]:.0f}, most {max(warm):.0f} MB")
    part = len(steps) // 4
    first, last = (1e3 * float(np.median(some)) for some in (steps[given.window : given.window + part], steps[-part:]))
    say(f"a frame takes {first:.1f} ms at first, {last:.1f} ms in the last quarter (medians)")
    run(frames, given.folder / "killed", given.window, given.frames, given.kills)
    whole, killed = map_in(given.folder / "whole"), map_in(given.folder / "killed")
    apart = max(float(np.abs(whole[name] - killed[name]).max()) for name in whole)
    poses = [(given.folder / name / "poses.tum").read_text().splitlines() for name in ("whole", "killed")]
    told = [len({line.split()[0] for line in one}) for one in poses]
    say(f"{given.kills} kills: maps of {len(whole)} and {len(killed)} landmarks, {apart:.1e} apart")
    say(f"{given.frames} frames: poses of {told[0]} (whole) and {told[1]} (killed), in {len(poses[1])} lines")


if __name__ == "__main__":
    main()

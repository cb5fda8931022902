"""Ctrl-C in the middle of long work leaves no process behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")

WORK = {
    "tuning": """
from kernelgpa import KernelGPA, selection
selection.tune(points, KernelGPA(), {"bandwidth": list(np.linspace(0.2, 1, 200)), "smoothing": [0.1, 0.01]}, n_jobs=2)
""",
    "folds": """
from kernelgpa import KernelGPA, selection
while True:
    selection.cross_validate(KernelGPA(), points, folds=40, n_jobs=2)
""",
    "fit": """
from kernelgpa import KernelGPA
while True:
    KernelGPA(n_jobs=2, robust="tukey").fit(points)
""",
}
SCENE = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in what a shell starts in the background
import sys; sys.path.insert(0, "tests")
import numpy as np
from conftest import scene
points = scene(n=20, m=150, hidden=0.2, noise=0.01)[0]
print("begun", flush=True)
"""
PATIENCE = 60  # seconds, then something hangs


def in_session(session: int) -> list[int]:
    """Processes that belong to a session, those that only wait to be collected left out."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state, _, _, sid = (entry / "stat").read_text().rsplit(")", 1)[1].split()[:4]
            except (FileNotFoundError, ProcessLookupError):  # gone meanwhile
                continue
            if int(sid) == session and state != "Z":
                found.append(int(entry.name))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("to_all", [True, False], ids=["a terminal's Ctrl-C", "a signal to the program alone"])
@pytest.mark.parametrize("work", WORK)
def test_an_interrupt_ends_everything(work, to_all):
    command = [sys.executable, "-c", SCENE + WORK[work]]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        assert process.stdout.readline() == "begun\n"
        deadline = time.monotonic() + PATIENCE
        while work == "tuning" and len(in_session(process.pid)) < 3 and time.monotonic() < deadline:
            time.sleep(0.05)  # until the workers run
        time.sleep(1.0)
        assert process.poll() is None, process.stderr.read()
        (os.killpg if to_all else os.kill)(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE)
        assert process.returncode == -signal.SIGINT or "KeyboardInterrupt" in errors
        while in_session(process.pid) and time.monotonic() < deadline + PATIENCE:
            time.sleep(0.1)
        assert in_session(process.pid) == []
    finally:
        for left in in_session(process.pid):
            os.kill(left, signal.SIGKILL)

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
print("started", flush=True)
"""
TIMEOUT = 60  # seconds


def in_session(session: int) -> list[int]:
    """The running processes of a session; zombies do not count."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state, _, _, sid = (entry / "stat").read_text().rsplit(")", 1)[1].split()[:4]
            except (FileNotFoundError, ProcessLookupError):  # it ended in the meantime
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
        assert process.stdout.readline() == "started\n"
        deadline = time.monotonic() + TIMEOUT
        while work == "tuning" and len(in_session(process.pid)) < 3 and time.monotonic() < deadline:
            time.sleep(0.05)  # until the workers run
        time.sleep(1.0)
        assert process.poll() is None, process.stderr.read()
        (os.killpg if to_all else os.kill)(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=TIMEOUT)
        assert process.returncode == -signal.SIGINT or "KeyboardInterrupt" in errors
        while in_session(process.pid) and time.monotonic() < deadline + TIMEOUT:
            time.sleep(0.1)
        assert in_session(process.pid) == []
    finally:
        for remaining in in_session(process.pid):
            os.kill(remaining, signal.SIGKILL)


# -- the command, while it starts --

ONE_LINE = "kernelgpa: interrupted; nothing was written\n"
PAUSED = """
import builtins, runpy, sys, time
real, target = builtins.__import__, sys.argv[1]

def pausing(name, *arguments, **named):
    if name == target:
        builtins.__import__ = real
        print("here", flush=True)
        try:
            time.sleep(60)
        except BaseException:  # as some libraries do
            pass
    return real(name, *arguments, **named)

builtins.__import__ = pausing
sys.argv = ["kernelgpa", "--version"]
runpy.run_module("kernelgpa", run_name="__main__", alter_sys=True)
"""


def as_in_a_terminal():
    """Interrupts are ignored in what a shell starts in the background."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def start(*arguments):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([sys.executable, *arguments], text=True, preexec_fn=as_in_a_terminal, **pipes)


@pytest.mark.parametrize("module", ["typer", "numpy", "sklearn.exceptions", "scipy.spatial", "matplotlib", "joblib"])
def test_an_interrupt_during_imports_is_one_line(module):
    with start("-c", PAUSED, module) as process:
        assert process.stdout.readline() == "here\n"
        process.send_signal(signal.SIGINT)
        printed, errors = process.communicate(timeout=TIMEOUT)
    assert (process.returncode, printed, errors) == (130, "", ONE_LINE)


@pytest.mark.parametrize("after", [0.0, 0.1, 0.3, 0.6, 1.0, 2.0])
@pytest.mark.parametrize("program", [["-m", "kernelgpa"], ["-c", "from kernelgpa.__main__ import main; main()"]])
def test_an_interrupt_during_the_start_is_one_line_or_comes_too_late(program, after):
    with start(*program, "--version") as process:
        maps = Path(f"/proc/{process.pid}/maps")
        while process.poll() is None and "numpy" not in maps.read_text():
            time.sleep(0.002)  # until the imports have started
        time.sleep(after)
        process.send_signal(signal.SIGINT)
        printed, errors = process.communicate(timeout=TIMEOUT)
    if process.returncode == 130 and not printed:
        assert errors.strip() == ONE_LINE.strip()
    else:  # the version was printed before
        assert process.returncode in (0, 130)
        assert (printed.split()[0], errors) == ("kernelgpa", "")
    assert after or process.returncode == 130


def test_a_background_command_ignores_interrupts_if_its_shell_does():
    command = [sys.executable, "-m", "kernelgpa", "--version"]
    ignoring = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **ignoring) as process:
        while process.poll() is None:
            process.send_signal(signal.SIGINT)
            time.sleep(0.05)
    assert process.returncode == 0


LIGHT = """
import sys
import kernelgpa
assert "numpy" not in sys.modules
assert set(kernelgpa.__all__) <= set(dir(kernelgpa))
"""


@pytest.mark.parametrize(
    "code",
    [
        LIGHT,
        "from kernelgpa import forecast; forecast(3, 10)",
        "import kernelgpa; kernelgpa.forecast(3, 10); kernelgpa.Forecast; kernelgpa.uncertainty.__call__",
        "from kernelgpa import *; KernelGPA(); forecast(3, 10); simulate.liver; io.read",
        "import kernelgpa; kernelgpa.plotting.clouds; kernelgpa.io.read; kernelgpa.Warp",
        "import kernelgpa; assert not hasattr(kernelgpa, 'nothing') and not hasattr(kernelgpa, '_nothing')",
        "import kernelgpa; [getattr(kernelgpa, name) for name in kernelgpa.__all__]",
        "import pickle; from kernelgpa import KernelGPA; pickle.loads(pickle.dumps(KernelGPA()))",
    ],
)
def test_public_names_are_imported_on_first_use(code):
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_table_of_public_names_is_complete():
    import kernelgpa

    named, modules = kernelgpa._HOME_OF_NAME, kernelgpa._HOME_OF_MODULE
    assert {*named, *modules, "__version__"} == set(kernelgpa.__all__)  # the version is a constant of the package
    for name, home in named.items():
        assert getattr(kernelgpa, name) is getattr(sys.modules[f"kernelgpa.{home}"], name)
    for name, home in modules.items():
        assert getattr(kernelgpa, name) is sys.modules[f"kernelgpa.{home}"]

"""The numerical tests as other processors compute them: ``make test-portable``.

OpenBLAS holds kernels for many processors, which add in different orders and so round differently.  The variable
OPENBLAS_CORETYPE chooses among them; each that this processor can execute runs once with one thread.  The machine's
own with one thread is what ``make test`` runs.  On the oldest core type NumPy's own vector instructions are off as
well.

The machine's own kernels also run with two threads, in a single test process and only on the files that register
whole scenes.  Two threads wait for one another whenever some other process has a core, and the many small products of
the other files then took five times as long.

Core types are left out, with a line that says why, if this processor lacks their instructions (the program would be
ended by SIGILL) or if the installed OpenBLAS has no kernels of their own for them.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import scipy.linalg
from threadpoolctl import threadpool_info

CORE_TYPES = ("SkylakeX", "Zen", "Haswell", "Sandybridge", "Nehalem")
OLDEST = "Nehalem"
REQUEST = "KERNELGPA_TEST_BLAS"  # "Nehalem 1": the kernels and threads that a run must find loaded
NO_VECTORS = "NPY_DISABLE_CPU_FEATURES"
TWO_THREADS = ("connectivity", "degenerate", "estimators", "invariance", "large", "paper_form", "sparse", "threads")
NUMERICAL = "numerical and not slow"


def loaded():
    """[library, kernels, threads] of every BLAS in this process: NumPy's and SciPy's, or the one they share."""
    libraries = [one for one in threadpool_info() if one["user_api"] == "blas"]
    return sorted([Path(one["filepath"]).name, kernels_of(one), one["num_threads"]] for one in libraries)


def kernels_of(library):
    return library["architecture"] if library["internal_api"] == "openblas" else library["internal_api"]


def kernels(libraries):
    """One name if NumPy's and SciPy's BLAS run the same kernels, both names if not."""
    return "+".join(sorted({name for _, name, _ in libraries}))


def other_than_requested():
    """What is wrong with the BLAS of this process, or None."""
    if REQUEST not in os.environ:
        return None
    name, threads = os.environ[REQUEST].split()
    found = loaded()
    if kernels(found) == name and all(one[2] == int(threads) for one in found):
        return None
    return f"this run was to use {name} kernels with {threads} BLAS threads, but loaded {found}"


def environment(threads, **variables):
    """The environment of a run that has so many BLAS threads and leaves no other choice to the caller's."""
    kept = {key: value for key, value in os.environ.items() if key not in ("OPENBLAS_CORETYPE", NO_VECTORS, REQUEST)}
    counts = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
    return kept | counts | variables


def probe(**variables):
    """What a new process with these environment variables loads, after some work; None if SIGILL ended it."""
    command = [sys.executable, __file__, "probe"]
    run = subprocess.run(command, env=environment(1, **variables), capture_output=True, text=True)
    if run.returncode == -signal.SIGILL:
        return None
    run.check_returncode()
    return json.loads(run.stdout)


def work():
    """Products and factorisations in NumPy's and in SciPy's BLAS, large enough for their vector kernels."""
    rng = np.random.default_rng(0)
    matrix = rng.standard_normal((300, 300))
    square = matrix @ matrix.T + np.eye(300)
    return np.linalg.eigh(square), scipy.linalg.eigh(square), scipy.linalg.cho_factor(square)


def configurations():
    """(kernels, threads, environment variables) of each run; prints what is left out and why."""
    own = kernels(probe())
    print(f"{own}: this machine's own; with one thread it is what make test runs")
    runs = []
    for core in CORE_TYPES:
        libraries = probe(OPENBLAS_CORETYPE=core)
        if libraries is None:
            print(f"{core}: left out, this processor lacks its instructions (SIGILL)")
        elif kernels(libraries) != core:
            print(f"{core}: left out, this BLAS has no such kernels and loads {kernels(libraries)} instead")
        elif core != own:
            runs.append((core, 1, {"OPENBLAS_CORETYPE": core, **(without_vectors() if core == OLDEST else {})}))
    return [*runs, (own, 2, {})]


def without_vectors():
    found = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])
    return {NO_VECTORS: " ".join(found)} if found else {}


def main(arguments):
    failed = []
    for name, threads, variables in configurations():
        shown = "".join(f" {key}='{value}'" for key, value in variables.items())
        print(f"\n{name}, {threads} BLAS thread{'s' * (threads > 1)}{shown}", flush=True)
        processes = 2 if threads == 1 else 0
        files = arguments if arguments or threads == 1 else [f"tests/test_{one}.py" for one in TWO_THREADS]
        command = [sys.executable, "-m", "pytest", "-n", str(processes), "-m", NUMERICAL, *files]
        started = time.monotonic()
        run = subprocess.run(command, env=environment(threads, **variables, **{REQUEST: f"{name} {threads}"}))
        print(f"{time.monotonic() - started:.0f} s", flush=True)
        if run.returncode:
            failed.append(f"{name} with {threads}")
    if failed:
        raise SystemExit(f"failures on: {', '.join(failed)}")


if __name__ == "__main__":
    if sys.argv[1:] == ["probe"]:
        work()
        print(json.dumps(loaded()))
    else:
        main(sys.argv[1:])

"""Run the numerical tests with the BLAS kernels of other processors: ``make test-portable``.

OpenBLAS contains kernels for many processors, which add in different orders and therefore round differently.  The
variable OPENBLAS_CORETYPE selects one of them; the tests run once, with one thread, for each that this processor can
execute.  ``make test`` runs the machine's own kernels with one thread.  For the oldest core type, NumPy's own vector
instructions are disabled too.

The machine's own kernels also run with two threads, in a single test process and only on the files that register
whole scenes.  Two threads wait for each other whenever another process occupies a core, and the many small products of
the other files then took five times as long.

A core type is skipped, with a line that states why, if this processor lacks its instructions (the program would be
ended by SIGILL) or if the installed OpenBLAS has no kernels for it.
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
OLDEST_CORE_TYPE = "Nehalem"
REQUESTED_BLAS = "KERNELGPA_TEST_BLAS"  # "Nehalem 1": the kernels and the threads that a run must have loaded
DISABLED_VECTORS = "NPY_DISABLE_CPU_FEATURES"
TWO_THREADS = ("connectivity", "degenerate", "estimators", "invariance", "large", "paper_form", "sparse", "threads")
SELECTION = "numerical and not slow"


def loaded_blas():
    """Return [library, kernels, threads] of each BLAS in this process: NumPy's and SciPy's, or the one they share."""
    libraries = [one for one in threadpool_info() if one["user_api"] == "blas"]
    return sorted([Path(one["filepath"]).name, kernels_of(one), one["num_threads"]] for one in libraries)


def kernels_of(library):
    return library["architecture"] if library["internal_api"] == "openblas" else library["internal_api"]


def kernels(libraries):
    """Return one name if NumPy's and SciPy's BLAS use the same kernels, both names otherwise."""
    return "+".join(sorted({name for _, name, _ in libraries}))


def blas_mismatch():
    """Return how the BLAS of this process differs from the requested one, or None."""
    if REQUESTED_BLAS not in os.environ:
        return None
    name, threads = os.environ[REQUESTED_BLAS].split()
    found = loaded_blas()
    if kernels(found) == name and all(one[2] == int(threads) for one in found):
        return None
    return f"{name} kernels with {threads} BLAS threads were requested, but {found} are loaded"


def environment(threads, **variables):
    """Return the environment of a run with ``threads`` BLAS threads, without the caller's choices of kernels."""
    kept = {
        key: value
        for key, value in os.environ.items()
        if key not in ("OPENBLAS_CORETYPE", DISABLED_VECTORS, REQUESTED_BLAS)
    }
    counts = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
    return kept | counts | variables


def probe(**variables):
    """Return the BLAS that a new process with these variables loads; None if it is ended by SIGILL while it works."""
    command = [sys.executable, __file__, "probe"]
    run = subprocess.run(command, env=environment(1, **variables), capture_output=True, text=True)
    if run.returncode == -signal.SIGILL:
        return None
    run.check_returncode()
    return json.loads(run.stdout)


def exercise_blas():
    """Multiply and factorise in NumPy's and in SciPy's BLAS, in sizes that use their vector kernels."""
    rng = np.random.default_rng(0)
    matrix = rng.standard_normal((300, 300))
    square = matrix @ matrix.T + np.eye(300)
    return np.linalg.eigh(square), scipy.linalg.eigh(square), scipy.linalg.cho_factor(square)


def configurations():
    """Return (kernels, threads, environment variables) of each run, and print which are skipped and why."""
    own = kernels(probe())
    print(f"{own}: this machine's own; make test runs it with one thread")
    runs = []
    for core in CORE_TYPES:
        libraries = probe(OPENBLAS_CORETYPE=core)
        if libraries is None:
            print(f"{core}: skipped, this processor lacks its instructions (SIGILL)")
        elif kernels(libraries) != core:
            print(f"{core}: skipped, this BLAS has no such kernels and loads {kernels(libraries)} instead")
        elif core != own:
            runs.append(
                (core, 1, {"OPENBLAS_CORETYPE": core, **(without_vectors() if core == OLDEST_CORE_TYPE else {})})
            )
    return [*runs, (own, 2, {})]


def without_vectors():
    """Return the variable that disables all vector instructions that NumPy found."""
    found = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])
    return {DISABLED_VECTORS: " ".join(found)} if found else {}


def main(arguments):
    failed = []
    for name, threads, variables in configurations():
        settings = "".join(f" {key}='{value}'" for key, value in variables.items())
        print(f"\n{name}, {threads} BLAS thread{'s' * (threads > 1)}{settings}", flush=True)
        processes = 2 if threads == 1 else 0
        files = arguments if arguments or threads == 1 else [f"tests/test_{one}.py" for one in TWO_THREADS]
        command = [sys.executable, "-m", "pytest", "-n", str(processes), "--dist", "worksteal", "-m", SELECTION, *files]
        started = time.monotonic()
        run = subprocess.run(command, env=environment(threads, **variables, **{REQUESTED_BLAS: f"{name} {threads}"}))
        print(f"{time.monotonic() - started:.0f} s", flush=True)
        if run.returncode:
            failed.append(f"{name} with {threads}")
    if failed:
        raise SystemExit(f"failures on: {', '.join(failed)}")


if __name__ == "__main__":
    if sys.argv[1:] == ["probe"]:
        exercise_blas()
        print(json.dumps(loaded_blas()))
    else:
        main(sys.argv[1:])

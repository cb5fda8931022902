"""Run the whole test suite with each Python version that pyproject.toml lists: ``make test-pythons``."""

from __future__ import annotations

import nox

nox.options.default_venv_backend = "venv"
nox.options.reuse_venv = "yes"
nox.options.error_on_missing_interpreters = True
nox.options.stop_on_first_error = False

# two test processes on two cores: with more threads they would only wait for each other
SINGLE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


@nox.session(python=nox.project.python_versions(nox.project.load_toml()))
def tests(session: nox.Session) -> None:
    session.install("--editable", ".[dev]")
    session.run("python", "-m", "pytest", "-n", "2", *session.posargs, env=SINGLE_THREAD)

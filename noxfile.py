"""Environments other than .venv: ``make test-pythons`` and ``make release-check``."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import nox

nox.needs_version = ">=2024.4"
nox.options.default_venv_backend = "venv"
nox.options.reuse_venv = "yes"
nox.options.error_on_missing_interpreters = True
nox.options.stop_on_first_error = False
nox.options.sessions = ["tests"]

PYTHONS = nox.project.python_versions(nox.project.load_toml())
ROOT = Path(__file__).resolve().parent
# two test processes on two cores: with more threads they would only wait for each other
TWO_PROCESSES = ("-n", "2", "--dist", "worksteal")
SINGLE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
TEST_FILES = ("tests", "src", "docs", "benchmarks", "packaging")  # what the tests read
TEST_FILES += ("pyproject.toml", "Makefile", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "CITATION.cff")


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """All tests, with the newest versions of the dependencies."""
    session.install("--editable", ".[dev]")
    session.run("python", "-m", "pytest", *TWO_PROCESSES, *session.posargs, env=SINGLE_THREAD)


@nox.session(python=PYTHONS, reuse_venv=False)
@nox.parametrize(
    "versions",
    [nox.param(one, id=one, tags=["release", one]) for one in ("lowest", "highest")],
)
def release(session: nox.Session, versions: str) -> None:
    """The wheel in an empty environment: first alone, with the demo, then with what the tests need, and the tests."""
    wheel = next((ROOT / "dist").glob("*.whl"), None)
    if wheel is None:
        session.error("there is no wheel in dist; run `python -m build` first")
    folder = Path(session.create_tmp())
    install(session, wheel, folder, versions, extras=())
    session.chdir(folder)
    session.run("python", "-c", ONLY_WHAT_IS_REQUIRED)
    session.run("kernelgpa", "demo", env=SINGLE_THREAD)
    session.chdir(ROOT)
    install(session, wheel, folder, versions, extras=("test",))
    clone = folder / "clone"
    shutil.rmtree(clone, ignore_errors=True)
    clone.mkdir()
    for name in TEST_FILES:
        copy(ROOT / name, clone / name)
    session.chdir(clone)
    session.run("python", "-c", "import kernelgpa; assert 'site-packages' in kernelgpa.__file__, kernelgpa.__file__")
    chosen = session.posargs or ("-m", "numerical and not slow")
    session.run("python", "-m", "pytest", *TWO_PROCESSES, "-p", "no:cacheprovider", *chosen, env=SINGLE_THREAD)


# extras must not come with the package, and must not be needed to import it
ONLY_WHAT_IS_REQUIRED = """
from importlib.util import find_spec
extras = [name for name in ("igl", "distributed", "pandas", "xarray", "pyvista", "pytest") if find_spec(name)]
assert not extras, f"installed with the package: {extras}"
import kernelgpa
for name in kernelgpa.__all__:
    getattr(kernelgpa, name)
"""


def install(session: nox.Session, wheel: Path, folder: Path, versions: str, extras: tuple[str, ...]) -> None:
    """Install the wheel with the lowest or the highest versions of what it depends on."""
    wanted = folder / f"requirements-{'-'.join(extras) or 'none'}.txt"
    resolution = {"lowest": "lowest-direct", "highest": "highest"}[versions]
    arguments = [argument for extra in extras for argument in ("--extra", extra)]
    arguments += ["--python-version", str(session.python), "--resolution", resolution, "--only-binary", ":all:"]
    arguments += ["--quiet", "--upgrade", "--no-header", "--no-annotate", "--output-file", str(wanted)]
    uv = (sys.executable, "-m", "uv", "pip")
    session.run_install(*uv, "compile", "pyproject.toml", *arguments, external=True)
    others = [line for line in wanted.read_text(encoding="utf-8").splitlines() if not re.match(r"kernelgpa\b", line)]
    wanted.write_text("\n".join(others), encoding="utf-8")
    here = ("install", "--quiet", "--python", str(Path(session.bin) / "python"))
    session.run_install(*uv, *here, "--only-binary", ":all:", "--requirement", str(wanted), external=True)
    session.run_install(*uv, *here, "--no-deps", str(wheel), external=True)


def copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(
            source, target, ignore=shutil.ignore_patterns("_build", "auto_gallery", "generated", "__pycache__")
        )
    else:
        shutil.copy2(source, target)

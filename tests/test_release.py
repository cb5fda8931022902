"""What is published agrees with pyproject.toml, extras are optional, and the types serve a user."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
import yaml

import kernelgpa as package
import typed_use
from kernelgpa import io

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
RECIPE_TEXT = (ROOT / "packaging" / "recipe" / "recipe.yaml").read_text(encoding="utf-8")
CONTAINER = (ROOT / "packaging" / "Containerfile").read_text(encoding="utf-8")
CONDA_NAMES = {"matplotlib": "matplotlib-base"}  # without a graphical toolkit
EXTRAS = ("dask", "distributed", "igl", "pandas", "pyvista", "xarray")
HEAVY = ("matplotlib", "numpy", "plotly", "rich", "scipy", "sklearn")


# -- versions --


def test_all_files_name_the_same_version():
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    latest = re.search(r"^## \[(\d[\d.]*)\] - (\S+)$", changelog, re.MULTILINE)
    assert latest[1] == citation["version"] == recipe()["context"]["version"] == package.__version__
    assert latest[2] == citation["date-released"]


def test_the_classifiers_list_the_python_versions_from_the_lowest_that_is_required():
    listed = [tuple(map(int, one)) for one in re.findall(r"Python :: (3)\.(\d+)", "\n".join(PROJECT["classifiers"]))]
    assert listed == [(3, minor) for minor in range(listed[0][1], listed[-1][1] + 1)]
    assert PROJECT["requires-python"] == ">=" + ".".join(map(str, listed[0]))


def test_every_dependency_has_a_lower_bound_and_no_upper_one():
    groups = [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]
    for requirement in (one for group in groups for one in group):
        assert requirement.startswith("kernelgpa[") or re.fullmatch(r"[\w-]+>=[\d.]+", requirement), requirement


# -- the recipe for conda-forge --


def recipe():
    """The recipe with the values of its context filled in."""
    context = yaml.safe_load(RECIPE_TEXT)["context"]
    filled = re.sub(r"\$\{\{ (\w+) \}\}", lambda found: context.get(found[1], found[0]), RECIPE_TEXT)
    return yaml.safe_load(filled)


def test_the_recipe_requires_what_the_package_requires():
    required = {}
    for requirement in PROJECT["dependencies"]:
        name, bound = requirement.split(">=")
        required[CONDA_NAMES.get(name, name)] = f">={bound}"
    required["python"] = PROJECT["requires-python"]
    listed = dict(one.split(" ") for one in recipe()["requirements"]["run"])
    assert listed == required


def test_the_recipe_describes_the_package():
    found = recipe()
    assert found["package"] == {"name": PROJECT["name"], "version": package.__version__}
    scripts = [f"{name} = {target}" for name, target in PROJECT["scripts"].items()]
    assert found["build"]["python"]["entry_points"] == scripts
    about = found["about"]
    assert (about["license"], about["summary"]) == (PROJECT["license"], PROJECT["description"])
    assert [about["license_file"]] == PROJECT["license-files"]
    urls = PROJECT["urls"]
    assert [about["homepage"], about["documentation"], about["repository"]] == [
        urls["Homepage"],
        urls["Documentation"],
        urls["Source"],
    ]
    assert found["build"]["noarch"] == "python"


# -- the container: what can be checked without building it --


def instructions(text):
    """The instructions of a container file and their arguments."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [tuple(line.split(maxsplit=1)) for line in lines]


def test_the_container_has_what_a_build_of_the_wheel_reads():
    copied = [shlex.split(rest)[:-1] for name, rest in instructions(CONTAINER) if name == "COPY"]
    own = [source for sources in copied if not sources[0].startswith("--") for source in sources]
    assert {PROJECT["readme"], *PROJECT["license-files"], "pyproject.toml", "src"} == set(own)
    assert all((ROOT / source).exists() for source in own)


def test_the_container_runs_the_command_on_a_python_that_is_tested():
    found = instructions(CONTAINER)
    assert {name for name, _ in found} <= {"FROM", "WORKDIR", "COPY", "RUN", "ENV", "VOLUME", "ENTRYPOINT", "CMD"}
    bases = [rest.split()[0] for name, rest in found if name == "FROM"]
    minors = {re.search(r"python:(3\.\d+)-", base)[1] for base in bases}
    assert minors <= {
        name.rsplit(" ", 1)[1] for name in PROJECT["classifiers"] if re.search(r"Python :: 3\.\d+$", name)
    }
    entry = dict(found)["ENTRYPOINT"]
    assert yaml.safe_load(entry) == list(PROJECT["scripts"])


def test_the_command_that_the_container_file_shows_registers_a_folder(kernelgpa):
    """With the mounted folder as current folder, twice: results of the first run are not taken as input."""
    shown = re.search(r'--volume "\$PWD:/data" kernelgpa (.*)$', CONTAINER, re.MULTILINE)[1].split()
    assert dict(instructions(CONTAINER))["VOLUME"] == "/data"
    assert ("WORKDIR", "/data") in instructions(CONTAINER)
    rng = np.random.default_rng(0)
    body = 50 * rng.standard_normal((12, 3))
    labels = tuple(f"L{j}" for j in range(12))
    Path("skulls").mkdir()
    for t in range(4):
        cloud = io.LabelledCloud(f"skull {t}", body + rng.standard_normal((12, 3)), labels)
        io.write(Path("skulls") / f"skull{t}.csv", io.LandmarkFile((cloud,), labelled=True))
    for _ in range(2):
        code, _, messages = kernelgpa(*shown)
        assert code == 0, messages
        assert "4 clouds, 12 landmarks" in messages
    assert package.load("out").map_.shape == (12, 3)


# -- optional extras, and types --


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()


def test_an_import_of_the_package_imports_no_other_package():
    modules = run("import sys; before = set(sys.modules); import kernelgpa; print(*set(sys.modules) - before)")
    names = {module.split(".")[0] for module in modules}
    assert "kernelgpa" in names
    assert not names & {*HEAVY, *EXTRAS}
    assert names - {"kernelgpa"} <= set(sys.stdlib_module_names)


def test_the_estimators_need_no_plots_and_no_cluster():
    """Nor pandas, but scikit-learn imports that by itself if it is installed."""
    modules = run("import sys; from kernelgpa import KernelGPA, ShapeModel, StreamingGPA, io; print(*sys.modules)")
    assert not {module.split(".")[0] for module in modules} & {"matplotlib", "plotly", "dask", "distributed", "pyvista"}


WITHOUT_EXTRAS = f"""
import sys
for name in {EXTRAS!r}:
    sys.modules[name] = None  # an import of it raises ImportError
from kernelgpa import KernelGPA, ShapeModel, plotting, simulate
scene = simulate.liver(clouds=5, landmarks=40, hidden=0.1)
gpa = KernelGPA(bandwidth=0.5, smoothing=0.1, robust=None).fit(scene.points)
gpa.diagnose(), gpa.impute(), plotting.map_of(gpa)
ShapeModel(shrinkage=0.5, bandwidth=0.5, noise=0.1).fit(scene.points)
from kernelgpa.cli import main
sys.argv = ["kernelgpa", "simulate", "-o", sys.argv[1], "--clouds", "4", "--landmarks", "20"]
main()
"""


def test_everything_but_the_extras_works_without_them(tmp_path):
    command = [sys.executable, "-c", WITHOUT_EXTRAS, str(tmp_path / "scans.csv")]
    subprocess.run(command, check=True, capture_output=True)
    assert (tmp_path / "scans.csv").is_file()


@pytest.mark.slow
def test_a_users_program_passes_mypy_in_strict_mode(tmp_path):
    """Outside of the repository, so that only the types of the installed package count."""
    program = tmp_path / "program.py"
    program.write_text(Path(typed_use.__file__).read_text(encoding="utf-8"), encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), program.name]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
    program.write_text('from kernelgpa import KernelGPA\nKernelGPA(bandwidth=[])\n"" + KernelGPA().map_.shape\n')
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert found.returncode == 1  # mypy sees the types, and not Any


def test_a_users_program_runs(tmp_path):
    assert np.isfinite(typed_use.main(tmp_path))

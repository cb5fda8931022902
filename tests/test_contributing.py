"""The recipes of CONTRIBUTING.md, run as they are written.

A new kernel and a new family of warps obey the laws, a new check takes part in the diagnosis, and a new format is read
back as it was written.
"""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

from conftest import random_rotation, scene
from fixed_settings import fixed_kernel
from kernelgpa import FormatError, InvalidSetting, KernelGPA, Observations, RigidGPA, io, load, save
from kernelgpa.estimators.methods import METHODS, Method
from kernelgpa.io import files
from kernelgpa.io.landmark_file import LabelledCloud, LandmarkFile, ReadOptions
from kernelgpa.trust.diagnosis import checks
from kernelgpa.warps import KernelFamily, reduce
from kernelgpa.warps.gram import gram, gram_gradient
from kernelgpa.warps.kernels import KERNELS, as_kernel

EPS = np.finfo(np.float64).eps
CONTRIBUTING = Path(__file__).parents[1] / "CONTRIBUTING.md"


def recipe(title):
    """The names that the code under a title of CONTRIBUTING.md defines."""
    text = CONTRIBUTING.read_text(encoding="utf-8")
    section = re.search(rf"^## {title}\n(.*?)(?=^## )", text, re.DOTALL | re.MULTILINE).group(1)
    names = {"__name__": __name__}
    for code in re.findall(r"^ *```python\n(.*?)^ *```", section, re.DOTALL | re.MULTILINE):
        exec(compile(dedent(code), str(CONTRIBUTING), "exec", dont_inherit=True), names)
    return names


@pytest.fixture
def kernel(monkeypatch):
    """The kernel of the recipe, entered in the table."""
    kernel = recipe("Adding a kernel")["InverseMultiquadric"]()
    monkeypatch.setitem(KERNELS, "inverse-multiquadric", kernel)
    return kernel


@pytest.fixture
def family():
    return recipe("Adding a family of warps")["GridKernelFamily"](control_points=3, smoothing=0.1)


@pytest.fixture
def estimator(monkeypatch):
    """The estimator of the recipe, entered in the table of methods."""
    estimator = recipe("Adding a family of warps")["GridKernelGPA"]
    monkeypatch.setitem(METHODS, "grid", Method(estimator, "kernel warps on a grid"))
    return estimator(control_points=3)


def rigid_copies(d):
    shape = np.random.default_rng(0).standard_normal((30, d)) * np.array([1.0, 0.7, 0.5])[:d]
    rng = np.random.default_rng(1)
    return np.stack([shape @ random_rotation(d, rng).T + rng.standard_normal(d) for _ in range(4)]), shape


def assert_obeys_the_laws(family, d):
    """Q 1 = 0, affine functions cost nothing, Q is positive semidefinite, and the warp attains the cost."""
    weights = np.random.default_rng(2).uniform(0.5, 2.0, 40)
    cloud = Observations.from_array(scene(d=d, hidden=0.0)[0], weights).clouds[0]
    reduced = reduce(family, cloud)
    Q = reduced.cost_matrix()
    # rounding is amplified by the ratio of the kernel matrix, with entries up to 1, to the smoothing
    rounding = 100 * EPS * weights.max() * (1 + len(weights) / family.smoothing)
    assert_allclose(Q.sum(axis=1), 0, rtol=0, atol=rounding)
    assert_allclose(Q @ cloud.points, 0, rtol=0, atol=rounding * np.linalg.norm(cloud.points))
    assert np.linalg.eigvalsh(Q)[0] >= -rounding
    targets = np.sin(cloud.points)
    warp = reduced.fit_all([targets])[0]
    residuals = np.sum(weights[:, None] * (targets - warp(cloud.points)) ** 2)
    assert_allclose(residuals + family.smoothing * warp.energy, np.vdot(targets, Q @ targets), rtol=1e-9)


def assert_exact_map_of_rigid_copies(estimator, d):
    copies, shape = rigid_copies(d)
    fitted = estimator.fit(copies)
    distances = np.linalg.norm(shape[:, None] - shape, axis=2)
    found = np.linalg.norm(fitted.map_[:, None] - fitted.map_, axis=2)
    assert_allclose(found, distances, rtol=0, atol=1e-7)
    for warp, cloud in zip(fitted.warps_, copies, strict=True):
        assert_allclose(warp(cloud), fitted.map_, rtol=0, atol=1e-7)


def test_the_new_kernel_is_positive_definite_and_has_the_stated_derivative(kernel, dimension):
    rng = np.random.default_rng(0)
    points, weights = rng.standard_normal((30, dimension)), rng.standard_normal((30, 1))
    assert np.linalg.eigvalsh(gram(kernel, points, points, 0.5))[0] > 0
    x, step = rng.standard_normal((5, dimension)), EPS ** (1 / 3)
    gradient = gram_gradient(kernel, x, points, 0.5, weights)
    for j in range(dimension):
        ahead, behind = x + step * np.eye(dimension)[j], x - step * np.eye(dimension)[j]
        change = (gram(kernel, ahead, points, 0.5) - gram(kernel, behind, points, 0.5)) @ weights
        # derivatives of third order are at most about 1 / sigma^3
        tolerance = np.abs(weights).sum() * (10 * EPS / step + 10 * step**2 / 0.5**3)
        assert_allclose(gradient[:, :, j], change / (2 * step), rtol=0, atol=tolerance)


def test_the_new_kernel_is_found_by_its_name_and_gives_the_same_map_as_its_function(kernel):
    points = scene()[0]
    assert as_kernel("inverse-multiquadric") is kernel
    by_name = fixed_kernel(kernel="inverse-multiquadric").fit(points).map_
    assert np.array_equal(fixed_kernel(kernel=kernel).fit(points).map_, by_name)
    by_function = fixed_kernel(kernel=lambda r: 1 / np.sqrt(1 + r**2)).fit(points).map_
    assert_allclose(by_function, by_name, rtol=0, atol=1e-9)


def test_warps_of_the_new_kernel_obey_the_laws(kernel, dimension):
    assert_obeys_the_laws(KernelFamily(kernel, 0.5, 0.1), dimension)
    assert_obeys_the_laws(KernelFamily(kernel, 0.5, 0.1, inducing=15), dimension)


def test_the_new_kernel_gives_an_exact_map_of_rigid_copies(kernel, dimension):
    assert_exact_map_of_rigid_copies(fixed_kernel(kernel="inverse-multiquadric"), dimension)


def test_the_new_family_obeys_the_laws(family, dimension):
    assert_obeys_the_laws(family, dimension)


@pytest.mark.parametrize("modes", ["auto", "paper", "program"])
def test_the_new_estimator_gives_an_exact_map_of_rigid_copies(estimator, modes, dimension):
    assert_exact_map_of_rigid_copies(estimator.set_params(modes=modes), dimension)


def test_the_new_estimator_fits_and_predicts_partly_seen_clouds(estimator):
    points, _ = scene(bend=0.1, noise=0.01)
    fitted = clone(estimator).fit(points)
    assert fitted.map_.shape == points.shape[1:]
    assert np.isfinite(fitted.map_).all()
    assert np.isfinite(fitted.transform(points[0][~np.isnan(points[0, :, 0])], cloud=0)).all()
    assert np.isfinite(fitted._reduced_cloud(0).variance(fitted.map_)).all()


def test_the_new_estimator_is_saved_and_loaded_with_its_warps(estimator, tmp_path, dimension):
    points, _ = scene(d=dimension, bend=0.1, noise=0.01)
    fitted = estimator.fit(points)
    loaded = load(save(fitted, tmp_path / "out"))
    assert type(loaded) is type(fitted)
    assert loaded.get_params() == fitted.get_params()
    assert np.array_equal(loaded.map_, fitted.map_, equal_nan=True)
    for t in range(len(points)):
        assert_allclose(loaded.transform(points[t], t), fitted.transform(points[t], t), rtol=1e-15)


def test_an_estimator_that_is_not_in_the_table_cannot_be_saved(tmp_path):
    class OwnGPA(KernelGPA):
        pass

    fitted = OwnGPA(bandwidth=0.5, smoothing=0.1, robust=None).fit(scene()[0])
    with pytest.raises(InvalidSetting, match=r"OwnGPA is not in the table of methods.*enter it in METHODS"):
        save(fitted, tmp_path / "out")
    assert not (tmp_path / "out").exists()


# -- a check --


@pytest.fixture
def new_check(monkeypatch):
    """The check of the recipe, entered in the table of those that are reported on their own."""
    check = recipe("Adding a check")["clouds_that_saw_little"]
    monkeypatch.setitem(checks.INDEPENDENT, "clouds that saw little", check)


def findings_of(points, kind):
    return [finding for finding in RigidGPA().fit(points).diagnose() if finding.kind == kind]


@pytest.mark.usefixtures("new_check")
def test_the_new_check_finds_its_fault_and_nothing_else():
    points, _ = scene(hidden=0.0)
    assert not findings_of(points, "clouds that saw little")
    points[2, 5:] = np.nan  # 5 of 40
    (finding,) = findings_of(points, "clouds that saw little")
    assert finding.found.endswith("were seen by cloud 2")
    assert finding.severity == 1 / len(points)


@pytest.mark.usefixtures("new_check")
def test_a_new_check_that_cannot_run_is_reported():
    points, _ = scene(hidden=0.0)
    (finding,) = [one for one in findings_of(points[:, :4], "checks that could not run") if "saw little" in one.found]
    assert finding.found == "clouds that saw little: 4 landmarks are too few for a share of them"


# -- a format --


@pytest.fixture
def xyz(monkeypatch):
    """The format of the recipe, entered in the table."""
    names = recipe("Adding a file format")
    module = SimpleNamespace(**{name: names[name] for name in ("HOLDS", "parse", "render")})
    monkeypatch.setitem(files.FORMATS, ".xyz", files._text(module))
    return module


def labelled_body(labels=("nose", "chin", "left", "right")):
    points = np.random.default_rng(0).standard_normal((len(labels), 3))
    return LandmarkFile((LabelledCloud("skull", points, labels),), labelled=True)


@pytest.mark.usefixtures("xyz")
def test_a_file_of_the_new_format_is_read_as_it_was_written(tmp_path):
    given = labelled_body()
    io.write(tmp_path / "skull.xyz", given)
    found = io.read(tmp_path / "skull.xyz")
    assert [(one.name, one.labels) for one in found.clouds] == [(one.name, one.labels) for one in given.clouds]
    assert np.array_equal(found.clouds[0].points, given.clouds[0].points)
    assert io.read_clouds([tmp_path]).landmarks == list(given.clouds[0].labels)


@pytest.mark.parametrize("text", ["", "nose 1 2\n", "nose 1 2 x\n", "nose 1 2 3\nnose 4 5 6\n"])
def test_what_the_new_format_cannot_read_is_an_error(xyz, text):
    with pytest.raises(FormatError):
        xyz.parse(text, "skull.xyz", ReadOptions())


def test_what_the_new_format_cannot_hold_is_an_error(xyz):
    with pytest.raises(FormatError, match="contains spaces"):
        xyz.render(labelled_body(("nose tip", "chin")))

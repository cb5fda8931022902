"""Scenes for all tests, a repeatable Hypothesis profile, and the list of numerical tests."""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from fixed_settings import fixed_kernel, fixed_tps
from kernelgpa import AffineGPA, RigidGPA, simulate
from kernelgpa.cli import main
from kernelgpa.streaming.frames import render
from portable import blas_mismatch
from stream_runs import CLOUDS, LANDMARKS

# files whose results depend on rounding; they also run with the BLAS kernels of other processors.  test_trust is not
# among them, because it mostly compares averages over random scenes and would add a sixth to the time
NUMERICAL = {
    "test_checkpoints",
    "test_connectivity",
    "test_contributing",
    "test_cost_forms",
    "test_cost_operators",
    "test_decisions",
    "test_degenerate",
    "test_diagnosis",
    "test_estimators",
    "test_invariance",
    "test_inverse",
    "test_kernels",
    "test_large",
    "test_leave_out",
    "test_metrics",
    "test_optimality",
    "test_paper_form",
    "test_posegraph",
    "test_reduced_clouds",
    "test_rotations",
    "test_selection",
    "test_sparse",
    "test_spectral",
    "test_stream_failures",
    "test_stream_motions",
    "test_streaming",
    "test_threads",
    "test_warps",
}


def pytest_configure():
    if mismatch := blas_mismatch():
        raise pytest.UsageError(mismatch)
    if missing := NUMERICAL - {path.stem for path in Path(__file__).parent.glob("test_*.py")}:
        raise pytest.UsageError(f"NUMERICAL in tests/conftest.py lists files that do not exist: {', '.join(missing)}")


def pytest_collection_modifyitems(items):
    for item in items:
        if item.module.__name__ in NUMERICAL:
            item.add_marker(pytest.mark.numerical)


matplotlib.use("Agg")
settings.register_profile(
    "repeatable", derandomize=True, deadline=None, max_examples=10, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("repeatable")

# each kind of registration for which the invariances of the map hold
STANDARD_MODELS = [
    RigidGPA(),
    RigidGPA(scaling=True),
    AffineGPA(),
    AffineGPA(modes="program"),
    AffineGPA(modes="paper"),
    fixed_tps(control_points=3),
    fixed_tps(control_points=3, modes="program"),
    fixed_kernel(),
    fixed_kernel(modes="program"),
    fixed_kernel(modes="program", scale_method="closed-form"),
    fixed_kernel(modes="program", scale_method="pairwise"),
    fixed_kernel(modes="paper"),
    fixed_kernel(modes="paper", scale_method="closed-form"),
]


def scene(n=6, m=40, d=3, bend=0.05, hidden=0.3, seed=0, noise=0.0):
    """Return points (n, m, d) and template (m, d): a random body of size about 1, deformed, moved and partly hidden."""
    rng = np.random.default_rng(seed)
    template = rng.standard_normal((m, d)) * np.array([1.0, 0.7, 0.5])[:d]
    points = np.empty((n, m, d))
    for t in range(n):
        slope, phase = rng.standard_normal((d, d)), rng.uniform(0, 2 * np.pi, d)
        deformed = template + bend * np.sin(template @ slope.T + phase) + noise * rng.standard_normal((m, d))
        points[t] = deformed @ random_rotation(d, rng).T + rng.standard_normal(d)
    unseen = rng.random((n, m)) < hidden
    unseen[:2, unseen.all(axis=0) | (unseen.sum(axis=0) == n - 1)] = False
    points[unseen] = np.nan
    return points, template


def random_rotation(d, rng):
    q = np.linalg.qr(rng.standard_normal((d, d)))[0]
    q[:, 0] *= np.linalg.det(q)
    return q


@pytest.fixture(params=[2, 3], ids=["2D", "3D"])
def dimension(request):
    return request.param


def run(monkeypatch, *arguments):
    """Return the exit code of ``kernelgpa arguments``."""
    monkeypatch.setattr(sys, "argv", ["kernelgpa", *map(str, arguments)])
    try:
        main()
    except SystemExit as error:
        return error.code
    return 0


@pytest.fixture
def kernelgpa(monkeypatch, capsys, tmp_path):
    """Run ``kernelgpa arguments`` in a folder of its own: exit code, standard output, standard error."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        code = run(monkeypatch, *arguments)
        return code, *capsys.readouterr()

    return call


@pytest.fixture
def scans(kernelgpa):
    """A simulated scene in files: scans.csv, truth.csv, surface.npz."""
    names = ["--truth", "truth.csv", "--surface", "surface.npz"]
    assert kernelgpa("simulate", "-o", "scans.csv", "--clouds", 6, "--landmarks", 60, *names)[0] == 0
    return kernelgpa


@pytest.fixture(scope="module")
def liver():
    """The scene whose frames ``kernelgpa stream`` reads."""
    return simulate.liver(clouds=CLOUDS, landmarks=LANDMARKS, bend=8.0, hidden=0.3, noise=0.5, seed=0)


@pytest.fixture(scope="module")
def texts(liver):
    """The frames of the liver, one line each."""
    labels = [str(j + 1) for j in range(LANDMARKS)]
    return [render(t, float(t), labels, points) for t, points in enumerate(liver.points)]


@pytest.fixture
def frames(texts, tmp_path):
    path = tmp_path / "frames.jsonl"
    path.write_text("".join(texts))
    return path


@pytest.fixture
def nothing_left_behind():
    """No figure stays with pyplot, and no setting of matplotlib changes."""
    before = dict(plt.rcParams)
    yield
    assert plt.get_fignums() == []
    assert dict(plt.rcParams) == before

"""The certificate of the rotations: it never certifies what can be improved, and its gap bounds every improvement."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from conftest import STANDARD_MODELS, random_rotation, scene
from degenerate_scenes import embedded
from fixed_settings import fixed_kernel
from kernelgpa import AffineGPA, RigidGPA, load, save
from kernelgpa.gauge.certificate import SMALL, Certificate, certify
from kernelgpa.gauge.initial import Start
from kernelgpa.gauge.rigid import RigidSystem
from kernelgpa.gauge.rotations import maximise_over_rotations
from kernelgpa.io.model_file import from_bytes, to_bytes
from kernelgpa.report.page import render
from kernelgpa.spectrum.total import total_cost

pytestmark = pytest.mark.filterwarnings("ignore::kernelgpa.KernelGPAWarning")

EPS = np.finfo(float).eps
MODELS = {
    "rigid": RigidGPA(),
    "faithful": fixed_kernel(),
    "paper": fixed_kernel(modes="paper"),
    "program": fixed_kernel(modes="program"),
    "5 modes": fixed_kernel(modes=5),
}
KINDS = [(name, d) for name in MODELS for d in (2, 3)]
every_kind = pytest.mark.parametrize(("name", "d"), KINDS, ids=[f"{name} {d}D" for name, d in KINDS])
RESTARTS = 20
SCENES_OF_EACH_KIND = 50  # with ten kinds, 500 scenes
ROUNDING = 1e4 * EPS  # relative error of f and of the gap, for at most some hundred unknowns
CLEARLY = 1e-9  # relative difference of f that is no rounding error


def random_points(d, seed):
    """A small scene, anything from exact copies to clouds that have almost nothing in common."""
    rng = np.random.default_rng(seed)
    if seed % 3 == 0:
        return ring(d, rng)
    bend, noise = rng.choice([0.0, 0.1, 0.5, 2.0]), rng.choice([0.0, 0.05, 0.3, 1.0, 3.0])
    n, m = int(rng.integers(3, 8)), int(rng.integers(12, 18))
    return scene(n=n, m=m, d=d, bend=bend, noise=noise, hidden=rng.choice([0.0, 0.15]), seed=seed)[0]


def ring(d, rng):
    """Clouds along a closed path, each of which shares landmarks with its neighbours only.

    Rotations that turn once too often along the path are a local optimum.
    """
    n, new = int(rng.integers(8, 13)), d + 1  # each cloud adds this many landmarks
    m = n * new
    angles = 2 * np.pi * np.arange(m) / m
    path = n / 3 * np.column_stack([np.cos(angles), np.sin(angles), 0 * angles])[:, :d]
    body, noise = path + rng.normal(0, 0.4, (m, d)), rng.choice([0.0, 0.05, 0.3])
    points = np.full((n, m, d), np.nan)
    for t in range(n):
        seen = np.arange(t * new, (t + 2) * new + 1) % m
        points[t, seen] = (body[seen] + noise * rng.standard_normal((len(seen), d))) @ random_rotation(d, rng).T
    return points


def optimum_of(gpa):
    """The optimum over the rotations that a fit found, computed once more."""
    problem = gpa.registration_.problem
    stacked, start = problem.participants.stacked, problem.initial.gauge.rotations
    if isinstance(gpa, RigidGPA):
        return maximise_over_rotations(RigidSystem(stacked).operator, start)
    clouds = [gpa._reduced_cloud(problem.observations.names[t]) for t in problem.participating]
    return gpa._solve(stacked, total_cost(clouds, len(problem.landmarks)), Start(start)).optimum


def restarts(operator, n, d, rng):
    """The optima from random rotations."""
    starts = ([random_rotation(d, rng) for _ in range(n)] for _ in range(RESTARTS))
    return [maximise_over_rotations(operator, np.array(start)) for start in starts]


def dual_matrix(operator, rotations):
    """Lambda - G as a dense matrix over all entries of all rotations, from the definition (theory, eq. 16b)."""
    n, d, _ = rotations.shape
    G = np.array([operator(unit.reshape(n, d, d)).ravel() for unit in np.eye(n * d * d)])
    image = operator(rotations)
    L = np.zeros_like(G)
    for t in range(n):
        multiplier = (rotations[t].T @ image[t] + image[t].T @ rotations[t]) / 2
        rows = slice(t * d * d, (t + 1) * d * d)
        L[rows, rows] = np.kron(np.eye(d), multiplier)  # X_t Lambda_t, X_t row by row
    return L - (G + G.T) / 2


def dense_gap(operator, rotations):
    """The gap of eq. 16c by LAPACK, without any deflation; in 2D on the combinations of I and the quarter turn."""
    n, d, _ = rotations.shape
    L = dual_matrix(operator, rotations)
    c = np.einsum("tij,tij->t", rotations, operator(rotations)) / d
    roots = np.repeat(np.sqrt(c), d * d)
    L /= np.outer(roots, roots)
    if d == 2:
        span = np.kron(np.eye(n), np.array([[1.0, 0, 0, 1], [0, -1, 1, 0]]) / np.sqrt(2))
        L = span @ L @ span.T
    return max(0.0, -np.linalg.eigvalsh(L)[0])


def check_scene(name, d, seed):
    """Check one scene; return what was found: certified, beaten by a restart, and local optima among the restarts.

    Random restarts and the dense matrix must not contradict the certificate of the fit.  Restarts that end lower than
    others must not be certified.
    """
    gpa = MODELS[name].fit(random_points(d, seed))
    optimum = optimum_of(gpa)
    operator, rotations = optimum.operator, optimum.rotations
    found = certify(operator, rotations)
    assert found.certified == gpa.certified_
    assert found.gap == pytest.approx(dense_gap(operator, rotations), rel=1e-6, abs=ROUNDING)
    ends = restarts(operator, *rotations.shape[:2], np.random.default_rng(seed))
    largest = max(end.value for end in ends)
    assert largest <= (1 + found.gap + ROUNDING) * optimum.value
    assert not found.certified or largest <= (1 + ROUNDING) * optimum.value
    lower = [end for end in ends if end.value < (1 - CLEARLY) * largest]
    for end in lower:
        local = certify(operator, end.rotations)
        assert not local.certified
        assert largest <= (1 + local.gap + ROUNDING) * end.value
    return Counter(
        scenes=1, certified=found.certified, beaten=largest > (1 + CLEARLY) * optimum.value, local=len(lower)
    )


@every_kind
def test_random_restarts_never_beat_a_certified_optimum(name, d):
    counts = sum((check_scene(name, d, seed) for seed in range(6)), Counter())
    assert counts["certified"] >= 2


@pytest.mark.slow
def test_random_restarts_never_beat_a_certified_optimum_in_500_scenes():
    seeds = range(100, 100 + SCENES_OF_EACH_KIND)
    counts = sum((check_scene(name, d, seed) for name, d in KINDS for seed in seeds), Counter())
    assert counts["scenes"] == 500
    assert counts["certified"] > 300
    assert counts["local"] > 100  # otherwise the restarts would prove nothing


@pytest.mark.parametrize("name", MODELS)
def test_deformation_alone_does_not_prevent_a_certificate(name, dimension):
    points = scene(n=8, m=40, d=dimension, bend=0.3, hidden=0.3, noise=0.05, seed=3)[0]
    gpa = MODELS[name].fit(points)
    assert gpa.certified_ is True
    assert 0 <= gpa.certificate_.gap < ROUNDING
    assert "are certified" in str(gpa.certificate_)


def mirrored_sheets():
    """Thin sheets with heights of either sign: half of the clouds would fit better as mirror images."""
    rng = np.random.default_rng(4)
    plane, heights = rng.uniform(-1, 1, (30, 2)), 0.05 * rng.standard_normal(30)
    bodies = [np.column_stack([plane, sign * heights]) for sign in (1, -1, 1, -1, 1, -1)]
    return np.stack([body @ random_rotation(3, rng).T for body in bodies])


@pytest.mark.parametrize("name", ["rigid", "faithful", "paper", "program"])
def test_clouds_of_contradictory_handedness_are_not_certified(name):
    gpa = MODELS[name].fit(mirrored_sheets())
    assert gpa.mirrored_ == []  # sheets are kept
    assert gpa.certified_ is False
    assert 1e-4 < gpa.certificate_.gap < 1
    assert "could not be certified" in str(gpa.certificate_)


def test_clouds_without_any_common_shape_are_not_certified():
    gpa = RigidGPA().fit(np.random.default_rng(0).standard_normal((6, 12, 3)))
    assert gpa.certified_ is False
    assert gpa.certificate_.gap > 1e-3


@pytest.mark.parametrize(
    "model", [RigidGPA(), fixed_kernel(), fixed_kernel(modes="paper"), fixed_kernel(modes="program")], ids=repr
)
def test_flat_clouds_are_certified(model):
    """Across a plane the multipliers vanish, and the eigenvalues are zero to rounding."""
    flat = scene(n=6, m=30, d=2, hidden=0.2, seed=1)[0]
    assert model.fit(embedded(flat, np.random.default_rng(0))).certified_ is True


@pytest.mark.parametrize("n", [5, 30, 80])
@pytest.mark.parametrize("noise", [0.05, 1.5])
def test_lanczos_and_lapack_agree(n, noise, dimension):
    points = scene(n=n, m=20, d=dimension, noise=noise, hidden=0.2, seed=7)[0]
    optimum = optimum_of(RigidGPA().fit(points))
    assert (n * {2: 2, 3: 9}[dimension] > SMALL) == (n > 5 or dimension == 3)
    found = certify(optimum.operator, optimum.rotations)
    assert found.gap == pytest.approx(dense_gap(optimum.operator, optimum.rotations), rel=1e-6, abs=ROUNDING)


@pytest.mark.parametrize("name", MODELS)
def test_the_gap_bounds_f_for_rotations_that_are_not_stationary(name, dimension):
    """Weak duality holds for any multipliers."""
    rng = np.random.default_rng(5)
    optimum = optimum_of(MODELS[name].fit(scene(n=6, m=20, d=dimension, seed=2)[0]))
    turns = np.array([random_rotation(dimension, rng) for _ in optimum.rotations])
    small = np.linalg.qr(np.eye(dimension) + 0.2 * (turns - np.swapaxes(turns, 1, 2)))[0]
    small *= np.sign(np.linalg.det(small))[:, None, None] if dimension == 3 else 1
    moved = maximise_over_rotations(optimum.operator, optimum.rotations @ small, max_iterations=1, newton=False)
    found = certify(optimum.operator, moved.rotations)
    assert moved.value < (1 - CLEARLY) * optimum.value
    assert not found.certified
    assert optimum.value <= (1 + found.gap + ROUNDING) * moved.value


@pytest.mark.parametrize("noise", [0.1, 1.5])
@pytest.mark.parametrize("name", MODELS)
def test_the_certificate_does_not_depend_on_the_frames_or_the_unit(name, noise, dimension):
    points = scene(n=6, m=20, d=dimension, noise=noise, hidden=0.1, seed=11)[0]
    rng = np.random.default_rng(0)
    moved = np.stack([p @ random_rotation(dimension, rng).T + rng.standard_normal(dimension) for p in points])
    first, second = (MODELS[name].fit(p).certificate_ for p in (points, 1e3 * moved))
    assert first.certified == second.certified
    assert_allclose(first.gap, second.gap, rtol=1e-4, atol=ROUNDING)


def test_a_bound_that_does_not_converge_is_no_certificate():
    gpa = RigidGPA().fit(scene(n=40, m=30, d=3, noise=1.5, hidden=0.5, seed=1)[0])
    optimum = optimum_of(gpa)
    found = certify(optimum.operator, optimum.rotations, max_restarts=1)
    assert found == Certificate(False, np.inf)
    gpa.registration_ = replace(gpa.registration_, certificate=found)
    assert "did not converge" in str(gpa.certificate_)
    assert from_bytes(to_bytes(gpa), "model")[0].certificate_ == gpa.certificate_


def test_rotations_that_explain_nothing_are_not_certified():
    assert certify(np.zeros_like, np.stack([np.eye(3)] * 2)) == Certificate(False, np.inf)


@pytest.mark.parametrize("model", STANDARD_MODELS, ids=repr)
def test_rotations_that_maximise_no_quadratic_form_have_no_certificate(model, dimension, tmp_path):
    gpa = model.fit(scene(d=dimension, seed=1)[0])
    settings = gpa.get_params()
    applicable = not settings.get("scaling") and settings.get("scale_method", "refined") == "refined"
    assert gpa.certified_ is (True if applicable else None)
    assert (gpa.certificate_ is not None) == applicable
    assert ("no certificate" in render(gpa)) != applicable


def test_the_classical_factorisation_and_robust_fits_have_a_certificate(dimension):
    points = scene(d=dimension, hidden=0.0, seed=1)[0]
    for model in (AffineGPA(method="svd"), AffineGPA(method="svd", modes="program"), fixed_kernel(robust="tukey")):
        assert model.fit(points).certified_ is True


@pytest.mark.parametrize("points", [scene(seed=1)[0], mirrored_sheets()], ids=["certified", "not certified"])
@pytest.mark.parametrize(
    "model", [RigidGPA(), fixed_kernel(), fixed_kernel(scale_method="closed-form", modes="paper")], ids=repr
)
def test_the_certificate_is_saved_with_the_model_and_shown_in_the_summary_and_the_report(model, points, tmp_path):
    gpa = model.fit(points)
    folder = save(gpa, tmp_path / "out")
    found = gpa.certificate_
    assert load(folder).certificate_ == pickle.loads(pickle.dumps(gpa)).certificate_ == found
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["certified"] is (None if found is None else found.certified)
    assert summary["optimality_gap"] == (None if found is None else found.gap)
    words = "There is no certificate for the rotations of this method" if found is None else str(found)
    assert json.dumps(words)[1:-1] in (folder / "report.html").read_text(encoding="utf-8")

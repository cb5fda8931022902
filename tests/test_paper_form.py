"""The map of the paper, compared with the authors' own results and with a direct implementation of the formulas."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import orthogonal_procrustes

from authors_results import authors_results
from conftest import scene
from fixed_settings import fixed_kernel, fixed_tps
from kernelgpa import AffineGPA, KernelGPAWarning, RigidGPA, metrics, simulate
from kernelgpa.observations.sampling import farthest_points
from plain_formulas import gaussian, kernel_cost, paper_map, published_kernel_cost
from shared_data import load

GOLDEN = {
    "AFFINE": AffineGPA(modes="program"),
    "TPS": fixed_tps(control_points=5, smoothing=0.01, modes="program"),
    "KERNEL": fixed_kernel(bandwidth=0.3, smoothing=0.05, modes="program"),
}
OWN = {
    "affine": AffineGPA(modes="program"),
    "tps": fixed_tps(control_points=4, smoothing=0.01, modes="program"),
    "kernel": fixed_kernel(bandwidth=0.3, smoothing=0.05, modes="program"),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_the_authors_results_are_reproduced(name, dimension):
    points, data = authors_results(dimension)
    gpa = GOLDEN[name].fit(points)
    assert_allclose(gpa.eigenvalues_[:dimension], data[f"{name}_eigval"][::-1], rtol=1e-7)
    assert_allclose(gpa.scales_, data[f"{name}_mSqrtLambda"][::-1], rtol=1e-7)
    theirs = data[f"{name}_map"][:, ::-1]
    signs = np.sign(np.sum(theirs * gpa.map_, axis=0))
    tolerance = 1e-7 * np.abs(theirs).max()
    assert_allclose(gpa.map_ * signs, theirs, rtol=0, atol=tolerance)
    warped = gpa.transform_clouds(data["test"]) * signs
    assert_allclose(warped, data[f"{name}_test"][:, :, ::-1], rtol=0, atol=tolerance)
    rotations, translations = data[f"{name}_poses"][:, ::-1, :-1], data[f"{name}_poses"][:, ::-1, -1]
    assert_allclose(gpa.rotations_ * signs[:, None], rotations, rtol=0, atol=1e-7)
    assert_allclose(gpa.translations_ * signs, translations, rtol=0, atol=tolerance)


@pytest.mark.parametrize("name", GOLDEN)
def test_the_authors_costs_are_reproduced(name, dimension):
    points, data = authors_results(dimension)
    gpa = GOLDEN[name].fit(points)
    rigid = np.einsum("tij,tmj->tmi", gpa.rotations_, points) + gpa.translations_[:, None]
    assert_allclose(root_mean_square(gpa.transform_clouds(points) - gpa.map_), data[f"{name}_rsd_ref"][0], rtol=1e-8)
    assert_allclose(root_mean_square(rigid - gpa.map_), data[f"{name}_rigid_cost"][0], rtol=1e-8)


def root_mean_square(residual):  # (n, m, d), NaN where unseen
    return np.sqrt(np.nanmean(np.sum(residual**2, axis=2)))


def test_the_authors_kernel_widths_are_reproduced(dimension):
    points, data = authors_results(dimension)
    gpa = GOLDEN["KERNEL"].fit(points)
    assert_allclose([warp.sigma for warp in gpa.warps_], data["KERNEL_mKernelParams"], rtol=1e-13)


def test_the_authors_rigid_optimum_is_reached(dimension):
    points, data = authors_results(dimension)
    gpa = RigidGPA().fit(points)
    assert_allclose(root_mean_square(gpa.transform_clouds(points) - gpa.map_), data["RIGID_rsd_ref"][0], rtol=1e-8)
    # the authors' program returns the optimum in another frame
    theirs, centre = data["RIGID_map"], data["RIGID_map"].mean(axis=0)
    rotation, _ = orthogonal_procrustes(theirs - centre, gpa.map_ - gpa.map_.mean(axis=0))
    assert_allclose(np.linalg.det(rotation), 1.0)

    def in_our_frame(x):
        return (x - centre) @ rotation + gpa.map_.mean(axis=0)

    # the cost is quadratic at its minimum: their tolerance of 1e-12 on its change allows errors of 1e-6 of the map
    tolerance = 1e-6 * np.abs(theirs).max()
    assert_allclose(in_our_frame(theirs), gpa.map_, rtol=0, atol=tolerance)
    assert_allclose(in_our_frame(data["RIGID_test"]), gpa.transform_clouds(data["test"]), rtol=0, atol=tolerance)
    assert_allclose(rotation.T @ data["RIGID_poses"][:, :, :-1], gpa.rotations_, rtol=0, atol=1e-6)
    assert_allclose(in_our_frame(data["RIGID_poses"][:, :, -1]), gpa.translations_, rtol=0, atol=tolerance)


@pytest.mark.parametrize("smoothing", [0.05, 1.0])
def test_the_plain_kernel_cost_is_the_published_one(smoothing, dimension):
    """For narrow kernels, because the published form is well conditioned for these too."""
    points, _ = scene(n=3, m=30, d=dimension, hidden=0.25, seed=3)
    for cloud in points:
        P = cloud[~np.isnan(cloud[:, 0])]
        K, T = gaussian(P, 0.05), np.column_stack([P, np.ones(len(P))])
        published = published_kernel_cost(K, T, smoothing)
        condition = np.linalg.cond(K @ (np.eye(len(P)) - T @ np.linalg.pinv(T)) @ K + smoothing * K)
        assert condition < 200
        atol = 10 * condition * np.finfo(float).eps
        assert_allclose(kernel_cost(K, T, smoothing), published, rtol=0, atol=atol)


@pytest.mark.parametrize("method", OWN)
def test_the_plain_formulas_give_the_same_map(method, dimension):
    points, _ = scene(n=6, m=30, d=dimension, hidden=0.25, seed=3)
    gpa = OWN[method].fit(points)
    settings = {k: v for k, v in gpa.get_params().items() if k in ("bandwidth", "smoothing", "control_points")}
    values, scales, plain = paper_map(points, method, **settings)
    assert_allclose(gpa.eigenvalues_, values, rtol=1e-8)
    order = np.argsort(-np.abs(scales))
    assert_allclose(gpa.scales_, np.abs(scales[order]), rtol=1e-8)
    plain = plain[:, order]
    signs = np.sign(np.sum(plain * gpa.map_, axis=0))
    assert_allclose(gpa.map_ * signs, plain, rtol=0, atol=1e-8 * np.abs(plain).max())


def test_all_points_as_inducing_points_give_the_exact_map(dimension):
    points, _ = scene(n=5, m=40, d=dimension, hidden=0.3, seed=5)
    exact = fixed_kernel(modes="program").fit(points)
    thin = fixed_kernel(modes="program", inducing=40).fit(points)
    assert_allclose(thin.eigenvalues_, exact.eigenvalues_, rtol=1e-8)
    assert_allclose(thin.map_, exact.map_, rtol=0, atol=1e-8 * np.abs(exact.map_).max())
    query = np.random.default_rng(0).standard_normal((20, dimension))
    assert_allclose(thin.transform(query, 2), exact.transform(query, 2), rtol=0, atol=1e-8 * np.abs(exact.map_).max())


@pytest.mark.parametrize(
    ("gpa", "low", "high"),
    [(RigidGPA(), 5.7, 5.9), (AffineGPA(), 3.0, 3.2), (fixed_kernel(bandwidth=0.25, smoothing=0.2), 0.0, 0.8)],
    ids=["rigid", "affine", "kernel"],
)
def test_real_faces_agree_as_well_as_published(gpa, low, high):
    vertices = load("data/faces.npz")["vertices"].astype(np.float64)
    gpa.fit(vertices[:, farthest_points(vertices[0], 160)])
    assert low < metrics.consistency(gpa.transform_clouds(vertices)).mean() < high


def test_the_columns_of_the_table_of_modes_are_the_forms_that_they_name():
    """The first row of the table of section 10 of the theory, which ``python benchmarks/trust.py modes`` prints."""
    page = (Path(__file__).resolve().parents[1] / "docs" / "theory.md").read_text(encoding="utf-8")
    table = re.search(r"^\| bandwidth, smoothing (\|.*)\n\|--.*\n\| 0\.25, 0\.1 (\|.*)$", page, re.MULTILINE)
    names, cells = ([cell.strip() for cell in line.split("|")[1:-1]] for line in table.groups())
    printed = dict(zip(names, cells, strict=True))
    liver = simulate.liver(hidden=0.3, noise=1.0, seed=0)
    for modes in ("program", "paper", "auto"):
        gpa = fixed_kernel(bandwidth=0.25, smoothing=0.1, modes=modes).fit(liver.points)
        error = float(printed[f'`"{modes}"`'].split()[0])
        assert error == pytest.approx(metrics.map_error(gpa.map_, liver.template), abs=0.01)


def closed_form_square(X, points):  # (m, d), (n, m, d) -> (d, d)
    """The paper's L = mean_t (Pbar_t Gbar_t^+)'(Pbar_t Gbar_t^+), with clouds as columns as in the paper."""
    total = np.zeros((X.shape[1], X.shape[1]))
    for cloud in points:
        seen = ~np.isnan(cloud[:, 0])
        P, G = cloud[seen].T, X[seen].T
        P, G = P - P.mean(axis=1, keepdims=True), G - G.mean(axis=1, keepdims=True)
        B = P @ np.linalg.pinv(G)
        total += B.T @ B / len(points)
    return total


@pytest.mark.parametrize("bend", [0.05, 0.3])
def test_the_closed_form_with_r_g_is_that_of_the_eigenvectors_of_l(bend, dimension):
    points = scene(d=dimension, bend=bend, seed=4)[0]
    gpa = fixed_kernel(modes="paper", scale_method="closed-form").fit(points)
    X = gpa.spectrum_.vectors
    Lambda, V = np.linalg.eigh(closed_form_square(X, points))
    expected = X @ V * np.sqrt(Lambda)
    expected = expected - expected.mean(axis=0)
    scale = np.abs(expected).max()
    assert_allclose(gpa.map_ @ gpa.map_.T, expected @ expected.T, rtol=0, atol=1e-10 * scale**2)


def test_the_closed_form_of_the_program_takes_the_eigenvalues_of_l_and_leaves_r_g_out():
    points = scene(bend=0.5, seed=4)[0]
    gpa = fixed_kernel(modes="program", scale_method="closed-form").fit(points)
    scales = np.sqrt(np.linalg.eigvalsh(closed_form_square(gpa.spectrum_.vectors, points)))[::-1]
    expected = gpa.spectrum_.vectors * scales
    assert_allclose(gpa.map_ @ gpa.map_.T, expected @ expected.T, rtol=0, atol=1e-10 * scales.max() ** 2)


def test_the_refined_map_of_the_paper_is_that_of_d_free_modes(dimension):
    for seed in range(5):
        points = scene(d=dimension, bend=0.2, seed=seed)[0]
        paper, free = (fixed_kernel(modes=modes).fit(points) for modes in ("paper", dimension))
        assert_allclose(paper.map_, free.map_, rtol=0, atol=1e-8)


@pytest.mark.parametrize("noise", [1e-6, 1e-4, 1e-2])
def test_r_g_keeps_nearly_coinciding_eigenvectors_from_mixing_the_axes(noise):
    points, template = scene(bend=0.0, noise=noise, hidden=0.2, seed=1)
    assert metrics.map_error(fixed_kernel(modes="paper").fit(points).map_, template) < 3 * noise
    with pytest.warns(KernelGPAWarning, match="nearly coincide"):
        program = fixed_kernel(modes="program").fit(points)
    assert metrics.map_error(program.map_, template) > 3 * noise


def test_separate_eigenvalues_give_no_warning_about_axes():
    points = scene(bend=0.5, seed=0, noise=0.01)[0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fixed_kernel(modes="program").fit(points)

"""Shape models of much data: memory is forecast, no matrix of all coordinates, patterns solved once, quiet in pipes."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

from kernelgpa import ShapeModel, TooLarge, plotting
from kernelgpa.plotting.labels import label_points
from kernelgpa.shape import fitting
from kernelgpa.shape.gaussian import DenseGaussian, LowRankGaussian
from kernelgpa.shape.patterns import Patterns
from kernelgpa.shape.spaces import MOST_DENSE, forecast_shapes
from kernelgpa.spectrum.forecast import PROGRAM, Forecast

FIXED = {"shrinkage": 0.2, "bandwidth": 0.5, "noise": 0.01, "robust": False}


def shapes(n, m, hidden=0.0, seed=0):
    rng = np.random.default_rng(seed)
    mean = rng.standard_normal((m, 3)) * [3, 2, 1]
    waves = np.stack([np.sin(mean @ rng.standard_normal((3, 3)) + rng.uniform(0, 6, 3)) for _ in range(3)])
    points = mean + np.einsum("nk,kmd->nmd", 0.3 * rng.standard_normal((n, 3)), waves)
    points += 0.01 * rng.standard_normal(points.shape)
    return np.where(rng.random((n, m, 1)) < hidden, np.nan, points)


def test_a_model_beyond_the_memory_is_refused_before_any_work(monkeypatch):
    needed = forecast_shapes(12, 10)
    monkeypatch.setattr(fitting, "forecast_shapes", lambda *sizes: Forecast(needed.path, needed.memory, 1000))
    monkeypatch.setattr(fitting, "estimator", lambda *_: pytest.fail("the registration was started"))
    with pytest.raises(TooLarge, match=r"shape model would take .* GB .*use fewer clouds or landmarks"):
        ShapeModel(**FIXED).fit(shapes(12, 10))


def test_the_forecast_of_sixty_meshes_of_2000_vertices_is_below_two_gigabytes():
    assert forecast_shapes(60, 2000).memory < 2e9
    assert forecast_shapes(60, 2000).memory < 8 * 6000**2 * 11  # what one (D, D) matrix for each model would take


@pytest.mark.parametrize(("n", "m"), [(12, 40), (12, MOST_DENSE // 3 + 50)])
def test_a_fit_stays_within_its_forecast(n, m):
    points = shapes(n, m, hidden=0.1)
    tracemalloc.start()
    ShapeModel(**FIXED).fit(points)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < forecast_shapes(n, m).memory - PROGRAM


def test_beyond_a_number_of_coordinates_there_is_no_matrix_of_all_of_them():
    m = MOST_DENSE // 3 + 50
    points = shapes(6, m, hidden=0.1)
    gaussian = ShapeModel(**FIXED).fit(points)._fit.frozen.gaussian
    assert isinstance(gaussian, LowRankGaussian)
    sizes = [len(array) * array.shape[1] for array in (gaussian.basis, gaussian.root, gaussian.motions)]
    assert max(sizes) < (3 * m) ** 2 / 4
    tracemalloc.start()
    gaussian.predict(np.zeros((6, 3 * m)), Patterns.of(np.repeat(~np.isnan(points[:, :, 0]), 3, axis=1)), 3)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * (3 * m) ** 2


def test_each_visibility_pattern_is_factorised_once(monkeypatch):
    """However many clouds share it: 200 clouds of 5 patterns need as many inverses as 10 clouds of 5."""
    solved, blocks = [], DenseGaussian._blocks

    def counted(self, group):
        solved.append(len(group.hidden))
        return blocks(self, group)

    monkeypatch.setattr(DenseGaussian, "_blocks", counted)
    masks = np.random.default_rng(1).random((5, 12)) < 0.3
    covariance = np.eye(36)
    gaussian = DenseGaussian(covariance, np.linalg.qr(np.random.default_rng(2).standard_normal((36, 6)))[0], 1e4, 0.1)
    counts = []
    for n in (10, 200):
        solved.clear()
        seen = np.repeat(~masks[np.arange(n) % 5], 3, axis=1)
        gaussian.fill(np.zeros((n, 36)), Patterns.of(seen), np.ones(n))
        counts.append(sum(solved))
    assert counts == [5, 5]


def test_nothing_is_printed_if_the_output_is_piped():
    code = (
        "import numpy as np; from kernelgpa import ShapeModel; from kernelgpa._numerics import progress\n"
        "progress.BAR_DELAY = 0.0\n"
        "rng = np.random.default_rng(0); mean, mode = rng.standard_normal((2, 8, 3))\n"
        "points = mean + 0.3 * rng.standard_normal((12, 1, 1)) * mode + 0.01 * rng.standard_normal((12, 8, 3))\n"
        "points[3, 2] = np.nan; ShapeModel().fit(points)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (found.stdout, found.stderr) == ("", "")


def test_progress_is_reported_while_settings_are_chosen(monkeypatch):
    titles, original = [], fitting.progress

    def counted(title, total):
        titles.append(title)
        return original(title, total)

    monkeypatch.setattr(fitting, "progress", counted)
    ShapeModel(robust=False).fit(shapes(35, 8))
    assert titles
    assert all("shape model" in title for title in titles)


@pytest.mark.parametrize("seed", range(3))
def test_names_beside_points_cover_neither_each_other_nor_a_point(seed):
    rng = np.random.default_rng(seed)
    names = [f"Gorilla gorilla {i}" for i in range(51)]
    ax = Figure(figsize=(8, 5.5), dpi=100, layout="constrained").add_subplot()
    x, y = rng.standard_normal((2, 51))
    ax.scatter(x, y)
    ax.margins(0.15)
    omitted = label_points(ax, x, y, names)
    ax.get_figure().draw_without_rendering()
    boxes = [Text.get_window_extent(one) for one in ax.texts]  # without the lines to the points
    assert len(boxes) + len(omitted) == 51
    assert len(omitted) <= 5
    for i, a in enumerate(boxes):
        assert not any(a.overlaps(b) for b in boxes[i + 1 :])
        assert not any(a.contains(*point) for point in ax.transData.transform(np.column_stack([x, y])))


def test_names_in_the_plot_of_scores_are_text_and_not_formulas():
    points = shapes(6, 8)
    model = ShapeModel(**FIXED).fit([(one, range(8)) for one in points])
    assert plotting.score_scatter(model).texts[0].get_parse_math() is False

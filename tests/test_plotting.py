"""Every plot in 2D and 3D: units, one scale, the axes given, and no figure left with pyplot."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from fixed_settings import fixed_kernel
from kernelgpa import InvalidSetting, NotFitted, plotting
from plotted_scenes import canvas, coloured, deformed, estimate, fit, tuned

pytestmark = pytest.mark.usefixtures("nothing_left_behind")

SPATIAL = {
    "map": lambda d, ax=None: plotting.map_of(fit(d), ax=ax, unit="mm"),
    "map by consistency": lambda d, ax=None: plotting.map_of(fit(d), "consistency", ax=ax, unit="mm"),
    "map by sensor error": lambda d, ax=None: plotting.map_of(fit(d), "sensor", [[0, 1, 2]], ax=ax, unit="mm"),
    "map of rigid": lambda d, ax=None: plotting.map_of(fit(d, rigid=True), "sensor", ax=ax, unit="mm"),
    "clouds": lambda d, ax=None: plotting.clouds(deformed(d), ax, unit="mm"),
    "clouds in the map": lambda d, ax=None: plotting.clouds(fit(d), ax, unit="mm"),
    "warp grid": lambda d, ax=None: plotting.warp_grid(fit(d), 1, ax=ax, unit="mm"),
    "warp grid of rigid": lambda d, ax=None: plotting.warp_grid(fit(d, rigid=True), 1, ax=ax, unit="mm"),
    "trajectory": lambda d, ax=None: plotting.trajectory(fit(d), ax, unit="mm"),
    "trajectory of rigid": lambda d, ax=None: plotting.trajectory(fit(d, rigid=True), ax, unit="mm"),
    "uncertainty": lambda d, ax=None: plotting.uncertainty(estimate(d), ax=ax, unit="mm"),
    "regions": lambda d, ax=None: plotting.uncertainty(estimate(d), 0.9, 2, ax=ax, unit="mm"),
}
CHARTS = {
    "visibility": lambda ax=None: plotting.visibility(fit(3), ax),
    "spectrum": lambda ax=None: plotting.spectrum(fit(3), ax),
    "tuning": lambda ax=None: plotting.tuning_surface(tuned(), ax=ax, unit="mm"),
}
every_plot = pytest.mark.parametrize("draw", SPATIAL.values(), ids=SPATIAL)
every_chart = pytest.mark.parametrize("draw", CHARTS.values(), ids=CHARTS)


@every_plot
def test_lengths_have_units_and_one_scale(draw, dimension):
    ax = draw(dimension)
    assert ax.name == ("3d" if dimension == 3 else "rectilinear")
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("x (mm)", "y (mm)")
    if dimension == 3:
        assert ax.get_zlabel() == "z (mm)"
        spans = np.ptp([ax.get_xlim(), ax.get_ylim(), ax.get_zlim()], axis=1)
        assert_allclose(ax._box_aspect / ax._box_aspect.max(), spans / spans.max(), rtol=1e-12)
    else:
        assert ax.get_aspect() == 1
    ax.figure.canvas.draw()  # warnings are errors here


@every_plot
def test_the_axes_given_are_used(draw, dimension):
    ax = canvas(dimension)
    assert draw(dimension, ax) is ax
    assert ax.has_data()


@every_plot
def test_3d_data_are_projected_onto_2d_axes(draw):
    ax = canvas(2)
    assert draw(3, ax) is ax
    ax.figure.canvas.draw()


@every_plot
def test_2d_data_are_not_drawn_on_3d_axes(draw):
    with pytest.raises(InvalidSetting, match="give 2D Axes"):
        draw(2, canvas(3))


@every_plot
def test_an_object_that_is_no_axes_is_refused(draw, dimension):
    with pytest.raises(InvalidSetting, match="expected a matplotlib Axes"):
        draw(dimension, "here")


@every_chart
def test_charts_use_the_axes_given_and_draw(draw):
    ax = canvas(2)
    assert draw(ax) is ax
    ax.figure.canvas.draw()
    assert draw().figure is not ax.figure
    with pytest.raises(InvalidSetting, match="give 2D Axes"):
        draw(canvas(3))


def test_without_a_unit_labels_are_plain():
    ax = plotting.map_of(fit(2), "sensor")
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("x", "y")
    assert coloured(ax).colorbar.ax.get_ylabel() == "sensor-frame error"


PLOTS_OF_FITS = [
    plotting.map_of,
    plotting.trajectory,
    plotting.spectrum,
    plotting.warps,
    lambda gpa: plotting.warp_grid(gpa, 0),
]


@pytest.mark.parametrize("draw", PLOTS_OF_FITS)
def test_only_fitted_estimators_have_plots(draw):
    with pytest.raises(NotFitted, match="call fit"):
        draw(fixed_kernel())
    with pytest.raises(InvalidSetting, match="found ndarray; expected a fitted estimator"):
        draw(deformed(2))


@pytest.mark.parametrize("draw", [plotting.clouds, plotting.visibility])
def test_an_estimator_that_is_not_fitted_is_named(draw):
    with pytest.raises(NotFitted, match="call fit"):
        draw(fixed_kernel())


def test_every_function_has_an_example():
    assert all(">>> " in getattr(plotting, name).__doc__ for name in plotting.__all__)

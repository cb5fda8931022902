"""Visibility, spectrum, tuning and uncertainty as they are drawn."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from conftest import scene
from fixed_settings import fixed_kernel
from kernelgpa import InvalidObservations, InvalidSetting, Observations, plotting
from plotted_scenes import NEVER, ONCE, canvas, coloured, deformed, estimate, fit, offsets, tuned

pytestmark = pytest.mark.usefixtures("nothing_left_behind")

# -- charts --


@pytest.mark.parametrize(
    "source", [lambda d: fit(d), lambda d: fit(d, rigid=True), deformed, lambda d: fit(d).observations_]
)
def test_visibility_is_what_was_seen(source, dimension):
    ax = plotting.visibility(source(dimension))
    assert_array_equal(ax.images[0].get_array(), np.isfinite(deformed(dimension)[:, :, 0]))
    assert "each landmark by 0 to 5 clouds" in ax.get_title()


def test_visibility_names_the_clouds():
    points = scene(n=4, m=20)[0]
    ax = plotting.visibility(Observations.from_array(points, clouds=["a", "b", "c", "d"]))
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["a", "b", "c", "d"]
    with pytest.raises(InvalidObservations):
        plotting.visibility(np.zeros((3, 2)))


@pytest.mark.parametrize("modes", ["auto", "paper", "program", 7])
def test_the_spectrum_shows_the_eigenvalues_and_their_gap(modes, dimension):
    gpa = fixed_kernel(modes=modes).fit(scene(d=dimension)[0])
    ax = plotting.spectrum(gpa)
    values = gpa.spectrum_.values
    assert_allclose(offsets(ax.collections[0]), np.column_stack([np.arange(1, len(values) + 1), values]))
    band = ax.patches[0].get_extents().transformed(ax.transData.inverted())
    assert_allclose([band.y0, band.y1], values[dimension - 1 : dimension + 1])
    assert ax.get_legend().get_texts()[0].get_text() == f"gap {100 * gpa.spectrum_.gap:.1f} %"


def test_eigenvalues_that_are_rounding_are_hollow():
    gpa = fixed_kernel().fit(scene(bend=0.0, hidden=0.0)[0])
    ax = plotting.spectrum(gpa)
    assert_allclose(offsets(ax.collections[0])[:3, 1], gpa.spectrum_.rounding)
    assert_array_equal(ax.collections[0].get_facecolors()[:, 3], [0, 0, 0, 1])
    ax.figure.canvas.draw()


def test_a_rigid_registration_has_no_spectrum_to_show():
    with pytest.raises(InvalidSetting, match="RigidGPA does not compute eigenvalues"):
        plotting.spectrum(fit(3, rigid=True))


def test_the_tuning_surface_has_the_score_of_each_setting():
    ax = plotting.tuning_surface(tuned(), unit="mm")
    drawn = coloured(ax)
    found = {tuple(p): score for p, score in zip(offsets(drawn), drawn.get_array(), strict=True)}
    assert found == {(t.settings["bandwidth"], t.settings["smoothing"]): t.score for t in tuned().trials}
    best = tuned().best_trial.settings
    assert_array_equal(offsets(ax.collections[1]), [[best["bandwidth"], best["smoothing"]]])
    assert drawn.colorbar.ax.get_ylabel() == "held-out sensor-frame error (mm)"


def test_settings_that_were_not_tried_have_no_surface():
    with pytest.raises(
        InvalidSetting, match="'inducing' and 'smoothing'; the settings tried were bandwidth, smoothing"
    ):
        plotting.tuning_surface(tuned(), x="inducing")
    with pytest.raises(InvalidSetting, match=r"expected the result of selection\.tune"):
        plotting.tuning_surface(fit(2))


# -- uncertainty --


def test_deviations_stand_at_their_landmarks(dimension):
    covariances = estimate(dimension).map_covariance()
    deviations = np.sqrt(np.trace(covariances, axis1=1, axis2=2) / dimension)
    determined = np.isfinite(deviations)
    ax = plotting.uncertainty(estimate(dimension), unit="mm")
    assert_array_equal(offsets(coloured(ax)), fit(dimension).map_[determined])
    assert_allclose(coloured(ax).get_array(), deviations[determined])
    assert coloured(ax).colorbar.ax.get_ylabel() == "standard deviation of a coordinate (mm)"
    assert not determined[[NEVER, ONCE]].any()


def test_regions_lie_at_the_distance_of_their_level(dimension):
    """Corners of an ellipse of level p: -2 log(1 - p) from the centre in the metric of the covariance."""
    level, enlarged = 0.8, 3.0
    ax = plotting.uncertainty(estimate(dimension), level, enlarged, ax=canvas(2))
    covariances = estimate(dimension).map_covariance()[:, :2, :2]
    determined = np.isfinite(covariances[:, 0, 0])
    outlines = ax.collections[0].get_paths()
    assert len(outlines) == determined.sum()
    for path, centre, covariance in zip(
        outlines, fit(dimension).map_[determined, :2], covariances[determined], strict=True
    ):
        offsets = (path.vertices[:-1] - centre) / enlarged
        square = np.einsum("ki,ij,kj->k", offsets, np.linalg.inv(covariance), offsets)
        assert_allclose(square, -2 * np.log(1 - level), rtol=1e-9)
    assert ax.get_title() == "80 % confidence regions, enlarged 3 times"


@pytest.mark.parametrize("level", [0, 1, "most", -0.5])
def test_a_region_needs_a_level(level):
    with pytest.raises(InvalidSetting, match="level is"):
        plotting.uncertainty(estimate(2), level)


@pytest.mark.parametrize("enlarged", [0, -1, np.inf, True, "twice"])
def test_regions_are_enlarged_by_a_positive_number(enlarged):
    with pytest.raises(InvalidSetting, match="enlarged is"):
        plotting.uncertainty(estimate(2), 0.9, enlarged)


def test_an_estimator_has_no_uncertainty_yet():
    with pytest.raises(InvalidSetting, match=r"expected kernelgpa\.uncertainty"):
        plotting.uncertainty(fit(2))

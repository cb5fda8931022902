"""Every plot in 2D and 3D: the right values at the right points, units, and no figure left with pyplot."""

from __future__ import annotations

import doctest
import importlib
import sys
import types
import warnings
from functools import cache

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.collections import Collection
from matplotlib.figure import Figure
from numpy.testing import assert_allclose, assert_array_equal

from conftest import scene
from kernelgpa import (
    AffineGPA,
    InvalidObservations,
    InvalidSetting,
    KernelGPA,
    KernelGPAError,
    NotFitted,
    Observations,
    RigidGPA,
    metrics,
    plotting,
    selection,
    uncertainty,
)

NEVER, ONCE = 3, 8  # landmarks that no cloud and one cloud saw


@cache
def deformed(d):
    points, _ = scene(n=5, m=30, d=d, seed=1, noise=0.01)
    points[:, NEVER] = np.nan
    points[1:, ONCE] = np.nan
    points[0, ONCE] = 0.1
    return points


@cache
def fit(d, rigid=False):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of landmarks seen once or never
        return (RigidGPA() if rigid else KernelGPA()).fit(deformed(d))


@cache
def estimate(d):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return uncertainty(selection.cross_validate(KernelGPA(), deformed(d), folds=5))


@cache
def tuned():
    grid = {"bandwidth": (0.25, 0.5), "smoothing": (0.01, 0.1, 1.0)}
    return selection.tune(scene(n=5, m=30, hidden=0.1)[0], grid=grid, folds=4, rounds=0)


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


@pytest.fixture(autouse=True)
def nothing_left_behind():
    """No figure stays with pyplot, and no setting of matplotlib changes."""
    before = dict(plt.rcParams)
    yield
    assert plt.get_fignums() == []
    assert dict(plt.rcParams) == before


def offsets(drawn):  # (k, 2 or 3)
    return np.column_stack(drawn._offsets3d) if hasattr(drawn, "_offsets3d") else np.asarray(drawn.get_offsets())


def coloured(ax):
    """The one set of points that is coloured by values."""
    (found,) = [one for one in ax.collections if one.get_array() is not None]
    return found


def canvas(d):
    return Figure().add_subplot(projection="3d" if d == 3 else None)


# -- laws of all plots --


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
        draw(KernelGPA())
    with pytest.raises(InvalidSetting, match="found ndarray; expected a fitted estimator"):
        draw(deformed(2))


@pytest.mark.parametrize("draw", [plotting.clouds, plotting.visibility])
def test_an_estimator_that_is_not_fitted_is_named(draw):
    with pytest.raises(NotFitted, match="call fit"):
        draw(KernelGPA())


@pytest.mark.parametrize("name", ["charts", "confidence_regions", "grids", "meshes", "positions"])
def test_the_examples_run(name):
    module = importlib.import_module(f"kernelgpa.plotting.{name}")
    failed, tried = doctest.testmod(module)
    assert (failed, tried > 0) == (0, True)


def test_every_function_has_an_example():
    assert all(">>> " in getattr(plotting, name).__doc__ for name in plotting.__all__)


# -- map --


@pytest.mark.parametrize("rigid", [False, True])
@pytest.mark.parametrize("colours", ["consistency", "sensor"])
def test_colours_stand_at_their_landmarks(dimension, rigid, colours):
    gpa = fit(dimension, rigid)
    placed = gpa.transform_clouds(gpa.observations_.points)
    if colours == "consistency":
        values = np.where(gpa.observations_.counts >= 2, metrics.consistency(placed), np.nan)
    else:
        values = metrics.sensor_error(placed, gpa.jacobians(gpa.observations_.points))
    shown = ~np.isnan(values)
    ax = plotting.map_of(gpa, colours, unit="mm")
    drawn = coloured(ax)
    assert_array_equal(offsets(drawn), gpa.map_[shown])
    assert_allclose(np.asarray(drawn.get_array()), values[shown], rtol=1e-12)
    assert drawn.colorbar.ax.get_ylabel().endswith("(mm)")
    assert not shown[NEVER]


def test_a_landmark_in_the_map_without_a_value_is_hollow(dimension):
    ax = plotting.map_of(fit(dimension), "sensor")
    (blank,) = [one for one in ax.collections if one.get_label() == "no value"]
    assert_array_equal(offsets(blank), fit(dimension).map_[[ONCE]])
    assert ax.get_legend() is not None


def test_the_map_holds_every_landmark_that_was_seen(dimension):
    ax = plotting.map_of(fit(dimension))
    seen = np.delete(np.arange(30), NEVER)
    assert_array_equal(offsets(ax.collections[0]), fit(dimension).map_[seen])


def test_given_numbers_colour_the_map(dimension):
    values = np.arange(30.0)
    values[5] = np.inf
    ax = plotting.map_of(fit(dimension), values, label="age", unit="mm")
    drawn = coloured(ax)
    expected = np.delete(np.where(np.isinf(values), 29.0, values), NEVER)
    assert_array_equal(drawn.get_array(), expected)
    assert drawn.colorbar.extend == "max"
    assert drawn.colorbar.ax.get_ylabel() == "age"


def test_without_any_value_all_points_are_hollow(dimension):
    ax = plotting.map_of(fit(dimension), np.full(30, np.nan))
    assert [one.get_label() for one in ax.collections] == ["no value"]
    ax.figure.canvas.draw()


def test_faces_with_an_unknown_corner_are_left_out(dimension):
    ax = plotting.map_of(fit(dimension), faces=[[0, 1, 2], [1, 2, NEVER], [4, 5, 6]], ax=canvas(2))
    paths = ax.collections[0].get_paths()
    assert len(paths) == 2
    assert_allclose(paths[1].vertices[:3], fit(dimension).map_[[4, 5, 6], :2])


@pytest.mark.parametrize(
    ("faces", "message"),
    [
        ([[0, 1, 30]], "faces name landmarks 0 to 30; there are 30"),
        ([[-1, 1, 2]], "faces name landmarks -1 to 2"),
        ([[0, 1]], r"expected \(faces, 3\) integers"),
        ([[0.0, 1.0, 2.0]], r"expected \(faces, 3\) integers"),
    ],
)
def test_invalid_faces_are_refused(faces, message):
    with pytest.raises(InvalidObservations, match=message):
        plotting.map_of(fit(3), faces=faces)


def test_invalid_colours_are_refused():
    with pytest.raises(InvalidSetting, match="colours is 'red'; expected None, 'consistency', 'sensor'"):
        plotting.map_of(fit(3), "red")
    with pytest.raises(InvalidObservations, match=r"expected \(30,\), one number per landmark"):
        plotting.map_of(fit(3), np.arange(5.0))


# -- clouds --


def test_every_cloud_has_its_colour(dimension):
    points = deformed(dimension)
    drawn = plotting.clouds(points).collections[0]
    given = Collection.get_facecolor(drawn)  # in space the method of its own sorts by depth
    colours = {tuple(p): tuple(c) for p, c in zip(offsets(drawn), given, strict=True)}
    assert len(offsets(drawn)) == np.isfinite(points[:, :, 0]).sum()
    of_cloud = [{colours[tuple(p)] for p in cloud[np.isfinite(cloud[:, 0])]} for cloud in points]
    assert all(len(one) == 1 for one in of_cloud)
    assert len(set.union(*of_cloud)) == len(points)


def test_the_clouds_of_a_fit_are_those_in_its_map(dimension):
    gpa = fit(dimension)
    drawn = offsets(plotting.clouds(gpa).collections[0])
    placed = gpa.transform_clouds(deformed(dimension)).reshape(-1, dimension)
    placed = placed[np.isfinite(placed[:, 0])]
    assert_array_equal(np.sort(drawn, axis=0), np.sort(placed, axis=0))


@pytest.mark.parametrize("points", [np.zeros((4, 3)), np.zeros((2, 4, 5)), np.full((2, 4, 3), np.nan), [[["a", "b"]]]])
def test_invalid_clouds_are_refused(points):
    with pytest.raises(InvalidObservations, match="clouds"):
        plotting.clouds(points)


def test_panels_side_by_side_have_the_same_scale(dimension):
    figure = plotting.side_by_side({"one": deformed(dimension), "two": 3 * deformed(dimension)}, unit="mm")
    one, two = figure.axes
    assert one.get_xlim() == two.get_xlim()
    assert one.get_ylim() == two.get_ylim()
    with pytest.raises(InvalidSetting, match="panels"):
        plotting.side_by_side({})


# -- sensors --


def test_sensors_stand_at_their_translations_with_their_axes(dimension):
    gpa = fit(dimension)
    path, *arms = plotting.trajectory(gpa, ax=canvas(2)).lines
    assert_array_equal(path.get_xydata(), gpa.translations_[:, :2])
    assert len(arms) == dimension
    for i, arm in enumerate(arms):
        ends = arm.get_xydata().reshape(-1, 2)[: 3 * len(gpa.translations_)]
        start, end = ends[0::3], ends[1::3]
        assert_array_equal(start, gpa.translations_[:, :2])
        along = (end - start)[:, None] * gpa.rotations_[:, None, 1::-1, i] @ np.array([[1], [-1]])
        assert_allclose(along, 0, atol=1e-12)  # parallel to column i


def test_of_many_sensors_the_first_and_the_last_are_named():
    gpa = RigidGPA().fit(scene(n=14, m=20, d=2)[0])
    assert [text.get_text() for text in plotting.trajectory(gpa).texts] == ["0", "13"]
    assert len(plotting.trajectory(fit(2)).texts) == 5


def test_a_mirrored_cloud_is_ringed(dimension):
    points = scene(n=5, m=30, d=dimension, hidden=0.0)[0]
    points[2, :, 0] *= -1
    with pytest.warns(UserWarning, match="mirror"):
        gpa = KernelGPA().fit(points)
    ax = plotting.trajectory(gpa)
    (ring,) = [one for one in ax.collections if one.get_label() == "mirror image"]
    assert_array_equal(offsets(ring), gpa.translations_[[2]])


# -- grids --


def test_a_grid_of_an_affine_warp_is_made_of_straight_lines(dimension):
    gpa = AffineGPA().fit(scene(d=dimension, seed=4)[0])
    ax = plotting.warp_grid(gpa, 2, lines=6, ax=canvas(2))
    assert len(ax.lines) == (3 if dimension == 3 else 1)
    for stroke in ax.lines:
        points = stroke.get_xydata()
        for line in np.split(points, np.flatnonzero(np.isnan(points[:, 0]))):
            line = line[~np.isnan(line[:, 0])]
            assert_allclose(np.diff(line, n=2, axis=0), 0, atol=1e-12)


def test_a_grid_is_warped_and_holds_the_cloud(dimension):
    gpa = fit(dimension)
    ax = plotting.warp_grid(gpa, 1)
    own = gpa.observations_.clouds[1].points
    assert_array_equal(offsets(ax.collections[0]), gpa.transform(own, 1))
    stroke = ax.lines[0]
    grid = np.column_stack(stroke.get_data_3d() if dimension == 3 else stroke.get_data())
    back = gpa.inverse_transform(grid[~np.isnan(grid[:, 0])], 1)
    frame = gpa.observations_.clouds[1].frame
    along, cloud = ((points - frame.centre) @ frame.axes.T for points in (back, own))
    for i in (0, 1):
        assert np.nanmin(along[:, i]) < cloud[:, i].min()
        assert np.nanmax(along[:, i]) > cloud[:, i].max()
    if dimension == 3:
        assert_allclose(along[:, 2][~np.isnan(along[:, 2])], 0, atol=1e-6 * frame.size)


def test_a_flat_cloud_has_one_slice():
    flat = np.concatenate([scene(d=2, hidden=0.0)[0], np.zeros((6, 40, 1))], axis=2)
    ax = plotting.warp_grid(RigidGPA().fit(flat), 0)
    assert len(ax.lines) == 1
    ax.figure.canvas.draw()


def test_clouds_of_one_group_have_one_colour():
    points = np.random.default_rng(0).standard_normal((4, 9, 2))
    ax = plotting.clouds(points, groups=["pan", "gorilla", "pan", "pan"])
    assert [one.get_text() for one in ax.get_legend().get_texts()] == ["gorilla", "pan"]
    counts = np.unique(ax.collections[0].get_facecolors(), axis=0, return_counts=True)[1]
    assert sorted(counts) == [9, 27]
    with pytest.raises(InvalidSetting, match="groups has 2 names for 4 clouds"):
        plotting.clouds(points, groups=["pan", "gorilla"])


def test_of_many_clouds_some_grids_are_drawn_and_the_title_says_so():
    gpa = RigidGPA().fit(scene(n=9, m=20, d=2)[0])
    figure = plotting.warps(gpa, unit="mm")
    assert len(figure.axes) == 6
    assert figure.get_suptitle() == "6 of 9 clouds"
    assert [ax.get_title() for ax in plotting.warps(gpa, [7, 1]).axes] == ["cloud 7", "cloud 1"]
    assert len(plotting.warps(fit(3)).axes) == 5


@pytest.mark.parametrize("lines", [0, 2.5, True, "many"])
def test_a_grid_needs_a_number_of_lines(lines):
    with pytest.raises(InvalidSetting, match="lines is"):
        plotting.warp_grid(fit(2), 0, lines)


def test_clouds_that_do_not_exist_have_no_grid():
    with pytest.raises(InvalidObservations, match="no cloud 99"):
        plotting.warp_grid(fit(2), 99)
    with pytest.raises(InvalidSetting, match="clouds is empty"):
        plotting.warps(fit(2), [])
    with pytest.raises(KernelGPAError, match="expected a list of names"):
        plotting.warps(fit(2), "cloud 1")


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
    gpa = KernelGPA(modes=modes).fit(scene(d=dimension)[0])
    ax = plotting.spectrum(gpa)
    values = gpa.spectrum_.values
    assert_allclose(offsets(ax.collections[0]), np.column_stack([np.arange(1, len(values) + 1), values]))
    band = ax.patches[0].get_extents().transformed(ax.transData.inverted())
    assert_allclose([band.y0, band.y1], values[dimension - 1 : dimension + 1])
    assert ax.get_legend().get_texts()[0].get_text() == f"gap {100 * gpa.spectrum_.gap:.1f} %"


def test_eigenvalues_that_are_rounding_are_hollow():
    gpa = KernelGPA().fit(scene(bend=0.0, hidden=0.0)[0])
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
    assert found == {(t.settings["bandwidth"], t.settings["smoothing"]): t.sensor_rms for t in tuned().trials}
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


# -- meshes --

CORNERS = np.array([[0.0, 0, 0], [np.nan] * 3, [1, 0, 0], [0, 1, 0], [0, 0, 1]])
FACES = np.array([[0, 2, 3], [0, 1, 2], [0, 3, 4]])


class Recorder:
    """A stand-in for a plotter that records its calls."""

    def __init__(self):
        self.calls = {}

    def add_mesh(self, surface, **style):
        self.calls["add_mesh"] = (surface, style)

    def show_bounds(self, **titles):
        self.calls["show_bounds"] = titles


@pytest.fixture
def stand_in(monkeypatch):
    module = types.ModuleType("pyvista")
    module.Plotter = Recorder
    module.PolyData = types.SimpleNamespace(from_regular_faces=lambda points, faces: (points, faces))
    monkeypatch.setitem(sys.modules, "pyvista", module)


@pytest.mark.usefixtures("stand_in")
def test_a_mesh_keeps_values_with_their_vertices():
    plotter = plotting.mesh(CORNERS, FACES, [10, 11, 12, 13, 14], "spread", unit="mm", opacity=0.5)
    (points, faces), style = plotter.calls["add_mesh"]
    assert_array_equal(points[faces], CORNERS[FACES[[0, 2]]])
    assert_array_equal(style["scalars"], [10, 12, 13, 14])
    assert style["scalar_bar_args"]["title"] == "spread (mm)"
    assert style["opacity"] == 0.5
    assert plotter.calls["show_bounds"]["ztitle"] == "z (mm)"
    assert plotting.mesh(CORNERS, FACES, plotter=plotter) is plotter
    assert "scalars" not in plotter.calls["add_mesh"][1]


def test_without_pyvista_the_error_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyvista", None)
    with pytest.raises(InvalidSetting, match=r"pip install 'kernelgpa\[mesh3d\]'"):
        plotting.mesh(CORNERS, FACES)


def test_pyvista_draws_a_mesh():
    pyvista = pytest.importorskip("pyvista")
    plotter = plotting.mesh(CORNERS, FACES, np.arange(5), unit="mm", plotter=pyvista.Plotter(off_screen=True))
    assert plotter.mesh.n_cells == 2
    assert plotter.mesh.n_points == 4
    plotter.close()


@pytest.mark.parametrize(
    ("vertices", "faces", "values", "message"),
    [
        (CORNERS[:, :2], FACES, None, "vertices are 2D"),
        (CORNERS, FACES + 3, None, "faces name vertices 3 to 7; there are 5"),
        (CORNERS, FACES, [1, 2], r"expected \(5,\), one number per vertex"),
        (np.zeros(3), FACES, None, "vertices have shape"),
    ],
)
def test_an_invalid_mesh_is_refused(vertices, faces, values, message):
    with pytest.raises(InvalidObservations, match=message):
        plotting.mesh(vertices, faces, values)

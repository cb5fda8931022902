"""Maps, clouds, sensors and warped grids: the right values at the right points."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.collections import Collection
from numpy.testing import assert_allclose, assert_array_equal

from conftest import scene
from fixed_settings import fixed_kernel
from kernelgpa import (
    AffineGPA,
    InvalidObservations,
    InvalidSetting,
    KernelGPAError,
    RigidGPA,
    metrics,
    plotting,
)
from plotted_scenes import NEVER, ONCE, canvas, coloured, deformed, fit, offsets

pytestmark = pytest.mark.usefixtures("nothing_left_behind")

# -- map --


@pytest.mark.parametrize("rigid", [False, True])
@pytest.mark.parametrize("colours", ["consistency", "sensor"])
def test_colours_stand_at_their_landmarks(dimension, rigid, colours):
    gpa = fit(dimension, rigid)
    placed = gpa.transform_clouds(gpa.observations_.points)
    if colours == "consistency":
        values = np.where(gpa.observations_.counts >= 2, metrics.consistency(placed), np.nan)
    else:
        values = metrics.sensor_error(residuals=gpa.sensor_residuals_)
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
        gpa = fixed_kernel().fit(points)
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
    with pytest.warns(UserWarning, match="far from the landmarks"):  # corners of the grid
        back = gpa.inverse_transform(grid[~np.isnan(grid[:, 0])], 1)
    back = back[~np.isnan(back[:, 0])]
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


def test_clouds_of_one_group_have_one_colour():
    points = np.random.default_rng(0).standard_normal((4, 9, 2))
    ax = plotting.clouds(points, groups=["pan", "gorilla", "pan", "pan"])
    assert [one.get_text() for one in ax.get_legend().get_texts()] == ["gorilla", "pan"]
    counts = np.unique(ax.collections[0].get_facecolors(), axis=0, return_counts=True)[1]
    assert sorted(counts) == [9, 27]
    with pytest.raises(InvalidSetting, match="groups has 2 names for 4 clouds"):
        plotting.clouds(points, groups=["pan", "gorilla"])

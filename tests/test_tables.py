"""Tables of R, pandas and xarray become the same observations as the arrays that they were made from."""

from __future__ import annotations

import io
import random
import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from kernelgpa import InvalidObservations, Observations, RigidGPA
from kernelgpa.errors import FormatError, KernelGPAWarning
from kernelgpa.io import csv_file
from kernelgpa.io.attributes import parse_attributes
from kernelgpa.io.landmark_file import ReadOptions
from kernelgpa.io.links import parse_links, read_links
from test_damaged_files import FUZZ, mutated

CLOUDS, LANDMARKS = ["ann", "bob", "eve"], ["nose", "ear", "chin", "eye", "lip"]


def scene(d=3):
    points = np.random.default_rng(5).standard_normal((3, 5, d))
    points[1, 2] = np.nan
    return points


def assert_same(found, points, clouds=CLOUDS, landmarks=LANDMARKS):
    assert isinstance(found, Observations)
    assert (list(found.names), list(found.landmarks)) == (list(clouds), list(landmarks))
    assert_array_equal(found.points, points)


# -- R --


def r_table(points, columns, first='""', missing="NA", row_names=True):
    rows = [",".join(([first] if row_names and first is not None else []) + columns)]
    for name, one in zip(CLOUDS, points, strict=True):
        values = [missing if np.isnan(x) else repr(x) for x in one.ravel().tolist()]
        rows.append(",".join(([f'"{name}"'] if row_names else []) + values))
    return "\n".join(rows) + "\n"


STYLES = {
    "write.csv of X1, Y1": lambda i, axis: f'"{axis}{i + 1}"',
    "two.d.array": lambda i, axis: f'"{i + 1}.{axis}"',
    "underscores": lambda i, axis: f"{i + 1}_{axis.lower()}",
}


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("missing", ["NA", "NaN", "", "nan"])
@pytest.mark.parametrize("first", ['""', "specimen", "ID", None], ids=["unnamed", "specimen", "ID", "write.table"])
@pytest.mark.parametrize("style", STYLES)
def test_tables_of_r_are_read(style, first, missing, d):
    points = scene(d)
    columns = [STYLES[style](i, axis) for i in range(5) for axis in "XYZ"[:d]]
    found = csv_file.parse(r_table(points, columns, first, missing), "file", ReadOptions())
    assert [one.name for one in found.clouds] == CLOUDS
    assert found.clouds[0].labels == ("1", "2", "3", "4", "5")
    assert_array_equal([one.points for one in found.clouds], points)


def test_a_table_without_names_numbers_its_clouds_and_says_so():
    columns = [f"{axis}{i + 1}" for i in range(5) for axis in "XYZ"]
    found = csv_file.parse(r_table(scene(), columns, row_names=False), "file", ReadOptions("skulls"))
    assert [one.name for one in found.clouds] == ["skulls_1", "skulls_2", "skulls_3"]
    assert found.notes == ("there is no column of names; clouds are numbered",)


def test_a_point_that_is_na_in_one_coordinate_is_refused():
    with pytest.raises(FormatError, match="line 2: some coordinates are empty"):
        csv_file.parse("id,X1,Y1\na,NA,2\n", "file", ReadOptions())


# -- pandas --


def long_frame(pandas, points):
    rows = [
        {"cloud": c, "landmark": j, **dict(zip("xyz", points[t, i], strict=False))}
        for t, c in enumerate(CLOUDS)
        for i, j in enumerate(LANDMARKS)
    ]
    return pandas.DataFrame(rows)


@pytest.mark.parametrize("d", [2, 3])
def test_every_layout_of_a_data_frame_gives_the_same_observations(d):
    pandas = pytest.importorskip("pandas")
    points = scene(d)
    long = long_frame(pandas, points)
    flat = points.reshape(3, -1)
    names = [f"{j}_{axis}" for j in LANDMARKS for axis in "xyz"[:d]]
    levels = pandas.MultiIndex.from_product([LANDMARKS, list("xyz"[:d])])
    for table in (
        long,
        long.dropna(),
        long.set_index(["cloud", "landmark"]),
        long.rename(columns={"cloud": "Specimen", "landmark": "Landmark", "x": "X"}),
        pandas.DataFrame(flat, index=CLOUDS, columns=names),
        pandas.DataFrame(flat, index=CLOUDS, columns=levels),
        pandas.DataFrame(flat, columns=names).assign(name=CLOUDS, sex="f"),
    ):
        assert_same(Observations.from_frame(table), points)
    geomorph = pandas.DataFrame(flat, index=CLOUDS, columns=[f"{i + 1}.{a}" for i in range(5) for a in "XYZ"[:d]])
    assert_same(Observations.from_frame(geomorph), points, landmarks=["1", "2", "3", "4", "5"])


def test_weights_of_a_data_frame_count():
    pandas = pytest.importorskip("pandas")
    frame = long_frame(pandas, scene())
    frame["weight"] = np.where(frame["landmark"] == "nose", 0.5, 1.0)
    weights = Observations.from_frame(frame).weights
    assert_array_equal(weights, np.where(np.isnan(scene()[..., 0]), 0, [[0.5, 1, 1, 1, 1]] * 3))


def test_fit_takes_a_data_frame_and_a_data_array():
    pandas, xarray = pytest.importorskip("pandas"), pytest.importorskip("xarray")
    expected = RigidGPA().fit(Observations.from_array(scene(), clouds=CLOUDS, landmarks=LANDMARKS))
    array = xarray.DataArray(
        scene(), dims=("cloud", "landmark", "axis"), coords={"cloud": CLOUDS, "landmark": LANDMARKS}
    )
    for table in (long_frame(pandas, scene()), array):
        found = RigidGPA().fit(table)
        assert_array_equal(found.map_, expected.map_)
        assert found.observations_.names == expected.observations_.names


@pytest.mark.parametrize(
    ("columns", "match"),
    [
        (["cloud", "landmark", "x"], "expected cloud, landmark, x, y"),
        (["a", "b", "c"], "expected coordinates such as nose_x"),
        (["a_x", "a_y", "b_x"], "'b' has no column for y"),
    ],
)
def test_frames_without_the_columns_are_refused(columns, match):
    pandas = pytest.importorskip("pandas")
    with pytest.raises(InvalidObservations, match=match):
        Observations.from_frame(pandas.DataFrame(np.ones((4, 3)), columns=columns))


def test_texts_and_repeated_rows_are_refused():
    pandas = pytest.importorskip("pandas")
    frame = long_frame(pandas, scene())
    with pytest.raises(InvalidObservations, match="given more than once"):
        Observations.from_frame(pandas.concat([frame, frame]))
    with pytest.raises(InvalidObservations, match="expected numbers"):
        Observations.from_frame(frame.astype({"x": object}).replace({"x": {frame["x"][0]: "left"}}))
    with pytest.raises(InvalidObservations, match="expected a DataFrame or a DataArray"):
        Observations.from_frame(scene())


# -- xarray --


@pytest.mark.parametrize("dims", [("cloud", "landmark", "axis"), ("specimen", "point", "xyz"), ("a", "b", "c")])
def test_a_data_array_gives_its_names(dims):
    xarray = pytest.importorskip("xarray")
    coords = {dims[0]: CLOUDS, dims[1]: LANDMARKS, dims[2]: list("xyz")}
    assert_same(Observations.from_frame(xarray.DataArray(scene(), dims=dims, coords=coords)), scene())


def test_dimensions_of_a_data_array_are_recognised_by_name():
    """As pyomeca orders them, with a row of ones below the coordinates."""
    xarray = pytest.importorskip("xarray")
    homogeneous = np.concatenate([scene(), np.ones((3, 5, 1))], axis=2)
    coords = {"axis": ["x", "y", "z", "ones"], "channel": LANDMARKS, "time": [0.0, 0.1, 0.2]}
    array = xarray.DataArray(homogeneous.transpose(2, 1, 0), dims=("axis", "channel", "time"), coords=coords)
    assert_same(Observations.from_frame(array), scene(), clouds=[0.0, 0.1, 0.2])
    with pytest.raises(InvalidObservations, match="expected three: cloud, landmark, axis"):
        Observations.from_frame(array[0])


def test_neither_library_is_needed():
    code = (
        "import sys; sys.modules.update(pandas=None, xarray=None)\n"  # an import of either now fails
        "import numpy, kernelgpa; print(kernelgpa.RigidGPA().fit(numpy.random.rand(3, 6, 3)).map_.shape)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "(6, 3)"


# -- corrupt tables of attributes and links --


def fuzz_tables(count):
    chance = random.Random(count)
    attributes = 'cloud,species,"age, years"\nann,pan,3\nbob,"gorilla, mountain",NA\neve,,\n'
    links = "nose,ear\nchin eye\n1\t5\n"
    readers = [
        (attributes, lambda text: parse_attributes(text, "file", CLOUDS, [".csv"])[0]),
        (links, lambda text: parse_links(text, "file", LANDMARKS)),
    ]
    for text, read in readers:
        refused = 0
        for _ in range(count):
            try:
                found = read(mutated(text, chance))
            except FormatError:
                refused += 1
                continue
            if isinstance(found, dict):
                assert all(len(column) == len(CLOUDS) for column in found.values())
            else:
                assert found.shape[1] == 2
                assert found.size == 0 or 0 <= found.min() <= found.max() < len(LANDMARKS)
        assert 0 < refused < count


@pytest.mark.filterwarnings("ignore:the first row")
def test_corrupt_attributes_and_links_are_refused_or_valid():
    fuzz_tables(FUZZ)


@pytest.mark.filterwarnings("ignore:the first row")
@pytest.mark.slow
def test_twenty_thousand_corrupt_attributes_and_links_are_refused_or_valid():
    fuzz_tables(20_000)


def test_links_may_have_a_header_and_quotes(tmp_path):
    (tmp_path / "links.csv").write_text('"from","to"\n"nose","2"\n"3","nose"\n', encoding="utf-8")
    with pytest.warns(KernelGPAWarning, match="header"):
        found = read_links(tmp_path / "links.csv", ["nose", "ear", "chin"])
    assert_array_equal(found, [[0, 1], [2, 0]])
    (tmp_path / "links.csv").write_text("nose,ear\nnoze,eer\n", encoding="utf-8")  # wrong names are no header
    with pytest.raises(FormatError, match=r"line 2.*'noze'"):
        read_links(tmp_path / "links.csv", ["nose", "ear", "chin"])


def test_names_of_rows_after_reset_index_and_read_csv_are_names_of_clouds():
    pandas = pytest.importorskip("pandas")
    columns = [f"{axis}{j + 1}" for j in range(5) for axis in "XYZ"]
    frame = pandas.DataFrame(np.random.default_rng(0).standard_normal((3, 15)), index=["a", "b", "c"], columns=columns)
    read_again = pandas.read_csv(io.StringIO(frame.to_csv()))
    for table in (frame, frame.reset_index(), read_again):
        assert list(Observations.from_frame(table).names) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (("specimen", "landmark", "lat", "y", "z"), "expected cloud, landmark, x, y"),  # not a plane of y and z
        (("specimen", "who", "x", "y", "z"), "expected a column landmark"),
        (("nose_y", "nose_z", "ear_y", "ear_z", "chin_y"), "expected coordinates such as"),
    ],
)
def test_a_table_without_x_and_y_is_refused(columns, message):
    pandas = pytest.importorskip("pandas")
    with pytest.raises(InvalidObservations, match=message):
        Observations.from_frame(pandas.DataFrame(np.ones((4, 5)), columns=columns))


def test_a_dataset_is_refused_with_the_name_of_an_array_in_it():
    xarray = pytest.importorskip("xarray")
    array = xarray.DataArray(np.random.default_rng(0).standard_normal((3, 5, 3)))
    with pytest.raises(InvalidObservations, match=r"dataset\['position'\]"):
        RigidGPA().fit(xarray.Dataset({"position": array}))

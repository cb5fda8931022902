"""Files of landmarks are read back as they were written, and every other input ends in a FormatError."""

from __future__ import annotations

import json
import os
import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from kernelgpa.errors import FormatError, InvalidSetting
from kernelgpa.io import csv_file, fcsv, morphologika, mrk_json, nts, pts, tps
from kernelgpa.io.landmark_file import LabelledCloud, LandmarkFile, ReadOptions, numbered_labels
from shared_data import SHARED

FUZZ = int(os.environ.get("KERNELGPA_FUZZ", "200"))  # inputs per reader


def wide_text(given):
    """Clouds as a CSV file with one row per cloud, which the library reads but does not write."""
    weighted = given.clouds[0].weights is not None
    ends = [*"xyz"[: given.clouds[0].points.shape[1]], *(["weight"] if weighted else [])]
    rows = [["cloud", *(f"{label}_{end}" for label in given.clouds[0].labels for end in ends)]]
    for one in given.clouds:
        columns = np.column_stack([one.points, one.weights]) if weighted else one.points
        rows.append([one.name, *("" if np.isnan(x) else repr(x) for x in columns.ravel().tolist())])
    return "".join(",".join(row) + "\n" for row in rows)


class wide_csv:
    parse, render = staticmethod(csv_file.parse), staticmethod(wide_text)


FORMATS = [tps, nts, morphologika, fcsv, mrk_json, pts, csv_file]
OPTIONS = ReadOptions(name="skull")


def name_of(module):
    return module.__name__.rpartition(".")[2]


every_format = pytest.mark.parametrize("module", FORMATS, ids=name_of)
every_reader = pytest.mark.parametrize("module", [*FORMATS, wide_csv], ids=name_of)
labelling = pytest.mark.parametrize("module", [nts, fcsv, mrk_json, pts, csv_file, wide_csv], ids=name_of)
THREE_D = (fcsv, mrk_json, pts)  # formats of three dimensions only
ONE_CLOUD = (fcsv, pts)  # named after the file
WEIGHTED = (csv_file, wide_csv)

UNUSUAL = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
AWKWARD = st.sampled_from(
    [
        "a b",
        "a,b",
        'say "so"',
        '"',
        "'",
        "Ω-7",
        "頭骨",
        "a\nb",
        "a\r\nb",
        " edge ",
        "#x",
        "[names]",
        "1",
        "NA",
        "x_x",
        "\x85",
    ]
)
WORDS = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=6)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)


@st.composite
def contents(draw, names=WORDS, labels=None, dimensions=(2, 3), clouds=4, missing=True, weights=False):
    """Clouds with the same landmarks, which are numbered unless ``labels`` is a strategy for their names."""
    n, k, d = draw(st.integers(1, clouds)), draw(st.integers(1, 5)), draw(st.sampled_from(dimensions))
    cloud_names = draw(st.lists(names, min_size=n, max_size=n, unique=True))
    marks = numbered_labels(k) if labels is None else tuple(draw(st.lists(labels, min_size=k, max_size=k, unique=True)))
    clouds_drawn = []
    for one in cloud_names:
        points = np.array(draw(st.lists(NUMBERS, min_size=k * d, max_size=k * d))).reshape(k, d)
        if missing:
            points[draw(st.lists(st.booleans(), min_size=k, max_size=k))] = np.nan
        drawn = np.array(draw(st.lists(st.floats(0, 1e9), min_size=k, max_size=k))) if weights else None
        clouds_drawn.append(LabelledCloud(one, points, marks, drawn))
    return LandmarkFile(tuple(clouds_drawn), labelled=labels is not None)


def drawn_for(module, **kind):
    if module in THREE_D:
        kind["dimensions"] = (3,)
    if module in ONE_CLOUD:
        kind["clouds"] = 1
    if module in (morphologika, fcsv):
        kind["missing"] = False
    return contents(**kind)


def read(module, text, **options):
    return module.parse(text, "file", ReadOptions(**{"name": "skull", **options}))


def error(module, text, **options):
    with pytest.raises(FormatError) as caught:
        read(module, text, **options)
    return caught.value


def read_back(module, given):
    named = given.clouds[0].name  # of one cloud, for formats in which the file names it
    return module.parse(module.render(given), "file", ReadOptions(name=named))


def assert_same(found, given):
    assert [one.name for one in found.clouds] == [one.name for one in given.clouds]
    for a, b in zip(found.clouds, given.clouds, strict=True):
        assert a.labels == b.labels
        assert_array_equal(a.points, b.points)
        assert (a.weights is None) == (b.weights is None)
        if a.weights is not None:
            assert_array_equal(a.weights, b.weights)


def assert_valid(found):
    assert found.clouds
    names = [one.name for one in found.clouds]
    assert len(set(names)) == len(names)
    for one in found.clouds:
        assert one.points.shape == (len(one.labels), found.clouds[0].points.shape[1])
        unseen = np.isnan(one.points)
        assert_array_equal(unseen.any(axis=1), unseen.all(axis=1))
        assert not np.isinf(one.points).any()
        assert len(set(one.labels)) == len(one.labels)
        assert all(one.labels)
        assert one.weights is None or (one.weights.shape == one.points.shape[:1] and np.isfinite(one.weights).all())


def example(**changes):
    points = np.array([[1.5, -2.0, 3.0], [4.0, 5.0, 0.1]])
    return replace(LandmarkFile((LabelledCloud("a", points, ("1", "2")),), labelled=False), **changes)


# -- round trips --


@every_reader
@given(data=st.data())
def test_what_is_written_is_read_back(module, data):
    given = data.draw(drawn_for(module))
    if module is nts:
        assume(len(given.clouds) == 1 or len(given.clouds[0].labels) > 1)
    if module is pts:
        assume(not (given.clouds[0].points == 9999).all(axis=1).any())
    assert_same(read_back(module, given), given)


@labelling
@given(data=st.data())
def test_labels_are_read_back(module, data):
    given = data.draw(drawn_for(module, labels=WORDS))
    if module is nts:
        assume(len(given.clouds) == 1 or len(given.clouds[0].labels) > 1)
    found = read_back(module, given)
    assert_same(found, given)
    assert found.labelled


@every_format
@given(data=st.data())
def test_an_unusual_name_is_read_back_or_refused(module, data):
    unusual = AWKWARD | UNUSUAL
    given = data.draw(drawn_for(module, names=unusual, labels=unusual if module not in (tps, morphologika) else None))
    try:
        text = module.render(given)
    except FormatError:
        return
    assert_same(module.parse(text, "file", ReadOptions(name=given.clouds[0].name)), given)


@given(given=contents(names=AWKWARD | UNUSUAL, labels=AWKWARD | UNUSUAL, weights=True))
def test_long_csv_holds_every_name_and_weight(given):
    assert_same(read_back(csv_file, given), given)


@pytest.mark.parametrize("module", WEIGHTED, ids=name_of)
@given(data=st.data())
def test_weights_are_read_back(module, data):
    given = data.draw(contents(labels=WORDS, weights=True))
    assert_same(read_back(module, given), given)


@pytest.mark.parametrize("module", [mrk_json, fcsv], ids=name_of)
@given(label=AWKWARD)
def test_slicer_labels_may_have_commas_and_quotes(module, label):
    if module is fcsv:
        assume("\n" not in label)
    given = example(clouds=(LabelledCloud("a", np.ones((1, 3)), (label,)),), labelled=True)
    assert_same(read_back(module, given), given)


def test_long_csv_and_tps_hold_clouds_with_different_landmarks():
    a, b = LabelledCloud("a", np.ones((2, 2)), ("p", "q")), LabelledCloud("b", np.zeros((3, 2)), ("q", "r", "p"))
    given = LandmarkFile((a, b), labelled=True)
    assert_same(read_back(csv_file, given), given)
    assert_same(read_back(tps, given.without_labels()), given.without_labels())
    with pytest.raises(FormatError, match="different landmarks"):
        nts.render(given)


# -- a writer refuses what its format cannot hold --


@pytest.mark.parametrize("module", [tps, morphologika], ids=name_of)
def test_labels_are_dropped_only_on_request(module):
    given = example(clouds=(LabelledCloud("a", np.ones((2, 3)), ("nose", "ear")),), labelled=True)
    with pytest.raises(FormatError, match="cannot hold landmark labels"):
        module.render(given)
    assert_same(read_back(module, given.without_labels()), given.without_labels())


@every_format
def test_weights_are_kept_or_refused(module):
    one = replace(example().clouds[0], weights=np.array([1.0, 0.5]))
    given = example(clouds=(one,))
    if module in WEIGHTED:
        assert_same(read_back(module, given), given)
    else:
        with pytest.raises(FormatError, match="cannot hold weights"):
            module.render(given)


@pytest.mark.parametrize("module", [morphologika, fcsv], ids=name_of)
def test_unseen_points_are_refused_by_formats_without_a_sign_for_them(module):
    with pytest.raises(FormatError, match="landmark '2' was not seen"):
        module.render(example(clouds=(LabelledCloud("a", np.array([[1.0, 2, 3], [np.nan] * 3]), ("1", "2")),)))


@pytest.mark.parametrize("module", THREE_D, ids=name_of)
def test_planar_points_are_refused_by_formats_of_three_dimensions(module):
    with pytest.raises(FormatError, match="three dimensions"):
        module.render(example(clouds=(LabelledCloud("a", np.ones((2, 2)), ("1", "2")),)))


@pytest.mark.parametrize("module", ONE_CLOUD, ids=name_of)
def test_several_clouds_are_refused_by_formats_of_one_cloud(module):
    one = example().clouds[0]
    with pytest.raises(FormatError, match="one cloud per file"):
        module.render(example(clouds=(one, replace(one, name="b"))))


@every_format
@pytest.mark.parametrize(
    "given",
    [
        example(clouds=()),
        example(faces=np.zeros((1, 3), dtype=np.intp)),
        example(clouds=(LabelledCloud("a", np.array([[1.0, np.nan, 2.0]]), ("1",)),)),
        example(clouds=(LabelledCloud("a", np.array([[1.0, np.inf, 2.0]]), ("1",)),)),
        example(clouds=(LabelledCloud("a", np.ones((2, 3)), ("1",)),)),
        example(clouds=(LabelledCloud("a", np.ones((2, 3)), ("1", "1")),)),
        example(clouds=(LabelledCloud("a", np.ones((1, 3)), ("\ud800",)),)),
        example(clouds=(LabelledCloud("", np.ones((1, 3)), ("1",)),)),
        example(clouds=(LabelledCloud("a", np.ones((0, 3)), ()),)),
        example(clouds=(LabelledCloud("a", np.ones((1, 3)), ("1",)), LabelledCloud("a", np.ones((1, 3)), ("1",)))),
    ],
)
def test_no_writer_accepts_invalid_clouds(module, given):
    with pytest.raises(FormatError):
        module.render(given)


# -- numbers --

BAD_NUMBERS = ["NaN", "nan", "inf", "-Infinity", "1_000", "1e999", "1e-999", "0x10", "١٢", "1,5", "--1", "1d3", ""]
ONE_POINT = {
    tps: ("LM3=1\n1 2 {}\nID=a\n", 2),
    nts: ("1 1L 6 0 DIM=3\na\n1 2 3 4 5 {}\n", 3),
    morphologika: ("[individuals]\n1\n[landmarks]\n1\n[dimensions]\n3\n[rawpoints]\n'#a\n1 2 {}\n", 9),
    fcsv: ("# Markups fiducial file version = 4.11\n# CoordinateSystem = LPS\n\n1,1,2,{},0,0,0,1,1,1,0,F-1,,\n", 4),
    mrk_json: ('{{"markups": [\n{{"controlPoints": [\n{{"label": "a", "position": [1,\n2,\n{}]}}]}}]}}', 5),
    pts: ("Version 1.0\n1\nS000 1 2 {}\n", 3),
    csv_file: ("cloud,landmark,x,y,z\na,1,1,2,3\na,2,1,2,{}\n", 3),
    wide_csv: ("cloud,p_x,p_y,p_z\na,1,2,3\nb,1,2,{}\n", 3),
}


@pytest.mark.parametrize("number", BAD_NUMBERS)
@pytest.mark.parametrize("module", ONE_POINT, ids=name_of)
def test_a_number_outside_double_precision_is_refused_on_its_line(module, number):
    text, line = ONE_POINT[module]
    caught = error(module, text.format(number))
    # invalid JSON is refused where the decoder notices it first; a morphologika row of two numbers is no row
    assert caught.line == line or (module is mrk_json and caught.line <= line + 1)
    assert str(line) in str(caught) or module is mrk_json


@pytest.mark.parametrize("number", ["1", "-0.0", "+1.5", "1e-5", ".5", "5.", "1E+22", "4.9e-324", "0e999", "9999"])
@pytest.mark.parametrize("module", [one for one in ONE_POINT if one is not mrk_json], ids=name_of)
def test_numbers_are_read_as_they_are(module, number):
    assert read(module, ONE_POINT[module][0].format(number)).clouds[-1].points[-1, -1] == float(number)


# -- TPS --


def test_tps_blocks_and_their_facts():
    text = (
        "\ufeffLM=2\r\n1 2\r\n-3 -4\r\nIMAGE=C:\\pics\\bird.one.jpg\r\nSCALE=0.5\r\n\r\n"
        "lm=2\r\nNA NA\r\n5\t6\r\nimage=fish.jpg\r\nId=7\r\nscale=\r\nComment=wet = cold\r\n"
        "LM=2\r\n1 1\r\n2 2\r\n"
    )
    found = read(tps, text)
    assert [one.name for one in found.clouds] == ["bird.one", "7", "skull_3"]
    assert_array_equal(found.clouds[0].points, [[0.5, 1], [-1.5, -2]])  # negative coordinates are valid
    assert_array_equal(found.clouds[1].points, [[np.nan, np.nan], [5, 6]])  # an empty SCALE means no scale
    assert_array_equal(found.clouds[2].points, [[1, 1], [2, 2]])
    assert not found.labelled
    assert found.notes == (
        "coordinates multiplied by SCALE",
        "2 of 3 blocks have no SCALE: their unit is that of the file",
        "COMMENT ignored",
    )


def test_tps_points_are_unseen_only_on_request_and_if_all_coordinates_are_negative():
    text = "LM=3\n-1 -1\n-1 4\n0 -1\nSCALE=2\n"
    assert_array_equal(read(tps, text).clouds[0].points[0], [-2, -2])
    found = read(tps, text, negative_is_missing=True)
    assert_array_equal(found.clouds[0].points, [[np.nan, np.nan], [-2, 8], [0, -2]])
    assert "points not seen because all coordinates are negative: 1" in found.notes


def test_tps_mixed_dimensions_are_refused():
    assert read(tps, "LM3=1\n1 2 3\n").clouds[0].points.shape == (1, 3)
    caught = error(tps, "LM=1\n1 2\nID=a\nLM3=1\n1 2 3\nID=b\n")
    assert caught.line == 4
    assert "LM3" in str(caught)


def test_tps_ids_are_not_matched_as_substrings():
    text = "".join(f"LM=1\n{i} 0\nID={i}\n" for i in (1, 10, 11, 101))
    assert [(one.name, one.points[0, 0]) for one in read(tps, text).clouds] == [
        ("1", 1), ("10", 10), ("11", 11), ("101", 101),
    ]  # fmt: skip


def test_tps_curves_are_read_on_request():
    text = "LM=1\n1 2\nCURVES=2\nPOINTS=2\n3 4\n5 6\nPOINTS=1\n7 8\nOUTLINES=1\nPOINTS=1\n9 9\nID=a\nSCALE=2\n"
    plain = read(tps, text)
    assert plain.clouds[0].labels == ("1",)
    assert "3 curves with 4 points ignored; read them with curves=True" in plain.notes
    full = read(tps, text, curves=True)
    assert full.clouds[0].labels == ("1", "curve1_1", "curve1_2", "curve2_1", "outline1_1")
    assert_array_equal(full.clouds[0].points, [[2, 4], [6, 8], [10, 12], [14, 16], [18, 18]])
    assert full.labelled


def test_tps_curves_without_landmarks():
    assert read(tps, "LM=0\nCURVES=1\nPOINTS=1\n3 4\nID=a\n", curves=True).clouds[0].labels == ("curve1_1",)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", 1),
        ("hello\n", 1),
        ("LM=2\n1 2\n", 1),
        ("LM=999999999999\n1 2\n", 1),
        ("LM=-1\n", 1),
        ("LM=1\n1 2 3\n", 2),
        ("LM=1\n1 NA\n", 2),
        ("LM=1\n1 2\n3 4\n", 3),
        ("LM=1\n1 2\nSCAL=2\n", 3),
        ("LM=1\n1 2\nSCALE=0\n", 3),
        ("LM=1\n1 2\nSCALE=-1\n", 3),
        ("LM=1\n1 2\nSCALE=NaN\n", 3),
        ("LM=1\n1e300 2\nSCALE=1e300\n", 1),
        ("LM=1\n1e-300 2\nSCALE=1e-300\n", 1),
        ("LM=1\n1 2\nID=a\nID=b\n", 4),
        ("LM=1\n1 2\nID=a\n\nLM=1\n1 2\nID=a\n", 5),
        ("LM=1\n1 2\nCURVES=1\nID=a\n", 4),
        ("LM=1\n1 2\nCURVES=1\nPOINTS=5\n1 2\n", 4),
    ],
)
def test_tps_errors_are_on_their_line(text, line):
    assert error(tps, text).line == line


# -- NTS --


def test_nts_has_one_row_per_specimen():
    text = "'made by hand\n\"and again\n1 2L 6L 1 9999 DIM=3\nant\nbee\nhead_x head_y head_z 2x 2y 2z\n"
    text += "1 2 3 9999 9999 9999\n4 5\n6\n7 8 -9999\n"
    found = read(nts, text, missing=4)
    assert [one.name for one in found.clouds] == ["ant", "bee"]
    assert found.clouds[0].labels == ("head", "2")
    assert found.labelled
    assert_array_equal(found.clouds[0].points, [[1, 2, 3], [np.nan] * 3])
    assert_array_equal(found.clouds[1].points, [[4, 5, 6], [7, 8, -9999]])


def test_nts_with_as_many_columns_as_dimensions_is_one_specimen():
    found = read(nts, "1 3L 2 0 dim=2\na b c\n1 2\n3 4\n5 6\n")
    assert len(found.clouds) == 1
    assert found.clouds[0].name == "skull"
    assert found.clouds[0].labels == ("a", "b", "c")
    assert_array_equal(found.clouds[0].points, [[1, 2], [3, 4], [5, 6]])


def test_nts_only_the_code_is_missing():
    found = read(nts, "1 1 4 1 -999 DIM=2\n-999 -999 9999 -1\n")
    assert_array_equal(found.clouds[0].points, [[np.nan, np.nan], [9999, -1]])
    assert found.clouds[0].name == "skull_1"
    plain = "1 1 4 0 DIM=2\n9999 9999 9999 -1\n"
    assert_array_equal(read(nts, plain).clouds[0].points, [[9999, 9999], [9999, -1]])
    marked = read(nts, plain, missing=9999)
    assert_array_equal(marked.clouds[0].points, [[np.nan, np.nan], [9999, -1]])
    assert marked.marked_by_code == 1
    both = read(nts, "1 1 4 1 -999 DIM=2\n-999 -999 0 0\n", missing=0)  # what is typed counts beside the header
    assert np.isnan(both.clouds[0].points).all()


def test_nts_na_is_missing_as_geomorph_writes_it():
    assert_array_equal(read(nts, "1 1 4 0 DIM=2\nNA NA 1 2\n").clouds[0].points, [[np.nan, np.nan], [1, 2]])


def test_nts_column_labels_of_another_kind_are_noted():
    found = read(nts, "1 1 4L 0 DIM=2\nx1 y1 x2 y2\n1 2 3 4\n")
    assert found.clouds[0].labels == ("1", "2")
    assert not found.labelled
    assert "'x1'" in found.notes[0]
    assert read(nts, "1 1 4L 0 DIM=2\nx y x y\n1 2 3 4\n").notes


def test_nts_a_coordinate_of_9999_is_not_written_as_missing():
    points = np.array([[9999.0, 1, 2], [np.nan] * 3])
    given = example(clouds=(LabelledCloud("a", points, ("1", "2")),))
    assert "99999" in nts.render(given).splitlines()[0]
    assert_same(read_back(nts, given), given)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", 0),
        ("2 1 4 0 DIM=2\n1 2 3 4\n", 1),
        ("1 1 4 0\n1 2 3 4\n", 1),
        ("1 1 4 0 9999 DIM=2\n1 2 3 4\n", 1),
        ("1 1 4 1 DIM=2\n1 2 3 4\n", 1),
        ("1 1E 4 0 DIM=2\n1 2 3 4\n", 1),
        ("1 1 5 0 DIM=2\n1 2 3 4 5\n", 1),
        ("1 0 4 0 DIM=2\n", 1),
        ("1 999999999999 4 0 DIM=2\n1 2 3 4\n", 1),
        ("1 1 999999999998 0 DIM=2\n1 2 3 4\n", 2),
        ("1 2 4 0 DIM=2\n1 2 3\n4 5 6 7 8\n", 3),
        ("1 1 4 0 DIM=2\n1 2 3 4\n5\n", 3),
        ("1 1 4 1 9 DIM=2\n1 2 3 9\n", 2),
        ("1 2L 4 0 DIM=2\na\na\n1 2 3 4\n5 6 7 8\n", 3),
        ("1 2L 4 0 DIM=2\na one\nb two\n1 2 3 4\n5 6 7 8\n", 3),
    ],
)
def test_nts_errors_are_on_their_line(text, line):
    assert error(nts, text).line == line


# -- Morphologika --

MORPHOLOGIKA = (
    "[Rawpoints]\r\n'#1\r\n1 2\r\n3 4\r\n\r\n'#2\r\n0 0\r\n0 8\r\n[names]\r\nold ape\r\nyoung ape\r\n"
    "[wireframe]\r\n1 2\r\n[dimensions]\r\n2\r\n[landmarks]\r\n2\r\n[individuals]\r\n2\r\n[groups]\r\n"
)


def test_morphologika_sections_may_have_any_order_and_any_line_ends():
    found = read(morphologika, MORPHOLOGIKA)
    assert [one.name for one in found.clouds] == ["old ape", "young ape"]
    assert_array_equal(found.clouds[1].points, [[0, 0], [0, 8]])
    assert found.notes == ()
    assert not found.labelled


def test_morphologika_takes_the_missing_number_from_the_options():
    found = read(morphologika, MORPHOLOGIKA, missing=0)
    assert_array_equal(found.clouds[1].points, [[np.nan, np.nan], [0, 8]])


def test_morphologika_takes_names_from_titles_or_numbers_the_individuals():
    text = "[individuals]\n2\n[landmarks]\n1\n[dimensions]\n2\n[rawpoints]\n{}1 2\n{}3 4\n"
    assert [one.name for one in read(morphologika, text.format("'#a b\n", "'#c\n")).clouds] == ["a b", "c"]
    assert [one.name for one in read(morphologika, text.format("", "")).clouds] == ["skull_1", "skull_2"]


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("[individuals]\r\n2", "[individuals]\r\n3", 1),
        ("[landmarks]\r\n2", "[landmarks]\r\n999999999999", 1),
        ("[landmarks]\r\n2", "[landmarks]\r\n0", 17),
        ("[dimensions]\r\n2", "[dimensions]\r\n4", 15),
        ("[dimensions]\r\n2", "[dimensions]\r\n3", 3),
        ("[individuals]\r\n2", "[individuals]\r\n2\r\n2", 18),
        ("[groups]", "[names]", 20),
        ("young ape", "old ape", 11),
        ("young ape\r\n", "", 9),
        ("'#1\r\n1 2\r\n3 4", "1 2\r\n'#1\r\n3 4", 3),
        ("'#1\r\n", "'#young ape\r\n", 2),
        ("[Rawpoints]", "stray\r\n[Rawpoints]", 1),
    ],
)
def test_morphologika_errors_are_on_their_line(old, new, line):
    assert old in MORPHOLOGIKA
    assert error(morphologika, MORPHOLOGIKA.replace(old, new)).line == line


def test_morphologika_names_the_section_that_is_missing():
    assert "[landmarks]" in str(error(morphologika, MORPHOLOGIKA.replace("[landmarks]", "[landmark]")))


# -- Slicer --

FCSV = "# Markups fiducial file version = {}\n# CoordinateSystem = {}\n# columns = {}\n{}"
ROW = '{},1,2,3,0,0,0,1,1,1,0,{},,vtkMRMLModelNode1{}\n'  # fmt: skip


def fcsv_text(frame, rows, version="4.11"):
    return FCSV.format(version, frame, fcsv.SLICER4, rows)


@pytest.mark.parametrize(("frame", "sign"), [("0", -1), ("RAS", -1), ("1", 1), ("LPS", 1)])
@pytest.mark.parametrize("version", ["4.6", "4.11", "5.6"])
def test_fcsv_frames_by_number_and_by_name(frame, sign, version):
    found = read(fcsv, fcsv_text(frame, ROW.format("id1", "F-1", ""), version))
    assert_array_equal(found.clouds[0].points, [[sign, 2 * sign, 3]])
    assert found.frame == "LPS"
    assert found.notes == (("RAS converted to LPS",) if sign < 0 else ())
    assert found.clouds[0].name == "skull"


def test_fcsv_of_slicer_3():
    text = "# Fiducial List file /a/b.fcsv\n# version = 2\n# name = L\n# numPoints = 2\nnose,1,2,3,1,1\near,4,5,6,1,1\n"
    found = read(fcsv, text)
    assert found.clouds[0].labels == ("nose", "ear")
    assert_array_equal(found.clouds[0].points, [[-1, -2, 3], [-4, -5, 6]])
    assert error(fcsv, text.replace("= 2\nnose", "= 3\nnose")).line == 4
    assert read(fcsv, "nose,1,2,3,1,1\n").clouds[0].labels == ("nose",)


def test_fcsv_labels_with_commas_and_quotes():
    found = read(fcsv, fcsv_text("LPS", ROW.format("1", '"a, ""b"""', "") + ROW.format("2", 'x"y', "")))
    assert found.clouds[0].labels == ('a, "b"', 'x"y')


def test_fcsv_status_of_slicer_5():
    rows = ROW.format("1", "a", ",2,0") + ROW.format("2", "b", ",0,0") + ROW.format("3", "c", ",3,0")
    assert_array_equal(np.isnan(read(fcsv, fcsv_text("LPS", rows)).clouds[0].points[:, 0]), [False, True, True])


def test_fcsv_landmarks_without_labels_are_numbered():
    found = read(fcsv, fcsv_text("LPS", ROW.format("1", "", "") + ROW.format("2", "b", "")))
    assert found.clouds[0].labels == ("1", "2")
    assert not found.labelled
    assert found.notes == ("1 of 2 landmarks have no label; all are numbered instead",)


def test_fcsv_missing_number_is_compared_in_the_frame_of_the_file():
    found = read(fcsv, fcsv_text("0", ROW.format("1", "a", "").replace("1,2,3", "9,9,9")), missing=9)
    assert np.isnan(found.clouds[0].points).all()


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", 0),
        (fcsv_text("LPS", ""), 3),
        (fcsv_text("2", ROW.format(1, "a", "")), 2),
        (fcsv_text("IJK", ROW.format(1, "a", "")), 2),
        (fcsv_text("LPS", ROW.format(1, "a", "")).replace("# CoordinateSystem = LPS\n", ""), 1),
        (fcsv_text("LPS", ROW.format(1, "a", "") + ROW.format(2, "a", "")), 5),
        (fcsv_text("LPS", ROW.format(1, "a", "") + "1,2,3\n"), 5),
        (fcsv_text("LPS", ROW.format(1, "a", ",7,0")), 4),
        (fcsv_text("LPS", ROW.format(1, "a", ",1")), 4),
        (fcsv_text("LPS", ROW.format(1, '"a', "")), 4),
        (fcsv_text("LPS", ROW.format(1, "a", "") + "# CoordinateSystem = RAS\n"), 5),
        (fcsv_text("LPS\n# CoordinateSystem = RAS", ROW.format(1, "a", "")), 3),
        (FCSV.format("4.11", "LPS", "id,x,y,label", "1,2,3,a\n"), 3),
    ],
)
def test_fcsv_errors_are_on_their_line(text, line):
    assert error(fcsv, text).line == line


def markups(*points, **facts):
    return {"type": "Fiducial", **facts, "controlPoints": list(points)}


def control(label="a", position=(1, 2, 3), **facts):
    return {"label": label, "position": position, **facts}


def mrk(*nodes, indent=1):
    return json.dumps({"@schema": "s", "markups": nodes}, indent=indent)


def test_mrkjson_only_defined_points_are_seen():
    statuses = ["defined", "undefined", "preview", "missing"]
    points = [control(one, positionStatus=one) for one in statuses]
    points += [
        control("bare"),
        control("gone", "", positionStatus="undefined"),
        control("null", None, positionStatus="missing"),
    ]
    found = read(mrk_json, mrk(markups(*points)))
    assert_array_equal(np.isfinite(found.clouds[0].points[:, 0]), [True, False, False, False, True, False, False])
    assert found.frame == "LPS"
    assert found.unit is None


@pytest.mark.parametrize(("frame", "sign"), [("RAS", -1), ("0", -1), (0, -1), ("LPS", 1), ("1", 1), (None, 1)])
def test_mrkjson_frames(frame, sign):
    facts = {} if frame is None else {"coordinateSystem": frame}
    found = read(mrk_json, mrk(markups(control(), **facts)))
    assert_array_equal(found.clouds[0].points, [[sign, 2 * sign, 3]])
    assert found.notes == (("RAS converted to LPS",) if sign < 0 else ())


def test_mrkjson_several_markups_are_several_clouds():
    found = read(mrk_json, mrk(markups(control()), markups(control()), markups(control(), name="頭")))
    assert [one.name for one in found.clouds] == ["skull", "skull_2", "頭"]


def test_mrkjson_units():
    for unit in ("mm", ["mm", "UCUM", "millimeter"]):
        assert read(mrk_json, mrk(markups(control(), coordinateUnits=unit))).unit == "mm"
    assert "several units" in str(
        error(mrk_json, mrk(markups(control(), coordinateUnits="mm"), markups(control(), coordinateUnits="um")))
    )
    assert read_back(mrk_json, example(unit="um")).unit == "um"


def test_mrkjson_reports_what_it_ignores():
    curve = {**markups(control(description="by eye"), control("")), "type": "Curve"}
    found = read(mrk_json, mrk(curve))
    assert found.clouds[0].labels == ("1", "2")
    assert found.notes == (
        "1 of 2 landmarks have no label; all are numbered instead",
        "1 descriptions ignored",
        "the control points of a 'Curve' are read as landmarks",
    )


def test_mrkjson_is_written_as_slicer_reads_it():
    points = np.array([[1.5, -2.0, 3.0], [np.nan] * 3])
    written = json.loads(mrk_json.render(example(clouds=(LabelledCloud("a", points, ("1", "2")),))))
    assert "markups-schema-v1" in written["@schema"]
    (node,) = written["markups"]
    assert (node["type"], node["coordinateSystem"]) == ("Fiducial", "LPS")
    assert node["controlPoints"] == [
        {"id": "1", "label": "1", "position": [1.5, -2.0, 3.0], "positionStatus": "defined"},
        {"id": "2", "label": "2", "positionStatus": "undefined"},
    ]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", 1),
        ("{}", 1),
        ("3", 1),
        ('{"markups":\n[]}', 2),
        ('{"markups":\n{}}', 2),
        ('{"markups": [\n7]}', 2),
        ('{"markups": [\n{}]}', 2),
        ('{"markups": [{"controlPoints": [\n\n5]}]}', 3),
        ('{"markups": [{"controlPoints": [\n{"label":\n5, "position": [1, 2, 3]}]}]}', 3),
        ('{"markups": [{"controlPoints": [\n{"label": "\\ud800", "position": [1, 2, 3]}]}]}', 2),
        ('{"markups": [{"controlPoints": [\n{"label": "a",\n"position": [1, 2]}]}]}', 3),
        ('{"markups": [{"controlPoints": [\n{"label": "a",\n"position":\n[1, 2,\n"3"]}]}]}', 5),
        ('{"markups": [{"controlPoints": [\n{"label": "a",\n"position":\n[1, 2,\ntrue]}]}]}', 5),
        ('{"markups": [{"controlPoints": [\n{"label": "a",\n"position":\n[1, 2,\n1' + "0" * 5000 + "]}]}]}", 5),
        ('{"markups": [{"controlPoints": [\n{"label": "a"}]}]}', 2),
        ('{"markups": [{"controlPoints": [\n{"position": [1, 2, 3],\n"positionStatus": "Defined"}]}]}', 3),
        ('{"markups": [{"controlPoints": [{"label": "a",\n"position": [1,2,3]},\n'
         '{"label": "a", "position": [1,2,3]}]}]}', 3),
        ('{"markups": [\n{"coordinateSystem":\n"IJK", "controlPoints": []}]}', 3),
        ('{"markups": [\n{"name": "a", "controlPoints": []},\n{"name": "a", "controlPoints": []}]}', 3),
        ('{"markups": [\n{"controlPoints": [], "controlPoints": []}]}', 2),
        ('{"markups": [{"controlPoints": []}]} \n}', 2),
        ("\n" + "[" * 100_000, 2),
        ("\n" + '{"a":' * 100_000, 2),
    ],
)  # fmt: skip
def test_mrkjson_errors_are_on_their_line(text, line):
    assert error(mrk_json, text).line == line


def test_real_markups_are_read():
    files = sorted((SHARED / "data" / "landmarks" / "apes").glob("*.mrk.json"))
    if not files:
        pytest.skip("the apes are not beside this checkout")
    for file in files:
        text = file.read_text(encoding="utf-8")
        found = read(mrk_json, text)
        expected = [one["position"] for one in json.loads(text)["markups"][0]["controlPoints"]]
        assert_array_equal(found.clouds[0].points, expected)
        assert found.labelled
        assert found.unit == "mm"


# -- IDAV .pts --


def test_pts_points_are_unseen_if_all_coordinates_are_9999():
    found = read(pts, "Version 1.0\r\n3\r\nS000 1 2 3\r\nS001 9999 9999 9999\r\nC000 9999 0 0\r\n\r\n")
    assert found.clouds[0].labels == ("S000", "S001", "C000")
    assert_array_equal(found.clouds[0].points, [[1, 2, 3], [np.nan] * 3, [9999, 0, 0]])


def test_pts_of_ibug_is_recognised_and_refused():
    caught = error(pts, "version: 1\nn_points: 1\n{\n1 2\n}\n")
    assert caught.line == 1
    assert "iBUG" in str(caught)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", 0),
        ("Version 2.0\n1\na 1 2 3\n", 1),
        ("Version 1.0\n", 1),
        ("Version 1.0\n0\n", 2),
        ("Version 1.0\n2\na 1 2 3\n", 2),
        ("Version 1.0\n999999999999\na 1 2 3\n", 2),
        ("Version 1.0\n1\na b 1 2 3\n", 3),
        ("Version 1.0\n1\n1 2 3\n", 3),
        ("Version 1.0\n2\na 1 2 3\na 1 2 3\n", 4),
        ("Version 1.0\n1\na 1 2 3\nb 1 2 3\n", 4),
    ],
)
def test_pts_errors_are_on_their_line(text, line):
    assert error(pts, text).line == line


# -- CSV --


def test_long_csv_takes_its_columns_in_any_order():
    text = "\ufeffWeight, Y,x,LANDMARK,Cloud,sex\r\n0.5,2,1,nose,a,f\r\n,,,ear,a,f\r\n1,4,3,ear,b,m\r\n"
    found = read(csv_file, text)
    assert [one.name for one in found.clouds] == ["a", "b"]
    assert_array_equal(found.clouds[0].points, [[1, 2], [np.nan, np.nan]])
    assert_array_equal(found.clouds[0].weights, [0.5, 0])
    assert found.clouds[1].labels == ("ear",)
    assert found.notes == ("column 'sex' ignored",)


def test_wide_csv_with_dots_and_underscores():
    for first in ("cloud", "Name", "ID", ""):
        text = f'{first},l_1_x,l_1_y,"a,b.x","a,b.y",sex\none,1,2,,,f\ntwo,3,4,5,6,m\n'
        found = read(csv_file, text)
        assert found.clouds[0].labels == ("l_1", "a,b")
        assert_array_equal(found.clouds[0].points, [[1, 2], [np.nan, np.nan]])
        assert found.notes == ("column 'sex' ignored",)


@every_reader
def test_a_code_of_missing_points_counts_in_every_format(module):
    """One number for all axes, or one per axis; a point that has it in some coordinates only was seen."""
    code, d = np.array([-9.0, -9.0, 7.5]), 3
    points = np.array([[1.0, 2, 3], [-9, -9, 7.5], [-9, -9, 3], [4, 5, 6]])
    labels = numbered_labels(4)
    text = module.render(LandmarkFile((LabelledCloud("skull", points, labels),), module is not tps))
    found = module.parse(text, "file", ReadOptions("skull", tuple(code)))
    assert_array_equal(found.clouds[0].points, np.where((points == code).all(axis=1)[:, None], np.nan, points))
    assert found.marked_by_code == 1
    text = module.render(LandmarkFile((LabelledCloud("skull", np.where(points == 7.5, -9, points), labels),), True))
    assert np.isnan(module.parse(text, "file", ReadOptions("skull", -9.0)).clouds[0].points).all(axis=1).sum() == 1
    with pytest.raises(InvalidSetting, match=f"has 2 numbers, and points have {d} coordinates"):
        module.parse(text, "file", ReadOptions("skull", (1.0, 2.0)))


def test_a_code_is_compared_with_what_the_file_reads():
    """Not with scaled or converted coordinates."""
    scaled = read(tps, "LM=2\n-1 -1\n2 3\nSCALE=0.5\n", missing=-1)
    assert_array_equal(scaled.clouds[0].points, [[np.nan, np.nan], [1, 1.5]])
    ras = mrk(markups(control("a", (5, 6, 7)), control("b"), coordinateSystem="RAS"))
    assert_array_equal(np.isnan(read(mrk_json, ras, missing=(5, 6, 7)).clouds[0].points[:, 0]), [True, False])


@pytest.mark.parametrize("module", [csv_file, wide_csv], ids=name_of)
def test_semicolons_and_decimal_commas_are_reported(module):
    caught = error(module, "cloud;landmark;x;y\na;p;1,5;2,5\n")
    assert caught.line == 1
    assert "semicolons" in str(caught)
    assert "decimal point" in str(caught)


def test_csv_decimal_commas_are_reported():
    assert "decimal point" in str(error(csv_file, "cloud,landmark,x,y\na,p,1,5,2,5\n"))
    assert "decimal point" in str(error(csv_file, 'cloud,landmark,x,y\na,p,"1,5",2\n'))


def test_long_csv_names_the_column_that_is_missing_and_those_found():
    caught = error(csv_file, "cloud,point,x,y\na,p,1,2\n")
    assert "'landmark'" in str(caught)
    assert "'point'" in str(caught)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", 1),
        ("cloud,landmark,x,y\n", 1),
        ("\n\ncloud,landmark,x\na,p,1\n", 3),
        ("cloud,landmark,x,x,y\na,p,1,1,1\n", 1),
        ("cloud,landmark,x,y\na,p,1\n", 2),
        ("cloud,landmark,x,y\na,p,1,\n", 2),
        ("cloud,landmark,x,y\n,p,1,2\n", 2),
        ("cloud,landmark,x,y\na,,1,2\n", 2),
        ('cloud,landmark,x,y\n"a\nb",p,1,2\na,p,1,2\na,p,1,2\n', 5),
        ('cloud,landmark,x,y\na,p,1,2\na,"q,1,2\n', 3),
        ('cloud,landmark,x,y\na,"q"q,1,2\n', 2),
        ("cloud,landmark,x,y,weight\na,p,1,2,\n", 2),
        ("cloud,landmark,x,y,weight\na,p,1,2,-1\n", 2),
        ("cloud,landmark,x,y,weight\na,p,1,2,nan\n", 2),
    ],
)
def test_long_csv_errors_are_on_their_line(text, line):
    assert error(csv_file, text).line == line


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", 1),
        ("cloud,a_x,a_y\n", 1),
        ("species,a_x,a_y\na,1,2\n", 1),
        ("cloud,a_x,a_y,b_x\na,1,2,3\n", 1),
        ("cloud,a_x,a_y,b_x,b_y,b_z\na,1,2,3,4,5\n", 1),
        ("cloud,a_x,a_y,a_weight,b_x,b_y\na,1,2,3,4,5\n", 1),
        ("cloud,a_x,a_y,a_x\na,1,2,3\n", 1),
        ("cloud,sex\na,f\n", 1),
        ("cloud,a_x,a_y\na,1,2\na,1,2\n", 3),
        ("cloud,a_x,a_y\na,1,2\n,1,2\n", 3),
        ("cloud,a_x,a_y\na,1,\n", 2),
        ("cloud,a_x,a_y\na,1\n", 2),
    ],
)
def test_wide_csv_errors_are_on_their_line(text, line):
    assert error(wide_csv, text).line == line


# -- fuzzing --

TOKENS = [
    "",
    "0",
    "-1",
    "NaN",
    "1e999",
    "e5",
    "1_0",
    "999999999999",
    "9" * 400,
    "NA",
    "null",
    "LM=",
    "POINTS=2",
    "DIM=3",
]
TOKENS += ["[names]", *"\n\r\",;=[]{}'#L", "\x00", "\ud800", "\u2028", "\\u0000"]


def mutated(text, rng):
    """A text with one to four random changes, mostly one, because most readers refuse more."""
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        a, b = sorted(rng.randint(0, len(text)) for _ in range(2))
        kind = rng.randrange(7)
        if kind == 0 and a < len(text):  # another byte
            flipped = bytes(text[a], "utf-8", "surrogatepass")[0] ^ (1 << rng.randrange(8))
            text = text[:a] + chr(flipped) + text[a + 1 :]
        elif kind == 1:
            text = text[:a] + text[min(b, a + rng.randint(1, 20)) :]
        elif kind == 2:
            text = text[:b] + text[a : min(b, a + 200)] + text[b:]
        elif kind == 3 and rng.random() < 0.3:
            text = text[:a]
        elif kind == 4:
            text = text[:a] + rng.choice(TOKENS) + text[a:]
        elif kind == 5:
            lines = text.split("\n")
            i = rng.randrange(len(lines))
            lines[i : i + 1] = rng.choice([[], [lines[i]] * 2, [rng.choice(lines)]])
            text = "\n".join(lines)
        else:
            words = text.split(" ")
            words[rng.randrange(len(words))] = rng.choice(TOKENS)
            text = " ".join(words)
    return text


def seeds(module):
    """Valid texts of a format, which are then mutated."""
    rng = np.random.default_rng(7)
    texts = [text.format(3) for text, _ in [ONE_POINT[module]]] if module in ONE_POINT else []
    for d in (3,) if module in THREE_D else (2, 3):
        n, k = (1 if module in ONE_CLOUD else 3), 4
        points = rng.standard_normal((n, k, d)) * 50
        if module not in (morphologika, fcsv):
            points[0, 1] = np.nan
        labels = numbered_labels(k) if module in (tps, morphologika) else ("nose", "l-ear", "頭", "lm4")
        specimens = tuple(LabelledCloud(f"ape{i}", one, labels) for i, one in enumerate(points))
        texts.append(module.render(LandmarkFile(specimens, labelled=True)))
    return texts + EXAMPLES.get(module, []) + real(module)


def real(module):
    if module is not mrk_json:
        return []
    return [
        one.read_text(encoding="utf-8") for one in sorted((SHARED / "data/landmarks/apes").glob("*.mrk.json"))[::10]
    ]


EXAMPLES = {
    tps: ["LM=1\n1 2\nCURVES=2\nPOINTS=2\n3 4\n5 6\nPOINTS=1\n7 8\nIMAGE=a.jpg\nID=a\nSCALE=2\nLM=1\nNA NA\nSCALE=\n"],
    nts: ["'c\n1 2L 6L 1 9999 DIM=3\nant bee\n1x 1y 1z 2x 2y 2z\n1 2 3 9999 9999 9999\n4 5\n6\n7 8 9\n",
          "1 2L 2 0 DIM=2\na b\n1 2\n3 4\n"],
    morphologika: [MORPHOLOGIKA],
    fcsv: [fcsv_text("0", ROW.format("1", '"a, b"', ",2,0") + ROW.format("2", "c", ",0,0")), "nose,1,2,3,1,1\n"],
    wide_csv: ["cloud,p_x,p_y,p_weight\na,1,2,1\nb,,,\n"],
    csv_file: [
        "cloud,landmark,x,y,weight\na,p,1,2,1\na,q,,,\nb,p,1,2,0.5\n",
        "cloud,landmark,x,y,weight\na,p,1,2,1\na,q,,,\n",
        "cloud,p_x,p_y\na,1,2\nb,,\n",
    ],
}  # fmt: skip


@every_reader
def test_damaged_files_are_valid_or_refused(module):
    rng = random.Random(f"{name_of(module)} {FUZZ}")
    texts, refused, positions = seeds(module), 0, []
    for text in texts:
        assert_valid(module.parse(text, "file", OPTIONS))
    for _ in range(FUZZ):
        text = mutated(rng.choice(texts), rng)
        options = ReadOptions("skull", rng.choice([None, 9999.0, 0.0]), rng.random() < 0.5, rng.random() < 0.5)
        try:
            assert_valid(module.parse(text, "file", options))
        except FormatError as caught:
            refused += 1
            positions.append((caught.line, text.count("\n") + text.count("\r") + 1))
    assert all(line is not None and 0 <= line <= last for line, last in positions)
    assert 0 < refused < FUZZ  # both must happen, otherwise the mutations test nothing

"""Files of landmarks come back as they were written, and what is no such file ends in a FormatError, nothing else."""

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

from kernelgpa.errors import FormatError
from kernelgpa.io import csvfile, csvlong, csvwide, fcsv, morphologika, mrkjson, nts, pts, tps
from kernelgpa.io.base import Contents, Reading, Specimen, counted
from shared_data import SHARED

FUZZ = int(os.environ.get("KERNELGPA_FUZZ", "200"))  # inputs a reader
FORMATS = [tps, nts, morphologika, fcsv, mrkjson, pts, csvlong, csvwide, csvfile]
READING = Reading(name="skull")


def name_of(module):
    return module.__name__.rpartition(".")[2]


every_format = pytest.mark.parametrize("module", FORMATS, ids=name_of)
labelling = pytest.mark.parametrize("module", [nts, fcsv, mrkjson, pts, csvlong, csvwide, csvfile], ids=name_of)
THREE_D = (fcsv, mrkjson, pts)  # formats of three dimensions only
ONE_CLOUD = (fcsv, pts)  # named after the file
WEIGHTED = (csvlong, csvwide, csvfile)

HARD = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
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
    """Clouds of the same landmarks; counted ones unless ``labels`` says how to draw their names."""
    n, k, d = draw(st.integers(1, clouds)), draw(st.integers(1, 5)), draw(st.sampled_from(dimensions))
    called = draw(st.lists(names, min_size=n, max_size=n, unique=True))
    marks = counted(k) if labels is None else tuple(draw(st.lists(labels, min_size=k, max_size=k, unique=True)))
    specimens = []
    for one in called:
        points = np.array(draw(st.lists(NUMBERS, min_size=k * d, max_size=k * d))).reshape(k, d)
        if missing:
            points[draw(st.lists(st.booleans(), min_size=k, max_size=k))] = np.nan
        heavy = np.array(draw(st.lists(st.floats(0, 1e9), min_size=k, max_size=k))) if weights else None
        specimens.append(Specimen(one, points, marks, heavy))
    return Contents(tuple(specimens), labelled=labels is not None)


def drawn_for(module, **kind):
    if module in THREE_D:
        kind["dimensions"] = (3,)
    if module in ONE_CLOUD:
        kind["clouds"] = 1
    if module in (morphologika, fcsv):
        kind["missing"] = False
    return contents(**kind)


def read(module, text, **reading):
    return module.parse(text, "file", Reading(**{"name": "skull", **reading}))


def error(module, text, **reading):
    with pytest.raises(FormatError) as caught:
        read(module, text, **reading)
    return caught.value


def read_back(module, given):
    named = given.specimens[0].name  # of one cloud, for formats in which the file names it
    return module.parse(module.render(given), "file", Reading(name=named))


def assert_same(found, given):
    assert [one.name for one in found.specimens] == [one.name for one in given.specimens]
    for a, b in zip(found.specimens, given.specimens, strict=True):
        assert a.labels == b.labels
        assert_array_equal(a.points, b.points)
        assert (a.weights is None) == (b.weights is None)
        if a.weights is not None:
            assert_array_equal(a.weights, b.weights)


def assert_sound(found):
    assert found.specimens
    names = [one.name for one in found.specimens]
    assert len(set(names)) == len(names)
    for one in found.specimens:
        assert one.points.shape == (len(one.labels), found.specimens[0].points.shape[1])
        unseen = np.isnan(one.points)
        assert_array_equal(unseen.any(axis=1), unseen.all(axis=1))
        assert not np.isinf(one.points).any()
        assert len(set(one.labels)) == len(one.labels)
        assert all(one.labels)
        assert one.weights is None or (one.weights.shape == one.points.shape[:1] and np.isfinite(one.weights).all())


def example(**changes):
    points = np.array([[1.5, -2.0, 3.0], [4.0, 5.0, 0.1]])
    return replace(Contents((Specimen("a", points, ("1", "2")),), labelled=False), **changes)


# -- what is written comes back --


@every_format
@given(data=st.data())
def test_what_is_written_is_read_back(module, data):
    given = data.draw(drawn_for(module))
    if module is nts:
        assume(len(given.specimens) == 1 or len(given.specimens[0].labels) > 1)
    if module is pts:
        assume(not (given.specimens[0].points == 9999).all(axis=1).any())
    assert_same(read_back(module, given), given)


@labelling
@given(data=st.data())
def test_labels_are_read_back(module, data):
    given = data.draw(drawn_for(module, labels=WORDS))
    if module is nts:
        assume(len(given.specimens) == 1 or len(given.specimens[0].labels) > 1)
    found = read_back(module, given)
    assert_same(found, given)
    assert found.labelled


@every_format
@given(data=st.data())
def test_a_hard_name_is_read_back_or_refused(module, data):
    hard = AWKWARD | HARD
    given = data.draw(drawn_for(module, names=hard, labels=hard if module not in (tps, morphologika) else None))
    try:
        text = module.render(given)
    except FormatError:
        return
    assert_same(module.parse(text, "file", Reading(name=given.specimens[0].name)), given)


@given(given=contents(names=AWKWARD | HARD, labels=AWKWARD | HARD, weights=True))
def test_long_csv_holds_every_name_and_weight(given):
    assert_same(read_back(csvlong, given), given)


@pytest.mark.parametrize("module", WEIGHTED, ids=name_of)
@given(data=st.data())
def test_weights_are_read_back(module, data):
    given = data.draw(contents(labels=WORDS, weights=True))
    assert_same(read_back(module, given), given)


@pytest.mark.parametrize("module", [mrkjson, fcsv], ids=name_of)
@given(label=AWKWARD)
def test_slicer_labels_may_have_commas_and_quotes(module, label):
    if module is fcsv:
        assume("\n" not in label)
    given = example(specimens=(Specimen("a", np.ones((1, 3)), (label,)),), labelled=True)
    assert_same(read_back(module, given), given)


def test_clouds_of_different_landmarks_fit_into_long_csv_and_tps():
    a, b = Specimen("a", np.ones((2, 2)), ("p", "q")), Specimen("b", np.zeros((3, 2)), ("q", "r", "p"))
    given = Contents((a, b), labelled=True)
    assert_same(read_back(csvlong, given), given)
    assert_same(read_back(tps, given.unlabelled()), given.unlabelled())
    for module in (csvwide, nts):
        with pytest.raises(FormatError, match="different landmarks"):
            module.render(given)


# -- what a format cannot hold is refused with a remedy --


@pytest.mark.parametrize("module", [tps, morphologika], ids=name_of)
def test_labels_are_dropped_on_purpose_only(module):
    given = example(specimens=(Specimen("a", np.ones((2, 3)), ("nose", "ear")),), labelled=True)
    with pytest.raises(FormatError, match="holds no landmark labels"):
        module.render(given)
    assert_same(read_back(module, given.unlabelled()), given.unlabelled())


@every_format
def test_weights_are_kept_or_refused(module):
    one = replace(example().specimens[0], weights=np.array([1.0, 0.5]))
    given = example(specimens=(one,))
    if module in WEIGHTED:
        assert_same(read_back(module, given), given)
    else:
        with pytest.raises(FormatError, match="cannot hold weights"):
            module.render(given)


@pytest.mark.parametrize("module", [morphologika, fcsv], ids=name_of)
def test_unseen_points_are_refused_where_there_is_no_sign(module):
    with pytest.raises(FormatError, match="landmark '2' was not seen"):
        module.render(example(specimens=(Specimen("a", np.array([[1.0, 2, 3], [np.nan] * 3]), ("1", "2")),)))


@pytest.mark.parametrize("module", THREE_D, ids=name_of)
def test_flat_points_are_refused_where_space_is_meant(module):
    with pytest.raises(FormatError, match="three dimensions"):
        module.render(example(specimens=(Specimen("a", np.ones((2, 2)), ("1", "2")),)))


@pytest.mark.parametrize("module", ONE_CLOUD, ids=name_of)
def test_several_clouds_are_refused_where_a_file_is_one(module):
    one = example().specimens[0]
    with pytest.raises(FormatError, match="one cloud a file"):
        module.render(example(specimens=(one, replace(one, name="b"))))


@every_format
@pytest.mark.parametrize(
    "given",
    [
        example(specimens=()),
        example(faces=np.zeros((1, 3), dtype=np.intp)),
        example(specimens=(Specimen("a", np.array([[1.0, np.nan, 2.0]]), ("1",)),)),
        example(specimens=(Specimen("a", np.array([[1.0, np.inf, 2.0]]), ("1",)),)),
        example(specimens=(Specimen("a", np.ones((2, 3)), ("1",)),)),
        example(specimens=(Specimen("a", np.ones((2, 3)), ("1", "1")),)),
        example(specimens=(Specimen("a", np.ones((1, 3)), ("\ud800",)),)),
        example(specimens=(Specimen("", np.ones((1, 3)), ("1",)),)),
        example(specimens=(Specimen("a", np.ones((0, 3)), ()),)),
        example(specimens=(Specimen("a", np.ones((1, 3)), ("1",)), Specimen("a", np.ones((1, 3)), ("1",)))),
    ],
)
def test_unsound_contents_are_written_by_none(module, given):
    with pytest.raises(FormatError):
        module.render(given)


# -- numbers --

BAD_NUMBERS = ["NaN", "nan", "inf", "-Infinity", "1_000", "1e999", "1e-999", "0x10", "١٢", "1,5", "--1", "1d3", ""]
ONE_POINT = {
    tps: ("LM3=1\n1 2 {}\nID=a\n", 2),
    nts: ("1 1L 6 0 DIM=3\na\n1 2 3 4 5 {}\n", 3),
    morphologika: ("[individuals]\n1\n[landmarks]\n1\n[dimensions]\n3\n[rawpoints]\n'#a\n1 2 {}\n", 9),
    fcsv: ("# Markups fiducial file version = 4.11\n# CoordinateSystem = LPS\n\n1,1,2,{},0,0,0,1,1,1,0,F-1,,\n", 4),
    mrkjson: ('{{"markups": [\n{{"controlPoints": [\n{{"label": "a", "position": [1,\n2,\n{}]}}]}}]}}', 5),
    pts: ("Version 1.0\n1\nS000 1 2 {}\n", 3),
    csvlong: ("cloud,landmark,x,y,z\na,1,1,2,3\na,2,1,2,{}\n", 3),
    csvwide: ("cloud,p_x,p_y,p_z\na,1,2,3\nb,1,2,{}\n", 3),
}


@pytest.mark.parametrize("number", BAD_NUMBERS)
@pytest.mark.parametrize("module", ONE_POINT, ids=name_of)
def test_what_is_no_double_is_refused_on_its_line(module, number):
    text, line = ONE_POINT[module]
    caught = error(module, text.format(number))
    # JSON that is none ends where the decoder first notices; a morphologika row of two numbers is no row
    assert caught.line == line or (module is mrkjson and caught.line <= line + 1)
    assert str(line) in str(caught) or module is mrkjson


@pytest.mark.parametrize("number", ["1", "-0.0", "+1.5", "1e-5", ".5", "5.", "1E+22", "4.9e-324", "0e999", "9999"])
@pytest.mark.parametrize("module", [one for one in ONE_POINT if one is not mrkjson], ids=name_of)
def test_numbers_are_read_as_they_are(module, number):
    assert read(module, ONE_POINT[module][0].format(number)).specimens[-1].points[-1, -1] == float(number)


# -- TPS --


def test_tps_blocks_and_their_facts():
    text = (
        "\ufeffLM=2\r\n1 2\r\n-3 -4\r\nIMAGE=C:\\pics\\bird.one.jpg\r\nSCALE=0.5\r\n\r\n"
        "lm=2\r\nNA NA\r\n5\t6\r\nimage=fish.jpg\r\nId=7\r\nscale=\r\nComment=wet = cold\r\n"
        "LM=2\r\n1 1\r\n2 2\r\n"
    )
    found = read(tps, text)
    assert [one.name for one in found.specimens] == ["bird.one", "7", "skull_3"]
    assert_array_equal(found.specimens[0].points, [[0.5, 1], [-1.5, -2]])  # negative is a place like any other
    assert_array_equal(found.specimens[1].points, [[np.nan, np.nan], [5, 6]])  # an empty SCALE is none
    assert_array_equal(found.specimens[2].points, [[1, 1], [2, 2]])
    assert not found.labelled
    assert found.notes == (
        "coordinates multiplied by SCALE",
        "2 of 3 blocks have no SCALE: their unit is that of the file",
        "COMMENT left out",
    )


def test_tps_negative_points_are_unseen_only_on_demand_and_only_whole():
    text = "LM=3\n-1 -1\n-1 4\n0 -1\nSCALE=2\n"
    assert_array_equal(read(tps, text).specimens[0].points[0], [-2, -2])
    found = read(tps, text, negative_is_missing=True)
    assert_array_equal(found.specimens[0].points, [[np.nan, np.nan], [-2, 8], [0, -2]])
    assert "points not seen because all coordinates are negative: 1" in found.notes


def test_tps_three_dimensions_are_not_lost_beside_two():
    assert read(tps, "LM3=1\n1 2 3\n").specimens[0].points.shape == (1, 3)
    caught = error(tps, "LM=1\n1 2\nID=a\nLM3=1\n1 2 3\nID=b\n")
    assert caught.line == 4
    assert "LM3" in str(caught)


def test_tps_ids_are_whole_words():
    text = "".join(f"LM=1\n{i} 0\nID={i}\n" for i in (1, 10, 11, 101))
    assert [(one.name, one.points[0, 0]) for one in read(tps, text).specimens] == [
        ("1", 1), ("10", 10), ("11", 11), ("101", 101),
    ]  # fmt: skip


def test_tps_curves_are_read_on_demand():
    text = "LM=1\n1 2\nCURVES=2\nPOINTS=2\n3 4\n5 6\nPOINTS=1\n7 8\nOUTLINES=1\nPOINTS=1\n9 9\nID=a\nSCALE=2\n"
    plain = read(tps, text)
    assert plain.specimens[0].labels == ("1",)
    assert "3 curves with 4 points left out; read them with curves=True" in plain.notes
    whole = read(tps, text, curves=True)
    assert whole.specimens[0].labels == ("1", "curve1_1", "curve1_2", "curve2_1", "outline1_1")
    assert_array_equal(whole.specimens[0].points, [[2, 4], [6, 8], [10, 12], [14, 16], [18, 18]])
    assert whole.labelled


def test_tps_curves_without_landmarks():
    assert read(tps, "LM=0\nCURVES=1\nPOINTS=1\n3 4\nID=a\n", curves=True).specimens[0].labels == ("curve1_1",)


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


def test_nts_a_row_a_specimen():
    text = "'made by hand\n\"and again\n1 2L 6L 1 9999 DIM=3\nant\nbee\nhead_x head_y head_z 2x 2y 2z\n"
    text += "1 2 3 9999 9999 9999\n4 5\n6\n7 8 -9999\n"
    found = read(nts, text, missing=4)
    assert [one.name for one in found.specimens] == ["ant", "bee"]
    assert found.specimens[0].labels == ("head", "2")
    assert found.labelled
    assert_array_equal(found.specimens[0].points, [[1, 2, 3], [np.nan] * 3])
    assert_array_equal(found.specimens[1].points, [[4, 5, 6], [7, 8, -9999]])


def test_nts_as_many_columns_as_dimensions_is_one_specimen():
    found = read(nts, "1 3L 2 0 dim=2\na b c\n1 2\n3 4\n5 6\n")
    assert len(found.specimens) == 1
    assert found.specimens[0].name == "skull"
    assert found.specimens[0].labels == ("a", "b", "c")
    assert_array_equal(found.specimens[0].points, [[1, 2], [3, 4], [5, 6]])


def test_nts_only_the_code_is_missing():
    found = read(nts, "1 1 4 1 -999 DIM=2\n-999 -999 9999 -1\n")
    assert_array_equal(found.specimens[0].points, [[np.nan, np.nan], [9999, -1]])
    assert found.specimens[0].name == "skull_1"
    plain = "1 1 4 0 DIM=2\n9999 9999 9999 -1\n"
    assert_array_equal(read(nts, plain).specimens[0].points, [[9999, 9999], [9999, -1]])
    told = read(nts, plain, missing=9999)
    assert_array_equal(told.specimens[0].points, [[np.nan, np.nan], [9999, -1]])
    assert told.notes == ("points not seen because all coordinates are 9999.0: 1",)


def test_nts_na_is_missing_as_geomorph_writes_it():
    assert_array_equal(read(nts, "1 1 4 0 DIM=2\nNA NA 1 2\n").specimens[0].points, [[np.nan, np.nan], [1, 2]])


def test_nts_column_labels_of_another_kind_are_noted():
    found = read(nts, "1 1 4L 0 DIM=2\nx1 y1 x2 y2\n1 2 3 4\n")
    assert found.specimens[0].labels == ("1", "2")
    assert not found.labelled
    assert "'x1'" in found.notes[0]
    assert read(nts, "1 1 4L 0 DIM=2\nx y x y\n1 2 3 4\n").notes


def test_nts_a_coordinate_of_9999_is_not_written_as_missing():
    points = np.array([[9999.0, 1, 2], [np.nan] * 3])
    given = example(specimens=(Specimen("a", points, ("1", "2")),))
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


def test_morphologika_sections_come_in_any_order_and_with_any_ends_of_lines():
    found = read(morphologika, MORPHOLOGIKA)
    assert [one.name for one in found.specimens] == ["old ape", "young ape"]
    assert_array_equal(found.specimens[1].points, [[0, 0], [0, 8]])
    assert found.notes == ("[wireframe] left out",)
    assert not found.labelled


def test_morphologika_has_the_missing_number_it_is_told():
    found = read(morphologika, MORPHOLOGIKA, missing=0)
    assert_array_equal(found.specimens[1].points, [[np.nan, np.nan], [0, 8]])


def test_morphologika_takes_names_from_titles_and_counts_where_there_are_none():
    text = "[individuals]\n2\n[landmarks]\n1\n[dimensions]\n2\n[rawpoints]\n{}1 2\n{}3 4\n"
    assert [one.name for one in read(morphologika, text.format("'#a b\n", "'#c\n")).specimens] == ["a b", "c"]
    assert [one.name for one in read(morphologika, text.format("", "")).specimens] == ["skull_1", "skull_2"]


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
    assert_array_equal(found.specimens[0].points, [[sign, 2 * sign, 3]])
    assert found.frame == "LPS"
    assert found.notes == (("RAS converted to LPS",) if sign < 0 else ())
    assert found.specimens[0].name == "skull"


def test_fcsv_of_slicer_3():
    text = "# Fiducial List file /a/b.fcsv\n# version = 2\n# name = L\n# numPoints = 2\nnose,1,2,3,1,1\near,4,5,6,1,1\n"
    found = read(fcsv, text)
    assert found.specimens[0].labels == ("nose", "ear")
    assert_array_equal(found.specimens[0].points, [[-1, -2, 3], [-4, -5, 6]])
    assert error(fcsv, text.replace("= 2\nnose", "= 3\nnose")).line == 4
    assert read(fcsv, "nose,1,2,3,1,1\n").specimens[0].labels == ("nose",)


def test_fcsv_labels_with_commas_and_quotes():
    found = read(fcsv, fcsv_text("LPS", ROW.format("1", '"a, ""b"""', "") + ROW.format("2", 'x"y', "")))
    assert found.specimens[0].labels == ('a, "b"', 'x"y')


def test_fcsv_status_of_slicer_5():
    rows = ROW.format("1", "a", ",2,0") + ROW.format("2", "b", ",0,0") + ROW.format("3", "c", ",3,0")
    assert_array_equal(np.isnan(read(fcsv, fcsv_text("LPS", rows)).specimens[0].points[:, 0]), [False, True, True])


def test_fcsv_empty_labels_are_counted():
    found = read(fcsv, fcsv_text("LPS", ROW.format("1", "", "") + ROW.format("2", "b", "")))
    assert found.specimens[0].labels == ("1", "2")
    assert not found.labelled
    assert found.notes == ("1 of 2 landmarks have no label, so all are counted",)


def test_fcsv_missing_number_is_meant_in_the_frame_of_the_file():
    found = read(fcsv, fcsv_text("0", ROW.format("1", "a", "").replace("1,2,3", "9,9,9")), missing=9)
    assert np.isnan(found.specimens[0].points).all()


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
    found = read(mrkjson, mrk(markups(*points)))
    assert_array_equal(np.isfinite(found.specimens[0].points[:, 0]), [True, False, False, False, True, False, False])
    assert found.frame == "LPS"
    assert found.unit is None


@pytest.mark.parametrize(("frame", "sign"), [("RAS", -1), ("0", -1), (0, -1), ("LPS", 1), ("1", 1), (None, 1)])
def test_mrkjson_frames(frame, sign):
    facts = {} if frame is None else {"coordinateSystem": frame}
    found = read(mrkjson, mrk(markups(control(), **facts)))
    assert_array_equal(found.specimens[0].points, [[sign, 2 * sign, 3]])
    assert found.notes == (("RAS converted to LPS",) if sign < 0 else ())


def test_mrkjson_several_markups_are_several_specimens():
    found = read(mrkjson, mrk(markups(control()), markups(control()), markups(control(), name="頭")))
    assert [one.name for one in found.specimens] == ["skull", "skull_2", "頭"]


def test_mrkjson_units():
    for unit in ("mm", ["mm", "UCUM", "millimeter"]):
        assert read(mrkjson, mrk(markups(control(), coordinateUnits=unit))).unit == "mm"
    assert "several units" in str(
        error(mrkjson, mrk(markups(control(), coordinateUnits="mm"), markups(control(), coordinateUnits="um")))
    )
    assert read_back(mrkjson, example(unit="um")).unit == "um"


def test_mrkjson_says_what_it_leaves_out():
    curve = {**markups(control(description="by eye"), control("")), "type": "Curve"}
    found = read(mrkjson, mrk(curve))
    assert found.specimens[0].labels == ("1", "2")
    assert found.notes == (
        "1 of 2 landmarks have no label, so all are counted",
        "1 descriptions left out",
        "the control points of a 'Curve' are read as landmarks",
    )


def test_mrkjson_is_written_as_slicer_reads_it():
    points = np.array([[1.5, -2.0, 3.0], [np.nan] * 3])
    written = json.loads(mrkjson.render(example(specimens=(Specimen("a", points, ("1", "2")),))))
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
    assert error(mrkjson, text).line == line


def test_real_markups_are_read():
    files = sorted((SHARED / "data" / "landmarks" / "apes").glob("*.mrk.json"))
    if not files:
        pytest.skip("the apes are not beside this checkout")
    for file in files:
        text = file.read_text(encoding="utf-8")
        found = read(mrkjson, text)
        expected = [one["position"] for one in json.loads(text)["markups"][0]["controlPoints"]]
        assert_array_equal(found.specimens[0].points, expected)
        assert found.labelled
        assert found.unit == "mm"


# -- IDAV .pts --


def test_pts_points_of_9999_are_unseen_only_whole():
    found = read(pts, "Version 1.0\r\n3\r\nS000 1 2 3\r\nS001 9999 9999 9999\r\nC000 9999 0 0\r\n\r\n")
    assert found.specimens[0].labels == ("S000", "S001", "C000")
    assert_array_equal(found.specimens[0].points, [[1, 2, 3], [np.nan] * 3, [9999, 0, 0]])


def test_pts_of_ibug_is_told_apart():
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
    for module in (csvlong, csvfile):
        found = read(module, text)
        assert [one.name for one in found.specimens] == ["a", "b"]
        assert_array_equal(found.specimens[0].points, [[1, 2], [np.nan, np.nan]])
        assert_array_equal(found.specimens[0].weights, [0.5, 0])
        assert found.specimens[1].labels == ("ear",)
        assert found.notes == ("column 'sex' left out",)


def test_wide_csv_with_dots_and_underscores():
    for first in ("cloud", "Name", "ID", ""):
        text = f'{first},l_1_x,l_1_y,"a,b.x","a,b.y",sex\none,1,2,,,f\ntwo,3,4,5,6,m\n'
        for module in (csvwide, csvfile):
            found = read(module, text)
            assert found.specimens[0].labels == ("l_1", "a,b")
            assert_array_equal(found.specimens[0].points, [[1, 2], [np.nan, np.nan]])
            assert found.notes == ("column 'sex' left out",)


def test_a_number_asked_to_be_missing_is_noted_where_a_format_has_its_own_sign():
    found = read(csvlong, "cloud,landmark,x,y\na,p,-9,-9\na,q,-9,1\n", missing=-9)
    assert_array_equal(found.specimens[0].points, [[-9, -9], [-9, 1]])
    assert found.notes == (
        "points kept although all coordinates are -9.0: 1; here empty fields are the sign of unseen points",
    )


@pytest.mark.parametrize("module", [csvlong, csvwide, csvfile], ids=name_of)
def test_semicolons_and_decimal_commas_are_told(module):
    caught = error(module, "cloud;landmark;x;y\na;p;1,5;2,5\n")
    assert caught.line == 1
    assert "semicolons" in str(caught)
    assert "decimal point" in str(caught)


def test_csv_decimal_commas_are_told():
    assert "decimal point" in str(error(csvlong, "cloud,landmark,x,y\na,p,1,5,2,5\n"))
    assert "decimal point" in str(error(csvlong, 'cloud,landmark,x,y\na,p,"1,5",2\n'))


def test_long_csv_names_the_column_that_is_missing_and_those_found():
    caught = error(csvfile, "cloud,point,x,y\na,p,1,2\n")
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
    assert error(csvlong, text).line == line


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
    assert error(csvwide, text).line == line


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
    """A text with one to four wounds, mostly one, since most readers refuse what has more."""
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
    """Sound texts of a format, from which mutations begin."""
    rng = np.random.default_rng(7)
    texts = [text.format(3) for text, _ in [ONE_POINT[module]]] if module in ONE_POINT else []
    for d in (3,) if module in THREE_D else (2, 3):
        n, k = (1 if module in ONE_CLOUD else 3), 4
        points = rng.standard_normal((n, k, d)) * 50
        if module not in (morphologika, fcsv):
            points[0, 1] = np.nan
        labels = counted(k) if module in (tps, morphologika) else ("nose", "l-ear", "頭", "lm4")
        specimens = tuple(Specimen(f"ape{i}", one, labels) for i, one in enumerate(points))
        texts.append(module.render(Contents(specimens, labelled=True)))
    return texts + EXAMPLES.get(module, []) + real(module)


def real(module):
    if module is not mrkjson:
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
    csvlong: ["cloud,landmark,x,y,weight\na,p,1,2,1\na,q,,,\nb,p,1,2,0.5\n"],
    csvwide: ["cloud,p_x,p_y,p_weight\na,1,2,1\nb,,,\n"],
    csvfile: ["cloud,landmark,x,y,weight\na,p,1,2,1\na,q,,,\n", "cloud,p_x,p_y\na,1,2\nb,,\n"],
}  # fmt: skip


@every_format
def test_wounded_files_are_read_soundly_or_refused(module):
    rng = random.Random(f"{name_of(module)} {FUZZ}")
    texts, refused, places = seeds(module), 0, []
    for text in texts:
        assert_sound(module.parse(text, "file", READING))
    for _ in range(FUZZ):
        text = mutated(rng.choice(texts), rng)
        reading = Reading("skull", rng.choice([None, 9999.0, 0.0]), rng.random() < 0.5, rng.random() < 0.5)
        try:
            assert_sound(module.parse(text, "file", reading))
        except FormatError as caught:
            refused += 1
            places.append((caught.line, text.count("\n") + text.count("\r") + 1))
    assert all(line is not None and 0 <= line <= last for line, last in places)
    assert 0 < refused < FUZZ  # both happen, or the wounds are too deep or too shallow to say anything

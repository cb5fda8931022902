"""The formats of morphometrics: TPS, NTS, Morphologika and IDAV .pts, with every error on its line."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from kernelgpa.io import morphologika, nts, pts, tps
from kernelgpa.io.landmark_file import LabelledCloud
from landmark_files import MORPHOLOGIKA, assert_same, error, example, read, read_back

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


def test_morphologika_sections_may_have_any_order_and_any_line_ends():
    found = read(morphologika, MORPHOLOGIKA)
    assert [one.name for one in found.clouds] == ["old ape", "young ape"]
    assert_array_equal(found.clouds[1].points, [[0, 0], [0, 8]])
    assert found.notes == ("[wireframe] ignored",)
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

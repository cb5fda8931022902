"""Long and wide CSV tables, with every error on its line."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from kernelgpa.io import csv_file
from landmark_files import error, name_of, read, wide_csv


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


def test_rows_of_empty_fields_are_skipped():
    """A spreadsheet writes them below a table in which rows were deleted."""
    found = read(csv_file, "cloud,landmark,x,y\n,,,\na,p,1,2\na,q,3,4\n,, ,\n,,,\n")
    assert [(one.name, one.labels) for one in found.clouds] == [("a", ("p", "q"))]


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
    caught = error(csv_file, "cloud,mark,x,y\na,p,1,2\n")
    assert "'landmark'" in str(caught)
    assert "'mark'" in str(caught)


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

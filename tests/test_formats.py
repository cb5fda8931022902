"""Files of landmarks are read back as they were written, and every other input ends in a FormatError."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kernelgpa.errors import FormatError
from kernelgpa.io import csv_file, fcsv, morphologika, mrk_json, nts, pts, tps
from kernelgpa.io.landmark_file import LabelledCloud, LandmarkFile, ReadOptions
from landmark_files import (
    AWKWARD,
    ONE_CLOUD,
    ONE_POINT,
    THREE_D,
    UNUSUAL,
    WEIGHTED,
    WORDS,
    assert_same,
    contents,
    drawn_for,
    error,
    every_format,
    every_reader,
    example,
    name_of,
    read,
    read_back,
    wide_csv,
)

labelling = pytest.mark.parametrize("module", [nts, fcsv, mrk_json, pts, csv_file, wide_csv], ids=name_of)


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

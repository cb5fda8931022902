"""A code of missing points counts in every format, and is compared with what the file reads."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from kernelgpa.errors import InvalidSetting
from kernelgpa.io import mrk_json, tps
from kernelgpa.io.landmark_file import LabelledCloud, LandmarkFile, ReadOptions, numbered_labels
from landmark_files import every_reader, read
from test_slicer_formats import control, markups, mrk


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

"""The formats of landmark files, clouds and small examples for each, and how files are read and compared."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from kernelgpa.errors import FormatError
from kernelgpa.io import csv_file, fcsv, morphologika, mrk_json, nts, pts, tps
from kernelgpa.io.landmark_file import LabelledCloud, LandmarkFile, ReadOptions, numbered_labels


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


def name_of(module):
    return module.__name__.rpartition(".")[2]


every_format = pytest.mark.parametrize("module", FORMATS, ids=name_of)
every_reader = pytest.mark.parametrize("module", [*FORMATS, wide_csv], ids=name_of)
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


MORPHOLOGIKA = (
    "[Rawpoints]\r\n'#1\r\n1 2\r\n3 4\r\n\r\n'#2\r\n0 0\r\n0 8\r\n[names]\r\nold ape\r\nyoung ape\r\n"
    "[wireframe]\r\n1 2\r\n[dimensions]\r\n2\r\n[landmarks]\r\n2\r\n[individuals]\r\n2\r\n[groups]\r\n"
)


FCSV = "# Markups fiducial file version = {}\n# CoordinateSystem = {}\n# columns = {}\n{}"
ROW = '{},1,2,3,0,0,0,1,1,1,0,{},,vtkMRMLModelNode1{}\n'  # fmt: skip


def fcsv_text(frame, rows, version="4.11"):
    return FCSV.format(version, frame, fcsv.SLICER4, rows)


EXAMPLES = {
    tps: ["LM=1\n1 2\nCURVES=2\nPOINTS=2\n3 4\n5 6\nPOINTS=1\n7 8\nIMAGE=a.jpg\nID=a\nSCALE=2\nLM=1\nNA NA\nSCALE=\n"],
    nts: ["'c\n1 2L 6L 1 9999 DIM=3\nant bee\n1x 1y 1z 2x 2y 2z\n1 2 3 9999 9999 9999\n4 5\n6\n7 8 9\n",
          "1 2L 2 0 DIM=2\na b\n1 2\n3 4\n"],
    morphologika: [MORPHOLOGIKA],
    fcsv: [fcsv_text("0", ROW.format("1", '"a, b"', ",2,0") + ROW.format("2", "c", ",0,0")), "nose,1,2,3,1,1\n"],
    wide_csv: [
        "cloud,p_x,p_y,p_weight\na,1,2,1\nb,,,\n",
        '"","X1","Y1","Z1","X2","Y2","Z2"\n"ann",1.5,-2,3,NA,NA,NA\n"bob",0.1,2e-3,7,1,2,3\n',  # write.csv of R
        '"1.X","1.Y","2.X","2.Y"\r\n"ann",1.5,-2,NaN,NaN\r\n"bob",0.1,2,,\r\n',  # write.table of two.d.array
        "ID,nose.X,nose.Y,ear.X,ear.Y\nann,1,2,NA,NA\nbob,3,4,5,6\n",
    ],
    csv_file: [
        "specimen,marker,x,y\nann,1,1,2\nann,2,NA,NA\nbob,1,1,2\n",
        "cloud,landmark,x,y,weight\na,p,1,2,1\na,q,,,\nb,p,1,2,0.5\n",
        "cloud,landmark,x,y,weight\na,p,1,2,1\na,q,,,\n",
        "cloud,p_x,p_y\na,1,2\nb,,\n",
    ],
}  # fmt: skip

"""The formats of 3D Slicer: .fcsv and .mrk.json, with every error on its line."""

from __future__ import annotations

import json

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from kernelgpa.io import fcsv, mrk_json
from kernelgpa.io.landmark_file import LabelledCloud
from landmark_files import FCSV, ROW, error, example, fcsv_text, read, read_back
from shared_data import SHARED


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

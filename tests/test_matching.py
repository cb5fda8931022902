"""How landmarks of different files are identified, and which files belong together."""

from __future__ import annotations

import json
import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from kernelgpa import FormatError, InvalidObservations, InvalidSetting, io
from kernelgpa.errors import KernelGPAWarning
from kernelgpa.io.landmark_file import LabelledCloud, LandmarkFile, ReadOptions
from kernelgpa.io.matching import match_clouds
from shared_data import SHARED

RNG = np.random.default_rng(3)


def cloud(name, labels, points=None):
    points = RNG.standard_normal((len(labels), 3)) if points is None else np.asarray(points, dtype=float)
    return LabelledCloud(name, points, tuple(labels))


def source(one, path=None, labelled=True):
    return path or f"{one.name}.csv", LandmarkFile((one,), labelled)


def matched(clouds, **options):
    return match_clouds([source(one) for one in clouds], options=ReadOptions(**options))


# -- rules --


@given(
    st.lists(st.sampled_from(["gor_USNM17", "USNM 99", "pan.3", "Ä7", "x_y_z", "k1", "k12"]), min_size=2, unique=True)
)
def test_labels_that_carry_the_specimens_name_match_by_what_they_share(names):
    own = [f"LM1-{i}" for i in range(1, 8)] + [f"patch-{i}" for i in range(1, 8)]
    found = matched([cloud(name, [f"{name}_{label}" for label in own]) for name in names])
    assert (found.rule, found.landmarks) == ("suffix", own)
    assert found.remedy is None


def test_labels_of_which_some_carry_the_name_all_match():
    """As in skulls with a patch that all specimens label alike, and manual landmarks that they do not."""
    names = ["USNM1747", "USNM1748", "USNM2201", "USNM2209"]
    shared = [f"P{i}" for i in range(56)]
    clouds = [cloud(name, shared + [f"{name}_LM1-{i}" for i in range(36)]) for name in names]
    found = matched(clouds)
    assert (found.rule, len(found.landmarks)) == ("suffix", 92)
    assert not np.isnan(found.points).any()
    by_label = matched(clouds, match="label")
    assert len(by_label.landmarks) == 56 + 4 * 36
    assert by_label.remedy == "144 of 200 landmarks occur in one cloud only; match=suffix leaves 0"


def test_a_landmark_of_one_cloud_keeps_its_label():
    found = matched(
        [cloud("a7", ["a7_nose", "a7_ear", "a7_eye", "mole"]), cloud("b8", ["b8_nose", "b8_ear", "b8_eye"])]
    )
    assert found.landmarks == ["nose", "ear", "eye", "mole"]


def test_shortened_labels_never_make_two_landmarks_one():
    found = matched(
        [cloud("a", ["a_left_1", "b_left_1", "nose"]), cloud("c", ["c_left_1", "d_left_1", "nose"])], match="suffix"
    )
    assert [np.isfinite(one[:, 0]).sum() for one in found.points] == [3, 3]


def test_a_rule_that_is_asked_for_is_used_or_is_an_error():
    clouds = [cloud("a", ["p1", "q2", "r3", "s4"]), cloud("b", ["s4", "q2", "r3", "p1"])]
    for rule, first in (("label", "p1"), ("suffix", "p1"), ("number", 1), ("order", 1)):
        found = matched(clouds, match=rule)
        assert (found.rule, found.landmarks[0]) == (rule, first)
        same = clouds[1].points[0 if rule == "order" else 3]
        assert_array_equal(found.points[1, 0], same)
    with pytest.raises(InvalidObservations, match="by number, because a label of 'b' has no number; omit match=number"):
        matched([clouds[0], cloud("b", ["p1", "q2", "r3", "s"])], match="number")
    with pytest.raises(InvalidObservations, match="by order, because 'b' has 3 landmarks and 'a' has 4"):
        matched([clouds[0], cloud("b", ["p1", "q2", "r3"])], match="order")
    with pytest.raises(InvalidSetting, match="expected one of label, suffix, number, order"):
        matched(clouds, match="name")


@pytest.mark.parametrize("rule", ["label", "suffix", "number", "order"])
def test_columns_say_which_landmark_each_point_is(rule):
    clouds = [cloud(name, [f"{name}_{i}" for i in order]) for name, order in (("a", (3, 1, 2)), ("b", (2, 3, 1)))]
    found = matched(clouds, match=rule)
    for one, (_, columns), points in zip(clouds, found.origins, found.points, strict=True):
        assert_array_equal(points[columns], one.points)
        assert len(set(columns.tolist())) == len(columns)


def test_labels_that_may_be_misspelt_are_named():
    usual = ["L7", "L9", "Nasion", "tip"]
    clouds = [cloud(f"c{t}", usual) for t in range(4)]
    wrong = cloud("c4", ["l7", "L09", "Nasoin", "tip"])
    note = "labels that may be misspelt: 'l7' of 'c4' for 'L7', 'L09' of 'c4' for 'L9', 'Nasoin' of 'c4' for 'Nasion'"
    assert f"{note}; correct them if these are the same landmarks" in matched([*clouds, wrong]).notes


def test_a_label_with_spaces_in_several_clouds_is_named():
    clouds = [cloud(f"c{t}", ["L7 " if t < 2 else "L7", "L9", "tip"]) for t in range(5)]
    assert any("'L7 ' of 2 clouds for 'L7'" in note for note in matched(clouds).notes)


@pytest.mark.parametrize("label", ["l7", "L8", "R7"])
def test_labels_that_are_not_misspelt_are_not_named(label):
    """A cloud that has both labels, and labels with another number or another letter."""
    other = ["tip"] if label != "l7" else ["tip", "L7"]
    found = matched([*(cloud(f"c{t}", ["L7", "L9", "tip"]) for t in range(4)), cloud("c4", [label, *other])])
    assert not any("misspelt" in note for note in found.notes)


def test_one_name_in_several_folders_is_the_path_of_the_file():
    clouds = [cloud("scan", ["a", "b"]) for _ in range(2)]
    found = match_clouds([source(clouds[0], "anna/scan.mrk.json"), source(clouds[1], "ben/scan.mrk.json")])
    assert found.names == ["anna/scan", "ben/scan"]
    assert found.notes == (
        "1 cloud name occurs in several files; the names now contain the path of the file, such as 'anna/scan'",
    )


def test_recordings_whose_labels_carry_the_subject_are_named_with_the_remedy():
    """All frames of a file agree, so that each label occurs in several clouds."""
    files = [
        (
            f"{who}.c3d",
            LandmarkFile(tuple(cloud(f"{who} {t}", [f"{who}:a", f"{who}:b", f"{who}:c"]) for t in (1, 2)), True),
        )
        for who in ("ann", "ben")
    ]
    note = "6 of 6 landmarks occur in one file only; check the labels, or give label_pattern="
    assert any(note in one for one in match_clouds(files).notes)
    shared = match_clouds(files, options=ReadOptions(label_pattern=r":(.*)"))
    assert shared.landmarks == ["a", "b", "c"]
    assert not any("in one file only" in one for one in shared.notes)


def test_a_label_pattern_says_what_the_files_share():
    clouds = [cloud(name, [f"{name}-{i}-{name[0]}{i}" for i in (3, 1, 2, 7)]) for name in ("ab", "cd", "ef")]
    assert matched(clouds, label_pattern=r"-(\d)-").landmarks == ["3", "1", "2", "7"]
    assert matched(clouds, label_pattern=r"\d$", match="number").landmarks == [1, 2, 3, 7]
    for pattern, match in (("(", "no regular expression"), ("a$", "does not match"), ("-", "in several labels")):
        with pytest.raises(InvalidSetting, match=match):
            matched(clouds, label_pattern=pattern)


def test_info_prints_what_each_rule_gives_and_the_remedy(tmp_path, monkeypatch, capsys):
    from kernelgpa.cli import main

    monkeypatch.chdir(tmp_path)
    for name, more in (("a", ["nose", "ear"]), ("b", ["eye", "lip"])):
        labels = ["1", "2", "3", "4", *more]
        io.write(f"{name}.csv", LandmarkFile((cloud(name, labels),), labelled=True))
    monkeypatch.setattr("sys.argv", ["kernelgpa", "info", "a.csv", "b.csv", "--json"])
    with pytest.raises(SystemExit):
        main()
    rules = {one["rule"]: one for one in json.loads(capsys.readouterr().out)["matching"]["rules"]}
    assert rules["label"] | {"problem": None} == {
        **{"rule": "label", "used": True, "landmarks": 8, "in_every_cloud": 4, "in_one_cloud": 4, "problem": None}
    }
    assert rules["number"]["problem"] == "a label of 'a' has no number"
    monkeypatch.setattr("sys.argv", ["kernelgpa", "info", "a.csv", "b.csv"])
    with pytest.raises(SystemExit):
        main()
    assert "4 of 8 landmarks occur in one cloud only; --match order leaves 0" in capsys.readouterr().out


# -- several files of one specimen --


def write_slicer(path, one):
    path.parent.mkdir(parents=True, exist_ok=True)
    io.write(path, LandmarkFile((one,), labelled=True, frame="LPS", unit="mm"))


def test_landmarks_and_patch_of_one_specimen_are_merged(tmp_path):
    for name in ("gor1", "gor2", "gor3"):
        write_slicer(tmp_path / f"{name}_LM.mrk.json", cloud("F", [f"LM-{i}" for i in range(5)]))
        if name != "gor3":  # a specimen may lack one
            write_slicer(tmp_path / f"{name}_patch.mrk.json", cloud("F", [f"P-{i}" for i in range(7)]))
    found = io.read_clouds([tmp_path])
    assert found.names == ["gor1", "gor2", "gor3"]
    assert found.points.shape == (3, 12, 3)
    assert "5 files are merged into 3 specimens by the beginning of their names (LM, patch)" in found.notes
    apart = io.read_clouds([tmp_path], ReadOptions(merge=False))
    assert apart.points.shape[0] == 5


def test_files_are_not_merged_if_their_labels_are_the_same(tmp_path):
    for name in ("left_1", "left_2", "right_1", "right_2"):
        write_slicer(tmp_path / f"{name}.mrk.json", cloud(name, [f"LM-{i}" for i in range(5)]))
    assert io.read_clouds([tmp_path]).names == ["left_1", "left_2", "right_1", "right_2"]
    asked = io.read_clouds([tmp_path], ReadOptions(merge=True))  # then labels say which file they are of
    assert (asked.names, asked.landmarks[0], len(asked.landmarks)) == (["left", "right"], "1:LM-0", 10)


def test_merging_that_is_asked_for_and_impossible_is_an_error():
    with pytest.raises(InvalidSetting, match="merge= finds no files of one specimen"):
        matched([cloud("a", "pqrs"), cloud("b", "pqrs")], merge=True)


# -- folders --


def test_a_folder_stands_for_its_files(tmp_path):
    names = ["Schädel 1", "Schädel 2", "crâne (b)"]
    for name in names:
        write_slicer(tmp_path / "skulls" / f"{name}.mrk.json", cloud(name, "pqrst"))
    (tmp_path / "skulls" / "notes.txt").write_text("by hand")
    (tmp_path / "skulls" / ".hidden.mrk.json").write_text("{")
    found = io.read_clouds(tmp_path / "skulls")
    assert found.names == names
    assert any("1 other file left out ('notes.txt')" in note for note in found.notes)
    write_slicer(tmp_path / "skulls" / "more" / "d.mrk.json", cloud("d", "pqrst"))
    assert len(io.read_clouds(tmp_path / "skulls").names) == 3
    assert set(io.read_clouds(tmp_path / "skulls", ReadOptions(recursive=True)).names) == {*names, "d"}


def test_folders_that_leave_a_doubt_are_an_error(tmp_path):
    with pytest.raises(FormatError, match="no landmark file"):
        io.read_clouds(tmp_path)
    (tmp_path / "inside").mkdir()
    with pytest.raises(FormatError, match="--recursive looks into its folders too"):
        io.read_clouds(tmp_path)
    write_slicer(tmp_path / "a.mrk.json", cloud("a", "pqrst"))
    io.write(tmp_path / "a.tps", LandmarkFile((cloud("a", ["1", "2", "3"]),), labelled=False))
    with pytest.raises(FormatError, match=r"mixes formats \(1 .mrk.json, 1 .tps\)"):
        io.read_clouds(tmp_path)
    (tmp_path / "model.npz").write_bytes(b"")
    with pytest.raises(FormatError, match="it is a result folder"):
        io.read_clouds(tmp_path)


def test_an_umlaut_is_one_character_however_the_system_stores_it(tmp_path):
    io.write(tmp_path / unicodedata.normalize("NFD", "Schädel.fcsv"), LandmarkFile((cloud("x", "pqrst"),), True, "LPS"))
    assert io.read_clouds(list(tmp_path.iterdir())).names == ["Schädel"]


# -- doubles and placeholders --


def test_the_same_specimen_twice_is_found_by_its_coordinates():
    a, b = cloud("ann", "pqrstu"), cloud("bob", "pqrstu")
    again = a.points.copy()
    again[2] = np.nan
    note = matched([a, b, cloud("copy of ann", "pqrstu", again)]).notes[-1]
    assert note == "the same specimen twice, by its coordinates: 'ann' and 'copy of ann'; give each once"
    fixed = [cloud(name, "pqrstu") for name in "abc"]
    for one in fixed:
        one.points[:2] = [[0, 0, 0], [1, 0, 0]]  # a baseline that all specimens share is no double
    assert matched(fixed).notes == ()


@pytest.mark.parametrize("code", [(1998.0, 1998.0, -1998.0), (-999.0, -999.0, -999.0)])
def test_a_placeholder_is_named_with_the_option_that_removes_it(tmp_path, code):
    for name in "abcdef":
        points = 10 * RNG.standard_normal((12, 3))
        points[4 if name in "ace" else 7] = code if name in "acd" else points[4 if name in "ace" else 7]
        write_slicer(tmp_path / f"{name}.mrk.json", cloud(name, [f"LM{i}" for i in range(12)], points))
    found = io.read_clouds(tmp_path)
    text = ",".join(f"{x:g}" for x in code)
    assert any(f"3 points lie far away at exactly {text}" in note and f"missing={text}" in note for note in found.notes)
    cured = io.read_clouds(tmp_path, ReadOptions(missing=code))
    assert np.isnan(cured.points[..., 0]).sum() == 3
    assert any(f"all coordinates are {text}: 1" in note for note in cured.notes)


def test_a_code_that_is_the_value_of_no_point_is_a_warning(tmp_path):
    write_slicer(tmp_path / "a.mrk.json", cloud("a", "pqrst"))
    with pytest.warns(KernelGPAWarning, match="missing=-999 is the value of no point"):
        io.read_clouds(tmp_path, ReadOptions(missing=-999.0))


@pytest.mark.parametrize("option", ["curves", "negative_is_missing"])
def test_an_option_for_tps_files_is_an_error_without_one(tmp_path, option):
    write_slicer(tmp_path / "a.mrk.json", cloud("a", "pqrst"))
    with pytest.raises(InvalidSetting, match=f"{option} is for TPS files, and none is given"):
        io.read_clouds(tmp_path, ReadOptions(**{option: True}))


def test_the_apes_are_read_from_their_folder():
    apes = SHARED / "data" / "landmarks" / "apes"
    if not apes.exists():
        pytest.skip("the ape skulls are not beside this checkout")
    found = io.read_clouds(apes)
    assert found.points.shape == (51, 41, 3)
    assert not any("far away" in note or "twice" in note for note in found.notes)

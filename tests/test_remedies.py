"""Messages about files name the true cause, in the words for the files, and a remedy that works as it is typed."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from kernelgpa import RigidGPA, io
from kernelgpa.errors import FormatError
from kernelgpa.io import c3d, csv_file
from kernelgpa.io.landmark_file import LabelledCloud, LandmarkFile, ReadOptions, numbered_labels
from kernelgpa.report.vocabulary import with_option_names
from landmark_files import fcsv_text
from test_words import body, write

CODE = (1998.0, 1998.0, -1998.0)


def typed_code(text):
    """The code of missing points that a message names."""
    return tuple(map(float, re.search(r"missing[= ](-?[\d.]+(?:,-?[\d.]+)*)", text)[1].split(",")))


def fcsv_text_of(frame, points):
    rows = (f"{j},{x},{y},{z},0,0,0,1,1,1,0,P{j},,\n" for j, (x, y, z) in enumerate(points.tolist()))
    return fcsv_text(frame, "".join(rows))


@pytest.mark.parametrize("frame", ["LPS", "RAS"])
def test_the_code_of_a_placeholder_is_that_of_the_files(frame, tmp_path):
    points = body()
    points[[1, 2, 4], [3, 5, 7]] = CODE
    for t, one in enumerate(points):
        (tmp_path / f"s{t}.fcsv").write_text(fcsv_text_of(frame, one), encoding="utf-8")
    note = next(one for one in io.read_clouds(tmp_path).notes if "far away" in one)
    cured = io.read_clouds(tmp_path, ReadOptions(missing=typed_code(note)))
    assert np.isnan(cured.points[..., 0]).sum() == 3


def test_the_finding_of_placeholders_names_the_code():
    points = body(clouds=8, landmarks=12)
    points[[1, 2, 4], [3, 5, 7]] = CODE
    found = next(one for one in RigidGPA(scaling=True).fit(points).diagnose() if one.kind == "placeholder coordinates")
    assert typed_code(found.action) == CODE


def test_what_is_not_there_is_called_that(kernelgpa):
    for arguments in (["info", "skulls"], ["register", "skulls", "-o", "out"], ["register", "--config", "my.toml"]):
        code, _, messages = kernelgpa(*arguments)
        assert code == 2
        assert "there is no such file" in messages
        assert "Errno" not in messages
    Path("skulls.zip").write_bytes(b"PK")
    assert "no known format" in kernelgpa("info", "skulls.zip")[2]


def test_one_specimen_is_counted_and_cannot_be_completed(kernelgpa):
    write("one", ".mrk.json", body(clouds=1))
    code, _, messages = kernelgpa("impute", "one", "-o", "filled")
    assert code == 2
    assert "1 specimen, 10 landmarks" in messages
    assert "--model" in messages
    assert "1 specimen, 10 landmarks matched" in kernelgpa("info", "one")[1]


def test_merging_without_files_to_merge_is_explained(kernelgpa):
    for name, one in zip(("ann", "bob"), body(), strict=False):
        io.write(f"{name}.tps", LandmarkFile((LabelledCloud(name, one, numbered_labels(10)),), labelled=False))
    code, _, messages = kernelgpa("info", "ann.tps", "bob.tps", "--merge")
    assert code == 2
    assert "--merge finds no files of one specimen" in messages


def test_notes_of_files_are_printed_once(kernelgpa):
    points = body()
    points[2, 4] = points[3, 1] = np.nan
    write("walk", ".trc", points)
    text = kernelgpa("info", "walk")[1]
    assert text.count("points of the file not measured because of empty or NaN coordinates: 2") == 1
    write("skulls", ".mrk.json", body())
    _, text, messages = kernelgpa("convert", "skulls", "-o", "out", "--to", "tps")
    assert messages.count("TPS cannot hold landmark labels") == 1
    assert "each of 6 files" in messages


def test_problems_of_rules_are_in_the_words_of_the_files(kernelgpa):
    labels = ("nose", "ear")
    for name, count in (("a", 2), ("b", 1)):
        frames = tuple(
            LabelledCloud(f"frame {t}", body()[t, :count], labels[:count], time=t / 10, number=t) for t in (1, 2)
        )
        io.write(f"{name}.trc", LandmarkFile(frames, labelled=True, unit="mm"))
    text = kernelgpa("info", "a.trc", "b.trc")[1]
    assert "has 1 markers and" in text
    assert "landmark" not in text.replace("--match", "")


def test_a_marker_that_was_never_measured_is_named():
    points = body(clouds=3)
    points[:, 4] = np.nan
    labels = tuple(f"Ann:M{j}" for j in range(10))
    frames = tuple(LabelledCloud(f"frame {t + 1}", one, labels, time=t / 10) for t, one in enumerate(points))
    data = c3d.render(LandmarkFile(frames, labelled=True, unit="mm"))
    assert "measured in no frame: 1 ('Ann:M4')" in c3d.parse(data, "file", ReadOptions()).notes


@pytest.mark.parametrize("text", ["clouds.npz", "clouds.nts"])
def test_different_landmarks_are_written_as_csv(text, kernelgpa):
    clouds = tuple(LabelledCloud(name, body()[0], tuple(f"{name}_{j}" for j in range(10))) for name in "ab")
    io.write("clouds.csv", LandmarkFile(clouds, labelled=True))
    code, _, messages = kernelgpa("convert", "clouds.csv", "-o", text)
    assert code == 2
    assert "have different landmarks; write CSV instead, which can hold them" in messages


def test_groups_without_a_common_landmark_are_reported_without_a_list(kernelgpa):
    clouds = [
        LabelledCloud(f"{name}{t}", body()[t], tuple(f"{name}{j}" for j in range(10))) for name in "ab" for t in (0, 1)
    ]
    io.write("clouds.csv", LandmarkFile(tuple(clouds), labelled=True))
    code, _, messages = kernelgpa("register", "clouds.csv", "-o", "out", "--method", "rigid")
    assert code == 2
    assert "groups 1 and 2 share no landmark and need 4" in messages


def test_a_shape_model_that_predicts_is_the_command_that_fills_in():
    text = "use a shape model (kernelgpa.ShapeModel) to predict markers"
    assert with_option_names(text) == "use a shape model (kernelgpa impute) to predict markers"


# -- long tables with other names of columns --


@pytest.mark.parametrize(
    ("header", "kind"),
    [
        ("cloud,landmark", "cloud"),
        ("specimen,landmark", "specimen"),
        ("Individual,Point", "specimen"),
        ("frame,marker", "frame"),
        ("frame,landmark", "cloud"),  # a frame of a sensor
        ("id,point", "cloud"),
    ],
)
def test_long_tables_may_name_their_columns_otherwise(header, kind):
    rows = "a,nose,1,2\na,ear,3,4\nb,nose,5,6\nb,ear,NA,NA\n"
    found = csv_file.parse(f"{header},x,y\n{rows}", "file", ReadOptions())
    assert found.kind == kind
    assert [one.name for one in found.clouds] == ["a", "b"]
    assert found.clouds[0].labels == ("nose", "ear")
    assert found.notes == ()


def test_only_one_column_names_the_cloud():
    found = csv_file.parse("id,specimen,landmark,x,y\n1,a,nose,1,2\n2,a,ear,3,4\n", "file", ReadOptions())
    assert [one.name for one in found.clouds] == ["a"]
    assert found.notes == ("column 'id' ignored",)
    with pytest.raises(FormatError, match="2 columns 'cloud'"):
        csv_file.parse("specimen,specimen,landmark,x,y\na,a,nose,1,2\n", "file", ReadOptions())


def test_a_long_table_of_r_is_a_table_of_specimens(kernelgpa):
    Path("r.csv").write_text(
        '"specimen","landmark","x","y"\n"a",1,2,3\n"a",2,4,5\n"b",1,3,3\n"b",2,5,5\n', encoding="utf-8"
    )
    assert "2 specimens, 2 landmarks" in kernelgpa("info", "r.csv")[1]

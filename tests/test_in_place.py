"""Files whose unseen points are filled in stay as they were in everything else.

The law: of a file, hide a point in the way of its format, and fill it in with what it was; the bytes are those of the
file before.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from kernelgpa import FormatError, KernelGPAWarning, io
from kernelgpa.io.completed import CompletedFiles
from kernelgpa.io.files import read_files
from kernelgpa.io.landmark_file import ReadOptions
from kernelgpa.io.matching import match_clouds

POINT, HIDDEN = "{}", (-1.5, 2.25, 1e-05)  # a place in the text of a file, and the point that it is hidden at

TEXTS = {
    "long.csv": (
        "cloud,landmark,species,x,y,z\r\na,1,Homo,0.10,2,3\r\na,2,Homo,{}\r\n\r\nb,1,Pan,4,5,6.0\r\nb,2,Pan,7,8,9\r\n",
        ",",
        "",
    ),
    "weighted.csv": ("landmark,cloud,weight,x,y,z\n1,a,0.5,{}\n1,b,1,1,2,3", ",", "NA"),
    "wide.csv": (
        "specimen,lm1_x,lm1_y,lm1_z,species,lm2_x,lm2_y,lm2_z\ns1,1.50,2,3,Pan,4,5,6\ns2,{},Pan,7,8,9\n",
        ",",
        "NA",
    ),
    "geomorph.csv": ("\ufeff,1.X,1.Y,1.Z,2.X,2.Y,2.Z\na,{},3,2,1\nb,1,2,3,1e2,5,6\n", ",", "NA"),
    "unnamed.csv": ("X1,Y1,Z1\n1,2,3\n{}\n", ",", ""),
    "skulls.tps": (
        "LM3=2\n1.0 2 3\n{}\nCURVES=1\nPOINTS=1\n7 7 7\nIMAGE=a b.jpg\nID=a\nCOMMENT=left, 3=4\nSCALE=0.5\n\n"
        "LM3=2\n1 2 4\n5 6 7.50\nID=b\n",
        " ",
        "NA",
    ),
    "skulls.nts": (
        "\"a study\n1 2L 6 1 9999 DIM=3\na b\n1 2 3.0  {}\n'a comment\n4 5\n6 7 8 9\n",
        " ",
        "9999",
    ),
    "skulls.txt": (
        "[individuals]\n2\n[landmarks]\n2\n[dimensions]\n3\n[labels]\nsex\n[labelvalues]\nm\nf\n[rawpoints]\n"
        "'#a\n1.0 2 3\n{}\n'#b\n\n4 5 6\n7 8 9\n[wireframe]\n1 2\n",
        " ",
        "-999",
    ),
    "trial.trc": (
        "PathFileType\t4\t(X/Y/Z)\tC:/my trial.trc\nDataRate\tCameraRate\tNumFrames\tNumMarkers\tUnits\n"
        "100.00\t200.00\t2\t2\tmm\nFrame#\tTime\tL1\t\t\tL2\t\t\n\t\tX1\tY1\tZ1\tX2\tY2\tZ2\n\n"
        "7\t0.060\t1.0\t2\t3\t{}\n8\t0.070\t4\t5\t6\t7\t8\t9\n",
        "\t",
        "",
    ),
    "s.fcsv": (
        "# Markups fiducial file version = 5.2\n# CoordinateSystem = RAS\n"
        "# columns = id,x,y,z,ow,ox,oy,oz,vis,sel,lock,label,desc,associatedNodeID\n"
        'n0,1.50,2,3,0,0,0,1,1,1,0,L1,"nasion, left",,2,0\nn1,{},0,0,0,1,1,1,0,L2,below,,{status},0\n',
        ",",
        "0",
    ),
}


def filled(path, points, **options):
    """The bytes of one file with its unseen points at those given (n, m, d)."""
    options = ReadOptions(**options)
    read, notes = read_files([path], options)
    matched = match_clouds(read, options=options, notes=notes)
    return CompletedFiles([Path(path)], [file for _, file in read], options, matched).rendered(points)[Path(path).name]


@pytest.mark.parametrize("name", TEXTS)
def test_a_hidden_point_that_is_filled_in_with_what_it_was_gives_the_file_before(name, tmp_path):
    text, separator, mark = TEXTS[name]
    scale = 0.5 if name == "skulls.tps" else 1.0
    before = text.replace("{status}", "2").replace(POINT, separator.join(map(repr, HIDDEN))).encode()
    hidden = text.replace("{status}", "0").replace(POINT, separator.join([mark] * 3)).encode()
    (tmp_path / name).write_bytes(hidden)
    options = {"missing": -999.0} if name == "skulls.txt" else {}
    clouds = io.read(tmp_path / name, ReadOptions(**options)).clouds
    assert sum(int(np.isnan(one.points[:, 0]).sum()) for one in clouds) == 1
    frame = np.array([-1, -1, 1]) if name == "s.fcsv" else 1.0
    target = scale * np.array(HIDDEN) * frame
    points = np.stack([np.where(np.isnan(one.points), target, one.points) for one in clouds])
    assert filled(tmp_path / name, points, **options) == before


def test_slicer_markups_keep_their_frame_and_descriptions(tmp_path):
    points = [
        {"id": "1", "label": "L1", "description": "nasion", "position": [1.5, 2, 3], "positionStatus": "defined"},
        {"id": "2", "label": "L2", "description": "", "position": "", "positionStatus": "missing", "locked": True},
    ]
    markup = {"type": "Fiducial", "coordinateSystem": "RAS", "controlPoints": points, "display": {"color": [1, 0, 0]}}
    (tmp_path / "s.mrk.json").write_text(json.dumps({"@schema": "a schema", "markups": [markup]}))
    found = json.loads(filled(tmp_path / "s.mrk.json", np.array([[[-1.5, -2, 3], [4, 5, 6]]])))
    points[1] |= {"position": [-4.0, -5.0, 6.0], "positionStatus": "defined"}
    assert found == {"@schema": "a schema", "markups": [markup]}


def test_an_added_control_point_has_an_id_of_its_own(tmp_path):
    """Slicer keeps the ids of the remaining points when one is deleted."""
    complete = [{"id": i, "label": f"L{i}", "position": [int(i), 0, 0]} for i in "1234"]
    for name, points in (("a", [complete[i] for i in (0, 2, 3)]), ("b", complete)):
        markup = {"type": "Fiducial", "coordinateSystem": "LPS", "controlPoints": points}
        (tmp_path / f"{name}.mrk.json").write_text(json.dumps({"markups": [markup]}))
    paths = [tmp_path / "a.mrk.json", tmp_path / "b.mrk.json"]
    read, notes = read_files(paths)
    matched = match_clouds(read, notes=notes)
    targets = CompletedFiles(paths, [file for _, file in read], ReadOptions(), matched)
    found = json.loads(targets.rendered(np.nan_to_num(matched.points, nan=2.0))["a.mrk.json"])
    assert [(one["id"], one["label"]) for one in found["markups"][0]["controlPoints"]] == [
        *(("1", "L1"), ("3", "L3"), ("4", "L4")),
        ("5", "L2"),
    ]


@pytest.mark.parametrize("kind", ["<f4", "<i2"])
def test_c3d_keeps_parameters_and_analogue_values(kind, tmp_path):
    """A file of our own writer, with two analogue values per frame and a block at its end."""
    clouds = tuple(
        io.LabelledCloud(f"t_{i + 1}", np.array([[1.0 + i, 2, 3], [4, 5, 6]]), ("A", "B"), time=i / 100)
        for i in range(2)
    )
    io.write(tmp_path / "t.c3d", io.LandmarkFile(clouds, labelled=True, unit="mm"))
    data = bytearray((tmp_path / "t.c3d").read_bytes())
    start = 512 * (int.from_bytes(data[16:18], "little") - 1)
    scale = 0.25 if kind == "<i2" else -1.0
    frames = np.array([[1, 2, 3, 0.5, 4, 5, 6, 0.5, 17, 18], [2, 2, 3, 0.5, 4, 5, 6, 0.5, 19, 20]])
    frames[:, [0, 1, 2, 4, 5, 6]] /= abs(scale)
    frames[:, [3, 7]] = 1
    data[4:6] = (2).to_bytes(2, "little")
    data[12:16] = np.array([scale], "<f4").tobytes()
    frames[0, 7] = 0  # an interpolated point has this residual
    before = bytes(data[:start]) + frames.astype(kind).tobytes() + b"the end"
    frames[0, 4:8] = 0, 0, 0, -1
    (tmp_path / "t.c3d").write_bytes(bytes(data[:start]) + frames.astype(kind).tobytes() + b"the end")
    points = np.array([[[1, 2, 3], [4, 5, 6]], [[2, 2, 3], [4, 5, 6]]], dtype=float)
    assert np.isnan(io.read(tmp_path / "t.c3d").clouds[0].points[1]).all()
    assert filled(tmp_path / "t.c3d", points) == before


def test_npz_keeps_its_other_arrays_and_its_type_of_numbers(tmp_path):
    points = np.arange(12, dtype=np.float32).reshape(2, 2, 3)
    points[0, 1] = np.nan
    np.savez(tmp_path / "a.npz", points=points, species=np.array(["Homo", "Pan"]))
    complete = np.where(np.isnan(points), 0.5, points).astype(float)
    (tmp_path / "b.npz").write_bytes(filled(tmp_path / "a.npz", complete))
    with np.load(tmp_path / "b.npz") as found:
        assert found["species"].tolist() == ["Homo", "Pan"]
        assert found["points"].dtype == np.float32
        np.testing.assert_array_equal(found["points"], complete)


def test_npz_keeps_arrays_that_kernelgpa_does_not_read(tmp_path):
    """Objects are never unpickled, and dates have no meaning here; zeros compress better than any cloud."""
    points = np.arange(12.0).reshape(2, 2, 3)
    points[0, 1] = np.nan
    others = {
        "objects": np.array([None, "a"]),
        "dates": np.array(["2020-01-01"], "M8[D]"),
        "zeros": np.zeros(2_000_000, "u1"),
    }
    np.savez_compressed(tmp_path / "a.npz", points=points, **others)
    (tmp_path / "b.npz").write_bytes(filled(tmp_path / "a.npz", np.nan_to_num(points)))
    with np.load(tmp_path / "b.npz", allow_pickle=True) as found:
        np.testing.assert_array_equal(found["points"], np.nan_to_num(points))
        for name, own in others.items():
            np.testing.assert_array_equal(found[name], own)


def markups(**more):
    points = [{"label": "1", "position": [1, 2, 3]}, {"label": "2", "positionStatus": "undefined"}]
    return json.dumps({"markups": [{"controlPoints": points, **more}]})


def test_markups_with_half_of_a_surrogate_pair_are_filled_in(tmp_path):
    (tmp_path / "s.mrk.json").write_text(markups(note="half \ud800"))
    found = json.loads(filled(tmp_path / "s.mrk.json", np.array([[[1, 2, 3], [4.0, 5, 6]]])))
    assert found["markups"][0]["note"] == "half \ud800"
    assert found["markups"][0]["controlPoints"][1]["position"] == [4, 5, 6]


@pytest.mark.parametrize("number", ["1e999", "1" * 5000])
def test_a_number_that_cannot_be_written_again_is_an_error_with_the_name_of_the_file(number, tmp_path):
    (tmp_path / "s.mrk.json").write_text(markups(note=7).replace('"note": 7', f'"note": {number}'))
    with pytest.raises(FormatError, match=r"s\.mrk\.json: it cannot be written back \(it has a number"):
        filled(tmp_path / "s.mrk.json", np.array([[[1, 2, 3], [4.0, 5, 6]]]))


def test_a_file_in_which_nothing_is_filled_in_is_copied(tmp_path):
    """A mesh with colours, which its writer would not keep."""
    vertices = "0 0 0 255\n1 0 0 0\n0 1 0 7\n"
    header = "ply\nformat ascii 1.0\ncomment by hand\nelement vertex 3\n"
    properties = "property float x\nproperty float y\nproperty float z\nproperty uchar red\nend_header\n"
    (tmp_path / "a.ply").write_text(header + properties + vertices)
    data = (tmp_path / "a.ply").read_bytes()
    assert filled(tmp_path / "a.ply", np.array([[[0, 0, 0], [1, 0, 0], [0, 1.0, 0]]])) == data


def test_a_warning_names_a_file_that_loses_what_is_no_landmark(tmp_path):
    points = np.arange(12.0).reshape(2, 2, 3)
    hidden = points.copy()
    hidden[0, 1] = np.nan
    clouds = tuple(io.LabelledCloud(f"a_{i + 1}", one, ("1", "2")) for i, one in enumerate(hidden))
    io.write(tmp_path / "a.mat", io.LandmarkFile(clouds, labelled=False))
    with pytest.warns(KernelGPAWarning, match=r"a\.mat is written anew"):
        filled(tmp_path / "a.mat", points)


def test_a_landmark_that_a_long_table_does_not_list_becomes_a_row(tmp_path):
    text = "cloud,landmark,x,y,note\na,1,1.0,2,good\na,2,3,4,\nb,1,5,6,good"
    (tmp_path / "a.csv").write_text(text)
    found = filled(tmp_path / "a.csv", np.array([[[1, 2], [3, 4]], [[5, 6], [7, 8.5]]]))
    assert found.decode() == text + "\nb,2,7.0,8.5,\n"


@pytest.mark.parametrize("weight", ["", "0"])
@pytest.mark.parametrize("note", ["good", '"good\nbad,\r\nworse"'])
def test_a_point_that_is_filled_in_gets_a_weight_with_which_it_counts(weight, note, tmp_path):
    """The weight of an unseen point may be left out or 0, which would be read as not seen."""
    text = f"cloud,landmark,x,y,weight,note\na,1,1,2,4,\na,2,{{}},{note}\nb,1,5,6,1,\nb,2,7,8,1,{note}\n"
    (tmp_path / "a.csv").write_bytes(text.format(f",,{weight}").encode())
    found = filled(tmp_path / "a.csv", np.array([[[1, 2], [3, 4]], [[5, 6], [7, 8]]]))
    assert found.decode() == text.format("3.0,4.0,1.0")


def test_chosen_frames_are_written_anew(tmp_path):
    text = TEXTS["trial.trc"][0].replace(POINT, "\t\t")
    (tmp_path / "t.trc").write_text(text)
    (tmp_path / "new").mkdir()
    points = np.array([[[1, 2, 3], [4, 5, 6]]], dtype=float)
    (tmp_path / "new/t.trc").write_bytes(filled(tmp_path / "t.trc", points, frames="7:8"))
    (cloud,) = io.read(tmp_path / "new/t.trc").clouds
    np.testing.assert_array_equal(cloud.points, points[0])


def test_a_prediction_that_would_be_read_as_unseen_is_an_error(tmp_path):
    """With negative_is_missing, a point whose coordinates are all negative is unseen again."""
    (tmp_path / "a.tps").write_text("LM=2\n1 2\n-1 -1\nID=a\nLM=2\n1 2\n3 4\nID=b\n")
    with pytest.raises(FormatError, match="read as not seen"):
        filled(tmp_path / "a.tps", np.array([[[1, 2], [-3, -4]], [[1, 2], [3, 4]]]), negative_is_missing=True)

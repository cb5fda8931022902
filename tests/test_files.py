"""Files by name, and landmarks matched across them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fixed_settings import fixed_kernel
from kernelgpa import FormatError, InvalidObservations, InvalidSetting, TooLarge, io
from kernelgpa.io.atomic import write_bytes
from kernelgpa.io.files import FORMATS, drop_unsupported, suffix_of
from kernelgpa.io.landmark_file import LabelledCloud, LandmarkFile, numbered_labels
from kernelgpa.io.matching import match_clouds
from kernelgpa.io.poses import kitti, tum
from shared_data import SHARED

APES = SHARED / "data" / "landmarks" / "apes"


def cloud(name, labels, points=None, seed=0):
    points = np.random.default_rng(seed).standard_normal((len(labels), 3)) if points is None else points
    return LabelledCloud(name, points, tuple(labels))


def one(specimen, labelled=True, **more):
    return (f"{specimen.name}.csv", LandmarkFile((specimen,), labelled, **more))


# -- matching --


def test_labels_that_overlap_match_by_label_in_the_order_of_the_files():
    matched = match_clouds(
        [one(cloud("a", ["nose", "ear", "chin", "eye"])), one(cloud("b", ["eye", "ear", "nose", "chin"]))]
    )
    assert matched.rule == "label"
    assert matched.observations.landmarks == ("nose", "ear", "chin", "eye")
    assert_array_equal(matched.observations.points[1, 3], cloud("b", "wxyz").points[0])


def test_labels_that_share_only_a_number_match_by_it():
    names = ("ape7", "LM1"), ("ape12", "F")
    first, second = (cloud(name, [f"{name}_{word}-{i}" for i in (1, 2, 10, 11)]) for name, word in names)
    matched = match_clouds([one(first), one(second)])
    assert matched.rule == "number"
    assert matched.observations.landmarks == (1, 2, 10, 11)


def test_a_file_without_labels_is_matched_by_order(tmp_path):
    labelled = cloud("a", [f"LM{i}" for i in range(6)])
    numbered = LandmarkFile((cloud("b", numbered_labels(6)),), labelled=False)
    matched = match_clouds([one(labelled), ("b.tps", numbered)])
    assert matched.rule == "order"
    assert len(matched.landmarks) == 6


def test_labels_that_cannot_be_matched_are_matched_by_order_if_there_are_as_many():
    matched = match_clouds([one(cloud("a", ["p", "q", "r", "s"])), one(cloud("b", ["t", "u", "v", "w"]))])
    assert matched.rule == "order"
    with pytest.raises(InvalidObservations, match="'b' has 3 landmarks and 'a' has 4"):
        match_clouds([one(cloud("a", ["p", "q", "r", "s"])), one(cloud("b", ["t", "u", "v"]))])


def test_landmarks_that_one_cloud_did_not_see_are_nan():
    matched = match_clouds([one(cloud("a", "pqrst")), one(cloud("b", "prstu")), one(cloud("c", "pqrstu"))])
    assert matched.rule == "label"
    assert_array_equal(np.isnan(matched.observations.points[1, :, 0]), [False, True, False, False, False, False])


def test_repeated_cloud_names_become_the_paths_of_their_files():
    files = [
        ("x/a.csv", LandmarkFile((cloud("a", "pqrs"),), True)),
        ("y/a.csv", LandmarkFile((cloud("a", "pqrs"),), True)),
    ]
    matched = match_clouds(files)
    assert matched.observations.names == ("x/a", "y/a")
    assert "path of the file" in matched.notes[0]
    with pytest.raises(InvalidObservations, match="more than once"):
        match_clouds([files[0], files[0]])


def test_units_and_dimensions_must_agree_and_an_unknown_frame_is_reported():
    with pytest.raises(InvalidObservations, match="different units, cm, mm"):
        match_clouds([one(cloud("a", "pqrs"), unit="mm"), one(cloud("b", "pqrs"), unit="cm")])
    with pytest.raises(InvalidObservations, match="2D"):
        match_clouds([one(cloud("a", "pqrs")), one(cloud("b", "pqrs", np.zeros((4, 2))))])
    matched = match_clouds([one(cloud("a", "pqrs"), frame="LPS"), one(cloud("b", "pqrs", seed=1))])
    assert any("do not state their frame" in note for note in matched.notes)


def test_clouds_that_share_nothing_do_not_take_all_memory():
    with pytest.raises(TooLarge, match="same labels in all clouds"):
        match_clouds([one(cloud("a", "pqrst")), one(cloud("b", "pqrst", seed=1))], memory=100)


def test_a_frame_or_a_unit_that_is_lost_is_reported():
    contents = LandmarkFile((cloud("a", "pqrs"),), True, frame="LPS", unit="mm")
    assert any("frame" in note for note in drop_unsupported(contents, ".csv")[1])
    assert any("unit" in note for note in drop_unsupported(contents, ".csv")[1])
    assert drop_unsupported(contents, ".mrk.json")[1] == []
    assert any("unknown frame" in note for note in drop_unsupported(replace(contents, frame=None), ".mrk.json")[1])


def test_the_same_note_of_many_files_is_reported_once():
    files = [one(cloud(name, "pqrs", seed=i), notes=("RAS converted to LPS",)) for i, name in enumerate("abc")]
    assert match_clouds(files).notes == ("each of 3 files: RAS converted to LPS",)


def test_faces_are_kept_if_all_meshes_have_the_same():
    faces = np.array([[0, 1, 2], [1, 2, 3]], dtype=np.intp)
    meshes = [one(cloud(name, numbered_labels(4)), labelled=False, faces=faces) for name in "ab"]
    assert_array_equal(match_clouds(meshes).faces, faces)
    other = (meshes[1][0], replace(meshes[1][1], faces=faces[::-1]))
    matched = match_clouds([meshes[0], other])
    assert matched.faces is None
    assert any("different triangles" in note for note in matched.notes)


# -- files --


def test_every_format_is_recognised_by_its_suffix(tmp_path):
    assert suffix_of(tmp_path / "A.B.MRK.JSON") == ".mrk.json"
    assert suffix_of(tmp_path / "x.CSV") == ".csv"
    for name in ("x.zip", "x", ".csv"):
        with pytest.raises(FormatError, match="no known format"):
            suffix_of(tmp_path / name)


def test_missing_files_are_one_clear_error(tmp_path):
    with pytest.raises(FormatError, match="no such file"):
        io.read(tmp_path / "x.csv")
    (tmp_path / "y.csv").mkdir()
    with pytest.raises(FormatError, match="a folder"):
        io.read(tmp_path / "y.csv")
    with pytest.raises(InvalidSetting, match="no file"):
        io.read_clouds([])
    with pytest.raises(FormatError, match="skulls: there is no such file or folder"):
        io.read_clouds([tmp_path / "skulls"])
    (tmp_path / "scans.zip").touch()
    with pytest.raises(FormatError, match=r"scans\.zip: the suffix is of no known format"):
        io.read_clouds([tmp_path / "scans.zip"])
    (tmp_path / "z.csv").write_bytes(b"cloud,landmark,x,y\na,1,2,3\n\xff\n")
    with pytest.raises(FormatError, match="line 3: the text is not UTF-8"):
        io.read(tmp_path / "z.csv")


def test_a_file_is_written_completely_or_not_at_all(tmp_path):
    target = tmp_path / "x.csv"
    target.write_bytes(b"old")

    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match=r".*"):
        write_bytes(tmp_path / "folder", b"new")  # a folder cannot be replaced by a file
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "x.csv"]
    write_bytes(target, b"new")
    assert target.read_bytes() == b"new"


def test_temporary_files_of_killed_processes_are_removed_by_the_next_write(tmp_path):
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        pass
    gone, running = process.pid, os.getppid()
    old = [f".x.npz.part-{gone}", f".x.npz.part-{running}", f".y.npz.part-{gone}", ".x.npz.part-mine", "x.npz.part-1"]
    for name in (*old, f".x.npz.part-{gone}0"):
        (tmp_path / name).write_bytes(b"half")
    for name in old:
        os.utime(tmp_path / name, (0, 0))
    write_bytes(tmp_path / "x.npz", b"new")
    kept = {*old[1:], f".x.npz.part-{gone}0", "x.npz"}  # of a process that runs, of others, and what is recent
    assert {path.name for path in tmp_path.iterdir()} == kept


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_cloud_is_read_back_from_every_format_or_the_loss_is_reported(tmp_path, suffix):
    points = np.random.default_rng(0).standard_normal((6, 3))
    given = LandmarkFile((LabelledCloud("a", points, ("p", "q", "r", "s", "t", "u"), np.arange(1.0, 7)),), True)
    faces = np.array([[0, 1, 2], [2, 3, 4], [3, 4, 5]], dtype=np.intp)
    held, lost = drop_unsupported(replace(given, faces=faces), suffix)
    path = tmp_path / f"a{suffix}"
    io.write(path, held)
    found = io.read(path)
    assert_allclose(found.clouds[0].points, points, rtol=1e-6 if suffix in (".stl", ".c3d") else 0)
    words = " ".join(lost)
    assert ("labels" in words) == (found.clouds[0].labels != given.clouds[0].labels)
    assert ("weights" in words) == (found.clouds[0].weights is None)
    assert ("precision" in words) == (suffix == ".stl")
    assert ("faces" in words) == (found.faces is None)


# -- real files --


def test_the_apes_give_one_map_through_every_format(tmp_path):
    if not APES.exists():
        pytest.skip("the ape skulls are not beside this checkout")
    files = sorted(APES.glob("*.mrk.json"))
    matched = io.read_clouds(files)
    observations = matched.observations
    assert (len(observations.clouds), len(observations.landmarks)) == (51, 41)
    assert (matched.rule, matched.frame, matched.unit) == ("number", "LPS", "mm")
    positions = fixed_kernel().fit(observations).map_
    labels = tuple(map(str, observations.landmarks))
    skulls = tuple(LabelledCloud(str(own.name), own.points, labels) for own in observations.clouds)
    contents = LandmarkFile(skulls, True, frame="LPS", unit="mm")
    for suffix in (".csv", ".tps", ".nts", ".morphologika", ".npz", ".mat"):
        io.write(tmp_path / f"apes{suffix}", drop_unsupported(contents, suffix)[0])
        again = io.read_clouds([tmp_path / f"apes{suffix}"])
        assert_allclose(fixed_kernel().fit(again.observations).map_, positions, rtol=0, atol=1e-9)
    for suffix in (".fcsv", ".mrk.json", ".pts"):
        for skull in skulls:
            io.write(tmp_path / f"{skull.name}{suffix}", replace(contents, clouds=(skull,)))
        again = io.read_clouds(sorted(tmp_path.glob(f"*{suffix}")))
        assert again.observations.names == tuple(sorted(str(name) for name in observations.names))
        order = [again.observations.cloud_index(skull.name) for skull in skulls]
        assert_allclose(again.observations.points[order], observations.points, rtol=0, atol=1e-9)
        assert_allclose(fixed_kernel().fit(again.observations).map_, positions, rtol=0, atol=1e-6)


def test_mixed_frames_come_out_in_one():
    if not APES.exists():
        pytest.skip("the ape skulls are not beside this checkout")
    files = sorted(APES.glob("*.mrk.json"))[:6]
    plain = io.read_clouds(files)
    mixed = []
    for i, path in enumerate(files):
        node = json.loads(path.read_text())
        if i % 2:
            node["markups"][0]["coordinateSystem"] = "RAS"
            for point in node["markups"][0]["controlPoints"]:
                point["position"] = [-point["position"][0], -point["position"][1], point["position"][2]]
        options = io.ReadOptions(name=path.name.removesuffix(".mrk.json"))
        mixed.append((str(path), FORMATS[".mrk.json"].parse(json.dumps(node).encode(), str(path), options)))
    matched = match_clouds(mixed)
    assert_allclose(matched.observations.points, plain.observations.points, rtol=0, atol=1e-12)
    assert "3 files: RAS" in " ".join(matched.notes)
    assert matched.frame == "LPS"


# -- poses --


@pytest.mark.parametrize("d", [2, 3])
def test_poses_are_what_trajectory_tools_read(d):
    from conftest import random_rotation

    rng = np.random.default_rng(0)
    rotations = np.stack([random_rotation(d, rng) for _ in range(4)])
    translations = rng.standard_normal((4, d))
    rows = np.array([line.split(" ") for line in kitti(rotations, translations).splitlines()], dtype=float)
    assert rows.shape == (4, 12)
    poses = rows.reshape(4, 3, 4)
    assert_allclose(poses[:, :d, :d], rotations, rtol=0, atol=1e-15)
    assert_allclose(poses[:, :d, 3], translations, rtol=0, atol=1e-15)
    lines = tum(rotations, translations).splitlines()
    assert lines[0].startswith("#")
    numbers = np.array([line.split(" ") for line in lines[1:]], dtype=float)
    assert numbers.shape == (4, 8)
    assert_array_equal(numbers[:, 0], range(4))
    from scipy.spatial.transform import Rotation

    assert_allclose(Rotation.from_quat(numbers[:, 4:]).as_matrix(), poses[:, :, :3], rtol=0, atol=1e-12)

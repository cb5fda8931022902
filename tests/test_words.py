"""Messages, summaries and tables use the words specimen, frame and marker, or cloud, by the files given."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from kernelgpa import RigidGPA, io
from kernelgpa.io.files import drop_unsupported
from kernelgpa.report import Metadata
from kernelgpa.report.data import PageLimits, page_data
from kernelgpa.report.summary import Assessment
from kernelgpa.report.vocabulary import vocabulary, with_unit

WORDS = {".mrk.json": ("specimen", "landmark"), ".tps": ("specimen", "landmark"), ".trc": ("frame", "marker")}


def body(clouds=6, landmarks=10, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((landmarks, 3)) * 50 + rng.standard_normal((clouds, landmarks, 3))


def write(folder, suffix, points, name="scan"):
    """One file per cloud for Slicer, one file for all otherwise."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    labels = tuple(f"P{j + 1}" for j in range(points.shape[1]))
    prefix = "frame" if suffix == ".trc" else name
    clouds = tuple(
        io.LabelledCloud(f"{prefix} {t + 1}", own, labels, time=t / 10, number=t + 1) for t, own in enumerate(points)
    )
    if suffix == ".mrk.json":
        for one in clouds:
            io.write(folder / f"{one.name}{suffix}", io.LandmarkFile((one,), labelled=True, frame="LPS", unit="mm"))
        return folder
    file = io.LandmarkFile(clouds, labelled=suffix != ".tps", unit="mm" if suffix == ".trc" else None)
    io.write(folder / f"{name}{suffix}", drop_unsupported(file, suffix)[0])
    return folder


@pytest.mark.parametrize("suffix", WORDS)
def test_a_registration_is_reported_in_the_words_of_its_files(kernelgpa, suffix):
    points = body()
    points[2, 3] = np.nan
    points[4, [1, 2]] = points[4, [2, 1]]  # a finding
    write("scans", suffix, points)
    code, printed, messages = kernelgpa("register", "scans", "-o", "out", "--method", "rigid")
    assert code == 0
    cloud, landmark = WORDS[suffix]
    assert f"6 {cloud}s, 10 {landmark}s" in messages
    with Path("out/findings.csv").open(encoding="utf-8", newline="") as file:
        findings = [row["found"] + row["action"] for row in csv.DictReader(file)]
    summary = json.loads(Path("out/summary.json").read_text(encoding="utf-8"))
    assert summary["findings"]
    texts = [printed, messages, *findings, *(one["found"] + one["action"] for one in summary["findings"])]
    for text in texts:
        assert "cloud" not in text.replace("clouds.csv", "")
        assert "landmark" not in text or landmark == "landmark"
    assert landmark in "".join(findings)


def test_codes_of_findings_are_the_same_whatever_the_words(kernelgpa):
    points = body()
    points[1:, 0] = np.nan  # seen once
    codes, kinds = [], []
    for suffix in (".mrk.json", ".trc", ".npz"):
        write(f"scans{suffix}", suffix, points)
        assert kernelgpa("register", f"scans{suffix}", "-o", f"out{suffix}", "--method", "rigid")[0] == 0
        findings = json.loads(Path(f"out{suffix}/summary.json").read_text(encoding="utf-8"))["findings"]
        with Path(f"out{suffix}/findings.csv").open(encoding="utf-8", newline="") as file:
            assert [row["code"] for row in csv.DictReader(file)] == [one["code"] for one in findings]
        codes.append([one["code"] for one in findings])
        kinds.append([one["kind"] for one in findings])
    assert codes[0] == codes[1] == codes[2]
    assert "landmarks-seen-once-or-never" in codes[0]
    assert "markers seen once or never" in kinds[1]
    assert "landmarks seen once or never" in kinds[2]


@pytest.mark.parametrize(("suffix", "expected"), [(".mrk.json", "specimen"), (".trc", "frame")])
def test_errors_are_in_the_words_of_the_files(kernelgpa, suffix, expected):
    points = body(clouds=5)
    points[1, 2:] = np.nan  # two points
    write("scans", suffix, points)
    for command in (("register", "scans", "-o", "out"), ("tune", "scans")):
        code, printed, messages = kernelgpa(*command)
        assert code == 2
        assert expected in messages.splitlines()[-1]
        assert "cloud" not in printed + messages


def test_names_of_files_and_options_stay_as_they_are(kernelgpa):
    points = body()
    folder = write("my cloud landmarks", ".trc", points, name="cloud 3 of landmarks")
    code, _, messages = kernelgpa("register", folder, "-o", "out", "--frames", "90:99")
    assert code == 2
    assert messages == (
        "kernelgpa: my cloud landmarks/cloud 3 of landmarks.trc: it has no frame in 90:99, but the frames 1 to 6; "
        "choose others\n"
    )
    (folder / "the map.db").write_bytes(b"")
    code, _, messages = kernelgpa("register", folder, "-o", "out", "--method", "rigid")
    assert code == 0
    assert "note: 'my cloud landmarks': 1 other file left out ('the map.db')" in messages
    assert "6 frames, 10 markers" in messages
    code, _, messages = kernelgpa("warp", "out", folder / "cloud 3 of landmarks.trc", "--cloud", "cloud 9")
    assert code == 2
    assert messages.startswith("kernelgpa: no frame 'cloud 9'; there are 6: 'frame 1'")
    code, printed, _ = kernelgpa("convert", folder, "-o", "landmarks of a cloud.csv")
    assert (code, printed) == (0, "landmarks of a cloud.csv\n")


def test_words_of_one_command_do_not_reach_the_next(kernelgpa):
    write("scans", ".trc", body())
    assert kernelgpa("info", "scans")[0] == 0
    Path("clouds.csv").write_text("cloud,landmark,x,y\na,,1,2\n", encoding="utf-8")
    code, _, messages = kernelgpa("info", "clouds.csv")
    assert (code, "a cloud or a landmark has no name" in messages) == (2, True)


@pytest.mark.parametrize(
    "header", [",X1,Y1,X2,Y2,X3,Y3", "id,1.X,1.Y,2.X,2.Y,3.X,3.Y", "specimen,a_x,a_y,b_x,b_y,c_x,c_y"]
)
def test_tables_of_r_hold_specimens(kernelgpa, header):
    Path("skulls.csv").write_text(f"{header}\na,0,0,1,0,NA,NA\nb,0,0,1,0,0,2\n", encoding="utf-8")
    code, printed, _ = kernelgpa("info", "skulls.csv")
    assert code == 0
    assert printed.startswith("skulls.csv: CSV, 2 specimens, 3 landmarks, 2D, 1 unseen")


@pytest.mark.parametrize(
    ("text", "names", "expected"),
    [
        ("cloud scan of cloud scan 2", ("scan of cloud scan",), "frame scan of cloud scan 2"),
        ("give --cloud, clouds=3 or clouds.csv", (), "give --cloud, clouds=3 or clouds.csv"),
        ("'it\\'s a cloud' of a cloud", (), "'it\\'s a cloud' of a frame"),
        ("the cloud's landmarks; Clouds", (), "the frame's markers; Frames"),
        ("/data/cloud/landmarks: no cloud", (), "/data/cloud/landmarks: no frame"),
        ("landmark Landmark A of cloud", ("Landmark A",), "marker Landmark A of frame"),
    ],
)
def test_names_and_options_are_not_translated(text, names, expected):
    assert vocabulary("frame").translate(text, names) == expected
    assert vocabulary("cloud").translate(text, names) == text


@pytest.mark.parametrize("unit", ["mm", r"\1", None])
def test_messages_name_the_unit_if_it_is_known(unit):
    text = "error 1.1 in the unit of the data, 3 more (in the unit of the data)"
    expected = text if unit is None else f"error 1.1 {unit}, 3 more (in {unit})"
    assert with_unit(text, unit) == expected


def test_findings_have_the_same_codes_in_all_words(kernelgpa):
    points = body()
    points[2] = points[1] + 7  # the same cloud twice
    points[4, [1, 2]] = points[4, [2, 1]]
    found = {}
    for suffix in (".mrk.json", ".trc", ".csv"):
        folder = suffix.replace(".", "")
        write(folder, suffix, points)
        assert kernelgpa("register", folder, "-o", f"{folder}-out", "--method", "rigid")[0] == 0
        summary = json.loads(Path(f"{folder}-out/summary.json").read_text(encoding="utf-8"))
        found[suffix] = [(one["code"], round(one["severity"], 3)) for one in summary["findings"]]
        with Path(f"{folder}-out/findings.csv").open(encoding="utf-8", newline="") as file:
            assert [row["code"] for row in csv.DictReader(file)] == [code for code, _ in found[suffix]]
    assert "same-cloud-twice" in [code for code, _ in found[".csv"]]
    assert found[".mrk.json"] == found[".csv"] == found[".trc"]


def test_a_size_of_each_cloud_means_specimens_and_no_trajectory():
    for scaling in (False, True):
        page = page_data(Assessment.of(RigidGPA(scaling=scaling).fit(body())), Metadata(), PageLimits())
        assert page.words.trajectory is not scaling
        assert ("procrustes_distance" in {column.name for column in page.cloud_table}) is scaling

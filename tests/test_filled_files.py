"""``kernelgpa impute``: files without gaps from files with gaps."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import numpy as np
import pytest

from kernelgpa import io

NAMES = ("Gorilla Münster 1", "Gorilla Münster 2", "gor 3", "gor 4")


def markers(frames=24, count=9, gap=((4, 2), (5, 2), (17, 6)), seed=0):
    """A recording that bends, with gaps given as (frame, marker)."""
    rng = np.random.default_rng(seed)
    body, bend = rng.standard_normal((count, 3)) * 300, rng.standard_normal((count, 3)) * 40
    points = body + np.sin(np.arange(frames) / 5)[:, None, None] * bend + rng.standard_normal((frames, count, 3))
    points = points.astype(np.float32).astype(np.float64)  # what C3D stores
    complete = points.copy()
    for t, j in gap:
        points[t, j] = np.nan
    labels = tuple(f"{'LR'[j % 2]}{j}" for j in range(count))
    clouds = tuple(
        io.LabelledCloud(f"frame {t + 1}", own, labels, time=t / 100, number=t + 1) for t, own in enumerate(points)
    )
    return io.LandmarkFile(clouds, labelled=True, unit="mm"), complete


def write_specimens(folder, hidden):
    """Two files per specimen, landmarks and a patch, whose labels carry the specimen's name."""
    rng = np.random.default_rng(0)
    mean = {"LM": rng.standard_normal((8, 3)) * 50, "patch": rng.standard_normal((15, 3)) * 50}
    truth = {}
    folder.mkdir()
    for name in NAMES:
        for kind, shape in mean.items():
            points = shape + rng.standard_normal(shape.shape)
            truth[f"{name}_{kind}.mrk.json"] = points.copy()
            if (name, kind) == hidden:
                points[2] = np.nan
            labels = tuple(f"{name}_{kind}-{j + 1}" for j in range(len(shape)))
            file = io.LandmarkFile((io.LabelledCloud(name, points, labels),), labelled=True, frame="LPS", unit="mm")
            io.write(folder / f"{name}_{kind}.mrk.json", file)
    return truth


@pytest.mark.parametrize("name", ["walk.c3d", "walk.trc"])
def test_a_recording_with_gaps_becomes_one_without_in_one_command(kernelgpa, name):
    recording, complete = markers()
    io.write(name, recording)
    code, printed, messages = kernelgpa("impute", name, "-o", "filled")
    assert code == 0
    assert printed.startswith("3 markers filled in; 1 file")
    assert messages.startswith("24 frames, 9 markers in 3D")
    assert re.search(r"expected error of a marker that is filled in: mean \S+ mm, median \S+ mm\n", messages)
    assert "cloud" not in printed + messages
    assert "landmark" not in printed + messages
    filled = io.read(Path("filled") / name)
    points = np.stack([one.points for one in filled.clouds])
    seen = ~np.isnan(np.stack([one.points for one in recording.clouds]))
    np.testing.assert_array_equal(points[seen], complete[seen])
    # the noise is 1 mm, the bending that must be predicted up to 40 mm
    assert np.linalg.norm(points - complete, axis=2).max() < 15
    assert [one.time for one in filled.clouds] == [one.time for one in io.read(name).clouds]


def test_chosen_frames_and_markers_alone_are_written(kernelgpa):
    for name in ("walk.c3d", "walk.trc"):
        io.write(name, markers()[0])
    chosen = ("-o", "filled", "--frames", "3:21:2", "--markers", "L*")
    code, _, messages = kernelgpa("impute", "walk.c3d", *chosen)  # C3D numbers its frames one by one
    assert code == 2
    assert messages.endswith(
        "kernelgpa: walk.c3d: the format does not keep the names of its frames; convert it to CSV first (kernelgpa "
        "convert), or omit the step of --frames\n"
    )
    code, printed, _ = kernelgpa("impute", "walk.trc", *chosen)
    assert code == 0
    assert printed.startswith("1 marker filled in")
    filled = io.read("filled/walk.trc")
    assert [one.number for one in filled.clouds] == list(range(3, 21, 2))
    assert filled.clouds[0].labels == ("L0", "L2", "L4", "L6", "L8")
    assert not np.isnan(np.stack([one.points for one in filled.clouds])).any()


@pytest.mark.parametrize("through_result", [False, True])
def test_landmarks_and_patch_of_one_specimen_are_filled_in_together(kernelgpa, tmp_path, through_result):
    """The third landmark must not be matched with the third point of the patch."""
    truth = write_specimens(tmp_path / "skulls", hidden=("gor 3", "LM"))
    source = "skulls"
    if through_result:
        source = "out"
        assert kernelgpa("register", "skulls", "-o", "out", "--method", "rigid")[0] == 0
    code, printed, messages = kernelgpa("impute", source, "-o", "filled")
    assert code == 0
    assert messages.startswith("4 specimens, 23 landmarks in 3D")
    assert printed.startswith("1 landmark filled in; 8 files")
    for name, expected in truth.items():
        found = io.read(Path("filled") / name).clouds[0].points
        before = io.read(Path("skulls") / name).clouds[0].points
        seen = ~np.isnan(before[:, 0])
        np.testing.assert_array_equal(found[seen], before[seen])
        assert found.shape == expected.shape
        # specimens differ by a standard deviation of 1 mm per coordinate, landmarks lie 50 mm apart
        assert np.linalg.norm(found - expected, axis=1).max() < 8
    with Path("filled/standard_deviations.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["cloud"], row["landmark"]) for row in rows] == [("gor 3", "LM-3")]


def test_an_option_that_is_typed_wins_over_those_of_a_result_folder(kernelgpa):
    recording, _ = markers()
    io.write("walk.trc", recording)
    assert kernelgpa("register", "walk.trc", "-o", "out", "--frames", "1:13", "--method", "rigid")[0] == 0
    assert kernelgpa("impute", "out", "-o", "a")[0] == 0
    assert kernelgpa("impute", "out", "-o", "b", "--frames", "1:19")[0] == 0
    assert [len(io.read(f"{folder}/walk.trc").clouds) for folder in "ab"] == [12, 18]

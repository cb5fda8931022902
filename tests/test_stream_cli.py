"""``kernelgpa stream`` as a user sees it: frames in, lines of JSON out, killed and started again."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.spatial.transform import Rotation

from kernelgpa import StreamingGPA
from kernelgpa.io.archive import pack_arrays, read_arrays
from kernelgpa.observations.arrays import finite_rows
from kernelgpa.observations.cloud import Cloud
from kernelgpa.observations.collection import Observations
from kernelgpa.streaming.checkpoint import read as read_checkpoint
from kernelgpa.streaming.frames import parse, render
from kernelgpa.streaming.odometry import pose_covariance
from stream_runs import CLOUDS, FIXED, LANDMARKS, PROGRAM, assert_same_shape, batch_map, lines_in, map_in

KEYS = ["frame", "time", "state", "clouds", "landmarks", "moved", "pose", "events", "waiting"]


# -- the map, the poses, the reports --


def test_the_map_is_that_of_a_batch_fit_to_the_window(kernelgpa, frames, liver, tmp_path):
    code, printed, errors = kernelgpa(
        "stream", *FIXED, "frames.jsonl", "--window", 8, "-o", "out", "--checkpoint", "state.npz", "--view", "live.html"
    )
    assert code == 0
    assert errors == ""
    assert_same_shape(map_in(tmp_path / "out"), batch_map(liver.points[-8:], tmp_path / "state.npz"))
    lines = lines_in(printed)
    assert [line["frame"] for line in lines] == list(range(CLOUDS))
    assert list(lines[-1]) == KEYS
    assert (lines[0]["state"], lines[0]["pose"], lines[0]["moved"]) == ("waiting", None, None)
    assert "at least 2 are needed" in lines[0]["why"]
    assert all(line["state"] == "ok" for line in lines[1:])
    assert (lines[-1]["clouds"], lines[-1]["landmarks"], lines[-1]["waiting"]) == (8, LANDMARKS, 0)
    assert (tmp_path / "out" / "updates.jsonl").read_text() == printed
    view = (tmp_path / "live.html").read_text()
    seen = np.isfinite(liver.points[-1][:, 0]).sum()
    assert view.count("<circle") == LANDMARKS + seen + 1
    assert view.count('class="frame"') == seen
    assert "the last update took" in view
    assert "http-equiv" not in view  # it has ended
    assert "ended" in view
    assert "http://" not in view
    assert "https://" not in view


def test_every_frame_has_one_row_of_poses(kernelgpa, frames, tmp_path):
    _, printed, _ = kernelgpa("stream", *FIXED, "frames.jsonl", "-o", "out")
    rows = np.loadtxt(tmp_path / "out" / "poses.tum")
    assert rows.shape == (CLOUDS, 8)
    assert sorted(rows[:, 0]) == list(range(CLOUDS))
    for line in lines_in(printed)[1:]:
        (row,) = rows[rows[:, 0] == line["time"]]
        assert_allclose(row[1:4], line["pose"]["translation"], rtol=1e-12)
        assert_allclose(Rotation.from_quat(row[4:]).as_matrix(), line["pose"]["rotation"], atol=1e-12)


def test_evo_reads_the_poses(kernelgpa, frames, tmp_path):
    file_interface = pytest.importorskip("evo.tools.file_interface")
    kernelgpa("stream", *FIXED, "frames.jsonl", "-o", "out")
    trajectory = file_interface.read_tum_trajectory_file(str(tmp_path / "out" / "poses.tum"))
    assert trajectory.num_poses == CLOUDS


def test_reported_landmarks_add_up_to_the_map(kernelgpa, frames, tmp_path):
    _, printed, _ = kernelgpa("stream", *FIXED, "frames.jsonl", "-o", "out", "--map")
    reported = {}
    for line in lines_in(printed):
        reported |= line["map"]
    expected = map_in(tmp_path / "out")
    assert {name: position.tolist() for name, position in expected.items()} == reported
    _, printed, _ = kernelgpa("stream", *FIXED, "frames.jsonl", "--map", "--map-tolerance", 1e6)
    counts = [len(line["map"]) for line in lines_in(printed)]
    assert sum(counts) == LANDMARKS  # each once, when it is new


def test_the_map_is_updated_every_few_frames_and_once_more_at_the_end(kernelgpa, frames, liver, tmp_path):
    _, printed, _ = kernelgpa("stream", *FIXED, "frames.jsonl", "--every", 5, "-o", "out", "--checkpoint", "state.npz")
    assert [line["frame"] for line in lines_in(printed)] == [4, 9, 11]
    assert len((tmp_path / "out" / "poses.tum").read_text().splitlines()) == CLOUDS
    assert_same_shape(map_in(tmp_path / "out"), batch_map(liver.points, tmp_path / "state.npz"))


@pytest.mark.parametrize(
    "options", [["--method", "affine"], ["--method", "tps", "--smoothing", 1, "--modes", "program"]]
)
def test_the_method_can_be_chosen(kernelgpa, frames, options):
    code, printed, _ = kernelgpa("stream", "frames.jsonl", *options)
    assert code == 0
    assert lines_in(printed)[-1]["state"] == "ok"


def test_measured_motions_are_used(kernelgpa, texts, tmp_path):
    motion = {"rotation": np.eye(3).tolist(), "translation": [0, 0, 0], "accuracy": 1000.0, "degrees": 100.0}
    moving = [json.loads(text) | {"odometry": motion, "pose": motion} for text in texts[:6]]
    moving[4]["odometry"] = {**motion, "from": 1}
    moving[5]["odometry"] = {**motion, "from": "nobody"}
    (tmp_path / "moving.jsonl").write_text("".join(json.dumps(one) + "\n" for one in moving))
    code, printed, errors = kernelgpa("stream", *FIXED, "moving.jsonl", "--checkpoint", "state.npz")
    assert (code, errors) == (0, "")
    events = [[one for one in line["events"] if "odometry" in one] for line in lines_in(printed)]
    assert events[0] == ["odometry of frame 0 is ignored: the frame before it is not in the window"]
    assert events[5] == ["odometry of frame 5 is ignored: the frame 'nobody' is not in the window"]
    assert events[1:5] == [[]] * 4
    stream = StreamingGPA.resume("state.npz")
    sources = [[one.source for one in stream._motions[key]] for key in stream.keys_]
    assert sources == [["tracker"], ["tracker", 0], ["tracker", 1], ["tracker", 2], ["tracker", 1], ["tracker"]]


def test_the_covariance_of_a_pose_does_not_depend_on_the_order_of_landmarks(liver):
    (first, *_), positions = Observations.from_array(liver.points).clouds, liver.template
    order = np.random.default_rng(0).permutation(len(first.seen))
    other = Cloud(first.name, np.arange(len(order)), first.points[order], first.weights[order])
    expected = pose_covariance(first, positions[first.seen])
    found = pose_covariance(other, positions[first.seen[order]])
    assert_allclose(found, expected, rtol=1e-8, atol=1e-10 * expected.max())


# -- lines that cannot be used --


def test_bad_lines_are_reported_and_skipped(kernelgpa, texts, liver, tmp_path):
    later = [json.loads(text) for text in texts]
    lines = [
        *texts[:4],
        "\n",
        "nonsense\n",
        texts[2],
        '{"drop": "nobody"}\n',
        texts[4],
        json.dumps(later[5] | {"points": [one[:2] for one in later[5]["points"]]}) + "\n",
        '{"drop": 4}\n',
        *texts[5:9],
        texts[0].replace('"frame": 0', '"frame": "late"'),
        texts[4],
    ]
    (tmp_path / "in.jsonl").write_text("".join(lines))
    code, printed, errors = kernelgpa(
        "stream", *FIXED, "in.jsonl", "--window", 5, "-o", "out", "--checkpoint", "state.npz"
    )
    assert code == 0
    assert [line.split("; ")[0] for line in errors.splitlines()] == [
        "in.jsonl, line 6: the line is not JSON (Expecting value at column 1)",
        "in.jsonl, line 7: there is a frame 2 already",
        "in.jsonl, line 8: there is no frame 'nobody' to drop",
        "in.jsonl, line 10: cloud 5: its points are in 2D",
        "in.jsonl, line 16: time 0 is before the window, which is full and begins at 3",
    ]
    assert all(line.endswith("the line is skipped") for line in errors.splitlines())
    updates = lines_in(printed)
    assert [line["frame"] for line in updates] == [0, 1, 2, 3, 4, 4, 5, 6, 7, 8, 4]
    assert updates[5]["events"] == ["frame 4 was dropped"]
    assert updates[5]["pose"] is None
    assert_same_shape(map_in(tmp_path / "out"), batch_map(liver.points[[8, 7, 6, 5, 4]], tmp_path / "state.npz"))


def test_the_order_of_frames_does_not_matter(kernelgpa, texts, liver, tmp_path):
    (tmp_path / "in.jsonl").write_text("".join(texts[t] for t in (0, 2, 1, 3, 5, 4, 6, 7, 8)))
    assert kernelgpa("stream", *FIXED, "in.jsonl", "--window", 6, "-o", "out", "--checkpoint", "state.npz")[2] == ""
    assert_same_shape(map_in(tmp_path / "out"), batch_map(liver.points[3:9], tmp_path / "state.npz"))


def test_frames_need_no_name_and_no_time(kernelgpa, texts, tmp_path):
    plain = [{key: json.loads(text)[key] for key in ("ids", "points")} for text in texts[:4]]
    (tmp_path / "in.jsonl").write_text("\n".join(json.dumps(one) for one in plain))
    updates = lines_in(kernelgpa("stream", *FIXED, "in.jsonl")[1])
    assert [(line["frame"], line["time"]) for line in updates] == [(1, 0.0), (2, 1.0), (3, 2.0), (4, 3.0)]


def test_the_state_is_bounded_by_the_window(kernelgpa, texts, tmp_path):
    several = [json.dumps(json.loads(text) | {"frame": i, "time": i}) + "\n" for i, text in enumerate(texts * 5)]
    (tmp_path / "in.jsonl").write_text("".join(several))
    options = ["--window", 4, "--method", "affine", "--map", "--checkpoint", "state.npz"]
    assert kernelgpa("stream", "in.jsonl", *options)[0] == 0
    state = read_checkpoint(StreamingGPA, "state.npz")[1]["pipeline"]
    assert len(state["frames"]) == 4
    assert len(state["reported"]) <= LANDMARKS


# -- errors of the command --


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.jsonl"], "none.jsonl: there is no such file; check the name, or give - for standard input"),
        (["."], ".: it is a folder; expected a file of frames, or - for standard input"),
        (["frames.jsonl", "--window", 1], "window is 1; expected None for all clouds, or 2 or more"),
        (["frames.jsonl", "--method", "affine", "--bandwidth", 1], "method affine has no setting bandwidth"),
        (["frames.jsonl", "--checkpoint", "frames.jsonl"], "frames.jsonl is given twice"),
        (["frames.jsonl", "-o", "frames.jsonl"], "frames.jsonl is a file; give a folder"),
    ],
)
def test_errors_of_the_command_are_one_line_and_exit_2(kernelgpa, frames, arguments, message):
    code, printed, errors = kernelgpa("stream", *FIXED, *arguments)
    assert (code, printed) == (2, "")
    assert errors.startswith("kernelgpa: ")
    assert message in errors
    assert errors.count("\n") == 1


def test_a_run_that_cannot_begin_changes_no_file(kernelgpa, frames, tmp_path):
    kernelgpa("stream", "frames.jsonl", "-o", "out", "--checkpoint", "state.npz")
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    (tmp_path / "other.jsonl").write_text(frames.read_text().replace('"frame": 0', '"frame": 99'))
    (tmp_path / "short.jsonl").write_text(frames.read_text()[:200])
    for name, options, message in [
        ("none.jsonl", [], "there is no such file"),
        ("other.jsonl", [], "it is not the file of the checkpoint"),
        ("short.jsonl", [], "it has 200 bytes, and"),
        ("frames.jsonl", ["--window", 5], "state.npz was made with window None, not 5"),
        (
            "frames.jsonl",
            ["--bandwidth", 2],
            "state.npz was made with method KernelGPA(), not KernelGPA(bandwidth=2.0)",
        ),
    ]:
        code, _, errors = kernelgpa("stream", name, "-o", "out", "--checkpoint", "state.npz", *options)
        assert code == 2
        assert message in errors
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before


def test_a_checkpoint_of_another_program_is_refused(kernelgpa, frames):
    StreamingGPA().checkpoint("state.npz")
    code, _, errors = kernelgpa("stream", "frames.jsonl", "--checkpoint", "state.npz")
    assert (code, errors) == (2, "kernelgpa: state.npz: it was not made by kernelgpa stream; use another checkpoint\n")


ODD = [None, True, -1, 1.5, float("nan"), "abc", [], [1], [["a", 2]], {}, {"a": 1}, {"abc": ["x"]}]


@pytest.mark.parametrize("part", ["pipeline", "position", "sizes"])
def test_a_checkpoint_that_was_changed_is_refused_or_resumed(kernelgpa, texts, tmp_path, part):
    (tmp_path / "frames.jsonl").write_text("".join(texts[:4]))
    options = ["-o", "out", "--checkpoint", "state.npz", "--every", 2, "--map"]
    assert kernelgpa("stream", *FIXED, "frames.jsonl", *options)[0] == 0
    arrays = read_arrays((tmp_path / "state.npz").read_bytes(), "state")
    header = json.loads(str(arrays["header"]))
    saved = header["about"][part]
    changed = [*ODD, *({**saved, key: odd} for key in saved for odd in ODD)]
    if part == "pipeline":
        first, one = saved["frames"][0]
        changed += [{**saved, "frames": [[first, {**one, key: odd}]]} for key in one for odd in ODD]
        changed += [{**saved, "frames": [[odd, one]]} for odd in ODD]
    (tmp_path / "frames.jsonl").write_text("".join(texts[:6]))
    codes = set()
    for odd in changed:
        about = {**header["about"], part: odd}
        state = pack_arrays({**arrays, "header": np.array(json.dumps({**header, "about": about}))})
        (tmp_path / "state.npz").write_bytes(state)
        code, _, errors = kernelgpa("stream", *FIXED, "frames.jsonl", *options)
        assert code == 0 or (code == 2 and errors.count("\n") == 1 and errors.startswith("kernelgpa: ")), (odd, errors)
        codes.add(code)
    assert 2 in codes


# -- too little memory --


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits addresses as Linux does")
def test_a_frame_for_which_there_is_no_memory_is_skipped(texts, tmp_path):
    rng = np.random.default_rng(0)
    huge = [render(name, 20.0, range(6000), rng.standard_normal((6000, 3))) for name in ("a", "b")]
    (tmp_path / "frames.jsonl").write_text("".join([*texts[:4], *huge, *texts[4:8]]))

    def limit():
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (1_500_000_000,) * 2)

    command = [*PROGRAM, "frames.jsonl", "-o", "out"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, preexec_fn=limit, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("the line is skipped") == 1
    assert done.stderr.startswith("frames.jsonl, line 6: a frame of 6000 landmarks would take ")
    updates = lines_in(done.stdout)
    assert [line["frame"] for line in updates] == [0, 1, 2, 3, "a", 4, 5, 6, 7]
    assert {line["state"] for line in updates[2:]} == {"ok"}


def test_simulated_frames_are_the_simulated_clouds(kernelgpa, liver, tmp_path):
    assert kernelgpa("simulate", "-o", "a.jsonl", "--clouds", CLOUDS, "--landmarks", LANDMARKS)[0] == 0
    for t, line in enumerate((tmp_path / "a.jsonl").read_bytes().splitlines()):
        frame = parse(line, "a.jsonl", t + 1)
        assert (frame.name, frame.time) == (t, t)
        seen = [int(name) - 1 for name in frame.ids]
        assert seen == np.flatnonzero(finite_rows(liver.points[t])).tolist()
        assert_allclose(frame.points, liver.points[t][seen], rtol=0, atol=0)

"""``kernelgpa stream`` as a user sees it: frames in, lines of JSON out, killed and started again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.spatial.transform import Rotation

from conftest import run
from kernelgpa import KernelGPA, StreamingGPA, io, simulate
from kernelgpa.errors import FormatError
from kernelgpa.gauge.rotations import nearest_rotation
from kernelgpa.io.archive import pack_arrays, read_arrays
from kernelgpa.observations.arrays import finite_rows
from kernelgpa.observations.cloud import Cloud
from kernelgpa.observations.collection import Observations
from kernelgpa.streaming.checkpoint import read as read_checkpoint
from kernelgpa.streaming.frames import Drop, End, parse, render
from kernelgpa.streaming.frames.input_lines import InputPosition, read_lines
from kernelgpa.streaming.odometry import pose_covariance

CLOUDS, LANDMARKS = 12, 40
TIMEOUT = 60  # seconds
KEYS = ["frame", "time", "state", "clouds", "landmarks", "moved", "pose", "events", "waiting"]
POINTS = [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]


@pytest.fixture(scope="module")
def scene():
    return simulate.liver(clouds=CLOUDS, landmarks=LANDMARKS, bend=8.0, hidden=0.3, noise=0.5, seed=0)


@pytest.fixture(scope="module")
def texts(scene):
    """The frames of the scene, one line each."""
    labels = [str(j + 1) for j in range(LANDMARKS)]
    return [render(t, float(t), labels, points) for t, points in enumerate(scene.points)]


@pytest.fixture
def frames(texts, tmp_path):
    path = tmp_path / "frames.jsonl"
    path.write_text("".join(texts))
    return path


def lines_in(printed):
    return [json.loads(line, parse_constant=pytest.fail) for line in printed.splitlines()]


def map_in(folder):
    (own,) = io.read(folder / "map.csv").clouds
    return dict(zip(own.labels, own.points, strict=True))


def batch_map(clouds):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # landmarks that a single cloud observed
        gpa = KernelGPA().fit(np.array(clouds))
    return {str(j + 1): position for j, position in enumerate(gpa.map_)}


def assert_same_shape(found, expected, tolerance=1e-8):
    """Two maps that differ by a rigid motion only."""
    assert found.keys() == expected.keys()
    source, target = (np.array([positions[name] for name in expected]) for positions in (found, expected))
    source, target = source - source.mean(axis=0), target - target.mean(axis=0)
    assert_allclose(
        source @ nearest_rotation(target.T @ source).T, target, rtol=0, atol=tolerance * np.abs(target).max()
    )


def assert_same_folder(found, expected):
    """The same map in the same frame, and the same poses; no frame is repeated or lost."""
    one, other = map_in(found), map_in(expected)
    assert one.keys() == other.keys()
    size = np.abs(list(other.values())).max()
    assert_allclose([one[name] for name in other], list(other.values()), rtol=0, atol=1e-8 * size)
    assert_allclose(np.loadtxt(found / "poses.tum"), np.loadtxt(expected / "poses.tum"), rtol=0, atol=1e-8 * size)
    updates = [lines_in((folder / "updates.jsonl").read_text()) for folder in (found, expected)]
    assert [line["frame"] for line in updates[0]] == [line["frame"] for line in updates[1]]


# -- the format of the lines --


def parsed(text):
    return parse(text.encode() if isinstance(text, str) else text, "in", 7)


def test_a_frame_is_read_with_all_optional_keys():
    rotation = Rotation.from_euler("z", 30, degrees=True)
    motion = {"translation": [1, 2, 3], "accuracy": 0.5, "degrees": 0.2}
    frame = parsed(
        json.dumps(
            {
                "frame": "a",
                "time": 1.5,
                "ids": [1, "x", "y", "z", "u", "v"],
                "points": [*POINTS, None, [None, None, None]],
                "weights": [1, 1, 1, 2, 1, 1],
                "odometry": {**motion, "quaternion": rotation.as_quat().tolist(), "from": "b"},
                "pose": {**motion, "rotation": rotation.as_matrix().tolist()},
            }
        )
    )
    assert (frame.name, frame.time, frame.ids[:2]) == ("a", 1.5, ["1", "x"])
    assert finite_rows(frame.points).tolist() == [True] * 4 + [False] * 2
    assert frame.weights.tolist() == [1, 1, 1, 2, 1, 1]
    assert frame.odometry.start == "b"
    assert_allclose(frame.odometry.rotation, frame.pose.rotation, atol=1e-15)
    assert frame.pose.measured().source == "tracker"
    assert parsed('{"drop": 3}') == Drop(3)
    assert parsed('{"end": true}') == End()


def frame_with(**other):
    return json.dumps({"ids": ["a", "b", "c", "d"], "points": POINTS, **other})


def motion_with(**other):
    return {"rotation": np.eye(3).tolist(), "translation": [0, 0, 0], "accuracy": 1, "degrees": 1, **other}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "the line is not JSON (Expecting property name enclosed in double quotes at column 2)"),
        (b'{"ids": "\xff"}', "the line is not UTF-8"),
        ("[1, 2]", "found '[1, 2]'; expected an object"),
        ("[" * 100_000, "brackets are nested too deeply"),
        ('{"time": ' + "9" * 5000 + "}", "a number has too many digits"),
        ('{"time": 1, "time": 2}', "the key 'time' is repeated"),
        (frame_with(points=[[float("nan")] * 3] * 4), "found NaN, which is not JSON; write null"),
        (frame_with().replace("[1, 0, 0]", "[1e999, 0, 0]"), "point 2 has 'Infinity'; expected a finite number"),
        (frame_with(points=[*POINTS[:3], [0, None, 1]]), "point 4 has missing; expected a finite number"),
        (frame_with(points=[*POINTS[:3], [0, True, 1]]), "point 4 has 'true'; expected a finite number"),
        (frame_with(points=POINTS[:3]), "3 points for 4 ids; expected one point per id"),
        (frame_with(points=[*POINTS[:3], [0, 1]]), "point 4 has 2 values; expected 3 numbers"),
        (frame_with(points=[[0], [1], [2], [3]]), "the first point has 1 coordinates; expected 2 or 3"),
        (frame_with(points=[*POINTS[:3], None]), "3 points are seen; expected at least 4 in 3D"),
        (frame_with(points=7), "points is '7' for 4 ids; expected one point per id"),
        (frame_with(ids=["a", "b", "a", "d"]), "the id 'a' is given more than once"),
        (frame_with(ids=[1, 2, "1", 3]), "the id '1' is given more than once"),
        (frame_with(ids=["a", "b", "c", 1.5]), "an id is '1.5'; expected an integer or a string"),
        (frame_with(ids=None), "ids is missing; expected a list"),
        (frame_with(frame=[1]), "frame is '[1]'; expected an integer or a string"),
        (frame_with(time="now"), "time has '\"now\"'; expected a finite number"),
        (frame_with(weights=[1, 1, 1]), "weights has 3 values; expected 4 numbers"),
        (frame_with(weights=[1, 1, 1, -1]), "a weight is -1; expected 0 or more"),
        (frame_with(point=1), "a frame has the key 'point'; expected frame, time, ids"),
        (frame_with(pose=[1]), "pose is '[1]'; expected an object with rotation"),
        (frame_with(pose=motion_with(accuracy=0)), "pose has accuracy 0 and degrees 1; expected numbers above 0"),
        (frame_with(pose=motion_with(rotation=[[2, 0, 0], [0, 1, 0], [0, 0, 1]])), "rotation of pose is not a rot"),
        (frame_with(pose=motion_with(quaternion=[0, 0, 0, 1])), "pose has both or none of rotation and quaternion"),
        (frame_with(pose=motion_with(**{"from": 1})), "pose has the key 'from'"),
        (frame_with(odometry=motion_with(translation=[0, 0])), "translation of odometry has 2 values"),
        ('{"drop": true}', "drop is 'true'; expected an integer or a string"),
        ('{"drop": 1, "frame": 2}', "a drop has the key 'frame'; expected drop"),
        ('{"end": 1}', "end is '1'; expected true"),
    ],
)  # fmt: skip
def test_a_malformed_line_is_reported_with_its_number_and_what_was_expected(text, message):
    with pytest.raises(FormatError) as caught:
        parsed(text)
    assert str(caught.value).startswith("in, line 7: ")
    assert message in str(caught.value)


# -- the map, the poses, the reports --


def test_the_map_is_that_of_a_batch_fit_to_the_window(kernelgpa, frames, scene, tmp_path):
    code, printed, errors = kernelgpa("stream", "frames.jsonl", "--window", 8, "-o", "out", "--view", "live.html")
    assert code == 0
    assert errors == ""
    assert_same_shape(map_in(tmp_path / "out"), batch_map(scene.points[-8:]))
    lines = lines_in(printed)
    assert [line["frame"] for line in lines] == list(range(CLOUDS))
    assert list(lines[-1]) == KEYS
    assert (lines[0]["state"], lines[0]["pose"], lines[0]["moved"]) == ("waiting", None, None)
    assert "at least 2 are needed" in lines[0]["why"]
    assert all(line["state"] == "ok" for line in lines[1:])
    assert (lines[-1]["clouds"], lines[-1]["landmarks"], lines[-1]["waiting"]) == (8, LANDMARKS, 0)
    assert (tmp_path / "out" / "updates.jsonl").read_text() == printed
    view = (tmp_path / "live.html").read_text()
    assert view.count("<circle") == LANDMARKS + 1
    assert "http-equiv" not in view  # it has ended
    assert "ended" in view
    assert "http://" not in view
    assert "https://" not in view


def test_every_frame_has_one_row_of_poses(kernelgpa, frames, tmp_path):
    _, printed, _ = kernelgpa("stream", "frames.jsonl", "-o", "out")
    rows = np.loadtxt(tmp_path / "out" / "poses.tum")
    assert rows.shape == (CLOUDS, 8)
    assert sorted(rows[:, 0]) == list(range(CLOUDS))
    for line in lines_in(printed)[1:]:
        (row,) = rows[rows[:, 0] == line["time"]]
        assert_allclose(row[1:4], line["pose"]["translation"], rtol=1e-12)
        assert_allclose(Rotation.from_quat(row[4:]).as_matrix(), line["pose"]["rotation"], atol=1e-12)


def test_evo_reads_the_poses(kernelgpa, frames, tmp_path):
    file_interface = pytest.importorskip("evo.tools.file_interface")
    kernelgpa("stream", "frames.jsonl", "-o", "out")
    trajectory = file_interface.read_tum_trajectory_file(str(tmp_path / "out" / "poses.tum"))
    assert trajectory.num_poses == CLOUDS


def test_reported_landmarks_add_up_to_the_map(kernelgpa, frames, tmp_path):
    _, printed, _ = kernelgpa("stream", "frames.jsonl", "-o", "out", "--map")
    reported = {}
    for line in lines_in(printed):
        reported |= line["map"]
    expected = map_in(tmp_path / "out")
    assert {name: position.tolist() for name, position in expected.items()} == reported
    _, printed, _ = kernelgpa("stream", "frames.jsonl", "--map", "--map-tolerance", 1e6)
    counts = [len(line["map"]) for line in lines_in(printed)]
    assert sum(counts) == LANDMARKS  # each once, when it is new


def test_the_map_is_updated_every_few_frames_and_once_more_at_the_end(kernelgpa, frames, scene, tmp_path):
    _, printed, _ = kernelgpa("stream", "frames.jsonl", "--every", 5, "-o", "out")
    assert [line["frame"] for line in lines_in(printed)] == [4, 9, 11]
    assert len((tmp_path / "out" / "poses.tum").read_text().splitlines()) == CLOUDS
    assert_same_shape(map_in(tmp_path / "out"), batch_map(scene.points))


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
    code, printed, errors = kernelgpa("stream", "moving.jsonl", "--checkpoint", "state.npz")
    assert (code, errors) == (0, "")
    events = [[one for one in line["events"] if "odometry" in one] for line in lines_in(printed)]
    assert events[0] == ["odometry of frame 0 is ignored: the frame before it is not in the window"]
    assert events[5] == ["odometry of frame 5 is ignored: the frame 'nobody' is not in the window"]
    assert events[1:5] == [[]] * 4
    stream = StreamingGPA.resume("state.npz")
    sources = [[one.source for one in stream._motions[key]] for key in stream.keys_]
    assert sources == [["tracker"], ["tracker", 0], ["tracker", 1], ["tracker", 2], ["tracker", 1], ["tracker"]]


def test_the_covariance_of_a_pose_does_not_depend_on_the_order_of_landmarks(scene):
    (first, *_), positions = Observations.from_array(scene.points).clouds, scene.template
    order = np.random.default_rng(0).permutation(len(first.seen))
    other = Cloud(first.name, np.arange(len(order)), first.points[order], first.weights[order])
    expected = pose_covariance(first, positions[first.seen])
    found = pose_covariance(other, positions[first.seen[order]])
    assert_allclose(found, expected, rtol=1e-8, atol=1e-10 * expected.max())


# -- lines that cannot be used --


def test_bad_lines_are_reported_and_skipped(kernelgpa, texts, scene, tmp_path):
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
    code, printed, errors = kernelgpa("stream", "in.jsonl", "--window", 5, "-o", "out")
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
    assert_same_shape(map_in(tmp_path / "out"), batch_map(scene.points[[8, 7, 6, 5, 4]]))


def test_the_order_of_frames_does_not_matter(kernelgpa, texts, scene, tmp_path):
    (tmp_path / "in.jsonl").write_text("".join(texts[t] for t in (0, 2, 1, 3, 5, 4, 6, 7, 8)))
    assert kernelgpa("stream", "in.jsonl", "--window", 6, "-o", "out")[2] == ""
    assert_same_shape(map_in(tmp_path / "out"), batch_map(scene.points[3:9]))


def test_frames_need_no_name_and_no_time(kernelgpa, texts, tmp_path):
    plain = [{key: json.loads(text)[key] for key in ("ids", "points")} for text in texts[:4]]
    (tmp_path / "in.jsonl").write_text("\n".join(json.dumps(one) for one in plain))
    updates = lines_in(kernelgpa("stream", "in.jsonl")[1])
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
    code, printed, errors = kernelgpa("stream", *arguments)
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
    assert kernelgpa("stream", "frames.jsonl", *options)[0] == 0
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
        code, _, errors = kernelgpa("stream", "frames.jsonl", *options)
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


# -- killed, stopped, started again --

PROGRAM = [sys.executable, "-m", "kernelgpa", "stream"]
OPTIONS = [
    "-o",
    "out",
    "--window",
    "8",
    "--every",
    "2",
    "--checkpoint",
    "state.npz",
    "--checkpoint-every",
    "3",
    "--map",
]


@pytest.fixture
def started(tmp_path):
    """Start a run in the folder of the test; it is killed at the end if it still runs."""
    running = []

    def start(*arguments, **pipes):
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **pipes}
        running.append(subprocess.Popen([*PROGRAM, *map(str, arguments)], cwd=tmp_path, text=True, **pipes))
        return running[-1]

    yield start
    for process in running:
        process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def uninterrupted(texts, tmp_path_factory):
    """The output folder of a run without interruption."""
    folder = tmp_path_factory.mktemp("uninterrupted")
    (folder / "frames.jsonl").write_text("".join(texts))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert run(patch, "stream", "frames.jsonl", *OPTIONS) == 0
    return folder / "out"


def killed(process):
    process.kill()
    assert process.wait(TIMEOUT) == -signal.SIGKILL


def test_a_killed_run_resumes_as_if_it_had_not_been_killed(texts, frames, started, uninterrupted, tmp_path):
    frames.write_text("".join(texts[:8]) + texts[8][:50])  # the partial line is not read
    process = started("frames.jsonl", "--follow", *OPTIONS)
    reported = [json.loads(process.stdout.readline())["frame"] for _ in range(4)]
    assert reported == [1, 3, 5, 7]
    killed(process)
    frames.write_text("".join(texts))
    process = started("frames.jsonl", *OPTIONS)
    printed, errors = process.communicate(timeout=TIMEOUT)
    assert (process.returncode, errors) == (0, "")
    assert [line["frame"] for line in lines_in(printed)][-2:] == [9, 11]
    assert_same_folder(tmp_path / "out", uninterrupted)


@pytest.mark.slow
def test_a_run_killed_at_any_moment_resumes(texts, frames, started, uninterrupted, tmp_path):
    for wait in (0.0, 0.02):
        process = started("frames.jsonl", *OPTIONS)
        process.stdout.readline()
        time.sleep(wait)
        process.kill()
        process.wait(TIMEOUT)
    process = started("frames.jsonl", *OPTIONS)
    process.communicate(timeout=TIMEOUT)
    assert process.returncode == 0
    assert_same_folder(tmp_path / "out", uninterrupted)


@pytest.mark.slow
def test_standard_input_that_begins_again_is_resumed_where_it_was(texts, started, uninterrupted, tmp_path):
    process = started("-", *OPTIONS, stdin=subprocess.PIPE)
    process.stdin.write("".join(texts[:6]))
    process.stdin.flush()
    for _ in range(3):
        process.stdout.readline()
    killed(process)
    process = started("-", *OPTIONS, stdin=subprocess.PIPE)
    printed, errors = process.communicate("".join(texts), timeout=TIMEOUT)
    assert errors == ""
    first = lines_in(printed)[0]["frame"]
    assert first in (3, 7)  # the checkpoint after frame 5 may or may not be written
    assert_same_folder(tmp_path / "out", uninterrupted)


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_leaves_a_checkpoint_and_a_map(texts, frames, scene, started, uninterrupted, tmp_path, sent):
    frames.write_text("".join(texts[:4]))
    process = started("frames.jsonl", "--follow", *OPTIONS)
    for _ in range(2):
        process.stdout.readline()
    os.kill(process.pid, sent)
    assert process.communicate(timeout=TIMEOUT)[1] == ""
    assert process.returncode == 0
    assert_same_shape(map_in(tmp_path / "out"), batch_map(scene.points[:4]))
    frames_saved = read_checkpoint(StreamingGPA, tmp_path / "state.npz")[1]["pipeline"]["frames"]
    assert [one["name"] for _, one in frames_saved] == [0, 1, 2, 3]
    with frames.open("a") as file:
        file.write("".join(texts[4:]) + '{"end": true}\n')
    for _ in range(2):  # the end is found again by a run that is resumed after it
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(tmp_path)
            assert run(patch, "stream", "frames.jsonl", "--follow", *OPTIONS) == 0
        assert_same_folder(tmp_path / "out", uninterrupted)


def test_a_run_whose_reader_has_closed_the_pipe_can_be_resumed(texts, frames, started, uninterrupted, tmp_path):
    reader = subprocess.Popen(["head", "-1"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    process = started("frames.jsonl", *OPTIONS, stdout=reader.stdin)
    reader.stdin.close()
    assert process.communicate(timeout=TIMEOUT)[1] == ""
    reader.wait(timeout=TIMEOUT)
    assert process.returncode == 1
    assert (tmp_path / "state.npz").exists()
    again = started("frames.jsonl", *OPTIONS)
    assert again.communicate(timeout=TIMEOUT)[1] == ""
    assert again.returncode == 0
    assert_same_folder(tmp_path / "out", uninterrupted)


def test_a_run_that_is_stopped_before_its_end_exits_with_1(texts, started):
    process = started("-", stdin=subprocess.PIPE)
    process.stdin.write(texts[0])
    process.stdin.flush()
    process.stdout.readline()
    os.kill(process.pid, signal.SIGTERM)
    assert process.wait(TIMEOUT) == 1


def test_a_growing_file_is_followed_and_partial_lines_are_waited_for(texts, frames, started, tmp_path):
    frames.write_text("")
    process = started("frames.jsonl", "--follow")
    with frames.open("a") as file:
        for t, text in enumerate(texts[:4]):
            for part in (text[:30], text[30:-1], text[-1:]):
                file.write(part)
                file.flush()
                time.sleep(0.06)  # longer than the interval between two looks
            assert json.loads(process.stdout.readline())["frame"] == t
        file.write('{"end": true}\n')
    assert process.communicate(timeout=TIMEOUT) == ("", "")
    assert process.returncode == 0


def test_a_last_line_that_was_cut_off_is_read_again(kernelgpa, texts, frames, scene, tmp_path):
    frames.write_text("".join(texts[:5])[:-40])
    errors = kernelgpa("stream", "frames.jsonl", "-o", "out", "--checkpoint", "state.npz")[2]
    assert errors.startswith("frames.jsonl, line 5: the line is not JSON")
    frames.write_text("".join(texts))
    code, printed, errors = kernelgpa("stream", "frames.jsonl", "-o", "out", "--checkpoint", "state.npz")
    assert (code, errors) == (0, "")
    assert [line["frame"] for line in lines_in(printed)] == list(range(4, CLOUDS))
    assert_same_shape(map_in(tmp_path / "out"), batch_map(scene.points))


def test_a_file_that_becomes_shorter_is_an_error(texts, frames):
    with read_lines(frames, True, InputPosition()) as lines:
        for number in range(1, CLOUDS + 1):
            assert next(lines).number == number
        frames.write_text(texts[0])
        with pytest.raises(FormatError, match="the file became shorter"):
            next(lines)


def test_simulated_frames_are_the_simulated_clouds(kernelgpa, scene, tmp_path):
    assert kernelgpa("simulate", "-o", "a.jsonl", "--clouds", CLOUDS, "--landmarks", LANDMARKS)[0] == 0
    for t, line in enumerate((tmp_path / "a.jsonl").read_bytes().splitlines()):
        frame = parse(line, "a.jsonl", t + 1)
        assert (frame.name, frame.time) == (t, t)
        seen = [int(name) - 1 for name in frame.ids]
        assert seen == np.flatnonzero(finite_rows(scene.points[t])).tolist()
        assert_allclose(frame.points, scene.points[t][seen], rtol=0, atol=0)

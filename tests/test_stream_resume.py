"""A run of ``kernelgpa stream`` that is killed, stopped or cut off resumes as if it had not been interrupted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time

import pytest

from conftest import run
from kernelgpa import StreamingGPA
from kernelgpa.errors import FormatError
from kernelgpa.streaming.checkpoint import read as read_checkpoint
from kernelgpa.streaming.frames.input_lines import InputPosition, read_lines
from stream_runs import (
    CLOUDS,
    FIXED,
    PROGRAM,
    TIMEOUT,
    assert_same_folder,
    assert_same_shape,
    batch_map,
    lines_in,
    map_in,
)

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
        assert run(patch, "stream", *FIXED, "frames.jsonl", *OPTIONS) == 0
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
def test_a_signal_leaves_a_checkpoint_and_a_map(texts, frames, liver, started, uninterrupted, tmp_path, sent):
    frames.write_text("".join(texts[:4]))
    process = started("frames.jsonl", "--follow", *OPTIONS)
    for _ in range(2):
        process.stdout.readline()
    os.kill(process.pid, sent)
    assert process.communicate(timeout=TIMEOUT)[1] == ""
    assert process.returncode == 0
    assert_same_shape(map_in(tmp_path / "out"), batch_map(liver.points[:4], tmp_path / "state.npz"))
    frames_saved = read_checkpoint(StreamingGPA, tmp_path / "state.npz")[1]["pipeline"]["frames"]
    assert [one["name"] for _, one in frames_saved] == [0, 1, 2, 3]
    with frames.open("a") as file:
        file.write("".join(texts[4:]) + '{"end": true}\n')
    for _ in range(2):  # the end is found again by a run that is resumed after it
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(tmp_path)
            assert run(patch, "stream", *FIXED, "frames.jsonl", "--follow", *OPTIONS) == 0
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


def test_a_last_line_that_was_cut_off_is_read_again(kernelgpa, texts, frames, liver, tmp_path):
    frames.write_text("".join(texts[:5])[:-40])
    errors = kernelgpa("stream", *FIXED, "frames.jsonl", "-o", "out", "--checkpoint", "state.npz")[2]
    assert errors.startswith("frames.jsonl, line 5: the line is not JSON")
    frames.write_text("".join(texts))
    code, printed, errors = kernelgpa("stream", *FIXED, "frames.jsonl", "-o", "out", "--checkpoint", "state.npz")
    assert (code, errors) == (0, "")
    assert [line["frame"] for line in lines_in(printed)] == list(range(4, CLOUDS))
    assert_same_shape(map_in(tmp_path / "out"), batch_map(liver.points, tmp_path / "state.npz"))


def test_a_file_that_becomes_shorter_is_an_error(texts, frames):
    with read_lines(frames, True, InputPosition()) as lines:
        for number in range(1, CLOUDS + 1):
            assert next(lines).number == number
        frames.write_text(texts[0])
        with pytest.raises(FormatError, match="the file became shorter"):
            next(lines)

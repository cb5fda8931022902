"""Disks that are full, folders that cannot be written and pipes that are closed end in one line and lose nothing."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from kernelgpa import KernelGPA, load
from result_folders import FILES


def limited(size):
    """Run before the program: no file may grow beyond ``size`` bytes."""

    def limit():
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    return limit


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits the size of files as Linux does")
@pytest.mark.parametrize("size", [0, 10_000, 1_000_000])
def test_a_full_disk_is_one_line_and_leaves_the_old_result(scans, tmp_path, size):
    scans("register", "scans.csv", "-o", "out", "--method", "affine")
    command = [sys.executable, "-m", "kernelgpa", "register", "scans.csv", "-o", "out"]
    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=limited(size), check=False)
    assert done.returncode == 2
    assert done.stderr.strip().splitlines()[-1].startswith("kernelgpa: [Errno 27] File too large")
    assert repr(load("out")) == "AffineGPA()"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "scans.csv", "surface.npz", "truth.csv"]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc takes no folders")
def test_a_folder_that_cannot_be_written_is_one_line(scans):
    code, printed, errors = scans("register", "scans.csv", "-o", "/proc/out")
    assert code == 2
    assert printed == ""
    assert errors == "kernelgpa: /proc/out cannot be written (No such file or directory); give another folder\n"


def test_the_current_folder_can_be_the_output(scans, monkeypatch, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    monkeypatch.chdir(out)
    before = out.stat().st_ino
    for method in ("affine", "rigid"):
        code, printed, errors = scans("register", "../scans.csv", "-o", ".", "--method", method)
        assert code == 0, errors
        assert "report: report.html" in printed
        assert out.stat().st_ino == before
        assert sorted(path.name for path in out.iterdir()) == FILES
    assert json.loads((out / "summary.json").read_text())["title"] == "out"
    assert scans("demo", "-o", ".")[0] == 0
    assert out.stat().st_ino == before
    assert (out / "clouds.png").exists()


def test_the_folder_of_the_data_is_no_output(scans, monkeypatch, tmp_path):
    monkeypatch.setattr(KernelGPA, "fit", lambda *_: pytest.fail("the output was not checked before the fit"))
    for output in (".", tmp_path):
        code, _, errors = scans("register", "scans.csv", "-o", output)
        assert (code, errors) == (
            2,
            f"kernelgpa: {tmp_path} holds files that are not part of a result (scans.csv); give a new folder\n",
        )


@pytest.mark.parametrize(
    "arguments",
    [
        ["tune", "scans.csv", "-o"],
        ["convert", "scans.csv", "-o"],
        ["simulate", "-o"],
        ["simulate", "-o", "new.csv", "--truth"],
        ["stream", "scans.csv", "--checkpoint"],
        ["stream", "scans.csv", "--view"],
    ],
    ids=" ".join,
)
def test_a_file_that_cannot_be_written_is_refused_before_any_work(scans, tmp_path, arguments):
    (tmp_path / "folder.csv").mkdir()
    before = sorted(tmp_path.iterdir())
    for name, message in (
        ("none/x.csv", "none/x.csv: there is no folder none; create it first"),
        ("folder.csv", "folder.csv is a folder; give the name of a file"),
        ("/proc/x.csv", "/proc/x.csv cannot be written (No such file or directory); give another file"),
    ):
        code, printed, errors = scans(*arguments, name)
        assert (code, printed, errors) == (2, "", f"kernelgpa: {message}\n")
    assert sorted(tmp_path.iterdir()) == before


def shell(line, folder):
    """A line of the shell in a folder, with kernelgpa for the command: exit code and what it printed."""
    command = line.replace("kernelgpa", f"{sys.executable} -m kernelgpa")
    done = subprocess.run(["bash", "-c", command], cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/dev/full is a full disk on Linux")
@pytest.mark.parametrize("closed", ["2>&-", "2>/dev/full"])
def test_messages_that_cannot_be_printed_stop_nothing(scans, tmp_path, closed):
    code, printed, _ = shell(f"kernelgpa register scans.csv -o out --method rigid {closed}", tmp_path)
    assert code == 0
    assert printed.endswith("report: out/report.html\n")
    assert shell(f"kernelgpa info none.csv {closed}", tmp_path)[0] == 2


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/dev/full is a full disk on Linux")
def test_a_full_disk_behind_standard_output_is_one_line(scans, tmp_path):
    code, _, errors = shell("kernelgpa info scans.csv > /dev/full", tmp_path)
    assert (code, errors) == (2, "kernelgpa: [Errno 28] No space left on device\n")


def test_a_closed_pipe_ends_a_command_without_a_message(scans, tmp_path):
    for command in ("info scans.csv", "register scans.csv -o out --method rigid --json", "--help"):
        _, printed, errors = shell(f"kernelgpa {command} | true", tmp_path)
        assert printed == ""
        assert not [line for line in errors.splitlines() if "Broken" in line or "Traceback" in line or "Errno" in line]


def test_a_removed_current_folder_is_named(scans, tmp_path):
    line = "mkdir gone && cd gone && rmdir ../gone && kernelgpa demo -o ."
    code, _, errors = shell(line, tmp_path)
    assert code == 2
    assert errors.splitlines()[-1].endswith("; the current folder has been removed: change to another one")

"""A result folder is complete or not there, and gives the fitted estimator back."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from conftest import scene
from fixed_settings import fixed_kernel, fixed_tps
from kernelgpa import (
    AffineGPA,
    FormatError,
    InvalidSetting,
    KernelGPA,
    Observations,
    io,
    load,
    save,
)
from kernelgpa.io.atomic import remove_stale, write_folder
from kernelgpa.report import Metadata
from kernelgpa.report.result_folder import write_result
from result_folders import FILES, observations


def test_a_folder_holds_all_files_and_the_metadata(tmp_path):
    fitted = fixed_kernel().fit(observations())
    faces = np.array([[0, 1, 2], [3, 4, 5]], dtype=np.intp)
    metadata = Metadata(title="skulls", unit="mm", frame="LPS", notes=["checked by hand"], faces=faces)
    out = save(fitted, tmp_path / "a b" / "out", metadata)
    assert sorted(path.name for path in out.iterdir()) == FILES
    landmarks = io.read(out / "map.csv").clouds[0]
    assert_array_equal(landmarks.points, fitted.map_)
    assert landmarks.labels[:2] == ("höhe", "1")
    mesh = io.read(out / "map.ply")
    assert_array_equal(mesh.faces, faces)
    assert mesh.frame == "LPS"
    summary = json.loads((out / "summary.json").read_text())
    assert summary["unit"] == "mm"
    assert summary["notes"] == ["checked by hand"]
    assert summary["landmarks"] == 40
    assert summary["disagreement"]["worst"] >= summary["disagreement"]["median"] > 0
    settings = tomllib.loads((out / "settings.toml").read_text())
    assert settings["method"]["bandwidth"] == 0.25
    assert "skulls" in (out / "report.html").read_text()


def test_a_result_replaces_a_result_and_nothing_else(tmp_path):
    fitted = fixed_kernel().fit(observations())
    out = save(fitted, tmp_path / "out")
    save(AffineGPA().fit(observations()), out)
    assert isinstance(load(out), AffineGPA)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]
    (tmp_path / "empty").mkdir()
    save(fitted, tmp_path / "empty")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("do not touch")
    with pytest.raises(InvalidSetting, match="not part of a result"):
        save(fitted, tmp_path / "mine")
    with pytest.raises(InvalidSetting, match="is a file"):
        save(fitted, tmp_path / "mine" / "thesis.txt")
    (out / "thesis.txt").write_text("do not touch")
    with pytest.raises(InvalidSetting, match=r"not part of a result \(thesis.txt\)"):
        save(fitted, out)
    (tmp_path / "folders" / "model.npz").mkdir(parents=True)
    with pytest.raises(InvalidSetting, match="not part of a result"):
        save(fitted, tmp_path / "folders")
    with pytest.raises(FormatError, match="it is a folder; expected a result folder"):
        load(tmp_path / "folders")
    (tmp_path / "theirs").mkdir()
    np.savez(tmp_path / "theirs" / "model.npz", w=np.zeros(3))
    with pytest.raises(InvalidSetting, match="not part of a result"):
        save(fitted, tmp_path / "theirs")
    assert (tmp_path / "theirs" / "model.npz").exists()


def test_a_link_stays_a_link(tmp_path):
    out = save(AffineGPA().fit(observations()), tmp_path / "out")
    (tmp_path / "link").symlink_to(out)
    save(fixed_kernel().fit(observations()), tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert isinstance(load(out), KernelGPA)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "out"]


def cannot_exchange(*_):
    """A system that cannot exchange two folders in one step."""
    return False


def full_disk(*_):
    raise OSError(28, "No space left on device")


OLD, NEW = {"a": b"old", "b": b"old"}, {"a": b"new", "c": b"new"}


def contents_of(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_move_that_fails_restores_the_old_folder(monkeypatch, tmp_path):
    write_folder(tmp_path / "out", OLD)
    move = Path.rename
    monkeypatch.setattr(Path, "rename", lambda one, to: full_disk() if ".part-" in one.name else move(one, to))
    with pytest.raises(OSError, match="No space left"):
        write_folder(tmp_path / "out", NEW, exchange=cannot_exchange)
    assert contents_of(tmp_path / "out") == OLD
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_the_summary_and_the_report_have_the_same_statistics(tmp_path):
    from kernelgpa.report import Assessment, PageLimits
    from kernelgpa.report.data import page_data

    points = scene(n=8, m=40, noise=0.01)[0]
    points[3, 5] += 3.0
    fitted = fixed_kernel(robust="geman-mcclure").fit(points)
    out = save(fitted, tmp_path / "out")
    summary = json.loads((out / "summary.json").read_text())
    shown = page_data(Assessment.of(fitted), Metadata(), PageLimits()).summary
    for statistic in ("median", "mean", "worst"):
        assert summary["disagreement"][statistic] == shown.disagreement[statistic]
        assert summary["sensor_frame_error"][statistic] == shown.sensor_error[statistic]
    assert summary["left_out_error"]["median"] > 0
    assert summary["disagreement"]["worst"] < 0.5  # rejected observations do not count


def test_a_result_is_assessed_once_and_the_summary_returned_is_the_one_written(monkeypatch, tmp_path):
    fitted = fixed_kernel().fit(observations())
    diagnose, fit_backward, calls = KernelGPA.diagnose, KernelGPA._fit_backward, []
    monkeypatch.setattr(KernelGPA, "diagnose", lambda *given: calls.append("diagnosis") or diagnose(*given))
    monkeypatch.setattr(KernelGPA, "_fit_backward", lambda *one: calls.append("sensor error") or fit_backward(*one))
    summary = write_result(fitted, tmp_path / "out", Metadata(unit="mm"))
    assert sorted(calls) == ["diagnosis", "sensor error"]
    assert (tmp_path / "out" / "summary.json").read_text() == summary.to_json() + "\n"


def test_settings_written_from_python_run_again(tmp_path):
    out = save(fixed_tps(smoothing=0.5).fit(observations()), tmp_path / "out")
    method = tomllib.loads((out / "settings.toml").read_text())["method"]
    assert method["name"] == "tps"


def test_a_disk_that_is_full_leaves_the_old_result(monkeypatch, tmp_path):
    out = save(AffineGPA().fit(observations()), tmp_path / "out")
    new = fixed_kernel().fit(observations())
    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="No space left"):
        save(new, out)
    assert isinstance(load(out), AffineGPA)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]


def test_an_exchange_that_fails_leaves_the_old_folder(tmp_path):
    write_folder(tmp_path / "out", OLD)
    with pytest.raises(OSError, match="No space left"):
        write_folder(tmp_path / "out", NEW, exchange=full_disk)
    assert contents_of(tmp_path / "out") == OLD
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_without_an_exchange_in_one_step_the_folder_is_replaced_in_two(tmp_path):
    for files in (OLD, NEW):
        write_folder(tmp_path / "out", files, exchange=cannot_exchange)
        assert contents_of(tmp_path / "out") == files
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


KILLED = """
import sys; sys.path.insert(0, "tests")
from result_folders import observations
from kernelgpa import KernelGPA, TPSGPA, save
fitted = [KernelGPA().fit(observations()), TPSGPA().fit(observations())]
print("started", flush=True)
while True:
    for one in fitted:
        save(one, sys.argv[1])
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="folders are exchanged in one step on Linux")
@pytest.mark.parametrize("moment", np.linspace(0.01, 0.6, 6))
def test_a_run_that_is_killed_leaves_the_old_result_or_the_new_one(moment, tmp_path):
    out = save(AffineGPA().fit(observations()), tmp_path / "out")
    with subprocess.Popen([sys.executable, "-c", KILLED, str(out)], stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        time.sleep(moment)
        process.send_signal(signal.SIGKILL)
    assert sorted(path.name for path in out.iterdir()) == FILES
    assert load(out).map_.shape == (40, 3)
    remove_stale(tmp_path, "out", stale_after=-1.0)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_an_os_error(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(PermissionError):
        save(fixed_kernel().fit(observations()), tmp_path / "out")


def test_a_result_in_the_current_folder_leaves_that_folder_where_it_is(monkeypatch, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    before = out.stat().st_ino
    monkeypatch.chdir(out)
    save(AffineGPA().fit(observations()), ".")
    save(fixed_kernel().fit(observations(2)), Path())  # one file fewer
    assert Path.cwd() == out
    assert out.stat().st_ino == before
    assert sorted(path.name for path in Path().iterdir()) == [name for name in FILES if name != "map.ply"]
    assert isinstance(load("."), KernelGPA)


@pytest.mark.parametrize(("where", "name"), [(Path, "is_mount"), (os, "access")], ids=["mount", "read-only parent"])
def test_a_mount_point_and_a_folder_with_a_read_only_parent_are_not_moved(where, name, monkeypatch, tmp_path):
    out = save(AffineGPA().fit(observations()), tmp_path / "out")
    before = out.stat().st_ino
    monkeypatch.setattr(where, name, lambda path, *_: path.name == "out")
    save(fixed_kernel().fit(observations()), out)
    assert out.stat().st_ino == before
    assert isinstance(load(out), KernelGPA)
    assert sorted(path.name for path in out.iterdir()) == FILES


@pytest.mark.parametrize("after", range(1, 17, 3))
@pytest.mark.parametrize("problem", [OSError(28, "No space left on device"), KeyboardInterrupt()], ids=repr)
def test_files_that_cannot_all_be_moved_are_restored(after, problem, monkeypatch, tmp_path):
    out = save(AffineGPA().fit(observations()), tmp_path / "out")
    (out / "clouds.png").write_bytes(b"old")
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    new = fixed_kernel().fit(observations())
    monkeypatch.chdir(out)
    move, moves = Path.rename, []

    def failing(one, to):
        moves.append(one)
        if len(moves) == after:
            raise problem
        return move(one, to)

    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(type(problem)):
        save(new, out)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


def test_temporary_files_of_a_killed_run_are_no_part_of_a_result(monkeypatch, tmp_path):
    out = save(AffineGPA().fit(observations()), tmp_path / "out")
    left = out / f".out.part-{dead_process()}-abc"
    left.mkdir()
    (left / "map.csv").write_bytes(b"half")
    monkeypatch.chdir(out)
    save(fixed_kernel().fit(observations()), ".")  # perhaps it runs on another machine
    assert left.exists()
    os.utime(left, (0, 0))
    save(fixed_kernel().fit(observations()), ".")
    assert sorted(path.name for path in out.iterdir()) == FILES


def dead_process():
    """The number of a process that is gone."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        pass
    return process.pid


def test_hostile_names_stay_in_the_folder(tmp_path):
    points = scene(n=4, m=20, hidden=0.0)[0]
    names = ["../../evil", "<script>alert(1)</script>", "a/b", "c\0d"]
    named = Observations.from_array(points, clouds=names, landmarks=[f"../{i}<b>" for i in range(20)])
    out = save(fixed_kernel().fit(named), tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]
    assert sorted(path.name for path in out.iterdir()) == FILES
    assert load(out).observations_.names == tuple(names)
    assert "<script>alert(1)</script>" not in (out / "report.html").read_text()
    assert Path(out).parent == tmp_path

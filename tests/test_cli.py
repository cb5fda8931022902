"""Every command, as a user runs it."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import tomllib

import numpy as np
import pytest
from matplotlib.image import imread
from numpy.testing import assert_allclose

from kernelgpa import KernelGPA, RigidGPA, __version__, io, load
from kernelgpa.cli import main
from kernelgpa.cli.convert import file_name
from kernelgpa.cli.messages import with_option_names
from shared_data import SHARED
from test_folder import FILES

COMMANDS = ["demo", "register", "warp", "evaluate", "tune", "simulate", "convert", "info", "reproduce", "stream"]


@pytest.fixture
def scans(kernelgpa):
    """A simulated scene in files: scans.csv, truth.csv, surface.npz."""
    names = ["--truth", "truth.csv", "--surface", "surface.npz"]
    assert kernelgpa("simulate", "-o", "scans.csv", "--clouds", 6, "--landmarks", 60, *names)[0] == 0
    return kernelgpa


def test_demo_leaves_a_table_a_report_and_a_picture(kernelgpa, tmp_path):
    code, printed, _ = kernelgpa("demo", "-o", "demo")
    assert code == 0
    for word in ("rigid", "affine", "thin-plate", "kernel", "map error", "report.html"):
        assert word in printed
    assert sorted(path.name for path in (tmp_path / "demo").iterdir()) == sorted([*FILES, "clouds.png"])
    assert imread(tmp_path / "demo" / "clouds.png").std() > 0.05  # something is drawn


def test_a_folder_of_other_files_is_refused_before_any_work(kernelgpa, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("x")
    for command in (["demo"], ["register", "scans.csv"]):
        code, _, errors = kernelgpa(*command, "-o", "mine")
        assert code == 2
        assert errors == "kernelgpa: mine holds files that are not part of a result (thesis.txt); give a new folder\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_worked_examples(kernelgpa, command):
    code, printed, _ = kernelgpa(command, "--help")
    assert code == 0
    assert printed.count(f"kernelgpa {command}") >= 2


def test_the_commands_are_listed(kernelgpa):
    printed = kernelgpa("--help")[1]
    assert all(command in printed for command in COMMANDS)


def test_version(kernelgpa):
    assert __version__ in kernelgpa("--version")[1]


# -- register --


def test_register_writes_a_result_and_prints_only_the_result(scans, tmp_path):
    code, printed, words = scans("register", "scans.csv", "-o", "out", "--unit", "mm")
    assert code == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == FILES
    assert "matched by their labels" in words
    assert "matched" not in printed
    assert "report: out/report.html" in printed
    assert "mm" in printed
    assert_allclose(load("out").map_, KernelGPA().fit(io.read_clouds(["scans.csv"]).observations).map_, atol=1e-12)


@pytest.mark.parametrize(
    ("options", "model"),
    [
        (["--method", "rigid", "--scaling"], "RigidGPA(scaling=True)"),
        (["--method", "affine", "--modes", "program"], "AffineGPA(modes='program')"),
        (["--method", "tps", "--control-points", "4", "--smoothing", "2"], "TPSGPA(control_points=4, smoothing=2.0)"),
        (["--kernel", "matern52", "--modes", "5"], "KernelGPA(kernel='matern52', modes=5)"),
        (["--robust", "tukey", "--inducing", "20"], "KernelGPA(inducing=20, robust='tukey')"),
    ],
)  # fmt: skip
def test_options_reach_the_method_and_the_settings_run_again(scans, options, model):
    assert scans("register", "scans.csv", "-o", "out", *options)[0] == 0
    assert repr(load("out")) == model
    assert scans("register", "--config", "out/settings.toml", "-o", "again")[0] == 0
    assert repr(load("again")) == model
    assert_allclose(load("again").map_, load("out").map_, rtol=0, atol=1e-12)


def test_options_override_the_settings_file(scans):
    scans("register", "scans.csv", "-o", "out", "--bandwidth", "0.6")
    scans("register", "--config", "out/settings.toml", "-o", "again", "--smoothing", "3")
    assert repr(load("again")) == "KernelGPA(bandwidth=0.6, smoothing=3.0)"


def test_tuned_settings_are_resolved(scans, tmp_path):
    assert scans("register", "scans.csv", "-o", "out", "--tune", "--folds", "4")[0] == 0
    method = tomllib.loads((tmp_path / "out" / "settings.toml").read_text())["method"]
    assert method["bandwidth"] == load("out").bandwidth
    assert "tune" not in method
    assert "Tuning" in (tmp_path / "out" / "report.html").read_text()


def test_register_prints_json(scans):
    code, printed, _ = scans("register", "scans.csv", "-o", "out", "--json")
    assert code == 0
    assert json.loads(printed)["clouds"] == 6


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["register", "-o", "out"], "no file is given"),
        (["register", "nothing.csv", "-o", "out"], "nothing.csv: there is no such file"),
        (["register", "scans.csv", "-o", "out", "--method", "rigid", "--kernel", "x"], "rigid has no setting kernel"),
        (["register", "scans.csv", "-o", "out", "--bandwidth", "-1"], "--bandwidth is -1.0"),
        (["register", "scans.csv", "-o", "out", "--kernel", "cosine"], "kernel 'cosine' is unknown"),
        (["register", "scans.csv", "-o", "out", "--method", "rigid", "--tune"], "nothing to tune"),
        (["register", "--config", "scans.csv", "-o", "out"], "it is not valid TOML"),
        (["register", "scans.csv", "-o", "scans.csv"], "scans.csv is a file"),
        (["register", "scans.zip", "-o", "out"], "no known format"),
        (["warp", "nowhere", "scans.csv", "--cloud", "a"], "there is no such file"),
        (["evaluate", "nowhere", "scans.csv"], "there is no such file"),
        (["convert", "scans.csv", "-o", "x.ply"], "one cloud per file"),
        (["convert", "scans.csv", "-o", "x", "--to", ".zip"], "expected one of"),
        (["tune", "scans.csv", "--bandwidth", "a,b"], "expected numbers"),
        (["tune", "scans.csv", "--method", "rigid"], "nothing to tune"),
        (["simulate", "-o", "x.csv", "--hidden", "2"], "hidden"),
    ],
)  # fmt: skip
def test_known_errors_are_one_line_and_exit_2(scans, tmp_path, arguments, message):
    before = sorted(tmp_path.iterdir())
    code, printed, errors = scans(*arguments)
    last = errors.strip().splitlines()[-1]
    assert code == 2
    assert last.startswith("kernelgpa: ")
    assert message in last
    assert "Traceback" not in errors
    assert printed == ""
    assert sorted(tmp_path.iterdir()) == before


def test_verbose_prints_the_traceback(scans):
    code, _, errors = scans("register", "nothing.csv", "-o", "out", "--verbose")
    assert code == 2
    assert "Traceback" in errors


def test_the_error_for_a_missing_column_names_it(scans, tmp_path):
    rows = list(csv.reader((tmp_path / "scans.csv").read_text().splitlines()))
    (tmp_path / "lost.csv").write_text("\n".join(",".join(row[:1] + row[2:]) for row in rows))
    code, _, errors = scans("register", "lost.csv", "-o", "out")
    assert code == 2
    assert "line 1" in errors
    assert "landmark" in errors


def test_warnings_are_printed_once_and_are_notes_of_the_report(scans, tmp_path):
    contents = io.read("scans.csv")
    contents.clouds[2].points[:, 0] *= -1
    io.write("mirrored.csv", contents)
    code, _, words = scans("register", "mirrored.csv", "-o", "out")
    assert code == 0
    assert words.count("warning: cloud 'cloud3' is a mirror image") == 1
    assert any("mirror image" in note for note in json.loads((tmp_path / "out" / "summary.json").read_text())["notes"])


def test_completion_completes_commands():
    """As bash asks for it, with the line typed so far in the environment."""
    code = "import sys; sys.argv = ['kernelgpa']; from kernelgpa.cli import main; main()"
    asked = {"_KERNELGPA_COMPLETE": "complete_bash", "COMP_WORDS": "kernelgpa reg", "COMP_CWORD": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ, **asked}
    )
    assert done.stdout.split() == ["register"]


def test_a_typed_option_wins_or_is_an_error(scans):
    """None is dropped silently, whatever the format."""
    for words, found in (
        (["--missing", "-999"], "--missing -999 is the value of no point"),
        (["--frames", "3"], "--frames is '3'; expected first:end"),
        (["--frames", "900:"], "it has no frame in 900:"),
        (["--markers", "nothing*"], "no label matches 'nothing*'"),
        (["--match", "number", "--label-pattern", "("], "--label-pattern is '(', which is no regular expression"),
        (["--curves"], "--curves is for TPS files, and none is given"),
        (["--merge"], "--merge is True, but no two files"),
        (["--metadata", "absent.csv"], "absent.csv: there is no such file"),
        (["--links", "absent.csv"], "absent.csv: there is no such file"),
        (["--procrustes", "total"], "--procrustes is 'total'; expected one of registered, partial, full"),
    ):
        code, _, errors = scans("register", "scans.csv", "-o", "out", "--method", "rigid", *words)
        assert found in errors, errors
        assert code == (0 if "no point" in found else 2)


def test_the_ape_skulls_are_registered_from_their_files(kernelgpa, tmp_path):
    apes = SHARED / "data" / "landmarks" / "apes"
    if not apes.exists():
        pytest.skip("the ape skulls are not beside this checkout")
    code, printed, words = kernelgpa("register", *sorted(apes.glob("*.mrk.json")), "-o", "out")
    assert code == 0
    assert (
        "51 specimens, 41 landmarks in 3D, 100% of all pairs of a specimen and a landmark seen; "
        "landmarks matched by the number at the end of their labels" in words
    )
    assert "mm" in printed
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert (summary["frame"], summary["unit"], summary["matched_by"]) == ("LPS", "mm", "number")


# -- warp and evaluate --


def test_points_go_into_the_map_and_back(scans, tmp_path):
    scans("register", "scans.csv", "-o", "out")
    gpa, surface = load("out"), io.read("surface.npz").clouds[2]
    faces = np.array([[0, 1, 2], [5, 6, 7]], dtype=np.intp)
    mesh = io.LandmarkFile((io.LabelledCloud("m", surface.points, surface.labels),), labelled=False, faces=faces)
    for name in ("m.ply", "m.obj", "m.off", "m.vtk"):
        io.write(name, mesh)
        code, printed, _ = scans("warp", "out", name, "--cloud", "cloud3")
        assert code == 0
        target = printed.strip()
        assert target == name.replace(".", "-warped.")
        warped = io.read(target)
        assert_allclose(warped.clouds[0].points, gpa.transform(surface.points, "cloud3"), rtol=0, atol=1e-12)
        assert np.array_equal(warped.faces, faces)
    code, _, _ = scans("warp", "out", "m-warped.ply", "--cloud", "2", "--inverse", "-o", "back.csv")
    assert code == 0
    back = io.read("back.csv").clouds[0].points
    known = ~np.isnan(back[:, 0])
    assert known.mean() > 0.9
    assert_allclose(back[known], surface.points[known], rtol=0, atol=1e-6)
    assert scans("warp", "out", "m.ply", "--cloud", "cloud99")[0] == 2
    for odd in ("²", "--5", "9" * 5000):
        assert scans("warp", "out", "m.ply", f"--cloud={odd}")[0] == 2


def test_of_a_file_with_many_clouds_only_the_named_one_is_warped(scans):
    scans("register", "scans.csv", "-o", "out")
    assert scans("warp", "out", "surface.npz", "--cloud", "cloud3", "-o", "w.npz")[0] == 0
    found = io.read("w.npz")
    assert [one.name for one in found.clouds] == ["cloud3"]
    assert scans("warp", "out", "w.npz", "--cloud", "cloud5", "--inverse", "-o", "b.npz")[0] in (0, 2)
    contents = io.read("scans.csv")
    io.write("two.csv", io.LandmarkFile(contents.clouds[:2], labelled=True))
    code, _, errors = scans("warp", "out", "two.csv", "--cloud", "cloud3", "-o", "x.csv")
    assert code == 2
    assert "none of them 'cloud3'" in errors


def test_options_that_are_given_are_not_tuned(scans):
    assert scans("register", "scans.csv", "-o", "out", "--tune", "--folds", "4", "--bandwidth", "0.33")[0] == 0
    assert load("out").bandwidth == 0.33


def test_a_unit_other_than_the_files_own_is_refused(scans, tmp_path):
    scans("convert", "scans.csv", "-o", "many", "--to", "mrk.json")
    files = sorted((tmp_path / "many").iterdir())
    text = files[0].read_text()
    for path in files:
        path.write_text(path.read_text().replace('"coordinateSystem"', '"coordinateUnits": "mm", "coordinateSystem"'))
    assert text != files[0].read_text()
    code, _, errors = scans("register", *files, "-o", "out", "--unit", "inch")
    assert code == 2
    assert "but the files are in 'mm'" in errors


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[method]\nname = [1]", "[method] name is"),
        ("[method]\ntune = 'no'", "[method] tune is 'no'; expected true or false"),
        ("[input]\nmissing = true", "[input] missing is"),
        ("[input]\nnegative_is_missing = 'no'", "[input] negative_is_missing is"),
        ("[output]\nunit = 5", "[output] unit is '5'; expected a text"),
        ("[output]\nuni = 'mm'", "[output] has unknown keys uni"),
        ("a = " + "[" * 5000, "not valid TOML"),
        ("[input]\nmissing = 1" + "0" * 5000, "not valid TOML"),
        ("[input]\nmissing = 1" + "0" * 400, "[input] missing is"),
    ],
)
def test_a_settings_file_is_checked(scans, tmp_path, text, message):
    (tmp_path / "s.toml").write_text(text)
    code, _, errors = scans("register", "scans.csv", "--config", "s.toml", "-o", "out")
    assert code == 2
    assert message in errors


def test_tuned_settings_include_how_files_were_read(scans, tmp_path):
    contents = io.read("scans.csv")
    io.write("codes.tps", io.files.drop_unsupported(contents, ".tps")[0])
    options = ["--negative-is-missing", "--bandwidth", "0.5", "--smoothing", "0.1", "--rounds", "0", "--folds", "4"]
    assert scans("tune", "codes.tps", *options, "-o", "s.toml")[0] == 0
    assert tomllib.loads((tmp_path / "s.toml").read_text())["input"]["negative_is_missing"] is True


def test_names_do_not_control_the_terminal(scans):
    contents = io.read("scans.csv")
    evil = tuple(io.LabelledCloud(f"\x1b]0;{one.name}\x07", one.points, one.labels) for one in contents.clouds)
    io.write("evil.csv", io.LandmarkFile(evil, labelled=True))
    for arguments in (
        ["info", "evil.csv"],
        ["register", "evil.csv", "-o", "out"],
        ["warp", "out", "evil.csv", "--cloud", "x"],
    ):
        _, printed, words = scans(*arguments)
        assert "\x1b" not in printed + words


def test_evaluate_measures_points_that_the_result_was_not_fitted_to(scans):
    scans("register", "scans.csv", "-o", "out", "--unit", "mm")
    code, printed, _ = scans("evaluate", "out", "surface.npz", "--truth", "truth.csv", "--json")
    assert code == 0
    evaluation = json.loads(printed)
    assert (evaluation["points"], evaluation["clouds"], evaluation["unit"]) == (2002, 6, "mm")
    assert 0 < evaluation["disagreement"]["median"] < 5
    assert evaluation["map_error"] < 10
    assert "sensor-frame error" in scans("evaluate", "out", "surface.npz")[1]
    contents = io.read("surface.npz")
    io.write(
        "strange.csv", io.LandmarkFile((io.LabelledCloud("stranger", *vars_of(contents.clouds[0])),), labelled=True)
    )
    code, _, errors = scans("evaluate", "out", "strange.csv")
    assert code == 2
    assert "'stranger' is not in the result" in errors


def vars_of(specimen):
    return specimen.points, specimen.labels


# -- tune, convert, info, simulate --


def test_register_uses_tuned_settings(scans):
    options = ["--bandwidth", "0.2,0.5", "--smoothing", "0.1", "--rounds", "0", "--folds", "4"]
    code, printed, _ = scans("tune", "scans.csv", *options, "-o", "settings.toml", "--json")
    assert code == 0
    tuned = json.loads(printed)
    assert len(tuned["trials"]) == 2
    assert scans("register", "--config", "settings.toml", "-o", "out")[0] == 0
    assert load("out").bandwidth == tuned["best"]["bandwidth"]
    assert "2 settings tried" in scans("tune", "scans.csv", *options)[1]


def test_convert_writes_one_file_or_one_for_each_cloud(scans, tmp_path):
    assert scans("convert", "scans.csv", "-o", "scans.npz")[0] == 0
    assert_allclose(
        io.read_clouds(["scans.npz"]).observations.points, io.read_clouds(["scans.csv"]).observations.points
    )
    code, printed, _ = scans("convert", "scans.csv", "-o", "many", "--to", "mrk.json")
    assert code == 0
    assert len(printed.splitlines()) == 6
    again = io.read_clouds(sorted((tmp_path / "many").iterdir()))
    assert_allclose(again.observations.points, io.read_clouds(["scans.csv"]).observations.points)
    words = scans("convert", "scans.csv", "-o", "scans.tps")[2]
    assert "cannot hold landmark labels" in words
    code, _, errors = scans("convert", "scans.csv", "-o", "many", "--to", "mrk.json")
    assert code == 2
    assert "exists already" in errors


@pytest.mark.parametrize("name", ["../../evil", "/etc/passwd", "a\0b", "..", "", "x" * 300, "con/../y"])
def test_names_of_clouds_stay_in_their_folder(name, tmp_path):
    made = tmp_path / f"{file_name(name)}.csv"
    assert made.resolve().parent == tmp_path.resolve()
    made.write_text("x")


def test_info_describes_files(scans):
    code, printed, _ = scans("info", "scans.csv", "truth.csv")
    assert code == 0
    assert "scans.csv: CSV, 6 clouds, 60 landmarks, 3D" in printed
    assert "all files: 7 clouds, 60 landmarks matched by their labels" in printed
    described = json.loads(scans("info", "scans.csv", "--json")[1])
    assert described["files"][0]["clouds"] == 6
    assert described["matching"]["matched_by"] == "label"


def test_wrong_matches_can_be_simulated(kernelgpa):
    kernelgpa("simulate", "-o", "a.csv", "--clouds", 4, "--landmarks", 40)
    kernelgpa("simulate", "-o", "b.csv", "--clouds", 4, "--landmarks", 40, "--wrong", 0.2)
    one, other = (io.read(name).clouds[0].points for name in ("a.csv", "b.csv"))
    assert 0 < np.mean(np.abs(one - other)[~np.isnan(one)] > 0) < 0.5


def test_interrupting_is_one_line_and_130(kernelgpa, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(RigidGPA, "fit", interrupted)
    kernelgpa("simulate", "-o", "a.csv", "--clouds", 4, "--landmarks", 40)
    code, _, errors = kernelgpa("register", "a.csv", "-o", "out", "--method", "rigid")
    assert code == 130
    assert errors.splitlines()[-1] == "kernelgpa: interrupted; nothing was written"


def test_too_little_memory_is_one_line_with_a_remedy(scans, monkeypatch):
    def exhausted(*_):
        raise MemoryError

    monkeypatch.setattr(KernelGPA, "fit", exhausted)
    code, _, errors = scans("register", "scans.csv", "-o", "out")
    assert code == 2
    expected = "kernelgpa: there is not enough memory; use fewer landmarks or clouds, or --inducing"
    assert errors.splitlines()[-1] == expected


# -- disks that are full or closed --


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


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("convert", "interrupted; files already written are complete"),
        ("stream", "interrupted; files already written are complete"),
        ("register", "interrupted; nothing was written"),
    ],
)
def test_an_interrupt_does_not_deny_files_that_were_written(command, message, monkeypatch, capsys):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr(sys, "argv", ["kernelgpa", command])
    with pytest.raises(SystemExit) as end:
        main(interrupted)
    assert end.value.code == 130
    assert capsys.readouterr().err == f"kernelgpa: {message}\n"


@pytest.mark.parametrize(
    ("message", "printed"),
    [
        ("mend the matches, or use robust='geman-mcclure'", "mend the matches, or use --robust geman-mcclure"),
        ("poorly connected: see diagnose()", "poorly connected: see the report"),
        ('use modes="auto" here', "use --modes auto here"),
        ("control_points=3 is too few", "--control-points 3 is too few"),
        ("bandwidth is -1.0; expected more", "--bandwidth is -1.0; expected more"),
        ("with modes=5.", "with --modes 5."),
        ("it was KernelGPA(modes=5, bandwidth=2.0)", "it was KernelGPA(modes=5, bandwidth=2.0)"),
        ("the bandwidth is large", "the bandwidth is large"),
        ("a-modes=1.csv: there is no such file", "a-modes=1.csv: there is no such file"),
    ],
)
def test_messages_name_the_options_of_the_command_line(message, printed):
    assert with_option_names(message) == printed

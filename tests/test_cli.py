"""Every command, as a user runs it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread
from numpy.testing import assert_allclose

from kernelgpa import KernelGPA, RigidGPA, __version__, io, load
from kernelgpa.cli import main
from kernelgpa.cli.convert import file_name
from kernelgpa.cli.messages import with_option_names
from result_folders import FILES

COMMANDS = ["demo", "register", "warp", "evaluate", "tune", "simulate", "convert", "info", "reproduce", "stream"]


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


def test_verbose_prints_the_traceback(scans):
    code, _, errors = scans("register", "nothing.csv", "-o", "out", "--verbose")
    assert code == 2
    assert "Traceback" in errors


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
        assert target == str(Path("warped") / name)  # not beside the input, which may be registered again
        warped = io.read(target)
        assert_allclose(warped.clouds[0].points, gpa.transform(surface.points, "cloud3"), rtol=0, atol=1e-12)
        assert np.array_equal(warped.faces, faces)
    code, _, _ = scans("warp", "out", "warped/m.ply", "--cloud", "2", "--inverse", "-o", "back.csv")
    assert code == 0
    back = io.read("back.csv").clouds[0].points
    known = ~np.isnan(back[:, 0])
    assert known.mean() > 0.9
    assert_allclose(back[known], surface.points[known], rtol=0, atol=1e-6)
    assert scans("warp", "out", "m.ply", "--cloud", "cloud99")[0] == 2
    code, _, printed = scans("warp", "out", "warped/m.ply", "--cloud", "cloud3")
    assert (code, "warped/m.ply would be replaced; give --output" in printed) == (2, True)
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


# -- convert, info, simulate --


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


# -- interrupts, memory, messages --


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
        ("correct the matches, or use robust='geman-mcclure'", "correct the matches, or use --robust geman-mcclure"),
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

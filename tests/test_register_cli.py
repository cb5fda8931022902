"""``kernelgpa register`` as a user runs it: options, settings files, tuning, warnings and errors."""

from __future__ import annotations

import csv
import json
import tomllib

import pytest
from numpy.testing import assert_allclose

from kernelgpa import KernelGPA, io, load
from result_folders import FILES
from shared_data import SHARED


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
    assert load("again").get_params() == load("out").registration_.settings  # numbers in place of automatic settings
    assert_allclose(load("again").map_, load("out").map_, rtol=0, atol=1e-12)


def test_options_override_the_settings_file(scans):
    scans("register", "scans.csv", "-o", "out", "--bandwidth", "0.6")
    scans("register", "--config", "out/settings.toml", "-o", "again", "--smoothing", "3")
    again = load("again")
    assert (again.bandwidth, again.smoothing) == (0.6, 3.0)


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
        (["register", "scans.zip", "-o", "out"], "there is no such file"),
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


def test_options_that_are_given_are_not_tuned(scans):
    assert scans("register", "scans.csv", "-o", "out", "--tune", "--folds", "4", "--bandwidth", "0.33")[0] == 0
    assert load("out").bandwidth == 0.33


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


def test_register_uses_tuned_settings(scans):
    options = ["--bandwidth", "0.2,0.5", "--smoothing", "0.1", "--rounds", "0", "--folds", "4"]
    code, printed, _ = scans("tune", "scans.csv", *options, "-o", "settings.toml", "--json")
    assert code == 0
    tuned = json.loads(printed)
    assert [one["model"] for one in tuned["trials"]].count("KernelGPA") == 2
    assert scans("register", "--config", "settings.toml", "-o", "out")[0] == 0
    assert load("out").bandwidth == tuned["best"]["bandwidth"]
    assert "5 settings tried" in scans("tune", "scans.csv", *options)[1]
